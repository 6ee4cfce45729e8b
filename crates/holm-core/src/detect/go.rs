//! Go projects: a module with one main package that listens becomes a service.

use super::directory::{Directory, quoted};
use super::dockerfile::Dockerfile;
use super::needs::of_dependencies;
use super::proposal::{Part, Service};
use super::sample::{Sample, with_samples};
use super::source::{address_port, go_port, reads_port};

/// The first start compiles the program.
pub const COMPILES: &str = "10m";

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
    let modules = directory.text("go.mod")?;
    let mut part = Part::of("Go", directory, "go.mod");
    if directory.has("go.sum") {
        part.install(directory, &["go mod download"], "go.sum");
    }
    let commands = directory.below("cmd");
    let commands = commands.into_iter().flat_map(Directory::directories);
    let commands = commands.filter_map(|command| {
        let package = quoted(&format!("./cmd/{}", command.name()));
        let run = directory.run(&format!("go run {package}"));
        main(directory, command, command.name().to_owned(), run)
    });
    let (name, run) = (directory.service_name(), directory.run("go run ."));
    let own = main(directory, directory, name, run);
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
    let used = modules.lines().filter(|line| !line.contains("// indirect"));
    let used = used.map(|line| line.trim().trim_start_matches("require "));
    let used = used.filter_map(|line| line.split_whitespace().next());
    part.needs = of_dependencies(used, &directory.path("go.mod"));
    with_samples(&mut part.needs, directory);
    Some(part)
}

/// The main package in a directory, and whether it listens on a port.
fn main(
    module: Directory<'_>,
    at: Directory<'_>,
    name: String,
    run: String,
) -> Option<(Service, bool)> {
    let file = at.path("main.go");
    let text = at.text("main.go")?;
    let is_main = text.lines().any(|line| line.trim() == "package main");
    let written = address_port(text).or_else(|| go_port(text));
    let mut service = Service {
        name,
        at: module.at().to_owned(),
        run,
        port: written.map(|port| (port, format!("written in {file}"))),
        timeout: Some(COMPILES),
        reason: file,
        ..Service::default()
    };
    if service.port.is_none() {
        let sample = Sample::of(module).and_then(|it| Some((it.port()?, it.file)));
        let image = Dockerfile::of(module).and_then(|it| Some((it.port?, it.file)));
        let shown = sample.or(image);
        if let (Some((port, _)), true) = (&shown, reads_port(text)) {
            service.env.push(("PORT".to_owned(), port.to_string()));
        }
        service.port = shown.map(|(port, file)| (port, format!("written in {file}")));
    }
    let listens = SERVERS.iter().any(|server| text.contains(server));
    is_main.then_some((service, listens))
}
