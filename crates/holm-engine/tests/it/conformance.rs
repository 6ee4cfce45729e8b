//! The driver in memory does what every driver has to, so tests of the engine say something of others.

use crate::world::{FakeDriver, Island};
use holm_core::{ProjectId, WorkspaceId};
use holm_engine::conformance;
use std::sync::Arc;

#[tokio::test]
async fn the_driver_in_memory_does_what_every_driver_has_to() {
    let island = Island::new();
    island.world.with(|state| state.may_repeat = true);
    let driver = Arc::new(FakeDriver(island.world.clone()));
    let commit = "1".repeat(40);
    let spec = conformance::spec(&WorkspaceId::random(), &ProjectId::random(), &commit);
    conformance::check(driver, spec).await;
}
