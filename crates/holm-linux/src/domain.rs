//! The Landlock domains of programs. Called by [`super::spawn`].
//!
//! The purpose is that two programs are in two domains: the kernel allows ptrace only into the same
//! or a nested domain. The rules themselves forbid nothing except reading secret files of other
//! receivers.

use holm_keeper::guest::{SECRET_FILES, secret_directory};
use holm_keeper::wire::Domain;
use landlock::{
    AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr,
};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The kernel opens a queue through its own mount, not through the path below /dev.
const QUEUES: &str = "/dev/mqueue";

/// The rules for the program; `None`: it stays in init's domain.
pub fn rules(domain: Domain) -> io::Result<Option<OwnedFd>> {
    match domain {
        Domain::Shared => Ok(None),
        Domain::Own => made(nothing_lost(BitFlags::EMPTY)?),
        Domain::OwnReading(names) => {
            let mut rules = nothing_lost(AccessFs::ReadFile.into())?;
            let secrets = Path::new(SECRET_FILES);
            let its = names
                .iter()
                .map(|name| secrets.join(secret_directory(name)));
            for place in all_but(secrets)?.into_iter().chain(its) {
                // A file that was removed since the listing needs no rule.
                let Ok(place) = PathFd::new(place) else {
                    continue;
                };
                let readable = PathBeneath::new(place, AccessFs::ReadFile);
                rules = rules.add_rule(readable).map_err(io::Error::other)?;
            }
            made(rules)
        }
    }
}

/// Rules that forbid only what programs inside cannot do anyway, and what is named. Every domain
/// forbids moving files between directories unless it allows that explicitly.
fn nothing_lost(also: BitFlags<AccessFs>) -> io::Result<RulesetCreated> {
    let root = PathFd::new("/").map_err(io::Error::other)?;
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::Refer | AccessFs::MakeBlock | also)
        .and_then(Ruleset::create)
        .and_then(|rules| rules.add_rule(PathBeneath::new(root, AccessFs::Refer)))
        .map_err(io::Error::other)
}

/// Everything except the way to one directory. Landlock has no exceptions, so all other paths are
/// listed.
fn all_but(hidden: &Path) -> io::Result<Vec<PathBuf>> {
    let mut places = vec![PathBuf::from(QUEUES)];
    for on_the_way in hidden.ancestors().skip(1) {
        for entry in fs::read_dir(on_the_way)? {
            let path = entry?.path();
            if !hidden.starts_with(&path) {
                places.push(path);
            }
        }
    }
    Ok(places)
}

fn made(rules: RulesetCreated) -> io::Result<Option<OwnedFd>> {
    let rules: Option<OwnedFd> = rules.into();
    let missing = || io::Error::other("this kernel has no Landlock");
    rules.ok_or_else(missing).map(Some)
}
