//! The socket for guests: keepers bring the connections of programs inside here, each behind a line that
//! says of which workspace, and proves it.

use super::App;
use super::caller::Way;
use super::listen;
use axum::Router;
use axum::body::Body;
use holm_core::{Fault, WorkspaceId};
use holm_linux::Layout;
use holm_linux::guests::{
    GREETING, GREETING_REST, Greeted, Speaker, has_rest, is_secret_of, socket, understand,
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

/// All workspaces together; each keeper has a limit of its own.
const MOST: usize = 1024;

/// How long a keeper may take for its line, and a program for the head of a request.
const GREETING_PATIENCE: Duration = Duration::from_secs(2);
const HEAD_PATIENCE: Duration = Duration::from_secs(30);

/// The longest head of a request.
const LARGEST_HEAD: usize = 64 << 10;

/// After a connection could not be taken (no descriptor is left), before the next is tried.
const PAUSE: Duration = Duration::from_millis(50);

pub fn bind(layout: &Layout) -> Result<UnixListener, Fault> {
    listen::private_socket(&socket(layout))
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
    let (stream, sever) = Severable::new(stream);
    app.tokens.cuts().hold(id.as_str(), &sever);
    let way = Way::Guests(id, speaker);
    let service = service_fn(move |request| answer(router.clone(), way.clone(), request));
    // Whatever ends a connection early was the guest's wish or the guest's fault.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .max_buf_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
}

/// Whose guest this is.
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
    is_secret_of(&app.layout(), &id, &secret).then_some((id, speaker))
}

/// Has the API answer a request that came by a way of its own.
pub async fn answer(
    mut router: Router,
    way: Way,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(way);
    router.call(request).await
}
