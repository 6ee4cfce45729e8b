//! A proposed `holm.toml` as values, and how its parts are combined: valid unique names, no port
//! conflicts, no dependency on a missing service.

use super::directory::Directory;
use super::write;
use crate::config::Name;
use std::collections::BTreeSet;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proposal {
    pub looks_like: Vec<Sign>,
    pub setup: Vec<Step>,
    /// Empty: the default, which covers the root's files.
    pub setup_inputs: Vec<String>,
    /// Ignored files that programs read; written as a comment, because `include` needs approval.
    pub include: Vec<String>,
    pub services: Vec<Service>,
    /// Uncertain services, written as comments with the reason.
    pub suggestions: Vec<Service>,
    /// Other findings that are not written as settings.
    pub remarks: Vec<String>,
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
    /// The text in its log that shows that it is ready; `None`: its port shows that.
    pub ready_log: Option<&'static str>,
    pub depends_on: Vec<String>,
    pub env: Vec<(String, String)>,
    /// Variables whose values are not repeated.
    pub secrets: Vec<String>,
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

    /// Adds commands that install what `file` of the directory names.
    pub fn install(&mut self, directory: Directory<'_>, commands: &[&str], file: &str) {
        self.setup.extend(commands.iter().map(|command| Step {
            command: directory.run(command),
            reason: directory.path(file),
        }));
        if !directory.is_root() {
            self.setup_inputs.push(directory.path(file));
        }
    }

    pub fn has_no_start(&mut self, file: &str) {
        let remark = format!("{file} does not say how the program is started");
        self.remarks.push(remark);
    }
}

// === impl Proposal ===

impl Proposal {
    pub fn to_toml(&self) -> String {
        write::toml(self)
    }

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
        let parts = [
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

    pub fn is_empty(&self) -> bool {
        self.setup.is_empty() && self.services.is_empty() && self.suggestions.is_empty()
    }

    /// Takes everything of a part except its services.
    pub(super) fn take(&mut self, part: &mut Part) {
        self.looks_like.push(part.sign.clone());
        self.setup.append(&mut part.setup);
        self.setup_inputs.append(&mut part.setup_inputs);
        self.remarks.append(&mut part.remarks);
    }

    pub(super) fn add_program(&mut self, mut program: Service) {
        program.name = self.free_name(&program.name);
        let remark = match &program.port {
            Some((number, _)) => self
                .owner(*number)
                .map(|owner| format!("Its port {number} is the one of {owner}, too.")),
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
        let mut ready: BTreeSet<String> = BTreeSet::new();
        let names: BTreeSet<String> = self.services.iter().map(|it| it.name.clone()).collect();
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
        // The project's own programs come first.
        self.services.sort_by_key(|service| service.is_database);
        for suggestion in &mut self.suggestions {
            suggestion.name = valid_name(&suggestion.name);
        }
    }

    fn owner(&self, number: u16) -> Option<&str> {
        let has_it = |it: &&Service| it.port.as_ref().is_some_and(|port| port.0 == number);
        self.services.iter().find(has_it).map(|it| it.name.as_str())
    }

    fn free_name(&self, wish: &str) -> String {
        let name = valid_name(wish);
        let is_taken = |name: &str| self.services.iter().any(|service| service.name == name);
        if !is_taken(&name) {
            return name;
        }
        let numbered = (2..).map(|number| {
            let room = LONGEST_NAME - 1 - format!("{number}").len();
            let stem = name.get(..room).unwrap_or(&name).trim_end_matches('-');
            format!("{stem}-{number}")
        });
        let mut numbered = numbered.filter(|name| !is_taken(name));
        numbered.next().unwrap_or(name)
    }
}

const LONGEST_NAME: usize = 40;

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
    let is_reserved = ["runs", "sessions"].contains(&name);
    match Name::parse(name) {
        Ok(_) if !is_reserved => name.to_owned(),
        Ok(_) => format!("{name}-service"),
        Err(_) => "service".to_owned(),
    }
}
