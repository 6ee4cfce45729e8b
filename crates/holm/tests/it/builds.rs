//! Images that are built from Dockerfiles of the repository, with a real builder: buildah, rootless.

use crate::images::archive_with;
use crate::support::{Island, Ran, Repository, Running, TestImage, eventually, index, skipped};
use holm_core::image_reference::ImageReference;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// A program's files below `root` of the repository, so that `FROM scratch` is enough.
const PROGRAMS: [&str; 4] = ["/bin/sh", "/usr/bin/cat", "/usr/bin/sleep", "/usr/bin/ls"];

pub const DOCKERFILE: &str = "FROM scratch AS base\nCOPY root/ /\nARG COLOUR=grey\n\
    RUN [\"/bin/sh\", \"-c\", \"ls -l /proc/self/ns > /net; echo $COLOUR > /colour\"]\n\
    FROM base AS prod\nCOPY . /app\nCMD [\"/bin/sh\", \"-c\", \"cat /colour /net; ls /app; cat /app/text; exec sleep 1000\"]\n\
    FROM base\nRUN [\"/bin/sh\", \"-c\", \"exit 3\"]\n";

const COMPOSE: &str =
    "services:\n  web:\n    build: {context: web, target: prod, args: {COLOUR: green}}\n";

fn island() -> Option<Island> {
    rootless("buildah")
}

/// An island whose user has buildah or podman, and whose holm builds with it; `None` where it is not installed.
pub fn rootless(builder: &str) -> Option<Island> {
    if !Path::new("/usr/bin").join(builder).exists() {
        skipped(&format!("{builder} is not installed"));
        return None;
    }
    let island = Island::new();
    island.make_dir("home/.config");
    island.make_dir("home/.config/containers");
    let home = island.home();
    let storage = format!(
        "[storage]\ndriver = \"vfs\"\nrunroot = \"{0}/run\"\ngraphroot = \"{0}/images\"\n",
        home.display()
    );
    island.write("home/.config/containers/storage.conf", storage);
    // Debian's other runtime refuses machines with both versions of control groups.
    let engine = "[engine]\nruntime = \"runc\"\n[containers]\nnetns = \"host\"\n";
    island.write("home/.config/containers/containers.conf", engine);
    island.make_dir("holm");
    island.make_dir("holm/config");
    let settings = format!("[images]\nbuilder = \"{builder}\"\n");
    island.write("holm/config/config.toml", settings);
    island.make_dir("home/bin");
    let asked = home.join("asked");
    // Without this directory they would use one below /tmp, for all tests.
    let runtime = island.make_dir("home/runtime");
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700)).unwrap();
    let script = format!(
        "#!/bin/sh\nexport XDG_RUNTIME_DIR={}\necho \"$$ $*\" >> {}\n\
         [ ! -e {lost} ] || [ \"$1\" != build ] || {{ rm {lost}; echo 'ApplyLayer: signal: killed'; exit 1; }}\n\
         exec /usr/bin/{builder} \"$@\"\n",
        runtime.display(),
        asked.display(),
        lost = home.join("lost").display(),
    );
    let program = island.write(Path::new("home/bin").join(builder), script);
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
    Some(island)
}

fn command(island: &Island, directory: &Path, arguments: &[&str]) -> Command {
    let mut command = island.holm_command(directory, arguments);
    let path = format!("{}:/usr/bin:/bin", island.home().join("bin").display());
    command.env("PATH", path);
    // With this a build would have the host's network, whatever else it is told.
    command.env("BUILDAH_ISOLATION", "chroot");
    command
}

pub fn holm(repository: &Repository<'_>, arguments: &[&str]) -> Ran {
    Ran::new(&mut command(repository.island, &repository.path, arguments))
}

/// The command lines of all builds so far. Debian's buildah fails now and then by itself, and holm calls it again with the
/// same words.
pub fn builds(island: &Island) -> Vec<String> {
    let asked = fs::read_to_string(island.home().join("asked")).unwrap_or_default();
    let lines = asked
        .lines()
        .filter(|line| line.contains(" build --iidfile"));
    let mut lines: Vec<String> = lines.map(str::to_owned).collect();
    lines.dedup_by_key(|line| line.split_once(' ').map(|(_, words)| words.to_owned()));
    lines
}

/// Copies programs of this machine, with their libraries.
pub fn copy_programs(repository: &Repository<'_>, below: &str, programs: &[&str]) {
    let mut files: BTreeSet<String> = programs.iter().map(|it| (*it).to_owned()).collect();
    for program in programs {
        let listed = Command::new("ldd").arg(program).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let words = listed
            .split_whitespace()
            .filter(|word| word.starts_with('/'));
        files.extend(words.map(str::to_owned));
    }
    for file in files {
        let place = format!("{below}{file}");
        repository.write(&place, fs::read(&file).unwrap());
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(repository.path.join(place), mode).unwrap();
    }
}

pub fn stack<'a>(island: &'a Island, dockerfile: &str) -> Repository<'a> {
    let repository = island.repository("shop");
    repository.write("holm.toml", "[project]\ncompose = \"compose.yaml\"\n");
    repository.write("compose.yaml", COMPOSE);
    repository.write("web/Dockerfile", dockerfile);
    repository.write("web/.dockerignore", "*.secret\nroot\n!root\n");
    repository.write("web/text", "the first text\n");
    repository.write("web/key.secret", "hidden\n");
    repository.write(".gitignore", "local\n");
    repository.write("web/local", "of the checkout\n");
    copy_programs(&repository, "web/root", &PROGRAMS);
    repository.commit("a stack");
    repository
}

/// The network namespace of this process, and without `--network=none` that of a build of [`DOCKERFILE`].
pub fn network() -> String {
    let namespace = fs::read_link("/proc/self/ns/net").unwrap();
    namespace.display().to_string()
}

pub fn said(island: &Island, label: &str, word: &str) -> String {
    let mut logs = String::new();
    eventually("the service says it", || {
        logs = island.holm(&["logs", label, "web"]).ok().out();
        logs.contains(word)
    });
    logs
}

fn image_of(island: &Island, label: &str) -> ImageReference {
    let list = island.holm(&["image", "ls", "--json"]).json();
    let images = list["images"].as_array().unwrap().iter();
    let mut used = images.filter(|image| {
        let users = image["used_by"].as_array().unwrap();
        users.iter().any(|user| user["label"] == label)
    });
    let image: ImageReference = used.next().unwrap()["reference"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!(image.is_built() && used.next().is_none(), "{list}");
    image
}

#[test]
fn an_image_is_built_once_for_the_same_inputs() {
    let Some(island) = island() else { return };
    let repository = stack(&island, DOCKERFILE);
    // A build runs code of the repository.
    let asked = holm(&repository, &["up", "a", "--json"]).error(4);
    let words = asked["message"].as_str().unwrap();
    let about = "build an image from `web/Dockerfile` with your docker, podman or buildah, without a network";
    assert!(words.contains(about), "{asked}");
    assert_eq!(builds(&island), [""; 0]);
    let without = holm(&repository, &["up", "none", "--untrusted", "--json"]).json();
    assert_eq!(without["services"], json!([]), "{without}");
    assert_eq!(builds(&island), [""; 0]);

    holm(&repository, &["trust", "--yes"]).ok();
    // Two commands at once build it once. The builder loses a helper of its own meanwhile.
    island.write("home/lost", "");
    std::thread::scope(|scope| {
        let other = scope.spawn(|| holm(&repository, &["up", "other", "--json"]).ok());
        holm(&repository, &["up", "a", "--json"]).ok();
        other.join().unwrap();
    });
    assert_eq!(builds(&island).len(), 1);
    assert!(!island.home().join("lost").exists());
    island.holm(&["rm", "other", "--force"]).ok();
    let logs = said(&island, "a", "the first text");
    assert!(logs.contains("green"), "{logs}");
    // Its commands had a network of their own, with nothing in it.
    assert!(
        logs.contains("net:[") && !logs.contains(&network()),
        "{logs}"
    );
    assert!(
        !logs.contains("key.secret") && !logs.contains("local"),
        "{logs}"
    );
    let line = builds(&island).pop().unwrap();
    for word in [
        "--network=none",
        "--build-arg=COLOUR=green",
        "--target=prod",
    ] {
        assert!(line.contains(word), "{line}");
    }
    // The same inputs: nothing is built, whatever else changed.
    repository.write("web/key.secret", "another\n");
    repository.write("readme", "another\n");
    repository.commit("no input");
    let again = holm(&repository, &["up", "b", "--json"]).json();
    assert_eq!(builds(&island).len(), 1, "{again}");
    assert_eq!(image_of(&island, "a"), image_of(&island, "b"));
    // An uncommitted state, and then the same state committed.
    repository.write("web/text", "the second text\n");
    holm(&repository, &["up", "c", "--dirty", "--json"]).ok();
    said(&island, "c", "the second text");
    assert_eq!(builds(&island).len(), 2);
    repository.commit("the second text");
    holm(&repository, &["up", "d", "--json"]).ok();
    assert_eq!(builds(&island).len(), 2);
    // What no workspace uses can go.
    for label in ["c", "d"] {
        island.holm(&["rm", label, "--force"]).ok();
    }
    island.holm(&["gc", "--all"]).ok();
    assert_eq!(image_of(&island, "a"), image_of(&island, "b"));
    let left = island.holm(&["image", "ls", "--json"]).json();
    assert_eq!(left["images"].as_array().unwrap().len(), 1, "{left}");
}

#[test]
fn a_workspace_that_moves_gets_the_image_of_its_commit() {
    let Some(island) = island() else { return };
    let repository = stack(&island, DOCKERFILE);
    let settings = "[project]\ncompose = \"compose.yaml\"\n\
        [services.web]\non_assign = \"rebuild\"\nrebuild_when = [\"web/text\"]\n";
    repository.write("holm.toml", settings);
    repository.commit("rebuild");
    holm(&repository, &["trust", "--yes"]).ok();
    holm(&repository, &["up", "a", "--json"]).ok();
    let first = image_of(&island, "a");
    repository.write("web/other", "no reason to build\n");
    repository.commit("other");
    holm(&repository, &["assign", "a", "HEAD", "--json"]).ok();
    assert_eq!(image_of(&island, "a"), first);
    repository.write("web/text", "the second text\n");
    repository.commit("text");
    // A workspace that is there keeps its image, so nothing is built for it.
    let there = holm(&repository, &["up", "a", "--json"]).json();
    assert_eq!(there["created"], false, "{there}");
    assert_eq!(builds(&island).len(), 1);
    let moved = holm(&repository, &["assign", "a", "HEAD", "--json"]).json();
    assert_eq!(
        moved["move"]["services"][0]["reaction"], "rebuild",
        "{moved}"
    );
    said(&island, "a", "the second text");
    let second = image_of(&island, "a");
    assert_ne!(second, first);
    // A build that was there before is found again.
    let before = builds(&island).len();
    holm(&repository, &["sync", "a", "--json"]).ok();
    assert_eq!(builds(&island).len(), before);
    // The approval was for the text of the Dockerfile, too: a commit with another one asks again.
    repository.write("web/Dockerfile", format!("{DOCKERFILE}# another\n"));
    repository.write("web/text", "of another Dockerfile\n");
    repository.commit("another Dockerfile");
    for verb in [&["up", "b"][..], &["assign", "a", "HEAD"]] {
        let refused = holm(&repository, &[verb, &["--json"]].concat()).error(4);
        assert_eq!(refused["code"], "not_trusted", "{refused}");
    }
    assert_eq!(builds(&island).len(), before);
    assert_eq!(image_of(&island, "a"), second);
    holm(&repository, &["reload", "a", "--yes", "--json"]).ok();
    holm(&repository, &["assign", "a", "HEAD", "--json"]).ok();
    holm(&repository, &["restart", "a"]).ok();
    said(&island, "a", "of another Dockerfile");
    let second = image_of(&island, "a");
    // Another definition is another build, which is asked for; the image stays until then.
    repository.write(
        "holm.toml",
        settings.replace(
            "on_assign",
            "build = { args = { COLOUR = \"red\" } }\non_assign",
        ),
    );
    let asked = holm(&repository, &["reload", "a", "--dry-run", "--json"]).json();
    assert!(
        asked["asks"].to_string().contains("services.web.build"),
        "{asked}"
    );
    assert_eq!(image_of(&island, "a"), second);
    // The build takes the checkout as it is, and git runs what the repository's settings name only after approval.
    let ran = island.home().join("ran");
    let filter = format!("touch {}; cat", ran.display());
    repository.git(&["config", "filter.own.clean", &filter]);
    repository.write(".gitattributes", "web/text filter=own\n");
    repository.write("web/text", "the third text\n");
    let asked = holm(&repository, &["reload", "a", "--yes", "--json"]).error(4);
    assert_eq!(asked["code"], "not_trusted");
    assert!(!ran.exists(), "a filter ran");
    holm(&repository, &["trust", "--dirty", "--yes"]).ok();
    holm(&repository, &["reload", "a", "--yes", "--json"]).ok();
    assert!(ran.exists(), "the counterpart: an approved filter runs");
    holm(&repository, &["restart", "a"]).ok();
    said(&island, "a", "red");
    // The same inputs again, because the user asks for it.
    let before = builds(&island).len();
    holm(&repository, &["restart", "a", "--rebuild"]).ok();
    let lines = builds(&island);
    assert_eq!(lines.len(), before + 1);
    assert!(lines.last().unwrap().contains("--no-cache"), "{lines:?}");
    said(&island, "a", "red");
}

#[test]
fn the_table_of_holm_toml_builds_too_and_a_failed_build_says_why() {
    let Some(island) = island() else { return };
    let repository = stack(&island, DOCKERFILE);
    repository.write("holm.toml", "[services.web]\nbuild = \"web\"\n");
    repository.commit("a directory");
    holm(&repository, &["trust", "--yes"]).ok();
    // The last stage fails.
    let failed = holm(&repository, &["up", "a", "--json"]).error(1);
    assert_eq!(failed["code"], "build_failed");
    let words = failed["message"].as_str().unwrap();
    assert!(
        words.contains("buildah could not build the image of web") && words.contains("exit 3"),
        "{failed}"
    );
    assert!(
        failed["hint"]
            .as_str()
            .unwrap()
            .contains("network = \"default\""),
        "{failed}"
    );
    assert_eq!(
        island.holm(&["ls", "--json"]).json()["workspaces"],
        json!([])
    );
    let table =
        "[services.web]\nbuild = { context = \"web\", target = \"prod\" }\ntree = \"/code\"\n";
    repository.write("holm.toml", table);
    repository.commit("a table");
    holm(&repository, &["trust", "--yes"]).ok();
    holm(&repository, &["up", "a", "--json"]).ok();
    let logs = said(&island, "a", "grey");
    assert!(!logs.contains(&network()), "{logs}");
    // The counterpart: a network that was approved.
    repository.write(
        "holm.toml",
        table.replace("target", "network = \"default\", target"),
    );
    repository.commit("a network");
    let asked = holm(&repository, &["up", "n", "--json"])
        .error(4)
        .to_string();
    assert!(asked.contains("with a network"), "{asked}");
    holm(&repository, &["trust", "--yes"]).ok();
    holm(&repository, &["up", "n", "--json"]).ok();
    said(&island, "n", &network());
    for (wrong, word) in [
        (
            "build = { context = \"..\" }",
            "not below the project's root",
        ),
        (
            "build = { context = \"web\", dockerfile = \"/etc/passwd\" }",
            "not below the project's root",
        ),
        (
            "build = { target = \"--privileged\" }",
            "not the name of a stage",
        ),
        (
            "build = { args = { BUILDKIT_SYNTAX = \"x\" } }",
            "for the builder itself",
        ),
        (
            "build = { context = \"web\" }\nimage = \"a\"",
            "both `image`",
        ),
    ] {
        repository.write("holm.toml", format!("[services.web]\n{wrong}\n"));
        repository.commit("wrong");
        let refused = holm(&repository, &["up", "b", "--json"]).error(2);
        assert!(
            refused["message"].as_str().unwrap().contains(word),
            "{refused}"
        );
    }
}

/// What hostile repositories try, and that the same works where it is allowed.
#[test]
fn a_build_sees_nothing_but_files_of_the_commit() {
    let Some(island) = island() else { return };
    let canary = island.write("home/canary", "of the user\n");
    let repository = stack(&island, DOCKERFILE);
    holm(&repository, &["trust", "--yes"]).ok();
    let refused = |text: &str, word: &str| {
        repository.write("web/Dockerfile", text);
        repository.commit("hostile");
        holm(&repository, &["trust", "--yes"]).ok();
        let refused = holm(&repository, &["up", "a", "--json"]).error(1);
        assert_eq!(refused["code"], "build_failed", "{refused}");
        assert!(
            refused["message"].as_str().unwrap().contains(word),
            "{refused}"
        );
    };
    refused(
        "FROM scratch\nADD http://192.0.2.1/x /\n",
        "line 2: `ADD` of a URL",
    );
    refused(
        "FROM scratch\nRUN --network=host id\n",
        "line 2: `RUN` with a flag",
    );
    // Links and paths that leave the context lead nowhere.
    let up = "../".repeat(12);
    for source in [
        canary.display().to_string(),
        format!("{up}{}", canary.display()),
        "link".to_owned(),
    ] {
        repository.write("web/.dockerignore", "");
        let link = repository.path.join("web/link");
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(&canary, &link).unwrap();
        refused(
            &format!("FROM scratch AS prod\nCOPY {source} /stolen\n"),
            "could not build",
        );
    }
    // The counterpart: a file of the commit at the same place is copied.
    let own = "FROM scratch AS prod\nCOPY root/ /\nCOPY canary /stolen\nCMD [\"/bin/sh\", \"-c\", \"cat /stolen; exec sleep 1000\"]\n";
    repository.write("web/Dockerfile", own);
    repository.write("web/canary", "of the commit\n");
    repository.commit("own");
    holm(&repository, &["trust", "--yes"]).ok();
    holm(&repository, &["up", "a", "--json"]).ok();
    said(&island, "a", "of the commit");
    // A Dockerfile that is a link is not read.
    fs::remove_file(repository.path.join("web/Dockerfile")).unwrap();
    std::os::unix::fs::symlink(&canary, repository.path.join("web/Dockerfile")).unwrap();
    repository.commit("a link");
    holm(&repository, &["trust", "--yes"]).ok();
    let linked = holm(&repository, &["up", "b", "--json"]).error(1);
    assert!(
        linked["message"].as_str().unwrap().contains("is a link"),
        "{linked}"
    );
}

/// The name of a build stands for its inputs, so no archive and no registry may give it.
#[test]
fn only_a_build_gives_the_name_of_a_build() {
    let island = Island::new();
    let key = "0".repeat(64);
    let name = format!("localhost/holm-build:{key}");
    let image = TestImage::with_shell(json!({"Cmd": ["/bin/sh"]})).build();
    let listed = String::from_utf8(index(&image.manifest)).unwrap();
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let mut renamed = listed.clone();
    let annotations = &mut renamed["manifests"][1]["annotations"];
    *annotations = json!({"io.containerd.image.name": name});
    let archive = archive_with(&image, renamed.to_string().as_bytes());
    let archive = island.write("app.tar", archive);
    let archive = archive.to_str().unwrap();
    let refused = island
        .holm(&["image", "import", archive, "--json"])
        .error(4);
    assert_eq!(refused["code"], "image_refused");
    assert_eq!(
        island.holm(&["image", "pull", &name, "--json"]).error(4)["code"],
        "image_refused"
    );
    let allowed = island.holm(&["image", "import", archive, "--name", "app:1", "--json"]);
    allowed.ok();
}

#[test]
fn without_a_builder_the_error_names_what_to_install() {
    let island = Island::new();
    let repository = stack(&island, DOCKERFILE);
    holm(&repository, &["trust", "--yes"]).ok();
    let without = |settings: &str| -> Value {
        island.make_dir("holm/config");
        island.write("holm/config/config.toml", settings);
        let mut command = island.holm_command(&repository.path, &["up", "a", "--json"]);
        // git is the only program there.
        let bin = island.make_dir("home/only");
        let _ = std::os::unix::fs::symlink("/usr/bin/git", bin.join("git"));
        Ran::new(command.env("PATH", bin)).error(1)
    };
    let missing = without("");
    assert_eq!(missing["code"], "no_builder");
    let words = missing.to_string();
    for word in [
        "docker is not installed",
        "podman is not installed",
        "buildah is not installed",
        "apt install buildah",
    ] {
        assert!(words.contains(word), "{missing}");
    }
    let words = without("[images]\nbuilder = \"podman\"\n").to_string();
    assert!(
        words.contains("podman is not installed") && !words.contains("docker is"),
        "{words}"
    );
}

#[test]
fn ctrl_c_ends_the_builder() {
    let Some(island) = island() else { return };
    let slow = "FROM scratch AS prod\nCOPY root/ /\nRUN [\"/bin/sh\", \"-c\", \"echo begun; exec sleep 7331\"]\n";
    let repository = stack(&island, slow);
    holm(&repository, &["trust", "--yes"]).ok();
    let mut up =
        Running::new(command(&island, &repository.path, &["up", "a"]).stderr(Stdio::null()));
    let runs = || {
        let ps = Command::new("ps").args(["-eo", "args"]).output().unwrap();
        String::from_utf8_lossy(&ps.stdout)
            .lines()
            .any(|line| line == "sleep 7331")
    };
    eventually("it builds", || builds(&island).len() == 1 && runs());
    let line = builds(&island).pop().unwrap();
    let pid: i32 = line.split(' ').next().unwrap().parse().unwrap();
    up.signal(rustix::process::Signal::INT);
    assert_eq!(up.code(), Some(130));
    assert!(
        !Path::new(&format!("/proc/{pid}")).exists(),
        "the builder has ended"
    );
    eventually("so has what it ran", || !runs());
    assert_eq!(
        island.holm(&["ls", "--json"]).json()["workspaces"],
        json!([])
    );
}
