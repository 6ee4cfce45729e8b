//! Follows a run: prints its output, cancels it on a signal, and reconnects through another daemon
//! when one dies.

use super::report;
use crate::cli::attach::{COMES_BACK, LOOK_AGAIN, is_unresolved};
use crate::cli::outlet::{Form, Outlet};
use crate::cli::output::{BROKEN_PIPE_EXIT, Output, json_line};
use crate::cli::signals::{INTERRUPTED, Signals};
use crate::cli::stream::Stream;
use crate::cli::terminal::Attachment;
use crate::cli::{connect, resolve};
use holm_api::client::{Client, RunOutput};
use holm_api::run::{CreateRun, Run, RunEvent, RunPiece};
use holm_core::{Code, Fault, RunId, WorkspaceId};
use rustix::io::Errno;
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;
use tokio::task::{JoinError, JoinHandle};

pub struct Following {
    output: Output,
    client: Client,
    signals: Signals,
    /// How much of the output was received.
    cursor: u64,
}

/// A run as it was requested.
pub struct Order {
    pub workspace: Place,
    pub request: CreateRun,
    pub key: String,
}

/// The workspace of a run.
pub enum Place {
    Known(WorkspaceId),
    /// As a person typed it.
    Typed(String),
}

/// Whether the output of a run is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Attention {
    Output,
    Nothing,
}

/// A run whose program has started.
pub struct Begun {
    pub run: Run,
    /// Its output from the beginning, if that is there already.
    output: Option<RunOutput>,
    /// The request that creates it, while it waits for the disk.
    creation: Option<JoinHandle<Result<Run, Fault>>>,
}

/// Where a run is.
#[derive(Clone)]
struct RunAddress {
    workspace: WorkspaceId,
    run: RunId,
}

/// How watching a run ended.
pub struct Watched {
    /// The exit code for the caller.
    pub code: u8,
    /// How many files the run changed; 0 also if that is not known.
    pub changed: usize,
}

/// What to do next.
enum Next {
    Event(RunEvent),
    Signal,
    Lost,
}

// === impl Order ===

impl Order {
    /// The daemon resolves what was typed, to save a request. When the daemon does not find it, this
    /// client looks for it in the current project and in the trash, and explains.
    async fn send(&self, client: &Client) -> Result<Run, Fault> {
        let key = Some(self.key.as_str());
        let id = match &self.workspace {
            Place::Known(id) => id.clone(),
            Place::Typed(typed) => match client.create_run_typed(typed, &self.request, key).await {
                Err(fault) if is_unresolved(&fault) => resolve::one(client, typed).await?,
                begun => return begun,
            },
        };
        client.create_run(&id, &self.request, key).await
    }

    /// The run and its output, as soon as its program has started.
    async fn output(&self, client: &Client) -> Result<(Run, RunOutput), Fault> {
        match &self.workspace {
            Place::Known(id) => client.new_run_output(id, &self.key).await,
            Place::Typed(typed) => client.new_run_output_typed(typed, &self.key).await,
        }
    }
}

// === impl Following ===

impl Following {
    pub fn new(output: Output, client: Client) -> Result<Self, Fault> {
        Ok(Self {
            output,
            client,
            signals: Signals::listen(Attachment::Pipes)?,
            cursor: 0,
        })
    }

    /// Starts the run. Sent again with the same key it is the same run, so a lost daemon does no
    /// harm.
    pub async fn begin(
        &mut self,
        order: &Arc<Order>,
        attention: Attention,
    ) -> Result<Begun, Fault> {
        loop {
            match self.try_to_begin(order, attention).await {
                Err(fault) if fault.code == Code::DaemonUnreachable => {
                    self.find_daemon(fault).await?
                }
                begun => return begun,
            }
        }
    }

    async fn try_to_begin(
        &mut self,
        order: &Arc<Order>,
        attention: Attention,
    ) -> Result<Begun, Fault> {
        let (sent, client) = (Arc::clone(order), self.client.clone());
        let mut creation = tokio::spawn(async move { sent.send(&client).await });
        let client = self.client.clone();
        let output = async {
            // The request is sent first.
            tokio::task::yield_now().await;
            match attention {
                Attention::Output => order.output(&client).await.ok(),
                Attention::Nothing => None,
            }
        };
        tokio::select! {
            Some((run, output)) = output => {
                return Ok(Begun { run, output: Some(output), creation: Some(creation) });
            }
            created = &mut creation => return created.map_err(broken)?.map(Begun::created),
            _ = self.signals.ending() => {}
        }
        creation.abort();
        self.give_up(order).await
    }

    /// The user cancelled, and the run may have started at this moment: the same key finds it.
    async fn give_up(&mut self, order: &Order) -> Result<Begun, Fault> {
        let run = order.send(&self.client).await?;
        let address = address(&run)?;
        let cancelled = self.client.cancel_run(&address.workspace, &address.run);
        Ok(Begun::created(cancelled.await?))
    }

    /// Prints its output and its result.
    pub async fn watch(&mut self, begun: Begun, form: Form) -> Result<Watched, Fault> {
        let Begun {
            run,
            output,
            creation,
        } = begun;
        let address = address(&run)?;
        let mut outlet = Outlet::start(form);
        if self.output.is_json() {
            let first = json_line(&json!({ "run": run }));
            outlet.say(Stream::Stdout, first).await;
        }
        let mut socket = match output {
            Some(output) => output,
            None => self.open(&address).await?,
        };
        let mut is_cancelled = false;
        let ended = loop {
            let next = tokio::select! {
                event = socket.next() => match event {
                    Ok(event) => Next::Event(event),
                    Err(fault) if fault.code == Code::DaemonUnreachable => Next::Lost,
                    Err(fault) => return Err(fault),
                },
                _ = self.signals.ending() => Next::Signal,
            };
            match next {
                Next::Event(RunEvent::Ended(run)) => break *run,
                Next::Event(event) => {
                    if !self.show(&mut outlet, event).await {
                        return unwritten(outlet).await.map(Watched::unseen);
                    }
                }
                // A second interrupt does not wait for the cancellation.
                Next::Signal if is_cancelled => return Ok(Watched::unseen(INTERRUPTED)),
                Next::Signal => {
                    is_cancelled = true;
                    self.cancel(&address);
                }
                Next::Lost => socket = self.open(&address).await?,
            }
        };
        if let Some(creation) = creation {
            // The run has ended, so it is stored: the answer to its request, or the loss of its daemon, is no news.
            creation.await.map_err(broken)?.ok();
        }
        self.finish(outlet, ended).await
    }

    /// Opens the output after what was received, through any daemon.
    async fn open(&mut self, address: &RunAddress) -> Result<RunOutput, Fault> {
        let RunAddress { workspace, run } = address;
        loop {
            let opened = self.client.run_output(workspace, run, self.cursor).await;
            match opened {
                Err(fault) if fault.code == Code::DaemonUnreachable => {
                    self.find_daemon(fault).await?
                }
                opened => return opened,
            }
        }
    }

    /// In the background: output must be read meanwhile, or the run could not end.
    fn cancel(&self, address: &RunAddress) {
        self.output.remark("cancelling the run …");
        let (client, address) = (self.client.clone(), address.clone());
        let output = self.output;
        tokio::spawn(async move {
            if let Err(fault) = client.cancel_run(&address.workspace, &address.run).await {
                output.remark(&format!("the run was not cancelled: {fault}"));
            }
        });
    }

    async fn find_daemon(&mut self, lost: Fault) -> Result<(), Fault> {
        let begun = Instant::now();
        loop {
            match connect::started_unless_stopped().await {
                Ok(client) => {
                    self.client = client;
                    return Ok(());
                }
                Err(fault) if fault.code != Code::DaemonUnreachable => return Err(fault),
                Err(_) if begun.elapsed() > COMES_BACK => {
                    let hint = "the run goes on; `holm daemon start`, then `holm runs ls`";
                    return Err(lost.with_hint(hint));
                }
                Err(_) => {}
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                _ = self.signals.ending() => {
                    let hint = "the run goes on; `holm runs cancel` ends it";
                    return Err(lost.with_hint(hint));
                }
            }
        }
    }

    /// False when nothing can be written any more.
    async fn show(&mut self, outlet: &mut Outlet, event: RunEvent) -> bool {
        match event {
            RunEvent::Output(RunPiece {
                cursor,
                time,
                stream,
                data,
            }) => {
                self.cursor = cursor;
                let target = match stream.as_str() {
                    "stderr" => Stream::Stderr,
                    _ => Stream::Stdout,
                };
                if self.output.is_json() {
                    let bytes = json_line(&json!({ "time": time, stream: data }));
                    return outlet.say(Stream::Stdout, bytes).await;
                }
                outlet.show(target, Vec::from(data)).await
            }
            RunEvent::Truncated { bytes, cursor } => {
                self.cursor = cursor;
                let (target, bytes) = if self.output.is_json() {
                    (Stream::Stdout, json_line(&json!({ "truncated": bytes })))
                } else {
                    let text = report::left_out(bytes);
                    (Stream::Stderr, text)
                };
                outlet.say(target, bytes).await
            }
            RunEvent::Begun(_) | RunEvent::Ended(_) | RunEvent::Error(_) => true,
        }
    }

    async fn finish(&self, mut outlet: Outlet, run: Run) -> Result<Watched, Fault> {
        let code = run.exit_code.unwrap_or(1);
        if self.output.is_json() {
            let last = json_line(&json!({ "exit_code": code, "run": run }));
            outlet.say(Stream::Stdout, last).await;
        }
        match outlet.finish().await {
            Ok(()) => {}
            Err(Errno::PIPE) => return Ok(Watched::unseen(BROKEN_PIPE_EXIT)),
            Err(error) => return Err(unwritable(error)),
        }
        if !self.output.is_json() && !self.output.is_quiet() {
            let evidence = report::RunEvidence::find(&self.client, &run).await;
            self.output.remark(&report::summary(&run, &evidence));
        }
        Ok(Watched {
            code,
            changed: run.changes.map_or(0, |changes| changes.len()),
        })
    }
}

// === impl Begun ===

impl Begun {
    /// Its creation is answered.
    fn created(run: Run) -> Self {
        Self {
            run,
            output: None,
            creation: None,
        }
    }
}

// === impl Watched ===

impl Watched {
    /// The run goes on, or its end was not printed.
    fn unseen(code: u8) -> Self {
        Self { code, changed: 0 }
    }
}

/// Why nothing can be written. The run continues.
async fn unwritten(outlet: Outlet) -> Result<u8, Fault> {
    match outlet.finish().await {
        Ok(()) | Err(Errno::PIPE) => Ok(BROKEN_PIPE_EXIT),
        Err(error) => Err(unwritable(error)),
    }
}

fn unwritable(error: Errno) -> Fault {
    Fault::new(
        Code::Internal,
        "cannot write the run's output",
        "is the disk full that stdout leads to? the run goes on: `holm runs ls`",
    )
    .because(error)
}

fn broken(error: JoinError) -> Fault {
    Fault::new(
        Code::Internal,
        "the request of the run did not end",
        "`holm runs ls` shows whether it goes on",
    )
    .because(error)
}

fn address(run: &Run) -> Result<RunAddress, Fault> {
    let other_version = |error: holm_core::id::NotAnId| {
        let hint = "is the daemon of another version? `holm daemon stop`, then try again";
        Fault::of(Code::Internal, error, hint)
    };
    Ok(RunAddress {
        workspace: WorkspaceId::parse(&run.workspace).map_err(other_version)?,
        run: RunId::parse(&run.id).map_err(other_version)?,
    })
}
