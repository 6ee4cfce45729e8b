//! Python projects: Django becomes a service; for others only the installation is known.

use super::directory::Directory;
use super::document::Document;
use super::proposal::{Part, Program};

/// How to install dependencies, and how to run a program with them.
struct Installer {
    commands: Vec<&'static str>,
    file: &'static str,
    python: &'static str,
}

pub fn look(directory: Directory<'_>) -> Option<Part> {
    let is_django = directory
        .text("manage.py")
        .is_some_and(|text| text.contains("django"));
    let manifests = ["manage.py", "pyproject.toml", "requirements.txt"];
    let file = if is_django {
        "manage.py"
    } else {
        directory.first(&manifests[1..])?
    };
    let kind = if is_django { "Django" } else { "Python" };
    let mut part = Part::new(kind, directory.path(file));
    let installer = installer(directory);
    if let Some(installer) = &installer {
        for command in &installer.commands {
            part.set_up(directory.run(command), directory.path(installer.file));
        }
        if !directory.is_root() {
            part.setup_inputs.push(directory.path(installer.file));
        }
    }
    if is_django {
        let python = installer.map_or("python3", |installer| installer.python);
        let run = format!("{python} manage.py runserver 8000");
        part.programs.push(Program {
            name: if directory.is_root() {
                "web".to_owned()
            } else {
                directory.name().to_owned()
            },
            run: directory.run(&run),
            port: Some((8000, "Django's default".to_owned())),
            reason: directory.path("manage.py"),
            ..Program::default()
        });
    } else {
        part.remarks.push(format!(
            "{} does not say how the program is started",
            directory.path(file)
        ));
    }
    Some(part)
}

fn installer(directory: Directory<'_>) -> Option<Installer> {
    let tools = [
        ("uv.lock", "uv sync", "uv run python"),
        ("poetry.lock", "poetry install", "poetry run python"),
        ("Pipfile.lock", "pipenv sync --dev", "pipenv run python"),
    ];
    if let Some((file, command, python)) = tools.iter().find(|(lock, ..)| directory.has(lock)) {
        return Some(Installer {
            commands: vec![command],
            file,
            python,
        });
    }
    let is_package = directory
        .document("pyproject.toml")
        .and_then(|document| document.at(&["project", "dependencies"]))
        .is_some_and(|list| matches!(list, Document::List(_)));
    let (file, install) = if directory.has("requirements.txt") {
        (
            "requirements.txt",
            ".venv/bin/pip install -r requirements.txt",
        )
    } else if is_package {
        ("pyproject.toml", ".venv/bin/pip install -e .")
    } else {
        return None;
    };
    Some(Installer {
        commands: vec!["python3 -m venv .venv", install],
        file,
        python: ".venv/bin/python",
    })
}
