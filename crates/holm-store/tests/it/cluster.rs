//! A PostgreSQL server of a test, from Debian's package, with its files in a directory of its own.
//!
//! Also used by the tests of the program. `initdb` runs once, and each server gets a copy of what it made.

use std::fs::{self, File, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A running server, which ends when this is dropped.
pub struct Cluster {
    directory: tempfile::TempDir,
    port: u16,
    process: Option<Child>,
}

/// The superuser of the databases.
pub const USER: &str = "me";

const TESTER: &str = "holm-tester";

const LIMIT: Duration = Duration::from_secs(30);

// === impl Cluster ===

impl Cluster {
    pub fn start() -> Self {
        let template = template();
        let directory = tempfile::Builder::new().prefix("pg").tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        give(directory.path());
        let copied = command("cp")
            .arg("-a")
            .arg(template)
            .arg(directory.path().join("data"))
            .status();
        assert!(copied.unwrap().success());
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut cluster = Self {
            port: free.local_addr().unwrap().port(),
            directory,
            process: None,
        };
        drop(free);
        cluster.restart();
        cluster
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Starts the server again, also after a `kill`. Processes of the killed one may still be about to end.
    pub fn restart(&mut self) {
        let begun = Instant::now();
        loop {
            let mut server = command(program("postgres"));
            server
                .arg("-D")
                .arg(self.data())
                .arg("-k")
                .arg(self.directory.path());
            server.args(["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-p"]);
            server.arg(self.port.to_string());
            let log = File::create(self.directory.path().join("log")).unwrap();
            server.stdout(Stdio::null()).stderr(log).process_group(0);
            let mut process = server.spawn().unwrap();
            while process.try_wait().unwrap().is_none() {
                let ready = command(program("pg_isready"))
                    .args(self.client())
                    .output()
                    .unwrap();
                if ready.status.success() {
                    self.process = Some(process);
                    return;
                }
                assert!(begun.elapsed() < LIMIT, "{}", self.log());
                std::thread::park_timeout(Duration::from_millis(5));
            }
            assert!(begun.elapsed() < LIMIT, "{}", self.log());
        }
    }

    /// As a crash does, `kill -9`.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    pub fn database(&self, name: &str) -> String {
        self.sql(
            "postgres",
            &format!("CREATE DATABASE {name} STRATEGY file_copy"),
        );
        self.url(name)
    }

    /// By its Unix socket.
    pub fn url(&self, database: &str) -> String {
        let directory = self.directory.path().display();
        format!(
            "postgres://{USER}@/{database}?host={directory}&port={}",
            self.port
        )
    }

    /// What a statement prints.
    pub fn sql(&self, database: &str, statement: &str) -> String {
        let ran = self.psql(database, statement);
        let words = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{statement}: {words}");
        String::from_utf8(ran.stdout).unwrap().trim().to_owned()
    }

    fn psql(&self, database: &str, statement: &str) -> Output {
        let mut psql = command("psql");
        psql.args(self.client())
            .args(["-d", database, "-Atqc", statement]);
        psql.output().unwrap()
    }

    fn client(&self) -> [String; 6] {
        let directory = self.directory.path().display().to_string();
        [
            "-h".to_owned(),
            directory,
            "-p".to_owned(),
            self.port.to_string(),
            "-U".to_owned(),
            USER.to_owned(),
        ]
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // The whole server: its other processes are in its group.
            let group = format!("-{}", process.id());
            let _ = Command::new("kill").args(["-9", "--", &group]).status();
            let _ = process.wait();
        }
    }
}

/// A directory that `initdb` made, once for all tests of a run.
fn template() -> PathBuf {
    let place =
        std::env::temp_dir().join(format!("holm-postgres-{}", ids().map_or(0, |ids| ids.0)));
    let lock = File::create(place.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    let whole = place.join("whole");
    if !whole.exists() {
        let _ = fs::remove_dir_all(&place);
        fs::create_dir(&place).unwrap();
        give(&place);
        let mut initdb = command(program("initdb"));
        initdb.arg("-D").arg(place.join("new"));
        initdb.args([
            "-U",
            USER,
            "--no-sync",
            "--auth=trust",
            "-E",
            "UTF8",
            "--locale=C",
        ]);
        let made = initdb.output().unwrap();
        assert!(made.status.success(), "{made:?}");
        fs::rename(place.join("new"), &whole).unwrap();
    }
    whole
}

/// Debian keeps the programs of the server outside of `PATH`.
fn program(name: &str) -> PathBuf {
    let versions =
        fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL: `scripts/set-up test` installs it");
    let found = versions.map(|version| version.unwrap().path().join("bin").join(name));
    found
        .filter(|path| path.exists())
        .max()
        .expect("the server of PostgreSQL is installed")
}

/// PostgreSQL refuses to run as root.
fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    if let Some((uid, gid)) = ids() {
        command.uid(uid).gid(gid);
    }
    command
        .current_dir("/")
        .env_remove("PGHOST")
        .env("LC_ALL", "C");
    command
}

fn give(path: &Path) {
    if let Some((uid, gid)) = ids() {
        chown(path, Some(uid), Some(gid)).unwrap();
    }
}

/// The ids to switch to, when root runs the tests.
fn ids() -> Option<(u32, u32)> {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let own = text
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))
        .unwrap();
    if own.split_whitespace().nth(1) != Some("0") {
        return None;
    }
    let known = fs::read_to_string("/etc/passwd").unwrap();
    let line = known
        .lines()
        .find(|line| line.starts_with(&format!("{TESTER}:")));
    let line = line.expect("the user holm-tester: `scripts/set-up test` makes it");
    let fields: Vec<_> = line.split(':').collect();
    Some((fields[2].parse().unwrap(), fields[3].parse().unwrap()))
}
