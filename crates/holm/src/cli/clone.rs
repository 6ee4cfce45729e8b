//! Repositories named by URL: `up --url`, `project add URL`, and requests of programs.
//!
//! A repository is cloned once, below the first source folder, and every spelling of its URL means
//! the same clone ([`CloneUrl::identity`]). Concurrent requests wait for the first one's clone.
//! Later requests fetch first, so that no workspace starts from an outdated state.

use super::progress::Progress;
use super::user_checkout::Checkout;
use super::{Context, settings};
use holm_api::client::Client;
use holm_config::daemon_user::DaemonUser;
use holm_core::clone_url::{CloneFrom, CloneUrl};
use holm_core::egress::closed;
use holm_core::{Code, Fault};
use holm_engine::try_blocking;
use holm_git::{Cancel, Dial};
use holm_server::helper::place::{Places, not_made, taken};
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A requested repository.
#[derive(Clone, Debug)]
pub struct CloneRequest {
    pub url: CloneUrl,
    /// The name of a new directory; default: the last part of the URL.
    pub name: Option<String>,
    pub from: CloneFrom,
}

/// A clone.
pub struct ByUrl {
    pub checkout: Checkout,
    pub is_new: bool,
}

/// Locks a URL that is being cloned: a locked directory beside the clones, in which the clone is
/// made. The next process removes what a killed one left in it.
struct Claim {
    path: PathBuf,
    _lock: OwnedFd,
}

/// How often a waiting request checks the lock.
const LOOK: Duration = Duration::from_millis(25);

/// More repositories with one name than this are a mistake.
const MOST_NUMBERS: u32 = 1000;

/// A longer configuration file is not read.
const LARGEST_CONFIG: u64 = 1 << 20;

/// Finds or makes the clone of a URL. An existing one stays as it is.
pub async fn find(
    context: &Context,
    asked: &CloneRequest,
    cancel: &Cancel,
) -> Result<ByUrl, Fault> {
    let source_dirs = DaemonUser::current()?.settings()?.source_dirs;
    let (wish, cancel) = (asked.clone(), cancel.clone());
    let cloning = try_blocking(move || wish.find_or_clone(&source_dirs, &cancel));
    let (place, is_new) = with_step(context, &format!("cloning {}", asked.url), cloning).await?;
    let checkout = Checkout::at(place).await?;
    if checkout.repository.url.is_none() {
        let url = asked.url.clone();
        checkout
            .git(move |repository| repository.set_url(&url))
            .await?;
    }
    Ok(ByUrl { checkout, is_new })
}

/// Fetches in a repository that was named by URL. Returns the branch of the remote's HEAD; `None`
/// for any other repository, which is not touched.
pub async fn refresh(
    context: &Context,
    client: &Client,
    checkout: &Checkout,
    cancel: &Cancel,
) -> Result<Option<String>, Fault> {
    let repository = &checkout.repository;
    let (Some(_), Some(url)) = (&repository.url, repository.origin()) else {
        return Ok(None);
    };
    settings::settle(context, client, checkout).await?;
    let cancel = cancel.clone();
    let step = format!("fetching from {url}");
    let fetching =
        checkout.git(move |repository| repository.fetch_origin(&url, &Dial::Free, &cancel));
    with_step(context, &step, fetching).await
}

/// Resolves a name in a repository that was named by URL: a branch of the remote, or whatever the
/// repository itself knows.
pub async fn resolve_name(checkout: &Checkout, name: &str) -> Result<String, Fault> {
    if checkout.repository.url.is_none() {
        return Ok(name.to_owned());
    }
    let wanted = name.to_owned();
    let branch = checkout
        .git(move |repository| repository.remote_branch(&wanted))
        .await?;
    Ok(branch.unwrap_or_else(|| name.to_owned()))
}

async fn with_step<T>(
    context: &Context,
    step: &str,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let mut progress = Progress::new(context);
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(Duration::from_millis(250)) => progress.report(step, 0, 0),
        }
    }
}

// === impl CloneRequest ===

impl CloneRequest {
    fn find_or_clone(
        &self,
        source_dirs: &[PathBuf],
        cancel: &Cancel,
    ) -> Result<(PathBuf, bool), Fault> {
        let name = self
            .name
            .clone()
            .unwrap_or_else(|| directory_name(self.url.name()));
        let wanted = Places::new_place(source_dirs, &name)?;
        if let Some(place) = self.existing(source_dirs) {
            return Ok((place, false));
        }
        let folder = wanted.parent().unwrap_or(&wanted);
        fs::create_dir_all(folder).map_err(|error| not_made(folder, error))?;
        let claim = Claim::take(folder, &self.url, cancel)?;
        // Another request may have cloned it while this one waited.
        if let Some(place) = self.existing(source_dirs) {
            return Ok((place, false));
        }
        if self.name.is_some() && wanted.symlink_metadata().is_ok() {
            return Err(taken(&wanted));
        }
        let begun = claim.path.join("clone");
        holm_git::clone(&self.url, &begun, &self.dial()?, cancel)?;
        let place = self.put(&begun, &wanted)?;
        Ok((place, true))
    }

    /// A directory in the source folders whose `origin` is this URL.
    fn existing(&self, source_dirs: &[PathBuf]) -> Option<PathBuf> {
        let identity = self.url.identity();
        let folders = source_dirs
            .iter()
            .filter_map(|folder| fs::read_dir(folder).ok());
        let mut places: Vec<_> = folders
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        places.sort();
        places.into_iter().find(|place| {
            let config = place.join(".git/config");
            let is_likely = fs::metadata(&config).is_ok_and(|found| found.len() < LARGEST_CONFIG)
                && fs::read_to_string(&config).is_ok_and(|text| text.contains(self.url.name()));
            // An unreadable repository is not taken for the clone.
            let origin = || holm_git::origin_of(place).ok().flatten();
            is_likely && origin().is_some_and(|origin| origin.identity() == identity)
        })
    }

    /// Moves a complete clone to the first free name: `shop`, `shop-2`, …
    fn put(&self, begun: &Path, wanted: &Path) -> Result<PathBuf, Fault> {
        for number in 1..=MOST_NUMBERS {
            let mut place = wanted.as_os_str().to_owned();
            if number > 1 {
                place.push(format!("-{number}"));
            }
            let place = PathBuf::from(place);
            match rustix::fs::renameat_with(CWD, begun, CWD, &place, RenameFlags::NOREPLACE) {
                Ok(()) => return Ok(place),
                Err(Errno::EXIST | Errno::NOTEMPTY) if self.name.is_none() => {}
                Err(Errno::EXIST | Errno::NOTEMPTY) => break,
                Err(errno) => return Err(not_made(&place, errno.into())),
            }
        }
        Err(taken(wanted))
    }

    /// The addresses that git may connect to.
    fn dial(&self) -> Result<Dial, Fault> {
        if self.from == CloneFrom::Anywhere {
            return Ok(Dial::Free);
        }
        let (host, port) = (self.url.host(), self.url.port());
        let addresses: Vec<IpAddr> = (host, port)
            .to_socket_addrs()
            .map_err(|error| {
                let message = format!("git cannot read {}: no address of {host}", self.url);
                Fault::new(Code::RemoteFailed, message, "is the host spelled right?").because(error)
            })?
            .map(|address| address.ip())
            .collect();
        match addresses.iter().find_map(|address| not_elsewhere(*address)) {
            None => Ok(Dial::Only(addresses)),
            Some(what) => Err(Fault::new(
                Code::Refused,
                format!(
                    "{} is not cloned for a program with a token: {host} is {what}",
                    self.url
                ),
                format!("type it yourself once: `holm project add {}`", self.url),
            )),
        }
    }
}

/// The kind of an address on this machine or a link-local service. Private networks are allowed:
/// companies have their servers there.
fn not_elsewhere(address: IpAddr) -> Option<&'static str> {
    let open = ["a private network", "a provider's network"];
    match closed(address) {
        Some(what) if !open.contains(&what) => Some(what),
        // Only an address of this machine can be bound.
        _ => UdpSocket::bind((address, 0))
            .is_ok()
            .then_some("this machine"),
    }
}

/// A repository's name as a directory name.
fn directory_name(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = name
        .chars()
        .map(|c| if is_plain(c) { c } else { '-' })
        .collect();
    let name = name.trim_start_matches(['.', '-']);
    if name.is_empty() {
        "repository".to_owned()
    } else {
        name.chars().take(80).collect()
    }
}

// === impl Claim ===

impl Claim {
    fn take(folder: &Path, url: &CloneUrl, cancel: &Cancel) -> Result<Self, Fault> {
        let digest = Sha256::digest(url.identity());
        let digest: String = digest
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let path = folder.join(format!(".holm-clone-{digest}"));
        let failed = |error: io::Error| not_made(folder, error);
        loop {
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(failed(error));
                }
                _ => {}
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let lock = match rustix::fs::open(&path, flags, Mode::empty()) {
                // Its holder has just finished.
                Err(Errno::NOENT) => continue,
                opened => opened.map_err(|errno| failed(errno.into()))?,
            };
            wait_for(&lock, cancel).map_err(failed)?;
            if cancel.is_raised() {
                return Err(holm_git::GitError::Cancelled.into());
            }
            let is_same = |here: rustix::fs::Stat| {
                rustix::fs::fstat(&lock)
                    .is_ok_and(|held| (held.st_dev, held.st_ino) == (here.st_dev, here.st_ino))
            };
            if rustix::fs::statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_same) {
                let claim = Self { path, _lock: lock };
                claim.empty().map_err(failed)?;
                return Ok(claim);
            }
        }
    }

    /// Removes what a killed process left.
    fn empty(&self) -> io::Result<()> {
        match fs::remove_dir_all(self.path.join("clone")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // The next process removes what stays.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Waits for the lock, or until the user cancels.
fn wait_for(lock: &OwnedFd, cancel: &Cancel) -> io::Result<()> {
    loop {
        match rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if !cancel.is_raised() => std::thread::sleep(LOOK),
            Err(Errno::WOULDBLOCK) => return Ok(()),
            Err(Errno::INTR) => {}
            done => return done.map_err(io::Error::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_named_after_repositories() {
        let check = |name: &str, expect: &str| assert_eq!(directory_name(name), expect);
        check("shop", "shop");
        check("my.shop_2", "my.shop_2");
        check("a%20b", "a-20b");
        check("..x", "x");
        check("-x", "x");
        check("ü", "repository");
    }

    #[test]
    fn programs_with_tokens_clone_from_other_machines_only() {
        let check = |address: &str, is_closed: bool| {
            let found = not_elsewhere(address.parse().unwrap());
            assert_eq!(found.is_some(), is_closed, "{address}: {found:?}");
        };
        for closed in [
            "127.0.0.1",
            "127.8.8.8",
            "::1",
            "::ffff:127.0.0.1",
            "0.0.0.0",
            "::",
        ] {
            check(closed, true);
        }
        for closed in ["169.254.169.254", "fe80::1", "100.100.100.200", "224.0.0.1"] {
            check(closed, true);
        }
        for open in ["192.0.2.1", "10.11.12.13", "2001:db8::1", "192.168.77.7"] {
            check(open, false);
        }
    }

    #[test]
    fn a_claim_holds_others_off_until_it_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let url = CloneUrl::parse("https://example.org/x").unwrap();
        let free = Cancel::default();
        let claim = Claim::take(folder.path(), &url, &free).unwrap();
        let path = claim.path.clone();
        fs::create_dir(path.join("clone")).unwrap();
        let given_up = Cancel::default();
        given_up.raise();
        assert!(Claim::take(folder.path(), &url, &given_up).is_err());
        let waiting = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| Claim::take(folder.path(), &url, &free).unwrap());
            drop(claim);
            waiting.join().unwrap()
        });
        assert!(waiting.path.exists());
        drop(waiting);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        // What a killed process left does not block, and is removed.
        fs::create_dir_all(path.join("clone/half")).unwrap();
        let claim = Claim::take(folder.path(), &url, &free).unwrap();
        assert!(!claim.path.join("clone").exists());
    }
}
