//! Agents whose connections the gateway cannot inspect (`direct`): they get the sign-in as it is, without what
//! refreshes it. So the client has the agent's own program refresh it on this machine before the agent starts.

use super::ls::warn;
use super::output::printable;
use super::{Context, connect};
use holm_config::daemon_user::DaemonUser;
use holm_config::known_agents::{parse, table};
use holm_core::agents::known::KnownAgent;
use holm_core::{Cause, Fault};
use jiff::Timestamp;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;

/// A sign-in that ends within this time is refreshed.
const SOON: Duration = Duration::from_secs(600);

/// How long a refresh may take.
const LIMIT: Duration = Duration::from_secs(30);

/// Refreshes the sign-in of a direct agent, if it ends soon. A failure is told, and the agent starts with what
/// there is.
pub fn refresh(context: &Context, agent: Option<&str>) -> Result<(), Fault> {
    let user = DaemonUser::current()?;
    let settings = user.settings()?;
    let default = settings.default_agent.as_ref().map(|name| name.as_str());
    let Some(name) = agent.or(default) else {
        return Ok(());
    };
    let Some(known) = table().agents.get(name) else {
        return Ok(());
    };
    let mut own = settings.agents.iter();
    let own = own.find(|(key, _)| key.as_str() == name);
    let own = own.map(|(_, agent)| agent);
    let command = own.and_then(|agent| agent.refresh.as_ref());
    let command = command.unwrap_or(&known.refresh);
    let is_direct = known.direct || own.is_some_and(|agent| agent.direct);
    let home = user.home()?;
    if !is_direct || command.is_empty() || !ends_soon(known, &home) {
        return Ok(());
    }
    let shown = printable(&command.join(" "));
    let failed = match execute(command, &home, LIMIT) {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().last().unwrap_or_default();
            format!("it ended with {}: {}", output.status, printable(last))
        }
        Err(error) => error.to_string(),
    };
    let note = format!(
        "`{shown}` did not refresh {}'s sign-in: {failed}",
        known.title
    );
    warn(context, &note);
    Ok(())
}

/// Runs the command, and ends it if it takes too long: it may wait for an answer that will not come.
fn execute(command: &[String], home: &Path, limit: Duration) -> Result<Output, Cause> {
    let mut words = command.iter();
    let mut program = Command::new(words.next().map_or("", String::as_str));
    program.args(words).current_dir(home).stdin(Stdio::null());
    program.kill_on_drop(true);
    let ran = connect::block_on(async { Ok(timeout(limit, program.output()).await) });
    match ran? {
        Ok(output) => Ok(output?),
        Err(_) => Err(format!("it was ended after {} s", limit.as_secs()).into()),
    }
}

/// Whether a file of the sign-in ends soon, or does not say when.
fn ends_soon(known: &KnownAgent, home: &Path) -> bool {
    known.sign_ins.iter().any(|listed| {
        let text = std::fs::read_to_string(home.join(&listed.file)).ok();
        let document = text.and_then(|text| parse(&listed.file, &text).ok());
        let Some(document) = document else {
            return false;
        };
        let ends = listed.expires_ms.as_ref();
        let ends = ends.and_then(|pointer| document.pointer(pointer)?.as_i64());
        let now = Timestamp::now().as_millisecond();
        ends.is_none_or(|ends| ends < now + i64::try_from(SOON.as_millis()).unwrap_or(0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refresh_that_does_not_end_is_ended() {
        let home = Path::new("/");
        let command = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let waits: Vec<String> = command(&["sleep", "1000"]);
        let error = execute(&waits, home, Duration::ZERO).unwrap_err();
        assert_eq!(error.to_string(), "it was ended after 0 s");
        let ends: Vec<String> = command(&["sh", "-c", "echo no network >&2; exit 3"]);
        let output = execute(&ends, home, LIMIT).unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(output.stderr, b"no network\n");
    }
}
