//! Compose files, and unexpected texts in files.

use super::{check, checkout, proposed, summary};
use proptest::prelude::*;

/// Databases that a program of the repository uses, which the file does not run.
const DATABASES: &str = r#"
services:
  db:
    image: postgres:16-alpine
    ports: ["5433:5432"]
    environment: [POSTGRES_USER=shop, "POSTGRES_PASSWORD=hunter/2", "POSTGRES_DB=${DB_NAME:-shop_dev}"]
    volumes: ["pg:/var/lib/postgresql/data", "./db/init.sql:/docker-entrypoint-initdb.d/1.sql:ro"]
  session_store:
    image: docker.io/library/redis:7
    command: redis-server --requirepass hunter2
  debug-db: { image: postgres, profiles: [debug] }
volumes: {pg: {}}
"#;

const MANIFEST: &str = r#"{"scripts":{"dev":"next dev"},"dependencies":{"pg":"8","ioredis":"5"}}"#;

#[test]
fn databases_of_a_file_for_a_program_beside_it() {
    let files = [
        ("compose.yaml", DATABASES),
        ("package.json", MANIFEST),
        ("package-lock.json", "{}"),
        (".env", "A=1"),
    ];
    check(
        &files,
        &[
            "looks like Node: package.json",
            "looks like Compose: compose.yaml",
            "setup npm ci",
            "compose compose.yaml runs db session-store",
            "service web:3000 = npm run dev DATABASE_URL=postgres://shop:hunter%2F2@127.0.0.1:5433/shop_dev REDIS_URL=redis://:hunter2@session-store:6379 after db session-store",
            "volume pg",
            "maybe include .env",
        ],
    );
    let directory = checkout(&files);
    let text = proposed(directory.path()).0.to_toml();
    for line in [
        "compose = \"compose.yaml\"            # its services: db, session-store",
        "# Its URL has the password that the Compose file shows.",
        "depends_on = [\"db\", \"session-store\"]",
        "[volumes.pg]",
        "policy = \"fork\"                     # the first start of db makes the data, each workspace gets a copy",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}\n{text}");
    }
    // The file's override is read, too.
    let files = [
        files[0],
        files[1],
        (
            "compose.override.yaml",
            "services: {db: {ports: !override [\"6000:5432\"]}, mail: {image: mailhog}}",
        ),
    ];
    let found = summary(checkout(&files).path());
    assert!(found.contains(&"compose compose.yaml runs db mail session-store".to_owned()));
    assert!(found[4].contains("@127.0.0.1:6000/"), "{found:#?}");
}

#[test]
fn a_program_that_the_file_runs_is_not_listed_again() {
    let file = |service: &str| {
        format!(
            "services:\n  app: {{{service}, ports: [\"3000:3000\"]}}\n  db: {{image: postgres}}\n"
        )
    };
    let runs = [
        "image: node:22, working_dir: /app, volumes: [\".:/app\"], command: npm run dev",
        "image: node:22, volumes: [\"./:/app\", \"/app/node_modules\"], command: npm run dev",
    ];
    for service in runs {
        check(
            &[
                ("docker-compose.yml", &file(service)),
                ("package.json", MANIFEST),
                ("package-lock.json", "{}"),
            ],
            &[
                "looks like Node: package.json",
                "looks like Compose: docker-compose.yml",
                "compose docker-compose.yml runs app db",
                "note docker-compose.yml runs the program, so `setup` was left out: npm ci",
            ],
        );
    }
    // A container in which programs are started by hand, and one that only shows files, run none.
    let runs_none = [
        "image: node:22, working_dir: /app, volumes: [\".:/app\"], command: sleep infinity",
        "image: nginx, volumes: [\"./:/usr/share/nginx/html\"], command: nginx",
    ];
    for service in runs_none {
        let file = file(service);
        let directory = checkout(&[("compose.yml", &file), ("package.json", MANIFEST)]);
        let found = summary(directory.path());
        // The file publishes the port of the program.
        let program = "service web = npm run dev DATABASE_URL=postgres://postgres@db:5432/postgres";
        assert!(
            found.iter().any(|line| line.starts_with(program)),
            "{found:#?}"
        );
    }
    // Names are never the same.
    let file = "services: {web: {image: redis}, db: {image: mailhog}}";
    let directory = checkout(&[("compose.yml", file), ("package.json", MANIFEST)]);
    let found = summary(directory.path()).join("\n");
    assert!(
        found.contains("service web-2:3000 = npm run dev")
            && found.contains("service postgres:5432"),
        "{found}"
    );
}

#[test]
fn what_a_file_asks_of_the_host_is_named() {
    let file = r#"
services:
  app:
    image: alpine
    privileged: true
    environment: [USER_TOKEN, "OTHER=${USER_TOKEN}"]
    volumes: ["/var/run/docker.sock:/var/run/docker.sock"]
    command: sh ${UNKNOWN:-run}
"#;
    let directory = checkout(&[("compose.yaml", file)]);
    let (proposal, _) = proposed(directory.path());
    let asked = proposal.compose.clone().unwrap().requests;
    let places: Vec<&str> = asked
        .iter()
        .map(|line| line.split_inclusive(':').take(2).map(str::len).sum())
        .zip(&asked)
        .map(|(length, line)| &line[..length])
        .collect();
    assert_eq!(
        places,
        ["compose.yaml:5:", "compose.yaml:7:", "compose.yaml:6:"],
        "{asked:#?}"
    );
    let text = proposal.to_toml();
    for line in [
        "# This needs your approval, `holm trust`:",
        "# - compose.yaml:6: reads variable `USER_TOKEN` of your environment",
        "compose = \"compose.yaml\"            # its services: app",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}\n{text}");
    }
}

#[test]
fn a_build_that_loads_something_gets_a_network() {
    let file = "
services:
  web:
    build: web
  worker:
    build: worker
  api:
    build: {context: web, network: host}
";
    let directory = checkout(&[
        ("compose.yaml", file),
        ("web/Dockerfile", "FROM a\nRUN npm ci\n"),
        ("worker/Dockerfile", "FROM a\nCOPY . /\n"),
    ]);
    let (proposal, config) = proposed(directory.path());
    let text = proposal.to_toml();
    let line = "build = { network = \"default\" }     # web/Dockerfile runs npm, and a build has no network without your approval";
    assert!(
        text.contains(&format!("[services.web]\n{line}\n")),
        "{text}"
    );
    assert_eq!(text.matches("network = ").count(), 1, "{text}");
    let services: Vec<String> = config.services.keys().map(ToString::to_string).collect();
    assert_eq!(services, ["web"]);
}

#[test]
fn files_that_git_ignores() {
    // Without the file it could not be read, so `include` brings it along. Its values are not repeated.
    let file =
        "services:\n  db:\n    image: postgres\n    env_file: .env\n    ports: [\"5432:5432\"]\n";
    let files = [
        ("compose.yaml", file),
        (".env", "POSTGRES_PASSWORD=of-the-user\n"),
        ("package.json", MANIFEST),
    ];
    let (proposal, config) = proposed(checkout(&files).path());
    let text = proposal.to_toml();
    assert_eq!(config.project.include.len(), 1, "{text}");
    assert!(text.contains("compose = \"compose.yaml\""), "{text}");
    assert!(!text.contains("# include"), "{text}");
    // A variable of the user without which it cannot be read.
    let file = "services: {app: {image: alpine, command: \"echo ${USER_TOKEN:?needed}\"}}";
    let found = summary(checkout(&[("compose.yaml", file)]).path());
    assert!(
        found
            .iter()
            .any(|line| line.starts_with("asks compose.yaml:1: `environment.USER_TOKEN`")),
        "{found:#?}"
    );
}

#[test]
fn a_file_that_holm_refuses_is_a_comment() {
    let file = "services:\n  db:\n    image: postgres\n    bild: .\n  cache: {image: redis}\n";
    let files = [
        ("docker/compose.yaml", file),
        ("package.json", MANIFEST),
        (".env.example", "DATABASE_URL=postgres://a:b@db/shop\n"),
    ];
    check(
        &files,
        &[
            "looks like Node: package.json",
            "looks like Compose: docker/compose.yaml",
            "setup npm install",
            "refused docker/compose.yaml:4:5: unknown key `bild` in `services.db`; did you mean `build`?",
            "service web:3000 = npm run dev DATABASE_URL=postgres://a@127.0.0.1:5432/shop REDIS_URL=redis://127.0.0.1:6379 after db redis",
            "service db:5432 = … exec postgres -D ~/db/data -k /tmp -c listen_addresses=127.0.0.1 ready by its log",
            "service redis:6379 = mkdir -p ~/redis && exec redis-server --bind 127.0.0.1 --port 6379 --dir ~/redis",
            "volume db",
            "volume redis",
            "note .env.example shows settings; the checkout has no ignored .env made from it",
        ],
    );
    let text = proposed(checkout(&files).path()).0.to_toml();
    for line in [
        "# holm refuses docker/compose.yaml until this is changed:",
        "# compose = \"docker/compose.yaml\"",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}\n{text}");
    }
    // What the translation refuses has its place, too.
    let check = |file: &str, place: &str| {
        let found = summary(checkout(&[("compose.yml", file)]).path()).join("\n");
        assert!(
            found.contains(&format!("refused compose.yml:{place}: ")),
            "{found}"
        );
    };
    check(
        "services:\n  a: {image: x, ports: [\"80:80\"]}\n  b:\n    image: x\n    ports: [\"80:81\"]\n",
        "5:5",
    );
    check("services:\n  a_b: {image: x}\n  a-b: {image: x}\n", "2:3");
}

proptest! {
    /// Whatever the files contain, the result is a valid file with exactly the proposal.
    #[test]
    fn every_proposal_can_be_read(
        script in "\\PC{0,40}|[\u{0}-\u{20}\"'\\\\#=\u{202e}]{0,20}",
        name in "\\PC{1,50}",
        value in "\\PC{0,30}|[\n\r\t\"'\\\\\\[\\]=#]{0,20}",
        procfile in "([a-z]{1,5}: )?\\PC{0,40}",
    ) {
        let quoted = |text: &str| serde_json::Value::String(text.to_owned()).to_string();
        let manifest = format!(r#"{{"scripts":{{"dev":{0}}},"workspaces":[{0}]}}"#, quoted(&script));
        // JSON is YAML.
        let compose = format!(
            r#"{{"services":{{{0}:{{"image":{1},"command":{1},"environment":{{"A":{1},{0}:{1}}},"depends_on":[{0}],"ports":[{1}]}},"db":{{"image":"postgres","command":{1},"volumes":[{1}],"environment":{{"POSTGRES_DB":{1}}}}}}}}}"#,
            quoted(&name),
            quoted(&value)
        );
        let directory = checkout(&[("package.json", &manifest), ("compose.yaml", &compose)]);
        summary(directory.path());
        std::fs::write(directory.path().join("Procfile"), procfile).unwrap();
        summary(directory.path());
    }
}
