//! A service that runs from an image: its room, program and environment, and how it ends.
//!
//! It ends as in other container programs: its first process gets the image's stop signal, and when that has ended, or
//! after the grace period, everything else in the room is killed.

use crate::inside::MARK;
use crate::keeper::place::ROOT;
use crate::keeper::program;
use crate::keeper::rooms::Room;
use crate::keeper::secrets::Receiver;
use crate::keeper::{Registry, Started};
use crate::room::RoomPlan;
use crate::stdio::NOTHING;
use crate::wire::{Domain, Spawn, StdStream};
use holm_core::shell;
use holm_core::spec::Service;
use std::io::{self, PipeReader};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// As container programs set it when an image does not.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Variables of the workspace that programs of images get, besides `HOLM_…`.
const TAKEN_OVER: [&[u8]; 2] = [b"TERM", b"TZ"];

/// The open room of one run.
#[derive(Clone)]
pub struct Entered {
    pub room: Arc<Room>,
    plan: RoomPlan,
    domain: Domain,
}

/// Makes the room of a service; `None`: the service has no image.
pub fn enter(registry: &Arc<Registry>, service: &Service) -> io::Result<Option<Entered>> {
    if service.image.is_none() {
        return Ok(None);
    }
    let plan = registry.room_plan(&service.name);
    let plan = plan.ok_or_else(|| io::Error::other("the keeper does not know its image"))?;
    let files = registry
        .secrets
        .files_of(Some(Receiver::Service(&service.name)));
    let room = Room::open(registry, plan, files)?;
    Ok(entered(registry, service, room))
}

/// The room of a service that runs.
pub fn entered(registry: &Registry, service: &Service, room: Arc<Room>) -> Option<Entered> {
    let plan = registry.room_plan(&service.name)?;
    // A room shows only the secret files of its service, so no rule has to hide others. Where programs of people run, it
    // shows those of all receivers.
    let domain = match registry
        .secrets
        .domain(Some(Receiver::Service(&service.name)))
    {
        Domain::OwnReading(_) if plan.home_of.is_none() => Domain::Own,
        other => other,
    };
    Some(Entered { room, plan, domain })
}

/// Ends the program and everything else in its room. Returns when nothing is left.
pub fn end(registry: &Registry, room: &Room, leader: i32, signal: Option<(i32, Duration)>) {
    if let Some((signal, grace)) = signal {
        room.signal(leader, signal);
        registry.wait_for_end(room, leader, grace);
    }
    room.end(registry);
}

// === impl Entered ===

impl Entered {
    /// The image's entrypoint with the image's command, or with the service's own.
    pub fn argv(&self, service: &Service) -> Vec<Vec<u8>> {
        let start = &self.plan.start;
        let command = match service.run.as_str() {
            "" => start.command.clone(),
            // An entrypoint may look at the first word of its command, which a shell would hide.
            run => shell::plain_words(run).unwrap_or_else(|| in_shell(run)),
        };
        let words = start.entrypoint.iter().cloned().chain(command);
        words.map(String::into_bytes).collect()
    }

    /// What programs of the image expect, then the image's variables, then the service's.
    pub fn environment(&self, registry: &Registry, service: &Service) -> Vec<(Vec<u8>, Vec<u8>)> {
        let bytes = |(name, value): &(String, String)| (name.clone().into(), value.clone().into());
        let mut environment: Vec<(Vec<u8>, Vec<u8>)> = vec![
            (b"PATH".to_vec(), PATH.into()),
            (b"HOME".to_vec(), self.room.home().into()),
        ];
        let own = program::environment(registry, None, Vec::new()).into_iter();
        environment.extend(own.filter(|(name, _)| {
            let is_holms = name.starts_with(b"HOLM_") && name != ROOT;
            is_holms || TAKEN_OVER.contains(&name.as_slice())
        }));
        let tree = self.plan.tree.as_ref();
        environment.extend(tree.map(|tree| (ROOT.to_vec(), tree.as_os_str().as_bytes().to_vec())));
        environment.extend(self.plan.start.environment.iter().map(bytes));
        environment.extend(service.env.iter().map(bytes));
        if let Some(container) = service.container() {
            environment.extend(container.environment.iter().map(bytes));
        }
        environment.push((MARK.into(), service.name.clone().into()));
        environment
    }

    /// The directory of the service's own files on the host.
    pub fn own(&self) -> &Path {
        &self.plan.own
    }

    /// The tree that the room is for.
    pub fn tree_number(&self) -> u64 {
        self.plan.home_of.unwrap_or_default()
    }

    /// Where the room shows our program for helpers.
    pub fn helper(&self) -> Option<&Path> {
        self.plan.helper.as_deref()
    }

    /// A program that is started in the room.
    pub fn spawn(
        &self,
        argv: Vec<Vec<u8>>,
        env: Vec<(Vec<u8>, Vec<u8>)>,
        streams: [StdStream; 3],
    ) -> Spawn {
        let tree = self
            .plan
            .tree
            .as_ref()
            .map(|tree| tree.display().to_string());
        let directory = tree.or_else(|| self.plan.start.directory.clone());
        Spawn {
            sequence: 0,
            argv,
            env,
            cwd: directory.unwrap_or_else(|| "/".to_owned()).into_bytes(),
            terminal: None,
            domain: self.domain.clone(),
            streams: Some(streams),
            is_run: false,
            user: self.room.user().cloned(),
        }
    }

    /// Runs the readiness program once. Its exit code comes on the pipe.
    pub fn probe(
        &self,
        registry: &Registry,
        service: &Service,
        argv: Vec<String>,
    ) -> io::Result<(i32, PipeReader)> {
        let (exit, exit_inside) = io::pipe()?;
        let argv = argv.into_iter().map(String::into_bytes);
        let env = self.environment(registry, service);
        let spawn = self.spawn(argv.collect(), env, NOTHING);
        match registry.start_in_room(&self.room, spawn, exit_inside)? {
            Started::Running { pid, .. } => Ok((pid, exit)),
            Started::Not { cause, .. } => Err(io::Error::other(cause)),
        }
    }
}

/// A shell command as the words of a program.
pub fn in_shell(command: &str) -> Vec<String> {
    ["/bin/sh", "-c", command].map(str::to_owned).to_vec()
}
