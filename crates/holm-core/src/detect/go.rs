//! Go projects: a module with one main package that listens becomes a service.

use super::directory::{Directory, quoted};
use super::proposal::{Part, Service};
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
        part.install(directory, &["go mod download"], "go.sum");
    }
    let commands = directory.below("cmd");
    let commands = commands.into_iter().flat_map(Directory::directories);
    let commands = commands.filter_map(|command| {
        let package = quoted(&format!("./cmd/{}", command.name()));
        let run = directory.run(&format!("go run {package}"));
        main(command, command.name().to_owned(), run)
    });
    let own = main(
        directory,
        directory.service_name(),
        directory.run("go run ."),
    );
    let mains: Vec<_> = own.into_iter().chain(commands).collect();
    let servers = mains.iter().filter(|(_, listens)| *listens).count();
    for (mut main, listens) in mains {
        match servers {
            1 if listens => {
                main.reason += " listens";
                part.programs.push(main);
            }
            1 => {}
            0 => {
                main.reason += ": a main package; nothing shows that it is a server";
                part.suggestions.push(main);
            }
            _ => {
                main.reason += ": one of several servers; take what a workspace should run";
                part.suggestions.push(main);
            }
        }
    }
    Some(part)
}

/// The main package in a directory, and whether it listens on a port.
fn main(at: Directory<'_>, name: String, run: String) -> Option<(Service, bool)> {
    let file = at.path("main.go");
    let text = at.text("main.go")?;
    let is_main = text.lines().any(|line| line.trim() == "package main");
    let service = Service {
        name,
        run,
        port: address_port(text).map(|port| (port, format!("written in {file}"))),
        reason: file,
        ..Service::default()
    };
    let listens = SERVERS.iter().any(|server| text.contains(server));
    is_main.then_some((service, listens))
}
