//! Runs: create (idempotent with a key), list, cancel, and follow the output from a cursor.

use super::Client;
use super::exec::typed_header;
use super::query::{escaped, query_string};
use super::transport::{IDEMPOTENCY_KEY, not_json, went_away};
use super::websocket::{Socket, open, open_at};
use crate::run::{CreateRun, Run, RunEvent, RunList, RunQuery};
use crate::{ErrorBody, TYPED, WORKSPACE};
use bytes::Bytes;
use futures_util::StreamExt;
use holm_core::{Code, Fault, RunId, WorkspaceId};
use hyper::Method;
use hyper::header::{HeaderMap, HeaderValue};
use tokio_tungstenite::tungstenite::Message;

/// A run's output from a cursor on. Dropping it does not affect the run.
#[derive(Debug)]
pub struct RunOutput(Socket);

// === impl Client ===

impl Client {
    /// Creates a run. With a key, repeated calls with the same request create it once.
    pub async fn create_run(
        &self,
        id: &WorkspaceId,
        run: &CreateRun,
        key: Option<&str>,
    ) -> Result<Run, Fault> {
        let route = format!("/workspaces/{id}/runs");
        self.post_run(&route, run, keyed(key)?).await
    }

    /// As [`Client::create_run`], in a workspace as a person typed it. As for
    /// [`Client::exec_typed`], the caller may have to resolve the text itself.
    pub async fn create_run_typed(
        &self,
        typed: &str,
        run: &CreateRun,
        key: Option<&str>,
    ) -> Result<Run, Fault> {
        let mut headers = keyed(key)?;
        headers.insert(WORKSPACE, typed_header(typed)?);
        let route = format!("/workspaces/{TYPED}/runs");
        self.post_run(&route, run, headers).await
    }

    async fn post_run(
        &self,
        route: &str,
        run: &CreateRun,
        headers: HeaderMap,
    ) -> Result<Run, Fault> {
        let body = Bytes::from(serde_json::to_vec(run).map_err(not_json)?);
        let (response, connection) = self.transport.post_with(route, body, &headers).await?;
        self.transport.parsed(response, connection).await
    }

    /// The runs of one workspace, newest first.
    pub async fn runs(&self, id: &WorkspaceId, query: &RunQuery) -> Result<RunList, Fault> {
        let route = format!("/workspaces/{id}/runs?{}", query_string(query));
        self.transport.plain(Method::GET, &route).await
    }

    /// The runs of all workspaces, newest first.
    pub async fn all_runs(&self, query: &RunQuery) -> Result<RunList, Fault> {
        let route = format!("/runs?{}", query_string(query));
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

    /// The output of the run that a request with this key creates, from its beginning: the run and what follows. Waits
    /// for that request.
    pub async fn new_run_output(
        &self,
        id: &WorkspaceId,
        key: &str,
    ) -> Result<(Run, RunOutput), Fault> {
        begun(open(&self.transport, &by_key(&id.to_string(), key)).await?).await
    }

    /// As [`Client::new_run_output`], in a workspace as a person typed it.
    pub async fn new_run_output_typed(
        &self,
        typed: &str,
        key: &str,
    ) -> Result<(Run, RunOutput), Fault> {
        let header = typed_header(typed)?;
        let (socket, _) = open_at(&self.transport, &by_key(TYPED, key), Some(&header)).await?;
        begun(socket).await
    }
}

fn by_key(workspace: &str, key: &str) -> String {
    format!("/workspaces/{workspace}/runs/output?key={}", escaped(key))
}

async fn begun(socket: Socket) -> Result<(Run, RunOutput), Fault> {
    let mut output = RunOutput(socket);
    match output.next().await? {
        RunEvent::Begun(run) => Ok((*run, output)),
        _ => Err(Fault::new(
            Code::Internal,
            "the daemon's first message is not the run",
            "is the daemon of another version? `holm daemon stop`, then try again",
        )),
    }
}

fn keyed(key: Option<&str>) -> Result<HeaderMap, Fault> {
    let mut headers = HeaderMap::new();
    if let Some(key) = key {
        let value = HeaderValue::from_str(key).map_err(|_| {
            let message = format!("`{}` cannot be a key", key.escape_debug());
            Fault::new(Code::Usage, message, "use letters, digits, `-` and `_`")
        })?;
        headers.insert(IDEMPOTENCY_KEY, value);
    }
    Ok(headers)
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
                Some(Err(error)) => return Err(went_away(error)),
            }
        }
    }
}
