//! Asks the daemon about the refresh of an agent's sign-in: the daemon has the user's copy, holds
//! the lock while the gateway asks the token host, and stores the answer.
//!
//! The keeper's own connection to the socket for guests, which no program inside can open.

use super::guest_api::reach_with;
use crate::guests::keeper_greeting;
use crate::plan::Plan;
use crate::wire::{RenewalAnswer, RenewalRequest};
use holm_proxy::gateway::{NewTokens, Renewing};
use holm_secrets::Value;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Another workspace may hold the lock while it asks the token host.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn begin(plan: &Plan, agent: &str, have: &Value) -> io::Result<Renewing> {
    let door = plan.guests.as_ref().ok_or(io::ErrorKind::NotConnected)?;
    let daemon = reach_with(door, &keeper_greeting(&plan.id, &door.secret))?;
    daemon.set_read_timeout(Some(PATIENCE))?;
    let begin = RenewalRequest::Begin {
        agent: agent.to_owned(),
        have: have.clone(),
    };
    let newer = match ask(&daemon, &begin)? {
        RenewalAnswer::Ask => None,
        RenewalAnswer::Renewed(tokens) => Some(tokens),
        RenewalAnswer::Refused(why) => return Err(io::Error::other(why)),
    };
    Ok(Renewing { daemon, newer })
}

pub fn end(renewing: Renewing, tokens: &NewTokens) -> io::Result<NewTokens> {
    match ask(&renewing.daemon, &RenewalRequest::Store(tokens.clone()))? {
        RenewalAnswer::Renewed(tokens) => Ok(tokens),
        RenewalAnswer::Refused(why) => Err(io::Error::other(why)),
        RenewalAnswer::Ask => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn ask(mut daemon: &UnixStream, request: &RenewalRequest) -> io::Result<RenewalAnswer> {
    let mut line = zeroize::Zeroizing::new(serde_json::to_vec(request)?);
    line.push(b'\n');
    daemon.write_all(&line)?;
    let mut answer = zeroize::Zeroizing::new(String::new());
    BufReader::new(daemon).read_line(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}
