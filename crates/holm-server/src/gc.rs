//! `POST /gc`: garbage collection, with progress line by line. It runs to its end even when the
//! client disconnects.

use super::caller::Caller;
use super::failure::{self, Body, Failure};
use super::{App, jsonl};
use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::response::Response;
use futures_util::stream;
use holm_api::disk::{Collected, Gc, GcEvent};
use holm_core::trash::Extent;
use holm_core::{Code, Fault};
use holm_engine::progress::ProgressEvent;
use holm_engine::{Collect, Progress};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::mpsc;

operations! {
    /// Deletes what may go.
    post "/gc" "gc" gc sends Gc streams GcEvent until "done";
}

async fn gc(
    State(app): State<Arc<App>>,
    caller: Caller,
    Body(gc): Body<Gc>,
) -> Result<Response, Failure> {
    let keep_for = app.keep_for().await?;
    let note = believe_clock(&app, &caller).await?;
    let collect = Collect::Unused(if gc.all { Extent::All } else { Extent::Expired });
    let (progress, reports) = mpsc::unbounded_channel();
    let (done, finished) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut notes: Vec<String> = note.into_iter().collect();
        let collected = app
            .engine
            .collect(keep_for, collect, Progress::to(progress))
            .await;
        let collected = match gc.all {
            true => app.forget_builds().await.and(collected),
            false => collected,
        };
        let collected = with_images(&app, collected, &mut notes).await;
        app.sweep_browsers().await;
        app.sweep_secrets().await;
        // The client may be gone.
        let _ = done.send((collected, notes)).await;
    });
    let events = stream::unfold(Some((reports, finished)), |state| async move {
        let (mut reports, mut finished) = state?;
        tokio::select! {
            biased;
            Some(ProgressEvent { step, done, total }) = reports.recv() => {
                let event = GcEvent::Progress { step, done, total };
                Some((Ok::<_, Infallible>(jsonl::line(&event)), Some((reports, finished))))
            }
            collected = finished.recv() => {
                let (collected, notes) = collected?;
                Some((Ok(jsonl::line(&last(collected, notes))), None))
            }
        }
    });
    Ok(jsonl::response(HttpBody::from_stream(events)))
}

/// Sweeps the images, and adds what that removed, or why it failed, to the report of `gc`.
async fn with_images(
    app: &App,
    collected: Result<holm_engine::Collected, Fault>,
    notes: &mut Vec<String>,
) -> Result<holm_engine::Collected, Fault> {
    let mut collected = collected?;
    match app.sweep_images().await {
        Ok(swept) => collected.removed.extend(swept),
        Err(fault) if fault.code == Code::Busy => {
            let note = "images were left alone, because a pull, an import or an `up` is under way";
            notes.push(note.to_owned());
        }
        Err(fault) => collected.faults.push(fault),
    }
    Ok(collected)
}

/// A person who requests a collection confirms the clock; a program cannot know. Returns a note if
/// the clock was not believed.
async fn believe_clock(app: &App, caller: &Caller) -> Result<Option<String>, Fault> {
    let clock = app.engine.clock();
    let Some(doubt) = clock.look().doubt() else {
        return Ok(None);
    };
    if !caller.is_person() {
        let hint = "set the clock right, or have a person type `holm gc` if it is right";
        return Err(Fault::new(Code::Refused, doubt, hint));
    }
    clock.believe();
    app.engine.keep_clock().await?;
    tracing::warn!("a person types `holm gc`, so the clock is believed; before, {doubt}");
    Ok(Some(format!(
        "the clock is taken as right from now on; before, {doubt}"
    )))
}

fn last(collected: Result<holm_engine::Collected, Fault>, notes: Vec<String>) -> GcEvent {
    match collected {
        Ok(collected) => GcEvent::Done(Collected {
            notes,
            ..view(collected)
        }),
        Err(fault) => GcEvent::Error(failure::error_body(&fault).error),
    }
}

fn view(collected: holm_engine::Collected) -> Collected {
    let removed = collected.removed;
    let failed = collected.faults.iter();
    Collected {
        freed_bytes: removed.iter().map(|removed| removed.bytes).sum(),
        removed,
        unknown: collected.unknown,
        failed: failed
            .map(|fault| failure::error_body(fault).error)
            .collect(),
        notes: Vec::new(),
    }
}
