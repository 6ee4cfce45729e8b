//! Rust projects: a package with one program that depends on a web framework becomes a service.

use super::database_url::Kind;
use super::directory::{Directory, quoted};
use super::dockerfile::Dockerfile;
use super::document::Document;
use super::go::COMPILES;
use super::needs::{self, Need, of_dependencies};
use super::proposal::{Part, Service};
use super::sample::{Sample, with_samples};
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
        let first = directory.at().split('/').next();
        members.any(|member| member.split('/').next() == first)
    })
}

pub fn look(directory: Directory<'_>) -> Option<Part> {
    let manifest = directory.document("Cargo.toml")?;
    let mut part = Part::of("Rust", directory, "Cargo.toml");
    if directory.has("Cargo.lock") {
        part.install(directory, &["cargo fetch --locked"], "Cargo.lock");
    }
    let members = members(directory, manifest);
    let mut programs: Vec<(Service, Option<&str>)> = Vec::new();
    programs.extend(program(directory, directory, &mut part));
    for member in &members {
        programs.extend(program(directory, *member, &mut part));
    }
    let servers = programs
        .iter()
        .filter(|(_, framework)| framework.is_some())
        .count();
    let has_package = manifest.get("package").is_some();
    for (mut service, framework) in programs {
        match (framework, servers) {
            (Some(framework), 1) => {
                service.reason += &format!(": one program, with {framework}");
                part.programs.push(service);
            }
            // The tools of a workspace with a server are not listed.
            (None, 1..) => {}
            (Some(_), _) => {
                service.reason += ": one of several servers; take what a workspace should run";
                part.suggestions.push(service);
            }
            (None, _) if has_package => {
                service.reason += ": nothing shows that it is a server";
                part.suggestions.push(service);
            }
            (None, _) => {}
        }
    }
    let listed = manifest.at(&["workspace", "members"]).map(Document::texts);
    if let (Some(listed), true) = (listed, part.programs.is_empty()) {
        part.remarks.push(format!(
            "{} is a workspace of {}; which program to run was not decided",
            directory.path("Cargo.toml"),
            listed.join(", ")
        ));
    }
    with_samples(&mut part.needs, directory);
    Some(part)
}

/// The packages of a cargo workspace that are listed.
fn members<'a>(directory: Directory<'a>, manifest: &Document) -> Vec<Directory<'a>> {
    let listed = manifest.at(&["workspace", "members"]).map(Document::texts);
    let listed = listed.unwrap_or_default().into_iter();
    let members = listed.flat_map(|member| match member.strip_suffix("/*") {
        Some(parent) => {
            let parent = directory.below(parent);
            parent
                .into_iter()
                .flat_map(Directory::directories)
                .collect()
        }
        None => directory.below(&member).into_iter().collect::<Vec<_>>(),
    });
    members.filter(|member| member.has("Cargo.toml")).collect()
}

/// The program of a package, if it has exactly one, and the web framework that it uses. Databases that the
/// package uses become needs of the part.
fn program(
    root: Directory<'_>,
    package: Directory<'_>,
    part: &mut Part,
) -> Option<(Service, Option<&'static str>)> {
    let manifest = package.document("Cargo.toml")?;
    let name = manifest.at(&["package", "name"]).and_then(Document::text)?;
    let file = package.path("Cargo.toml");
    let dependencies = manifest
        .get("dependencies")
        .map_or(&[][..], Document::entries);
    let names = dependencies.iter().map(|(name, _)| name.as_str());
    let by_feature = dependencies.iter().flat_map(|(name, dependency)| {
        let features = dependency
            .get("features")
            .map(Document::texts)
            .unwrap_or_default();
        let is_orm = ["sqlx", "diesel", "diesel-async", "sea-orm"].contains(&name.as_str());
        let features = features.into_iter().filter(move |_| is_orm);
        features.filter_map(|feature| Kind::named(feature.trim_start_matches("sqlx-")))
    });
    for need in of_dependencies(names, &file) {
        needs::add(&mut part.needs, need);
    }
    for kind in by_feature {
        needs::add(&mut part.needs, Need::new(kind, file.clone()));
    }
    if dependencies.iter().any(|(name, _)| name == "redis") {
        needs::add(
            &mut part.needs,
            Need::new(Kind::Redis, format!("{file}: redis")),
        );
    }
    let declared = manifest.get("bin").map_or(&[][..], Document::items);
    let programs = declared.len().max(usize::from(package.has("src/main.rs")));
    if programs == 0 {
        return None;
    }
    let framework = FRAMEWORKS
        .iter()
        .find(|(name, _)| manifest.at(&["dependencies", name]).is_some());
    let framework = framework.filter(|_| programs == 1);
    let default =
        framework.and_then(|(name, port)| Some((*port.as_ref()?, format!("{name}'s default"))));
    let shown = |it: (u16, String)| (it.0, format!("written in {}", it.1));
    let text = package.text("src/main.rs").unwrap_or_default();
    let written = address_port(text).map(|port| (port, package.path("src/main.rs")));
    let sample = Sample::of(root).and_then(|it| Some((it.port()?, it.file)));
    let image = Dockerfile::of(root).and_then(|it| Some((it.port?, it.file)));
    let others = sample.or(image).filter(|_| framework.is_some());
    let is_root = package.at() == root.at();
    let run = if is_root {
        "cargo run".to_owned()
    } else {
        format!("cargo run -p {}", quoted(name))
    };
    let service = Service {
        name: if framework.is_some() && is_root {
            root.service_name()
        } else {
            name.to_owned()
        },
        at: root.at().to_owned(),
        run: root.run(&run),
        port: written.map(shown).or(default).or(others.map(shown)),
        timeout: Some(COMPILES),
        reason: file,
        ..Service::default()
    };
    Some((service, framework.map(|(name, _)| *name)))
}
