//! `develop.watch` of a Compose file: which files of the tree a service follows.

use super::{Work, steps};
use crate::compose::{Service as FromFile, Watch as FromFileWatch};
use crate::config::{OnAssign, Pattern};
use crate::container::{AfterChange, Mount, Source, Watch};
use std::path::{Path, PathBuf};

/// The service that follows files.
struct Follower<'a> {
    name: &'a str,
    service: &'a FromFile,
    mounts: &'a [Mount],
}

// === impl Work ===

impl Work<'_> {
    pub fn watches(&mut self, name: &str, service: &FromFile, mounts: &[Mount]) -> Vec<Watch> {
        let follower = Follower {
            name,
            service,
            mounts,
        };
        let develop = service.develop.iter();
        let rules = develop.flat_map(|develop| &develop.watch);
        let watches = rules.filter_map(|rule| self.watch(&follower, rule));
        watches.collect()
    }

    fn watch(&mut self, follower: &Follower<'_>, rule: &FromFileWatch) -> Option<Watch> {
        const KEY: &str = "develop.watch";
        let Follower {
            name,
            service,
            mounts,
        } = *follower;
        let path = &rule.path;
        let Some(below) = plain(path) else {
            let words =
                format!("names {path:?}, which is not below the project's root: not watched");
            self.warn(name, KEY, &words);
            return None;
        };
        let copies = rule.action.starts_with("sync");
        if copies && rule.target.is_none() {
            let words = format!("`services.{name}.{KEY}` needs `target` for {path:?}");
            self.errors.push(words);
        }
        let exec = rule.exec.as_ref().map(steps::hook);
        let then = match (rule.action.as_str(), exec) {
            ("restart" | "sync+restart", _) => AfterChange::Restart,
            ("sync+exec", Some(hook)) if !hook.command.is_empty() => AfterChange::Run(hook),
            ("sync+exec", _) => {
                let words = format!("`services.{name}.{KEY}` needs `exec.command` for {path:?}");
                self.errors.push(words);
                return None;
            }
            ("rebuild", _) => AfterChange::Outdated,
            _ => AfterChange::Nothing,
        };
        let target = rule.target.as_ref().map(PathBuf::from);
        let target = target.filter(|target| copies && !is_mounted(mounts, &below, target));
        if target.is_none() && then == AfterChange::Nothing {
            let words = format!("copies nothing of {path:?}: its files are mounted there");
            self.warn(name, KEY, &words);
            return None;
        }
        let context = service.build.as_ref().and_then(|it| plain(&it.context));
        let context = context.filter(|context| below.starts_with(context));
        let is_context = context.is_some();
        // A file that is replaced is seen in its directory.
        let base = context.unwrap_or_else(|| below.parent().map(PathBuf::from).unwrap_or_default());
        let relative = below.strip_prefix(&base).map(PathBuf::from);
        Some(Watch {
            path: relative.unwrap_or_default(),
            base,
            is_context,
            target,
            is_initial: rule.initial_sync,
            ignore: rule.ignore.clone(),
            include: rule.include.clone(),
            then,
        })
    }
}

/// What a service does when the workspace moves: a commit with other files of its image makes another image.
pub fn on_assign(service: &FromFile, watches: &[Watch]) -> (OnAssign, Vec<Pattern>) {
    let outdated = watches.iter().filter(|it| it.then == AfterChange::Outdated);
    let paths: Vec<PathBuf> = outdated.map(|it| it.base.join(&it.path)).collect();
    if service.build.is_none() || paths.is_empty() {
        return (OnAssign::default(), Vec::new());
    }
    if paths.iter().any(|path| path.as_os_str().is_empty()) {
        return (OnAssign::Rebuild, Vec::new());
    }
    let texts = paths.iter().map(|path| path.display().to_string());
    let texts = texts.flat_map(|path| [format!("{path}/**"), path]);
    let patterns = texts.filter_map(|text| Pattern::parse(&text).ok());
    (OnAssign::Rebuild, patterns.collect())
}

/// A path below the root, without the `.` that stands for it.
fn plain(path: &str) -> Option<PathBuf> {
    let is_outside = path.starts_with(['/', '~']) || path == ".." || path.starts_with("../");
    let path = if path == "." { "" } else { path };
    (!is_outside).then(|| PathBuf::from(path))
}

/// Whether the service sees the path of the tree at the target anyway.
fn is_mounted(mounts: &[Mount], path: &Path, target: &Path) -> bool {
    mounts.iter().any(|mount| match &mount.source {
        Source::Tree { path: tree, .. } => {
            let below = target.strip_prefix(&mount.target);
            below.is_ok_and(|below| tree.join(below) == path)
        }
        _ => false,
    })
}
