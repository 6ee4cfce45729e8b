//! Headless browsers that `holm open` started and left running. Each is recorded beside its profile
//! (`browsers/<id>/<profile>.json`), so that it can be ended: with all workspaces by `daemon stop
//! --all`, and when its own workspace is removed. The user closes windows.
//!
//! A profile belongs to the user who typed `open`, so the daemon ends browsers of its own user, and
//! the command ends those of the caller.

use holm_keeper::wire::Incarnation;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::path::Path;
use std::time::Duration;

/// For a browser to save its state.
const PATIENCE: Duration = Duration::from_secs(5);

/// Records the browser of this profile, which leads a process group.
pub fn note(profile: &Path, pid: u32) -> io::Result<()> {
    let number = i32::try_from(pid).map_err(io::Error::other)?;
    // It has ended meanwhile.
    let Some(browser) = Incarnation::of(number) else {
        return Ok(());
    };
    std::fs::write(
        profile.with_extension("json"),
        serde_json::to_vec(&browser)?,
    )
}

/// Ends the browsers of the selected workspaces, and returns when they are gone. Blocks.
pub fn end(profiles: &Path, is_meant: &dyn Fn(&str) -> bool) {
    let workspaces = std::fs::read_dir(profiles).into_iter().flatten().flatten();
    let meant = workspaces.filter(|entry| entry.file_name().to_str().is_some_and(is_meant));
    let files = meant.flat_map(|entry| std::fs::read_dir(entry.path()).into_iter().flatten());
    let mut running = Vec::new();
    for file in files.flatten().map(|entry| entry.path()) {
        if file.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        match browser(&file) {
            Ok(browser) => {
                signal(&browser, Signal::TERM);
                running.push((browser, file));
            }
            Err(error) => tracing::warn!(%error, file = %file.display(), "not understood"),
        }
    }
    for (browser, file) in running {
        if !browser.ends_within(PATIENCE) {
            signal(&browser, Signal::KILL);
            browser.ends_within(PATIENCE);
        }
        // A file that stays names a process that is gone.
        let _ = std::fs::remove_file(file);
    }
}

fn browser(file: &Path) -> io::Result<Incarnation> {
    Ok(serde_json::from_slice(&std::fs::read(file)?)?)
}

/// Signals all of its processes: the first may be a script that only waits for the others.
fn signal(browser: &Incarnation, signal: Signal) {
    if let Some(group) = Pid::from_raw(browser.pid).filter(|_| browser.is_alive()) {
        // It may have ended meanwhile.
        let _ = kill_process_group(group, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};

    fn sleeper(script: &str) -> Child {
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .process_group(0)
            .spawn()
            .unwrap()
    }

    #[test]
    fn those_that_are_meant_end_and_others_stay() {
        let directory = tempfile::tempdir().unwrap();
        let start = |workspace: &str, script: &str| {
            let profile = directory.path().join(workspace).join("chromium-headless");
            std::fs::create_dir_all(&profile).unwrap();
            let child = sleeper(script);
            note(&profile, child.id()).unwrap();
            child
        };
        let mut meant = start("one", "exec sleep 1000");
        let mut other = start("two", "exec sleep 1000");
        // A pid that was reused by another process.
        let mut stranger = sleeper("exec sleep 1000");
        let mut file = Incarnation::of(stranger.id() as i32).unwrap();
        file.started -= 1;
        let stale = directory.path().join("one/firefox-headless.json");
        std::fs::write(&stale, serde_json::to_vec(&file).unwrap()).unwrap();
        std::fs::write(directory.path().join("one/broken.json"), "{").unwrap();
        end(directory.path(), &|workspace| workspace == "one");
        assert!(meant.try_wait().unwrap().is_some());
        assert!(!stale.exists());
        assert!(other.try_wait().unwrap().is_none());
        assert!(stranger.try_wait().unwrap().is_none());
        end(directory.path(), &|_| true);
        assert!(other.try_wait().unwrap().is_some());
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
}
