//! `GET /workspaces/{id}/egress`: the keeper's egress record; with `follow`, line by line as it is
//! written.

use super::failure::{Failure, Parameters, WorkspaceKey};
use super::{App, jsonl};
use axum::Json;
use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use holm_api::egress::{EgressEntry, EgressList};
use holm_core::{Fault, WorkspaceId};
use holm_keeper::wire::EgressFrom;
use jiff::Timestamp;
use serde::Deserialize;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The default and the maximum of entries.
const USUAL: usize = 1000;
const MOST: usize = 100_000;

/// How often the record is polled for followers.
const OFTEN: Duration = Duration::from_millis(200);

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Which {
    limit: Option<usize>,
    #[serde(default)]
    follow: bool,
}

pub fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(egress))
}

/// What left the workspace and what was refused.
#[utoipa::path(
    get,
    path = "/workspaces/{id}/egress",
    operation_id = "workspace_egress",
    params(WorkspaceKey, Which),
    responses((status = 200, content(
        (EgressList = "application/json"),
        (EgressEntry = "application/jsonl")
    )))
)]
async fn egress(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    Parameters(which): Parameters<Which>,
) -> Result<Response, Failure> {
    app.engine.spec(&id).await?;
    let limit = which.limit.unwrap_or(USUAL).min(MOST);
    let keeper = app.engine.reader(&id).await?;
    let (first, place) = keeper.egress(EgressFrom::Last(limit)).await?;
    if !which.follow {
        let lines = first.split(|byte| *byte == b'\n');
        let egress = lines.filter_map(|line| serde_json::from_slice::<EgressEntry>(line).ok());
        let egress = egress.collect();
        return Ok(Json(EgressList { egress }).into_response());
    }
    let state = (keeper, place, first);
    let lines = stream::unfold(state, |(keeper, mut place, mut ready)| async move {
        while ready.is_empty() {
            tokio::time::sleep(OFTEN).await;
            // An unreadable record may be readable at the next poll.
            if let Ok(read) = keeper.egress(EgressFrom::After(place)).await {
                (ready, place) = read;
            }
        }
        let piece = io::Result::Ok(Bytes::from(ready));
        Some((piece, (keeper, place, Vec::new())))
    });
    Ok(jsonl::response(HttpBody::from_stream(lines)))
}

// === impl App ===

impl App {
    /// The entries of a workspace's record from a time on, of at most so many last ones.
    pub async fn egress_since(
        &self,
        id: &WorkspaceId,
        since: Option<Timestamp>,
        most: usize,
    ) -> Result<Vec<EgressEntry>, Fault> {
        let keeper = self.engine.reader(id).await?;
        let (record, _) = keeper.egress(EgressFrom::Last(most)).await?;
        let lines = record.split(|byte| *byte == b'\n');
        let entries = lines.filter_map(|line| serde_json::from_slice::<EgressEntry>(line).ok());
        let is_wanted = |entry: &EgressEntry| {
            let at: Option<Timestamp> = entry.time.parse().ok();
            since.is_none_or(|since| at.is_some_and(|at| at >= since))
        };
        Ok(entries.filter(is_wanted).collect())
    }
}
