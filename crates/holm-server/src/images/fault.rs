//! What users see when an image cannot be pulled, imported or read.

use super::{PullWish, RulesOf};
use holm_core::image_reference::{ImageReference, ReferenceError};
use holm_core::{Code, Fault};
use holm_image::{
    BlobError, DocumentError, ImagesError, ImportError, LayersError, PullError, RequestError,
    StoreError, UnpackError,
};
use holm_proxy::outgoing::OutgoingError;
use rustix::io::Errno;
use std::error::Error;
use std::io;

const FORM: &str = "write it as `name`, `name:tag` or `registry.example.org/team/name:tag`";
const HOSTILE: &str = "holm takes nothing of it; take the image from a source that you trust";
const OFFLINE: &str = "is this machine online? `[network]` of config.toml names a proxy";
const OTHER_MACHINE: &str = "name an image that also exists for this machine";
const DIRECTORY: &str = "look at the disk, and at the directory `images` of holm's data";
/// Errors that no content of an image causes.
const OF_THE_MACHINE: [Errno; 5] = [
    Errno::IO,
    Errno::ROFS,
    Errno::MFILE,
    Errno::NFILE,
    Errno::NOMEM,
];
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
    let error = match machine_fault(error) {
        Ok(fault) => return fault,
        Err(error) => error,
    };
    let (code, hint) = match &error {
        ImagesError::Store(StoreError::Busy) => (
            Code::Busy,
            "wait until the pull or import has ended, then try again",
        ),
        ImagesError::Platform { .. } => (Code::ImageRefused, OTHER_MACHINE),
        ImagesError::Cancelled(_) => (Code::Cancelled, "type the command again"),
        ImagesError::Layers(LayersError::Unpack { source, .. })
            if matches!(**source, UnpackError::Place { .. }) =>
        {
            (Code::Internal, DIRECTORY)
        }
        ImagesError::Layers(LayersError::Unpack { .. })
        | ImagesError::Document { .. }
        | ImagesError::Config { .. } => (Code::ImageRefused, HOSTILE),
        ImagesError::NotUnpacked { .. } | ImagesError::Store(StoreError::Absent(_)) => (
            Code::ImageNotFound,
            "`holm image pull` or `holm image import` brings it again",
        ),
        ImagesError::Names(_) | ImagesError::Layers(_) => (Code::CorruptState, DIRECTORY),
        ImagesError::Store(_) => (Code::Internal, DIRECTORY),
    };
    Fault::of(code, error, hint)
}

pub fn import_fault(error: ImportError) -> Fault {
    let error = match machine_fault(error) {
        Ok(fault) => return fault,
        Err(error) => error,
    };
    let (code, hint) = match &error {
        ImportError::NoImages => (
            Code::ImageRefused,
            "`docker save NAME -o FILE` writes an archive that holm reads, and so do podman, ctr and skopeo",
        ),
        ImportError::Document(DocumentError::Platform { .. }) => {
            (Code::ImageRefused, OTHER_MACHINE)
        }
        ImportError::Store(StoreError::Io { .. })
        | ImportError::Blob(BlobError::Create(..) | BlobError::Write(_)) => {
            (Code::Internal, DIRECTORY)
        }
        _ => (Code::ImageRefused, HOSTILE),
    };
    let message = "the images cannot be imported";
    Fault::new(code, message, hint).because(error)
}

pub fn pull_fault(wish: &PullWish, error: PullError) -> Fault {
    let reference = &wish.reference;
    let error = match machine_fault(error) {
        Ok(fault) => return fault,
        Err(error) => error,
    };
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
        } => match refusal(cause, wish.rules) {
            Some(hint) => (Code::Refused, hint),
            None => (Code::RegistryFailed, OFFLINE.to_owned()),
        },
        PullError::Request { .. } | PullError::Status { .. } | PullError::Time(_) => {
            (Code::RegistryFailed, again())
        }
        PullError::Store(_) | PullError::Blob(BlobError::Create(..) | BlobError::Write(_)) => {
            (Code::Internal, DIRECTORY.to_owned())
        }
        PullError::Document(DocumentError::Platform { .. }) => {
            (Code::ImageRefused, OTHER_MACHINE.to_owned())
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
fn refusal(cause: &io::Error, rules: RulesOf) -> Option<String> {
    let error = cause.get_ref()?.downcast_ref::<OutgoingError>()?;
    match error {
        OutgoingError::Refused { line, .. } => Some(match line {
            Some(line) => match rules {
                RulesOf::User => format!("`{line}` in config.toml would allow it"),
                RulesOf::Project => format!("`{line}` in holm.toml would allow it"),
            },
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

/// The fault of this machine, and not of the image, wherever in the chain of causes it is. `Err`: there is none.
fn machine_fault<E: Error + Send + Sync + 'static>(error: E) -> Result<Fault, E> {
    let mut next: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(cause) = next {
        match errno_of(cause) {
            Some(Errno::NOSPC | Errno::DQUOT) => {
                let message = "the image does not fit on the disk";
                return Ok(Fault::new(Code::DiskFull, message, DISK));
            }
            Some(errno) if OF_THE_MACHINE.contains(&errno) => {
                let message = "this machine cannot take the image";
                return Ok(Fault::new(Code::Internal, message, DIRECTORY).because(error));
            }
            _ => next = cause.source(),
        }
    }
    Err(error)
}

fn errno_of(cause: &(dyn Error + 'static)) -> Option<Errno> {
    match cause.downcast_ref::<io::Error>() {
        Some(error) => Errno::from_io_error(error),
        None => cause.downcast_ref::<Errno>().copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacking(errno: Errno) -> Fault {
        let source = UnpackError::File {
            action: "write",
            path: "etc/passwd".to_owned(),
            source: errno,
        };
        let digest = format!("sha256:{}", "0".repeat(64));
        store_fault(ImagesError::Layers(LayersError::Unpack {
            digest: digest.parse().unwrap(),
            source: Box::new(source),
        }))
    }

    #[test]
    fn a_failing_disk_is_not_blamed_on_the_image() {
        assert_eq!(unpacking(Errno::NOSPC).code, Code::DiskFull);
        let failed = unpacking(Errno::IO);
        assert_eq!(failed.code, Code::Internal);
        assert!(failed.message().contains("etc/passwd"), "{failed:?}");
        // No file system takes such a name: that is the image's doing.
        assert_eq!(unpacking(Errno::NAMETOOLONG).code, Code::ImageRefused);
    }
}
