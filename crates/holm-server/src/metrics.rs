//! `GET /metrics`: counters in Prometheus format.
//!
//! Counters start with the daemon. Counters of keepers, which start with their workspace, are added
//! on request, as the difference from the last request.

use super::App;
use super::disk::Room;
use super::failure::Failure;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use holm_api::egress::EgressEntry;
use holm_api::route::Route;
use holm_core::{Code, Fault, WorkspaceId};
use holm_engine::View;
use holm_keeper::wire::{EgressFrom, EgressPlace};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// All metrics of this daemon.
pub struct Metrics {
    registry: Registry,
    workspaces: Family<Word, Gauge>,
    creations: Family<Word, Counter>,
    creation_time: Histogram,
    gateway_bytes: Family<Word, Counter>,
    gateway_decisions: Family<Word, Counter>,
    front_requests: Family<[(&'static str, u16); 1], Counter>,
    api_requests: Family<ByRoute, Counter>,
    service_restarts: Counter,
    disk_free: Gauge,
    disk_size: Gauge,
    disk_workspaces: Gauge,
    /// `None` before the first reading.
    seen: Mutex<Option<HashMap<WorkspaceId, LastCounters>>>,
}

/// One label with a word of ours.
type Word = [(&'static str, &'static str); 1];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByRoute {
    method: String,
    /// As in the API document, never with an id.
    route: String,
    status: u16,
}

/// The result of a creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreationEnd {
    Made(Duration),
    Failed,
}

/// A workspace's counters at the last reading.
#[derive(Default)]
struct LastCounters {
    bytes_in: u64,
    bytes_out: u64,
    restarts: u64,
    egress: Option<EgressPlace>,
}

/// Seconds: a creation takes milliseconds when everything exists, and minutes with a long setup.
const TIMES: [f64; 12] = [
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 300.0, 1200.0,
];

pub const STATES: [&str; 5] = ["creating", "running", "stopped", "failed", "removed"];
const DECISIONS: [&str; 5] = ["connect", "cut", "fail", "refuse", "resolve"];
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(metrics))
}

/// Metrics in Prometheus format.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "metrics",
    responses((status = 200, content_type = "application/openmetrics-text", body = String))
)]
async fn metrics(State(app): State<Arc<App>>) -> Result<Response, Failure> {
    app.count().await?;
    let mut text = String::new();
    encode(&mut text, &app.metrics.registry).map_err(|error| {
        let message = "the numbers cannot be written";
        Fault::new(
            Code::Internal,
            message,
            "see the daemon's log, then try again",
        )
        .because(error)
    })?;
    Ok(([(header::CONTENT_TYPE, OPENMETRICS)], text).into_response())
}

/// Reads everything once, so that later changes are counted.
pub async fn begin(app: Arc<App>) {
    if let Err(fault) = app.count().await {
        tracing::warn!(%fault, "the numbers of /metrics begin when they are asked for");
    }
}

/// Counts API requests.
pub async fn count_request(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("none", MatchedPath::as_str).to_owned();
    // Clients can invent methods; each would be a time series forever.
    let is_known = Route::find(request.method().as_str(), &route).is_some();
    let method = if is_known {
        request.method().to_string()
    } else {
        "other".to_owned()
    };
    let response = next.run(request).await;
    let status = response.status().as_u16();
    let asked = ByRoute {
        method,
        route,
        status,
    };
    app.metrics.api_requests.get_or_create(&asked).inc();
    response
}

// === impl App ===

impl App {
    /// Reads everything. What keepers counted before the first reading does not belong to this
    /// daemon.
    pub async fn count(&self) -> Result<(), Fault> {
        let mut last = self.metrics.seen.lock().await;
        let is_first = last.is_none();
        let views = self.engine.list().await?;
        let trashed = self.engine.trash().await?.len();
        let Room { free, size } = self.room()?;
        let metrics = &self.metrics;
        metrics.disk_free.set(signed(free));
        metrics.disk_size.set(signed(size));
        metrics.disk_workspaces.set(signed(self.gauge.disks()));
        for state in STATES {
            let of_state = views.iter().filter(|view| view.state.as_str() == state);
            let trashed = if state == "removed" { trashed } else { 0 };
            let number = signed((of_state.count() + trashed) as u64);
            let gauge = metrics.workspaces.get_or_create(&[("state", state)]);
            gauge.set(number);
        }
        let live: HashSet<_> = views.iter().map(|view| view.record.id.clone()).collect();
        let seen = last.get_or_insert_default();
        seen.retain(|id, _| live.contains(id));
        for view in &views {
            let before = seen.entry(view.record.id.clone()).or_default();
            let news = before.take(view);
            if !is_first {
                metrics.add(news);
            }
        }
        let mut lines = Vec::new();
        for view in views {
            let Some(seen) = seen.get_mut(&view.record.id) else {
                continue;
            };
            let from = if is_first {
                EgressFrom::End
            } else {
                EgressFrom::After(seen.egress)
            };
            let keeper = self.engine.reader(&view.record.id).await?;
            // What cannot be read now is perhaps there at the next look.
            if let Ok((fresh, place)) = keeper.egress(from).await {
                lines.extend(fresh);
                seen.egress = place;
            }
        }
        metrics.count_decisions(&lines);
        Ok(())
    }
}

/// The changes since the last reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct News {
    bytes_in: u64,
    bytes_out: u64,
    restarts: u64,
}

// === impl LastCounters ===

impl LastCounters {
    fn take(&mut self, view: &View) -> News {
        let carried = view.carried.unwrap_or_default();
        let restarts = view.services.iter().map(|service| service.restarts);
        News {
            bytes_in: since(&mut self.bytes_in, carried.bytes_in),
            bytes_out: since(&mut self.bytes_out, carried.bytes_out),
            restarts: since(&mut self.restarts, restarts.map(u64::from).sum()),
        }
    }
}

/// The increase; a smaller number means a restart.
fn since(before: &mut u64, now: u64) -> u64 {
    let before = std::mem::replace(before, now);
    now.checked_sub(before).unwrap_or(now)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

// === impl Metrics ===

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("holm"),
            workspaces: Family::default(),
            creations: Family::default(),
            creation_time: Histogram::new(TIMES),
            gateway_bytes: Family::default(),
            gateway_decisions: Family::default(),
            front_requests: Family::default(),
            api_requests: Family::default(),
            service_restarts: Counter::default(),
            disk_free: Gauge::default(),
            disk_size: Gauge::default(),
            disk_workspaces: Gauge::default(),
            seen: Mutex::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let registry = &mut self.registry;
        let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "This daemon", build);
        let all = self.workspaces.clone();
        registry.register(
            "workspaces",
            "Workspaces by state; removed: in the trash",
            all,
        );
        let all = self.creations.clone();
        registry.register("creations", "Workspaces that were to be made", all);
        let all = self.creation_time.clone();
        let words = "From the request until the workspace runs";
        registry.register_with_unit("creation", words, Unit::Seconds, all);
        let all = self.gateway_bytes.clone();
        let words = "What went through the gateways of workspaces";
        registry.register_with_unit("gateway", words, Unit::Bytes, all);
        let all = self.gateway_decisions.clone();
        let words =
            "Connections out of workspaces and what became of them; resolve: a refused name";
        registry.register("gateway_decisions", words, all);
        let all = self.front_requests.clone();
        registry.register(
            "proxy_requests",
            "Requests at the front door by status",
            all,
        );
        let all = self.api_requests.clone();
        registry.register("api_requests", "Requests to the API", all);
        let all = self.service_restarts.clone();
        registry.register("service_restarts", "Services that were started again", all);
        let all = self.disk_free.clone();
        let words = "Free on the file system of the data directory";
        registry.register_with_unit("disk_free", words, Unit::Bytes, all);
        let all = self.disk_size.clone();
        let words = "The size of that file system";
        registry.register_with_unit("disk_size", words, Unit::Bytes, all);
        let all = self.disk_workspaces.clone();
        let words = "What live workspaces take, as far as it was measured";
        registry.register_with_unit("disk_workspaces", words, Unit::Bytes, all);
        // Counters start at 0, so that their first increase is visible.
        for result in ["made", "failed"] {
            drop(self.creations.get_or_create(&[("result", result)]));
        }
        for direction in ["in", "out"] {
            drop(
                self.gateway_bytes
                    .get_or_create(&[("direction", direction)]),
            );
        }
        for decision in DECISIONS {
            drop(
                self.gateway_decisions
                    .get_or_create(&[("decision", decision)]),
            );
        }
    }

    pub fn count_creation(&self, creation: CreationEnd) {
        let result = match creation {
            CreationEnd::Made(duration) => {
                self.creation_time.observe(duration.as_secs_f64());
                "made"
            }
            CreationEnd::Failed => "failed",
        };
        self.creations.get_or_create(&[("result", result)]).inc();
    }

    pub fn count_at_the_front_door(&self, status: u16) {
        let status = [("status", status)];
        self.front_requests.get_or_create(&status).inc();
    }

    fn add(&self, news: News) {
        let bytes = |direction| {
            self.gateway_bytes
                .get_or_create(&[("direction", direction)])
        };
        bytes("in").inc_by(news.bytes_in);
        bytes("out").inc_by(news.bytes_out);
        self.service_restarts.inc_by(news.restarts);
    }

    fn count_decisions(&self, lines: &[u8]) {
        let entries = lines.split(|byte| *byte == b'\n');
        let entries = entries.filter_map(|line| serde_json::from_slice::<EgressEntry>(line).ok());
        for entry in entries {
            let known = DECISIONS.into_iter().find(|word| *word == entry.kind);
            let Some(decision) = known else {
                continue;
            };
            let counter = self
                .gateway_decisions
                .get_or_create(&[("decision", decision)]);
            counter.inc_by(entry.count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_anew_is_added_and_what_goes_on_is_not_counted_twice() {
        let mut before = 0;
        assert_eq!(since(&mut before, 5), 5);
        assert_eq!(since(&mut before, 5), 0);
        assert_eq!(since(&mut before, 9), 4);
        assert_eq!(since(&mut before, 2), 2);
    }

    #[test]
    fn decisions_are_counted_as_often_as_they_were_made() {
        let metrics = Metrics::default();
        let lines = br#"{"time":"t","kind":"refuse","count":3}
{"time":"t","kind":"connect"}
not json
{"time":"t","kind":"of another version"}
"#;
        metrics.count_decisions(lines);
        let mut text = String::new();
        encode(&mut text, &metrics.registry).unwrap();
        assert!(text.contains("holm_gateway_decisions_total{decision=\"refuse\"} 3"));
        assert!(text.contains("holm_gateway_decisions_total{decision=\"connect\"} 1"));
        assert!(text.contains("holm_gateway_decisions_total{decision=\"cut\"} 0"));
    }
}
