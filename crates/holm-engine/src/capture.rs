//! Captures a running workspace, and asks git inside only if the writable layer changed since git was
//! last asked. In doubt git is asked.
//!
//! The state that git recorded is kept only if the layer looked the same before and after, and was
//! still before: a change that follows a look then always shows in the next one.

use crate::captured::{Capture, Captured};
use crate::driver::{Driver, Stillness, Upper};
use crate::engine::Engine;
use crate::progress::Progress;
use crate::trees::{Known, Recorded};
use holm_core::capture::Depth;
use holm_core::spec::WorkspaceSpec;
use holm_core::{Fault, WorkspaceId};
use std::collections::HashSet;
use std::sync::Arc;

// === impl Engine ===

impl Engine {
    /// Captures a running workspace: from memory if nothing changed, else by git inside.
    pub(crate) async fn capture_running(
        &self,
        id: &WorkspaceId,
        spec: &WorkspaceSpec,
        how: Capture,
        progress: Progress,
    ) -> Result<Captured, Fault> {
        if how.message.is_some() || how.depth != Depth::Tree {
            return self.capture_by_git(id, spec, how, progress).await;
        }
        let (trees, driver) = (&self.inner.trees, self.inner.driver(spec)?);
        let known = trees.find(id, spec);
        let ignored = known.as_ref().map(|known| Arc::clone(&known.ignored));
        let ignored = ignored.unwrap_or_default();
        let mut seen = driver.upper(spec, Arc::clone(&ignored)).await;
        if let (Some(known), Some(seen)) = (&known, &seen)
            && let Some(captured) = known.captured(seen)
        {
            return Ok(captured.clone());
        }
        if let Some(Stillness::After(pause)) = seen.as_ref().map(|seen| seen.stillness) {
            tokio::time::sleep(pause).await;
            seen = driver.upper(spec, Arc::clone(&ignored)).await;
        }
        let captured = self.capture_by_git(id, spec, how, progress).await?;
        let looks = Looks {
            driver: &**driver,
            spec,
            before: seen,
            ignored,
        };
        let known = looks.known(&captured).await;
        trees.keep(id, known);
        Ok(captured)
    }
}

/// The look before a capture.
struct Looks<'a> {
    driver: &'a dyn Driver,
    spec: &'a WorkspaceSpec,
    before: Option<Upper>,
    ignored: Arc<HashSet<Vec<u8>>>,
}

// === impl Looks ===

impl Looks<'_> {
    async fn known(self, captured: &Captured) -> Known {
        let ignored = Arc::new(captured.ignored.iter().cloned().collect());
        let upper = if captured.can_be_kept() {
            self.recorded(&ignored).await
        } else {
            None
        };
        Known {
            spec: self.spec.clone(),
            ignored,
            recorded: upper.map(|upper| Recorded {
                upper,
                captured: captured.clone(),
            }),
        }
    }

    /// How the layer looks, if nothing changed while git looked at it.
    async fn recorded(&self, ignored: &Arc<HashSet<Vec<u8>>>) -> Option<Upper> {
        let before = self.before.as_ref()?;
        if before.stillness != Stillness::Still {
            return None;
        }
        let mut now = None;
        if *ignored != self.ignored {
            // Between two equal looks, so this one sees the same state.
            now = Some(self.driver.upper(self.spec, Arc::clone(ignored)).await?);
        }
        let after = self
            .driver
            .upper(self.spec, Arc::clone(&self.ignored))
            .await?;
        (after.files == before.files).then(|| now.unwrap_or(after))
    }
}
