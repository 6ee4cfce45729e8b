//! Finds the engine and the store when they are needed, and connects to the store. The store is made when the engine is first needed,
//! and again after the engine or holm itself was replaced. Its volume stays.

use crate::engine::unavailable;
use crate::guests;
use crate::labels::Installation;
use crate::live::{Answered, Live, no_name};
use crate::settings::SharedParts;
use crate::stream::Piped;
use holm_core::{Fault, WorkspaceId};
use holm_keeper::client::{Connect, Connecting, Stream};
use holm_keeper::container::Hello;
use std::io;
use std::sync::Arc;
use tokio::sync::Mutex;

/// Connections that are opened before they are needed.
const SPARE: usize = 3;

/// Finds the store when it is needed.
pub struct Store {
    pub parts: SharedParts,
    live: Mutex<Option<Arc<Live>>>,
}

// === impl Store ===

impl Store {
    pub fn new(parts: SharedParts) -> Self {
        Self {
            parts,
            live: Mutex::default(),
        }
    }

    /// `None`: this installation never used an engine, so there is nothing on any.
    pub fn installation(&self) -> Result<Option<Installation>, Fault> {
        Installation::known(&self.parts.data_dir).map_err(no_name)
    }

    /// The engine with the store.
    pub async fn live(self: &Arc<Self>) -> Result<Arc<Live>, Fault> {
        if let Ok(live) = self.live.try_lock()
            && let Some(live) = &*live
        {
            return Ok(Arc::clone(live));
        }
        // A task of its own: a caller that is not polled for a while must not hold the lock.
        let store = Arc::clone(self);
        let begun = tokio::spawn(async move { store.begin().await });
        begun.await.unwrap_or_else(|error| {
            Err(unavailable("the engine could not be looked for", "try again").because(error))
        })
    }

    async fn begin(&self) -> Result<Arc<Live>, Fault> {
        let mut live = self.live.lock().await;
        if let Some(live) = &*live {
            return Ok(Arc::clone(live));
        }
        let fresh = Arc::new(Live::begin(&self.parts).await?);
        *live = Some(Arc::clone(&fresh));
        tokio::spawn(guests::serve(
            Arc::downgrade(&fresh),
            self.parts.guests.clone(),
        ));
        Ok(fresh)
    }

    /// The next caller looks for the store again, unless another caller did so since.
    async fn forget(&self, dead: &Arc<Live>) {
        let mut live = self.live.lock().await;
        live.take_if(|live| Arc::ptr_eq(live, dead));
    }

    /// A connection to the store that has answered. If the store has ended, it is started again.
    pub async fn connect(self: &Arc<Self>, hello: &Hello) -> Result<(Piped, Answered), Fault> {
        let live = self.live().await?;
        if let Some(spare) = live.take_spare() {
            refill(&live);
            // A spare of a store that was replaced is of no use.
            if let Ok(answered) = live.greet(spare, hello).await {
                return Ok(answered);
            }
        }
        match live.connect(hello).await {
            Ok(answered) => {
                refill(&live);
                Ok(answered)
            }
            Err(_) => {
                self.forget(&live).await;
                self.live().await?.connect(hello).await
            }
        }
    }
}

/// Opens the next connections before they are needed: an engine takes long to start a program.
fn refill(live: &Arc<Live>) {
    let live = Arc::clone(live);
    tokio::spawn(async move {
        let Ok(_one) = live.refilling.try_lock() else {
            return;
        };
        while live.spare_count() < SPARE {
            match live.relay(&live.installation.store()).await {
                Ok(stream) => live.keep_spare(stream),
                // The next caller that needs a connection gets the error.
                Err(_) => return,
            }
        }
    });
}

/// A workspace on an engine.
pub struct Remote {
    pub store: Arc<Store>,
    pub id: WorkspaceId,
}

// === impl Remote ===

impl Remote {
    async fn open(&self, hello: Hello) -> io::Result<Stream> {
        if matches!(self.store.installation(), Ok(None)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let connected = self.store.connect(&hello).await;
        let (stream, answered) = connected.map_err(io::Error::other)?;
        match answered {
            Answered::Connected => Ok(Stream::Other(Box::new(stream))),
            Answered::Absent => Err(io::ErrorKind::NotFound.into()),
            Answered::Unreachable => Err(io::Error::other("its keeper cannot be reached")),
        }
    }
}

impl Connect for Remote {
    fn connect(&self) -> Connecting<'_> {
        Box::pin(self.open(Hello::Keeper(self.id.to_string())))
    }

    fn connect_to_records(&self) -> Connecting<'_> {
        Box::pin(self.open(Hello::Records(self.id.to_string())))
    }
}
