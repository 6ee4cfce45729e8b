//! `holm image` with a real registry: pull, import, ls, rm, and what `gc` and `df` make of it.

use crate::support::{Image, Island, Ran, Registry, Tar, TestImage, image, index, noise, send};
use holm_api::image::PullImage;
use holm_image::digest_of;
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// The password is `secret`.
const USERS: &str = "me:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n";

fn app() -> Image {
    image(&[
        Tar::default().file("etc/a", &noise(9000)).end(),
        Tar::default().file("bin/b", b"two").end(),
    ])
}

pub fn listed(island: &Island, registry: u16) {
    island.make_dir("holm");
    island.make_dir("holm/config");
    let text = format!("[images]\nloopback = [\"127.0.0.1:{registry}\"]\n");
    island.write("holm/config/config.toml", text);
}

fn names(island: &Island) -> Vec<String> {
    let list = island.holm(&["image", "ls", "--json"]).json();
    let images = list["images"].as_array().unwrap().iter();
    images
        .map(|it| it["reference"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn an_image_is_pulled_listed_removed_and_swept() {
    let island = Island::new();
    let registry = Registry::start();
    let source = app();
    registry.push("team/app", "1", &source);
    let name = format!("127.0.0.1:{}/team/app:1", registry.port);
    // A registry on this machine is asked only if the user's settings list it.
    let refused = island.holm(&["image", "pull", &name, "--json"]).error(4);
    assert_eq!(refused["code"], "refused");
    let hint = format!("[images] loopback = [\"127.0.0.1:{}\"]", registry.port);
    assert!(
        refused["hint"].as_str().unwrap().contains(&hint),
        "{refused}"
    );
    let private = island.holm(&["image", "pull", "10.1.2.3/a", "--json"]);
    let said = private.error(4)["message"].as_str().unwrap().to_owned();
    assert!(said.contains("closed: a private network"), "{said}");

    listed(&island, registry.port);
    let pulled = island.holm(&["image", "pull", &name, "--json"]).json();
    let digest = digest_of(&source.manifest).to_string();
    assert_eq!(pulled["images"][0]["digest"], digest.as_str());
    assert_eq!(pulled["images"][0]["used_by"], serde_json::json!([]));
    let said = island.holm(&["image", "pull", &name]).ok().stderr;
    assert!(said.contains("pulled"), "{said}");
    assert_eq!(names(&island), [name.as_str()]);
    assert_eq!(island.holm(&["image", "ls", "-q"]).ok().out(), name);
    let given = serde_json::json!({"registry": "127.0.0.1", "user": "me", "password": "x"});
    let wish = serde_json::json!({"reference": name, "credentials": given});
    let (status, _) = island.ask("POST", "/api/v1/images", wish.to_string().as_bytes());
    assert_eq!(status, 400, "credentials for another registry");
    let absent = format!("127.0.0.1:{}/team/app:2", registry.port);
    let absent = island.holm(&["image", "pull", &absent, "--json"]).error(3);
    assert_eq!(absent["code"], "image_not_found");
    for nonsense in ["a:b:c", "UPPER", "a@sha256:12", "-"] {
        let wrong = island.holm(&["image", "pull", "--json", "--", nonsense]);
        assert_eq!(wrong.error(2)["code"], "invalid_image", "{nonsense}");
    }
    let disk = island.holm(&["df", "--json"]).json();
    assert!(disk["images"].as_u64().unwrap() > 9000, "{disk}");
    // `gc` keeps what has a name.
    let layers = island.data().join("images/layers");
    let count = || fs::read_dir(&layers).unwrap().count();
    let before = island.holm(&["gc", "--json"]).json();
    assert_eq!(before["failed"], serde_json::json!([]), "{before}");
    assert!(count() >= 2, "named layers stay");
    island.holm(&["image", "rm", &name]).ok();
    assert_eq!(names(&island), [""; 0]);
    let gone = island.holm(&["image", "rm", &name, "--json"]).error(3);
    assert_eq!(gone["code"], "image_not_found");
    let swept = island.holm(&["gc", "--json"]).json();
    let kinds = swept["removed"].as_array().unwrap().iter();
    assert!(kinds.clone().any(|it| it["kind"] == "image"), "{swept}");
    assert_eq!(count(), 0);
}

#[test]
fn credentials_come_from_the_users_files_and_go_to_one_registry() {
    let island = Island::new();
    let mut registry = Registry::start_with(|files| {
        fs::write(files.join("users"), USERS).unwrap();
        let users = files.join("users").display().to_string();
        format!("auth:\n  htpasswd:\n    realm: test\n    path: {users}\n")
    });
    registry.authorization = Some("Basic bWU6c2VjcmV0");
    registry.push("app", "1", &app());
    listed(&island, registry.port);
    let host = format!("127.0.0.1:{}", registry.port);
    let name = format!("{host}/app:1");
    let pull = || island.holm(&["image", "pull", &name, "--json"]);
    assert_eq!(pull().error(4)["code"], "registry_denied");
    island.make_dir("home/.docker");
    let config = |text: String| island.write("home/.docker/config.json", text);
    // `me:wrong`; then right, but for another registry.
    config(format!(
        r#"{{"auths": {{"{host}": {{"auth": "bWU6d3Jvbmc="}}}}}}"#
    ));
    assert_eq!(pull().error(4)["code"], "registry_denied");
    config(r#"{"auths": {"127.0.0.1": {"auth": "bWU6c2VjcmV0"}}}"#.to_owned());
    assert_eq!(pull().error(4)["code"], "registry_denied");
    config("{".to_owned());
    assert_eq!(pull().error(1)["code"], "credentials_unreadable");
    // A helper, which the client runs.
    let asked = island.home().join("asked");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = get ] || exit 2\ncat > {}\necho '{{\"ServerURL\":\"x\",\"Username\":\"me\",\"Secret\":\"secret\"}}'\n",
        asked.display()
    );
    island.make_dir("home/bin");
    executable(&island, "home/bin/docker-credential-ofthetest", &script);
    config(format!(r#"{{"credHelpers": {{"{host}": "ofthetest"}}}}"#));
    let absent = pull().error(1)["message"].as_str().unwrap().to_owned();
    assert!(absent.contains("docker-credential-ofthetest"), "{absent}");
    with_programs(&island, &["image", "pull", &name]).ok();
    assert_eq!(fs::read_to_string(asked).unwrap(), format!("{host}\n"));
    assert_eq!(names(&island), [name.as_str()]);
    for file in ["daemon.log", "images/names.json"] {
        let text = fs::read_to_string(island.data().join(file)).unwrap();
        assert!(!text.contains("secret") && !text.contains("bWU6"), "{text}");
    }
}

fn executable(island: &Island, path: &str, text: &str) {
    let path = island.write(path, text);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(path, mode).unwrap();
}

/// Runs holm with `~/bin` on PATH.
fn with_programs(island: &Island, arguments: &[&str]) -> Ran {
    let path = format!("{}:/usr/bin:/bin", island.home().join("bin").display());
    let mut command = island.holm_command(&island.home(), arguments);
    Ran::new(command.env("PATH", path))
}

#[test]
fn a_pull_goes_on_after_the_daemon_was_killed() {
    let island = Island::new();
    let registry = Registry::start();
    let source = image(&[Tar::default().file("big", &noise(1 << 20)).end()]);
    registry.push("app", "1", &source);
    let between = Between::start(registry.port, digest_of(&source.blobs[0]).to_string());
    listed(&island, between.port);
    let name = format!("127.0.0.1:{}/app:1", between.port);
    island.holm(&["daemon", "start"]).ok();
    let daemon = island.daemon_pid();
    let (seen, progress) = mpsc::channel();
    std::thread::scope(|scope| {
        let pulling = scope.spawn(|| {
            let wish = PullImage {
                reference: name.clone(),
                credentials: None,
            };
            let note = |step: &str, done, total| seen.send((step.to_owned(), done, total)).unwrap();
            island.api(async |client| client.pull_image(&wish, note).await)
        });
        let limit = Duration::from_secs(60);
        loop {
            let (step, done, total) = progress.recv_timeout(limit).unwrap();
            assert_eq!(step, format!("pull: {name}"));
            if done > 100_000 && done < total {
                break;
            }
        }
        let busy = island.holm(&["gc", "--json"]).json();
        let note = busy["notes"].to_string();
        assert!(
            note.contains("a pull, an import or an `up` is under way"),
            "{busy}"
        );
        send(daemon, Signal::KILL);
        assert!(pulling.join().unwrap().is_err());
    });
    between.may_go_on.store(true, Ordering::Relaxed);
    island.holm(&["image", "pull", &name]).ok();
    let ranges: Vec<String> = between.ranges.try_iter().collect();
    assert!(
        ranges.iter().any(|range| range.contains("bytes=")),
        "only the missing part is asked for: {ranges:?}"
    );
    assert_eq!(names(&island), [name.as_str()]);
}

/// Stands between holm and a registry. It stops in the middle of a blob until it may go on.
struct Between {
    port: u16,
    may_go_on: Arc<AtomicBool>,
    /// The `Range` of each later request for the blob.
    ranges: mpsc::Receiver<String>,
}

impl Between {
    fn start(registry: u16, blob: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (range, ranges) = mpsc::channel();
        let may_go_on = Arc::new(AtomicBool::new(false));
        let is_free = Arc::clone(&may_go_on);
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    if stream.read(&mut byte).unwrap() == 0 {
                        break;
                    }
                    head.push(byte[0]);
                }
                let head = String::from_utf8(head).unwrap();
                let mut behind = TcpStream::connect(("127.0.0.1", registry)).unwrap();
                let closing = head.replacen("\r\n", "\r\nConnection: close\r\n", 1);
                behind.write_all(closing.as_bytes()).unwrap();
                let mut answer = Vec::new();
                behind.read_to_end(&mut answer).unwrap();
                let is_blob = head.contains(&blob);
                if is_blob && !is_free.load(Ordering::Relaxed) {
                    // On a slow machine holm gives up a connection that stands still, and asks again.
                    let _ = stream.write_all(&answer[..answer.len() / 2]);
                    held.push(stream);
                    continue;
                }
                if is_blob {
                    let line = head.lines().find(|line| line.starts_with("range"));
                    range.send(line.unwrap_or_default().to_owned()).unwrap();
                }
                // holm may have closed it.
                let _ = stream.write_all(&answer);
            }
        });
        Self {
            port,
            may_go_on,
            ranges,
        }
    }
}

#[test]
fn an_image_that_a_workspace_uses_stays() {
    let island = Island::new();
    let start = serde_json::json!({"Cmd": ["/usr/bin/sleep", "1000"]});
    TestImage::with_shell(start).add(&island, "app:1");
    let repository = island.repository("shop");
    repository.write("holm.toml", "[services.app]\nimage = \"app:1\"\n");
    repository.commit("a service");
    repository.holm(&["up", "user"]).ok();
    repository.holm(&["snapshot", "user", "before"]).ok();
    let list = island.holm(&["image", "ls", "--json"]).json();
    let users = &list["images"][0]["used_by"];
    assert_eq!(users.as_array().unwrap().len(), 1, "{list}");
    assert_eq!(users[0]["label"], "user");
    let refused = |label: &str| {
        let refused = island.holm(&["image", "rm", "app:1", "--json"]).error(4);
        assert_eq!(refused["code"], "image_in_use");
        let message = refused["message"].as_str().unwrap().to_owned();
        assert_eq!(message, format!("`app:1` is used by {label}"));
    };
    refused("user");
    let layers = island.data().join("images/layers");
    let count = || fs::read_dir(&layers).unwrap().count();
    // The name moves to another image; the workspace still needs the first one.
    let other = serde_json::json!({"Cmd": ["/usr/bin/sleep", "2000"]});
    TestImage::new(other)
        .file("a", "b", 0o644)
        .add(&island, "app:1");
    island.holm(&["gc", "--json"]).json();
    assert!(count() >= 2, "layers of a used image stay");
    repository.holm(&["restart", "user"]).ok();
    repository.holm(&["rm", "user", "--force"]).ok();
    let list = island.holm(&["image", "ls", "--json"]).json();
    assert_eq!(
        list["images"][0]["used_by"],
        serde_json::json!([]),
        "{list}"
    );
    island.holm(&["gc", "--json"]).json();
    assert!(count() >= 2, "a workspace in the trash can be restored");
    island.holm(&["gc", "--all", "--json"]).json();
    assert_eq!(count(), 1);
    island.holm(&["image", "rm", "app:1"]).ok();
}

#[test]
fn a_registry_that_lies_is_refused() {
    let island = Island::new();
    let registry = Registry::start();
    let mut source = app();
    // The config names another layer than the manifest.
    let lie = String::from_utf8(source.blobs[2].clone()).unwrap();
    let stated = digest_of(&Tar::default().file("bin/b", b"two").end()).to_string();
    assert!(lie.contains(&stated));
    let lie = lie.replace(&stated, &digest_of(b"other").to_string());
    let manifest = String::from_utf8(source.manifest.clone()).unwrap();
    let config = digest_of(&source.blobs[2]).to_string();
    let manifest = manifest.replace(&config, &digest_of(lie.as_bytes()).to_string());
    source.blobs[2] = lie.into_bytes();
    source.manifest = manifest.into_bytes();
    registry.push("app", "1", &source);
    listed(&island, registry.port);
    let name = format!("127.0.0.1:{}/app:1", registry.port);
    let refused = island.holm(&["image", "pull", &name, "--json"]).error(4);
    assert_eq!(refused["code"], "image_refused", "{refused}");
    assert_eq!(names(&island), [""; 0]);
}

#[test]
fn images_are_imported_from_files_directories_and_engines() {
    let island = Island::new();
    let source = app();
    let archive = archive(&source);
    let file = island.write("home/app.tar", &archive).display().to_string();
    let imported = island.holm(&["image", "import", &file, "--json"]).json();
    let reference = imported["images"][0]["reference"].as_str().unwrap();
    assert!(reference.ends_with("/library/app:1"), "{imported}");
    let said = island.holm(&["image", "import", &file, "--name", "team/own:2"]);
    assert!(said.ok().stderr.contains("✓ team/own:2  imported"));
    // A directory with a layout.
    let layout = island.make_dir("home/layout");
    island.run(&layout, "/usr/bin/tar", &["-xf", &file]).ok();
    let layout = layout.display().to_string();
    island
        .holm(&["image", "import", &layout, "--name", "dir"])
        .ok();
    // Engines are programs of the user.
    island.make_dir("home/bin");
    let engine = |words: &str| {
        format!(
            "#!/bin/sh\n[ \"$*\" = '{words}' ] || {{ echo no such image >&2; exit 1; }}\ncat {file}\n"
        )
    };
    executable(&island, "home/bin/docker", &engine("save app:1"));
    executable(&island, "home/bin/ctr", &engine("image export - app:1"));
    with_programs(&island, &["image", "import", "docker:app:1"]).ok();
    with_programs(
        &island,
        &["image", "import", "containerd:app:1", "--name", "ctr"],
    )
    .ok();
    let import = |source: &str| with_programs(&island, &["image", "import", source, "--json"]);
    let failed = import("docker:app:2").error(1);
    assert!(
        failed["message"]
            .as_str()
            .unwrap()
            .ends_with("failed: no such image"),
        "{failed}"
    );
    let bin = island.home().join("bin");
    let mut without =
        island.holm_command(&island.home(), &["image", "import", "podman:app", "--json"]);
    let absent = Ran::new(without.env("PATH", bin)).error(1);
    assert!(
        absent["message"]
            .as_str()
            .unwrap()
            .contains("`podman` is not installed"),
        "{absent}"
    );
    assert_eq!(names(&island).len(), 4);
    // What is no image leaves nothing.
    island.write("home/nonsense", noise(5000));
    let refused = island
        .holm(&["image", "import", "nonsense", "--json"])
        .error(4);
    assert_eq!(refused["code"], "image_refused");
    let empty = island.make_dir("home/empty").display().to_string();
    let refused = island.holm(&["image", "import", &empty, "--json"]).error(1);
    assert_eq!(refused["code"], "import_failed");
    let absent = island
        .holm(&["image", "import", "absent", "--json"])
        .error(3);
    assert_eq!(absent["code"], "path_not_found");
    assert!(
        is_empty(&island.data().join("incoming")),
        "uploads are deleted"
    );
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

/// An OCI archive as `docker save` of new versions writes it.
fn archive(source: &Image) -> Vec<u8> {
    archive_with(source, &index(&source.manifest))
}

/// As [`archive`], with this index.
pub fn archive_with(source: &Image, index: &[u8]) -> Vec<u8> {
    let mut tar = Tar::default()
        .file("oci-layout", b"{}")
        .file("index.json", index);
    for blob in source.blobs.iter().chain([&source.manifest]) {
        let path = format!("blobs/sha256/{}", digest_of(blob).hex());
        tar = tar.file(&path, blob);
    }
    tar.end()
}
