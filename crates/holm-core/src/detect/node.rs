//! Node projects: `package.json`, its scripts, the package manager that its lock file shows, and
//! npm, yarn or pnpm workspaces.

use super::command::{default_port, words, written_port};
use super::directory::{Directory, quoted};
use super::dockerfile::Dockerfile;
use super::document::Document;
use super::needs::{self, of_dependencies};
use super::orm;
use super::proposal::{Part, Service};
use super::sample::{Sample, with_samples};
use super::source::{port_variable_default, reads_port, script_port, vite_port};
use crate::address::default_host;

const MANIFEST: &str = "package.json";

/// Scripts that start a project for development, best first.
const SCRIPTS: [&str; 5] = ["dev", "develop", "start:dev", "serve", "start"];

/// How many scripts that call scripts are followed.
const DEEPEST: usize = 4;

/// Programs that start the scripts of several packages at once.
const STARTERS: [&str; 7] = [
    "turbo",
    "nx",
    "lerna",
    "concurrently",
    "npm-run-all",
    "run-p",
    "wireit",
];

/// Options with which a package manager does the same.
const STARTER_OPTIONS: [&str; 7] = [
    "-r",
    "--recursive",
    "--parallel",
    "--filter",
    "-F",
    "--workspaces",
    "-ws",
];

/// Programs that run a source file.
const RUNTIMES: [&str; 11] = [
    "nx",
    "node",
    "nodemon",
    "tsx",
    "ts-node",
    "ts-node-dev",
    "tsnd",
    "tsup",
    "bun",
    "swc-node",
    "babel-node",
];

/// Sources of a program, where its script does not name one.
const ENTRIES: [&str; 12] = [
    "src/index.ts",
    "src/server.ts",
    "src/main.ts",
    "src/app.ts",
    "src/index.js",
    "src/server.js",
    "src/app.js",
    "server.js",
    "index.js",
    "app.js",
    "server.ts",
    "bin/www",
];
const SETTINGS: [&str; 6] = [
    "src/config.ts",
    "src/env.ts",
    "src/config.js",
    "config.js",
    "src/config/index.ts",
    "config/index.js",
];

/// A package manager.
struct Manager {
    name: &'static str,
    locks: &'static [&'static str],
    /// Installs exactly what the lock file says.
    frozen: &'static str,
    /// Runs a program of a dependency.
    execute: &'static str,
}

const MANAGERS: [Manager; 4] = [
    Manager {
        name: "npm",
        locks: &["package-lock.json", "npm-shrinkwrap.json"],
        frozen: "npm ci",
        execute: "npx",
    },
    Manager {
        name: "pnpm",
        locks: &["pnpm-lock.yaml"],
        frozen: "pnpm install --frozen-lockfile",
        execute: "pnpm exec",
    },
    Manager {
        name: "yarn",
        locks: &["yarn.lock"],
        frozen: "yarn install --frozen-lockfile",
        execute: "yarn",
    },
    Manager {
        name: "bun",
        locks: &["bun.lock", "bun.lockb"],
        frozen: "bun install --frozen-lockfile",
        execute: "bunx",
    },
];

pub fn look(directory: Directory<'_>) -> Option<Part> {
    let manifest = directory.document(MANIFEST)?;
    let mut part = Part::of("Node", directory, MANIFEST);
    let root = directory.to_root();
    let owner = root
        .document(MANIFEST)
        .filter(|_| !directory.is_root() && is_member(directory));
    // The root installs the packages of its workspaces.
    let manager = match owner {
        Some(owner) => manager(root, owner, &mut Part::default()),
        None => manager(directory, manifest, &mut part),
    };
    if owner.is_none() {
        set_up(directory, manifest, manager, &mut part);
    }
    let members = members(directory, manifest);
    let script = script(manifest);
    let starts_members = script.is_none_or(|(_, text)| starts_others(manifest, text));
    if starts_members && !members.is_empty() {
        member_programs(&members, manager, script, &mut part);
    }
    match script {
        Some(script) if part.programs.is_empty() => {
            let run = directory.run(&manager.run(script.0));
            part.programs.extend(program(directory, script, run));
            part.suggestions.clear();
        }
        None if members.is_empty() => {
            part.remarks.push(format!(
                "{} has no script that starts it ({})",
                directory.path(MANIFEST),
                SCRIPTS.join(", ")
            ));
        }
        _ => {}
    }
    if !members.is_empty() {
        let names: Vec<_> = members.iter().map(|member| member.at()).collect();
        part.remarks.push(format!(
            "{} has workspaces: {}",
            directory.path(MANIFEST),
            names.join(", ")
        ));
    }
    for package in members.into_iter().chain([directory]) {
        look_for_databases(package, manager, &mut part);
    }
    with_samples(&mut part.needs, directory);
    Some(part)
}

/// The databases that a package uses, and how they are migrated.
fn look_for_databases(package: Directory<'_>, manager: &Manager, part: &mut Part) {
    let Some(manifest) = package.document(MANIFEST) else {
        return;
    };
    let lists = ["dependencies", "devDependencies"].map(|key| manifest.get(key));
    let names = || {
        let entries = lists.iter().flatten().flat_map(|list| list.entries());
        entries.map(|(name, _)| name.as_str())
    };
    let found = std::mem::take(&mut part.needs);
    for need in of_dependencies(names(), &package.path(MANIFEST)) {
        needs::add(&mut part.needs, need);
    }
    let has_script = |name: &str| manifest.at(&["scripts", name]).is_some();
    let scripts = ["db:migrate", "migrate", "migration:run", "db:push"];
    let tools = orm::Tools {
        execute: manager.execute,
        script: scripts
            .into_iter()
            .find(|name| has_script(name))
            .map(|name| manager.run(name)),
    };
    orm::look(package, &names().collect::<Vec<_>>(), &tools, part);
    for mut need in std::mem::replace(&mut part.needs, found) {
        need.users = vec![package.at().to_owned()];
        needs::add(&mut part.needs, need);
    }
}

/// Whether a script only starts scripts of other packages.
fn starts_others(manifest: &Document, text: &str) -> bool {
    let words = words(follow(manifest, text));
    words
        .iter()
        .any(|word| STARTERS.contains(&word.as_str()) || STARTER_OPTIONS.contains(&word.as_str()))
        || words.starts_with(&["yarn".to_owned(), "workspaces".to_owned()])
}

/// Whether the project in the root has this directory as one of its workspaces.
pub fn is_member(directory: Directory<'_>) -> bool {
    let root = directory.to_root();
    let Some(manifest) = root.document(MANIFEST) else {
        return false;
    };
    let members = members(root, manifest);
    members.iter().any(|member| {
        let rest = member.at().strip_prefix(directory.at());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
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
    if lock.is_some() {
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
    let manifest = directory.document(MANIFEST)?;
    let mut service = Service {
        name: directory.service_name(),
        at: directory.at().to_owned(),
        run,
        reason: format!("{file}: \"{name}\": \"{text}\""),
        ..Service::default()
    };
    let followed = follow(manifest, text);
    // `concurrently "npm run server" "npm run client"`: the first that shows a port.
    let started = words(followed).into_iter().filter_map(|word| {
        let name = word
            .rsplit([' ', ':'])
            .next()
            .unwrap_or_default()
            .to_owned();
        manifest.at(&["scripts", &name])?.text()
    });
    let mut scripts = std::iter::once(followed).chain(started.filter(|other| *other != text));
    let found = scripts.find_map(|script| {
        let script = follow(manifest, script);
        Some((script, port(directory, script, &file)?))
    });
    match found {
        Some((script, port)) => {
            service.checks_host = default_host(script, port.0).is_some();
            service.port = Some(port);
        }
        None => add_port_variable(directory, &mut service),
    }
    Some(service)
}

/// A program that reads `PORT` and has no default gets the port that other files show.
fn add_port_variable(directory: Directory<'_>, service: &mut Service) {
    let sample = Sample::of(directory).and_then(|it| Some((it.port()?, it.file)));
    let image = || Dockerfile::of(directory).and_then(|it| Some((it.port?, it.file)));
    let Some((port, file)) = sample.or_else(image) else {
        return;
    };
    let sources = ENTRIES.iter().chain(&SETTINGS);
    let mut texts = sources.filter_map(|name| directory.text(name));
    if texts.any(reads_port) {
        service.env.push(("PORT".to_owned(), port.to_string()));
    }
    service.port = Some((port, format!("written in {file}")));
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
        None => {
            let words = words(script);
            let named = words
                .iter()
                .map(|word| word.strip_prefix("./").unwrap_or(word));
            let main = directory
                .document(MANIFEST)
                .and_then(|it| it.get("main")?.text());
            let is_program = words.iter().any(|word| RUNTIMES.contains(&word.as_str()));
            let others = main.into_iter().chain(ENTRIES).filter(|_| is_program);
            let found = named.chain(others).find_map(|name| {
                let number = script_port(directory.text(name)?)?;
                Some((number, format!("written in {}", directory.path(name))))
            });
            let settings = SETTINGS.iter().filter(|_| is_program);
            let mut settings = settings.filter_map(|name| {
                let number = port_variable_default(directory.text(name)?)?;
                Some((number, format!("written in {}", directory.path(name))))
            });
            found.or_else(|| settings.next())
        }
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

/// The members that can be started: each with a port of its own is a service, others are suggestions.
fn member_programs(
    members: &[Directory<'_>],
    manager: &Manager,
    root: Option<(&str, &str)>,
    part: &mut Part,
) {
    let by_turbo = root.filter(|(_, text)| words(text).iter().any(|word| word == "turbo"));
    let programs = members.iter().filter_map(|member| {
        let manifest = member.document(MANIFEST)?;
        let script = script(manifest)?;
        let package = manifest.get("name").and_then(Document::text);
        let run = match (by_turbo, package) {
            // turbo first builds the packages that this one uses.
            (Some((root, _)), Some(package)) if script.0 == root => {
                let execute = manager.execute;
                format!("{execute} turbo run {root} --filter={}", quoted(package))
            }
            _ => format!("cd {} && {}", quoted(member.at()), manager.run(script.0)),
        };
        program(*member, script, run)
    });
    let mut programs: Vec<Service> = programs.collect();
    if programs.len() == 1 {
        part.programs.append(&mut programs);
        return;
    }
    for mut program in programs {
        let port = program.port.as_ref().map(|(port, _)| *port);
        let has_port = |it: &&Service| it.port.as_ref().map(|(port, _)| *port) == port;
        let rival = part.programs.iter().find(has_port);
        match (port, rival) {
            (None, _) => {
                program.reason += "; nothing shows a port; take it if a workspace should run it";
                part.suggestions.push(program);
            }
            (Some(port), Some(rival)) => {
                program.reason += &format!("; {} has port {port}: choose another", rival.name);
                part.suggestions.push(program);
            }
            (Some(_), None) => part.programs.push(program),
        }
    }
    if let (Some((name, text)), false) = (root, part.programs.is_empty()) {
        let file = &part.sign.file;
        let remark =
            format!("{file}: \"{name}\": \"{text}\" starts them together; here each is a service");
        part.remarks.push(remark);
    }
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
