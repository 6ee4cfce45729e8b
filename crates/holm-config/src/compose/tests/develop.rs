//! What `develop.watch` and `pre_start` mean for a workspace.

use super::super::Unread;
use super::super::services::preview;
use holm_core::compose::ComposeFiles;
use holm_core::compose_services::Translated;
use holm_core::config::{Name, OnAssign, Service};
use holm_core::container::{AfterChange, Attachment, Container};
use std::path::Path;

fn translated(compose: &str) -> Result<Translated, Vec<String>> {
    let mut read = |path: &str| match path {
        "compose.yaml" => Ok(compose.to_owned()),
        _ => Err(Unread::Missing),
    };
    preview("compose.yaml", &ComposeFiles::default(), &mut read).map(|(_, translated)| translated)
}

fn service<'a>(translated: &'a Translated, name: &str) -> &'a Service {
    &translated.services[&Name::parse(name).unwrap()]
}

fn container<'a>(translated: &'a Translated, name: &str) -> &'a Container {
    let image = service(translated, name).image.as_ref().unwrap();
    image.container.as_ref().unwrap()
}

#[test]
fn rules_of_a_watch() {
    let found = translated(
        "
services:
  web:
    build: ./web
    volumes: ['./web/static:/static']
    develop:
      watch:
        - {path: ./web/src, action: sync, target: /app/src, ignore: [x/], initial_sync: true}
        - {path: ./web/static, action: sync, target: /static}
        - {path: ./web/package.json, action: rebuild}
        - {path: ./shared, action: sync+exec, target: /shared, exec: {command: make}}
        - {path: ../elsewhere, action: restart}
",
    );
    let found = found.unwrap();
    let watches = &container(&found, "web").watches;
    let places: Vec<_> = watches
        .iter()
        .map(|it| (it.base.to_str().unwrap(), it.path.to_str().unwrap()))
        .collect();
    let expected = [("web", "src"), ("web", "package.json"), ("", "shared")];
    assert_eq!(places, expected);
    assert!(watches[0].is_initial && watches[0].is_context && !watches[2].is_context);
    assert_eq!(watches[0].target.as_deref(), Some(Path::new("/app/src")));
    assert_eq!(watches[0].then, AfterChange::Nothing);
    assert_eq!(watches[1].then, AfterChange::Outdated);
    assert!(matches!(&watches[2].then, AfterChange::Run(hook) if hook.command == ["make"]));
    // A commit with other files of the image makes another image.
    let web = service(&found, "web");
    assert_eq!(web.on_assign, OnAssign::Rebuild);
    let when: Vec<_> = web.rebuild_when.iter().map(ToString::to_string).collect();
    assert_eq!(when, ["web/package.json/**", "web/package.json"]);
    let warnings = found.warnings.join("\n");
    assert!(warnings.contains("mounted there"), "{warnings}");
    assert!(
        warnings.contains("not below the project's root"),
        "{warnings}"
    );
    for (rule, word) in [
        ("{path: ./a, action: sync}", "needs `target`"),
        (
            "{path: ./a, action: sync+exec, target: /a}",
            "needs `exec.command`",
        ),
    ] {
        let file = format!("services: {{web: {{image: x, develop: {{watch: [{rule}]}}}}}}");
        let errors = translated(&file).unwrap_err().join("\n");
        assert!(errors.contains(word), "{errors}");
        // The place of the key, although only `develop` is one of the service.
        assert!(errors.starts_with("compose.yaml:1:28: "), "{errors}");
    }
}

#[test]
fn steps_before_a_service_are_services() {
    let found = translated(
        "
services:
  db: {image: x, healthcheck: {test: [CMD, ok]}}
  my_app:
    image: app
    entrypoint: [/entry]
    command: serve
    environment: {A: one, B: one}
    volumes: ['data:/data']
    depends_on: {db: {condition: service_healthy}}
    restart: always
    pre_start:
      - {command: migrate}
      - {command: [seed, it], image: other, environment: {B: two}, user: root}
volumes: {data: {}}
",
    );
    let found = found.unwrap();
    let waits = |name: &str| -> Vec<String> {
        let names = service(&found, name).depends_on.iter();
        names.map(ToString::to_string).collect()
    };
    assert_eq!(waits("my-app-pre-start-1"), ["db"]);
    assert_eq!(waits("my-app-pre-start-2"), ["my-app-pre-start-1"]);
    assert_eq!(waits("my-app"), ["my-app-pre-start-2"]);
    let step = container(&found, "my-app-pre-start-2");
    assert!(step.is_job && !container(&found, "my-app").is_job);
    assert_eq!(step.network, Attachment::Of("my-app".to_owned()));
    assert_eq!(step.entrypoint.as_deref(), Some(&["/entry".to_owned()][..]));
    assert_eq!(step.command.as_ref().unwrap(), &["seed", "it"]);
    assert_eq!(step.environment.last().unwrap().1, "two");
    assert_eq!(step.mounts.len(), 1);
    let image = service(&found, "my-app-pre-start-2")
        .image
        .as_ref()
        .unwrap();
    assert!(
        image.reference.to_string().contains("other"),
        "{}",
        image.reference
    );
    let clash = "services: {a: {image: x, pre_start: [{command: y}]}, a-pre-start-1: {image: x}}";
    let errors = translated(clash).unwrap_err().join("\n");
    assert!(errors.contains("and a service too"), "{errors}");
}
