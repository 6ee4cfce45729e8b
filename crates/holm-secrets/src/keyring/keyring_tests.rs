//! Tests against a message bus and GNOME Keyring, both started here with their own home.

use super::*;
use crate::key::KeyStorage;
use crate::vault::{Entry, Scope, Vault, VaultError};
use crate::{Protection, Value};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};

/// A program that ends with the test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Desktop {
    home: tempfile::TempDir,
    address: String,
    keyring: Option<Program>,
    _bus: Program,
}

impl Desktop {
    /// A bus without a keyring service.
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        // Without the installed services, so that a call does not start one.
        let configuration = home.path().join("bus.conf");
        let listen = format!("unix:path={}", home.path().join("bus").display());
        let text = format!(
            "<busconfig><type>session</type><listen>{listen}</listen>\
             <policy context=\"default\"><allow send_destination=\"*\"/><allow eavesdrop=\"true\"/>\
             <allow own=\"*\"/></policy></busconfig>"
        );
        std::fs::write(&configuration, text).unwrap();
        let mut bus = Command::new("dbus-daemon")
            .arg(format!("--config-file={}", configuration.display()))
            .args(["--nofork", "--print-address"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("dbus-daemon starts: `scripts/set-up test` installs it");
        let mut address = String::new();
        let stdout = bus.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut address).unwrap();
        Self {
            home,
            address: address.trim().to_owned(),
            keyring: None,
            _bus: Program(bus),
        }
    }

    /// Starts the keyring; with a password it is unlocked, and created if necessary.
    fn start(&mut self, password: Option<&str>) {
        let changes = self.changes();
        let mut command = Command::new("gnome-keyring-daemon");
        command
            .args(["--foreground", "--components=secrets"])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.home.path())
            .env("XDG_RUNTIME_DIR", self.home.path())
            .env("DBUS_SESSION_BUS_ADDRESS", &self.address)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if password.is_some() {
            command.arg("--unlock");
        }
        let mut child = command
            .spawn()
            .expect("gnome-keyring-daemon starts: `scripts/set-up test` installs it");
        let mut stdin = child.stdin.take().unwrap();
        stdin
            .write_all(password.unwrap_or_default().as_bytes())
            .unwrap();
        drop(stdin);
        self.keyring = Some(Program(child));
        self.wait(changes, |asked| {
            matches!(asked, Err(KeyringError::NoKey | KeyringError::Locked))
        });
    }

    fn stop(&mut self) {
        let changes = self.changes();
        self.keyring = None;
        self.wait(changes, |asked| {
            matches!(asked, Err(KeyringError::Absent(_)))
        });
    }

    /// Subscribes to clients that connect and disconnect.
    fn changes(&self) -> Bus {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut bus = Bus::connect(&self.address, deadline).unwrap();
        bus.listen("type='signal',member='NameOwnerChanged'")
            .unwrap();
        bus
    }

    /// Asks the keyring after every change. The asking client connects and disconnects too, which
    /// is also a change.
    fn wait(&self, mut changes: Bus, is_so: impl Fn(Result<MasterKey, KeyringError>) -> bool) {
        while !is_so(self.at().get("none")) {
            let changed = changes.signal("/org/freedesktop/DBus", "NameOwnerChanged");
            changed.map(drop).expect("the keyring comes or goes");
        }
    }

    fn at(&self) -> Keyring {
        Keyring::at(Some(self.address.clone()))
    }
}

fn value(text: &str) -> Value {
    Value::parse(text.into()).unwrap()
}

fn entry() -> Entry {
    Entry {
        scope: Scope::User,
        name: "KEY".to_owned(),
        version: 0,
        set_at: 1,
        expires_at: None,
    }
}

#[test]
fn the_first_key_goes_into_the_keyring_and_no_other_takes_its_place() {
    let (mut desktop, data) = (Desktop::new(), tempfile::tempdir().unwrap());
    desktop.start(Some("open sesame"));
    let open = |desktop: &Desktop| Vault::open(data.path(), desktop.at()).unwrap();
    let mut vault = open(&desktop);
    assert_eq!(vault.storage(), None);
    vault.put(vec![(entry(), value("first value"))]).unwrap();
    assert_eq!(vault.storage(), Some(KeyStorage::Keyring));
    let revealed = |vault: &Vault| {
        let found = vault.get(&Scope::User, "KEY");
        found.map(|found| found.unwrap().1.reveal().to_owned())
    };
    assert_eq!(revealed(&open(&desktop)).unwrap(), "first value");
    let on_disk = std::fs::read_to_string(data.path().join("key.json")).unwrap();
    assert!(on_disk.contains("\"keyring\""), "{on_disk}");

    // After a rotation the old key is no longer in the keyring.
    let old: serde_json::Value = serde_json::from_str(&on_disk).unwrap();
    let old = old["id"].as_str().unwrap();
    assert!(desktop.at().get(old).is_ok());
    vault.rotate(&Protection::Keyring).unwrap();
    assert_eq!(desktop.at().get(old).unwrap_err(), KeyringError::NoKey);
    assert_eq!(revealed(&open(&desktop)).unwrap(), "first value");

    // The keyring stops, then locks: no value opens, no new key is created, and the error says why.
    desktop.stop();
    let before = std::fs::read(data.path().join("key.json")).unwrap();
    let mut gone = open(&desktop);
    assert!(gone.is_locked());
    assert_eq!(gone.storage(), Some(KeyStorage::Keyring));
    let refused = gone.put(vec![(entry(), value("second value"))]);
    let is_absent =
        |error: VaultError| matches!(error, VaultError::Keyring(KeyringError::Absent(_)));
    assert!(is_absent(refused.unwrap_err()));
    assert!(is_absent(revealed(&gone).unwrap_err()));
    desktop.start(None);
    gone.look_again();
    let is_locked = |error: VaultError| matches!(error, VaultError::Keyring(KeyringError::Locked));
    assert!(is_locked(revealed(&gone).unwrap_err()));
    let rotated = gone.rotate(&Protection::File);
    assert!(is_locked(rotated.unwrap_err()));
    // There is no prompter for the password: the call fails without waiting.
    assert!(desktop.at().unlock().is_err());
    assert_eq!(std::fs::read(data.path().join("key.json")).unwrap(), before);

    desktop.stop();
    desktop.start(Some("open sesame"));
    gone.look_again();
    assert_eq!(revealed(&gone).unwrap(), "first value");
    // Move the key out of the keyring again.
    gone.rotate(&Protection::File).unwrap();
    desktop.stop();
    assert_eq!(revealed(&open(&desktop)).unwrap(), "first value");
}

#[test]
fn a_keyring_that_is_locked_or_not_there_leaves_the_first_key_to_the_file() {
    let mut desktop = Desktop::new();
    for is_started in [false, true] {
        if is_started {
            // It has no collection yet.
            desktop.start(None);
        }
        let data = tempfile::tempdir().unwrap();
        let mut vault = Vault::open(data.path(), desktop.at()).unwrap();
        vault.put(vec![(entry(), value("some value"))]).unwrap();
        assert_eq!(vault.storage(), Some(KeyStorage::File));
    }
    let none = Keyring::at(Some(
        "unix:path=/nonexistent/bus;tcp:host=localhost".to_owned(),
    ));
    assert!(matches!(none.get("x"), Err(KeyringError::Absent(_))));
    assert!(matches!(
        Keyring::default().get("x"),
        Err(KeyringError::Absent(_))
    ));
}

#[test]
fn a_bus_that_says_nothing_or_nonsense_is_not_waited_for() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("silent%bus");
    let listener = UnixListener::bind(&path).unwrap();
    let escaped = path.display().to_string().replace('%', "%25");
    let address = format!("unix:path={escaped}");
    let deadline = Instant::now() + Duration::from_millis(100);
    let silent = Bus::connect(&address, deadline).err().unwrap();
    assert_eq!(silent, KeyringError::Slow);
    let nonsense = std::thread::spawn(move || {
        let long = [b'x'; 5000];
        let texts = [&b"NO\r\n"[..], &long, b"OK x\r\nHTTP/1.1 200 OK\r\n\r\n"];
        let mut texts = texts.into_iter();
        for stream in listener.incoming().skip(1).take(3) {
            let mut stream = stream.unwrap();
            // A client that has disconnected does not read it.
            let _ = stream.write_all(texts.next().unwrap());
        }
    });
    for _ in 0..3 {
        let deadline = Instant::now() + Duration::from_secs(60);
        let error = Bus::connect(&address, deadline).err().unwrap();
        assert_ne!(error, KeyringError::Slow);
    }
    nonsense.join().unwrap();
}
