//! Carries one inspected connection: TLS on both sides, HTTP/1.1 between them.
//!
//! hyper parses both sides, and every message is written anew from its parsed form, so the host
//! reads exactly what was checked here. Each connection inside has one connection outside, and both
//! end together.

use super::super::open::Open;
use super::super::{Carried, Gateway, Process, Surroundings};
use super::body::{AnswerBody, PATIENCE};
use super::frames::Frames;
use super::head::{self, Refusal, Unreadable};
use super::renew::{self, Renewal};
use super::{Answers, Inspected};
use crate::byte_count::{CountedStream, Counts};
use bytes::Bytes;
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1 as client;
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// The time limit for a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(30);

/// The longest head of a request or a response.
const LONGEST_HEAD: usize = 64 * 1024;

/// The first byte of a TLS connection.
const HELLO: u8 = 0x16;

/// What to record about a connection when it has ended.
#[derive(Default)]
pub struct Served {
    counts: Arc<Counts>,
    secrets: Mutex<BTreeSet<String>>,
    failure: Mutex<Option<String>>,
}

/// A body that passes through, or one that the gateway has read.
type RequestBody = Either<Incoming, Full<Bytes>>;
type Sender = client::SendRequest<RequestBody>;
type Refused = (StatusCode, String);

/// State shared by the requests of one connection.
struct Inspector<S> {
    gateway: Gateway<S>,
    at: Inspected,
    /// Or why the connection to the host failed.
    outside: Result<AsyncMutex<Sender>, String>,
    served: Arc<Served>,
    /// Both sides of a connection that was upgraded.
    upgraded: Mutex<Option<(OnUpgrade, OnUpgrade)>>,
}

// === impl Gateway ===

impl<S: Surroundings> Gateway<S> {
    /// Carries a connection to a host at which secrets may be used. A connection that is not TLS
    /// passes unchanged.
    pub(in crate::gateway) async fn carry_inspected(
        &self,
        at: Inspected,
        (inside, outside): (TcpStream, TcpStream),
        open: &Open,
        process: Option<Process>,
    ) {
        let mut first = [0];
        let is_tls = tokio::select! {
            peeked = inside.peek(&mut first) => peeked.is_ok_and(|count| count == 1 && first[0] == HELLO),
            () = open.is_cut() => {
                drop((inside, outside));
                return self.record_inspected(open, Carried::default(), Vec::new(), process);
            }
        };
        if !is_tls {
            return self.carry(inside, outside, open, process).await;
        }
        let begun = Instant::now();
        let served = Arc::new(Served::default());
        let is_cut = tokio::select! {
            () = serve(self, at, inside, outside, &served) => false,
            () = open.is_cut() => true,
        };
        let failure = if is_cut {
            None
        } else {
            lock(&served.failure).take()
        };
        let (bytes_in, bytes_out) = (served.counts.read(), served.counts.written());
        self.add_carried(bytes_in, bytes_out);
        let carried = Carried {
            bytes_in,
            bytes_out,
            duration: begun.elapsed(),
        };
        let secrets: Vec<String> = lock(&served.secrets).iter().cloned().collect();
        match failure {
            Some(why) => self.record_failed(open, why, process),
            None => self.record_inspected(open, carried, secrets, process),
        }
    }
}

async fn serve<S: Surroundings>(
    gateway: &Gateway<S>,
    at: Inspected,
    inside: TcpStream,
    outside: TcpStream,
    served: &Arc<Served>,
) {
    let _ = (inside.set_nodelay(true), outside.set_nodelay(true));
    let accepted = timeout(
        HANDSHAKE,
        TlsAcceptor::from(Arc::clone(&at.tls)).accept(inside),
    );
    let inside = match accepted
        .await
        .unwrap_or(Err(io::ErrorKind::TimedOut.into()))
    {
        Ok(stream) => stream,
        Err(error) => {
            let host = &at.host;
            return served.fail(format!(
                "the program inside did not agree on TLS for {host}: {error}"
            ));
        }
    };
    let mut tasks = JoinSet::new();
    let asked = ask_outside(gateway, &at, outside, &served.counts, &mut tasks).await;
    if let Err(why) = &asked {
        served.fail(why.clone());
    }
    let inspector = Arc::new(Inspector {
        gateway: gateway.clone(),
        at,
        outside: asked.map(AsyncMutex::new),
        served: Arc::clone(served),
        upgraded: Mutex::new(None),
    });
    let asked = Arc::clone(&inspector);
    let service = service_fn(move |request| {
        let inspector = Arc::clone(&asked);
        async move { Ok::<_, Infallible>(inspector.answer(request).await) }
    });
    let serving = server::Builder::new()
        .max_buf_size(LONGEST_HEAD)
        .auto_date_header(false)
        .serve_connection(TokioIo::new(inside), service)
        .with_upgrades();
    let mut serving = pin!(serving);
    // When one side ends, dropping the other ends it too.
    tokio::select! {
        _ = serving.as_mut() => {}
        Some(_) = tasks.join_next() => {
            serving.as_mut().graceful_shutdown();
            let _ = serving.as_mut().await;
        }
    }
    let upgraded = lock(&inspector.upgraded).take();
    if let Some((near, far)) = upgraded {
        let answers = inspector.gateway.placeholders().answers.clone();
        if let (Ok(near), Ok(far)) = tokio::join!(near, far) {
            tunnel(near, far, answers).await;
        }
    }
}

/// Opens verified TLS and an HTTP client to the host.
async fn ask_outside<S: Surroundings>(
    gateway: &Gateway<S>,
    at: &Inspected,
    stream: TcpStream,
    counts: &Arc<Counts>,
    tasks: &mut JoinSet<()>,
) -> Result<Sender, String> {
    let host = &at.host;
    let (placeholders, asking) = (gateway.placeholders(), gateway.clone());
    let config = tokio::task::spawn_blocking(move || {
        placeholders.outside(|| asking.surroundings().trusted())
    });
    let config = config.await.map_err(|error| error.to_string())?;
    let config = config.map_err(|error| format!("cannot set up TLS: {error}"))?;
    let name = ServerName::try_from(host.clone());
    let name = name.map_err(|_| format!("{host} is no name for a certificate"))?;
    let stream = CountedStream::new(stream, Arc::clone(counts));
    let connected = timeout(HANDSHAKE, TlsConnector::from(config).connect(name, stream));
    let stream = match connected.await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(format!("{host} could not be verified: {error}")),
        Err(_) => return Err(format!("{host} did not agree on TLS in time")),
    };
    let (sender, connection) = client::Builder::new()
        .max_buf_size(LONGEST_HEAD)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| format!("{host} cannot be asked: {error}"))?;
    tasks.spawn(async move {
        // hyper also reports the error to the pending request.
        let _ = connection.with_upgrades().await;
    });
    Ok(sender)
}

// === impl Inspector ===

impl<S: Surroundings> Inspector<S> {
    async fn answer(&self, request: Request<Incoming>) -> Response<AnswerBody> {
        match self.pass_on(request).await {
            Ok(response) => response,
            Err((status, text)) => own(status, text),
        }
    }

    async fn pass_on(
        &self,
        mut request: Request<Incoming>,
    ) -> Result<Response<AnswerBody>, (StatusCode, String)> {
        let host = &self.at.host;
        let outside = self.outside.as_ref();
        let outside = outside.map_err(|why| (StatusCode::BAD_GATEWAY, why.clone()))?;
        let near = hyper::upgrade::on(&mut request);
        let (mut head, body) = request.into_parts();
        head::judge(&head, &self.at).map_err(|refusal| refused(refusal, host))?;
        let placeholders = self.gateway.placeholders();
        let renewal = placeholders.renewal(&self.at, head.uri.path());
        let body = match renewal.filter(|_| head.method == Method::POST) {
            Some(renewal) => {
                let body = whole(body, renew::MOST_REQUEST).await?;
                if let Some(asked) = renew::asked(&body, &renewal.token) {
                    return self.renew(head, &renewal, &asked).await;
                }
                Either::Right(Full::new(body))
            }
            None => Either::Left(body),
        };
        let usable = placeholders.usable(&self.at, head.uri.path(), SystemTime::now());
        let used = head::prepare(&mut head, &self.at, &usable);
        let kind = head::request_kind(&head);
        self.write_down(used).await?;
        let mut answer = self.ask(outside, Request::from_parts(head, body)).await?;
        let far = hyper::upgrade::on(&mut answer);
        let (mut head, body) = answer.into_parts();
        let answers = placeholders.answers.clone();
        head::clean(&mut head, answers.as_ref(), kind).map_err(|why| unreadable(&why, host))?;
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            *lock(&self.upgraded) = Some((near, far));
            return Ok(Response::from_parts(head, AnswerBody::Text(None)));
        }
        let body = AnswerBody::passed(body, answers.map(|answers| answers.text));
        Ok(Response::from_parts(head, body))
    }

    async fn ask(
        &self,
        outside: &AsyncMutex<Sender>,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, Refused> {
        let failed = |error: hyper::Error| {
            let text = format!("{} did not answer: {error}", self.at.host);
            (StatusCode::BAD_GATEWAY, text)
        };
        let answer = {
            let mut sender = outside.lock().await;
            sender.ready().await.map_err(failed)?;
            sender.send_request(request)
        };
        answer.await.map_err(failed)
    }

    /// Refreshes an agent's sign-in with a request of the gateway's own, and tells the program
    /// inside its tokens.
    async fn renew(
        &self,
        mut head: hyper::http::request::Parts,
        renewal: &Renewal,
        asked: &renew::Asked,
    ) -> Result<Response<AnswerBody>, Refused> {
        let outside = self.outside.as_ref();
        let outside = outside.map_err(|why| (StatusCode::BAD_GATEWAY, why.clone()))?;
        let (gateway, agent) = (self.gateway.clone(), renewal.agent.clone());
        let have = renewal.value.clone();
        let begun = blocking(move || gateway.surroundings().begin_renewal(&agent, &have)).await?;
        if let Some(newer) = &begun.newer {
            return Ok(document(StatusCode::OK, renew::response(newer)));
        }
        self.write_down(BTreeSet::from([renewal.name.clone()]))
            .await?;
        head::prepare(&mut head, &self.at, &[]);
        let (body, kind) = asked.request(&renewal.value);
        head.headers.remove(header::TRANSFER_ENCODING);
        head.headers.insert(header::CONTENT_TYPE, kind);
        head.headers
            .insert(header::CONTENT_LENGTH, body.len().into());
        head.uri = hyper::Uri::try_from(head.uri.path().to_owned())
            .map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
        let body = Either::Right(Full::new(body));
        let answer = self.ask(outside, Request::from_parts(head, body)).await?;
        let status = answer.status();
        let body = whole(answer.into_body(), renew::MOST_ANSWER).await?;
        match renew::answered(&body).filter(|_| status.is_success()) {
            Some(tokens) => {
                let gateway = self.gateway.clone();
                let ended = move || gateway.surroundings().end_renewal(begun, &tokens);
                Ok(document(
                    StatusCode::OK,
                    renew::response(&blocking(ended).await?),
                ))
            }
            None if status.is_success() => {
                let text = format!("{} answered without an access token", self.at.host);
                Err((StatusCode::BAD_GATEWAY, text))
            }
            None => Ok(document(status, renew::error(&body))),
        }
    }

    /// Records the use of secrets; the request is refused if that fails.
    async fn write_down(&self, used: BTreeSet<String>) -> Result<(), (StatusCode, String)> {
        if used.is_empty() {
            return Ok(());
        }
        let (gateway, host) = (self.gateway.clone(), self.at.host.clone());
        let names = used.clone();
        let written =
            tokio::task::spawn_blocking(move || gateway.surroundings().used(&names, &host));
        let written = written
            .await
            .map_err(io::Error::other)
            .and_then(|done| done);
        written.map_err(|error| {
            let text = format!("the use of a secret cannot be written down: {error}");
            (StatusCode::BAD_GATEWAY, text)
        })?;
        lock(&self.served.secrets).extend(used);
        Ok(())
    }
}

// === impl Served ===

impl Served {
    fn fail(&self, why: String) {
        *lock(&self.failure) = Some(why);
    }
}

/// A short body as a whole.
async fn whole(body: Incoming, most: usize) -> Result<Bytes, Refused> {
    let collected = Limited::new(body, most).collect().await;
    let collected = collected.map_err(|error| {
        let text = format!("a message about a sign-in cannot be read: {error}");
        (StatusCode::BAD_GATEWAY, text)
    })?;
    Ok(collected.to_bytes())
}

/// Work for the daemon, in another thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Refused> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(io::Error::other).and_then(|done| done);
    done.map_err(|error| {
        let text = format!("the daemon did not take the refreshed sign-in: {error}");
        (StatusCode::BAD_GATEWAY, text)
    })
}

fn document(status: StatusCode, text: String) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::text(text));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn refused(refusal: Refusal, host: &str) -> (StatusCode, String) {
    match refusal {
        Refusal::OtherHost => (
            StatusCode::MISDIRECTED_REQUEST,
            format!("this connection was made to {host}, and the request names another host"),
        ),
        Refusal::NoHost => (
            StatusCode::BAD_REQUEST,
            "the request names no host".to_owned(),
        ),
        Refusal::TwoLengths => (
            StatusCode::BAD_REQUEST,
            "the request says in two ways where it ends".to_owned(),
        ),
        Refusal::Method => (
            StatusCode::METHOD_NOT_ALLOWED,
            "CONNECT leads nowhere here".to_owned(),
        ),
    }
}

fn unreadable(why: &Unreadable, host: &str) -> (StatusCode, String) {
    let what = match why {
        Unreadable::Coding(coding) => format!(
            "in an encoding that was not asked for ({})",
            coding.escape_debug()
        ),
        Unreadable::Part => "with a part of what was asked for".to_owned(),
        Unreadable::Protocol => "in a protocol that was not asked for".to_owned(),
    };
    let text = format!("{host} answered {what}, in which a secret could not be seen");
    (StatusCode::BAD_GATEWAY, text)
}

/// A response of the gateway itself, which closes the connection.
fn own(status: StatusCode, text: String) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::text(format!("holm: {text}\n")));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

/// Copies a WebSocket: outward unchanged, inward with values replaced.
async fn tunnel(near: Upgraded, far: Upgraded, answers: Option<Answers>) {
    let (near_reader, near_writer) = tokio::io::split(TokioIo::new(near));
    let (far_reader, far_writer) = tokio::io::split(TokioIo::new(far));
    // However one direction ends, the end is passed on.
    let _ = tokio::join!(
        copy(near_reader, far_writer, None),
        copy(
            far_reader,
            near_writer,
            answers.map(|answers| Frames::new(answers.text))
        ),
    );
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut frames: Option<Frames>,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let held = frames.as_mut().filter(|held| held.holds_something());
        let read = match held {
            None => from.read(&mut buffer).await?,
            Some(held) => match timeout(PATIENCE, from.read(&mut buffer)).await {
                Ok(read) => read?,
                Err(_) => {
                    to.write_all(&held.rest()).await?;
                    to.flush().await?;
                    continue;
                }
            },
        };
        if read == 0 {
            if let Some(frames) = &mut frames {
                to.write_all(&frames.rest()).await?;
            }
            return to.shutdown().await;
        }
        match &mut frames {
            Some(frames) => match frames.take(&buffer[..read]) {
                Ok(response) => to.write_all(&response).await?,
                Err(_) => return to.shutdown().await,
            },
            None => to.write_all(&buffer[..read]).await?,
        }
        to.flush().await?;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
