//! Commands of a Compose file that run in a service's room beside its own program: after that has started, and before it
//! is asked to end. They have no more rights than the program.

use super::Mailbox;
use super::image::Entered;
use super::log::{Log, lock, note};
use crate::keeper::{Registry, Started};
use crate::logs::{Stream, append, now};
use crate::stdio::OUTPUTS;
use crate::wire::Spawn;
use holm_core::container::Hook;
use holm_core::service::{Event, exit_in_words};
use holm_core::spec::Service;
use holm_secrets::mask::Masker;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

/// The stack of a thread that runs them.
const STACK: usize = 256 * 1024;

/// Longer lines are split.
const LONGEST_LINE: u64 = 16 * 1024;

/// Where the commands of one run belong.
#[derive(Clone)]
pub struct Beside {
    pub registry: Arc<Registry>,
    pub service: Arc<Service>,
    pub entered: Entered,
    pub log: Arc<Mutex<Log>>,
    pub mailbox: Mailbox,
}

// === impl Beside ===

impl Beside {
    /// Runs those for the start in a thread of their own.
    pub fn begin(self) {
        if self.hooks(|it| &it.post_start).is_empty() {
            return;
        }
        let name = self.service.name.clone();
        let thread = std::thread::Builder::new().stack_size(STACK);
        let spawned = thread.spawn(move || self.run_all("post_start", |it| &it.post_start));
        if let Err(error) = spawned {
            complain!("service {name}: cannot run post_start: {error}");
        }
    }

    /// Runs those for the end. Returns when the last has ended.
    pub fn end(&self) {
        self.run_all("pre_stop", |it| &it.pre_stop);
    }

    fn hooks(&self, of: impl Fn(&holm_core::container::Container) -> &Vec<Hook>) -> &[Hook] {
        self.service
            .container()
            .map_or(&[], |container| of(container))
    }

    /// The first that fails is the last.
    fn run_all(&self, key: &str, of: impl Fn(&holm_core::container::Container) -> &Vec<Hook>) {
        for hook in self.hooks(of) {
            note(&self.log, &format!("[{key}: {}]", hook.command.join(" ")));
            if !self.run_one(key, hook) {
                return;
            }
        }
    }

    /// Runs a command to its end. A failure is in the log, and users see it beside the state. Returns whether it
    /// succeeded.
    pub fn run_one(&self, key: &str, hook: &Hook) -> bool {
        let how = match self.run(hook) {
            Ok(0) => return true,
            Ok(code) => exit_in_words(code),
            Err(error) => format!("cannot be started: {error}"),
        };
        note(&self.log, &format!("[{key} {how}]"));
        self.mailbox.tell(Event::Remark(format!("{key} {how}")));
        false
    }

    fn run(&self, hook: &Hook) -> io::Result<u8> {
        let bytes = |(name, value): &(String, String)| (name.clone().into(), value.clone().into());
        let mut env = self.entered.environment(&self.registry, &self.service);
        env.extend(hook.environment.iter().map(bytes));
        let argv = hook.command.iter().map(|word| word.clone().into_bytes());
        let mut spawn = self.entered.spawn(argv.collect(), env, OUTPUTS);
        if let Some(directory) = &hook.directory {
            spawn.cwd = directory.clone().into_bytes();
        }
        self.follow(spawn)
    }

    /// Runs a program in the room to its end; its output goes to the service's log.
    pub fn run_program(
        &self,
        words: Vec<Vec<u8>>,
        env: Vec<(Vec<u8>, Vec<u8>)>,
        folder: Vec<u8>,
    ) -> io::Result<u8> {
        let mut spawn = self.entered.spawn(words, env, OUTPUTS);
        spawn.cwd = folder;
        self.follow(spawn)
    }

    fn follow(&self, spawn: Spawn) -> io::Result<u8> {
        let (mut exit, exit_inside) = io::pipe()?;
        let room = &self.entered.room;
        match self.registry.start_in_room(room, spawn, exit_inside)? {
            Started::Running { ends, .. } => {
                let streams = [Stream::Stdout, Stream::Stderr];
                std::thread::scope(|scope| {
                    for (end, stream) in ends.into_iter().zip(streams) {
                        let copy = move || self.copy(end, stream);
                        let thread = std::thread::Builder::new().stack_size(STACK);
                        thread.spawn_scoped(scope, copy)?;
                    }
                    io::Result::Ok(())
                })?;
            }
            Started::Not { cause, .. } => return Err(io::Error::other(cause)),
        }
        let mut code = [0];
        exit.read_exact(&mut code)?;
        Ok(code[0])
    }

    /// Copies an output to the log until it is closed.
    pub fn copy(&self, output: OwnedFd, stream: Stream) {
        let mut output = BufReader::new(File::from(output));
        let mut masker = Masker::new(self.registry.secrets.known());
        loop {
            let mut line = Vec::new();
            let read = output
                .by_ref()
                .take(LONGEST_LINE)
                .read_until(b'\n', &mut line);
            if !matches!(read, Ok(1..)) {
                return;
            }
            let mut text = masker.take(&line);
            text.extend(masker.finish());
            while text.last() == Some(&b'\n') {
                text.pop();
            }
            let mut records = Vec::new();
            append(&mut records, now(), stream, &text);
            lock(&self.log).write(&records, 1);
        }
    }
}
