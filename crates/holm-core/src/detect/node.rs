//! Node projects: `package.json`, its scripts, the package manager that its lock file shows, and
//! npm, yarn or pnpm workspaces.

use super::command::{default_port, words, written_port};
use super::directory::{Directory, quoted};
use super::document::Document;
use super::proposal::{Part, Program, Suggestion};
use super::source::{script_port, vite_port};

const MANIFEST: &str = "package.json";

/// Scripts that start a project for development, best first.
const SCRIPTS: [&str; 5] = ["dev", "develop", "start:dev", "serve", "start"];

/// How many scripts that call scripts are followed.
const DEEPEST: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Manager {
    Npm,
    Pnpm,
    Yarn,
    Bun,
}

const LOCKS: [(&str, Manager); 6] = [
    ("package-lock.json", Manager::Npm),
    ("npm-shrinkwrap.json", Manager::Npm),
    ("pnpm-lock.yaml", Manager::Pnpm),
    ("yarn.lock", Manager::Yarn),
    ("bun.lock", Manager::Bun),
    ("bun.lockb", Manager::Bun),
];

pub fn look(directory: Directory<'_>) -> Option<Part> {
    let manifest = directory.document(MANIFEST)?;
    let mut part = Part::new("Node", directory.path(MANIFEST));
    let manager = manager(directory, manifest, &mut part);
    set_up(directory, manifest, manager, &mut part);
    let members = members(directory, manifest);
    match script(manifest) {
        Some((name, text)) => {
            let run = directory.run(&manager.run(name));
            part.programs
                .push(program(directory, manifest, name, text, run));
        }
        None if members.is_empty() => {
            part.remarks.push(format!(
                "{} has no script that starts it ({})",
                directory.path(MANIFEST),
                SCRIPTS.join(", ")
            ));
        }
        None => member_programs(&members, manager, &mut part),
    }
    if !members.is_empty() {
        let names: Vec<_> = members.iter().map(|member| member.at()).collect();
        part.remarks.push(format!(
            "{} has workspaces: {}",
            directory.path(MANIFEST),
            names.join(", ")
        ));
    }
    Some(part)
}

/// Whether the project in the root has this directory as one of its workspaces.
pub fn is_member(directory: Directory<'_>) -> bool {
    let root = directory.to_root();
    let Some(manifest) = root.document(MANIFEST) else {
        return false;
    };
    let members = members(root, manifest);
    members
        .iter()
        .any(|member| member.at().starts_with(directory.at()))
}

/// `packageManager` decides, else the lock file.
fn manager(directory: Directory<'_>, manifest: &Document, part: &mut Part) -> Manager {
    let declared = manifest.get("packageManager").and_then(Document::text);
    let declared = match declared.and_then(|text| text.split('@').next()) {
        Some("npm") => Some(Manager::Npm),
        Some("pnpm") => Some(Manager::Pnpm),
        Some("yarn") => Some(Manager::Yarn),
        Some("bun") => Some(Manager::Bun),
        _ => None,
    };
    let locks: Vec<_> = LOCKS
        .iter()
        .filter(|(lock, _)| directory.has(lock))
        .collect();
    let first = locks.first().map(|(_, manager)| *manager);
    let is_mixed = locks.iter().any(|(_, manager)| Some(*manager) != first);
    if is_mixed && declared.is_none() {
        let names: Vec<_> = locks.iter().map(|(lock, _)| *lock).collect();
        part.remarks.push(format!(
            "{} are lock files of different package managers; the first was taken",
            names.join(", ")
        ));
    }
    declared.or(first).unwrap_or(Manager::Npm)
}

fn set_up(directory: Directory<'_>, manifest: &Document, manager: Manager, part: &mut Part) {
    let lock = LOCKS
        .iter()
        .find(|(lock, of)| *of == manager && directory.has(lock))
        .map(|(lock, _)| *lock);
    let needs = ["dependencies", "devDependencies", "workspaces"];
    let has_dependencies = needs.iter().any(|key| manifest.get(key).is_some());
    let install = match (manager, lock) {
        (_, None) if !has_dependencies => return,
        (Manager::Npm, Some(_)) => "npm ci",
        (Manager::Npm, None) => "npm install",
        (Manager::Pnpm, Some(_)) => "pnpm install --frozen-lockfile",
        (Manager::Pnpm, None) => "pnpm install",
        (Manager::Yarn, Some(_)) if directory.has(".yarnrc.yml") => "yarn install --immutable",
        (Manager::Yarn, Some(_)) => "yarn install --frozen-lockfile",
        (Manager::Yarn, None) => "yarn install",
        (Manager::Bun, Some(_)) => "bun install --frozen-lockfile",
        (Manager::Bun, None) => "bun install",
    };
    let reason = directory.path(lock.unwrap_or(MANIFEST));
    part.set_up(directory.run(install), reason);
    if !directory.is_root() {
        part.setup_inputs.push(directory.path(MANIFEST));
        part.setup_inputs
            .extend(lock.map(|lock| directory.path(lock)));
    }
}

/// The script that starts the project, with its text.
fn script(manifest: &Document) -> Option<(&'static str, &str)> {
    SCRIPTS.iter().find_map(|name| {
        let text = manifest.at(&["scripts", name])?.text()?;
        (!text.trim().is_empty()).then_some((*name, text))
    })
}

fn program(
    directory: Directory<'_>,
    manifest: &Document,
    name: &str,
    text: &str,
    run: String,
) -> Program {
    let file = directory.path(MANIFEST);
    let followed = follow(manifest, text);
    Program {
        name: if directory.is_root() {
            "web".to_owned()
        } else {
            directory.name().to_owned()
        },
        run,
        port: port(directory, followed, &file),
        reason: format!("{file}: \"{name}\": \"{text}\""),
        ..Program::default()
    }
}

/// Follows `npm run other` while that is all a script does.
fn follow<'a>(manifest: &'a Document, text: &'a str) -> &'a str {
    let mut text = text;
    for _ in 0..DEEPEST {
        let words = words(text);
        let other = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["npm" | "pnpm" | "yarn" | "bun", "run", other] => other,
            ["pnpm" | "yarn", other] => other,
            _ => return text,
        };
        match manifest.at(&["scripts", other]).and_then(Document::text) {
            Some(next) => text = next,
            None => return text,
        }
    }
    text
}

fn port(directory: Directory<'_>, script: &str, file: &str) -> Option<(u16, String)> {
    if let Some(number) = written_port(script) {
        return Some((number, format!("written in {file}")));
    }
    let endings = ["js", "ts", "mjs", "mts"].map(|ending| format!("vite.config.{ending}"));
    let configs = endings.iter();
    match default_port(script) {
        Some(("vite", default)) => {
            let written = configs
                .filter_map(|name| Some((vite_port(directory.text(name)?)?, name)))
                .map(|(number, name)| (number, format!("written in {}", directory.path(name))));
            let mut written = written.chain([(default, "vite's default".to_owned())]);
            written.next()
        }
        Some((tool, default)) => Some((default, format!("{tool}'s default"))),
        // A program of the project itself: its source may contain the port.
        None => words(script).iter().find_map(|word| {
            let name = word.strip_prefix("./").unwrap_or(word);
            let number = script_port(directory.text(name)?)?;
            Some((number, format!("written in {}", directory.path(name))))
        }),
    }
}

/// The directories of npm, yarn or pnpm workspaces that have a manifest.
fn members<'a>(directory: Directory<'a>, manifest: &Document) -> Vec<Directory<'a>> {
    let own = manifest.get("workspaces");
    let own = own.and_then(|own| own.get("packages")).or(own);
    let of_pnpm = directory
        .document("pnpm-workspace.yaml")
        .and_then(|document| document.get("packages"));
    let mut members: Vec<Directory<'a>> = Vec::new();
    for pattern in own.into_iter().chain(of_pnpm).flat_map(Document::texts) {
        let pattern = pattern.trim_start_matches("./").trim_end_matches('/');
        let parent = pattern.strip_suffix("/**").or(pattern.strip_suffix("/*"));
        match parent {
            Some(parent) => {
                let parent = directory.below(parent);
                members.extend(parent.into_iter().flat_map(Directory::directories));
            }
            None => members.extend(directory.below(pattern)),
        }
    }
    members.retain(|member| member.has(MANIFEST));
    members.sort_by_key(Directory::at);
    members.dedup_by_key(|member| member.at());
    members
}

/// Without a script in the root: the only member that can be started, or all as suggestions.
fn member_programs(members: &[Directory<'_>], manager: Manager, part: &mut Part) {
    let mut programs = Vec::new();
    for member in members {
        let Some(manifest) = member.document(MANIFEST) else {
            continue;
        };
        let Some((name, text)) = script(manifest) else {
            continue;
        };
        let run = format!("cd {} && {}", quoted(member.at()), manager.run(name));
        programs.push(program(*member, manifest, name, text, run));
    }
    if programs.len() == 1 {
        part.programs.append(&mut programs);
        return;
    }
    let suggestions = programs.into_iter().map(|program| Suggestion {
        name: super::proposal::valid_name(&program.name),
        run: Some(program.run),
        port: program.port.map(|(number, _)| number),
        reason: format!("{}; take what a workspace should run", program.reason),
        ..Suggestion::default()
    });
    part.suggestions.extend(suggestions);
}

// === impl Manager ===

impl Manager {
    fn run(self, script: &str) -> String {
        match (self, script) {
            (Manager::Npm, "start") => "npm start".to_owned(),
            (Manager::Npm, script) => format!("npm run {script}"),
            (Manager::Pnpm, script) => format!("pnpm run {script}"),
            (Manager::Yarn, script) => format!("yarn run {script}"),
            (Manager::Bun, script) => format!("bun run {script}"),
        }
    }
}
