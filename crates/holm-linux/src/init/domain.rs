//! The Landlock domains that programs are started in. Called by [`super::spawn`].
//!
//! What counts is that two programs are in two domains: the kernel lets nobody trace into a domain
//! that does not begin in its own. The rules themselves take away nothing that a program has, but
//! for the files of secrets where these are not its own.

use crate::launch::{SECRET_FILES, secret_directory};
use crate::wire::Domain;
use landlock::{
    AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr,
};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The kernel opens a queue by a mount of its own, not by the path below /dev.
const QUEUES: &str = "/dev/mqueue";

/// What is to be put on the program; `None`: it stays where init is.
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
                // What went away since it was listed needs no rule.
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

/// Rules that forbid only what nobody inside can do anyway, and what is named. Moving files between
/// directories is forbidden by every domain that does not allow it.
fn nothing_lost(also: BitFlags<AccessFs>) -> io::Result<RulesetCreated> {
    let root = PathFd::new("/").map_err(io::Error::other)?;
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::Refer | AccessFs::MakeBlock | also)
        .and_then(Ruleset::create)
        .and_then(|rules| rules.add_rule(PathBeneath::new(root, AccessFs::Refer)))
        .map_err(io::Error::other)
}

/// Everything beside the way to one directory. The kernel knows no exceptions to a rule, so all
/// others are named.
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
