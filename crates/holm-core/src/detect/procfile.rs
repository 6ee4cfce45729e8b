//! A Procfile: each line is a name and a command.

use super::PROCFILES;
use super::command::{PortVariable, default_port, port_variable, written_port};
use super::directory::Directory;
use super::proposal::{Part, Service};

/// foreman's port for the first process, and the distance between ports.
const FIRST_PORT: u16 = 5000;
const PORT_STEP: u16 = 100;

pub fn read(directory: Directory<'_>) -> Option<Part> {
    let name = directory.first(&PROCFILES)?;
    let text = directory.text(name)?;
    let mut part = Part::new("Procfile", name);
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let entry = line
            .split_once(':')
            .map(|(process, command)| (process.trim(), command.trim()));
        let is_name = |process: &str| {
            let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            !process.is_empty() && process.chars().all(fits)
        };
        match entry {
            Some((process, command)) if is_name(process) && !command.is_empty() => {
                add(&mut part, process, command);
            }
            _ => part
                .remarks
                .push(format!("line {} of {name} was not understood", number + 1)),
        }
    }
    Some(part)
}

fn add(part: &mut Part, process: &str, command: &str) {
    let file = part.sign.file.clone();
    let mut service = Service {
        name: process.to_owned(),
        run: command.to_owned(),
        ..Service::default()
    };
    if process == "release" {
        service.reason = format!("{file}: runs once at a release; it is not a service");
        part.suggestions.push(service);
        return;
    }
    let position = u16::try_from(part.programs.len()).unwrap_or(0);
    let given = FIRST_PORT.saturating_add(position.saturating_mul(PORT_STEP));
    service.port = match (written_port(command), port_variable(command)) {
        (Some(port), _) | (None, Some(PortVariable::Default(port))) => {
            Some((port, format!("written in {file}")))
        }
        (None, Some(PortVariable::Needed)) => {
            service.env.push(("PORT".to_owned(), given.to_string()));
            let reason = format!("{file} reads $PORT; foreman would give {given}");
            Some((given, reason))
        }
        (None, None) => {
            default_port(command).map(|(tool, port)| (port, format!("{tool}'s default")))
        }
    };
    service.reason = file;
    part.programs.push(service);
}
