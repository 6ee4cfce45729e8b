//! A front door whose workspaces are servers of the test.

use holm_core::{Label, ProjectName, WorkspaceId};
use holm_proxy::front::{DoorLimits, Front, Generation, Hooks};
use holm_proxy::socks::Outside;
use holm_proxy::{Inside, LiveWorkspace, Port, Source, Stream, Table, Tallies, Visit};
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};

/// Dials what listens on this machine's own loopback.
#[derive(Clone, Default)]
pub struct Here {
    pub dialled: Arc<AtomicUsize>,
}

impl Inside for Here {
    async fn dial(&self, id: &WorkspaceId, port: u16) -> io::Result<Visit> {
        self.dialled.fetch_add(1, Ordering::Relaxed);
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        Ok(Tallies::default().count(stream, id, port))
    }
}

impl Outside for Here {
    /// A gateway that allows one name.
    async fn dial_out(&self, _: &WorkspaceId, host: &str, port: u16) -> io::Result<Stream> {
        if host != "allowed.test" {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let (near, mut far) = UnixStream::pair()?;
        let greeting = format!("{host}:{port}");
        tokio::spawn(async move { far.write_all(greeting.as_bytes()).await });
        Ok(near.into())
    }
}

pub struct Door {
    pub port: u16,
    pub table: Table,
    pub here: Here,
    pub used: Arc<AtomicUsize>,
}

// === impl Door ===

impl Door {
    /// With one workspace per label, each with a port `web`.
    pub async fn new(workspaces: &[(&str, u16)]) -> Self {
        Self::with(workspaces, Generation::First).await
    }

    pub async fn with(workspaces: &[(&str, u16)], generation: Generation) -> Self {
        Self::open(workspaces, generation, DoorLimits::for_files(20_000)).await
    }

    /// With less room than a real one, so that it is soon full.
    pub async fn limited(workspaces: &[(&str, u16)], limits: DoorLimits) -> Self {
        Self::open(workspaces, Generation::First, limits).await
    }

    async fn open(workspaces: &[(&str, u16)], generation: Generation, limits: DoorLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let table = Table::default();
        table.replace(
            workspaces
                .iter()
                .map(|(label, port)| workspace(label, *port))
                .collect(),
        );
        let (here, used) = (Here::default(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&used);
        let hooks = Hooks {
            answered: Arc::new(|_| {}),
            used: Arc::new(move |_| {
                counted.fetch_add(1, Ordering::Relaxed);
            }),
            generations: Arc::new(move |_, _| generation),
            daemon: None,
        };
        let front = Front::new(here.clone(), table.clone(), hooks, port, limits);
        tokio::spawn(front.serve(vec![listener]));
        Self {
            port,
            table,
            here,
            used,
        }
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).await.unwrap()
    }

    /// Sends bytes as they are and reads until the door closes.
    pub async fn raw(&self, request: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request.as_ref()).await.unwrap();
        read_to_end(&mut stream).await
    }

    /// GET with this `Host` (and more lines), on a new connection.
    pub async fn get(&self, host: &str, more: &str) -> String {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n");
        self.raw(request).await
    }
}

pub fn workspace(label: &str, port: u16) -> LiveWorkspace {
    LiveWorkspace {
        id: WorkspaceId::random(),
        label: Label::parse(label).unwrap(),
        project: ProjectName::parse("shop").unwrap(),
        site: label.to_owned(),
        is_running: true,
        ports: vec![Port {
            name: "web".to_owned(),
            port,
            host_port: None,
            source: Source::Declared,
            scheme: "http".to_owned(),
            host: None,
            is_listening: true,
            is_canonical: false,
        }],
    }
}

/// A server that treats every connection like this; its port.
pub async fn server<F: Future<Output = ()> + Send + 'static>(
    serve: impl Fn(TcpStream) -> F + Send + 'static,
) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    port
}

/// A server that answers every request of a connection with these bytes.
pub async fn answers(answer: &'static [u8]) -> u16 {
    server(move |mut stream| async move {
        while !read_head(&mut stream).await.is_empty() {
            if stream.write_all(answer).await.is_err() {
                return;
            }
        }
    })
    .await
}

/// A server that returns what it received.
pub async fn echo() -> u16 {
    server(|mut stream| async move {
        loop {
            let head = read_head(&mut stream).await;
            if head.is_empty() {
                return;
            }
            let length = head.len();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{head}");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    })
    .await
}

/// A head with its empty line; nothing at the end.
pub async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return String::new(),
        }
    }
    String::from_utf8(head).unwrap()
}

pub async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    // A response that is cut ends with an error; the bytes before it count.
    let _ = within(stream.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// Fails when the event happens only because of a time limit of the code.
pub async fn within<T>(future: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(25);
    tokio::time::timeout(limit, future)
        .await
        .expect("it never happens")
}

#[track_caller]
pub fn status(answer: &str) -> u16 {
    let status = answer
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.get(2..5));
    let status = status.and_then(|status| status.parse().ok());
    status.unwrap_or_else(|| panic!("not an answer: {answer:?}"))
}

/// Numbers that are the same in every run.
pub struct Dice(u64);

impl Dice {
    pub fn new() -> Self {
        Self(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

/// Connects, says these bytes and nothing more, and waits until the other side closes.
pub async fn say(port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    // It may be closed before everything was said.
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    let mut answer = Vec::new();
    let _ = within(stream.read_to_end(&mut answer)).await;
    answer
}
