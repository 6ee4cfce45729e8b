//! Trees that `up` provides from the user's side as layers: build output of the checkout
//! (`--warm`), and snapshots of caches. Each once; a daemon of the same user gets copies with
//! reflinks where possible, any other one an archive.

use super::UpArgs;
use super::include::{self, Included};
use super::installed;
use crate::cli::progress::Progress;
use crate::cli::trust_question::Granted;
use crate::cli::user_checkout::Checkout;
use crate::cli::{Context, origin::Origin};
use crate::wiring::{Source, copy_entry, disk_usage, remove_tree};
use holm_api::client::Client;
use holm_api::project::{TreeBrought, TreeName, TreePlace};
use holm_config::daemon_user::DaemonUser;
use holm_core::config::{Cache, Policy, rough_size};
use holm_core::layer::is_build_output;
use holm_core::layer::{FileDate, InstalledLock};
use holm_core::{Code, Fault};
use holm_engine::try_blocking;
use holm_git::Cancel;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tokio::sync::mpsc;

pub struct Bringing<'a> {
    pub context: &'a Context,
    pub client: &'a Client,
    pub checkout: &'a Checkout,
    pub project_id: &'a str,
    pub cancel: &'a Cancel,
}

/// Paths below a directory that become a tree.
#[derive(Clone)]
struct Picked {
    top: PathBuf,
    /// Relative to it, none below another.
    paths: Vec<PathBuf>,
    /// What users see while the paths are copied.
    step: String,
}

/// What is known of a checkout's build output.
#[derive(Default)]
struct Brought {
    dates: Vec<FileDate>,
    installed: Vec<InstalledLock>,
}

/// Progress is reported once per this many files.
const REPORT_EVERY: u64 = 256;

// === impl Bringing ===

impl Bringing<'_> {
    /// Provides everything that this `up` needs; returns notes for the user.
    pub async fn all(
        &self,
        arguments: &UpArgs,
        origin: &Origin,
        included: &Included,
        granted: Granted,
    ) -> Result<Vec<String>, Fault> {
        let mut notes = Vec::new();
        for (name, cache) in &origin.config.caches {
            let is_granted = granted == Granted::Everything || !cache.is_outside();
            if cache.policy == Policy::Fork && is_granted {
                notes.extend(self.cache(name.as_str(), cache, origin).await?);
            }
        }
        if arguments.warm {
            notes.extend(self.warm(origin, included).await?);
        }
        Ok(notes)
    }

    /// The build output of the checkout, as the project's first layer.
    async fn warm(&self, origin: &Origin, included: &Included) -> Result<Vec<String>, Fault> {
        let place = self.begin(&TreeName::Warm).await?;
        if place.is_present {
            let note = "the project has build output of a checkout already, which is used; \
                `holm gc --all` drops it when no workspace does";
            return Ok(vec![note.to_owned()]);
        }
        let directories = self
            .checkout
            .git(|repository| repository.ignored_directories())
            .await?;
        let paths = directories
            .into_iter()
            .filter(|path| path.to_str().is_some_and(is_build_output) && !included.contains(path));
        let picked = Picked {
            top: self.checkout.repository.toplevel.clone(),
            step: "copying build output".to_owned(),
            paths: paths.collect(),
        };
        let dates = self.checkout.git(|repository| repository.dates()).await?;
        if picked.paths.is_empty() {
            self.forget(&place).await;
            let note = "there is no ignored build output in this checkout to begin with";
            return Ok(vec![note.to_owned()]);
        }
        let toplevel = self.checkout.repository.toplevel.clone();
        let locks = dates.iter().map(|date| InstalledLock {
            path: date.path.clone(),
            object: date.object.clone(),
        });
        let locks: Vec<InstalledLock> = locks.collect();
        let installed = try_blocking(move || Ok(installed::locks(&toplevel, locks))).await?;
        let brought = Brought { dates, installed };
        let bytes = self.bring(TreeName::Warm, place, &picked, brought).await?;
        let names: Vec<_> = picked.paths.iter().map(|p| p.to_string_lossy()).collect();
        let mut notes = vec![format!(
            "build output of this checkout ({}{}) is the project's first layer from now on",
            names.join(", "),
            bytes.map_or(String::new(), |bytes| format!(": {}", rough_size(bytes))),
        )];
        let toplevel = &self.checkout.repository.toplevel;
        if self.root(origin) != toplevel {
            notes.push(format!(
                "build output often holds absolute paths, and the code is at {} inside, not at {}: \
                 some of it may be made again",
                self.root(origin).display(),
                toplevel.display()
            ));
        }
        Ok(notes)
    }

    /// A snapshot of a cache, if there is none yet.
    async fn cache(
        &self,
        name: &str,
        cache: &Cache,
        origin: &Origin,
    ) -> Result<Option<String>, Fault> {
        let home = DaemonUser::current()?.home()?;
        let inside = cache.path.resolve(self.root(origin), &home);
        let own_home = std::env::var_os("HOME").map_or(home, PathBuf::from);
        let toplevel = &self.checkout.repository.toplevel;
        let here = cache.path.resolve(toplevel, &own_home);
        if !cache.is_outside() && leads_elsewhere(&here, toplevel) {
            let path = here.display();
            return Ok(Some(format!(
                "the cache {name} begins empty: {path} is reached by a link, and what it leads to is \
                 not the project's; name that place in `path` of [caches], which is asked for"
            )));
        }
        let Ok(entries) = fs::read_dir(&here) else {
            // It starts empty, as on a new machine.
            return Ok(None);
        };
        let tree = TreeName::Cache {
            name: name.to_owned(),
            path: inside.to_string_lossy().into_owned(),
        };
        let place = self.begin(&tree).await?;
        if place.is_present {
            return Ok(None);
        }
        let paths = entries.flatten().map(|entry| entry.file_name().into());
        let picked = Picked {
            top: here.clone(),
            step: format!("copying the cache {name}"),
            paths: paths.collect(),
        };
        match self.bring(tree, place, &picked, Brought::default()).await {
            Ok(_) => Ok(None),
            Err(fault) if fault.code == Code::Cancelled => Err(fault),
            // A cache only saves time, so a failure does not stop `up`.
            Err(fault) => Ok(Some(format!("the cache {name} begins empty: {fault}"))),
        }
    }

    /// The path of the code inside.
    fn root<'b>(&'b self, origin: &'b Origin) -> &'b Path {
        let written = origin.config.project.root.as_ref();
        let default = &self.checkout.repository.main_root;
        written.map_or(default, |root| root.as_path())
    }

    async fn begin(&self, tree: &TreeName) -> Result<TreePlace, Fault> {
        self.client.begin_tree(self.project_id, tree).await
    }

    /// Fills or uploads the tree; returns its size, if known.
    async fn bring(
        &self,
        tree: TreeName,
        place: TreePlace,
        picked: &Picked,
        brought: Brought,
    ) -> Result<Option<u64>, Fault> {
        let filled = match &place.directory {
            Some(directory) => self.fill(Path::new(directory), picked).await,
            None => Ok(None),
        };
        let bytes = match filled {
            Ok(bytes) => bytes,
            Err(fault) => {
                self.forget(&place).await;
                return Err(fault);
            }
        };
        let upload = match place.directory {
            Some(_) => None,
            None => {
                let mut included = Included::default();
                picked.paths.iter().for_each(|p| included.add(p.clone()));
                Some(include::upload(self.client, included, picked.top.clone()).await?)
            }
        };
        let brought = TreeBrought {
            tree,
            name: place.name.unwrap_or_default(),
            upload,
            dates: brought.dates,
            installed: brought.installed,
        };
        self.client.finish_tree(self.project_id, &brought).await?;
        Ok(bytes)
    }

    async fn fill(&self, directory: &Path, picked: &Picked) -> Result<Option<u64>, Fault> {
        let (counts, mut counted) = mpsc::unbounded_channel();
        let (cancel, directory) = (self.cancel.clone(), directory.to_owned());
        let (picked, step) = (picked.clone(), &picked.step);
        let copying = try_blocking(move || {
            let mut files = 0;
            let copied = picked.copy_to(&directory, &mut || {
                files += 1;
                if files % REPORT_EVERY == 0 {
                    // The receiver is gone when the client is ending.
                    let _ = counts.send(files);
                }
                if cancel.is_raised() {
                    Err(Errno::INTR)
                } else {
                    Ok(())
                }
            });
            copied.map_err(|error| refused(&picked.top, error))?;
            Ok(disk_usage(&directory).ok())
        });
        tokio::pin!(copying);
        let mut progress = Progress::new(self.context);
        loop {
            tokio::select! {
                Some(files) = counted.recv() => progress.report(step, files, 0),
                copied = &mut copying => return copied,
            }
        }
    }

    /// Removes a tree that will not be used. `gc` finds one of another user.
    async fn forget(&self, place: &TreePlace) {
        let Some(directory) = place.directory.clone() else {
            return;
        };
        let removal = try_blocking(move || {
            let begun = Path::new(&directory).parent().map(remove_tree);
            // `gc` also finds what cannot be removed here.
            drop(begun);
            Ok(())
        });
        let _ = removal.await;
    }
}

// === impl Picked ===

impl Picked {
    fn copy_to(
        &self,
        directory: &Path,
        report: &mut dyn FnMut() -> Result<(), Errno>,
    ) -> io::Result<()> {
        for path in &self.paths {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
                continue;
            };
            fs::create_dir_all(directory.join(parent))?;
            let (from, to) = (
                open(&self.top.join(parent))?,
                open(&directory.join(parent))?,
            );
            let name = name.as_bytes();
            copy_entry(
                (from.as_fd(), name),
                (to.as_fd(), name),
                Source::Living,
                report,
            )?;
        }
        Ok(())
    }
}

/// Whether the path from the checkout to a directory of its own contains a symlink, which a
/// repository can have committed.
fn leads_elsewhere(place: &Path, toplevel: &Path) -> bool {
    let (Ok(resolved), Ok(top)) = (place.canonicalize(), toplevel.canonicalize()) else {
        // It does not exist, so nothing is read.
        return false;
    };
    let below = place.strip_prefix(toplevel);
    below.map_or(true, |below| resolved != top.join(below))
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?)
}

fn refused(path: &Path, error: io::Error) -> Fault {
    let path = path.display();
    if error.kind() == io::ErrorKind::Interrupted {
        let message = format!("copying of {path} was cancelled");
        return Fault::new(Code::Cancelled, message, "type the command again");
    }
    let code = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Code::DiskFull,
        _ => Code::PathNotFound,
    };
    Fault::new(
        code,
        format!("cannot copy what is in {path}"),
        "make room or make it readable, then type the command again",
    )
    .because(error)
}
