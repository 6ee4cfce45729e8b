//! Go projects: a module with one main package that listens becomes a service.

use super::directory::Directory;
use super::proposal::{Part, Program, Suggestion, valid_name};
use super::source::address_port;

/// Calls that show that a program listens on a port.
const SERVERS: [&str; 8] = [
    "ListenAndServe",
    "net.Listen(",
    "http.Serve(",
    "gin.Default(",
    "gin.New(",
    "echo.New(",
    "fiber.New(",
    "grpc.NewServer(",
];

pub fn look(directory: Directory<'_>) -> Option<Part> {
    directory.text("go.mod")?;
    let mut part = Part::new("Go", directory.path("go.mod"));
    if directory.has("go.sum") {
        part.set_up(directory.run("go mod download"), directory.path("go.sum"));
        if !directory.is_root() {
            part.setup_inputs.push(directory.path("go.sum"));
        }
    }
    let mains = mains(directory);
    let servers: Vec<_> = mains.iter().filter(|main| main.is_server()).collect();
    match servers.as_slice() {
        [only] => part.programs.push(Program {
            name: only.name.clone(),
            run: directory.run(&only.run),
            port: address_port(only.text).map(|port| (port, format!("written in {}", only.file))),
            reason: format!("{} listens", only.file),
            ..Program::default()
        }),
        _ => {
            let reason = match servers.len() {
                0 => "a main package; nothing shows that it is a server",
                _ => "one of several servers; take what a workspace should run",
            };
            part.suggestions.extend(mains.iter().map(|main| Suggestion {
                name: valid_name(&main.name),
                run: Some(directory.run(&main.run)),
                port: address_port(main.text),
                reason: format!("{}: {reason}", main.file),
                ..Suggestion::default()
            }));
        }
    }
    Some(part)
}

struct Main<'a> {
    name: String,
    run: String,
    file: String,
    text: &'a str,
}

/// The main packages in the module's root and below `cmd`.
fn mains(directory: Directory<'_>) -> Vec<Main<'_>> {
    let of = |at: Directory<'_>, name: &str, run: String| Main {
        name: name.to_owned(),
        run,
        file: at.path("main.go"),
        text: "",
    };
    let is_main = |text: &&str| text.lines().any(|line| line.trim() == "package main");
    let mut mains = Vec::new();
    if let Some(text) = directory.text("main.go").filter(is_main) {
        let name = if directory.is_root() {
            "web"
        } else {
            directory.name()
        };
        let main = of(directory, name, "go run .".to_owned());
        mains.push(Main { text, ..main });
    }
    let commands = directory.below("cmd");
    for command in commands.into_iter().flat_map(Directory::directories) {
        if let Some(text) = command.text("main.go").filter(is_main) {
            let package = super::directory::quoted(&format!("./cmd/{}", command.name()));
            let main = of(command, command.name(), format!("go run {package}"));
            mains.push(Main { text, ..main });
        }
    }
    mains
}

// === impl Main ===

impl Main<'_> {
    fn is_server(&self) -> bool {
        SERVERS.iter().any(|server| self.text.contains(server))
    }
}
