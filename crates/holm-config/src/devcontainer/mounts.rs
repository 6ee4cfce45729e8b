//! `mounts` and `workspaceMount`: parts of the tree, volumes of the workspace, memory, and paths of the host.

use super::source::Source as File;
use crate::compose::tree::Node;
use crate::shape::short;
use holm_core::container::{Mount, Source};
use holm_core::dev_container::ID;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// A mount as it is written, with the words of the engine's command line.
#[derive(Default)]
struct Written {
    kind: String,
    source: Option<String>,
    target: Option<String>,
    read_only: bool,
}

/// What one entry mounts. `None`: an error says why.
pub fn mount(file: &mut File<'_>, key: &str, node: &Node) -> Option<Mount> {
    let written = match written(node) {
        Ok(written) => written,
        Err(what) => {
            file.error(node.at, format!("`{key}` {what}"));
            return None;
        }
    };
    let target = written.target.filter(|target| {
        let path = Path::new(target);
        path.is_absolute() && is_plain(path) && path != Path::new("/")
    });
    let Some(target) = target else {
        let what = format!("`{key}` needs a `target` that is an absolute path below `/`");
        file.error(node.at, what);
        return None;
    };
    let source = match (written.kind.as_str(), written.source) {
        ("bind", Some(source)) => bound(file, key, node, &source, &target)?,
        ("bind", None) => {
            file.error(node.at, format!("`{key}` binds no `source`"));
            return None;
        }
        ("volume", Some(name)) => Source::Volume {
            name: name.replace(ID, ""),
            subpath: None,
            no_copy: false,
        },
        ("volume", None) => Source::Image,
        ("tmpfs", _) => Source::Memory { size: None },
        (other, _) => {
            let other = short(other);
            let what = format!("`{key}` has the type `{other}`; known are bind, volume and tmpfs");
            file.error(node.at, what);
            return None;
        }
    };
    Some(Mount {
        source,
        target: PathBuf::from(target),
        read_only: written.read_only,
    })
}

/// A path of the tree, or one of the host, which is a request.
fn bound(
    file: &mut File<'_>,
    key: &str,
    node: &Node,
    source: &str,
    target: &str,
) -> Option<Source> {
    let root = PathBuf::from(&file.files.root);
    let path = match source.strip_prefix("~/") {
        Some(rest) => Path::new(&file.files.home).join(rest),
        None => root.join(source),
    };
    let path = without_dots(&path);
    if let Ok(below) = path.strip_prefix(&root) {
        return Some(Source::Tree {
            path: below.to_owned(),
            create: true,
        });
    }
    if source.contains('\0') {
        file.error(node.at, format!("`{key}` has a NUL character"));
        return None;
    }
    let is_socket = source.ends_with(".sock");
    let note = if is_socket {
        ", a socket that may control the host"
    } else {
        ""
    };
    let words = format!(
        "mounts `{}` of the host at {}{note}",
        short(&path.display().to_string()),
        short(target)
    );
    let value = format!("{} {target}", path.display());
    file.ask_for(node.at, key, &words, value);
    Some(Source::Host(path))
}

fn written(node: &Node) -> Result<Written, String> {
    let mut pairs = BTreeMap::new();
    match node.written() {
        Some(text) => {
            for part in text.split(',').filter(|part| !part.is_empty()) {
                let (name, value) = part.split_once('=').unwrap_or((part, "true"));
                pairs.insert(name.to_owned(), value.to_owned());
            }
        }
        None => {
            for entry in node.entries() {
                pairs.extend(entry.node.written().map(|it| (entry.key.clone(), it)));
            }
        }
    }
    let mut written = Written::default();
    for (name, value) in pairs {
        match name.as_str() {
            "type" => written.kind = value,
            "source" | "src" => written.source = Some(value).filter(|it| !it.is_empty()),
            "target" | "dst" | "destination" => written.target = Some(value),
            "readonly" | "ro" => written.read_only = value == "true" || value == "1",
            // For engines with a machine of their own.
            "consistency" | "external" | "bind-propagation" => {}
            other => return Err(format!("has the unknown option `{}`", short(other))),
        }
    }
    if written.kind.is_empty() {
        written.kind = "volume".to_owned();
    }
    Ok(written)
}

fn is_plain(path: &Path) -> bool {
    let mut parts = path.components();
    parts.all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}

fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}
