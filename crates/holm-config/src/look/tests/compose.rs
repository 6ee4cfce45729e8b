//! Compose files, and unexpected texts in files.

use super::{check, checkout, proposed, summary};
use proptest::prelude::*;

const COMPOSE: &str = r#"
x-common: &common
  LOG_LEVEL: debug
services:
  app:
    build: { context: ./app }
    command: ["node", "server.js", "--title", "my shop"]
    ports: ["127.0.0.1:3000:8080/tcp"]
    depends_on:
      db: { condition: service_healthy }
      session_store: {}
    environment:
      <<: *common
      NODE_ENV: ${NODE_ENV:-development}
      DATABASE_URL: postgres://shop:hunter2@db:5432/shop
      STRIPE_KEY: sk_live_0123
      REGION:
  db:
    image: postgres:16-alpine
    ports: ["5433:5432"]
    environment: [POSTGRES_USER=shop, POSTGRES_PASSWORD=hunter2, "POSTGRES_DB=${DB_NAME:-shop_dev}"]
    volumes: ["pg:/var/lib/postgresql/data", "./db/init.sql:/docker-entrypoint-initdb.d/1.sql:ro"]
  session_store:
    image: docker.io/library/redis:7
    command: redis-server --requirepass hunter2
  search: { image: "opensearchproject/opensearch:2", ports: ["9200:9200"] }
  debug-db: { image: postgres, profiles: [debug] }
"#;

#[test]
fn a_compose_file() {
    let files = [
        ("compose.yaml", COMPOSE),
        ("package.json", r#"{"scripts":{"dev":"next dev"}}"#),
        (".env", "A=1"),
        (
            "compose.override.yaml",
            "services: {evil: {image: postgres}}",
        ),
    ];
    check(
        &files,
        &[
            "looks like Node: package.json",
            "looks like Compose: compose.yaml",
            "service app:3000 = npm run dev DATABASE_URL=postgres://shop@127.0.0.1:5432/shop_dev after db session-store",
            "service db:5432 = … exec postgres -D ~/db/data -k /tmp -c listen_addresses=127.0.0.1 ready by its log",
            "service session-store:6379 = mkdir -p ~/session-store && exec redis-server --bind 127.0.0.1 --port 6379 --dir ~/session-store",
            "volume db",
            "volume session-store",
            "maybe search:9200 = ?",
            "maybe debug-db = exec postgres -D ~/debug-db/data -k /tmp -c listen_addresses=127.0.0.1",
            "maybe include .env",
            "note compose.override.yaml was not read",
        ],
    );
    let directory = checkout(&files);
    let (proposal, config) = proposed(directory.path());
    let text = proposal.to_toml();
    // No secret is repeated, wherever it was.
    for secret in ["hunter2", "sk_live"] {
        assert!(!text.contains(secret), "{text}");
    }
    let expected = [
        "# compose.yaml gives it NODE_ENV, LOG_LEVEL, STRIPE_KEY, REGION, which were not taken over.",
        "# The image would run ./db/init.sql when the database is new; this does not.",
        "# It is called `session_store` in compose.yaml.",
        "# compose.yaml gives it arguments, which were not taken over.",
        "db = 5432                           # compose.yaml shows it as 5433 outside",
        "# compose.yaml: debug-db: starts only with the profile debug",
        "# include = [\".env\"]                # git ignores it; to bring it needs `holm trust`",
    ];
    for line in expected {
        assert!(text.lines().any(|it| it == line), "{line}\n{text}");
    }
    let name = holm_core::config::Name::parse("db").unwrap();
    let run = &config.services[&name].run;
    assert!(run.contains("initdb -D ~/db/new -U shop "), "{run}");
    assert!(run.contains("CREATE DATABASE \"shop_dev\""), "{run}");
}

#[test]
fn a_compose_file_alone() {
    // No program is found: what is built from the repository is a suggestion.
    let files = [("compose.yaml", COMPOSE)];
    let directory = checkout(&files);
    let found = summary(directory.path());
    let expected = [
        "maybe app:8080 = node server.js --title 'my shop'",
        "  secret DATABASE_URL",
        "  secret STRIPE_KEY",
        "  secret REGION",
    ];
    for line in expected {
        assert!(found.iter().any(|it| it == line), "{found:#?}");
    }
    let text = proposed(directory.path()).0.to_toml();
    let line = "# env = { NODE_ENV = \"development\", LOG_LEVEL = \"debug\" }";
    assert!(text.contains(line), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
    let line = "# compose.yaml: app: built as an image from `./app`; say what runs here instead";
    assert!(text.contains(line), "{text}");
}

#[test]
fn databases_of_compose_files() {
    let compose = |services: &str| format!("services:\n{services}");
    let mysql = compose("  db: {image: 'mysql:8', environment: {MYSQL_DATABASE: shop}}\n");
    let mysql = mysql + "  two: {image: mariadb}\n";
    check(
        &[("docker-compose.yml", &mysql)],
        &[
            "looks like Compose: docker-compose.yml",
            "service db:3306 = … --bind-address=127.0.0.1 --port=3306 --skip-grant-tables --init-file=\"$HOME/db/begin.sql\"",
            "volume db",
            "maybe two = --bind-address=127.0.0.1 --port=3306 --skip-grant-tables",
        ],
    );
    // Values that are not plain words are not put into a script.
    let strange = compose(
        "  db: {image: postgres, environment: {POSTGRES_USER: \"x'; touch /tmp/y; '\", POSTGRES_DB: $NAME}}\n",
    );
    let directory = checkout(&[("compose.yml", &strange)]);
    let (proposal, config) = proposed(directory.path());
    let run = &config.services.values().next().unwrap().run;
    assert!(
        run.contains("-U postgres ") && !run.contains("touch"),
        "{run}"
    );
    assert!(
        proposal
            .to_toml()
            .contains("POSTGRES_USER has no plain value there")
    );
    // Other images may contain anything.
    for image in [
        "bitnami/postgresql",
        "postgis/postgis:16",
        "registry.example.org/postgres",
        "redis/redis-stack",
    ] {
        let services = compose(&format!("  db: {{image: '{image}'}}\n"));
        let directory = checkout(&[("compose.yml", &services)]);
        let (proposal, config) = proposed(directory.path());
        assert!(
            config.services.is_empty() && proposal.suggestions.len() == 1,
            "{image}"
        );
    }
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
