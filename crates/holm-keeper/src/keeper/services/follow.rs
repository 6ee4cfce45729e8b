//! Services that follow files of the tree (`develop.watch` of a Compose file): starts the helper in the service's room and
//! does what it says is due. What the helper tells is hostile: at worst the service is restarted.

use super::STACK;
use super::hooks::Beside;
use super::log::note;
use crate::inside::{FOLLOW, ROLE, Told};
use crate::keeper::Started;
use crate::logs::Stream;
use crate::stdio::OUTPUTS;
use holm_core::container::{AfterChange, Watch};
use holm_core::service::Event;
use std::fs::File;
use std::io::{self, BufRead, BufReader, PipeReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::mpsc;
use std::time::Duration;

/// How long the first copies may take before the program starts anyway.
const ARMED_WITHIN: Duration = Duration::from_secs(60);

/// A longer line is not from the helper.
const LONGEST_LINE: u64 = 64 * 1024;

/// What is shown of a path or an error.
const LONGEST_TEXT: usize = 300;

/// The helper while it runs. Its exit is of no interest, but it has to have a place to go to.
struct Helper {
    outputs: Vec<OwnedFd>,
    _exit: PipeReader,
}

/// Starts to follow. Returns when no change is missed any more, so that the program can start.
pub fn begin(beside: &Beside) {
    let watches = beside.service.container().map_or(&[][..], |it| &it.watches);
    if watches.is_empty() {
        return;
    }
    let begun = start(beside, watches).and_then(|helper| {
        let (armed, is_armed) = mpsc::channel();
        let beside = beside.clone();
        let thread = std::thread::Builder::new().stack_size(STACK);
        thread.spawn(move || listen(&beside, helper, &armed))?;
        // The other side is dropped when the helper has ended, which is told then.
        let _ = is_armed.recv_timeout(ARMED_WITHIN);
        Ok(())
    });
    if let Err(error) = begun {
        failed(beside, &format!("the tree cannot be watched: {error}"));
    }
}

fn start(beside: &Beside, watches: &[Watch]) -> io::Result<Helper> {
    let program = beside.entered.helper();
    let program = program.ok_or_else(|| io::Error::other("the room does not show our program"))?;
    let argv = vec![
        program.as_os_str().as_bytes().to_vec(),
        ROLE.into(),
        FOLLOW.into(),
        serde_json::to_vec(watches)?,
    ];
    let environment = beside
        .entered
        .environment(&beside.registry, &beside.service);
    let spawn = beside.entered.spawn(argv, environment, OUTPUTS);
    let (exit, exit_inside) = io::pipe()?;
    let room = &beside.entered.room;
    match beside.registry.start_in_room(room, spawn, exit_inside)? {
        Started::Running { ends, .. } => Ok(Helper {
            outputs: ends,
            _exit: exit,
        }),
        Started::Not { cause, .. } => Err(io::Error::other(cause)),
    }
}

fn listen(beside: &Beside, helper: Helper, armed: &mpsc::Sender<()>) {
    let Ok([told, errors]) = <[OwnedFd; 2]>::try_from(helper.outputs) else {
        return;
    };
    std::thread::scope(|scope| {
        let copy = || beside.copy(errors, Stream::Stderr);
        let thread = std::thread::Builder::new().stack_size(STACK);
        if let Err(error) = thread.spawn_scoped(scope, copy) {
            complain!("no thread for what a helper says: {error}");
        }
        let mut told = BufReader::new(File::from(told));
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = told
                .by_ref()
                .take(LONGEST_LINE)
                .read_until(b'\n', &mut line);
            match read.ok().and_then(|_| serde_json::from_slice(&line).ok()) {
                Some(Told::Armed) => drop(armed.send(())),
                Some(told) => act(beside, told),
                // The room has ended, or a program in it ended the helper.
                None => return,
            }
        }
    });
}

/// One line of bounded length.
fn shown(text: &str) -> String {
    let plain = text.chars().filter(|c| !c.is_control());
    plain.take(LONGEST_TEXT).collect()
}

fn act(beside: &Beside, told: Told) {
    let say = |text: &str| note(&beside.log, &format!("[watch: {text}]"));
    match told {
        Told::Armed => {}
        Told::Copied { path, count, .. } => match (shown(&path), count) {
            (path, 1) => say(&format!("copied {path}")),
            (path, _) => say(&format!(
                "copied {path} and {} more",
                count.saturating_sub(1)
            )),
        },
        Told::Failed { why } => failed(beside, &shown(&why)),
        Told::Due { rule, path } => {
            let path = shown(&path);
            let watches = beside.service.container().map(|it| &it.watches);
            let rule = watches.and_then(|watches| watches.get(rule));
            match rule.map(|rule| &rule.then) {
                Some(AfterChange::Restart) => {
                    say(&format!("{path} changed, restarting"));
                    beside.mailbox.restart(&beside.service.name);
                }
                Some(AfterChange::Run(hook)) => {
                    say(&format!("{path} changed: {}", hook.command.join(" ")));
                    beside.run_one("watch", hook);
                }
                Some(AfterChange::Outdated) => {
                    let words = format!("its image is older than {path}");
                    say(&words);
                    beside.mailbox.tell(Event::Remark(words));
                }
                Some(AfterChange::Nothing) | None => {}
            }
        }
    }
}

/// Users see it in the log and beside the state.
fn failed(beside: &Beside, why: &str) {
    note(&beside.log, &format!("[watch failed: {why}]"));
    beside.mailbox.tell(Event::Remark(why.to_owned()));
}
