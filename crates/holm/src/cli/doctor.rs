//! `holm doctor`: checks this machine. It asks the running daemon, because the daemon's rights
//! decide what workspaces get: systemd or root may have delegated control groups to it that this
//! shell lacks. Without a daemon this program runs the checks itself and starts none.

use super::output::{BAD, GOOD, HINT, WARNING, printable};
use super::{Context, Outcome, connect, launch, wiring};
use clap::Args;
use holm_api::daemon::Doctor;
use holm_config::daemon_user::DaemonUser;
use holm_config::policy::PolicyFile;
use holm_core::Fault;
use holm_core::fitness::Status;
use std::process::ExitCode;
use std::time::Duration;

/// Check whether this machine can keep workspaces apart, and say how to get what is missing
///
/// Everything is tried, not assumed: by the daemon, if one runs, because it makes the workspaces;
/// otherwise from here. Exit code 0 when everything required is there, 4 otherwise.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm doctor\n  holm doctor --json")]
pub struct DoctorArgs {}

/// The exit code when a requirement is missing: refused.
const NOT_FIT: u8 = 4;

/// How long a daemon may take for all checks.
const PATIENCE: Duration = Duration::from_secs(30);

pub fn run(context: &Context, _: DoctorArgs) -> Outcome {
    let user = DaemonUser::current()?;
    if matches!(user, DaemonUser::Service(_)) {
        // What root can do says nothing about what the daemon's user can do.
        let json: &[&str] = if context.output.is_json() {
            &["doctor", "--json"]
        } else {
            &["doctor"]
        };
        return Err(launch::replace(&user, json));
    }
    let doctor = match connect::block_on(asked())? {
        Some(doctor) => doctor.with_own(wiring::basics()),
        None => {
            let mut checks = wiring::probe(&user.paths()?.data_dir)?;
            checks.push(PolicyFile::of_machine().check());
            Doctor::new(checks, None)
        }
    };
    context.output.result(&doctor, || render(&doctor));
    Ok(if doctor.ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NOT_FIT)
    })
}

/// The running daemon's result. A daemon that hangs says nothing about the machine.
async fn asked() -> Result<Option<Doctor>, Fault> {
    let asked = async { connect::running().await?.doctor().await };
    let answered = tokio::time::timeout(PATIENCE, asked).await;
    Ok(answered.ok().and_then(Result::ok))
}

fn render(doctor: &Doctor) -> String {
    let width = doctor.checks.iter().map(|check| check.name.chars().count());
    let width = width.max().unwrap_or(0);
    let mut text = String::new();
    for check in &doctor.checks {
        let (style, mark) = match (check.status, check.required) {
            (Status::Ok, _) => (GOOD, "✓"),
            (Status::Missing, true) => (BAD, "✗"),
            _ => (WARNING, "!"),
        };
        let name = printable(&check.name);
        let detail = printable(&check.detail);
        text.push_str(&format!("{style}{mark}{style:#} {name:width$}  {detail}\n"));
        if let Some(fix) = &check.fix {
            for line in fix.lines() {
                let line = printable(line);
                text.push_str(&format!("  {:width$}  {HINT}→{HINT:#} {line}\n", ""));
            }
        }
    }
    text.push_str(&match doctor.daemon {
        Some(pid) => format!("\nTried by the daemon that runs (pid {pid}).\n"),
        None => "\nNo daemon answered, so this was tried from here.\n".to_owned(),
    });
    text.push_str(if doctor.ok {
        "This machine is fit: everything required is there.\n"
    } else {
        "This machine is not fit yet: something required is missing (✗).\n"
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use holm_core::fitness::Check;

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
        let text = anstream::adapter::strip_str(&render(&doctor)).to_string();
        assert_eq!(
            text,
            "✓ overlay          probed\n\
             ✗ user namespaces  probed\n\
             \u{20}                  → run a\n\
             \u{20}                  → then b\n\
             ! landlock         probed\n\
             \nNo daemon answered, so this was tried from here.\n\
             This machine is not fit yet: something required is missing (✗).\n"
        );
        let asked = render(&Doctor {
            daemon: Some(7),
            ..doctor
        });
        assert!(asked.contains("by the daemon that runs (pid 7)"), "{asked}");
    }
}
