//! The protocol, against the driver without isolation in `tests/plain`.

use crate::conformance::{self, Workspace};
use holm_core::Code;
use holm_core::exec::{ExecOutput, ExecRequest};
use holm_keeper::client::{Connect, Connecting, KeeperClient, Stream};
use holm_keeper::plan::{LaunchAnswer, Plan};
use holm_keeper::wire::VERSION;
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Signal, kill_process, pidfd_getfd, pidfd_open,
};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};

/// The port of a keeper's bridge.
struct Tcp(u16);

impl Connect for Tcp {
    fn connect(&self) -> Connecting<'_> {
        Box::pin(async {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.0)).await?;
            Ok(Stream::Tcp(stream))
        })
    }

    /// The keeper reads them: its files are not on the client's machine.
    fn connect_to_records(&self) -> Connecting<'_> {
        self.connect()
    }
}

/// The keeper's own socket. What a keeper sends as its last word is not lost in a bridge.
struct Direct(PathBuf);

impl Connect for Direct {
    fn connect(&self) -> Connecting<'_> {
        Box::pin(async { Ok(Stream::Unix(UnixStream::connect(&self.0).await?)) })
    }

    fn connect_to_records(&self) -> Connecting<'_> {
        self.connect()
    }
}

/// The example `plain`, which is built with the tests.
fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let built = own.parent().unwrap().parent().unwrap();
    let program = built.join("examples/plain");
    assert!(program.exists(), "{} is not built", program.display());
    program
}

fn plan(place: &Path) -> Plan {
    let root = place.join("root");
    fs::create_dir_all(place.join("guest")).unwrap();
    fs::create_dir_all(&root).unwrap();
    Plan {
        version: VERSION,
        id: "plain".to_owned(),
        label: "plain".to_owned(),
        root,
        dir: place.to_owned(),
        socket: place.join("control.sock"),
        program: program(),
        helper: program(),
        audit: place.to_owned(),
        environment: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        ..Plan::default()
    }
}

fn start(plan: &Plan) -> Child {
    let log = File::create(plan.dir.join("keeper.log")).unwrap();
    let mut keeper = Command::new(&plan.program)
        .arg("keeper")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap();
    let mut stdin = keeper.stdin.take().unwrap();
    stdin.write_all(&serde_json::to_vec(plan).unwrap()).unwrap();
    drop(stdin);
    let mut answer = Vec::new();
    let mut stdout = keeper.stdout.take().unwrap();
    stdout.read_to_end(&mut answer).unwrap();
    let answer: LaunchAnswer = serde_json::from_slice(&answer).unwrap();
    assert!(matches!(answer, LaunchAnswer::Ready(_)), "{answer:?}");
    keeper
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_processes_over_tcp_are_a_workspace() {
    let place = tempfile::tempdir().unwrap();
    let plan = Plan {
        services: vec![conformance::service()],
        ..plan(place.path())
    };
    let mut keeper = start(&plan);
    let port = fs::read_to_string(place.path().join("port")).unwrap();
    conformance::all(&Workspace {
        client: KeeperClient::new(Tcp(port.parse().unwrap())),
        root: plan.root.clone(),
        helper: plan.helper.to_str().unwrap().to_owned(),
    })
    .await;
    let ended = tokio::task::spawn_blocking(move || keeper.wait().unwrap());
    assert!(ended.await.unwrap().success(), "it was asked to stop");
}

/// Init is stopped, gets the request to start the command, and is killed before it reads that.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_init_did_not_start_is_an_error_and_not_an_exit_code() {
    let place = tempfile::tempdir().unwrap();
    let plan = plan(place.path());
    let mut keeper = start(&plan);
    let own = keeper.id();
    let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap();
    // The first; the second is the bridge.
    let init = children.split_whitespace().next().unwrap();
    let init = Pid::from_raw(init.parse().unwrap()).unwrap();
    let pidfd = pidfd_open(init, PidfdFlags::empty()).unwrap();
    let link = pidfd_getfd(&pidfd, 0, PidfdGetfdFlags::empty()).unwrap();
    kill_process(init, Signal::STOP).unwrap();
    let request = ExecRequest {
        argv: vec![b"true".to_vec()],
        ..ExecRequest::default()
    };
    let client = KeeperClient::new(Direct(plan.socket.clone()));
    let mut command = client.exec(request).await.unwrap();
    let is_asked = async {
        while rustix::io::ioctl_fionread(&link).unwrap() == 0 {
            tokio::task::yield_now().await;
        }
    };
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, is_asked)
        .await
        .expect("the keeper asks init");
    drop(link);
    kill_process(init, Signal::KILL).unwrap();
    let answer = tokio::time::timeout(limit, command.output.recv()).await;
    match answer.unwrap().unwrap() {
        ExecOutput::Failed(fault) => assert_eq!(fault.code, Code::ExecFailed, "{fault}"),
        other => panic!("{other:?}"),
    }
    let ended = tokio::task::spawn_blocking(move || keeper.wait().unwrap());
    assert!(!ended.await.unwrap().success(), "init was killed");
}
