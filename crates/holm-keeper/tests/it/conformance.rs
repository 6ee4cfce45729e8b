//! What every running workspace does, whatever driver made it and however its keeper is reached. It has one
//! service, [`service`]. The tests of the driver for linux include this file.

use holm_core::config::{OnAssign, Restart};
use holm_core::exec::{ExecInput, ExecOutput, ExecRequest, Terminal};
use holm_core::files::{Head, Operation, Range, Request as FileRequest};
use holm_core::run::{Requester, RunEnding, RunOrder};
use holm_core::service::Wish;
use holm_core::session::protocol::{NewSession, SessionRequest, SessionResponse, WaitEnd};
use holm_core::spec::{Probe, Ready, Service};
use holm_core::{RunId, SessionId};
use holm_keeper::client::{ExecStream, KeeperClient, Pulled, Watch, Watched};
use holm_keeper::runs::read::Piece;
use holm_keeper::wire::{Answer, LogQuery, VERSION, WatchReport, control_frame};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// The name is looked for among all processes that a workspace without isolation can see.
const SERVICE: &str = "conformance-service";

/// Longer than anything here takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// A workspace that runs.
pub struct Workspace {
    pub client: KeeperClient,
    /// Where its code is, as programs inside see it.
    pub root: PathBuf,
    /// Our own program, as programs inside find it.
    pub helper: String,
}

/// Prints one line, and is ready then.
pub fn service() -> Service {
    Service {
        name: SERVICE.to_owned(),
        run: "echo it is up; exec sleep 1000".to_owned(),
        image: None,
        ready: Some(Ready {
            probe: Probe::Log {
                text: "it is up".to_owned(),
            },
            timeout_ms: 60_000,
        }),
        depends_on: Vec::new(),
        restart: Restart::No,
        on_assign: OnAssign::None,
        build: None,
        rebuild_when: Vec::new(),
        env: Vec::new(),
        port: None,
    }
}

/// Everything, and at last the end of the workspace.
pub async fn all(workspace: &Workspace) {
    let client = &workspace.client;
    status_and_label(client).await;
    commands(client).await;
    a_terminal(client).await;
    refusals(client).await;
    files(workspace).await;
    a_session(client).await;
    a_service(client).await;
    a_run(client).await;
    a_port(client).await;
    let mut watch = a_watch(client).await;
    let grace = Duration::from_secs(5);
    client.stop(grace, LIMIT).await.unwrap();
    let told_of_end = async { while watch.next().await.is_some() {} };
    timeout(LIMIT, told_of_end)
        .await
        .expect("the watch ends with the workspace");
    let is_gone = async {
        while client.status().await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    timeout(LIMIT, is_gone).await.expect("its keeper ends");
}

async fn status_and_label(client: &KeeperClient) {
    let status = client.status().await.unwrap();
    assert_eq!((status.version, status.trouble), (VERSION, None));
    client.relabel("another-name").await.unwrap();
    client.set_ports(Vec::new()).await.unwrap();
    assert_eq!(client.status().await.unwrap().id, status.id);
}

/// What a command printed and its exit code; `input` is its stdin.
async fn finish(stream: ExecStream, input: &[u8]) -> (String, String, u8) {
    let ExecStream {
        input: sender,
        mut output,
    } = stream;
    // A command that has ended takes no more.
    let _ = sender.send(ExecInput::Stdin(input.to_vec())).await;
    let _ = sender.send(ExecInput::StdinEof).await;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        match timeout(LIMIT, output.recv()).await.unwrap().unwrap() {
            ExecOutput::Stdout(bytes) => stdout.extend(bytes),
            ExecOutput::Stderr(bytes) => stderr.extend(bytes),
            ExecOutput::Exit(code) => {
                let text = |bytes| String::from_utf8(bytes).unwrap();
                return (text(stdout), text(stderr), code);
            }
            ExecOutput::Failed(fault) => panic!("{fault:?}"),
            _ => {}
        }
    }
}

fn argv(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

fn shell(script: &str) -> ExecRequest {
    ExecRequest {
        argv: argv(&["sh", "-c", script]),
        ..ExecRequest::default()
    }
}

async fn commands(client: &KeeperClient) {
    let check = async |request: ExecRequest, input: &[u8], expect: (&str, &str, u8)| {
        let (stdout, stderr, code) = finish(client.exec(request).await.unwrap(), input).await;
        assert_eq!((stdout.as_str(), stderr.as_str(), code), expect);
    };
    let script = "cat; echo problem >&2; exit 3";
    check(shell(script), b"hello", ("hello", "problem\n", 3)).await;
    check(shell("kill -9 $$"), b"", ("", "", 137)).await;
    let env = ExecRequest {
        env: vec![(b"GREETING".to_vec(), b"hi".to_vec())],
        cwd: Some(b"/".to_vec()),
        ..shell("echo $GREETING; pwd")
    };
    check(env, b"", ("hi\n/\n", "", 0)).await;
    let missing = ExecRequest {
        argv: argv(&["no-such-program-anywhere"]),
        ..ExecRequest::default()
    };
    let (_, stderr, code) = finish(client.exec(missing).await.unwrap(), b"").await;
    assert_eq!(code, 127);
    assert!(stderr.contains("no-such-program-anywhere"), "{stderr}");
    let slow = ExecRequest {
        timeout_ms: Some(200),
        ..shell("sleep 1000")
    };
    check(slow, b"", ("", "", 124)).await;
}

async fn a_terminal(client: &KeeperClient) {
    let request = ExecRequest {
        terminal: Some(Terminal {
            term: "xterm".to_owned(),
            rows: 11,
            cols: 44,
        }),
        ..shell("test -t 0 && test -t 1 && stty size; echo $TERM")
    };
    let (stdout, _, code) = finish(client.exec(request).await.unwrap(), b"").await;
    assert_eq!((stdout.as_str(), code), ("11 44\r\nxterm\r\n", 0));
}

/// What a keeper answers to these bytes.
async fn answer_to(client: &KeeperClient, request: serde_json::Value) -> Answer {
    let mut stream = client.connect().await.unwrap();
    let frame = control_frame(&request).unwrap();
    stream.write_all(&frame).await.unwrap();
    let length = stream.read_u32_le().await.unwrap() as usize;
    assert_eq!(stream.read_u8().await.unwrap(), 0);
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).await.unwrap();
    serde_json::from_slice(&payload).unwrap()
}

async fn refusals(client: &KeeperClient) {
    let check = async |request, expect: &str| match answer_to(client, request).await {
        Answer::Refused(why) => assert!(why.contains(expect), "{why}"),
        other => panic!("{other:?}"),
    };
    let unknown = serde_json::json!({ "version": VERSION, "op": { "an_op_of_tomorrow": 1 } });
    check(unknown, "an_op_of_tomorrow").await;
    let other = serde_json::json!({ "version": 99, "op": "watch_ports" });
    check(other, "protocol").await;
    // Whatever the version, this one is answered.
    let status = serde_json::json!({ "version": 99, "op": "status" });
    let status = answer_to(client, status).await;
    assert!(matches!(status, Answer::Status(_)), "{status:?}");
}

async fn files(workspace: &Workspace) {
    let client = &workspace.client;
    let written = client.exec(shell("echo content > a-file")).await.unwrap();
    assert_eq!(finish(written, b"").await.2, 0);
    let request = FileRequest {
        root: workspace.root.as_os_str().as_bytes().to_vec(),
        path: b"a-file".to_vec(),
        operation: Operation::Read(Range::default()),
    };
    let request = serde_json::to_string(&request).unwrap();
    let read = ExecRequest {
        argv: argv(&[&workspace.helper, holm_core::files::ROLE, &request]),
        ..ExecRequest::default()
    };
    let (stdout, stderr, code) = finish(client.exec(read).await.unwrap(), b"").await;
    let (head, content) = stdout.split_once('\n').expect(&stderr);
    let head: Head = serde_json::from_str(head).unwrap();
    assert!(matches!(head, Head::Content { length: 8, .. }), "{head:?}");
    assert_eq!((content, code), ("content\n", 0));
}

/// Starts a shell in a terminal; the session's id.
async fn start_session(client: &KeeperClient) -> String {
    let new = NewSession {
        id: SessionId::random().to_string(),
        argv: argv(&["sh"]),
        rows: 24,
        cols: 80,
        ..NewSession::default()
    };
    let session = new.id.clone();
    let started = client
        .session(SessionRequest::Start(Box::new(new)))
        .await
        .unwrap();
    assert!(
        matches!(started, SessionResponse::Started(_)),
        "{started:?}"
    );
    session
}

async fn a_session(client: &KeeperClient) {
    let session = start_session(client).await;
    let sent = client.session(SessionRequest::Send {
        session: session.clone(),
        text: b"echo a$((40 + 2))b".to_vec(),
        keys: vec!["enter".to_owned()],
    });
    assert!(matches!(sent.await.unwrap(), SessionResponse::Sent { .. }));
    let waited = client.session(SessionRequest::Wait {
        session: session.clone(),
        idle_ms: None,
        pattern: Some("a42b".to_owned()),
        since: Some(0),
        timeout_ms: LIMIT.as_millis() as u64,
    });
    match waited.await.unwrap() {
        SessionResponse::Waited(waited) => assert_eq!(waited.reason, WaitEnd::Matched),
        other => panic!("{other:?}"),
    }
    let ask = SessionRequest::Kill {
        session: session.clone(),
    };
    client.session(ask).await.unwrap();
    let recorded = client.last_sessions().await.unwrap();
    let recorded = recorded.iter().find(|status| status.id == session);
    assert!(recorded.unwrap().exit_code.is_some(), "{recorded:?}");
}

async fn a_service(client: &KeeperClient) {
    let mut changes = client.watch_services().await.unwrap();
    let mut until = async |state: &str| {
        loop {
            let services = timeout(LIMIT, changes.recv()).await.unwrap().unwrap();
            let service = services.services.iter().find(|it| it.name == SERVICE);
            if service.unwrap().state == state {
                return;
            }
        }
    };
    until("ready").await;
    client.service(SERVICE, Wish::Stop).await.unwrap();
    until("stopped").await;
    client.service(SERVICE, Wish::Start).await.unwrap();
    until("ready").await;
    let recorded = client.last_services().await.unwrap();
    assert_eq!(recorded.services[0].name, SERVICE);
    let query = LogQuery {
        services: vec![SERVICE.to_owned()],
        ..LogQuery::default()
    };
    let mut logs = client.logs(query).await.unwrap();
    let Pulled { items, has_more } = logs.read().await.unwrap();
    let ups = items.iter().filter(|(service, record)| {
        assert_eq!(service, SERVICE);
        record.text == b"it is up"
    });
    assert_eq!((ups.count(), has_more), (2, false));
    let wrong = client.service("no-such-service", Wish::Start).await;
    assert!(wrong.is_err());
}

/// The keeper tells changes without being asked, and answers questions on the same connection, in order.
async fn a_watch(client: &KeeperClient) -> Watch {
    let watched = client.watch_status().await.unwrap();
    let Watched {
        first,
        mut watch,
        asker,
        ..
    } = watched.expect("a keeper that can be watched");
    assert_eq!(first.status.id, client.status().await.unwrap().id);
    assert_eq!(first.answered, 0);
    let state = |seen: &WatchReport| seen.status.services[0].state.clone();
    assert_eq!(state(&first), "ready");
    client.service(SERVICE, Wish::Stop).await.unwrap();
    let told = async {
        loop {
            let seen = watch.next().await.unwrap();
            assert_eq!(seen.answered, 0, "nothing was asked yet");
            if state(&seen) == "stopped" {
                return;
            }
        }
    };
    timeout(LIMIT, told)
        .await
        .expect("the end of a service is told");
    let session = start_session(client).await;
    for has_ended in [false, true] {
        let told = async {
            loop {
                let seen = watch.next().await.unwrap();
                assert_eq!(seen.answered, 0, "nothing was asked yet");
                let sessions = seen.sessions.expect("a keeper that tells its sessions");
                let last = sessions.last().filter(|last| last.id == session);
                if last.is_some_and(|last| last.exit_code.is_some() == has_ended) {
                    return;
                }
            }
        };
        let told = timeout(LIMIT, told).await;
        told.expect("the start and the end of a session are told");
        if !has_ended {
            let session = session.clone();
            client
                .session(SessionRequest::Kill { session })
                .await
                .unwrap();
        }
    }
    for number in 1..=3 {
        asker.ask().await.unwrap();
        let answered = async {
            loop {
                let seen = watch.next().await.unwrap();
                assert!(seen.answered <= number);
                if seen.answered == number {
                    return seen;
                }
            }
        };
        let seen = timeout(LIMIT, answered).await.expect("an answer");
        assert_eq!(state(&seen), "stopped");
    }
    watch
}

async fn a_run(client: &KeeperClient) {
    let run = RunId::random();
    let order = RunOrder {
        run: run.to_string(),
        argv: argv(&["sh", "-c", "cat; echo done >&2; exit 7"]),
        env: Vec::new(),
        message: "a message".to_owned(),
        timeout_ms: LIMIT.as_millis() as u64,
        asker: Requester::User,
    };
    let mut changes = client.begin_run(order).await.unwrap();
    let mut last = None;
    while let Some(seen) = timeout(LIMIT, changes.recv()).await.unwrap() {
        last = Some(seen);
    }
    let end = last.clone().unwrap().end.unwrap();
    assert_eq!((end.code, end.how), (7, RunEnding::Exited));
    assert_eq!(client.recorded_run(&run).await.unwrap(), last);
    let mut output = client.run_output(&run, 0).await.unwrap();
    let read = output.read().await.unwrap();
    let said = read.items.iter().map(|piece| match piece {
        Piece::Output { bytes, .. } => bytes.as_slice(),
        Piece::Missed { .. } => panic!("{piece:?}"),
    });
    let mut said: Vec<_> = said.collect();
    said.sort();
    assert_eq!(said, [&b"a message"[..], b"done\n"]);
    client.forget_run(&run).await.unwrap();
    assert_eq!(client.recorded_run(&run).await.unwrap(), None);
}

/// A server of one connection, which says what it hears.
const SERVER: &str = "
import socket
server = socket.create_server(('127.0.0.1', 0))
print(server.getsockname()[1], flush=True)
connection, _ = server.accept()
connection.sendall(connection.recv(100))
connection.close()
";

async fn a_port(client: &KeeperClient) {
    let request = ExecRequest {
        argv: argv(&["python3", "-c", SERVER]),
        ..ExecRequest::default()
    };
    let mut server = client.exec(request).await.unwrap();
    let port: u16 = loop {
        match timeout(LIMIT, server.output.recv()).await.unwrap().unwrap() {
            ExecOutput::Stdout(bytes) => {
                break String::from_utf8(bytes).unwrap().trim().parse().unwrap();
            }
            ExecOutput::Started => {}
            other => panic!("{other:?}"),
        }
    };
    let mut listening = client.watch_ports().await.unwrap();
    let ports = timeout(LIMIT, listening.recv()).await.unwrap().unwrap();
    assert!(ports.contains(&port), "{ports:?}");
    let mut stream = client.dial(port).await.unwrap();
    stream.write_all(b"over the wire").await.unwrap();
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).await.unwrap();
    assert_eq!(heard, b"over the wire");
    assert_eq!(finish(server, b"").await.2, 0);
    assert!(client.dial(port).await.is_err(), "nobody listens any more");
}
