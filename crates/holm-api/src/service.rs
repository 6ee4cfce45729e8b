//! Services and their logs on the wire.
//!
//! - `GET  /workspaces/{id}/services` → [`ServiceList`]; `?watch=true`: JSON Lines of it, at once
//!   and
//!   at every change, until the workspace stops
//! - `POST /workspaces/{id}/services` ([`ServiceAct`]) → [`ServiceList`], when the action has begun
//! - `GET  /workspaces/{id}/logs?services=a,b&since=TIME&last=N&follow=true` → JSON Lines of
//!   [`LogLine`], merged by time. Without `services`, of all; `last` counts for each.

use holm_core::service::status::ServiceStatus;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServiceList {
    pub services: Vec<ServiceStatus>,
    /// pending: a service is starting. ready: all services that should run are ready. failing: a
    /// service is not ready and will not be by itself. Null when the workspace does not run.
    #[schema(required)]
    pub verdict: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceAct {
    pub service: String,
    pub action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Start,
    Stop,
    Restart,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    pub time: String,
    pub service: String,
    /// stdout, stderr, or holm (messages about the log itself).
    pub stream: String,
    /// Bytes that are not UTF-8 are replaced.
    pub text: String,
}

/// Filters for log lines.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LogQuery {
    /// Names separated by commas; empty: all.
    #[serde(default)]
    pub services: String,
    /// RFC 3339.
    pub since: Option<String>,
    pub last: Option<usize>,
    #[serde(default)]
    pub follow: bool,
}
