//! Python projects: Django becomes a service; for others only the installation is known.

use super::directory::Directory;
use super::document::Document;
use super::proposal::{Part, Service};

/// How to install dependencies, and how to run a program with them.
struct Installer {
    file: &'static str,
    commands: &'static [&'static str],
    python: &'static str,
}

const VENV_PYTHON: &str = ".venv/bin/python";

/// The best one first. The file shows that it is used.
const INSTALLERS: [Installer; 5] = [
    Installer {
        file: "uv.lock",
        commands: &["uv sync"],
        python: "uv run python",
    },
    Installer {
        file: "poetry.lock",
        commands: &["poetry install"],
        python: "poetry run python",
    },
    Installer {
        file: "Pipfile.lock",
        commands: &["pipenv sync --dev"],
        python: "pipenv run python",
    },
    Installer {
        file: "requirements.txt",
        commands: &[
            "python3 -m venv .venv",
            ".venv/bin/pip install -r requirements.txt",
        ],
        python: VENV_PYTHON,
    },
    Installer {
        file: PYPROJECT,
        commands: &["python3 -m venv .venv", ".venv/bin/pip install -e ."],
        python: VENV_PYTHON,
    },
];

const PYPROJECT: &str = "pyproject.toml";

pub fn look(directory: Directory<'_>) -> Option<Part> {
    let manage = directory.text("manage.py");
    let (kind, file) = if manage.is_some_and(|text| text.contains("django")) {
        ("Django", "manage.py")
    } else {
        ("Python", directory.first(&[PYPROJECT, "requirements.txt"])?)
    };
    let mut part = Part::new(kind, directory.path(file));
    let dependencies = directory
        .document(PYPROJECT)
        .and_then(|document| document.at(&["project", "dependencies"]));
    let is_package = matches!(dependencies, Some(Document::List(_)));
    let installer = INSTALLERS.iter().find(|installer| {
        directory.has(installer.file) && (installer.file != PYPROJECT || is_package)
    });
    if let Some(installer) = installer {
        part.install(directory, installer.commands, installer.file);
    }
    if kind == "Django" {
        let python = installer.map_or("python3", |installer| installer.python);
        part.programs.push(Service {
            name: directory.service_name(),
            run: directory.run(&format!("{python} manage.py runserver 8000")),
            port: Some((8000, "Django's default".to_owned())),
            reason: directory.path(file),
            ..Service::default()
        });
    } else {
        part.has_no_start(&directory.path(file));
    }
    Some(part)
}
