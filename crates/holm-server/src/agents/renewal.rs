//! A keeper's questions about the refresh of a sign-in. The daemon has the user's copy: it says
//! whether that is newer, and writes the token host's answer to it.
//!
//! The answer comes from the keeper, which asked the token host itself with the user's refresh
//! token. No file of a workspace and no word of a program inside is ever written to the user's copy.

use super::documents::text;
use super::sign_in::{Agent, Held, held, held_in};
use crate::App;
use crate::secrets::happening;
use holm_config::known_agents::{print, put_at, table};
use holm_core::agents::known::SignIn as Listed;
use holm_core::{Code, Fault, WorkspaceId};
use holm_engine::try_blocking;
use holm_keeper::wire::{RenewalAnswer, RenewalRequest};
use holm_proxy::gateway::NewTokens;
use holm_secrets::Value;
use holm_secrets::audit::Happening;
use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::Mutex;

/// One refresh at a time: a refresh token is valid once.
static RENEWING: Mutex<()> = Mutex::const_new(());

/// How long a keeper may ask the token host.
const PATIENCE: Duration = Duration::from_secs(45);
const MOST_LINE: u64 = 1 << 20;

/// The sign-in that a keeper asks about.
struct Meant {
    agent: String,
    have: Value,
}

/// Serves one connection of a keeper.
pub async fn serve(app: &App, id: &WorkspaceId, stream: UnixStream) {
    if let Err(fault) = converse(app, id, stream).await {
        tracing::warn!(%id, %fault, "a sign-in was not refreshed");
    }
}

async fn converse(app: &App, id: &WorkspaceId, stream: UnixStream) -> Result<(), Fault> {
    let mut stream = BufReader::new(stream);
    let RenewalRequest::Begin { agent, have } = request(&mut stream).await? else {
        return Err(broken("it began with the end"));
    };
    let meant = Meant { agent, have };
    let _turn = RENEWING.lock().await;
    match app.newer(id, &meant).await {
        Ok(None) => answer(&mut stream, &RenewalAnswer::Ask).await?,
        Ok(Some(tokens)) => return answer(&mut stream, &RenewalAnswer::Renewed(tokens)).await,
        Err(fault) => {
            let why = RenewalAnswer::Refused(fault.message());
            answer(&mut stream, &why).await?;
            return Err(fault);
        }
    }
    let stored = tokio::time::timeout(PATIENCE, request(&mut stream)).await;
    // A token host that refused has nothing to store, and the keeper just closes.
    let Ok(Ok(RenewalRequest::Store(tokens))) = stored else {
        return Ok(());
    };
    let stored = app.store_renewed(id, &meant, tokens).await;
    let tokens = match &stored {
        Ok(tokens) => RenewalAnswer::Renewed(tokens.clone()),
        Err(fault) => RenewalAnswer::Refused(fault.message()),
    };
    answer(&mut stream, &tokens).await?;
    stored.map(drop)
}

async fn request(stream: &mut BufReader<UnixStream>) -> Result<RenewalRequest, Fault> {
    let mut line = zeroize::Zeroizing::new(String::new());
    let read = stream.take(MOST_LINE).read_line(&mut line).await;
    read.map_err(|error| broken(&error.to_string()))?;
    serde_json::from_str(&line).map_err(|_| broken("it is not a request"))
}

async fn answer(stream: &mut BufReader<UnixStream>, answer: &RenewalAnswer) -> Result<(), Fault> {
    let mut line = serde_json::to_vec(answer).map_err(|_| broken("no answer"))?;
    line.push(b'\n');
    let written = stream.write_all(&line).await;
    written.map_err(|error| broken(&error.to_string()))
}

fn broken(why: &str) -> Fault {
    let message = format!("a keeper's question about a sign-in broke off: {why}");
    Fault::new(Code::Internal, message, "see the daemon's log")
}

// === impl App ===

impl App {
    /// The tokens of the user's copy, if that is newer than what the keeper has. The keeper gets
    /// its values before this returns.
    async fn newer(&self, id: &WorkspaceId, meant: &Meant) -> Result<Option<NewTokens>, Fault> {
        let spec = self.engine.spec(id).await?;
        let agents = table().agents.get(&meant.agent);
        let known = agents.ok_or_else(|| broken("the agent is not known"))?;
        let refreshed = known
            .sign_ins
            .iter()
            .filter(|listed| listed.refresh.is_some());
        for listed in refreshed {
            let Some(held) = held(listed, &spec.home) else {
                continue;
            };
            if held.refresh.as_ref() == Some(&meant.have) {
                return Ok(None);
            }
            if held.refresh.is_some() {
                return self.tell(id, meant, listed).await.map(Some);
            }
        }
        let message = format!("{} is not signed in on this machine any more", known.title);
        Err(Fault::new(
            Code::InvalidSecret,
            message,
            "sign in again on this machine",
        ))
    }

    async fn store_renewed(
        &self,
        id: &WorkspaceId,
        meant: &Meant,
        tokens: NewTokens,
    ) -> Result<NewTokens, Fault> {
        let spec = self.engine.spec(id).await?;
        let known = table().agents.get(&meant.agent);
        let known = known.ok_or_else(|| broken("the agent is not known"))?;
        let is_meant = |listed: &&Listed| {
            held(listed, &spec.home).is_some_and(|held| held.refresh.as_ref() == Some(&meant.have))
        };
        let listed = known.sign_ins.iter().find(is_meant).ok_or_else(|| {
            let message = "your copy of the sign-in changed meanwhile, and stays as it is";
            Fault::new(Code::Busy, message, "the agent tries again")
        })?;
        let (home, have) = (spec.home.clone(), meant.have.clone());
        try_blocking(move || {
            write(&home, listed, &have, &tokens).map_err(|error| {
                let message = format!("cannot write ~/{}", listed.file);
                Fault::new(Code::ReadOnly, message, "is the file yours?").because(error)
            })
        })
        .await?;
        let secrets = Arc::clone(&self.secrets);
        let noted = Happening {
            secret: Some(format!("{}/{}", meant.agent, listed.service)),
            workspace: Some(id.to_string()),
            receiver: Some(format!("~/{}", listed.file)),
            ..happening("refreshed", "holm")
        };
        try_blocking(move || {
            secrets.note(vec![noted]);
            Ok(())
        })
        .await?;
        self.tell(id, meant, listed).await
    }

    /// Gives the keeper what the user's copy has now, and returns the tokens for it.
    async fn tell(
        &self,
        id: &WorkspaceId,
        meant: &Meant,
        listed: &'static Listed,
    ) -> Result<NewTokens, Fault> {
        let spec = self.engine.spec(id).await?;
        let (keeping, name) = (Arc::clone(&self.secrets), meant.agent.clone());
        let (sign_ins, tokens) = try_blocking(move || {
            let known = table().agents.get(&name);
            let agent = Agent {
                name: &name,
                known: known.ok_or_else(|| broken("the agent is not known"))?,
                spec: &spec,
                keeping: &keeping,
            };
            let held: Held = held(listed, &spec.home).ok_or_else(|| broken("it is gone"))?;
            let tokens = agent.new_tokens(listed, &held)?;
            Ok((agent.find(&BTreeMap::new())?.sign_ins, tokens))
        })
        .await?;
        let keeper = self.engine.keeper(id).await?;
        let agent = meant.agent.clone();
        keeper.set_sign_ins(agent, sign_ins, None).await?;
        Ok(tokens)
    }
}

/// Writes the new values to the user's copy: under a lock, by rename, with the copy before kept
/// beside it.
fn write(home: &Path, listed: &Listed, have: &Value, tokens: &NewTokens) -> io::Result<()> {
    let path = std::fs::canonicalize(home.join(&listed.file))?;
    let file = File::open(&path)?;
    flock(&file, FlockOperation::LockExclusive)?;
    let before = text(&path).map_err(io::Error::other)?;
    let mut document = serde_json::from_str(&before)?;
    let is_same = |held: Held| held.refresh.as_ref() == Some(have);
    if !held_in(listed, &document).is_some_and(is_same) {
        return Err(io::Error::other("it changed meanwhile, and stays as it is"));
    }
    let now = Timestamp::now();
    let mut put = |pointer: &Option<String>, value: Option<serde_json::Value>| {
        if let (Some(pointer), Some(value)) = (pointer, value) {
            put_at(&mut document, pointer, value);
        }
    };
    let text = |value: &Value| serde_json::Value::from(value.reveal());
    put(&Some(listed.access.clone()), Some(text(&tokens.access)));
    put(&listed.refresh, tokens.refresh.as_ref().map(text));
    put(&listed.identity, tokens.identity.as_ref().map(text));
    let expires = tokens
        .expires_in
        .and_then(|seconds| i64::try_from(seconds).ok());
    let expires = expires.map(|seconds| now.as_millisecond().saturating_add(seconds * 1000));
    put(&listed.expires_ms, expires.map(Into::into));
    put(&listed.refreshed_at, Some(now.to_string().into()));
    let after = print(&listed.file, &document).map_err(io::Error::other)?;
    replace(&with_end(&path, ".holm-previous"), &before)?;
    replace(&path, &after)
}

/// Replaces a file by rename, readable by its owner only.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let fresh = with_end(path, ".holm-new");
    match std::fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&fresh, path)
}

fn with_end(path: &Path, end: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn value(text: &str) -> Value {
        Value::parse(text.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn attack_197_a_copy_that_changed_meanwhile_stays() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("auth.json");
        let listed = Listed {
            service: "api".to_owned(),
            file: "auth.json".to_owned(),
            access: "/a/access".to_owned(),
            refresh: Some("/a/refresh".to_owned()),
            identity: None,
            expires_ms: Some("/a/expires".to_owned()),
            refreshed_at: Some("/last".to_owned()),
            keep: Vec::new(),
        };
        let before = json!({ "a": { "access": "a1", "refresh": "r1" }, "mine": [1] }).to_string();
        std::fs::write(&path, &before).unwrap();
        let tokens = NewTokens {
            access: value("a2"),
            refresh: Some(value("r2")),
            identity: None,
            expires_in: Some(60),
        };
        // The keeper asked with another refresh token than the copy has.
        write(home.path(), &listed, &value("r0"), &tokens).unwrap_err();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), before);
        write(home.path(), &listed, &value("r1"), &tokens).unwrap();
        let after: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(after["a"]["access"], "a2");
        assert_eq!(after["a"]["refresh"], "r2");
        assert_eq!(after["mine"], json!([1]));
        assert!(after["a"]["expires"].as_i64().unwrap() > 0 && after["last"].is_string());
        let kept = std::fs::read_to_string(home.path().join("auth.json.holm-previous"));
        assert_eq!(kept.unwrap(), before);
        let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
}
