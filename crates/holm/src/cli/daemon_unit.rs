//! `holm daemon install`: a systemd user unit, so that the daemon runs from login on.

use super::output::{FAINT, GOOD, printable_lines};
use super::{Context, Outcome};
use clap::Args;
use holm_config::daemon_user::DaemonUser;
use holm_core::{Code, Fault};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write a systemd user unit for the daemon, after showing it
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    holm daemon install\n  \
    holm daemon install --print > holm.service")]
pub struct InstallArgs {
    /// Print the unit and write nothing
    #[arg(long)]
    print: bool,
}

pub fn run(context: &Context, arguments: &InstallArgs) -> Outcome {
    let unit = unit(
        &program()?,
        std::env::var_os("HOLM_HOME").map(PathBuf::from),
    );
    if arguments.print {
        let document = serde_json::json!({ "unit": unit });
        context.output.result(&document, || unit.clone());
        return Ok(ExitCode::SUCCESS);
    }
    if rustix::process::geteuid().is_root() {
        return Err(Fault::new(
            Code::Refused,
            "a user unit of root would run the daemon for root's own login only",
            "run `holm daemon install` as the user who uses holm",
        ));
    }
    let path = unit_path()?;
    let shown = printable_lines(&unit);
    context
        .output
        .remark(&format!("{FAINT}# {}{FAINT:#}\n{shown}\n", path.display()));
    write(&path, &unit)?;
    let document = serde_json::json!({ "path": path.to_string_lossy(), "unit": unit });
    context.output.done(&document, || {
        format!(
            "{GOOD}✓{GOOD:#} written to {}\n  start it with `systemctl --user daemon-reload && \
             systemctl --user enable --now holm`",
            path.display()
        )
    });
    Ok(ExitCode::SUCCESS)
}

fn program() -> Result<PathBuf, Fault> {
    std::env::current_exe().map_err(|error| {
        let message = "cannot tell where this program is";
        Fault::new(Code::Internal, message, "run it by its whole path").because(error)
    })
}

/// The text of the unit. Stopping it ends only the daemon: workspaces outlive it. It needs a
/// delegated cgroup to set limits.
fn unit(program: &Path, home: Option<PathBuf>) -> String {
    let environment = match home.filter(|home| !home.as_os_str().is_empty()) {
        Some(home) => {
            format!(
                "Environment={}\n",
                quoted(&format!("HOLM_HOME={}", home.display()))
            )
        }
        None => String::new(),
    };
    format!(
        "[Unit]\n\
         Description=holm daemon: an island for every agent\n\
         \n\
         [Service]\n\
         ExecStart={} daemon run\n\
         {environment}\
         Restart=on-failure\n\
         KillMode=process\n\
         Delegate=yes\n\
         DelegateSubgroup=daemon\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n",
        quoted(&program.display().to_string())
    )
}

/// Quotes a word for systemd.
fn quoted(word: &str) -> String {
    let escaped = word
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('%', "%%")
        .replace('$', "$$");
    format!("\"{escaped}\"")
}

fn unit_path() -> Result<PathBuf, Fault> {
    let environment = DaemonUser::Caller.environment();
    let set = |name: &str| {
        let value = environment.get(name).map(PathBuf::from);
        value.filter(|path| path.is_absolute())
    };
    let config = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")));
    match config {
        Some(config) => Ok(config.join("systemd/user/holm.service")),
        None => Err(Fault::new(
            Code::PathNotFound,
            "cannot tell where your configuration is: neither XDG_CONFIG_HOME nor HOME is set",
            "set HOME, or use `holm daemon install --print`",
        )),
    }
}

/// Writes beside the old file and renames, so that there is never a partial unit.
fn write(path: &Path, unit: &str) -> Result<(), Fault> {
    let failed = |error: std::io::Error| {
        Fault::new(
            Code::ReadOnly,
            format!("cannot write {}", path.display()),
            "`holm daemon install --print` prints the unit",
        )
        .because(error)
    };
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(failed)?;
    }
    let fresh = path.with_extension(format!("service.{}", std::process::id()));
    std::fs::write(&fresh, unit).map_err(failed)?;
    std::fs::rename(&fresh, path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_survives_odd_paths() {
        let text = unit(
            Path::new("/opt/my \"tools\"/100%/holm"),
            Some("/srv/h".into()),
        );
        assert!(
            text.contains("ExecStart=\"/opt/my \\\"tools\\\"/100%%/holm\" daemon run\n"),
            "{text}"
        );
        assert!(
            text.contains("Environment=\"HOLM_HOME=/srv/h\"\n"),
            "{text}"
        );
        assert!(text.contains("KillMode=process\n"));
        assert!(!unit(Path::new("/usr/bin/holm"), None).contains("Environment"));
    }
}
