//! The suites that every driver and every keeper pass, for the driver without isolation, and the end of a keeper.

use crate::conformance::{self as running, Workspace};
use crate::plain_driver::{PlainDriver, plan, start};
use holm_core::exec::{ExecOutput, ExecRequest};
use holm_core::spec::WorkspaceSpec;
use holm_core::{Code, ProjectId, WorkspaceId};
use holm_engine::conformance;
use holm_engine::driver::Driver;
use holm_keeper::client::{Connect, Connecting, KeeperClient, Stream};
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Signal, kill_process, pidfd_getfd, pidfd_open,
};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;

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

fn spec() -> WorkspaceSpec {
    conformance::spec(
        &WorkspaceId::random(),
        &ProjectId::random(),
        &"1".repeat(40),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_processes_do_what_every_driver_has_to() {
    let place = tempfile::tempdir().unwrap();
    conformance::check(Arc::new(PlainDriver::new(place.path())), spec()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_processes_over_tcp_are_a_workspace() {
    let place = tempfile::tempdir().unwrap();
    let driver = PlainDriver::new(place.path());
    let spec = Arc::new(WorkspaceSpec {
        services: vec![running::service()],
        ..spec()
    });
    conformance::start(&driver, &spec).await;
    let helper = plan(place.path()).helper;
    running::all(&Workspace {
        client: driver.keeper(&WorkspaceId::parse(&spec.id).unwrap()),
        root: driver.root(&spec.id),
        helper: helper.to_str().unwrap().to_owned(),
    })
    .await;
    driver.undo(&spec).await.unwrap();
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
