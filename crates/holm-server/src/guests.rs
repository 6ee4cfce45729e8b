//! The socket for guests: keepers connect programs inside to it, each after a line that identifies
//! and proves the workspace.

use super::App;
use super::caller::Way;
use super::listen;
use axum::Router;
use axum::body::Body;
use holm_config::paths::Paths;
use holm_core::{Fault, WorkspaceId};
use holm_keeper::guests::{
    GREETING, GREETING_REST, Greeted, SOCKET, Speaker, has_rest, understand,
};
use holm_proxy::sever::Severable;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tower_service::Service;

/// For all workspaces; each keeper has its own limit.
const MOST: usize = 1024;

/// The time limits for a keeper's line, and for a request head.
const GREETING_PATIENCE: Duration = Duration::from_secs(2);
const HEAD_PATIENCE: Duration = Duration::from_secs(30);

/// The longest request head.
const LARGEST_HEAD: usize = 64 << 10;

/// How long to wait before the next `accept` when no descriptor is left.
const PAUSE: Duration = Duration::from_millis(50);

pub fn bind(paths: &Paths) -> Result<UnixListener, Fault> {
    listen::private_socket(&paths.run_dir.join(SOCKET))
}

/// Serves for as long as it is polled.
pub async fn serve(app: Arc<App>, listener: UnixListener, router: Router) {
    let room = Arc::new(Semaphore::new(MOST));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (app, router) = (Arc::clone(&app), router.clone());
                tokio::spawn(async move {
                    connection(&app, stream, router).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot take a guest's connection");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn connection(app: &App, mut stream: UnixStream, router: Router) {
    let greeted = tokio::time::timeout(GREETING_PATIENCE, greeted(app, &mut stream)).await;
    let Ok(Some((id, speaker))) = greeted else {
        tracing::warn!("a connection to the guests' socket did not say whose it is");
        return;
    };
    if speaker == Some(Speaker::Keeper) {
        return super::agents::renewal::serve(app, &id, stream).await;
    }
    let (stream, sever) = Severable::new(stream);
    app.tokens.cuts().hold(id.as_str(), &sever);
    let way = Way::Guests(id, speaker);
    let service = service_fn(move |request| answer(router.clone(), way.clone(), request));
    // A connection ends early only because of the guest, so the error is dropped.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .max_buf_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
}

/// The workspace of a connection.
async fn greeted(app: &App, stream: &mut UnixStream) -> Option<(WorkspaceId, Option<Speaker>)> {
    let uid = stream.peer_cred().ok()?.uid();
    if uid != rustix::process::geteuid().as_raw() {
        return None;
    }
    let mut greeting = vec![0; GREETING];
    stream.read_exact(&mut greeting).await.ok()?;
    if has_rest(&greeting) {
        let mut rest = [0; GREETING_REST];
        stream.read_exact(&mut rest).await.ok()?;
        greeting.extend(rest);
    }
    let Greeted {
        id,
        speaker,
        secret,
    } = understand(&greeting)?;
    // A workspace in the trash is none.
    app.engine.spec(&id).await.ok()?;
    let keeper = app.engine.reader(&id).await.ok()?;
    let is_known = keeper.has_guest_secret(secret).await.ok()?;
    is_known.then_some((id, speaker))
}

/// Passes a request to the API, with the listener it came through.
pub async fn answer(
    mut router: Router,
    way: Way,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(way);
    router.call(request).await
}
