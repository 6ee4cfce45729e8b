//! The secrets of a running workspace: which process gets which, the files, expiry, and masking of
//! service output.
//!
//! Values exist only in the memory of the keeper and of their receivers. A value that was given out
//! stays masked while the keeper lives, even after it was replaced.

use super::Registry;
use super::outside::{Outside, Usable};
use super::sign_ins::SignIns;
use crate::guest::{SECRET_FILES, secret_directory};
use crate::plan::{LaunchFailure, Part, Plan};
use crate::wire::{Answer, Defence, Domain, Grant, SignIn};
use holm_core::config::Inject;
use holm_core::config::SETUP_RECEIVER;
use holm_core::run::Requester;
use holm_proxy::gateway::{Insertion, Paths, Placeholder};
use holm_secrets::Value;
use holm_secrets::audit::{Chain, EXPIRED, Happening};
use holm_secrets::authority::Leaf;
use holm_secrets::mask::Known;
use jiff::Timestamp;
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, renameat, symlinkat, unlinkat};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Modes of secret files: all programs are one user, or a service may read after it changed from root to another user.
const BY_OWNER: Mode = Mode::RUSR;
const BY_USERS: Mode = Mode::RUSR.union(Mode::RGRP).union(Mode::ROTH);
/// The interval of checks: time passes during suspension, but timers wait longer.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
const LEAST_PAUSE: Duration = Duration::from_millis(10);
const STACK: usize = 256 * 1024;

pub struct Secrets {
    state: Mutex<State>,
    changed: Condvar,
    /// The directory of the files; `None`: no secret is declared as a file.
    files: Option<OwnedFd>,
    file_mode: Mode,
    /// Whether programs are started in their own Landlock domains.
    is_apart: bool,
    /// Whether programs inside trust the gateway's CA.
    has_authority: bool,
    chain: Chain,
    workspace: String,
    /// Whether the thread runs that withdraws secrets in time.
    is_watched: AtomicBool,
}

struct State {
    grants: Vec<Held>,
    /// Every value that was ever given out here.
    values: Vec<Value>,
    known: Known,
    /// Of agents.
    sign_ins: SignIns,
}

/// A grant, and when it expires.
struct Held {
    grant: Grant,
    /// Since boot, so that setting the wall clock neither prolongs nor ends a value.
    ends: Option<Duration>,
}

/// What one receiver gets.
#[derive(Default)]
pub struct ReceiverSecrets {
    /// For its environment.
    pub variables: Vec<(Vec<u8>, Vec<u8>)>,
    /// All names, including files.
    pub received: Vec<(String, Inject)>,
}

/// The receiver that is started.
#[derive(Clone, Copy, Debug)]
pub enum Receiver<'a> {
    /// By name.
    Service(&'a str),
    /// By id.
    Run(&'a str),
    /// By id.
    Session(&'a str),
    /// A command of `setup`.
    Setup,
}

/// Keeps this process's memory out of core files and of the host's crash handler. The limit 1 means
/// neither.
pub fn keep_from_dumps() {
    // Only this process: a workspace has its own limit.
    let most = Rlimit {
        current: Some(1),
        ..getrlimit(Resource::Core)
    };
    // Lowering a limit is always allowed.
    let _ = setrlimit(Resource::Core, most);
}

// === impl Secrets ===

impl Secrets {
    /// Takes the values out of the plan.
    pub fn new(
        plan: &mut Plan,
        files: Option<OwnedFd>,
        landlock: bool,
    ) -> Result<Self, LaunchFailure> {
        let grants = std::mem::take(&mut plan.secrets);
        let is_forgone = plan.forgone.iter().any(|part| part == "landlock");
        // A token is worthless to a reader.
        let has_values = grants.iter().any(|grant| grant.form != Inject::Placeholder);
        if has_values && !landlock && !is_forgone {
            return Err(LaunchFailure {
                part: Part::Secrets,
                step: "keep secrets from the workspace's other programs".to_owned(),
                cause: "Landlock is not in force".to_owned(),
                errno: None,
            });
        }
        let has_users = plan.rooms.iter().any(|room| room.has_users);
        let secrets = Self {
            file_mode: if has_users { BY_USERS } else { BY_OWNER },
            is_apart: !grants.is_empty() && landlock && plan.has(Defence::OwnDomain),
            state: Mutex::new(State {
                grants: Vec::new(),
                values: Vec::new(),
                known: Known::none(),
                sign_ins: SignIns::default(),
            }),
            changed: Condvar::new(),
            files,
            has_authority: grants.iter().any(|grant| grant.form == Inject::Placeholder),
            chain: Chain::in_directory(&plan.audit),
            workspace: plan.id.clone(),
            is_watched: AtomicBool::new(false),
        };
        secrets.take_over(grants).map_err(|error| LaunchFailure {
            part: Part::Other,
            step: "put secrets into files".to_owned(),
            errno: error.raw_os_error(),
            cause: error.to_string(),
        })?;
        Ok(secrets)
    }

    /// Withdraws expired values, for as long as the keeper lives. A thread does it, once a value has an end.
    pub fn watch(&self, registry: &Arc<Registry>) {
        let ends = self.state().grants.iter().any(|held| held.ends.is_some());
        if !ends || self.is_watched.swap(true, Ordering::SeqCst) {
            return;
        }
        let registry = Arc::clone(registry);
        let thread = std::thread::Builder::new().stack_size(STACK);
        let spawned = thread.spawn(move || registry.secrets.withdraw_in_time(registry.outside()));
        if let Err(error) = spawned {
            complain!("secrets will not expire: {error}");
        }
    }

    /// The domain for a receiver, or for a program without secrets.
    pub fn domain(&self, receiver: Option<Receiver<'_>>) -> Domain {
        match (self.is_apart, &self.files) {
            (false, _) => return Domain::Shared,
            (true, None) => return Domain::Own,
            (true, Some(_)) => {}
        }
        Domain::OwnReading(self.files_of(receiver))
    }

    /// The names of the secret files that a receiver may read.
    pub fn files_of(&self, receiver: Option<Receiver<'_>>) -> Vec<String> {
        if self.files.is_none() {
            return Vec::new();
        }
        let state = self.state();
        let is_its = |grant: &&Grant| {
            grant.form == Inject::File && receiver.is_some_and(|receiver| receiver.is_in(&grant.to))
        };
        let its = state.grants.iter().map(|held| &held.grant).filter(is_its);
        its.map(|grant| grant.name.clone()).collect()
    }

    /// What a program gets that is started now.
    pub fn due(&self, receiver: Option<Receiver<'_>>) -> ReceiverSecrets {
        let (state, now) = (self.state(), since_boot());
        let mut given = ReceiverSecrets::default();
        let Some(receiver) = receiver else {
            return given;
        };
        for held in &state.grants {
            let grant = &held.grant;
            if held.has_expired(now) || !receiver.is_in(&grant.to) {
                continue;
            }
            let Some(text) = shown(grant) else {
                continue;
            };
            if grant.form != Inject::File {
                let variable = (grant.name.clone().into(), text.as_bytes().to_vec());
                given.variables.push(variable);
            }
            given.received.push((grant.name.clone(), grant.form));
        }
        given
    }

    /// The secrets that the gateway may use, with certificates for their hosts.
    pub fn placeholders(&self) -> Usable {
        self.state().placeholders()
    }

    /// Replaces the named parts of an agent's sign-in; none: all of it goes. It can be used until its last
    /// holder ends. Without a holder (a refresh) it changes only if there is one. Its values never enter the
    /// workspace; they are masked nevertheless.
    pub fn set_sign_ins(&self, agent: String, sign_ins: Vec<SignIn>, holder: Option<String>) {
        let mut state = self.state();
        let values = sign_ins.iter().map(|sign_in| sign_in.value.clone());
        let fresh: Vec<Value> = values.filter(|it| !state.values.contains(it)).collect();
        if !fresh.is_empty() {
            state.values.extend(fresh);
            state.known = Known::new(state.values.iter());
        }
        state.sign_ins.set(agent, sign_ins, holder);
    }

    /// A run or session has ended. Returns whether the gateway must learn that sign-ins ended with it.
    pub fn end_holder(&self, holder: &str) -> bool {
        self.state().sign_ins.end_holder(holder)
    }

    /// The values to mask in everything that is stored.
    pub fn known(&self) -> Known {
        self.state().known.clone()
    }

    /// Records which process got what.
    pub fn note_given(
        &self,
        receiver: Option<Receiver<'_>>,
        received: Vec<(String, Inject)>,
        pid: i32,
    ) {
        let Some(receiver) = receiver else {
            return;
        };
        let given = received.into_iter().map(|(name, form)| Happening {
            receiver: Some(receiver.word().to_owned()),
            which: receiver.which().map(str::to_owned),
            pid: Some(pid),
            ..self.happening("given", &name, form)
        });
        self.note(given.collect());
    }

    /// Replaces the secrets. Running programs keep what they have; files and programs that start
    /// later get the new values.
    pub fn set(&self, grants: Vec<Grant>) -> Answer {
        let has_file = grants.iter().any(|grant| grant.form == Inject::File);
        let has_standin = grants.iter().any(|grant| grant.form == Inject::Placeholder);
        let is_first = !grants.is_empty() && !self.is_apart && self.state().grants.is_empty();
        if has_standin && !self.has_authority {
            let why =
                "programs inside do not trust its certificates yet: it has to be started anew";
            return Answer::Refused(why.to_owned());
        }
        if is_first || (has_file && self.files.is_none()) {
            let why = "programs that run could read them: it has to be started anew".to_owned();
            return Answer::Refused(why);
        }
        match self.take_over(grants) {
            Ok(()) => Answer::Done,
            Err(error) => Answer::Refused(format!("secrets cannot be put into files: {error}")),
        }
    }

    fn take_over(&self, grants: Vec<Grant>) -> io::Result<()> {
        let mut state = self.state();
        let now = since_boot();
        let mut noted = Vec::new();
        let before = state.grants.iter().map(|held| &held.grant);
        for old in before.clone().filter(|old| old.value.is_some()) {
            let new = grants.iter().find(|new| new.name == old.name);
            let is_kept = new.is_some_and(|new| new.value.is_some() && new.form == old.form);
            if !is_kept {
                self.remove_file(old)?;
                noted.push(self.happening("withdrawn", &old.name, old.form));
            }
        }
        for grant in grants.iter().filter(|grant| grant.form == Inject::File) {
            self.make_directory(&grant.name)?;
        }
        let grants: Vec<Held> = grants
            .into_iter()
            .map(|grant| Held::new(grant, &state.grants, now))
            .collect();
        for held in &grants {
            let grant = &held.grant;
            let old = before.clone().find(|old| old.name == grant.name);
            let is_same = old.is_some_and(|old| old.value == grant.value && old.form == grant.form);
            let Some(value) = grant.value.as_ref().filter(|_| !held.has_expired(now)) else {
                continue;
            };
            if grant.form == Inject::File && !is_same {
                self.write_file(&grant.name, value)?;
                noted.push(self.happening("shown", &grant.name, Inject::File));
            }
        }
        let values: Vec<Value> = grants
            .iter()
            .filter_map(|held| held.grant.value.clone())
            .collect();
        let is_new = |value: &Value| !state.values.contains(value);
        let fresh: Vec<Value> = values.into_iter().filter(is_new).collect();
        if !fresh.is_empty() {
            state.values.extend(fresh);
            state.known = Known::new(state.values.iter());
        }
        state.grants = grants;
        drop(state);
        self.changed.notify_all();
        self.note(noted);
        Ok(())
    }

    fn withdraw_in_time(&self, outside: &Outside) {
        let mut state = self.state();
        loop {
            let now = since_boot();
            let mut noted = Vec::new();
            for held in &mut state.grants {
                let is_over = held.has_expired(now);
                let grant = &mut held.grant;
                if is_over && grant.value.take().is_some() {
                    if let Err(error) = self.remove_file(grant) {
                        complain!("the file of the secret {} stays: {error}", grant.name);
                    }
                    noted.push(self.happening(EXPIRED, &grant.name, grant.form));
                }
            }
            if !noted.is_empty() {
                outside.set_placeholders(state.placeholders());
            }
            if let Err(error) = self.chain.append_ends(&noted) {
                complain!("what happened to secrets cannot be written down: {error}");
            }
            let ends = state.grants.iter();
            let ends = ends.filter(|held| held.grant.value.is_some());
            let next = ends.filter_map(|held| held.ends).min();
            let left = next.map(|ends| ends.saturating_sub(now).max(LEAST_PAUSE));
            state = match left {
                Some(left) => {
                    let waited = self.changed.wait_timeout(state, left.min(LOOK_AGAIN));
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    let waited = self.changed.wait(state);
                    waited.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }

    /// The directory exists before the value, so that Landlock rules for its readers can name it.
    fn make_directory(&self, name: &str) -> io::Result<()> {
        let files = self.files.as_ref().ok_or(Errno::NOENT)?;
        match mkdirat(files, secret_directory(name), Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// A reader gets the old value or the new one.
    fn write_file(&self, name: &str, value: &Value) -> io::Result<()> {
        let files = self.files.as_ref().ok_or(Errno::NOENT)?;
        let directory = secret_directory(name);
        let (fresh, place) = (format!("{directory}/.new"), format!("{directory}/{name}"));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        remove_at(files, &fresh)?;
        let file = openat(files, &fresh, flags, self.file_mode)?;
        File::from(file).write_all(value.reveal().as_bytes())?;
        renameat(files, &fresh, files, &place)?;
        match symlinkat(&place, files, name) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn remove_file(&self, grant: &Grant) -> io::Result<()> {
        let (name, form) = (&grant.name, grant.form);
        match (&self.files, form) {
            (Some(files), Inject::File) => {
                remove_at(files, name)?;
                remove_at(files, &format!("{}/{name}", secret_directory(name)))
            }
            _ => Ok(()),
        }
    }

    fn happening(&self, event: &str, name: &str, form: Inject) -> Happening {
        Happening {
            time: now(),
            event: event.to_owned(),
            who: "holm".to_owned(),
            secret: Some(name.to_owned()),
            workspace: Some(self.workspace.clone()),
            form: Some(form.as_str().to_owned()),
            receiver: (form == Inject::File).then(|| format!("{SECRET_FILES}/{name}")),
            ..Happening::default()
        }
    }

    fn note(&self, happenings: Vec<Happening>) {
        if let Err(error) = self.chain.append(&happenings) {
            complain!("what happened to secrets cannot be written down: {error}");
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Held ===

impl Held {
    /// An unchanged value keeps its expiry, however the clock was set since.
    fn new(grant: Grant, before: &[Held], now: Duration) -> Self {
        let same = before.iter().find(|held| {
            let old = &held.grant;
            old.name == grant.name
                && old.expires_at == grant.expires_at
                && (old.value.is_none() || old.value == grant.value)
        });
        let ends = match (same, grant.expires_at) {
            (_, None) => None,
            (Some(same), Some(_)) => same.ends,
            (None, Some(time)) => {
                let left = Duration::from_secs(time).saturating_sub(since_epoch());
                Some(now + left)
            }
        };
        Self { grant, ends }
    }

    fn has_expired(&self, now: Duration) -> bool {
        self.ends.is_some_and(|ends| ends <= now)
    }
}

// === impl State ===

impl State {
    fn placeholders(&self) -> Usable {
        let now = since_boot();
        let usable = self.grants.iter().filter_map(|held| {
            let grant = &held.grant;
            let standin = grant.placeholder.as_ref()?;
            let placeholder = Placeholder {
                name: grant.name.clone(),
                token: standin.token.clone()?,
                value: grant.value.clone()?,
                hosts: standin.hosts.clone(),
                insertion: Insertion::Heads(Paths::All),
                // Before that the keeper withdraws it itself.
                expires_at: held
                    .ends
                    .map(|ends| SystemTime::now() + ends.saturating_sub(now)),
            };
            Some((placeholder, standin.leaves.clone()))
        });
        let (secrets, leaves): (Vec<_>, Vec<Vec<Leaf>>) =
            usable.chain(self.sign_ins.usable()).unzip();
        Usable {
            secrets,
            leaves: leaves.concat(),
        }
    }
}

/// What a receiver finds in its environment.
fn shown(grant: &Grant) -> Option<&str> {
    let value = grant.value.as_ref()?;
    match (grant.form, &grant.placeholder) {
        (Inject::Placeholder, Some(standin)) => standin.token.as_deref(),
        // Never the value when the token is missing.
        (Inject::Placeholder, None) => None,
        (Inject::Env | Inject::File, _) => Some(value.reveal()),
    }
}

// === impl Receiver ===

impl<'a> Receiver<'a> {
    /// `None`: a program inside requested it.
    pub fn of(self, asker: Requester) -> Option<Self> {
        (asker == Requester::User).then_some(self)
    }

    /// The name in `secrets.*.to`.
    fn word(self) -> &'a str {
        match self {
            Receiver::Service(name) => name,
            Receiver::Run(_) => "runs",
            Receiver::Session(_) => "sessions",
            Receiver::Setup => SETUP_RECEIVER,
        }
    }

    /// The id among receivers with the same name.
    fn which(self) -> Option<&'a str> {
        match self {
            Receiver::Service(_) | Receiver::Setup => None,
            Receiver::Run(id) | Receiver::Session(id) => Some(id),
        }
    }

    fn is_in(self, to: &[String]) -> bool {
        to.iter().any(|word| word == self.word())
    }
}

fn remove_at(files: &OwnedFd, place: &str) -> io::Result<()> {
    match unlinkat(files, place, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn since_epoch() -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    // A clock before the epoch: every value has its full time.
    now.unwrap_or_default()
}

/// The time since boot, including suspension.
fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

fn now() -> String {
    Timestamp::now().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(value: &str, expires_at: u64) -> Grant {
        Grant {
            name: "KEY".to_owned(),
            form: Inject::Env,
            to: Vec::new(),
            value: Some(Value::parse(value.into()).unwrap()),
            expires_at: Some(expires_at),
            placeholder: None,
        }
    }

    /// The wall clock is read once, when a value arrives: setting it later changes no expiry.
    #[test]
    fn a_value_that_is_told_again_keeps_its_end() {
        let now = Duration::from_secs(1000);
        let end = since_epoch().as_secs() + 60;
        let first = Held::new(grant("a", end), &[], now);
        let ends = first.ends.unwrap();
        assert!(ends > now && ends <= now + Duration::from_secs(60));
        assert!(!first.has_expired(now) && first.has_expired(ends));
        // As if the clock had been set back by an hour: the wall clock would give the value more
        // time.
        let later = now + Duration::from_secs(3600);
        let mut before = vec![first];
        assert_eq!(Held::new(grant("a", end), &before, later).ends, Some(ends));
        before[0].grant.value = None;
        assert_eq!(Held::new(grant("a", end), &before, later).ends, Some(ends));
        let other = Held::new(grant("b", end + 1), &before, later);
        assert!(!other.has_expired(later));
    }
}
