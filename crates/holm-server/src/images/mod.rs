//! `/images`: pull, import, list and remove the images that services run in.
//!
//! The daemon pulls; clients read credentials and send those of one registry with one request. A pull or import ends
//! when its client disconnects; what was downloaded stays for the next attempt, until `gc` removes it.

mod add;
mod fault;
mod reach;

pub use reach::{PullWish, RulesOf};

use crate::App;
use crate::failure::{Answer, Body, Failure, WorkspaceKey, bad_request, error_body};
use crate::jsonl;
use crate::view;
use axum::Json;
use axum::extract::State;
use axum::response::Response;
pub use fault::store_fault;
use fault::{invalid, not_here};
use holm_api::Workspace;
use holm_api::image::{
    Image, ImageEvent, ImageList, ImageUser, ImportImages, PullImage, RemoveImage, TakeImages,
};
use holm_core::config::EgressMode;
use holm_core::egress::Policy;
use holm_core::image_reference::{ImageDigest, ImageReference};
use holm_core::spec::WorkspaceSpec;
use holm_core::trash::Removed;
use holm_core::{Code, Fault};
use holm_engine::progress::ProgressEvent;
use holm_engine::{Progress, try_blocking};
use holm_image::{Credentials, Images, StoredImage};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::mpsc;
use zeroize::Zeroizing;

operations! {
    /// All images that have a name.
    get "/images" "images_list" list -> ImageList;
    /// Pulls an image from its registry.
    post "/images" "image_pull" pull sends PullImage streams ImageEvent until "done";
    /// Takes the images of an uploaded archive.
    post "/images/import" "image_import" import sends ImportImages streams ImageEvent until "done";
    /// Removes the name of an image that no workspace uses.
    delete "/images" "image_remove" remove sends RemoveImage -> Image;
    /// Gives services of a workspace images that the client has built again. They are in force from its next start on.
    post "/workspaces/{id}/images" "workspace_images" take of (WorkspaceKey) sends TakeImages -> Workspace;
}

/// The workspaces that use each image, live and in the trash.
type Users = BTreeMap<ImageDigest, Vec<ImageUser>>;

async fn list(State(app): State<Arc<App>>) -> Answer<ImageList> {
    let images = app.images.clone();
    let images = try_blocking(move || images.list().map_err(store_fault)).await?;
    Ok(Json(app.image_list(images).await?))
}

async fn pull(
    State(app): State<Arc<App>>,
    Body(wish): Body<PullImage>,
) -> Result<Response, Failure> {
    let reference = parse(&wish.reference)?;
    add::refuse_name_of_build(&reference)?;
    let credentials = wish.credentials.map(|given| Credentials {
        registry: given.registry,
        user: given.user,
        password: Zeroizing::new(given.password.reveal().to_owned()),
    });
    if let Some(given) = &credentials
        && given.registry != reference.registry()
    {
        let cause = "`credentials` are for another registry than the one of `reference`";
        return Err(bad_request(cause));
    }
    let policy = app.policy_of_user().await?;
    let (progress, events) = progress();
    let work = async move {
        let wish = PullWish {
            reference,
            credentials,
            policy,
            rules: RulesOf::User,
        };
        let pulled = app.pull_image(wish, progress).await;
        app.last_event(pulled.map(|image| vec![image])).await
    };
    Ok(jsonl::progress(work, events, report))
}

async fn import(
    State(app): State<Arc<App>>,
    Body(wish): Body<ImportImages>,
) -> Result<Response, Failure> {
    let name = wish.name.as_deref().map(parse).transpose()?;
    let archive = app.uploads.take(&wish.upload)?;
    let (progress, events) = progress();
    let work = async move {
        let imported = app.import_images(archive, name, progress).await;
        app.last_event(imported).await
    };
    Ok(jsonl::progress(work, events, report))
}

async fn remove(State(app): State<Arc<App>>, Body(wish): Body<RemoveImage>) -> Answer<Image> {
    let reference = parse(&wish.reference)?;
    loop {
        let (images, name) = (app.images.clone(), reference.clone());
        let found = try_blocking(move || images.find(&name).map_err(store_fault)).await?;
        let found = found.ok_or_else(|| not_here(&reference))?;
        let image = shown(found, &app.image_users().await?);
        refuse_used(&reference, &image)?;
        let (images, name, digest) = (app.images.clone(), reference.clone(), image.digest.clone());
        let removed = try_blocking(move || images.remove(&name, &digest).map_err(store_fault));
        // A pull that ended meanwhile may have given the name to another image, which may be in use.
        if removed.await?.is_some() {
            return Ok(Json(image));
        }
    }
}

async fn take(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    Body(wish): Body<TakeImages>,
) -> Answer<Workspace> {
    let spec = app.engine.spec(&id).await?;
    let (images, held) = app.built_images(&spec, wish.built).await?;
    let change = move |spec: &mut WorkspaceSpec| {
        spec.take_images(&images);
    };
    let view = app.engine.reload(&id, change).await?;
    // They are on record.
    drop(held);
    Ok(Json(app.workspace(view).await))
}

fn refuse_used(reference: &ImageReference, image: &Image) -> Result<(), Fault> {
    if image.used_by.is_empty() {
        return Ok(());
    }
    let labels: Vec<&str> = image.used_by.iter().map(|it| it.label.as_str()).collect();
    let message = format!(
        "`{}` is used by {}",
        reference.familiar(),
        labels.join(", ")
    );
    let hint = "`holm rm WS`, then `holm gc --all`, lets it go";
    Err(Fault::new(Code::ImageInUse, message, hint))
}

// === impl App ===

impl App {
    /// Deletes blobs and layers that neither a name nor a workspace needs. `None` if there were none.
    pub async fn sweep_images(&self) -> Result<Option<Removed>, Fault> {
        let images = self.images.clone();
        let sweeping = try_blocking(move || images.begin_sweep().map_err(store_fault)).await?;
        // From here on no workspace can begin to use an image.
        let used: BTreeSet<ImageDigest> = self.image_users().await?.into_keys().collect();
        let images = self.images.clone();
        let sweep = move || images.sweep(&sweeping, &used).map_err(store_fault);
        let swept = try_blocking(sweep).await?;
        let removed = Removed {
            kind: "image".to_owned(),
            name: format!("layers: {}, blobs: {}", swept.layers, swept.blobs),
            label: None,
            bytes: swept.bytes,
        };
        Ok((swept.bytes > 0).then_some(removed))
    }

    /// Takes away the names of images that holm built and no workspace uses.
    pub async fn forget_builds(&self) -> Result<(), Fault> {
        let users = self.image_users().await?;
        let images = self.images.clone();
        try_blocking(move || {
            for image in images.list().map_err(store_fault)? {
                let digest = &image.manifest.digest;
                if image.reference.is_built() && !users.contains_key(digest) {
                    images
                        .remove(&image.reference, digest)
                        .map_err(store_fault)?;
                }
            }
            Ok(())
        })
        .await
    }

    /// What the user's own settings allow, for an image that no project asks for.
    async fn policy_of_user(&self) -> Result<Policy, Fault> {
        let (file, home) = (self.paths.config_file.clone(), self.home());
        let settings = try_blocking(move || holm_config::user::load(&file, &home)).await?;
        // The default settings have a mode.
        let mode = settings.egress.mode.unwrap_or(EgressMode::None);
        Ok(Policy::new(mode, settings.egress.allow))
    }

    async fn image_list(&self, images: Vec<StoredImage>) -> Result<ImageList, Fault> {
        let users = self.image_users().await?;
        let images = images.into_iter().map(|image| shown(image, &users));
        Ok(ImageList {
            images: images.collect(),
        })
    }

    async fn last_event(&self, done: Result<Vec<StoredImage>, Fault>) -> ImageEvent {
        let listed = match done {
            Ok(images) => self.image_list(images).await,
            Err(fault) => Err(fault),
        };
        match listed {
            Ok(list) => ImageEvent::Done(list),
            Err(fault) => ImageEvent::Error(error_body(&fault).error),
        }
    }

    async fn image_users(&self) -> Result<Users, Fault> {
        let mut users = Users::new();
        let mut add = |spec: &WorkspaceSpec, user: ImageUser| {
            let manifests: BTreeSet<&ImageDigest> = spec.image_manifests().collect();
            for digest in manifests {
                users.entry(digest.clone()).or_default().push(user.clone());
            }
        };
        for (record, project) in self.engine.names().await? {
            let user = ImageUser {
                id: record.id.to_string(),
                label: record.label.to_string(),
                project: project.to_string(),
            };
            add(&record.spec, user);
        }
        for found in self.engine.trash().await? {
            let user = ImageUser {
                id: found.record.id.to_string(),
                label: found.record.label.to_string(),
                project: found.project.to_string(),
            };
            add(&found.record.spec, user);
        }
        Ok(users)
    }
}

fn parse(text: &str) -> Result<ImageReference, Fault> {
    text.parse().map_err(invalid)
}

fn shown(image: StoredImage, users: &Users) -> Image {
    Image {
        used_by: users
            .get(&image.manifest.digest)
            .cloned()
            .unwrap_or_default(),
        reference: image.reference,
        digest: image.manifest.digest,
        bytes: image.bytes,
        stored_at: view::time(image.stored_at),
    }
}

fn progress() -> (Progress, mpsc::UnboundedReceiver<ProgressEvent>) {
    let (sender, events) = mpsc::unbounded_channel();
    (Progress::to(sender), events)
}

fn report(event: ProgressEvent) -> ImageEvent {
    let ProgressEvent { step, done, total } = event;
    ImageEvent::Progress { step, done, total }
}

/// Opens the images of the daemon.
pub fn open(data_dir: &std::path::Path) -> Result<Images, Fault> {
    Images::open(&data_dir.join("images")).map_err(store_fault)
}
