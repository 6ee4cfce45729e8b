//! `/mcp`: streamable HTTP in the daemon. Every caller has a separate server with its own sessions,
//! so a session's id is useless to other callers. The gate has identified the caller.

use super::{Holm, stdio};
use axum::body::{Body, to_bytes};
use axum::http::{Request, Response, StatusCode};
use bytes::Bytes;
use holm_server::Mcp;
use holm_server::helper::Local;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use std::collections::HashMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

type Service = StreamableHttpService<Holm, LocalSessionManager>;
type Answer = Response<BoxBody<Bytes, Infallible>>;

/// The most callers that are remembered; others start again.
const MOST_CALLERS: usize = 64;
/// The largest message: a file to write.
const LARGEST: usize = 16 << 20;

/// The servers, by caller.
struct Servers {
    socket: PathBuf,
    servers: Mutex<HashMap<String, Service>>,
}

/// What the daemon answers `/mcp` with. `socket` is that of the daemon itself.
pub fn answers(socket: PathBuf) -> Mcp {
    let servers = Arc::new(Servers {
        socket,
        servers: Mutex::new(HashMap::new()),
    });
    Box::new(move |caller, local, request| {
        let servers = Arc::clone(&servers);
        Box::pin(async move { servers.answer(caller, local, request).await.map(Body::new) })
    })
}

// === impl Servers ===

impl Servers {
    async fn answer(&self, caller: String, local: Local, request: Request<Body>) -> Answer {
        match named(request).await {
            Ok(request) => self.of(caller, local).handle(request).await,
            Err(refusal) => refusal,
        }
    }

    fn of(&self, caller: String, local: Local) -> Service {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(service) = servers.get(&caller) {
            return service.clone();
        }
        if servers.len() >= MOST_CALLERS {
            servers.clear();
        }
        let holm = Holm::in_daemon(self.socket.clone(), caller.clone(), local);
        // The gate checked Host and Origin, as for every route.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_max_request_body_bytes(LARGEST);
        let sessions = Arc::new(LocalSessionManager::default());
        let service = StreamableHttpService::new(move || Ok(holm.clone()), sessions, config);
        servers.insert(caller, service.clone());
        service
    }
}

/// The request, unless its message gives parameters by position.
async fn named(request: Request<Body>) -> Result<Request<Body>, Answer> {
    let (parts, body) = request.into_parts();
    let Ok(bytes) = to_bytes(body, LARGEST).await else {
        let text = format!("the message cannot be read, or is longer than {LARGEST} bytes");
        return Err(refusal(StatusCode::PAYLOAD_TOO_LARGE, text.into()));
    };
    match serde_json::from_slice(&bytes) {
        Ok(message) if !stdio::is_named(&message) => {
            Err(refusal(StatusCode::BAD_REQUEST, stdio::unnamed(&message)))
        }
        // The service answers what is not JSON.
        _ => Ok(Request::from_parts(parts, Body::from(bytes))),
    }
}

fn refusal(status: StatusCode, body: Vec<u8>) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(body)).boxed());
    *response.status_mut() = status;
    response
}
