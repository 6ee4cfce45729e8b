//! `holm doctor`: checks this machine. It asks the running daemon, because the daemon's rights
//! decide what workspaces get: systemd or root may have delegated control groups to it that this
//! shell lacks. Without a daemon this program runs the checks itself and starts none.

use super::output::{BAD, GOOD, HINT, WARNING, hanging, printable};
use super::{Context, Outcome, connect, launch, terminal, wiring};
use clap::Args;
use holm_api::daemon::Doctor;
use holm_config::daemon_user::DaemonUser;
use holm_config::policy::PolicyFile;
use holm_core::fitness::{Check, Status};
use holm_core::{Fault, Kind};
use std::process::ExitCode;
use std::time::Duration;

/// Check whether this machine can keep workspaces apart, and say how to get what is missing
///
/// Everything is tried, not assumed: by the daemon, if one runs, because it makes the workspaces;
/// otherwise from here. The verdict comes first, then what could be better; --all lists what is well, too. Exit
/// code 0 when everything required is there, 1 otherwise.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm doctor\n  holm doctor --all\n  holm doctor --json")]
pub struct DoctorArgs {
    /// List each part that is well, too
    #[arg(long)]
    all: bool,
}

/// How long a daemon may take for all checks.
const PATIENCE: Duration = Duration::from_secs(30);

pub fn run(context: &Context, arguments: DoctorArgs) -> Outcome {
    let user = DaemonUser::current()?;
    if matches!(user, DaemonUser::Service(_)) {
        // What root can do says nothing about what the daemon's user can do.
        let options = [
            ("--json", context.output.is_json()),
            ("--all", arguments.all),
        ];
        let options = options.iter().filter(|(_, is_set)| *is_set);
        let mut words = vec!["doctor"];
        words.extend(options.map(|(option, _)| *option));
        return Err(launch::replace(&user, &words));
    }
    let doctor = match connect::block_on(asked())? {
        Some(doctor) => doctor.with_own(wiring::basics()),
        None => {
            let mut checks = wiring::probe(&user.paths()?.data_dir)?;
            checks.push(PolicyFile::of_machine().check());
            Doctor::new(checks, None)
        }
    };
    let extent = if arguments.all {
        Extent::All
    } else {
        Extent::Trouble
    };
    let columns = terminal::columns_to_fill();
    context
        .output
        .facts(&doctor, || render(&doctor, extent, columns));
    Ok(if doctor.ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(Kind::Failed.exit_code())
    })
}

/// The running daemon's result. A daemon that hangs says nothing about the machine.
async fn asked() -> Result<Option<Doctor>, Fault> {
    let asked = async { connect::running().await?.doctor().await };
    let answered = tokio::time::timeout(PATIENCE, asked).await;
    Ok(answered.ok().and_then(Result::ok))
}

/// Which checks get a line of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    All,
    Trouble,
}

fn render(doctor: &Doctor, extent: Extent, columns: usize) -> String {
    let (well, trouble): (Vec<&Check>, Vec<&Check>) = doctor
        .checks
        .iter()
        .partition(|check| check.status == Status::Ok);
    let width = doctor.checks.iter().map(|check| check.name.chars().count());
    let width = width.max().unwrap_or(0);
    let mut text = verdict(doctor, trouble.len());
    for check in &trouble {
        let (style, mark) = match (check.status, check.required) {
            (Status::Missing, true) => (BAD, "✗"),
            _ => (WARNING, "▲"),
        };
        let (name, detail) = (printable(&check.name), printable(&check.detail));
        let before = format!("{style}{mark}{style:#} {name:width$}  ");
        text.push_str(&hanging(&before, &detail, columns));
        text.push('\n');
        let fixes = check.fix.iter().flat_map(|fix| fix.lines());
        for (row, line) in fixes.enumerate() {
            let head = if row == 0 { "fix" } else { "" };
            let line = printable(line);
            let before = format!("  {head:width$}  ");
            let line = format!("{HINT}{line}{HINT:#}");
            text.push_str(&hanging(&before, &line, columns));
            text.push('\n');
        }
    }
    if extent == Extent::All {
        for check in &well {
            let (name, detail) = (printable(&check.name), printable(&check.detail));
            let before = format!("{GOOD}✓{GOOD:#} {name:width$}  ");
            text.push_str(&hanging(&before, &detail, columns));
            text.push('\n');
        }
    } else if !well.is_empty() {
        let names: Vec<String> = well.iter().map(|check| printable(&check.name)).collect();
        let before = format!("{GOOD}✓{GOOD:#} ");
        text.push_str(&hanging(&before, &names.join(", "), columns));
        text.push('\n');
    }
    text.push_str(&match doctor.daemon {
        Some(pid) => format!("Tested by the running daemon (pid {pid}).\n"),
        None => "No daemon answered, so this was tested from here.\n".to_owned(),
    });
    text
}

fn verdict(doctor: &Doctor, trouble: usize) -> String {
    if !doctor.ok {
        let missing = doctor.checks.iter();
        let missing = missing.filter(|check| check.required && check.status == Status::Missing);
        let names: Vec<String> = missing.map(|check| printable(&check.name)).collect();
        let names = names.join(", ");
        return format!("{BAD}✗{BAD:#} this machine cannot isolate workspaces: no {names}\n");
    }
    let better = match trouble {
        0 => String::new(),
        1 => "; 1 thing could be better".to_owned(),
        more => format!("; {more} things could be better"),
    };
    let required = doctor.checks.iter().filter(|check| check.required);
    let parts = required.count();
    format!(
        "{GOOD}✓{GOOD:#} this machine can isolate workspaces: {parts} of {parts} parts{better}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, status: Status, required: bool, fix: Option<&str>) -> Check {
        Check {
            name: name.to_owned(),
            status,
            detail: "probed".to_owned(),
            fix: fix.map(str::to_owned),
            required,
        }
    }

    #[test]
    fn fixes_stand_below_what_they_fix() {
        let doctor = Doctor {
            ok: false,
            daemon: None,
            checks: vec![
                check("overlay", Status::Ok, true, None),
                check(
                    "user namespaces",
                    Status::Missing,
                    true,
                    Some("run a\nthen b"),
                ),
                check("landlock", Status::Missing, false, None),
            ],
        };
        let text = anstream::adapter::strip_str(&render(&doctor, Extent::Trouble, 80)).to_string();
        assert_eq!(
            text,
            "✗ this machine cannot isolate workspaces: no user namespaces\n\
             ✗ user namespaces  probed\n\
             \u{20} fix              run a\n\
             \u{20}                  then b\n\
             ▲ landlock         probed\n\
             ✓ overlay\n\
             No daemon answered, so this was tested from here.\n"
        );
        let asked = Doctor {
            daemon: Some(7),
            ok: true,
            ..doctor
        };
        let text = anstream::adapter::strip_str(&render(&asked, Extent::All, 80)).to_string();
        assert!(
            text.starts_with("✓ this machine can isolate workspaces: 2 of 2 parts; 2 things"),
            "{text}"
        );
        assert!(text.contains("✓ overlay          probed\n"), "{text}");
        assert!(text.contains("by the running daemon (pid 7)"), "{text}");
    }
}
