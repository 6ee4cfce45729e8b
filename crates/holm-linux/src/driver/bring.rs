//! Layers that a client provides: build output of the user's checkout, and snapshots of caches.
//!
//! A client of the same user fills a directory of the daemon itself, with reflinks where possible;
//! any other client sends an archive. One rename makes it a layer.

use super::{disk_fault, layer, remove_tree};
use crate::Layout;
use holm_core::layer::FileDate;
use holm_core::spec::WorkspaceSpec;
use holm_core::{Code, Fault};
use holm_engine::storage::BroughtTree;
use holm_keeper::files::unpack::unpack;
use std::fs::{self, File};
use std::io;

/// The file of modification times: `object seconds nanoseconds path`, each ended by a zero byte.
const DATES: &str = "dates";

/// Creates an empty directory for a tree.
pub fn keep(layout: &Layout, brought: &BroughtTree) -> Result<(), Fault> {
    let BroughtTree {
        layer,
        directory: bringing,
        archive,
        dates,
        installed,
    } = brought;
    let note = layer::Note {
        installed: installed.clone(),
        ..layer::Note::default()
    };
    let tree = bringing.join("tree");
    let target = layer::directory(layout, layer);
    let keep = || {
        if let Some(archive) = archive {
            unpack(archive, &tree)?;
        }
        // A layer never contains a repository.
        remove_tree(&tree.join(".git"))?;
        fs::write(bringing.join(DATES), written(dates))?;
        fs::write(bringing.join(layer::NOTE), serde_json::to_vec(&note)?)?;
        rustix::fs::syncfs(File::open(bringing)?)?;
        fs::create_dir_all(target.parent().unwrap_or(&layout.data_dir))?;
        match fs::rename(bringing, &target) {
            Err(_) if target.is_dir() => remove_tree(bringing),
            renamed => renamed,
        }
    };
    keep().map_err(|error: io::Error| {
        // It is unused now; if removal fails, the next collection finds it.
        let _ = remove_tree(bringing);
        let message = "cannot keep what was brought";
        match error.kind() {
            io::ErrorKind::InvalidData => {
                Fault::new(Code::Refused, message, "leave it out").because(error)
            }
            _ => disk_fault(error, "cannot keep what was brought".to_owned()),
        }
    })
}

/// The modification times of the checkout's files, if a client sent them.
pub fn dates(layout: &Layout, spec: &WorkspaceSpec) -> Vec<FileDate> {
    let Some(warm) = &spec.layers.warm else {
        return Vec::new();
    };
    let file = layer::directory(layout, &spec.layer(warm)).join(DATES);
    // Without them builds only take longer.
    let text = fs::read_to_string(file).unwrap_or_default();
    text.split('\0').filter_map(read).collect()
}

fn written(dates: &[FileDate]) -> String {
    let entries = dates.iter().map(|date| {
        let FileDate {
            path,
            object,
            seconds,
            nanoseconds,
        } = date;
        format!("{object} {seconds} {nanoseconds} {path}\0")
    });
    entries.collect()
}

fn read(entry: &str) -> Option<FileDate> {
    let mut parts = entry.splitn(4, ' ');
    Some(FileDate {
        object: parts.next()?.to_owned(),
        seconds: parts.next()?.parse().ok()?,
        nanoseconds: parts.next()?.parse().ok()?,
        path: parts.next()?.to_owned(),
    })
}
