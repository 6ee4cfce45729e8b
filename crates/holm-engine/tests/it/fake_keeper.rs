//! The keeper of the fake driver: answers on a connection in memory.

use crate::world::{Watches, World};
use holm_core::WorkspaceId;
use holm_core::isolation::Isolation;
use holm_core::plan::Keeper;
use holm_core::session::protocol::{Session, SessionResponse};
use holm_keeper::client::{Connect, Connecting, Stream};
use holm_keeper::wire::{
    Answer, Op, Query, Request, Status, VERSION, WatchReport, channel, control_frame, frame,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// The keeper of one workspace of the fake driver.
pub struct FakeKeeper {
    pub world: World,
    pub id: WorkspaceId,
}

// === impl FakeKeeper ===

impl Connect for FakeKeeper {
    fn connect(&self) -> Connecting<'_> {
        let keepers = self.world.with(|state| state.keepers.clone());
        if !keepers.contains_key(self.id.as_str()) {
            let refused = std::io::ErrorKind::ConnectionRefused;
            return Box::pin(async move { Err(refused.into()) });
        }
        self.connect_to_records()
    }

    fn connect_to_records(&self) -> Connecting<'_> {
        let (client, keeper) = tokio::io::duplex(64 * 1024);
        tokio::spawn(answer(self.world.clone(), self.id.clone(), keeper));
        Box::pin(async { Ok(Stream::Other(Box::new(client))) })
    }
}

/// Answers one request as a keeper does.
async fn answer(world: World, id: WorkspaceId, mut stream: DuplexStream) {
    let length = stream.read_u32_le().await.unwrap() as usize;
    assert_eq!(stream.read_u8().await.unwrap(), channel::CONTROL);
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).await.unwrap();
    let request: Request = serde_json::from_slice(&payload).unwrap();
    if matches!(request.op, Op::Watch) && world.with(|state| state.watches) != Watches::Refuse {
        return tell(world, id, stream).await;
    }
    world.with(|state| state.requests += 1);
    let answers = match request.op {
        Op::Exec(exec) => {
            let command = exec.argv.get(3).map(|word| String::from_utf8_lossy(word));
            let command = command.unwrap_or_default().into_owned();
            let (answer, hangs) = world.with(|state| {
                assert_eq!(state.keepers.get(id.as_str()), Some(&Keeper::Running));
                state.executed.push(exec.argv.clone());
                (state.git.get(&command).cloned(), state.git_hangs)
            });
            if hangs {
                // The command ends when its client hangs up.
                let _ = stream.read_to_end(&mut Vec::new()).await;
                return;
            }
            let (stdout, code) = answer.unwrap_or_default();
            [
                control_frame(&Answer::Started).unwrap(),
                frame(channel::STDOUT, &stdout),
                control_frame(&Answer::Exit(code)).unwrap(),
            ]
            .concat()
        }
        Op::Service { name, wish } => {
            world.with(|state| state.wishes.push((id.to_string(), name, wish)));
            control_frame(&Answer::Done).unwrap()
        }
        Op::Relabel { label } => {
            world.with(|state| state.labels.insert(id.to_string(), label));
            control_frame(&Answer::Done).unwrap()
        }
        Op::SetEgress(_) | Op::SetServices(_) | Op::SetPorts(_) => {
            control_frame(&Answer::Done).unwrap()
        }
        Op::Session(_) | Op::Records(Query::Sessions) => {
            control_frame(&Answer::Session(SessionResponse::Sessions(vec![session()]))).unwrap()
        }
        Op::Records(Query::Run { .. }) => control_frame(&Answer::Missing).unwrap(),
        op => control_frame(&Answer::Refused(format!("no keeper runs: {op:?}"))).unwrap(),
    };
    // The client may be gone.
    let _ = stream.write_all(&answers).await;
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

/// The only session of every workspace.
fn session() -> Session {
    Session {
        id: "s00000000001".to_owned(),
        ..Session::default()
    }
}

/// Tells a client that watches how the workspace is, also when it has ended: the engine must know that by itself.
async fn tell(world: World, id: WorkspaceId, mut stream: DuplexStream) {
    let mut answered = 0;
    loop {
        let seen = WatchReport {
            status: Status {
                version: VERSION,
                id: id.to_string(),
                isolation: Isolation::default(),
                trouble: None,
                is_init_ending: false,
                ending: None,
                commands: 0,
                services: Vec::new(),
                program: None,
                volumes: Vec::new(),
                carried: None,
            },
            listening: vec![3000],
            sessions: Some(vec![session()]),
            answered,
        };
        let seen = control_frame(&Answer::Seen(Box::new(seen))).unwrap();
        if stream.write_all(&seen).await.is_err() {
            return;
        }
        while world.with(|state| state.watches) == Watches::Mute {
            tokio::task::yield_now().await;
        }
        // An empty control frame.
        if stream.read_exact(&mut [0; 5]).await.is_err() {
            return;
        }
        world.with(|state| state.questions += 1);
        answered += 1;
    }
}
