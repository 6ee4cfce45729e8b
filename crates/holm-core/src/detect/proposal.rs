//! A proposed `holm.toml` as values, and how its parts are combined: valid unique names, no port
//! conflicts, no dependency on a missing service.

use super::command::{is_operator, words};
use super::database_url::Access;
use super::directory::Directory;
use super::needs::{Migration, Need};
use crate::config::{Name, SETUP_RECEIVER, Variable};
use crate::layer::is_input;
use std::collections::BTreeSet;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proposal {
    pub looks_like: Vec<Sign>,
    pub compose: Option<Composed>,
    pub container: Option<Contained>,
    pub setup: Vec<Step>,
    /// Empty: the default, which covers all files with known names.
    pub setup_inputs: Vec<String>,
    /// Ignored files that programs read; written as a comment, because `include` needs approval.
    pub include: Vec<String>,
    pub services: Vec<Service>,
    /// Uncertain services, written as comments with the reason.
    pub suggestions: Vec<Service>,
    /// Other findings that are not written as settings.
    pub remarks: Vec<String>,
}

/// The Dev Container of `[project] devcontainer`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contained {
    pub file: String,
    /// The Compose files that it names itself.
    pub compose: Vec<String>,
    /// What it asks of the host, each with its place.
    pub requests: Vec<String>,
    /// Why `holm up` refuses it, each with its place. Unless this is empty, the line is a comment.
    pub errors: Vec<String>,
    /// The Compose file that the proposal names in its place: only one of both can be used.
    pub instead: Option<String>,
}

/// The Compose file of `[project] compose`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Composed {
    pub file: String,
    /// Names in a workspace.
    pub services: Vec<String>,
    /// The ports that they publish, with their names.
    pub(super) ports: Vec<(u16, String)>,
    /// The services that are databases.
    pub(super) databases: Vec<(String, Access)>,
    /// Volumes that each workspace forks, each with the database that fills it.
    pub(super) forked: Vec<(String, String)>,
    /// Services whose build needs a network, each with the reason.
    pub(super) downloads: Vec<(String, String)>,
    /// Files that git ignores and without which it cannot be read.
    pub included: Vec<String>,
    /// What it asks of the host, each with its place.
    pub requests: Vec<String>,
    /// Why `holm up` refuses it, each with its place. Unless this is empty, the line is a comment.
    pub errors: Vec<String>,
}

/// A kind of project, and the file that shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sign {
    pub kind: &'static str,
    pub file: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub command: String,
    pub reason: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Detectors give the preferred name; the proposal has a valid and free one.
    pub name: String,
    /// Empty: no file says what to run.
    pub run: String,
    /// With the reason.
    pub port: Option<(u16, String)>,
    /// The script behind `run` starts a server that rejects every `Host` but localhost; holm cannot see that in `run`.
    pub(super) checks_host: bool,
    /// The directory that it belongs to, empty for the root.
    pub(super) at: String,
    /// How long it may take to be ready, if that is longer than usual.
    pub timeout: Option<&'static str>,
    /// The program that must be installed, where `run` does not begin with it.
    pub program: Option<&'static str>,
    /// How clients reach a database.
    pub(super) access: Option<Access>,
    /// The text in its log that shows that it is ready; `None`: its port shows that.
    pub ready_log: Option<&'static str>,
    pub depends_on: Vec<String>,
    pub env: Vec<(String, String)>,
    /// It has a volume of its own, and keeps running when the workspace moves to another commit.
    pub is_database: bool,
    pub reason: String,
    /// Comment lines above it.
    pub remarks: Vec<String>,
}

/// The findings of one detector in one directory.
#[derive(Default)]
pub struct Part {
    pub sign: Sign,
    pub setup: Vec<Step>,
    pub setup_inputs: Vec<String>,
    pub programs: Vec<Service>,
    pub suggestions: Vec<Service>,
    pub remarks: Vec<String>,
    pub needs: Vec<Need>,
    pub migration: Option<Migration>,
    /// Variables that all of its programs need.
    pub env: Vec<(String, String)>,
}

// === impl Part ===

impl Part {
    pub fn new(kind: &'static str, file: impl Into<String>) -> Self {
        let file = file.into();
        Self {
            sign: Sign { kind, file },
            ..Self::default()
        }
    }

    /// The findings of a directory.
    pub fn of(kind: &'static str, directory: Directory<'_>, file: &str) -> Self {
        Self::new(kind, directory.path(file))
    }

    /// Adds a command that runs in the directory before its programs start.
    pub fn migrate(&mut self, directory: Directory<'_>, command: String, reason: String) {
        self.migration.get_or_insert(Migration {
            command: directory.run(&command),
            at: directory.at().to_owned(),
            reason,
        });
    }

    /// Adds commands that install what `file` of the directory names.
    pub fn install(&mut self, directory: Directory<'_>, commands: &[&str], file: &str) {
        self.setup.extend(commands.iter().map(|command| Step {
            command: directory.run(command),
            reason: directory.path(file),
        }));
        self.setup_inputs.push(directory.path(file));
    }

    /// Without its programs, which something else starts.
    pub fn installed(self) -> Self {
        Self {
            programs: Vec::new(),
            suggestions: Vec::new(),
            remarks: Vec::new(),
            ..self
        }
    }

    pub fn has_no_start(&mut self, file: &str) {
        let remark = format!("{file} does not say how the program is started");
        self.remarks.push(remark);
    }
}

// === impl Proposal ===

impl Proposal {
    /// A one-line summary for a note; `None` when nothing was found.
    pub fn in_one_line(&self) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        let kinds: Vec<String> = self
            .looks_like
            .iter()
            .map(|sign| format!("{} ({})", sign.kind, sign.file))
            .collect();
        let setup = self.setup.iter().map(|step| format!("`{}`", step.command));
        let setup: Vec<String> = setup.collect();
        let services: Vec<&str> = self.services.iter().map(|it| it.name.as_str()).collect();
        let composed: Vec<&str> = self.composed_names().collect();
        let parts = [
            ("Compose services", composed.join(", ")),
            ("set-up", setup.join(", ")),
            ("services", services.join(", ")),
        ];
        let parts = parts.iter().filter(|(_, what)| !what.is_empty());
        let parts: Vec<String> = parts.map(|(noun, what)| format!("{noun} {what}")).collect();
        let what = if parts.is_empty() {
            "suggestions".to_owned()
        } else {
            parts.join("; ")
        };
        let kinds = kinds.join(", ");
        Some(format!(
            "looks like {kinds}; `holm init` would write a holm.toml with {what}"
        ))
    }

    /// What was found, in a few words: `Node, Postgres, 2 ports`; `None` when nothing was.
    pub fn in_short(&self) -> Option<String> {
        let mut parts: Vec<String> = Vec::new();
        let kinds = self.looks_like.iter().map(|sign| sign.kind);
        let composed = self.compose.iter().flat_map(|it| &it.databases);
        let databases = self.services.iter().filter_map(|it| it.access.as_ref());
        let databases = composed.map(|(_, access)| access).chain(databases);
        for name in kinds.chain(databases.map(|access| access.kind.title())) {
            if !parts.iter().any(|part| part == name) {
                parts.push(name.to_owned());
            }
        }
        let programs = self.services.iter().filter(|it| !it.is_database);
        match programs.filter(|it| it.port.is_some()).count() {
            0 => {}
            1 => parts.push("1 port".to_owned()),
            ports => parts.push(format!("{ports} ports")),
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// The programs that its commands start, each with what needs it. Programs of the project itself
    /// are not among them.
    pub fn programs(&self) -> Vec<(String, String)> {
        let mut found: Vec<(String, String)> = Vec::new();
        let setup = self
            .setup
            .iter()
            .map(|step| (step.command.as_str(), None, "set-up"));
        let services = self.services.iter();
        let services = services.map(|it| (it.run.as_str(), it.program, it.name.as_str()));
        for (command, own, user) in setup.chain(services) {
            let programs = match own {
                Some(program) => vec![program.to_owned()],
                None => programs(command),
            };
            for program in programs {
                if !found.iter().any(|(known, _)| *known == program) {
                    found.push((program, user.to_owned()));
                }
            }
        }
        found
    }

    pub fn is_empty(&self) -> bool {
        let has_services = !self.services.is_empty() || !self.suggestions.is_empty();
        self.setup.is_empty() && !has_services && self.compose.is_none() && self.container.is_none()
    }

    /// Takes everything of a part except its services.
    pub(super) fn take(&mut self, part: &mut Part) {
        self.looks_like.push(part.sign.clone());
        self.setup.append(&mut part.setup);
        self.setup_inputs.append(&mut part.setup_inputs);
        self.remarks.append(&mut part.remarks);
    }

    pub(super) fn add_program(&mut self, mut program: Service) {
        let wish = match (program.name.as_str(), program.at.as_str()) {
            // Two directories may have the same name: `apps/web` and `web`.
            (name, at) if self.is_taken(name) && at.contains('/') => valid_name(at),
            (name, _) => name.to_owned(),
        };
        program.name = self.free_name(&wish);
        // Names of variables come from files of the repository.
        program
            .env
            .retain(|(name, _)| Variable::parse(name).is_ok());
        let remark = match &program.port {
            Some((number, _)) => self
                .owner(*number)
                .map(|owner| format!("Its port {number} is the one of {owner}, too.")),
            None if AUXILIARY.contains(&program.name.as_str()) => None,
            None => {
                Some("Nothing says on which port it listens; one in [ports] gets a URL.".into())
            }
        };
        if let Some(remark) = remark {
            program.remarks.push(remark);
            program.port = None;
        }
        self.services.push(program);
    }

    /// A second database on the same port cannot run beside the first one.
    pub(super) fn add_database(&mut self, database: Service) {
        let taken = database.port.as_ref().and_then(|(number, _)| {
            let owner = self.owner(*number)?;
            Some(format!("{owner} has port {number}: choose another"))
        });
        match taken {
            None => self.services.push(database),
            Some(taken) => self.suggestions.push(Service {
                name: database.name,
                run: database.run,
                reason: format!("{}; {taken}", database.reason),
                ..Service::default()
            }),
        }
    }

    /// Removes dependencies on missing services and cycles, gives suggestions valid names, and sorts
    /// the services for reading.
    pub(super) fn settle(&mut self) {
        let mut ready: BTreeSet<String> = self.composed_names().map(str::to_owned).collect();
        let names = self.services.iter().map(|it| it.name.clone());
        let names: BTreeSet<String> = names.chain(ready.clone()).collect();
        for service in &mut self.services {
            let mut seen = BTreeSet::new();
            service
                .depends_on
                .retain(|other| names.contains(other) && seen.insert(other.clone()));
        }
        while let Some(next) = self.services.iter().position(|service| {
            !ready.contains(&service.name) && service.depends_on.iter().all(|it| ready.contains(it))
        }) {
            ready.insert(self.services[next].name.clone());
        }
        for service in &mut self.services {
            if !ready.contains(&service.name) {
                service.depends_on.retain(|other| ready.contains(other));
                service
                    .remarks
                    .push("It waits for itself in a circle, which was cut.".to_owned());
            }
        }
        if self.setup_inputs.iter().all(|path| is_input(path, None)) {
            self.setup_inputs.clear();
        }
        // The project's own programs come first.
        self.services.sort_by_key(|service| service.is_database);
        for suggestion in &mut self.suggestions {
            suggestion.name = valid_name(&suggestion.name);
        }
    }

    pub(super) fn owner(&self, number: u16) -> Option<&str> {
        let services = self.services.iter();
        let ports = services.filter_map(|it| Some((it.port.as_ref()?.0, &it.name)));
        let composed = self.compose.iter().flat_map(|it| &it.ports);
        let mut ports = ports.chain(composed.map(|(port, name)| (*port, name)));
        ports
            .find(|(port, _)| *port == number)
            .map(|(_, name)| name.as_str())
    }

    pub(super) fn is_taken(&self, name: &str) -> bool {
        let mut names = self.services.iter().map(|service| service.name.as_str());
        names.any(|other| other == name) || self.composed_names().any(|other| other == name)
    }

    /// The services of the Compose file.
    fn composed_names(&self) -> impl Iterator<Item = &str> {
        let services = self.compose.iter().flat_map(|it| &it.services);
        services.map(String::as_str)
    }

    fn free_name(&self, wish: &str) -> String {
        let name = valid_name(wish);
        if !self.is_taken(&name) {
            return name;
        }
        let numbered = (2..).map(|number| {
            let room = LONGEST_NAME - 1 - format!("{number}").len();
            let stem = name.get(..room).unwrap_or(&name).trim_end_matches('-');
            format!("{stem}-{number}")
        });
        let mut numbered = numbered.filter(|name| !self.is_taken(name));
        numbered.next().unwrap_or(name)
    }
}

const LONGEST_NAME: usize = 40;

/// Usual names of programs that listen on no port.
const AUXILIARY: [&str; 8] = [
    "css",
    "js",
    "assets",
    "tailwind",
    "worker",
    "sidekiq",
    "scheduler",
    "celery",
];

/// The first word of each command of a line, without assignments. Paths are programs of the project, and
/// builtins of the shell need nothing.
fn programs(line: &str) -> Vec<String> {
    const BUILTINS: [&str; 8] = [
        "cd", "set", "exec", "export", "mkdir", "echo", "test", "exit",
    ];
    let words = words(line);
    let commands = words.split(|word| is_operator(word));
    let first = commands.filter_map(|command| {
        let mut words = command.iter();
        words.find(|word| !word.contains('='))
    });
    let first = first.filter(|word| !BUILTINS.contains(&word.as_str()) && !word.contains('/'));
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    first
        .filter(|word| word.chars().all(is_name))
        .cloned()
        .collect()
}

/// The nearest valid service name.
pub fn valid_name(wish: &str) -> String {
    let mut name = String::new();
    for character in wish.chars().flat_map(char::to_lowercase) {
        if character.is_ascii_lowercase() || character.is_ascii_digit() {
            name.push(character);
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
        if name.len() == LONGEST_NAME {
            break;
        }
    }
    let name = name.trim_end_matches('-');
    // These words have another meaning as receivers of secrets.
    let is_reserved = ["runs", "sessions", SETUP_RECEIVER].contains(&name);
    match Name::parse(name) {
        Ok(_) if !is_reserved => name.to_owned(),
        Ok(_) => format!("{name}-service"),
        Err(_) => "service".to_owned(),
    }
}
