//! The key of the stored secrets in a keyring of the user's: a real message bus and a real GNOME Keyring.

use crate::support::{Island, Ran, Repository, Running, eventually};
use rustix::process::Signal;
use serde_json::Value;
use std::process::Stdio;

const PASSWORD: &str = "open sesame";

/// The user's desktop, as far as it has a message bus and a keyring.
struct Desktop<'a> {
    repository: &'a Repository<'a>,
    address: String,
    keyring: Option<Running>,
    _bus: Running,
}

impl<'a> Desktop<'a> {
    fn new(repository: &'a Repository<'a>) -> Self {
        let island = repository.island;
        let place = island.make_dir("desktop");
        // Without the installed services: a call starts nothing.
        let listen = format!("unix:path={}", place.join("bus").display());
        let text = format!(
            "<busconfig><type>session</type><listen>{listen}</listen><policy context=\"default\">\
             <allow send_destination=\"*\"/><allow eavesdrop=\"true\"/><allow own=\"*\"/></policy>\
             </busconfig>"
        );
        let configuration = island.write("desktop/bus.conf", text);
        let mut command = island.command("dbus-daemon", &place);
        command.arg(format!("--config-file={}", configuration.display()));
        command.args(["--nofork", "--print-address"]);
        let mut bus = Running::new(&mut command);
        Self {
            address: bus.line(),
            repository,
            keyring: None,
            _bus: bus,
        }
    }

    /// Starts the keyring; with its password it is open.
    fn start(&mut self, password: Option<&str>) {
        let island = self.repository.island;
        let place = island.make_dir("desktop");
        let mut command = island.command("gnome-keyring-daemon", &place);
        command
            .args(["--foreground", "--components=secrets"])
            .env("XDG_RUNTIME_DIR", &place)
            .env("DBUS_SESSION_BUS_ADDRESS", &self.address)
            .stderr(Stdio::null());
        if password.is_some() {
            command.arg("--unlock");
        }
        let mut keyring = Running::new(&mut command);
        keyring.write(password.unwrap_or_default());
        keyring.close_stdin();
        self.keyring = Some(keyring);
    }

    fn stop(&mut self) {
        let mut keyring = self.keyring.take().expect("it runs");
        keyring.signal(Signal::KILL);
        eventually("the keyring is gone", || keyring.has_ended());
    }

    fn holm(&self, arguments: &[&str]) -> Ran {
        Ran::new(&mut self.command(arguments))
    }

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let repository = self.repository;
        let mut command = repository.island.holm_command(&repository.path, arguments);
        command.env("DBUS_SESSION_BUS_ADDRESS", &self.address);
        command
    }

    fn set(&self, value: &str) -> Ran {
        let file = self.repository.island.write("value", value);
        let mut command = self.command(&["secret", "set", "TOKEN", "--json"]);
        Ran::new(command.stdin(std::fs::File::open(file).unwrap()))
    }

    fn doctor(&self) -> String {
        self.holm(&["doctor", "--json"]).out()
    }

    fn list(&self) -> Value {
        self.holm(&["secret", "ls", "--json"]).json()
    }
}

#[test]
fn the_key_is_in_the_keyring_and_nothing_takes_its_place_while_that_is_closed() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write(
        "holm.toml",
        "[services.api]\nrun = \"echo got $TOKEN; exec sleep 1000\"\n[secrets.TOKEN]\nto = [\"api\"]\n",
    );
    repository.commit("a secret");
    let mut desktop = Desktop::new(&repository);
    desktop.start(Some(PASSWORD));
    desktop.holm(&["trust", "--yes"]).ok();
    eventually("the keyring is there", || {
        desktop
            .doctor()
            .contains("the first one makes a key, in the keyring of your desktop")
    });
    desktop.set("canary-55c1").ok();
    assert_eq!(desktop.list()["key"], "keyring");
    let shown = desktop.holm(&["secret", "ls"]).ok().out();
    assert!(shown.contains("in the keyring of your desktop"), "{shown}");
    let file = island.data().join("secrets/key.json");
    let kept = std::fs::read(&file).unwrap();
    desktop.holm(&["up", "x"]).ok();
    eventually("it is given", || {
        let log = desktop.holm(&["logs", "x", "api"]).out();
        log.contains("got [secret]")
    });

    // Another daemon, and the keyring is gone: no value is read or stored, and no key is created.
    desktop.stop();
    desktop.holm(&["daemon", "stop", "--all"]).ok();
    let refused = |ran: Ran| {
        let error = ran.error(4);
        assert_eq!(error["code"], "secrets_locked", "{error}");
        let (message, hint) = (error["message"].to_string(), error["hint"].to_string());
        assert!(message.contains("in your keyring"), "{error}");
        assert!(hint.contains("`holm secret unlock`"), "{error}");
        message
    };
    let why = refused(desktop.holm(&["start", "x", "--json"]));
    assert!(why.contains("there is no keyring"), "{why}");
    refused(desktop.set("canary-9e02"));
    refused(desktop.holm(&["secret", "rotate-key", "--json"]));
    let list = desktop.list();
    assert_eq!(
        (&list["key"], &list["locked"]),
        (&"keyring".into(), &true.into())
    );

    // It is there again, and locked; there is no prompter for its password.
    desktop.start(None);
    eventually("it says that it is locked", || {
        desktop.list()["locked_why"]
            .to_string()
            .contains("is locked")
    });
    refused(desktop.holm(&["start", "x", "--json"]));
    desktop.holm(&["secret", "unlock"]).exits(4);
    assert!(desktop.doctor().contains("is locked"));
    assert_eq!(std::fs::read(&file).unwrap(), kept, "no other key was made");

    desktop.stop();
    desktop.start(Some(PASSWORD));
    eventually("it is open", || desktop.list()["locked"] == false);
    desktop.holm(&["start", "x"]).ok();
    // Into a file, behind nothing, and back.
    let moved = desktop
        .holm(&["secret", "rotate-key", "--file", "--json"])
        .json();
    assert_eq!(moved["key"], "file");
    desktop.holm(&["secret", "rotate-key", "--keyring"]).ok();
    assert_eq!(desktop.list()["key"], "keyring");
    assert_ne!(std::fs::read(&file).unwrap(), kept);
    let restarted = desktop.holm(&["restart", "x"]);
    restarted.ok();
}
