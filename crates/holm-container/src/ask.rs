//! One question to the store, with what the store reports and asks meanwhile.

use crate::engine::unavailable;
use crate::store::Store;
use async_trait::async_trait;
use holm_core::Fault;
use holm_engine::progress::Progress;
use holm_engine::remote::{Call, Question, Reply, received};
use holm_keeper::container::{Given, Hello, Start, Started};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

/// Starts what the store orders.
#[async_trait]
pub trait Starts: Send + Sync {
    async fn start(&self, order: Start) -> Result<Started, Fault>;
}

/// For questions that start nothing.
pub struct Nothing;

#[async_trait]
impl Starts for Nothing {
    async fn start(&self, _: Start) -> Result<Started, Fault> {
        Ok(Started::Failed("nothing was to be started".to_owned()))
    }
}

// === impl Store ===

impl Store {
    /// A call of the driver in the store that needs nothing but files.
    pub async fn call<T: DeserializeOwned>(self: &Arc<Self>, call: Call) -> Result<T, Fault> {
        let given = Box::default();
        self.ask(
            Question::Driver { call, given },
            &Nothing,
            &Progress::default(),
        )
        .await
    }

    /// A call for which the store may have processes started.
    pub async fn call_with<T: DeserializeOwned>(
        self: &Arc<Self>,
        call: Call,
        given: Given,
        starts: &dyn Starts,
        progress: &Progress,
    ) -> Result<T, Fault> {
        let given = Box::new(given);
        self.ask(Question::Driver { call, given }, starts, progress)
            .await
    }

    /// Dropping the future cancels the work.
    pub async fn ask<T: DeserializeOwned>(
        self: &Arc<Self>,
        question: Question,
        starts: &dyn Starts,
        progress: &Progress,
    ) -> Result<T, Fault> {
        let (stream, _) = self.connect(&Hello::Driver).await?;
        let mut stream = BufReader::new(stream);
        send(&mut stream, &question).await.map_err(lost)?;
        loop {
            let mut line = String::new();
            let length = stream.read_line(&mut line).await.map_err(lost)?;
            if length == 0 {
                return Err(lost(io::ErrorKind::UnexpectedEof.into()));
            }
            let reply: Reply = serde_json::from_str(&line).map_err(|error| lost(error.into()))?;
            match reply {
                Reply::Progress(event) => progress.report(&event.step, event.done, event.total),
                Reply::Start(order) => {
                    let started = match starts.start(*order).await {
                        Ok(started) => started,
                        Err(fault) => Started::Failed(fault.to_string()),
                    };
                    send(&mut stream, &started).await.map_err(lost)?;
                }
                Reply::Done(value) => return received(value),
                Reply::Failed(fault) => return Err(fault.into()),
            }
        }
    }
}

async fn send(
    stream: &mut (impl AsyncWriteExt + Unpin),
    message: &impl Serialize,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    stream.flush().await
}

fn lost(error: io::Error) -> Fault {
    unavailable("the connection to holm's store broke", "try again").because(error)
}
