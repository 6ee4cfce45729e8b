//! Decides the scheme of a port's address, and the `Host` that the server behind a preview sees.
//!
//! The program that serves the port decides; without a known program, the port's name and its
//! well-known number do. Everything else is taken for HTTP.

/// The scheme of HTTP servers, which have a preview.
pub const HTTP: &str = "http";

/// Programs, port names and port numbers of servers that do not speak HTTP.
struct Known {
    scheme: &'static str,
    programs: &'static [&'static str],
    names: &'static [&'static str],
    numbers: &'static [u16],
}

const KNOWN: [Known; 9] = [
    Known {
        scheme: "postgres",
        programs: &["postgres", "postmaster", "pg_ctl", "pg_ctlcluster"],
        names: &[
            "postgres",
            "postgresql",
            "pg",
            "pgsql",
            "timescale",
            "postgis",
        ],
        numbers: &[5432],
    },
    Known {
        scheme: "redis",
        programs: &["redis-server", "valkey-server", "keydb-server", "dragonfly"],
        names: &["redis", "valkey", "keydb", "dragonfly"],
        numbers: &[6379],
    },
    Known {
        scheme: "mysql",
        programs: &["mysqld", "mysqld_safe", "mariadbd", "mariadbd-safe"],
        names: &["mysql", "mariadb"],
        numbers: &[3306],
    },
    Known {
        scheme: "mongodb",
        programs: &["mongod"],
        names: &["mongo", "mongodb"],
        numbers: &[27017],
    },
    Known {
        scheme: "amqp",
        programs: &["rabbitmq-server"],
        names: &["rabbitmq", "amqp"],
        numbers: &[5672],
    },
    Known {
        scheme: "nats",
        programs: &["nats-server"],
        names: &["nats"],
        numbers: &[4222],
    },
    Known {
        scheme: "memcached",
        programs: &["memcached"],
        names: &["memcached", "memcache"],
        numbers: &[11211],
    },
    Known {
        scheme: "kafka",
        programs: &["kafka-server-start.sh", "kafka-server-start", "redpanda"],
        names: &["kafka", "redpanda"],
        numbers: &[9092],
    },
    Known {
        scheme: "smtp",
        programs: &[],
        names: &["smtp"],
        numbers: &[25, 587, 1025],
    },
];

/// Programs that certainly speak HTTP, whatever their port is called.
const HTTP_PROGRAMS: [&str; 12] = [
    "npm", "npx", "pnpm", "yarn", "bun", "node", "next", "vite", "uvicorn", "gunicorn", "flask",
    "rails",
];

/// Commands of development servers that refuse a `Host` which their settings do not list. Each row
/// is a sequence of words that the command contains.
const CHECK_HOST: [&[&str]; 11] = [
    &["manage.py", "runserver"],
    &["django-admin", "runserver"],
    &["rails", "s"],
    &["rails", "server"],
    &["webpack", "serve"],
    &["webpack", "s"],
    &["webpack-dev-server"],
    &["react-scripts", "start"],
    &["craco", "start"],
    &["vue-cli-service", "serve"],
    &["ng", "serve"],
];

/// The scheme of a port: by the program of the service that listens on it, else by the port's name, else by
/// its number.
pub fn scheme(run: Option<&str>, name: &str, port: u16) -> &'static str {
    let commands = run.map(simple_commands).unwrap_or_default();
    let programs: Vec<&str> = commands
        .iter()
        .filter_map(|words| words.first().copied())
        .collect();
    let has = |program: &&str| programs.contains(program);
    if let Some(known) = KNOWN.iter().find(|known| known.programs.iter().any(has)) {
        return known.scheme;
    }
    if HTTP_PROGRAMS.iter().any(has) {
        return HTTP;
    }
    let by_name = KNOWN.iter().find(|known| known.names.contains(&name));
    let by_number = || KNOWN.iter().find(|known| known.numbers.contains(&port));
    by_name
        .or_else(by_number)
        .map_or(HTTP, |known| known.scheme)
}

/// The `Host` that a server of this command needs to see: `None` if it accepts the preview's own.
pub fn default_host(run: &str, port: u16) -> Option<String> {
    let commands = simple_commands(run);
    let checks = CHECK_HOST.iter().any(|row| {
        commands.iter().any(|words| {
            let mut rest = words.iter();
            row.iter().all(|word| rest.any(|found| found == word))
        })
    });
    checks.then(|| format!("localhost:{port}"))
}

/// The simple commands of a shell command, each as words without directories. The first word is the
/// program: assignments and programs that only start another one are skipped.
fn simple_commands(run: &str) -> Vec<Vec<&str>> {
    const STARTERS: [&str; 6] = ["exec", "env", "nohup", "time", "command", "bundle"];
    let commands = run.split([';', '&', '|', '(', ')', '{', '}', '\n']);
    let commands = commands.map(|command| {
        let words = command.split_whitespace();
        let words = words.map(|word| word.trim_matches(['"', '\'']));
        let words = words.skip_while(|word| STARTERS.contains(word) || word.contains('='));
        words
            .map(|word| word.rsplit('/').next().unwrap_or(word))
            .collect()
    });
    commands
        .filter(|words: &Vec<&str>| !words.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_decides_then_the_name_then_the_number() {
        let check = |run: Option<&str>, name: &str, port: u16, expect: &str| {
            assert_eq!(scheme(run, name, port), expect, "{run:?} {name} {port}");
        };
        check(Some("postgres -D /data/pg -k /tmp"), "db", 5555, "postgres");
        check(
            Some("exec /usr/lib/postgresql/16/bin/postgres -D x"),
            "db",
            1,
            "postgres",
        );
        check(
            Some("mkdir -p x && redis-server --port 7000"),
            "cache",
            7000,
            "redis",
        );
        check(Some("FOO=1 mysqld --datadir=x"), "db", 3307, "mysql");
        check(Some("npm run dev"), "redis", 3000, "http");
        check(None, "redis", 7000, "redis");
        check(None, "db", 5432, "postgres");
        check(None, "db", 9999, "http");
        check(None, "web", 3000, "http");
        check(Some("./scripts/start-db"), "db", 5432, "postgres");
        check(Some("echo postgres; exec ./serve"), "web", 3000, "http");
    }

    #[test]
    fn servers_that_check_the_host_see_localhost() {
        let check = |run: &str, expect: Option<&str>| {
            assert_eq!(default_host(run, 8000).as_deref(), expect, "{run}");
        };
        let localhost = Some("localhost:8000");
        check("python manage.py runserver 0.0.0.0:8000", localhost);
        check(".venv/bin/python3 ./manage.py runserver", localhost);
        check("bin/rails server -p 8000", localhost);
        check("bundle exec rails s", localhost);
        check("npx webpack serve --mode development", localhost);
        check("react-scripts start", localhost);
        check("ng serve --port 8000", localhost);
        check("npm run dev", None);
        check("vite --port 8000", None);
        check("python manage.py migrate", None);
        check("rails console", None);
    }
}
