//! Joins the parts of a repository: databases of a compose file or of dependencies, the programs that
//! use them, their migrations, and the names and ports that other files show. Nothing is listed twice.

use super::command::words;
use super::compose::{Built, Composed};
use super::database;
use super::database_url::Kind;
use super::devcontainer::DevContainer;
use super::needs::{self, Need};
use super::proposal::{Part, Proposal, Service};

/// Processes of a Procfile that only build files for browsers.
const ASSETS: [&str; 7] = [
    "css", "js", "assets", "vite", "webpack", "tailwind", "esbuild",
];

/// Adds all services to the proposal. Databases come first, because others wait for them.
pub fn join(
    proposal: &mut Proposal,
    mut parts: Vec<Part>,
    composed: Option<Composed>,
    forwarded: Option<DevContainer>,
) {
    let mut rest = Vec::new();
    if let Some(mut composed) = composed {
        proposal.take(&mut composed.part);
        for database in std::mem::take(&mut composed.part.programs) {
            proposal.add_database(database);
        }
        let file = composed.part.sign.file.clone();
        rest = composed.part.suggestions;
        rest.extend(match_built(&mut parts, composed.built, proposal, &file));
    }
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
    proposal.suggestions.append(&mut rest);
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
        let Some(name) = database_for(proposal, need) else {
            let title = need.kind.title();
            let remark = format!(
                "{}: it needs {title}, which holm does not start by itself",
                need.reason
            );
            proposal.remarks.push(remark);
            continue;
        };
        let database = proposal.services.iter().find(|it| it.name == name).cloned();
        let users: Vec<String> = part.programs.iter().map(|it| it.at.clone()).collect();
        let programs = part.programs.iter_mut().filter(is_program);
        let programs = programs.filter(|program| need.is_of(&program.at, &users));
        for (program, database) in programs.zip(std::iter::repeat(database).flatten()) {
            connect(program, need, &database);
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

/// The name of the database for a need: one of a compose file, one of another part, or a new one.
fn database_for(proposal: &mut Proposal, need: &Need) -> Option<String> {
    let fits = |it: &&Service| {
        it.access
            .as_ref()
            .is_some_and(|access| access.kind == need.kind)
    };
    if let Some(known) = proposal.services.iter().find(fits) {
        return Some(known.name.clone());
    }
    if need.kind == Kind::Mongo {
        return None;
    }
    let names: Vec<String> = proposal.services.iter().map(|it| it.name.clone()).collect();
    let database = database::needed(need, &names)?;
    let name = database.name.clone();
    proposal.add_database(database);
    Some(name)
}

/// The services of a compose file that are built from a directory give their name, their port and their
/// dependencies to the program that was found there. Returns those that match none.
fn match_built(
    parts: &mut [Part],
    mut built: Vec<Built>,
    proposal: &mut Proposal,
    file: &str,
) -> Vec<Service> {
    // The one with a port is the program; a worker of the same directory is another one.
    built.sort_by_key(|it| (it.migrates, it.service.port.is_none()));
    let is_single = built.iter().filter(|it| !it.migrates).count() == 1;
    let programs = parts.iter().map(|part| part.programs.len()).sum::<usize>();
    let mut matched: Vec<String> = Vec::new();
    let mut rest = Vec::new();
    for it in built {
        let part = parts.iter_mut().find(|part| {
            let is_there = |program: &Service| Some(&program.at) == it.at.as_ref();
            let is_meant = part
                .programs
                .iter()
                .filter(|program| is_there(program))
                .count()
                == 1;
            is_meant || (is_single && programs == 1 && part.programs.len() == 1)
        });
        let migration = part.as_ref().and_then(|part| part.migration.as_ref());
        if let (true, Some(migration)) = (it.migrates, migration) {
            let (name, command) = (&it.service.name, &migration.command);
            let remark =
                format!("{file}: {name} was left aside: `{command}` runs before the program");
            proposal.remarks.push(remark);
            continue;
        }
        let is_second = it.at.as_ref().is_some_and(|at| matched.contains(at));
        let Some(part) = part.filter(|_| !it.migrates && !is_second) else {
            rest.push(it.service);
            continue;
        };
        matched.extend(it.at.clone());
        let mut programs = part.programs.iter_mut();
        let own = programs.position(|program| Some(&program.at) == it.at.as_ref());
        let Some(program) = part.programs.get_mut(own.unwrap_or_default()) else {
            continue;
        };
        let variables = it.service.env.iter().map(|(name, _)| name);
        let variables = variables.chain(&it.service.secrets);
        let is_url = |name: &&String| {
            let mut known = it.needs.iter().flat_map(|need| &need.variables);
            known.any(|(known, _)| known == *name)
        };
        let variables: Vec<&str> = variables
            .filter(|name| !is_url(name))
            .map(String::as_str)
            .collect();
        if !variables.is_empty() {
            let variables = variables.join(", ");
            program.remarks.push(format!(
                "{file} gives it {variables}, which were not taken over."
            ));
        }
        program.name = it.service.name;
        program.depends_on.extend(it.service.depends_on);
        program.port = program.port.take().or(it.service.port);
        program.reason += &format!("; {file} calls it {}", program.name);
        it.needs
            .into_iter()
            .for_each(|need| needs::add(&mut part.needs, need));
    }
    rest
}

/// The only forwarded port that no database has belongs to the only program without a port.
fn forward(parts: &mut [Part], container: &DevContainer, proposal: &mut Proposal) {
    let ports = parts
        .iter()
        .flat_map(|part| &part.programs)
        .filter_map(|it| it.port.as_ref());
    let used: Vec<u16> = ports.map(|(port, _)| *port).collect();
    let is_known = |port: u16| proposal.owner(port).is_some() || used.contains(&port);
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
fn connect(program: &mut Service, need: &Need, database: &Service) {
    if !program.depends_on.contains(&database.name) {
        program.depends_on.push(database.name.clone());
    }
    let Some(access) = &database.access else {
        return;
    };
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
