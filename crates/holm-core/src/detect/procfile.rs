//! A Procfile: each line is a name and a command.

use super::PROCFILES;
use super::command::{PortVariable, default_port, port_variable, written_port};
use super::directory::Directory;
use super::proposal::{Part, Program, Suggestion, valid_name};

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
                let position = part.programs.len();
                add(&mut part, name, (process, command), position);
            }
            _ => part
                .remarks
                .push(format!("line {} of {name} was not understood", number + 1)),
        }
    }
    Some(part)
}

fn add(part: &mut Part, file: &str, (process, command): (&str, &str), position: usize) {
    if process == "release" {
        part.suggestions.push(Suggestion {
            name: valid_name(process),
            run: Some(command.to_owned()),
            reason: format!("{file}: runs once at a release; it is not a service"),
            ..Suggestion::default()
        });
        return;
    }
    let step = u16::try_from(position)
        .unwrap_or(0)
        .saturating_mul(PORT_STEP);
    let given = FIRST_PORT.saturating_add(step);
    let (port, env) = match (written_port(command), port_variable(command)) {
        (Some(port), _) => (Some((port, format!("written in {file}"))), None),
        (None, Some(PortVariable::Default(port))) => {
            (Some((port, format!("written in {file}"))), None)
        }
        (None, Some(PortVariable::Needed)) => {
            let reason = format!("{file} reads $PORT; foreman would give {given}");
            (Some((given, reason)), Some(given))
        }
        (None, None) => {
            let known = default_port(command);
            (
                known.map(|(tool, port)| (port, format!("{tool}'s default"))),
                None,
            )
        }
    };
    part.programs.push(Program {
        name: process.to_owned(),
        run: command.to_owned(),
        port,
        env: env
            .map(|port| ("PORT".to_owned(), port.to_string()))
            .into_iter()
            .collect(),
        reason: file.to_owned(),
        ..Program::default()
    });
}
