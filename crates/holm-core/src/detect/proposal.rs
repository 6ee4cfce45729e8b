//! A proposed `holm.toml` as values, and how its parts are combined: valid unique names, no port
//! conflicts, no dependency on a missing service.

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
    pub ports: Vec<Port>,
    pub services: Vec<Service>,
    pub volumes: Vec<Volume>,
    pub suggestions: Vec<Suggestion>,
    /// Other findings that are not written as settings.
    pub remarks: Vec<String>,
}

/// A kind of project, and the file that shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sign {
    pub kind: &'static str,
    pub file: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub command: String,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    pub name: String,
    pub number: u16,
    pub reason: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    pub name: String,
    pub run: String,
    pub ready: Option<Ready>,
    pub depends_on: Vec<String>,
    pub env: Vec<(String, String)>,
    /// It keeps running when the workspace moves to another commit.
    pub outlasts_assign: bool,
    pub reason: String,
    /// Comment lines above it.
    pub remarks: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// The port of this name accepts connections.
    Port(String),
    Log(&'static str),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    pub name: String,
    pub path: String,
    pub reason: String,
}

/// An uncertain service, written as a comment with the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suggestion {
    pub name: String,
    /// `None`: no file says what to run.
    pub run: Option<String>,
    pub port: Option<u16>,
    pub depends_on: Vec<String>,
    pub env: Vec<(String, String)>,
    /// Variables whose values are not repeated.
    pub secrets: Vec<String>,
    pub reason: String,
}

/// The findings of one detector in one directory.
pub struct Part {
    pub sign: Sign,
    pub setup: Vec<Step>,
    pub setup_inputs: Vec<String>,
    pub programs: Vec<Program>,
    pub suggestions: Vec<Suggestion>,
    pub remarks: Vec<String>,
}

/// A program that becomes a service.
#[derive(Default)]
pub struct Program {
    /// The preferred name; the service gets a valid and free one.
    pub name: String,
    pub run: String,
    /// With the reason.
    pub port: Option<(u16, String)>,
    pub env: Vec<(String, String)>,
    pub depends_on: Vec<String>,
    pub reason: String,
}

/// A database server, and where its data is.
pub struct Database {
    pub service: Service,
    pub port: Port,
    pub volume: Volume,
}

// === impl Part ===

impl Part {
    pub fn new(kind: &'static str, file: impl Into<String>) -> Self {
        Self {
            sign: Sign {
                kind,
                file: file.into(),
            },
            setup: Vec::new(),
            setup_inputs: Vec::new(),
            programs: Vec::new(),
            suggestions: Vec::new(),
            remarks: Vec::new(),
        }
    }

    pub fn set_up(&mut self, command: impl Into<String>, reason: impl Into<String>) {
        self.setup.push(Step {
            command: command.into(),
            reason: reason.into(),
        });
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

    pub(super) fn add_program(&mut self, program: Program) {
        let name = self.free_name(&program.name);
        let mut remarks = Vec::new();
        let mut ready = None;
        match program.port {
            Some((number, reason)) => match self.owner(number) {
                Some(owner) => {
                    remarks.push(format!("Its port {number} is the one of {owner}, too."));
                }
                None => {
                    ready = Some(Ready::Port(name.clone()));
                    self.ports.push(Port {
                        name: name.clone(),
                        number,
                        reason,
                    });
                }
            },
            None => remarks.push(
                "Nothing says on which port it listens; one in [ports] gets a URL.".to_owned(),
            ),
        }
        self.services.push(Service {
            name,
            run: program.run,
            ready,
            depends_on: program.depends_on,
            env: program.env,
            outlasts_assign: false,
            reason: program.reason,
            remarks,
        });
    }

    /// A second database on the same port cannot run beside the first one.
    pub(super) fn add_database(&mut self, database: Database) {
        let Database {
            service,
            port,
            volume,
        } = database;
        match self.owner(port.number).map(str::to_owned) {
            None => {
                self.ports.push(port);
                self.services.push(service);
                self.volumes.push(volume);
            }
            Some(owner) => self.suggestions.push(Suggestion {
                name: service.name,
                run: Some(service.run),
                reason: format!(
                    "{}; {owner} has port {}: choose another",
                    service.reason, port.number
                ),
                ..Suggestion::default()
            }),
        }
    }

    /// Removes dependencies on missing services and cycles, and sorts the services for reading.
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
        self.services.sort_by_key(|service| service.outlasts_assign);
        let position = |port: &Port| self.services.iter().position(|it| it.name == port.name);
        self.ports.sort_by_key(position);
    }

    fn owner(&self, number: u16) -> Option<&str> {
        let mut ports = self.ports.iter();
        let port = ports.find(|port| port.number == number)?;
        Some(&port.name)
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
