//! Rust projects: a package with one program that depends on a web framework becomes a service.

use super::directory::Directory;
use super::document::Document;
use super::proposal::{Part, Service};
use super::source::address_port;

/// Web frameworks, with their default ports.
const FRAMEWORKS: [(&str, Option<u16>); 9] = [
    ("axum", None),
    ("actix-web", None),
    ("rocket", Some(8000)),
    ("warp", None),
    ("poem", None),
    ("salvo", None),
    ("tide", None),
    ("loco-rs", Some(5150)),
    ("tonic", None),
];

/// Whether the cargo workspace in the root has this directory as a member.
pub fn is_member(directory: Directory<'_>) -> bool {
    let root = directory.to_root().document("Cargo.toml");
    let members = root.and_then(|root| root.at(&["workspace", "members"]));
    members.is_some_and(|members| {
        let mut members = members.texts().into_iter();
        members.any(|member| member.split('/').next() == Some(directory.at()))
    })
}

pub fn look(directory: Directory<'_>) -> Option<Part> {
    let manifest = directory.document("Cargo.toml")?;
    let mut part = Part::new("Rust", directory.path("Cargo.toml"));
    if directory.has("Cargo.lock") {
        part.install(directory, &["cargo fetch --locked"], "Cargo.lock");
    }
    let members = manifest.at(&["workspace", "members"]).map(Document::texts);
    if let Some(members) = members {
        part.remarks.push(format!(
            "{} is a workspace of {}; which program to run was not decided",
            directory.path("Cargo.toml"),
            members.join(", ")
        ));
    }
    let Some(package) = manifest.at(&["package", "name"]).and_then(Document::text) else {
        return Some(part);
    };
    let declared = manifest.get("bin").map_or(&[][..], Document::items);
    let has_main = directory.has("src/main.rs");
    let programs = declared.len().max(usize::from(has_main));
    if programs == 0 {
        return Some(part);
    }
    let framework = FRAMEWORKS
        .iter()
        .find(|(name, _)| manifest.at(&["dependencies", name]).is_some());
    let file = directory.path("Cargo.toml");
    let text = directory.text("src/main.rs").unwrap_or_default();
    let main = directory.path("src/main.rs");
    let written = address_port(text).map(|port| (port, format!("written in {main}")));
    let mut service = Service {
        name: package.to_owned(),
        run: directory.run("cargo run"),
        port: written,
        ..Service::default()
    };
    match framework {
        Some((framework, default)) if programs == 1 => {
            let default = default.map(|port| (port, format!("{framework}'s default")));
            service.name = directory.service_name();
            service.port = service.port.or(default);
            service.reason = format!("{file}: one program, with {framework}");
            part.programs.push(service);
        }
        Some(_) => {
            service.reason = format!("{file}: it has several programs");
            part.suggestions.push(service);
        }
        None => {
            service.reason = format!("{file}: nothing shows that it is a server");
            part.suggestions.push(service);
        }
    }
    Some(part)
}
