//! Joins the parts of a repository: databases, the programs that use them, their migrations, and the ports that other
//! files show. Nothing is listed twice.

use super::command::words;
use super::database;
use super::database_url::Access;
use super::devcontainer::DevContainer;
use super::needs::{self, Need};
use super::proposal::{Part, Proposal, Service};

/// Processes of a Procfile that only build files for browsers.
const ASSETS: [&str; 7] = [
    "css", "js", "assets", "vite", "webpack", "tailwind", "esbuild",
];

/// Adds all services to the proposal. Databases come first, because others wait for them.
pub fn join(proposal: &mut Proposal, mut parts: Vec<Part>, forwarded: Option<DevContainer>) {
    if let Some(mut forwarded) = forwarded {
        proposal.take(&mut forwarded.part);
        forward(&mut parts, &forwarded, proposal);
    }
    for part in &mut parts {
        add_databases(proposal, part);
    }
    for part in parts {
        for program in part.programs {
            proposal.add_program(program);
        }
        proposal.suggestions.extend(part.suggestions);
    }
    proposal.settle();
}

/// A Procfile says what runs: its processes replace the programs of all parts, with their databases.
pub fn replace_programs(parts: &mut Vec<Part>, mut procfile: Part) {
    for part in parts.drain(..) {
        part.needs
            .into_iter()
            .for_each(|need| needs::add(&mut procfile.needs, need));
        procfile.env.extend(part.env);
        procfile.migration = procfile.migration.take().or(part.migration);
    }
    parts.push(procfile);
}

/// Gives the programs of a part the databases that they need, and migrates before the first.
fn add_databases(proposal: &mut Proposal, part: &mut Part) {
    let is_program = |it: &&mut Service| !ASSETS.contains(&it.name.as_str());
    let has_programs = part
        .programs
        .iter()
        .any(|it| !ASSETS.contains(&it.name.as_str()));
    for need in part.needs.iter().filter(|_| has_programs) {
        let Some((name, access)) = database_for(proposal, need) else {
            let title = need.kind.title();
            let remark = format!(
                "{}: it needs {title}, which holm does not start by itself",
                need.reason
            );
            proposal.remarks.push(remark);
            continue;
        };
        let users: Vec<String> = part.programs.iter().map(|it| it.at.clone()).collect();
        let programs = part.programs.iter_mut().filter(is_program);
        for program in programs.filter(|program| need.is_of(&program.at, &users)) {
            connect(program, need, &name, &access);
        }
    }
    for program in part.programs.iter_mut().filter(is_program) {
        program.env.extend(part.env.iter().cloned());
    }
    let Some(migration) = &part.migration else {
        return;
    };
    let own = part.programs.iter().position(|it| it.at == migration.at);
    let first = part
        .programs
        .iter()
        .position(|it| !ASSETS.contains(&it.name.as_str()));
    let Some(index) = own.filter(|index| Some(*index) >= first).or(first) else {
        return;
    };
    let program = &mut part.programs[index];
    let (command, reason) = (&migration.command, &migration.reason);
    let is_done = program.run.contains(command.as_str())
        || words(&program.run).iter().any(|word| word == "migrate");
    if is_done {
        return;
    }
    program.run = match command.strip_prefix("cd ") {
        // In the same directory, one `cd` is enough.
        Some(_) => match command.split_once(" && ") {
            Some((change, migrate)) if program.run.starts_with(&format!("{change} && ")) => {
                let rest = &program.run[change.len()..];
                format!("{change} && {migrate}{rest}")
            }
            _ => format!("({command}) && {}", program.run),
        },
        None => format!("{command} && {}", program.run),
    };
    program
        .remarks
        .push(format!("It migrates its database first ({reason})."));
}

/// The database for a need, by its name: one of the Compose file, one of another part, or a new one.
fn database_for(proposal: &mut Proposal, need: &Need) -> Option<(String, Access)> {
    let composed = proposal.compose.iter().flat_map(|it| &it.databases);
    let composed = composed.map(|(name, access)| (name, access));
    let services = proposal.services.iter();
    let services = services.filter_map(|it| Some((&it.name, it.access.as_ref()?)));
    let mut known = composed.chain(services);
    if let Some((name, access)) = known.find(|(_, access)| access.kind == need.kind) {
        return Some((name.clone(), access.clone()));
    }
    let database = database::needed(need, |name| proposal.is_taken(name))?;
    let found = (database.name.clone(), database.access.clone()?);
    proposal.add_database(database);
    Some(found)
}

/// The only forwarded port that no database has belongs to the only program without a port.
fn forward(parts: &mut [Part], container: &DevContainer, proposal: &mut Proposal) {
    let ports = parts
        .iter()
        .flat_map(|part| &part.programs)
        .filter_map(|it| it.port.as_ref());
    let used: Vec<u16> = ports.map(|(port, _)| *port).collect();
    let databases = proposal.compose.iter().flat_map(|it| &it.databases);
    let databases: Vec<u16> = databases.map(|(_, access)| access.kind.port()).collect();
    let is_known = |port: u16| {
        proposal.owner(port).is_some() || used.contains(&port) || databases.contains(&port)
    };
    let free: Vec<u16> = container
        .ports
        .iter()
        .copied()
        .filter(|port| !is_known(*port))
        .collect();
    let file = &container.part.sign.file;
    let programs = parts.iter_mut().flat_map(|part| &mut part.programs);
    let mut waiting: Vec<&mut Service> = programs.filter(|it| it.port.is_none()).collect();
    match (&mut waiting[..], &free[..]) {
        ([program], [port]) => program.port = Some((*port, format!("forwarded in {file}"))),
        (_, []) => {}
        (_, free) => {
            let free: Vec<String> = free.iter().map(ToString::to_string).collect();
            let free = free.join(", ");
            proposal
                .remarks
                .push(format!("{file} forwards {free}, which no service here has"));
        }
    }
}

/// Gives a program the URL of a database that it needs, and lets it wait for the database.
fn connect(program: &mut Service, need: &Need, name: &str, access: &Access) {
    if !program.depends_on.iter().any(|other| other == name) {
        program.depends_on.push(name.to_owned());
    }
    if access.password.is_some() {
        let remark = "Its URL has the password that the Compose file shows.";
        program.remarks.push(remark.to_owned());
    }
    let default = [(need.kind.variable().to_owned(), None)];
    let variables = if need.variables.is_empty() {
        &default[..]
    } else {
        &need.variables
    };
    for (name, shown) in variables {
        let is_set = program.env.iter().any(|(set, _)| set == name);
        if !is_set {
            let shown = shown.as_deref().unwrap_or_default();
            program.env.push((name.clone(), access.like(shown)));
        }
    }
}
