//! Node projects: `package.json`, its scripts, the package manager that its lock file shows, and
//! npm, yarn or pnpm workspaces.

use super::command::{default_port, words, written_port};
use super::directory::{Directory, quoted};
use super::document::Document;
use super::proposal::{Part, Service};
use super::source::{script_port, vite_port};

const MANIFEST: &str = "package.json";

/// Scripts that start a project for development, best first.
const SCRIPTS: [&str; 5] = ["dev", "develop", "start:dev", "serve", "start"];

/// How many scripts that call scripts are followed.
const DEEPEST: usize = 4;

/// A package manager.
struct Manager {
    name: &'static str,
    locks: &'static [&'static str],
    /// Installs exactly what the lock file says.
    frozen: &'static str,
}

const MANAGERS: [Manager; 4] = [
    Manager {
        name: "npm",
        locks: &["package-lock.json", "npm-shrinkwrap.json"],
        frozen: "npm ci",
    },
    Manager {
        name: "pnpm",
        locks: &["pnpm-lock.yaml"],
        frozen: "pnpm install --frozen-lockfile",
    },
    Manager {
        name: "yarn",
        locks: &["yarn.lock"],
        frozen: "yarn install --frozen-lockfile",
    },
    Manager {
        name: "bun",
        locks: &["bun.lock", "bun.lockb"],
        frozen: "bun install --frozen-lockfile",
    },
];

pub fn look(directory: Directory<'_>) -> Option<Part> {
    let manifest = directory.document(MANIFEST)?;
    let mut part = Part::new("Node", directory.path(MANIFEST));
    let manager = manager(directory, manifest, &mut part);
    set_up(directory, manifest, manager, &mut part);
    let members = members(directory, manifest);
    match script(manifest) {
        Some(script) => {
            let run = directory.run(&manager.run(script.0));
            part.programs.extend(program(directory, script, run));
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
fn manager(directory: Directory<'_>, manifest: &Document, part: &mut Part) -> &'static Manager {
    let declared = manifest.get("packageManager").and_then(Document::text);
    let declared = declared.and_then(|text| text.split('@').next());
    let declared = MANAGERS.iter().find(|it| Some(it.name) == declared);
    let has_lock = |it: &&Manager| directory.first(it.locks).is_some();
    let locked: Vec<&Manager> = MANAGERS.iter().filter(has_lock).collect();
    if locked.len() > 1 && declared.is_none() {
        let locks = locked.iter().flat_map(|it| it.locks);
        let locks: Vec<&str> = locks.copied().filter(|lock| directory.has(lock)).collect();
        part.remarks.push(format!(
            "{} are lock files of different package managers; the first was taken",
            locks.join(", ")
        ));
    }
    let first = locked.first().copied();
    declared.or(first).unwrap_or(&MANAGERS[0])
}

fn set_up(directory: Directory<'_>, manifest: &Document, manager: &Manager, part: &mut Part) {
    let lock = directory.first(manager.locks);
    let needs = ["dependencies", "devDependencies", "workspaces"];
    let has_dependencies = needs.iter().any(|key| manifest.get(key).is_some());
    let plain = format!("{} install", manager.name);
    let install = match lock {
        None if !has_dependencies => return,
        None => &plain,
        Some("yarn.lock") if directory.has(".yarnrc.yml") => "yarn install --immutable",
        Some(_) => manager.frozen,
    };
    if lock.is_some() && !directory.is_root() {
        part.setup_inputs.push(directory.path(MANIFEST));
    }
    part.install(directory, &[install], lock.unwrap_or(MANIFEST));
}

/// The script that starts the project, with its text.
fn script(manifest: &Document) -> Option<(&'static str, &str)> {
    SCRIPTS.iter().find_map(|name| {
        let text = manifest.at(&["scripts", name])?.text()?;
        (!text.trim().is_empty()).then_some((*name, text))
    })
}

/// The service that a script of a manifest starts with the command `run`.
fn program(directory: Directory<'_>, script: (&str, &str), run: String) -> Option<Service> {
    let (name, text) = script;
    let file = directory.path(MANIFEST);
    let followed = follow(directory.document(MANIFEST)?, text);
    Some(Service {
        name: directory.service_name(),
        run,
        port: port(directory, followed, &file),
        reason: format!("{file}: \"{name}\": \"{text}\""),
        ..Service::default()
    })
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
fn member_programs(members: &[Directory<'_>], manager: &Manager, part: &mut Part) {
    let programs = members.iter().filter_map(|member| {
        let script = script(member.document(MANIFEST)?)?;
        let run = format!("cd {} && {}", quoted(member.at()), manager.run(script.0));
        program(*member, script, run)
    });
    let mut programs: Vec<Service> = programs.collect();
    if programs.len() == 1 {
        part.programs.append(&mut programs);
        return;
    }
    for program in &mut programs {
        program.reason += "; take what a workspace should run";
    }
    part.suggestions.append(&mut programs);
}

// === impl Manager ===

impl Manager {
    fn run(&self, script: &str) -> String {
        match (self.name, script) {
            ("npm", "start") => "npm start".to_owned(),
            (name, script) => format!("{name} run {script}"),
        }
    }
}
