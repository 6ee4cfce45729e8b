//! Adds images: pulls or imports them, unpacks their layers, and names them.
//!
//! The work has a thread of its own: it hashes, writes and flushes, which would hold up other requests.

use super::fault::{import_fault, invalid, not_one, pull_fault, store_fault};
use super::reach::{self, PullWish};
use crate::App;
use crate::uploads::Received;
use holm_core::image_reference::{ImageDigest, ImageReference};
use holm_core::{Code, Fault};
use holm_engine::{Progress, try_blocking};
use holm_image::{
    ArchiveLimits, Descriptor, Images, ImagesError, Imported, Platform, StoredImage, Writing,
    import_archive, pull,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::ops::ControlFlow;
use std::sync::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

// === impl App ===

impl App {
    /// Pulls an image and makes it ready to run. Dropping the future ends the pull; a layer that is being unpacked is
    /// finished.
    pub async fn pull_image(
        &self,
        wish: PullWish,
        progress: Progress,
    ) -> Result<StoredImage, Fault> {
        let (images, network) = (self.images.clone(), self.network.clone());
        let (file, home) = (self.paths.config_file.clone(), self.home());
        let handle = Handle::current();
        let (mut client, _connected) = connection();
        try_blocking(move || {
            let access = reach::access(&file, &home, &network, &wish)?;
            let writing = images.begin().map_err(store_fault)?;
            let reference = &wish.reference;
            let reported = Reported::new(reference, &progress);
            let pulled = handle.block_on(async {
                let (host, note) = (Platform::host(), |step| reported.note(step));
                tokio::select! {
                    pulled = pull(&writing, &access, reference, &host, &note) => {
                        pulled.map_err(|error| pull_fault(&wish, error))
                    }
                    () = client.closed() => Err(cancelled(reference)),
                }
            })?;
            let adding = Adding {
                images: &images,
                writing: &writing,
                progress: &progress,
                client: &client,
            };
            adding.finish(reference, &pulled.manifest)
        })
        .await
    }

    /// Takes the images of an archive, under the names that they have there or under `name`.
    pub async fn import_images(
        &self,
        archive: Received,
        name: Option<ImageReference>,
        progress: Progress,
    ) -> Result<Vec<StoredImage>, Fault> {
        let images = self.images.clone();
        let (client, _connected) = connection();
        try_blocking(move || {
            let path = archive.path();
            let opened = File::open(path);
            let file = opened.map_err(|error| crate::startup::unusable("open", path, error))?;
            progress.report("import", 0, 0);
            let writing = images.begin().map_err(store_fault)?;
            let file = BufReader::with_capacity(1 << 16, file);
            let found = import_archive(&writing, file, &Platform::host(), ArchiveLimits::default());
            let named = named(found.map_err(import_fault)?, name)?;
            let adding = Adding {
                images: &images,
                writing: &writing,
                progress: &progress,
                client: &client,
            };
            let stored = named
                .iter()
                .map(|(name, manifest)| adding.finish(name, manifest));
            stored.collect()
        })
        .await
    }
}

/// What is left to do when all blobs of an image are there.
struct Adding<'a> {
    images: &'a Images,
    writing: &'a Writing,
    progress: &'a Progress,
    client: &'a Client,
}

/// Closed when the client that asked for the image has disconnected.
type Client = oneshot::Sender<()>;

/// The second part belongs to the future that the client waits for, and is dropped with it.
fn connection() -> (Client, oneshot::Receiver<()>) {
    oneshot::channel()
}

// === impl Adding ===

impl Adding<'_> {
    fn finish(
        &self,
        reference: &ImageReference,
        manifest: &Descriptor,
    ) -> Result<StoredImage, Fault> {
        let step = format!("unpack: {reference}");
        let report = |at: holm_image::UnpackProgress| {
            let (layer, layers) = (at.layer as u64, at.layers as u64);
            self.progress.report(&step, layer, layers);
            if self.client.is_closed() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let unpacked = self.images.unpack(self.writing, &manifest.digest, &report);
        unpacked.map_err(|error| match error {
            ImagesError::Cancelled(_) => cancelled(reference),
            error => store_fault(error),
        })?;
        let stored = self.images.name(self.writing, reference, manifest);
        stored.map_err(store_fault)
    }
}

/// The sum of all blobs, for people.
struct Reported<'a> {
    step: String,
    progress: &'a Progress,
    done: Mutex<BTreeMap<ImageDigest, u64>>,
}

// === impl Reported ===

impl<'a> Reported<'a> {
    fn new(reference: &ImageReference, progress: &'a Progress) -> Self {
        let step = format!("pull: {reference}");
        progress.report(&step, 0, 0);
        Self {
            step,
            progress,
            done: Mutex::default(),
        }
    }

    fn note(&self, at: holm_image::Progress) {
        let mut done = self.done.lock().unwrap_or_else(|it| it.into_inner());
        done.insert(at.digest, at.done);
        let sum = done.values().sum();
        self.progress.report(&self.step, sum, at.missing);
    }
}

/// Each image with its name. An image with several names is there once for each.
fn named(
    found: Vec<Imported>,
    name: Option<ImageReference>,
) -> Result<Vec<(ImageReference, Descriptor)>, Fault> {
    if let Some(name) = name {
        return match found.as_slice() {
            [only] => Ok(vec![(name, only.manifest.clone())]),
            several => Err(not_one(several.len())),
        };
    }
    let mut named = Vec::new();
    for image in found {
        if image.names.is_empty() {
            let message = format!("the image {} has no name", image.manifest.digest);
            let hint = "`holm image import FILE --name NAME` gives it one";
            return Err(Fault::new(Code::InvalidImage, message, hint));
        }
        for name in &image.names {
            let name: ImageReference = name.parse().map_err(|error| {
                invalid(error).with_hint("`holm image import FILE --name NAME` gives another name")
            })?;
            refuse_name_of_build(&name)?;
            named.push((name, image.manifest.clone()));
        }
    }
    Ok(named)
}

/// Such a name stands for the inputs of a build, and only the client that ran it gives it.
pub fn refuse_name_of_build(name: &ImageReference) -> Result<(), Fault> {
    if !name.is_built() {
        return Ok(());
    }
    let message = format!("`{name}` is the name of an image that holm builds");
    let hint = "`holm image import FILE --name NAME` gives another name";
    Err(Fault::new(Code::ImageRefused, message, hint))
}

fn cancelled(reference: &ImageReference) -> Fault {
    let message = format!("the client of `{reference}` disconnected");
    let hint = "type the command again: it continues where it ended";
    Fault::new(Code::Cancelled, message, hint)
}
