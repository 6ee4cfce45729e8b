//! What users see when an image cannot be pulled, imported or read.

use holm_core::image_reference::{ImageReference, ReferenceError};
use holm_core::{Code, Fault};
use holm_image::{
    BlobError, ImagesError, ImportError, LayersError, PullError, RequestError, StoreError,
};
use holm_proxy::outgoing::OutgoingError;
use std::error::Error;
use std::io;

const FORM: &str = "write it as `name`, `name:tag` or `registry.example.org/team/name:tag`";
const HOSTILE: &str = "holm takes nothing of it; take the image from a source that you trust";
const OFFLINE: &str = "is this machine online? `[network]` of config.toml names a proxy";
const DISK: &str = "free some space on that disk, then try again: it goes on where it ended";

pub fn invalid(error: ReferenceError) -> Fault {
    Fault::of(Code::InvalidImage, error, FORM)
}

pub fn not_here(reference: &ImageReference) -> Fault {
    let message = format!("there is no image `{}`", reference.familiar());
    Fault::new(Code::ImageNotFound, message, "`holm image ls` lists them")
}

pub fn not_one(images: usize) -> Fault {
    let message = format!("the archive has {images} images, and `--name` names one");
    let hint = "import them without `--name`, or export one image";
    Fault::new(Code::InvalidImage, message, hint)
}

/// Errors of the daemon's own images, and of layers that are refused.
pub fn store_fault(error: ImagesError) -> Fault {
    if let Some(full) = disk_full(&error) {
        return full;
    }
    let (code, hint) = match &error {
        ImagesError::Store(StoreError::Busy) => (
            Code::Busy,
            "wait until the pull or import has ended, then try again",
        ),
        ImagesError::Platform { .. } => (
            Code::ImageRefused,
            "name an image that also exists for this machine",
        ),
        ImagesError::Layers(LayersError::Unpack { .. })
        | ImagesError::Document { .. }
        | ImagesError::Config { .. } => (Code::ImageRefused, HOSTILE),
        ImagesError::NotUnpacked { .. } | ImagesError::Store(StoreError::Absent(_)) => (
            Code::ImageNotFound,
            "`holm image pull` or `holm image import` brings it again",
        ),
        ImagesError::Names(_) | ImagesError::Layers(_) => {
            (Code::CorruptState, "look at the directory `images`")
        }
        ImagesError::Store(_) => (Code::Internal, "look at the directory `images`"),
    };
    Fault::of(code, error, hint)
}

pub fn import_fault(error: ImportError) -> Fault {
    if let Some(full) = disk_full(&error) {
        return full;
    }
    let (code, hint) = match &error {
        ImportError::NoImages => (
            Code::ImageRefused,
            "`docker save NAME -o FILE` writes an archive that holm reads, and so do podman, ctr and skopeo",
        ),
        ImportError::Store(StoreError::Io { .. })
        | ImportError::Blob(BlobError::Create(..) | BlobError::Write(_)) => {
            (Code::Internal, "look at the directory `images`")
        }
        _ => (Code::ImageRefused, HOSTILE),
    };
    let message = "the images cannot be imported";
    Fault::new(code, message, hint).because(error)
}

pub fn pull_fault(reference: &ImageReference, error: PullError) -> Fault {
    if let Some(full) = disk_full(&error) {
        return full;
    }
    let registry = reference.registry();
    let sign_in = format!(
        "`docker login {registry}` stores credentials where holm finds them: in ~/.docker/config.json"
    );
    let (code, hint) = match &error {
        PullError::Absent { status, .. } if status.as_u16() == 404 => (
            Code::ImageNotFound,
            "is its name right? a registry may also hide what your credentials do not show"
                .to_owned(),
        ),
        PullError::Absent { .. } | PullError::Challenge { .. } => (Code::RegistryDenied, sign_in),
        PullError::Status { status, .. } if matches!(status.as_u16(), 401 | 403) => {
            (Code::RegistryDenied, sign_in)
        }
        PullError::Request {
            source: RequestError::Connect(_, cause),
            ..
        } => match refusal(cause) {
            Some(hint) => (Code::Refused, hint),
            None => (Code::RegistryFailed, OFFLINE.to_owned()),
        },
        PullError::Request { .. } | PullError::Status { .. } | PullError::Time(_) => {
            (Code::RegistryFailed, again())
        }
        PullError::Store(_) | PullError::Blob(BlobError::Create(..) | BlobError::Write(_)) => {
            (Code::Internal, "look at the directory `images`".to_owned())
        }
        PullError::Digest { .. }
        | PullError::Size { .. }
        | PullError::Large { .. }
        | PullError::Document(_)
        | PullError::Config(_)
        | PullError::Blob(_)
        | PullError::Deep => (Code::ImageRefused, HOSTILE.to_owned()),
    };
    if matches!(error, PullError::Absent { .. }) {
        return Fault::of(code, error, hint);
    }
    let message = format!("cannot pull `{}`", reference.familiar());
    Fault::new(code, message, hint).because(error)
}

fn again() -> String {
    "try again: the pull goes on where it ended".to_owned()
}

/// What to do about a connection that a rule forbids.
fn refusal(cause: &io::Error) -> Option<String> {
    let error = cause.get_ref()?.downcast_ref::<OutgoingError>()?;
    match error {
        OutgoingError::Refused { line, .. } => Some(match line {
            Some(line) => format!("`{line}` would allow it, in config.toml or in holm.toml"),
            None => FORM.to_owned(),
        }),
        OutgoingError::OwnAddress { target, .. } => Some(format!(
            "`[images] loopback = [\"{target}\"]` in config.toml would allow it"
        )),
        OutgoingError::NotLoopback(_) => {
            Some("`[images] loopback` of config.toml is for registries on this machine".to_owned())
        }
        _ => None,
    }
}

/// A full disk, wherever in the chain of causes it is.
fn disk_full(error: &(dyn Error + 'static)) -> Option<Fault> {
    let mut next = Some(error);
    while let Some(cause) = next {
        let kind = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        if let Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) = kind {
            let message = "the image does not fit on the disk";
            return Some(Fault::new(Code::DiskFull, message, DISK));
        }
        next = cause.source();
    }
    None
}
