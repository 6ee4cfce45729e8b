//! Garbage collection: expired trash, unused bases and layers, leftovers.
//!
//! Each item is renamed away first and deleted then, so that the next collection finds what a crash
//! left and nothing else does. Files that no record knows are reported and left alone.

use crate::clock::now;
use crate::clock::since_epoch;
use crate::driver::Driver;
use crate::engine::{Engine, Inner, detached};
use crate::notice::Notice;
use crate::progress::Progress;
use crate::storage::{Discard, Discarded, Known, Survey};
use crate::store::WorkspaceRecord;
use holm_core::layer::{LayerKey, unused_layers};
use holm_core::trash::{BaseKey, Extent, Removed, may_go, unused_bases};
use holm_core::{Code, Fault, WorkspaceId};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How much to collect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collect {
    /// The daemon's own collection: expired trash. Nothing while the clock is not believed.
    ExpiredTrash,
    /// Also bases and leftovers. A person requested it and trusts the clock.
    Unused(Extent),
}

/// What was deleted, what was found and left, and what failed.
#[derive(Debug, Default)]
pub struct Collected {
    pub removed: Vec<Removed>,
    /// Files that no record knows. They are not deleted.
    pub unknown: Vec<String>,
    pub faults: Vec<Fault>,
}

/// What workspaces use, live or in the trash.
struct Used {
    bases: HashSet<BaseKey>,
    layers: HashSet<LayerKey>,
}

/// Files that a driver discarded, and what to say of them when they are deleted.
struct Deletion<'a> {
    driver: &'a Arc<dyn Driver>,
    discarded: Discarded,
    gone: Removed,
}

/// How long a collection waits for creations and starts under way.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

// === impl Engine ===

impl Engine {
    /// Deletes what may be deleted. A failure for one item does not stop the others.
    pub async fn collect(
        &self,
        keep_for: Duration,
        collect: Collect,
        progress: Progress,
    ) -> Result<Collected, Fault> {
        let inner = Arc::clone(&self.inner);
        detached(async move {
            let _turn = inner.collecting.lock().await;
            let mut collected = Collected::default();
            if collect == Collect::ExpiredTrash && !inner.clock.look().is_plausible() {
                return Ok(collected);
            }
            inner.finish_earlier(&mut collected, &progress).await?;
            let extent = match collect {
                Collect::ExpiredTrash => Extent::Expired,
                Collect::Unused(extent) => extent,
            };
            inner
                .empty_trash(keep_for, extent, &mut collected, &progress)
                .await?;
            if let Collect::Unused(extent) = collect {
                inner.drop_projects(&mut collected, &progress).await?;
                inner.drop_unused(extent, &mut collected, &progress).await?;
            }
            Ok(collected)
        })
        .await
    }
}

// === impl Inner ===

impl Inner {
    /// Deletes what an earlier collection renamed away.
    async fn finish_earlier(
        &self,
        collected: &mut Collected,
        progress: &Progress,
    ) -> Result<(), Fault> {
        for (driver, discarded) in self.discarded().await? {
            let record = match WorkspaceId::parse(discarded.name()) {
                Ok(id) => self.store.call(move |store| store.workspace(&id)).await?,
                Err(_) => None,
            };
            let gone = match record.filter(|record| record.removed_at.is_some()) {
                Some(record) => {
                    self.forget(&record).await?;
                    of_workspace(&record)
                }
                None => removed("leftover", discarded.name()),
            };
            self.delete(
                Deletion {
                    driver,
                    discarded,
                    gone,
                },
                collected,
                progress,
            )
            .await;
        }
        Ok(())
    }

    async fn discarded(&self) -> Result<Vec<(&Arc<dyn Driver>, Discarded)>, Fault> {
        let mut all = Vec::new();
        for driver in self.drivers.all() {
            let discarded = driver.discarded().await?.into_iter();
            all.extend(discarded.map(|discarded| (driver, discarded)));
        }
        Ok(all)
    }

    async fn empty_trash(
        &self,
        keep_for: Duration,
        extent: Extent,
        collected: &mut Collected,
        progress: &Progress,
    ) -> Result<(), Fault> {
        let trashed = self.store.call(|store| store.trashed_workspaces()).await?;
        for record in trashed {
            let turn = self.workspaces.lock(&record.id).await;
            let id = record.id.clone();
            // It may have been restored while others were deleted.
            let record = match self.store.call(move |store| store.workspace(&id)).await? {
                Some(record) => record,
                None => continue,
            };
            let Some(removed_at) = record.removed_at else {
                continue;
            };
            if !may_go(
                since_epoch(now()),
                since_epoch(removed_at),
                keep_for,
                extent,
            ) {
                continue;
            }
            let deletion = match self.discard_workspace(&record).await {
                Ok(deletion) => deletion,
                Err(fault) => {
                    collected.faults.push(fault);
                    continue;
                }
            };
            // On a full disk the store can be written only after something was deleted.
            let forgotten = self.forget(&record).await;
            drop(turn);
            match deletion {
                Some(deletion) => self.delete(deletion, collected, progress).await,
                None => collected.removed.push(of_workspace(&record)),
            }
            if forgotten.is_err() {
                self.forget(&record).await?;
            }
        }
        Ok(())
    }

    async fn discard_workspace(
        &self,
        record: &WorkspaceRecord,
    ) -> Result<Option<Deletion<'_>>, Fault> {
        let driver = self.driver(&record.spec)?;
        let discarded = driver
            .discard(Discard::Workspace(record.id.clone()))
            .await?;
        Ok(discarded.map(|discarded| Deletion {
            driver,
            discarded,
            gone: of_workspace(record),
        }))
    }

    async fn forget(&self, record: &WorkspaceRecord) -> Result<(), Fault> {
        let id = record.id.clone();
        self.store
            .call(move |store| store.forget_trashed(&id))
            .await?;
        self.forget_driver_of(&record.id);
        self.notices.send(&record.id, Notice::Forgotten);
        Ok(())
    }

    /// Deletes removed projects that the trash no longer needs.
    async fn drop_projects(
        &self,
        collected: &mut Collected,
        progress: &Progress,
    ) -> Result<(), Fault> {
        let turn = self.projects.lock().await;
        let mut deletions = Vec::new();
        for id in self.store.call(|store| store.abandoned_projects()).await? {
            // The files first: a record without files is deleted next time, but files without a
            // record would never be.
            for driver in self.drivers.all() {
                if let Some(files) = driver.discard(Discard::Project(id.clone())).await? {
                    let gone = removed("project", id.as_str());
                    deletions.push(Deletion {
                        driver,
                        discarded: files,
                        gone,
                    });
                }
            }
            self.store
                .call(move |store| store.remove_project(&id))
                .await?;
        }
        drop(turn);
        for deletion in deletions {
            self.delete(deletion, collected, progress).await;
        }
        Ok(())
    }

    /// Deletes bases and leftovers while no workspace is created or started.
    async fn drop_unused(
        &self,
        extent: Extent,
        collected: &mut Collected,
        progress: &Progress,
    ) -> Result<(), Fault> {
        let quiet = self.quiet().await?;
        let (known, used) = self.known().await?;
        let mut deletions = Vec::new();
        for driver in self.drivers.all() {
            let survey = driver.survey(known.clone()).await?;
            collected.unknown.extend(survey.unknown.iter().cloned());
            for (what, gone) in unused(survey, &used, extent) {
                match driver.discard(what).await {
                    Ok(Some(discarded)) => deletions.push(Deletion {
                        driver,
                        discarded,
                        gone,
                    }),
                    Ok(None) => {}
                    Err(fault) => collected.faults.push(fault),
                }
            }
        }
        drop(quiet);
        for deletion in deletions {
            self.delete(deletion, collected, progress).await;
        }
        Ok(())
    }

    /// Polls for the exclusive lock without blocking creations.
    async fn quiet(&self) -> Result<tokio::sync::RwLockWriteGuard<'_, ()>, Fault> {
        let begun = Instant::now();
        loop {
            match self.making.try_write() {
                Ok(quiet) => return Ok(quiet),
                Err(_) if begun.elapsed() < PATIENCE => tokio::time::sleep(LOOK_AGAIN).await,
                Err(_) => {
                    return Err(Fault::new(
                        Code::Busy,
                        "workspaces are being made or started, so bases were left alone",
                        "try again when that is done: `holm gc`",
                    ));
                }
            }
        }
    }

    /// What the records know, and what they use.
    async fn known(&self) -> Result<(Known, Used), Fault> {
        let live = self.store.call(|store| store.live_workspaces()).await?;
        let trashed = self.store.call(|store| store.trashed_workspaces()).await?;
        let projects = self.store.call(|store| store.projects()).await?;
        let all = || live.iter().chain(&trashed);
        let used = Used {
            bases: all().flat_map(|record| record.spec.base_keys()).collect(),
            layers: all().flat_map(|record| record.spec.layer_keys()).collect(),
        };
        let hidden = all().map(|record| record.project_id.clone());
        let projects = projects.into_iter().map(|(project, _)| project.id);
        let known = Known {
            projects: projects.chain(hidden).collect(),
            workspaces: live.iter().map(|record| record.id.clone()).collect(),
            trashed: trashed.iter().map(|record| record.id.clone()).collect(),
        };
        Ok((known, used))
    }

    async fn delete(&self, deletion: Deletion<'_>, collected: &mut Collected, progress: &Progress) {
        let Deletion {
            driver,
            discarded,
            gone,
        } = deletion;
        match driver.delete(discarded, progress.clone()).await {
            Ok(bytes) => collected.removed.push(Removed { bytes, ..gone }),
            // It stays, and the next collection tries again.
            Err(fault) => collected.faults.push(fault),
        }
    }
}

fn removed(kind: &str, name: &str) -> Removed {
    Removed {
        kind: kind.to_owned(),
        name: name.to_owned(),
        label: None,
        bytes: 0,
    }
}

fn of_workspace(record: &WorkspaceRecord) -> Removed {
    Removed {
        label: Some(record.label.to_string()),
        ..removed("workspace", record.id.as_str())
    }
}

/// What of a survey may go, with what to say of it.
fn unused(survey: Survey, used: &Used, extent: Extent) -> Vec<(Discard, Removed)> {
    let layers = unused_layers(&survey.layers, &used.layers, extent).into_iter();
    let layers = layers.map(|layer| {
        let gone = removed("layer", &layer.key);
        (Discard::Layer(layer), gone)
    });
    let bases = unused_bases(&survey.bases, &used.bases, extent).into_iter();
    let bases = bases.map(|base| {
        let name = base.commit.as_deref().unwrap_or("empty").to_owned();
        (Discard::Base(base), removed("base", &name))
    });
    let leftovers = survey.leftovers.into_iter().map(|leftover| {
        let gone = removed("leftover", &leftover.shown);
        (Discard::Leftover(leftover), gone)
    });
    bases.chain(layers).chain(leftovers).collect()
}
