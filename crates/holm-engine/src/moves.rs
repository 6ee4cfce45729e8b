//! Moves a live workspace to another commit: the tree first, then `setup` if its inputs changed,
//! then each service by its strategy. Called by the server, and by [`converge`](crate::converge)
//! for an interrupted move.
//!
//! The move is stored with the workspace from before its first step until after its last, so the
//! next daemon or the next start continues it. Each step may be repeated.

mod faults;

use crate::cancel::{Cancel, CancelOnDrop};
use crate::clock::now;
use crate::converge::{Goal, Processes};
use crate::driver::Journaled;
use crate::engine::{Engine, Inner, detached};
use crate::failpoint::{self, Moment};
use crate::inside::ask;
use crate::notice::Notice;
use crate::progress::Progress;
use crate::store::{EntryId, Outcome, WorkspaceRecord};
use crate::switch::{Protected, Switched, Time, is_torn, question, switched};
use crate::view::View;
use holm_core::config::Pattern;
use holm_core::moves::{Reaction, SetUp, Strategy, reaction, set_up};
use holm_core::plan::{Action, Desired, Keeper};
use holm_core::spec::{BaseCommit, BuiltImage, Manner, Move, Owed, WorkspaceSpec};
use holm_core::{Code, Fault, WorkspaceId};
use std::sync::Arc;

use faults::{not_switched, refused, set_up_cancelled, to_be_repeated};

/// The target of a move.
#[derive(Clone, Debug)]
pub struct Assign {
    pub commit: String,
    /// The name as the user typed it; `None` for a commit id.
    pub ref_name: Option<String>,
    pub manner: Manner,
    /// Lines of a shallow clone's `shallow` file.
    pub shallow: Vec<String>,
    /// The images that were built for the commit.
    pub images: Vec<BuiltImage>,
}

/// The result of a move.
#[derive(Clone, Debug)]
pub struct Moved {
    pub view: View,
    /// The commit before, if it was another one.
    pub from: Option<String>,
    /// The changed paths.
    pub changed: Vec<String>,
    /// The stash with its changes.
    pub stash: Option<String>,
    pub set_up: SetUp,
    pub reactions: Vec<(String, Reaction)>,
    /// Its processes were restarted, because protected paths changed.
    pub is_restarted: bool,
}

/// The steps of a move in the journal.
#[derive(Clone, Copy)]
struct MoveEntries {
    switch: EntryId,
    set_up: EntryId,
    react: EntryId,
}

/// The result of switching the tree.
struct Arrived {
    stash: Option<String>,
    from: Option<String>,
    changed: Vec<String>,
    is_restarted: bool,
}

// === impl Engine ===

impl Engine {
    /// Moves a workspace, and starts it first if it is stopped. The move runs to its end even when
    /// the client disconnects; only a `setup` under way is cancelled then.
    pub async fn assign(
        &self,
        id: &WorkspaceId,
        assign: Assign,
        progress: Progress,
    ) -> Result<Moved, Fault> {
        let cancel = Cancel::default();
        let _guard = CancelOnDrop(cancel.clone());
        let (inner, id) = (Arc::clone(&self.inner), id.clone());
        detached(async move {
            let _turn = inner.workspaces.lock(&id).await;
            let mut record = inner.live(&id).await?;
            let at = now();
            inner.uses.note(&id, at);
            let key = id.clone();
            inner.store.call(move |store| store.touch(&key, at)).await?;
            let observation = inner.observe(&record.spec).await?;
            if observation.observed.keeper != Keeper::Running {
                let goal = Goal::Reach(Desired::Running);
                inner.reach(record, Desired::Running, goal).await?;
                record = inner.live(&id).await?;
            }
            let stopped = Cancel::default();
            inner.moves.begin(&id, &stopped);
            let moved = tokio::select! {
                biased;
                moved = inner.assign(record, assign, &progress, &cancel) => moved,
                () = stopped.requested() => Err(inner.stopped_moving(&id).await?),
            };
            inner.moves.end(&id);
            moved
        })
        .await
    }
}

// === impl Inner ===

impl Inner {
    async fn assign(
        &self,
        mut record: WorkspaceRecord,
        assign: Assign,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<Moved, Fault> {
        let earlier = record.spec.moving.clone();
        let owed = earlier.as_ref().map(|moving| moving.owed.clone());
        let moving = Move {
            commit: assign.commit,
            ref_name: assign.ref_name,
            at: now().strftime("%Y%m%dT%H%M%S%3fZ").to_string(),
            manner: assign.manner,
            shallow: assign.shallow,
            is_there: false,
            owed: owed.unwrap_or_default(),
            images: assign.images,
        };
        self.change_spec(&mut record, |spec| spec.moving = Some(moving.clone()))
            .await?;
        let entries = self.plan_move(&record).await?;
        progress.report("switching the tree", 0, 0);
        let arrived = match self
            .switch(&record, entries.switch, Time::First, progress)
            .await
        {
            Ok(Ok(arrived)) => arrived,
            Ok(Err(stays)) => {
                self.change_spec(&mut record, |spec| spec.moving = earlier)
                    .await?;
                self.drop_entries(&record).await;
                return match stays {
                    Some(fault) => Err(fault),
                    None => self.unmoved(record).await,
                };
            }
            Err(fault) => {
                self.drop_entries(&record).await;
                return Err(fault);
            }
        };
        self.arrive(&mut record, &arrived).await?;
        let owed = record
            .spec
            .moving
            .as_ref()
            .map(|moving| moving.owed.clone());
        let owed = told(owed.unwrap_or_default(), &moving);
        let processes = if arrived.is_restarted {
            Processes::Fresh
        } else {
            Processes::Older
        };
        tokio::select! {
            biased;
            settled = self.settle(&mut record, entries, processes, progress) => settled?,
            () = cancel.requested() => {
                self.drop_entries(&record).await;
                return Err(set_up_cancelled(&record));
            }
        }
        let record = self.live(&record.id).await?;
        Ok(Moved {
            reactions: owed.reactions,
            view: self.view(record).await?,
            from: arrived.from,
            changed: arrived.changed,
            stash: arrived.stash,
            set_up: if owed.set_up {
                SetUp::Again
            } else {
                SetUp::NotNeeded
            },
            is_restarted: arrived.is_restarted,
        })
    }

    /// Handles a request to stop the workspace. git inside ends with its processes.
    async fn stopped_moving(&self, id: &WorkspaceId) -> Result<Fault, Fault> {
        let record = self.live(id).await?;
        self.drop_entries(&record).await;
        let label = &record.label;
        Ok(Fault::new(
            Code::Cancelled,
            format!("workspace `{label}` was stopped while it moved"),
            format!("`holm start {id}` goes on with it"),
        ))
    }

    /// Continues an interrupted move. A failure is logged and shown by `show`, because a start must
    /// still succeed.
    pub(crate) async fn go_on_moving(
        &self,
        record: &WorkspaceRecord,
        processes: Processes,
        progress: &Progress,
    ) {
        if record.spec.moving.is_none() {
            return;
        }
        let mut record = record.clone();
        let (id, stopped) = (record.id.clone(), Cancel::default());
        self.moves.begin(&id, &stopped);
        let done = tokio::select! {
            biased;
            done = self.go_on(&mut record, processes, progress) => done,
            () = stopped.requested() => self.stopped_moving(&id).await.and_then(Err),
        };
        self.moves.end(&id);
        if let Err(fault) = done {
            self.drop_entries(&record).await;
            tracing::warn!(%id, %fault, "a move is not finished");
        }
    }

    async fn go_on(
        &self,
        record: &mut WorkspaceRecord,
        mut processes: Processes,
        progress: &Progress,
    ) -> Result<(), Fault> {
        let Some(moving) = record.spec.moving.clone() else {
            return Ok(());
        };
        let entries = self.plan_move(record).await?;
        if !moving.is_there {
            match self
                .switch(record, entries.switch, Time::Again, progress)
                .await?
            {
                Ok(arrived) => {
                    if arrived.is_restarted {
                        processes = Processes::Fresh;
                    }
                    self.arrive(record, &arrived).await?;
                }
                Err(stays) => {
                    let is_owing = moving.owed != Owed::default();
                    self.change_spec(record, |spec| {
                        if is_owing {
                            // From the move before, whose commit the tree has.
                            spec.moving = Some(Move {
                                is_there: true,
                                ..moving
                            })
                        } else {
                            spec.moving = None
                        }
                    })
                    .await?;
                    self.drop_entries(record).await;
                    return stays.map_or(Ok(()), Err);
                }
            }
        }
        self.settle(record, entries, processes, progress).await
    }

    /// Journals all steps of the move, so that it counts as unfinished until its end.
    async fn plan_move(&self, record: &WorkspaceRecord) -> Result<MoveEntries, Fault> {
        let id = record.id.clone();
        let actions = [Action::Switch, Action::SetUp, Action::React];
        let entries = self.store.call(move |store| store.journal(&id, &actions));
        match entries.await?[..] {
            [switch, set_up, react] => Ok(MoveEntries {
                switch,
                set_up,
                react,
            }),
            _ => Err(Fault::new(
                Code::Internal,
                "the journal did not take a move",
                "report this",
            )),
        }
    }

    /// Switches the tree. The inner error is a refusal, after which nothing has changed.
    async fn switch(
        &self,
        record: &WorkspaceRecord,
        entry: EntryId,
        mut time: Time,
        progress: &Progress,
    ) -> Result<Result<Arrived, Option<Fault>>, Fault> {
        failpoint::pass(Action::Switch.as_str(), Moment::Before)?;
        // git inside finds the commit only after this. The entry was journaled with the move.
        let prepared = Journaled {
            action: Action::Switch,
            spec: Arc::clone(&record.spec),
        };
        let driver = self.driver(&record.spec)?;
        driver.apply(prepared, progress.clone()).await?;
        let mut kept_stash = None;
        let mut is_restarted = false;
        let there = loop {
            let said = match self.ask_switch(record, time).await? {
                Ok(said) => said,
                Err(fault) => return Ok(Err(Some(fault))),
            };
            match said {
                Switched::Refused(refusal) => {
                    return Ok(Err(Some(refused(record, refusal))));
                }
                Switched::Ahead => return Ok(Err(None)),
                Switched::Protected { stash } if !is_restarted => {
                    // The launch switches the tree, before the paths are protected; then this finds
                    // it done.
                    kept_stash = stash.or(kept_stash);
                    is_restarted = true;
                    time = Time::Again;
                    progress.report("starting anew, because protected paths change", 0, 0);
                    self.act(record, &[Action::Halt, Action::Launch], progress)
                        .await?;
                }
                Switched::Protected { .. } => return Err(not_switched(record)),
                Switched::There {
                    stash,
                    from,
                    changed,
                } => {
                    break Arrived {
                        stash: stash.or(kept_stash),
                        from,
                        changed,
                        is_restarted,
                    };
                }
            }
        };
        failpoint::pass(Action::Switch.as_str(), Moment::After)?;
        self.end(entry, Outcome::Done).await?;
        Ok(Ok(there))
    }

    /// The inner error means that the tree is unchanged.
    async fn ask_switch(
        &self,
        record: &WorkspaceRecord,
        time: Time,
    ) -> Result<Result<Switched, Fault>, Fault> {
        let Some(moving) = &record.spec.moving else {
            return Err(not_switched(record));
        };
        let question = question(&record.spec, moving, Protected::InForce, time);
        let keep = |piece: &[u8], kept: &mut Vec<u8>| kept.extend_from_slice(piece);
        let keeper = self.driver(&record.spec)?.keeper(&record.id);
        let answer = ask(&keeper, question, keep).await?;
        let is_torn = is_torn(answer.code);
        match switched(answer) {
            Err(fault) if is_torn => Err(fault),
            said => Ok(said),
        }
    }

    /// Stores that the tree has the commit, and which steps follow.
    async fn arrive(&self, record: &mut WorkspaceRecord, arrived: &Arrived) -> Result<(), Fault> {
        let owed = owed(&record.spec, &arrived.changed)?;
        let mut to = String::new();
        self.change_spec(record, |spec| {
            let base = spec.code.base_commit().map(str::to_owned);
            let Some(moving) = &mut spec.moving else {
                return;
            };
            moving.is_there = true;
            moving.owed = with_earlier(&moving.owed, owed);
            spec.code.base = Some(BaseCommit { commit: base });
            spec.code.commit = Some(moving.commit.clone());
            spec.code.ref_name.clone_from(&moving.ref_name);
            to.clone_from(moving.ref_name.as_ref().unwrap_or(&moving.commit));
            if !moving.shallow.is_empty() {
                spec.code.shallow.clone_from(&moving.shallow);
            }
            spec.brought.dirty = None;
            let images = spec
                .moving
                .as_mut()
                .map(|moving| std::mem::take(&mut moving.images));
            let images = images.filter(|images| spec.take_images(images));
            if let Some(moving) = &mut spec.moving {
                moving.images = images.unwrap_or_default();
            }
        })
        .await?;
        self.note_dirty(&record.id, false).await?;
        self.notices.send(&record.id, Notice::Moved { to });
        Ok(())
    }

    /// Runs `setup` if it is due, lets the services react, and ends the move.
    async fn settle(
        &self,
        record: &mut WorkspaceRecord,
        entries: MoveEntries,
        processes: Processes,
        progress: &Progress,
    ) -> Result<(), Fault> {
        let mut processes = processes;
        let has_images = record
            .spec
            .moving
            .as_ref()
            .is_some_and(|it| !it.images.is_empty());
        if has_images {
            if processes == Processes::Older {
                // The root of a service's image is made when the workspace starts.
                progress.report("starting anew, because images were built", 0, 0);
                let restart = [Action::Halt, Action::Launch];
                self.act(record, &restart, progress).await?;
                processes = Processes::Fresh;
            }
            self.change_spec(record, |spec| {
                if let Some(moving) = &mut spec.moving {
                    moving.images.clear();
                }
            })
            .await?;
        }
        let owes = |record: &WorkspaceRecord| {
            let moving = record.spec.moving.as_ref();
            moving.is_some_and(|moving| moving.owed.set_up)
        };
        if owes(record) {
            let done = self.take_step(record, Action::SetUp, progress).await;
            if let Err(fault) = done {
                self.drop_entries(record).await;
                return Err(to_be_repeated(record, fault));
            }
            processes = Processes::Older;
            self.change_spec(record, |spec| {
                if let Some(moving) = &mut spec.moving {
                    moving.owed.set_up = false;
                }
            })
            .await?;
            self.end(entries.set_up, Outcome::Done).await?;
        } else {
            self.end(entries.set_up, Outcome::Dropped).await?;
        }
        if processes == Processes::Fresh {
            // Services that were just started have the new files; only builds are due.
            self.change_spec(record, |spec| {
                if let Some(moving) = &mut spec.moving {
                    let owed = &mut moving.owed;
                    owed.reactions.retain(|(_, it)| *it == Reaction::Rebuild);
                }
            })
            .await?;
        }
        let done = self.take_step(record, Action::React, progress).await;
        if let Err(fault) = done {
            self.drop_entries(record).await;
            return Err(to_be_repeated(record, fault));
        }
        self.change_spec(record, |spec| spec.moving = None).await?;
        self.end(entries.react, Outcome::Done).await
    }

    async fn take_step(
        &self,
        record: &WorkspaceRecord,
        action: Action,
        progress: &Progress,
    ) -> Result<(), Fault> {
        let journaled = crate::driver::Journaled {
            action,
            spec: Arc::clone(&record.spec),
        };
        let done = self.apply_between_moments(journaled, progress).await;
        done.map(drop)
    }

    /// The result when nothing had to be done.
    async fn unmoved(&self, record: WorkspaceRecord) -> Result<Moved, Fault> {
        Ok(Moved {
            view: self.view(record).await?,
            from: None,
            changed: Vec::new(),
            stash: None,
            set_up: SetUp::NotNeeded,
            reactions: Vec::new(),
            is_restarted: false,
        })
    }

    async fn change_spec(
        &self,
        record: &mut WorkspaceRecord,
        change: impl FnOnce(&mut WorkspaceSpec),
    ) -> Result<(), Fault> {
        let mut spec = WorkspaceSpec::clone(&record.spec);
        change(&mut spec);
        let (id, spec) = (record.id.clone(), Arc::new(spec));
        self.settled.forget(&record.id);
        let stored = Arc::clone(&spec);
        let storing = self.store.call(move |store| store.set_spec(&id, &stored));
        storing.await?;
        record.spec = spec;
        Ok(())
    }

    async fn end(&self, entry: EntryId, outcome: Outcome) -> Result<(), Fault> {
        let ended = self
            .store
            .call(move |store| store.end_entry(entry, &outcome));
        ended.await
    }

    async fn drop_entries(&self, record: &WorkspaceRecord) {
        let id = record.id.clone();
        let dropped = self.store.call(move |store| store.drop_open_entries(&id));
        if let Err(error) = dropped.await {
            tracing::warn!(id = %record.id, %error, "the journal keeps open entries");
        }
    }
}

/// What users see of the steps: a service whose image was built has reacted with that.
fn told(mut owed: Owed, moving: &Move) -> Owed {
    for (name, reaction) in &mut owed.reactions {
        if moving.images.iter().any(|image| image.service == *name) {
            *reaction = Reaction::Rebuild;
        }
    }
    owed
}

/// The steps that follow when these paths changed.
fn owed(spec: &WorkspaceSpec, changed: &[String]) -> Result<Owed, Fault> {
    let again = match &spec.layers.setup {
        None => SetUp::NotNeeded,
        Some(setup) => {
            let inputs = setup.inputs.as_ref();
            let inputs = inputs.map(|inputs| patterns(spec, inputs)).transpose()?;
            set_up(changed, inputs.as_deref())
        }
    };
    let reactions = spec.services.iter().map(|service| {
        let rebuild_when = patterns(spec, &service.rebuild_when)?;
        let strategy = Strategy {
            on_assign: service.on_assign,
            build: service.build.as_deref(),
            rebuild_when: &rebuild_when,
        };
        Ok((service.name.clone(), reaction(strategy, changed, again)))
    });
    Ok(Owed {
        set_up: again == SetUp::Again,
        reactions: reactions.collect::<Result<_, Fault>>()?,
    })
}

/// Parses stored patterns. An ignored one could leave a service on an old build.
fn patterns(spec: &WorkspaceSpec, texts: &[String]) -> Result<Vec<Pattern>, Fault> {
    let patterns = texts.iter().map(|text| {
        Pattern::parse(text).map_err(|error| {
            let shown = text.escape_debug();
            let id = &spec.id;
            let message = format!("the stored pattern `{shown}` of {id} is not understood");
            let hint = format!("use the holm that made it, or remove it: `holm rm {id}`");
            Fault::new(Code::CorruptState, message, hint).because(error)
        })
    });
    patterns.collect()
}

/// Adds the unfinished steps of an earlier move.
fn with_earlier(earlier: &Owed, mut owed: Owed) -> Owed {
    owed.set_up |= earlier.set_up;
    for (name, reaction) in &mut owed.reactions {
        let before = earlier.reactions.iter().find(|(other, _)| other == name);
        let before = before.map_or(Reaction::None, |(_, before)| *before);
        *reaction = before.max(*reaction);
    }
    owed
}
