//! Which repository is which project.

use crate::world::{Island, made, project, repository};
use holm_core::trash::Removal;
use holm_core::{Code, ProjectId};
use holm_engine::EarlierPlace;
use holm_engine::store::ProjectRemoval;

#[tokio::test]
async fn repositories_keep_their_identity() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;

    // The same repository, from the same place, with its id.
    let mut seen = repository("shop", 1);
    seen.id = Some(shop.id.clone());
    assert_eq!(engine.sync_project(seen.clone()).await.unwrap().0, shop);
    seen.wish = None;
    assert_eq!(engine.sync_project(seen.clone()).await.unwrap().0, shop);

    // Renamed on disk: the inode tells.
    seen.path = "/src/store".to_owned();
    seen.git_dir = "/src/store/.git".to_owned();
    let moved = engine.sync_project(seen.clone()).await.unwrap().0;
    assert_eq!(
        (&moved.id, &moved.name, moved.path.as_str()),
        (&shop.id, &shop.name, "/src/store")
    );

    // Elsewhere with another inode: a copy, or moved across file systems.
    seen.path = "/other/shop".to_owned();
    seen.git_dir = "/other/shop/.git".to_owned();
    seen.inode = 7;
    let error = engine.sync_project(seen.clone()).await.unwrap_err();
    assert_eq!(error.code, Code::ProjectElsewhere);
    assert!(
        error.message().contains("/src/store"),
        "{}",
        error.message()
    );
    seen.earlier_place = EarlierPlace::Gone;
    assert_eq!(engine.sync_project(seen).await.unwrap().0.id, shop.id);

    // Another clone without an id is another project with its own name.
    let second = engine.sync_project(repository("shop", 9)).await.unwrap().0;
    assert_ne!(second.id, shop.id);
    assert_eq!(second.name.as_str(), "shop-2");

    // An id that this daemon never saw is accepted, with a name.
    let mut unknown = repository("blog", 11);
    unknown.id = Some(ProjectId::random());
    let mut nameless = unknown.clone();
    nameless.wish = None;
    let error = engine.sync_project(nameless).await.unwrap_err();
    assert_eq!(error.code, Code::ProjectNotFound);
    let expect = unknown.id.clone().unwrap();
    assert_eq!(engine.sync_project(unknown).await.unwrap().0.id, expect);

    let mut other = repository("shop", 9);
    other.id = Some(second.id);
    other.object_format = "sha256".to_owned();
    assert_eq!(
        engine.sync_project(other).await.unwrap_err().code,
        Code::Refused
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clients_in_a_new_repository_find_one_project() {
    let island = Island::new();
    let engine = island.engine();
    let all: Vec<_> = (0..8)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move { engine.sync_project(repository("shop", 1)).await.unwrap() })
        })
        .collect();
    for one in all {
        one.await.unwrap();
    }
    assert_eq!(engine.projects().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_project_is_removed_when_nothing_lives_in_it() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    let id = made(&engine, &shop, "fix").await.record.id;
    let error = engine.remove_project(&shop.id).await.unwrap_err();
    assert_eq!(error.code, Code::ProjectInUse);
    engine.remove(&id, Removal::Force).await.unwrap();
    let (_, removal) = engine.remove_project(&shop.id).await.unwrap();
    assert_eq!(removal, ProjectRemoval::Hidden);
    assert!(engine.projects().await.unwrap().is_empty());
    // A workspace in the trash can still be shown.
    assert_eq!(engine.show(&id).await.unwrap().project, shop.name);

    let mut seen = repository("shop", 1);
    seen.id = Some(shop.id.clone());
    assert_eq!(engine.sync_project(seen).await.unwrap().0.id, shop.id);
    assert_eq!(engine.projects().await.unwrap().len(), 1);
}

#[tokio::test]
async fn approvals_hold_for_exactly_one_digest() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    let approve = |id| engine.approve(id, "abc".to_owned(), Vec::new());
    approve(&shop.id).await.unwrap();
    assert!(
        engine
            .is_approved(&shop.id, "abc".to_owned())
            .await
            .unwrap()
    );
    assert!(
        !engine
            .is_approved(&shop.id, "abd".to_owned())
            .await
            .unwrap()
    );
    let nobody = ProjectId::random();
    let error = approve(&nobody).await.unwrap_err();
    assert_eq!(error.code, Code::ProjectNotFound);
}
