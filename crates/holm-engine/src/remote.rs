//! A driver in another process: the calls of [`Driver`] and `Storage` that work on files, as messages. The
//! driver of containers sends them to its store, where the files are.
//!
//! What a driver says about processes is not here: processes are an engine's.

use crate::driver::{Driver, Journaled, Observation, Since};
use crate::progress::{Progress, ProgressEvent};
use crate::storage::{BroughtTree, Discard, Discarded, Known, Measure};
use holm_core::layer::LayerKey;
use holm_core::plan::Action;
use holm_core::spec::WorkspaceSpec;
use holm_core::{Code, Fault, ProjectId};
use holm_keeper::container::{Given, Start};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

/// What the daemon asks of the store.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    Driver {
        call: Call,
        #[serde(default)]
        given: Box<Given>,
    },
    /// The files of a project's repository.
    Repository(ProjectId),
    /// Moves uploaded files into a project's repository.
    TakeRepository { project: ProjectId, from: PathBuf },
    /// Deletes an upload.
    Forget(PathBuf),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    Progress(ProgressEvent),
    /// The daemon answers with one line, [`Started`](holm_keeper::container::Started).
    Start(Box<Start>),
    Done(Value),
    Failed(SentFault),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    Observe(Box<WorkspaceSpec>),
    /// The caller's own engine has journaled the action.
    Apply {
        action: Action,
        spec: Box<WorkspaceSpec>,
    },
    LayerChanges(Box<WorkspaceSpec>),
    Blobs {
        spec: Box<WorkspaceSpec>,
        paths: Vec<Vec<u8>>,
    },
    Traces {
        spec: Box<WorkspaceSpec>,
        since: Since,
    },
    VolumeDigests(Box<WorkspaceSpec>),
    Undo(Box<WorkspaceSpec>),
    Layer(LayerKey),
    KeepTree(BroughtTree),
    Room,
    Measure(Measured),
    Survey(Known),
    Discard(Discard),
    Discarded,
    Delete(Discarded),
}

/// [`Measure`], as it is sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measured {
    Everything,
    Trash,
    Workspace(Box<WorkspaceSpec>),
    Volumes(Vec<WorkspaceSpec>),
}

/// A fault, as it is sent: its causes are part of the message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SentFault {
    code: String,
    message: String,
    hint: String,
}

/// Carries a call out. The value is that of the method of the same name.
pub async fn carry_out(
    driver: &dyn Driver,
    call: Call,
    progress: Progress,
) -> Result<Value, Fault> {
    match call {
        Call::Observe(spec) => sent(driver.observe(&spec).await?),
        Call::Apply { action, spec } => {
            let spec = Arc::from(spec);
            let journaled = Journaled { action, spec };
            let observed: Option<Observation> = driver.apply(journaled, progress).await?;
            sent(observed)
        }
        Call::LayerChanges(spec) => sent(driver.layer_changes(&spec).await?),
        Call::Blobs { spec, paths } => sent(driver.blobs(&spec, paths).await?),
        Call::Traces { spec, since } => sent(driver.traces(&spec, since).await?),
        Call::VolumeDigests(spec) => sent(driver.volume_digests(&spec).await?),
        Call::Undo(spec) => sent(driver.undo(&spec).await?),
        Call::Layer(key) => sent(driver.layer(&key).await?),
        Call::KeepTree(tree) => sent(driver.keep_tree(tree).await?),
        Call::Room => sent(driver.room().await?),
        Call::Measure(what) => sent(driver.measure(what.into()).await?),
        Call::Survey(known) => sent(driver.survey(known).await?),
        Call::Discard(what) => sent(driver.discard(what).await?),
        Call::Discarded => sent(driver.discarded().await?),
        Call::Delete(discarded) => sent(driver.delete(discarded, progress).await?),
    }
}

/// The value of an answer.
pub fn received<T: DeserializeOwned>(value: Value) -> Result<T, Fault> {
    serde_json::from_value(value).map_err(not_understood)
}

fn sent(value: impl Serialize) -> Result<Value, Fault> {
    serde_json::to_value(value).map_err(not_understood)
}

fn not_understood(error: serde_json::Error) -> Fault {
    let message = "a message between holm and its store is not understood";
    Fault::new(Code::Internal, message, "report this").because(error)
}

// === impl Measured ===

impl From<Measure> for Measured {
    fn from(what: Measure) -> Self {
        match what {
            Measure::Everything => Self::Everything,
            Measure::Trash => Self::Trash,
            Measure::Workspace(spec) => Self::Workspace(Box::new(WorkspaceSpec::clone(&spec))),
            Measure::Volumes(specs) => {
                let specs = specs.iter().map(|spec| WorkspaceSpec::clone(spec));
                Self::Volumes(specs.collect())
            }
        }
    }
}

impl From<Measured> for Measure {
    fn from(what: Measured) -> Self {
        match what {
            Measured::Everything => Self::Everything,
            Measured::Trash => Self::Trash,
            Measured::Workspace(spec) => Self::Workspace(Arc::from(spec)),
            Measured::Volumes(specs) => Self::Volumes(specs.into_iter().map(Arc::new).collect()),
        }
    }
}

// === impl SentFault ===

impl From<&Fault> for SentFault {
    fn from(fault: &Fault) -> Self {
        Self {
            code: fault.code.as_str().to_owned(),
            message: fault.to_string(),
            hint: fault.hint.clone(),
        }
    }
}

impl From<SentFault> for Fault {
    fn from(sent: SentFault) -> Self {
        let code = Code::parse(&sent.code).unwrap_or(Code::Internal);
        Fault::new(code, sent.message, sent.hint)
    }
}
