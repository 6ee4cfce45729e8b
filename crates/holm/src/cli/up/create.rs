//! Requests the workspaces from the daemon, all at once, and undoes them when the user cancels.

use super::prepare::{Prepared, prepare};
use super::{UpArgs, include, turn};
use crate::cli::left::Left;
use crate::cli::progress::{Coming, Progress};
use crate::cli::ready::{self, Display, Readied};
use crate::cli::secret;
use crate::cli::send::quoted;
use crate::cli::user_checkout::Checkout;
use crate::cli::{Context, resolve};
use futures_util::future::join_all;
use holm_api::client::Client;
use holm_api::workspace::{ChangedFile, CreateWorkspace, Dirty, Workspace};
use holm_core::layer::{is_build_output, is_warm};
use holm_core::reference::Candidate;
use holm_core::{Code, Fault, Label, WorkspaceId};
use holm_git::Cancel;
use std::cell::RefCell;
use std::future::Future;
use std::time::Duration;
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// One requested workspace.
pub struct Wish {
    /// `None`: the daemon generates one.
    pub label: Option<Label>,
    /// Return a live workspace with this label.
    pub is_reused: bool,
}

/// How long cancelled work may take to clean up.
const CLEAN_UP: Duration = Duration::from_millis(500);

// === impl Wish ===

impl Wish {
    pub fn new(label: Option<Label>) -> Self {
        Self {
            label,
            is_reused: false,
        }
    }
}

/// Creates all workspaces, or explains each failure.
pub async fn all(
    context: &Context,
    arguments: &UpArgs,
    wishes: &[Wish],
) -> Result<Vec<Result<Readied, Fault>>, Fault> {
    let (interrupt, interrupted) = watch::channel(false);
    let watching = watch_for_signals(interrupt)?;
    let work = async {
        let prepared = prepare_unless(context, arguments, interrupted.clone()).await?;
        if wishes.len() > 1 {
            refuse_taken(&prepared, wishes).await?;
        }
        let coming = prepared.coming.iter().cloned();
        let coming = coming.map(|(name, text)| Coming { name, text });
        let progress = Progress::new(context).expecting(coming.collect());
        let progress = RefCell::new(progress);
        let creations = wishes.iter().map(|wish| {
            let interrupted = interrupted.clone();
            one(arguments, &prepared, wish, &progress, interrupted)
        });
        let made = join_all(creations).await;
        match made.iter().find_map(|made| made.as_ref().err()) {
            Some(fault) if fault.code == Code::Cancelled => progress.borrow_mut().cancel(),
            Some(_) => progress.borrow_mut().fail(),
            None => {}
        }
        let setup = progress.borrow().time_of("setup");
        drop(progress);
        let display = |context| match wishes.len() {
            1 => Display::live(context),
            _ => Display::none(context),
        };
        let readied = made.into_iter().map(|made| {
            let (interrupted, prepared) = (interrupted.clone(), &prepared);
            async move {
                let ((workspace, left), display) = (made?, display(context));
                let mut readied = if arguments.no_wait {
                    Readied::from(workspace)
                } else {
                    readied(prepared, workspace, display, interrupted).await?
                };
                readied.left = left;
                readied.setup = setup;
                Ok(readied)
            }
        });
        let mut all = join_all(readied).await;
        for readied in all.iter_mut().flatten() {
            readied.workspace.ms = Some(context.started.elapsed().as_millis() as u64);
        }
        Ok(all)
    };
    tokio::select! {
        results = work => results,
        () = watching => Err(cancelled()),
    }
}

/// Several are created all or not at all, as far as can be checked before.
async fn refuse_taken(prepared: &Prepared, wishes: &[Wish]) -> Result<(), Fault> {
    let names = prepared.client.names().await?.names;
    let taken = names.iter().find(|name| {
        let is_wished = |wish: &Wish| {
            wish.label
                .as_ref()
                .is_some_and(|l| l.as_str() == name.label)
        };
        let mut new = wishes.iter().filter(|wish| !wish.is_reused);
        name.project_id.as_str() == prepared.project_id && new.any(is_wished)
    });
    match taken {
        None => Ok(()),
        Some(Candidate { label, id, .. }) => Err(Fault::new(
            Code::AlreadyExists,
            format!("workspace `{label}` exists ({id}), so none was made"),
            "choose another label",
        )),
    }
}

/// Turns ctrl-C, a hang-up and SIGTERM into `true`. Never ends by itself.
fn watch_for_signals(notify: watch::Sender<bool>) -> Result<impl Future<Output = ()>, Fault> {
    let listen = |kind| {
        signal(kind).map_err(|error| {
            let message = "cannot listen for signals";
            Fault::new(Code::Internal, message, "try again").because(error)
        })
    };
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hangup = listen(SignalKind::hangup())?;
    Ok(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            // A second signal ends the program at once, if undoing takes too long.
            if notify.send_replace(true) {
                return;
            }
        }
    })
}

async fn prepare_unless(
    context: &Context,
    arguments: &UpArgs,
    mut interrupted: watch::Receiver<bool>,
) -> Result<Prepared, Fault> {
    let cancel = Cancel::default();
    let preparing = prepare(context, arguments, &cancel);
    tokio::pin!(preparing);
    tokio::select! {
        prepared = &mut preparing => prepared,
        _ = interrupted.wait_for(|is| *is) => {
            cancel.raise();
            // git removes its partial work; what does not end by itself (a question) is left.
            let _ = tokio::time::timeout(CLEAN_UP, preparing).await;
            Err(cancelled())
        }
    }
}

async fn one(
    arguments: &UpArgs,
    prepared: &Prepared,
    wish: &Wish,
    progress: &RefCell<Progress<'_>>,
    interrupted: watch::Receiver<bool>,
) -> Result<(Workspace, Left), Fault> {
    let request = with_uploads(arguments, prepared, wish, interrupted.clone()).await?;
    let made = follow(prepared, &request, progress, interrupted).await;
    let mut workspace = made.map_err(|fault| {
        let label = wish.label.as_ref().map_or("LABEL", Label::as_str);
        let hint = fault.hint.replace("LABEL", label);
        match fault.code {
            Code::SetupFailed => fault.with_hint(hint),
            _ => fault,
        }
    })?;
    if let Ok(id) = WorkspaceId::parse(&workspace.id) {
        resolve::remember(&id, &workspace.label);
    }
    let mut left = Left::default();
    if arguments.no_setup && workspace.created != Some(false) {
        let commands = one_line(&prepared.left_behind.setup);
        let (label, quoted) = (&workspace.label, quoted(&commands));
        let note = format!("`setup` did not run; `holm exec {label} -- sh -c {quoted}` runs it");
        workspace
            .notes
            .extend((!commands.is_empty()).then_some(note));
    }
    if workspace.created != Some(false) {
        let mut left_behind = prepared.left_behind.clone();
        if workspace.layers.iter().any(|key| is_warm(key)) {
            left_behind.ignored.retain(|path| {
                let text = path.to_str();
                !text.is_some_and(is_build_output)
            });
        }
        left = left_behind.left();
    }
    Ok((workspace, left))
}

/// The commands as one, each in a shell of its own, because each starts in the root of the code.
fn one_line(commands: &[String]) -> String {
    match commands {
        [one] => one.clone(),
        several => {
            let several = several.iter().map(|command| format!("({command})"));
            several.collect::<Vec<_>>().join(" && ")
        }
    }
}

/// Waits for the services. An interruption ends only the waiting.
async fn readied(
    prepared: &Prepared,
    workspace: Workspace,
    display: Display<'_>,
    mut interrupted: watch::Receiver<bool>,
) -> Result<Readied, Fault> {
    let interruption = async move {
        // The sender lives as long as this function.
        let _ = interrupted.wait_for(|is| *is).await;
    };
    ready::wait(&prepared.client, workspace, display, interruption).await
}

/// The request for one workspace, with its own uploads: the daemon uses each once.
async fn with_uploads(
    arguments: &UpArgs,
    prepared: &Prepared,
    wish: &Wish,
    mut interrupted: watch::Receiver<bool>,
) -> Result<CreateWorkspace, Fault> {
    let uploads = async {
        let include = if prepared.included.is_empty() {
            None
        } else {
            let toplevel = prepared.checkout.repository.toplevel.clone();
            let included = prepared.included.clone();
            Some(include::upload(&prepared.client, included, toplevel).await?)
        };
        let dirty = if arguments.start.dirty {
            Some(upload_dirty(&prepared.client, &prepared.checkout).await?)
        } else if let Some(at) = &arguments.at {
            Some((turn::state(&prepared.client, at).await?, Vec::new()))
        } else {
            None
        };
        let handover = secret::hand_over(&prepared.client, &prepared.secrets.give).await?;
        Ok::<_, Fault>((include, dirty, handover))
    };
    let (include, state, handover) = tokio::select! {
        uploads = uploads => uploads?,
        _ = interrupted.wait_for(|is| *is) => return Err(cancelled()),
    };
    let (dirty, more) = state.unzip();
    let mut notes = prepared.request.notes.clone();
    notes.extend(more.unwrap_or_default());
    Ok(CreateWorkspace {
        notes,
        label: wish.label.as_ref().map(ToString::to_string),
        reuse: wish.is_reused,
        include,
        dirty,
        handover,
        ..prepared.request.clone()
    })
}

/// Uploads the uncommitted state, and returns notes about it.
async fn upload_dirty(client: &Client, checkout: &Checkout) -> Result<(Dirty, Vec<String>), Fault> {
    let failed = |error: std::io::Error| {
        Fault::new(
            Code::GitFailed,
            "cannot put the uncommitted state together",
            "is there room in the temporary directory (TMPDIR)?",
        )
        .because(error)
    };
    let scratch = TempDir::with_prefix("holm-").map_err(failed)?;
    let directory = scratch.path().to_owned();
    let state = checkout
        .git(move |repository| repository.dirty_state(&directory, &Cancel::default()))
        .await?;
    let pack = tokio::fs::File::open(&state.pack).await.map_err(failed)?;
    let upload = client.upload(pack).await?;
    let notes = state.nested.iter().map(|path| {
        let path = path.display();
        format!("not copied: {path} (a repository of its own); `holm up LABEL --include {path}`")
    });
    let changed = state.changed.into_iter();
    let changed = changed.map(|(path, object)| ChangedFile { path, object });
    let dirty = Dirty {
        pack: upload.upload,
        worktree_tree: state.worktree_tree,
        index_tree: state.index_tree,
        intended: state.intended,
        changed: changed.collect(),
    };
    Ok((dirty, notes.collect()))
}

/// Requests the workspace and waits until it is ready, or has been undone.
async fn follow(
    Prepared {
        client, project_id, ..
    }: &Prepared,
    request: &CreateWorkspace,
    progress: &RefCell<Progress<'_>>,
    mut interrupted: watch::Receiver<bool>,
) -> Result<Workspace, Fault> {
    // Not interrupted by a signal: the daemon can be asked to undo only after its response.
    let mut creation = client.create(project_id, request).await?;
    let report = |step: &str, done, total| progress.borrow_mut().report(step, done, total);
    tokio::select! {
        workspace = creation.finish(report) => return workspace,
        _ = interrupted.wait_for(|is| *is) => {}
    }
    creation.cancel().await?;
    Err(cancelled())
}

fn cancelled() -> Fault {
    Fault::new(
        Code::Cancelled,
        "nothing was left behind",
        "type the command again to start over",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_of_a_setup_starts_in_the_root() {
        let check = |commands: &[&str], expect: &str| {
            let commands: Vec<String> = commands.iter().map(|one| (*one).to_owned()).collect();
            assert_eq!(one_line(&commands), expect);
        };
        check(&[], "");
        check(&["npm ci"], "npm ci");
        check(
            &["cd api && poetry install", "cd web && npm ci"],
            "(cd api && poetry install) && (cd web && npm ci)",
        );
    }
}
