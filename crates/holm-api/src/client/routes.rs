//! Routes with one request and one response.

use super::Client;
use super::create::CreateStream;
use super::lines::Lines;
use super::transport::{Body, full, good, not_json, whole};
use crate::ErrorBody;
use crate::browser::Browser;
use crate::daemon::{Doctor, Status, Stop};
use crate::disk::{Collected, Disk, Gc, GcEvent};
use crate::numbers::{NumbersList, WorkspaceNumbers};
use crate::port::{Checkout, CheckoutList, PortList};
use crate::project::{
    ChangeProject, Project, ProjectList, Refs, Sync, SyncAnswer, TreeBrought, TreeName, TreePlace,
    TrustApprove, TrustCheck, TrustReport,
};
use crate::reload::{Reload, Reloaded};
use crate::workspace::{
    CreateWorkspace, Fork, NameList, Rename, Reset, TakeSnapshot, Upload, Workspace, WorkspaceList,
};
use bytes::Bytes;
use futures_util::stream;
use holm_core::{Fault, ProjectId, WorkspaceId};
use http_body_util::{BodyExt, StreamBody};
use hyper::Method;
use hyper::body::Frame;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Whether unsaved work prevents a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    RefuseUnsaved,
    Force,
}

const CHUNK: usize = 256 * 1024;

// === impl Client ===

impl Client {
    pub async fn status(&self) -> Result<Status, Fault> {
        self.transport.plain(Method::GET, "/daemon").await
    }

    pub async fn stop_daemon(&self, stop: &Stop) -> Result<Status, Fault> {
        let transport = &self.transport;
        transport.json(Method::POST, "/daemon/stop", stop).await
    }

    pub async fn doctor(&self) -> Result<Doctor, Fault> {
        self.transport.plain(Method::GET, "/doctor").await
    }

    /// Resource use of every live workspace.
    pub async fn numbers(&self) -> Result<NumbersList, Fault> {
        self.transport.plain(Method::GET, "/numbers").await
    }

    /// Resource use of one workspace.
    pub async fn numbers_of(&self, id: &WorkspaceId) -> Result<WorkspaceNumbers, Fault> {
        let route = format!("/workspaces/{id}/numbers");
        self.transport.plain(Method::GET, &route).await
    }

    pub async fn projects(&self) -> Result<ProjectList, Fault> {
        self.transport.plain(Method::GET, "/projects").await
    }

    pub async fn remove_project(&self, id: &ProjectId) -> Result<Project, Fault> {
        let route = format!("/projects/{id}");
        self.transport.plain(Method::DELETE, &route).await
    }

    /// Where to put a tree that the client provides, if the daemon does not have it.
    pub async fn begin_tree(&self, id: &str, tree: &TreeName) -> Result<TreePlace, Fault> {
        let route = format!("/projects/{id}/trees");
        self.transport.json(Method::POST, &route, tree).await
    }

    /// Tells the daemon that the tree is complete or uploaded.
    pub async fn finish_tree(&self, id: &str, brought: &TreeBrought) -> Result<TreePlace, Fault> {
        let route = format!("/projects/{id}/trees");
        self.transport.json(Method::PUT, &route, brought).await
    }

    pub async fn change_project(
        &self,
        id: &ProjectId,
        change: &ChangeProject,
    ) -> Result<Project, Fault> {
        let route = format!("/projects/{id}");
        self.transport.json(Method::PATCH, &route, change).await
    }

    pub async fn sync_project(&self, sync: &Sync) -> Result<SyncAnswer, Fault> {
        let transport = &self.transport;
        transport.json(Method::POST, "/projects/sync", sync).await
    }

    pub async fn set_refs(&self, id: &ProjectId, refs: &Refs) -> Result<Project, Fault> {
        let route = format!("/projects/{id}/refs");
        self.transport.json(Method::POST, &route, refs).await
    }

    pub async fn check_trust(&self, check: &TrustCheck) -> Result<TrustReport, Fault> {
        let transport = &self.transport;
        transport.json(Method::POST, "/trust/check", check).await
    }

    pub async fn approve_trust(&self, approve: &TrustApprove) -> Result<TrustApprove, Fault> {
        let transport = &self.transport;
        transport.json(Method::POST, "/trust", approve).await
    }

    pub async fn workspaces(&self) -> Result<WorkspaceList, Fault> {
        self.transport.plain(Method::GET, "/workspaces").await
    }

    /// The workspaces in the trash, the last removed first.
    pub async fn trash(&self) -> Result<WorkspaceList, Fault> {
        let transport = &self.transport;
        transport.plain(Method::GET, "/workspaces?trash=true").await
    }

    /// Disk use.
    pub async fn disk(&self) -> Result<Disk, Fault> {
        self.transport.plain(Method::GET, "/disk").await
    }

    /// Deletes unused data and calls `progress` on the way.
    pub async fn gc(
        &self,
        gc: &Gc,
        mut progress: impl FnMut(&str, u64, u64),
    ) -> Result<Collected, Fault> {
        let body = full(Bytes::from(serde_json::to_vec(gc).map_err(not_json)?));
        let sent = self.transport.send(Method::POST, "/gc", body).await;
        let (response, _connection) = sent?;
        let mut lines = Lines::new(good(response).await?.into_body());
        loop {
            match lines.next().await? {
                GcEvent::Progress { step, done, total } => progress(&step, done, total),
                GcEvent::Done(collected) => return Ok(collected),
                GcEvent::Error(error) => return Err(ErrorBody { error }.into()),
            }
        }
    }

    /// The names of the live workspaces. Cheaper than [`Client::workspaces`], because the daemon
    /// does not observe any workspace.
    pub async fn names(&self) -> Result<NameList, Fault> {
        self.transport.plain(Method::GET, "/names").await
    }

    pub async fn ports(&self) -> Result<PortList, Fault> {
        self.transport.plain(Method::GET, "/ports").await
    }

    pub async fn ports_of(&self, id: &WorkspaceId) -> Result<PortList, Fault> {
        let route = format!("/workspaces/{id}/ports");
        self.transport.plain(Method::GET, &route).await
    }

    /// Which workspace holds which canonical port.
    pub async fn checked_out(&self) -> Result<CheckoutList, Fault> {
        self.transport.plain(Method::GET, "/checkout").await
    }

    /// Gives a workspace canonical ports.
    pub async fn check_out(&self, checkout: &Checkout) -> Result<CheckoutList, Fault> {
        let transport = &self.transport;
        transport.json(Method::POST, "/checkout", checkout).await
    }

    /// Frees all canonical ports.
    pub async fn release_ports(&self) -> Result<CheckoutList, Fault> {
        self.transport.plain(Method::DELETE, "/checkout").await
    }

    pub async fn workspace(&self, id: &WorkspaceId) -> Result<Workspace, Fault> {
        let route = format!("/workspaces/{id}");
        self.transport.plain(Method::GET, &route).await
    }

    pub async fn rename(&self, id: &WorkspaceId, label: &str) -> Result<Workspace, Fault> {
        let route = format!("/workspaces/{id}");
        let label = label.to_owned();
        let rename = Rename { label };
        self.transport.json(Method::PATCH, &route, &rename).await
    }

    pub async fn remove(&self, id: &WorkspaceId, removal: Removal) -> Result<Workspace, Fault> {
        let force = removal == Removal::Force;
        let route = format!("/workspaces/{id}?force={force}");
        self.transport.plain(Method::DELETE, &route).await
    }

    /// The SOCKS endpoint for the workspace's browser.
    pub async fn browser(&self, id: &WorkspaceId) -> Result<Browser, Fault> {
        let route = format!("/workspaces/{id}/browser");
        self.transport.plain(Method::POST, &route).await
    }

    pub async fn start(&self, id: &WorkspaceId) -> Result<Workspace, Fault> {
        let route = format!("/workspaces/{id}/start");
        self.transport.plain(Method::POST, &route).await
    }

    pub async fn stop(&self, id: &WorkspaceId) -> Result<Workspace, Fault> {
        let route = format!("/workspaces/{id}/stop");
        self.transport.plain(Method::POST, &route).await
    }

    pub async fn restart(&self, id: &WorkspaceId) -> Result<Workspace, Fault> {
        let route = format!("/workspaces/{id}/restart");
        self.transport.plain(Method::POST, &route).await
    }

    /// Takes a snapshot of code and volumes.
    pub async fn take_snapshot(
        &self,
        id: &WorkspaceId,
        take: &TakeSnapshot,
    ) -> Result<Workspace, Fault> {
        let route = format!("/workspaces/{id}/snapshots");
        self.transport.json(Method::POST, &route, take).await
    }

    /// Creates a workspace as a copy of this one or of its snapshot.
    pub async fn fork(&self, id: &WorkspaceId, fork: &Fork) -> Result<Workspace, Fault> {
        let route = format!("/workspaces/{id}/fork");
        self.transport.json(Method::POST, &route, fork).await
    }

    /// Resets code and volumes, or one volume.
    pub async fn reset(&self, id: &WorkspaceId, reset: &Reset) -> Result<Workspace, Fault> {
        let route = format!("/workspaces/{id}/reset");
        self.transport.json(Method::POST, &route, reset).await
    }

    /// Applies the `holm.toml` of the workspace's tree, or only reports what would change.
    pub async fn reload(&self, id: &WorkspaceId, reload: &Reload) -> Result<Reloaded, Fault> {
        let route = format!("/workspaces/{id}/reload");
        self.transport.json(Method::POST, &route, reload).await
    }

    /// Restores a workspace from the trash.
    pub async fn restore(&self, id: &WorkspaceId) -> Result<Workspace, Fault> {
        let route = format!("/workspaces/{id}/restore");
        self.transport.plain(Method::POST, &route).await
    }

    /// Uploads a file that a later request can name.
    pub async fn upload<R>(&self, content: R) -> Result<Upload, Fault>
    where
        R: AsyncRead + Send + Unpin + 'static,
    {
        let body = chunks_of(content);
        let sent = self.transport.send(Method::POST, "/uploads", body).await;
        let (response, connection) = sent?;
        let answer = whole(response).await?;
        self.transport.keep(connection);
        serde_json::from_slice(&answer).map_err(not_json)
    }

    /// Creates a workspace of a project. Dropping the stream before its last event cancels the
    /// creation, and the daemon undoes it.
    pub async fn create(
        &self,
        project_id: &str,
        create: &CreateWorkspace,
    ) -> Result<CreateStream, Fault> {
        let body = full(Bytes::from(serde_json::to_vec(create).map_err(not_json)?));
        let route = format!("/projects/{project_id}/workspaces");
        let sent = self.transport.send(Method::POST, &route, body).await;
        let (response, connection) = sent?;
        let response = good(response).await?;
        Ok(CreateStream::new(
            self.clone(),
            connection,
            response.into_body(),
        ))
    }

    /// Cancels the creation of a workspace; returns when it is undone.
    pub(super) async fn cancel(&self, id: &str) -> Result<serde_json::Value, Fault> {
        let route = format!("/workspaces/{id}/cancel");
        self.transport.plain(Method::POST, &route).await
    }
}

/// A body that is streamed from `content`.
pub(super) fn chunks_of(content: impl AsyncRead + Send + Unpin + 'static) -> Body {
    let chunks = stream::try_unfold(content, |mut content| async move {
        let mut chunk = vec![0; CHUNK];
        let length = content.read(&mut chunk).await?;
        chunk.truncate(length);
        let frame = Frame::data(Bytes::from(chunk));
        Ok((length > 0).then_some((frame, content)))
    });
    StreamBody::new(chunks).boxed_unsync()
}
