//! Delivers notifications: a command, a webhook, the desktop, as the user's settings say. A program inside chose the text,
//! so the text is only ever JSON on stdin, a JSON body, or an escaped argument behind `--`.
//!
//! Nothing waits for a delivery. A failure is logged and told as the event `notify.failed`.

use super::super::App;
use holm_api::inbox::InboxItem;
use holm_config::user::Notify;
use holm_core::notify::{Delivery, without_markup};
use holm_core::{Fault, WorkspaceId, fault};
use holm_engine::try_blocking;
use holm_keeper::roots;
use holm_proxy::post::post_json;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

/// The event of a failure.
pub const FAILED: &str = "notify.failed";

/// How long a command or a webhook may take.
const LIMIT: Duration = Duration::from_secs(10);

/// The variables that a command gets: those that programs of the user need to find themselves and the desktop.
const VARIABLES: [&str; 8] = [
    "HOME",
    "PATH",
    "LANG",
    "USER",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
];

/// The most bytes of a failed command's stderr that are told.
const MOST_STDERR: u64 = 500;

/// Tests use a shorter time (`HOLM_TEST_NOTIFY_LIMIT_MS=300`).
fn limit() -> Duration {
    if !cfg!(debug_assertions) {
        return LIMIT;
    }
    let asked = std::env::var("HOLM_TEST_NOTIFY_LIMIT_MS").ok();
    let asked = asked.and_then(|milliseconds| milliseconds.parse().ok());
    asked.map_or(LIMIT, Duration::from_millis)
}

// === impl App ===

impl App {
    pub(super) async fn notify_settings(&self) -> Result<Notify, Fault> {
        let (file, home) = (self.paths.config_file.clone(), self.home());
        let settings = try_blocking(move || holm_config::user::load(&file, &home)).await?;
        Ok(settings.notify)
    }

    /// Starts the delivery to every channel.
    pub(super) fn deliver(self: &Arc<Self>, settings: &Arc<Notify>, delivery: Delivery<InboxItem>) {
        let (app, settings) = (Arc::clone(self), Arc::clone(settings));
        tokio::spawn(async move {
            // The semaphore is never closed.
            let _turn = app.inbox.turns.acquire().await;
            let Ok(workspace) = WorkspaceId::parse(&delivery.message.workspace) else {
                return;
            };
            let document = document(&delivery);
            let home = app.home();
            if let Some(argv) = &settings.command {
                let done = run(argv, Some(&document), &home).await;
                app.note_delivery(&workspace, &delivery, "command", done)
                    .await;
            }
            if let Some(url) = &settings.webhook {
                let posting = post_json(url, document.into_bytes(), roots::certificates);
                let done = match tokio::time::timeout(limit(), posting).await {
                    Ok(done) => done.map_err(|error| fault::with_causes(&error)),
                    Err(_) => Err("it did not answer in time".to_owned()),
                };
                app.note_delivery(&workspace, &delivery, "webhook", done)
                    .await;
            }
            if settings.desktop {
                let done = run(&on_desktop(&delivery), None, &home).await;
                app.note_delivery(&workspace, &delivery, "desktop", done)
                    .await;
            }
        });
    }

    async fn note_delivery(
        &self,
        workspace: &WorkspaceId,
        delivery: &Delivery<InboxItem>,
        channel: &str,
        done: Result<(), String>,
    ) {
        let Err(error) = done else { return };
        let item = &delivery.message;
        tracing::warn!(%workspace, channel, %error, "a notification was not delivered");
        let detail = json!({
            "channel": channel, "error": error, "id": item.id,
            "label": item.label, "project": item.project, "reason": item.reason,
        });
        self.events.emit(workspace, FAILED, detail).await;
    }
}

/// The item, and how many others of its workspace were held back.
fn document(delivery: &Delivery<InboxItem>) -> String {
    let mut document = serde_json::to_value(&delivery.message).unwrap_or_default();
    if let Value::Object(fields) = &mut document {
        fields.insert("more".to_owned(), json!(delivery.more));
    }
    document.to_string() + "\n"
}

fn on_desktop(delivery: &Delivery<InboxItem>) -> Vec<String> {
    let item = &delivery.message;
    let title = format!("{}/{}: {}", item.project, item.label, item.reason.as_str());
    let more = match delivery.more {
        0 => String::new(),
        more => format!(" ({more} more)"),
    };
    let body = without_markup(&item.text) + &more;
    let words = ["notify-send", "--app-name=holm", "--", &title, &body];
    words.map(str::to_owned).to_vec()
}

/// Runs a program of the user's settings without a shell. Its environment has nothing of a workspace.
async fn run(argv: &[String], input: Option<&str>, home: &Path) -> Result<(), String> {
    let Some((program, arguments)) = argv.split_first() else {
        return Err("the command is empty".to_owned());
    };
    let variables = VARIABLES.iter();
    let variables = variables.filter_map(|name| Some((name, std::env::var_os(name)?)));
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(variables)
        .current_dir(home)
        .stdin(input.map_or_else(Stdio::null, |_| Stdio::piped()))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // So that whatever it started ends with it.
        .process_group(0)
        .kill_on_drop(true);
    let mut child = command
        .spawn()
        .map_err(|error| format!("cannot start {program}: {error}"))?;
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let work = async {
        if let (Some(mut stdin), Some(input)) = (stdin, input) {
            // A program that does not read its input says by its exit code whether that is right.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        let mut stderr_text = Vec::new();
        if let Some(stderr) = stderr {
            // If stderr cannot be read, the message goes without it.
            let _ = stderr.take(MOST_STDERR).read_to_end(&mut stderr_text).await;
        }
        (child.wait().await, stderr_text)
    };
    let Ok((ended, stderr_text)) = tokio::time::timeout(limit(), work).await else {
        if let Some(pid) = pid {
            // It has ended meanwhile, or is ended now.
            let _ = kill_process_group(pid, Signal::KILL);
        }
        return Err(format!("{program} did not end in time and was killed"));
    };
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            let stderr_text = String::from_utf8_lossy(&stderr_text);
            Err(format!(
                "{program} ended with {status}: {}",
                stderr_text.trim()
            ))
        }
        Err(error) => Err(format!("{program} cannot be waited for: {error}")),
    }
}
