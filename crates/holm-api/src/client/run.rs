//! Runs: create (idempotent with a key), list, cancel, and follow the output from a cursor.

use super::Client;
use super::query::parameters;
use super::transport::{full, not_json, went_away};
use super::websocket::{Socket, open};
use crate::ErrorBody;
use crate::run::{CreateRun, Run, RunEvent, RunList};
use bytes::Bytes;
use futures_util::StreamExt;
use holm_core::{Code, Fault, RunId, WorkspaceId};
use hyper::Method;
use tokio_tungstenite::tungstenite::Message;

/// A run's output from a cursor on. Dropping it does not affect the run.
#[derive(Debug)]
pub struct RunOutput(Socket);

/// Filters for runs.
#[derive(Clone, Debug, Default)]
pub struct RunQuery {
    /// Only runs in this state (`running`).
    pub state: Option<String>,
    /// Only runs whose id has this prefix; only for runs of all workspaces.
    pub id: Option<String>,
    pub limit: Option<usize>,
    /// [`RunList::next`] of the page before.
    pub before: Option<String>,
}

// === impl Client ===

impl Client {
    /// Creates a run. With a key, repeated calls with the same request create it once.
    pub async fn create_run(
        &self,
        id: &WorkspaceId,
        run: &CreateRun,
        key: Option<&str>,
    ) -> Result<Run, Fault> {
        let body = Bytes::from(serde_json::to_vec(run).map_err(not_json)?);
        let route = format!("/workspaces/{id}/runs");
        let sent = self.transport.send_with_key(&route, full(body), key);
        let (response, connection) = sent.await?;
        self.transport.parsed(response, connection).await
    }

    /// The runs of one workspace, newest first.
    pub async fn runs(&self, id: &WorkspaceId, query: &RunQuery) -> Result<RunList, Fault> {
        let route = format!("/workspaces/{id}/runs?{}", query.text());
        self.transport.plain(Method::GET, &route).await
    }

    /// The runs of all workspaces, newest first.
    pub async fn all_runs(&self, query: &RunQuery) -> Result<RunList, Fault> {
        let route = format!("/runs?{}", query.text());
        self.transport.plain(Method::GET, &route).await
    }

    /// The output after a cursor (0: all that is stored), until the run ends.
    pub async fn run_output(
        &self,
        id: &WorkspaceId,
        run: &RunId,
        after: u64,
    ) -> Result<RunOutput, Fault> {
        let route = format!("/workspaces/{id}/runs/{run}/output?after={after}");
        Ok(RunOutput(open(&self.transport, &route).await?))
    }
}

// === impl RunOutput ===

impl RunOutput {
    /// The next event. [`RunEvent::Ended`] is the last; [`RunEvent::Error`] is returned as an
    /// `Err`.
    pub async fn next(&mut self) -> Result<RunEvent, Fault> {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Text(text))) => {
                    return match serde_json::from_str(&text).map_err(not_json)? {
                        RunEvent::Error(error) => Err(ErrorBody { error }.into()),
                        event => Ok(event),
                    };
                }
                Some(Ok(Message::Close(_))) | None => {
                    return Err(Fault::new(
                        Code::DaemonUnreachable,
                        "the daemon ended the connection before the run was done",
                        "the run goes on; `holm runs show` says how it is",
                    ));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(went_away(&error)),
            }
        }
    }
}

// === impl RunQuery ===

impl RunQuery {
    fn text(&self) -> String {
        let limit = self.limit.map(|limit| limit.to_string());
        parameters(&[
            ("state", self.state.clone()),
            ("prefix", self.id.clone()),
            ("limit", limit),
            ("after", self.before.clone()),
        ])
    }
}
