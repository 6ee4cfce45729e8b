//! Layers on disk: `projects/<id>/layers/<key>/{tree,home,log,layer.json}`, the ignored files of the
//! tree, and home. A layer is assembled in `.building-<workspace>` and renamed when it is complete.

use crate::Layout;
use holm_core::layer::{InstalledLock, Layer, LayerKey};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The prefix of a layer that is being assembled.
pub const BUILDING: &str = ".building-";

/// The prefix of the log of a failed setup.
pub const FAILED: &str = "failed-";

/// The prefix of a tree that a client provides.
pub const BRINGING: &str = ".bringing-";

/// The file with the metadata of a layer.
pub const NOTE: &str = "layer.json";

/// Metadata of a layer.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Note {
    pub commands: Vec<String>,
    /// Paths that the setup created and that git does not ignore; the layer does not contain them.
    pub left_out: Vec<String>,
    /// Lock files of a checkout whose packages are all in the layer.
    #[serde(default)]
    pub installed: Vec<InstalledLock>,
}

/// What is known of a layer, if it is there.
pub fn look(layout: &Layout, key: &LayerKey) -> Option<Layer> {
    let directory = directory(layout, key);
    if !directory.is_dir() {
        return None;
    }
    // Layers that a client of an earlier release brought have no note.
    let note = fs::read(directory.join(NOTE)).ok();
    let note = note.and_then(|text| serde_json::from_slice::<Note>(&text).ok());
    let Note {
        left_out,
        installed,
        ..
    } = note.unwrap_or_default();
    Some(Layer {
        left_out,
        installed,
    })
}

pub fn directory(layout: &Layout, layer: &LayerKey) -> PathBuf {
    let project = layout.data_dir.join("projects").join(&layer.project);
    project.join("layers").join(&layer.key)
}

/// Renames an assembled layer to its final name, after everything is on disk.
pub fn name_it(building: &Path, target: &Path) -> io::Result<()> {
    let layers = target.parent().unwrap_or(target);
    rustix::fs::syncfs(File::open(building)?)?;
    fs::rename(building, target)?;
    File::open(layers)?.sync_all()?;
    // From an earlier attempt.
    let _ = fs::remove_file(failed_log(target));
    Ok(())
}

/// The log of a failed attempt to build a layer.
pub fn failed_log(target: &Path) -> PathBuf {
    let key = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!("{FAILED}{key}.log"))
}
