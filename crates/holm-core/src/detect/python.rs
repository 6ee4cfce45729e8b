//! Python projects: Django, FastAPI and Flask become services, and so does a Dockerfile's command; for
//! others only the installation is known.

use super::command::{default_port, words, written_port};
use super::database_url::Kind;
use super::directory::Directory;
use super::dockerfile::Dockerfile;
use super::document::Document;
use super::needs::{self, Need, of_dependencies};
use super::proposal::{Part, Service};
use super::sample::{is_plain, with_samples};

/// How to install dependencies, and how to run a program with them.
struct Installer {
    file: &'static str,
    commands: &'static [&'static str],
    /// Before the name of an installed program.
    run: &'static str,
}

const VENV: &str = ".venv/bin/";

/// The best one first. The file shows that it is used.
const INSTALLERS: [Installer; 8] = [
    Installer {
        file: "uv.lock",
        commands: &["uv sync"],
        run: "uv run ",
    },
    Installer {
        file: "poetry.lock",
        commands: &["poetry install"],
        run: "poetry run ",
    },
    Installer {
        file: "Pipfile.lock",
        commands: &["pipenv sync --dev"],
        run: "pipenv run ",
    },
    Installer {
        file: "requirements.txt",
        commands: &[
            "python3 -m venv .venv",
            ".venv/bin/pip install -r requirements.txt",
        ],
        run: VENV,
    },
    Installer {
        file: "requirements/local.txt",
        commands: &[
            "python3 -m venv .venv",
            ".venv/bin/pip install -r requirements/local.txt",
        ],
        run: VENV,
    },
    Installer {
        file: "requirements/dev.txt",
        commands: &[
            "python3 -m venv .venv",
            ".venv/bin/pip install -r requirements/dev.txt",
        ],
        run: VENV,
    },
    Installer {
        file: "requirements-dev.txt",
        commands: &[
            "python3 -m venv .venv",
            ".venv/bin/pip install -r requirements-dev.txt",
        ],
        run: VENV,
    },
    Installer {
        file: PYPROJECT,
        commands: &["python3 -m venv .venv", ".venv/bin/pip install -e ."],
        run: VENV,
    },
];

const PYPROJECT: &str = "pyproject.toml";

const REQUIREMENTS: [&str; 5] = [
    "requirements.txt",
    "requirements/base.txt",
    "requirements/local.txt",
    "requirements/dev.txt",
    "requirements-dev.txt",
];

/// Where programs of web frameworks usually are.
const ENTRIES: [&str; 10] = [
    "main.py",
    "app.py",
    "app/main.py",
    "app/app.py",
    "src/main.py",
    "src/app/main.py",
    "api/main.py",
    "backend/main.py",
    "wsgi.py",
    "app/__init__.py",
];

/// Programs of a Dockerfile's command that are installed with the project.
const INSTALLED: [&str; 8] = [
    "python",
    "python3",
    "uvicorn",
    "gunicorn",
    "hypercorn",
    "fastapi",
    "flask",
    "streamlit",
];

pub fn look(directory: Directory<'_>) -> Option<Part> {
    let manage = directory.text("manage.py");
    let (kind, file) = if manage.is_some_and(|text| text.contains("django")) {
        ("Django", "manage.py")
    } else {
        let manifests = [PYPROJECT].into_iter().chain(REQUIREMENTS);
        let mut manifests = manifests.filter(|name| directory.has(name));
        ("Python", manifests.next()?)
    };
    let mut part = Part::of(kind, directory, file);
    let own = installer(directory);
    if let Some(installer) = own {
        part.install(directory, installer.commands, installer.file);
    }
    let start = Start {
        directory,
        // The root installs for a directory that has no list of its own.
        place: match own {
            None if installer(directory.to_root()).is_some() => directory.to_root(),
            _ => directory,
        },
    };
    let dependencies = dependencies(start.place);
    let names = dependencies.iter().map(String::as_str);
    let manifest = installer(start.place).map_or(file, |it| it.file);
    part.needs = of_dependencies(names, &start.place.path(manifest));
    let program = match kind {
        "Django" => Some(start.django(&mut part)),
        _ => start.framework(&mut part),
    };
    match program.or_else(|| start.image()) {
        Some(program) => part.programs.push(program),
        None => part.has_no_start(&directory.path(file)),
    }
    if directory.has("alembic.ini") {
        let command = start.command("alembic upgrade head");
        part.migrate(directory, command, directory.path("alembic.ini"));
    }
    with_samples(&mut part.needs, directory);
    Some(part)
}

fn installer(directory: Directory<'_>) -> Option<&'static Installer> {
    let dependencies = directory
        .document(PYPROJECT)
        .and_then(|document| document.at(&["project", "dependencies"]));
    let is_package = matches!(dependencies, Some(Document::List(_)));
    INSTALLERS.iter().find(|installer| {
        directory.has(installer.file) && (installer.file != PYPROJECT || is_package)
    })
}

/// The names of the direct dependencies.
fn dependencies(directory: Directory<'_>) -> Vec<String> {
    let mut names = Vec::new();
    let mut add = |line: &str| {
        let line = line.trim().to_ascii_lowercase();
        let end = line.find(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c));
        let (name, rest) = line.split_at(end.unwrap_or(line.len()));
        // `celery[redis]` installs the client of Redis, too.
        if rest.starts_with('[') && rest.contains("redis") {
            names.push("redis".to_owned());
        }
        if !name.is_empty() {
            names.push(name.replace('_', "-"));
        }
    };
    for file in REQUIREMENTS {
        directory
            .text(file)
            .unwrap_or_default()
            .lines()
            .for_each(&mut add);
    }
    if let Some(document) = directory.document(PYPROJECT) {
        let listed = document
            .at(&["project", "dependencies"])
            .map(Document::texts);
        listed.unwrap_or_default().iter().for_each(|line| add(line));
        let poetry = document.at(&["tool", "poetry", "dependencies"]);
        let poetry = poetry.map(Document::names).unwrap_or_default();
        poetry.iter().for_each(|line| add(line));
    }
    names
}

/// Where a program is, and where its dependencies are installed: the same directory, or the root.
struct Start<'a> {
    directory: Directory<'a>,
    place: Directory<'a>,
}

// === impl Start ===

impl Start<'_> {
    /// A command that starts an installed program in the directory.
    fn command(&self, command: &str) -> String {
        let is_here = self.place.at() == self.directory.at();
        match installer(self.place).map(|it| it.run) {
            None => command.replacen("python ", "python3 ", 1),
            Some(VENV) if !is_here => {
                let up = "../".repeat(self.directory.at().matches('/').count() + 1);
                format!("{up}{VENV}{command}")
            }
            Some(run) => format!("{run}{command}"),
        }
    }

    fn service(&self, command: &str, port: (u16, String), reason: String) -> Service {
        Service {
            name: self.directory.service_name(),
            at: self.directory.at().to_owned(),
            run: self.directory.run(&self.command(command)),
            port: Some(port),
            reason,
            ..Service::default()
        }
    }

    fn django(&self, part: &mut Part) -> Service {
        let directory = self.directory;
        if let Some((file, need)) = django_database(directory) {
            let mut need = need;
            need.reason = file;
            // The settings decide; dependencies may be there for other reasons.
            needs::add(&mut part.needs, need);
        }
        let command = self.command("python manage.py migrate --noinput");
        part.migrate(directory, command, directory.path("manage.py"));
        let port = (8000, "Django's default".to_owned());
        self.service(
            "python manage.py runserver 8000",
            port,
            directory.path("manage.py"),
        )
    }

    /// FastAPI and Flask, by the source that makes the application.
    fn framework(&self, part: &mut Part) -> Option<Service> {
        let directory = self.directory;
        let dependencies = dependencies(self.place);
        let has = |name: &str| dependencies.iter().any(|it| it == name);
        for entry in ENTRIES {
            let Some(text) = directory.text(entry) else {
                continue;
            };
            let file = directory.path(entry);
            let module = entry.trim_end_matches(".py").trim_end_matches("/__init__");
            if let Some(name) = application(text, "FastAPI(") {
                let module = module.replace('/', ".");
                let command = if has("uvicorn") || !has("fastapi") {
                    format!("uvicorn {module}:{name} --reload --port 8000")
                } else {
                    format!("fastapi dev {entry} --port 8000")
                };
                let port = (8000, "uvicorn's default".to_owned());
                return Some(self.service(&command, port, format!("{file}: FastAPI")));
            }
            let makes = application(text, "Flask(").is_some() || text.contains("def create_app(");
            if makes && has("flask") {
                if has("flask-migrate") && directory.has("migrations/") {
                    let command = self.command(&format!("flask --app {module} db upgrade"));
                    part.migrate(directory, command, directory.path("migrations/"));
                }
                let command = format!("flask --app {module} run --debug --port 5000");
                let port = (5000, "Flask's default".to_owned());
                return Some(self.service(&command, port, format!("{file}: Flask")));
            }
        }
        None
    }

    /// What a Dockerfile starts, if that is installed with the project.
    fn image(&self) -> Option<Service> {
        let image = Dockerfile::of(self.directory)?;
        let command = image.command?;
        let first = words(&command).into_iter().next()?;
        let name = INSTALLED.iter().find(|name| **name == first)?;
        let port = written_port(&command).filter(|port| *port >= 1024);
        let default = default_port(&command).map(|(_, port)| port);
        let port = port.or(image.port).or(default)?;
        let command = match *name {
            "python3" => command.replacen("python3", "python", 1),
            _ => command,
        };
        let port = (port, format!("written in {}", image.file));
        Some(self.service(&command, port, format!("{}: CMD", image.file)))
    }
}

/// The variable in `app = FastAPI(`.
fn application<'a>(text: &'a str, call: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, _) = line.split_once(call)?;
        let name = name.trim_end().strip_suffix('=')?.trim_end();
        let name = name.split(':').next()?.trim_end();
        is_plain(name).then_some(name)
    })
}

/// The database in Django's settings, and their file. SQLite needs none.
fn django_database(directory: Directory<'_>) -> Option<(String, Need)> {
    let below = directory.directories().chain([directory]);
    let places = below.flat_map(|place| {
        let names = [
            "settings.py",
            "settings/base.py",
            "settings/local.py",
            "settings/dev.py",
        ];
        names.map(|name| (place.path(name), place.text(name)))
    });
    let mut texts = places.filter_map(|(file, text)| Some((file, text?)));
    texts.find_map(|(file, text)| {
        let block = text.split("DATABASES").nth(1)?;
        let (_, engine) = block.split_once("django.db.backends.")?;
        let end = engine.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let kind = Kind::named(&engine[..end.unwrap_or(engine.len())])?;
        let mut need = Need::new(kind, "");
        let value = |key: &str| {
            let line = block
                .lines()
                .find(|line| line.trim_start().starts_with(key))?;
            let texts: Vec<&str> = line.split(['"', '\'']).skip(1).step_by(2).collect();
            // `"NAME": os.environ.get("DB_NAME", "shop")`: the last text is the default.
            let is_variable = texts.len() == 2 && line.contains("env");
            let last = texts.last().filter(|_| texts.len() > 1 && !is_variable)?;
            is_plain(last).then(|| (*last).to_owned())
        };
        need.database = value("\"NAME\"").or_else(|| value("'NAME'"));
        need.user = value("\"USER\"").or_else(|| value("'USER'"));
        Some((file, need))
    })
}
