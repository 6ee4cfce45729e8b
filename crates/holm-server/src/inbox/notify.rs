//! `POST /workspaces/{id}/notify`: a program inside has a question for the person. Callers outside are refused: a person
//! needs no message from their own shell.

use super::super::App;
use super::super::caller::{Caller, Way};
use super::super::failure::{Answer, Body, WorkspaceKey, bad_request};
use super::Inbox;
use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use holm_api::inbox::{Notified, Notify};
use holm_core::notify::{Bucket, inert};
use holm_core::{Code, Fault, WorkspaceId};
use holm_engine::clock;
use holm_engine::inbox::NoticeRecord;
use holm_keeper::guests::Speaker;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, MutexGuard, PoisonError};

/// How often each workspace may notify, and how many calls were left out since.
pub type Paces = HashMap<WorkspaceId, Pace>;

pub struct Pace {
    bucket: Bucket,
    left_out: u64,
}

/// The session or run that makes a request.
struct Source(Option<String>);

operations! {
    /// Asks the person something; only from inside.
    post "/workspaces/{id}/notify" "workspace_notify" add of (WorkspaceKey) sends Notify -> Notified;
}

async fn add(
    State(app): State<Arc<App>>,
    caller: Caller,
    Source(source): Source,
    WorkspaceKey(id): WorkspaceKey,
    Body(notify): Body<Notify>,
) -> Answer<Notified> {
    if !caller.is_guest() {
        return Err(outside().into());
    }
    let text = inert(&notify.text);
    if text.is_empty() {
        return Err(bad_request("the text is empty"));
    }
    let at = clock::wall();
    let Some(left_out) = app.inbox.admit(&id, at.as_millisecond()) else {
        return Ok(Json(Notified { collected: true }));
    };
    let notice = NoticeRecord {
        workspace: id,
        at,
        source,
        text,
        left_out,
    };
    app.engine.add_notice(notice).await?;
    app.inbox.poke();
    Ok(Json(Notified { collected: false }))
}

/// The fault for a caller who is not inside.
fn outside() -> Fault {
    Fault::new(
        Code::OutsideWorkspace,
        "notify works only inside a workspace: a program there asks the person",
        "inside, `holm notify TEXT`; outside, `holm inbox` lists what needs you",
    )
}

// === impl Pace ===

impl Default for Pace {
    fn default() -> Self {
        Self {
            bucket: Bucket::new(10, 5000),
            left_out: 0,
        }
    }
}

// === impl Inbox ===

impl Inbox {
    pub(super) fn paces(&self) -> MutexGuard<'_, Paces> {
        self.paces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many calls were left out before this one; `None`: this one is left out too.
    fn admit(&self, id: &WorkspaceId, now: i64) -> Option<u64> {
        let mut paces = self.paces();
        let pace = paces.entry(id.clone()).or_default();
        match pace.bucket.take(now) {
            Ok(()) => Some(std::mem::take(&mut pace.left_out)),
            Err(_) => {
                pace.left_out += 1;
                None
            }
        }
    }
}

// === impl Source ===

impl<S: Send + Sync> FromRequestParts<S> for Source {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let Some(Way::Guests(_, speaker)) = Way::of(&parts.extensions) else {
            return Ok(Self(None));
        };
        Ok(Self(match speaker {
            Some(Speaker::Session(id)) => Some(id.to_string()),
            Some(Speaker::Run(id)) => Some(id.to_string()),
            Some(Speaker::Keeper) | None => None,
        }))
    }
}
