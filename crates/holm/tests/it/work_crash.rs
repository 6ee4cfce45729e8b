//! Work that is on its way back when something dies or fails: refs and checkout are old or new, never
//! mixed, the next command works, and nothing is left over (attacks 148, 158 and 161).

use crate::attacks_git_objects::is_at_work_in;
use crate::support::{Island, Ran, Repository, Running, eventually, program, send, times};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub type Contents = BTreeMap<PathBuf, (u32, Vec<u8>)>;

/// Every kind of change: edited, new and deleted files, and changed types.
const CHANGE: &str =
    "echo more >> README.md; rm gone; rm becomes; mkdir becomes; echo x > becomes/file;
    rm -r folder; echo now a file > folder; for n in 1 2 3; do echo $n > f$n; done; ln -s f1 link;
    mkdir -p deep/er; echo '#!/bin/sh' > deep/er/run; chmod +x deep/er/run";

/// What `rename` moves out of the checkout, and then `renameat2` moves in.
const MOVED: [(&str, &str); 11] = [
    ("README.md", OUT),
    ("becomes", OUT),
    ("folder/a", OUT),
    ("gone", OUT),
    ("README.md", IN),
    ("becomes/file", IN),
    ("folder", IN),
    ("f1", IN),
    ("f3", IN),
    ("link", IN),
    ("deep/er/run", IN),
];

const OUT: &str = "rename";
const IN: &str = "renameat2";

/// Every file of a checkout with its mode.
pub fn contents(directory: &Path) -> Contents {
    let mut found = Contents::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).unwrap().flatten() {
            let (path, metadata) = (entry.path(), entry.path().symlink_metadata().unwrap());
            if path == directory.join(".git") {
                continue;
            }
            if metadata.is_dir() {
                open.push(path);
                continue;
            }
            let content = match fs::read_link(&path) {
                Ok(target) => target.into_os_string().into_encoded_bytes(),
                Err(_) => fs::read(&path).unwrap(),
            };
            found.insert(path, (metadata.permissions().mode(), content));
        }
    }
    found
}

/// A checkout with its own edits, and a workspace `x` with a change for it.
pub struct Case<'a> {
    pub repository: Repository<'a>,
    id: String,
    pub old: Contents,
    pub new: Contents,
}

impl<'a> Case<'a> {
    pub fn new(island: &'a Island) -> Self {
        let repository = island.repository("shop");
        for name in ["gone", "becomes", "folder/a", "folder/b", "edited"] {
            repository.write(name, format!("{name}\n"));
        }
        repository.commit("more");
        let id = repository.up("x");
        island.sh("x", CHANGE).ok();
        let mut case = Self {
            repository,
            id,
            old: Contents::new(),
            new: Contents::new(),
        };
        case.reset();
        case.old = contents(&case.repository.path);
        case.repository.holm(&["apply", "x"]).ok();
        case.new = contents(&case.repository.path);
        assert_eq!(case.new.len(), case.old.len() - 4 + 7, "{:?}", case.new);
        case.reset();
        assert_eq!(contents(&case.repository.path), case.old);
        case
    }

    fn island(&self) -> &'a Island {
        self.repository.island
    }

    /// The checkout as it was, with what the user has not committed.
    fn reset(&self) {
        self.repository.git(&["reset", "-q", "--hard"]);
        self.repository.git(&["clean", "-qfd"]);
        self.repository.write("edited", "not committed\n");
        self.repository.write("mine", "not even added\n");
    }

    #[track_caller]
    pub fn nothing_is_left(&self, when: &str) {
        let git_dir = self.repository.path.join(".git");
        let left: Vec<_> = fs::read_dir(&git_dir)
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name().into_string().unwrap())
            .filter(|name| name.starts_with("holm-") || name.ends_with(".lock"))
            .collect();
        assert_eq!(left, [""; 0], "{when}");
    }

    #[track_caller]
    fn is_old_or_new(&self, when: &str) {
        let now = contents(&self.repository.path);
        assert!(now == self.old || now == self.new, "{when}: {now:#?}");
    }

    /// The next one works, and the checkout is the new one.
    #[track_caller]
    fn applies_again(&self, when: &str) -> Ran {
        let ran = if contents(&self.repository.path) == self.new {
            self.repository.holm(&["merge", "x"])
        } else {
            self.repository.holm(&["apply", "x"]).ok()
        };
        assert_eq!(contents(&self.repository.path), self.new, "{when}: {ran:?}");
        self.nothing_is_left(when);
        self.reset();
        ran
    }
}

/// A `git` in front of the real one that does something before its n-th start.
struct Steps {
    directory: PathBuf,
}

impl Steps {
    fn new(island: &Island) -> Self {
        let directory = island.make_dir("steps");
        let real = island.run(&directory, "sh", &["-c", "command -v git"]).ok();
        let script = format!(
            "#!/bin/sh\n\
             exec 9> {0}/lock; flock 9\n\
             read n < {0}/count; n=$((n + 1)); echo $n > {0}/count\n\
             read at < {0}/at; if [ $n = $at ]; then victim=$PPID; . {0}/act; fi\n\
             exec 9>&-\n\
             exec {1} \"$@\"\n",
            directory.display(),
            real.out()
        );
        let file = island.write("steps/git", script);
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
        Self { directory }
    }

    /// Before git is started for the `at`-th time by this command, `act` happens.
    fn set(&self, island: &Island, command: &mut Command, at: u32, act: &str) {
        island.write("steps/count", "0");
        island.write("steps/at", at.to_string());
        island.write("steps/act", act);
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", self.directory.display()));
    }

    /// How often an apply starts git.
    fn of_an_apply(&self, case: &Case) -> u32 {
        let (_, count) = self.run(&case.repository, &["apply", "x"], 0, "");
        case.reset();
        count
    }

    /// Runs holm so. Returns the number of starts, too.
    fn run(&self, repository: &Repository, verb: &[&str], at: u32, act: &str) -> (Ran, u32) {
        let mut command = repository.island.holm_command(&repository.path, verb);
        self.set(repository.island, &mut command, at, act);
        let ran = Ran::new(&mut command);
        eventually("what was left of it is done", || {
            !is_at_work_in(&repository.path)
        });
        let count = fs::read_to_string(self.directory.join("count")).unwrap();
        (ran, count.trim().parse().unwrap())
    }
}

/// A script that kills a process.
fn killing(island: &Island, id: &str, whom: &str) -> String {
    let pid = match whom {
        "client" => return "kill -9 $victim".to_owned(),
        "daemon" => island.daemon_of_the_lock(),
        "keeper" => island.keeper_of(id),
        _ => island.init_of(id),
    };
    format!("kill -9 {}", pid.unwrap())
}

/// Kills a process before every start of git in a fetch, an apply and a merge.
fn killed_at_every_step(whom: &str) {
    let island = Island::new();
    let case = Case::new(&island);
    let steps = Steps::new(&island);
    let repository = &case.repository;
    let count = steps.of_an_apply(&case);
    let mut cut = 0;
    // `make soak` takes all steps. In CI the client dies at one half of them and the daemon at the other one;
    // keeper and init have no part in most of them, so each dies at a fifth.
    let (first, apart) = match whom {
        "client" => (1, times(2, 1)),
        "daemon" => (times(2, 1), times(2, 1)),
        "keeper" => (1, times(5, 1)),
        _ => (times(3, 1), times(5, 1)),
    };
    for at in (first..=count).step_by(apart) {
        let when = format!("{whom} at {at} of an apply");
        island.sh("x", "true").ok();
        let act = killing(&island, &case.id, whom);
        let (ran, _) = steps.run(repository, &["apply", "x"], at, &act);
        cut += u32::from(ran.code != Some(0));
        case.is_old_or_new(&format!("{when}: {ran:?}"));
        if ran.code == Some(0) {
            assert_eq!(
                contents(&repository.path),
                case.new,
                "{when}: said to be done"
            );
        }
        case.reset();
        case.applies_again(&when);
    }
    let names = [
        format!("refs/holm/{}", case.id),
        "refs/heads/holm/x".to_owned(),
    ];
    let tip = |name: &str| repository.git(&["rev-parse", name]);
    island.sh("x", "git add -A; git commit -qm all").ok();
    let (_, count) = steps.run(repository, &["fetch", "x"], 0, "");
    for at in (first..=count).step_by(apart) {
        let when = format!("{whom} at {at} of a fetch");
        let new = island.sh(
            "x",
            "date +%N > n; git add n; git commit -qm n; git rev-parse HEAD",
        );
        let (new, old) = (new.ok().out(), tip(&names[1]));
        let act = killing(&island, &case.id, whom);
        let (ran, _) = steps.run(repository, &["fetch", "x"], at, &act);
        cut += u32::from(ran.code != Some(0));
        for name in &names {
            assert!(
                [&old, &new].contains(&&tip(name)),
                "{when}: {name}, {ran:?}"
            );
            if ran.code == Some(0) {
                assert_eq!(tip(name), new, "{when}: said to be done");
            }
        }
        repository.git(&["fsck", "--connectivity-only"]);
        repository.holm(&["fetch", "x"]).ok();
        assert!(names.iter().all(|name| tip(name) == new), "{when}");
        case.nothing_is_left(&when);
    }
    // A workspace whose keeper or init died is started again by the next command that needs it.
    let is_needed = ["client", "daemon"].contains(&whom);
    assert!(cut > times(3, 5) || !is_needed, "{cut}: the victim matters");
}

#[test]
fn attack_148_a_client_that_dies_at_any_step_of_fetch_or_apply() {
    killed_at_every_step("client");
}

#[test]
fn attack_148_a_daemon_that_dies_at_any_step_of_fetch_or_apply() {
    killed_at_every_step("daemon");
}

#[test]
fn attack_148_a_keeper_that_dies_at_any_step_of_fetch_or_apply() {
    killed_at_every_step("keeper");
}

#[test]
fn attack_148_an_init_that_dies_at_any_step_of_fetch_or_apply() {
    killed_at_every_step("init");
}

/// A clean filter inside that does not come to an end.
const STANDS_STILL: &str = "git config filter.slow.clean 'touch ~/reached; sleep 1000';
    echo '* filter=slow' > .git/info/attributes; echo even more >> README.md";

#[test]
fn attack_148_whoever_dies_while_the_work_is_captured_inside() {
    let island = Island::new();
    let case = Case::new(&island);
    let repository = &case.repository;
    for whom in ["client", "person", "daemon", "keeper", "init"] {
        for verb in [&["apply", "x"][..], &["fetch", "x", "--commit", "m"]] {
            let when = format!("{whom} of {verb:?}");
            island.sh("x", STANDS_STILL).ok();
            let mut command = island.holm_command(&repository.path, verb);
            command.stderr(Stdio::null());
            let mut running = Running::new(&mut command);
            eventually("it is captured", || {
                island.sh("x", "test -e ~/reached").code == Some(0)
            });
            match whom {
                "client" => running.signal(Signal::KILL),
                // The user types Ctrl-C.
                "person" => running.signal(Signal::INT),
                "daemon" => island.kill_daemon(),
                "keeper" => send(island.keeper_of(&case.id).unwrap(), Signal::KILL),
                _ => send(island.init_of(&case.id).unwrap(), Signal::KILL),
            }
            let code = running.code();
            assert_ne!(code, Some(0), "{when}");
            if whom == "person" && verb[0] == "apply" {
                assert_eq!(code, Some(130), "{when}");
            }
            assert_eq!(contents(&repository.path), case.old, "{when}");
            case.nothing_is_left(&when);
            // Git can be used inside, even while a filter continues without a daemon.
            let script = "git config --remove-section filter.slow && rm ~/reached .git/info/attributes &&
                git add README.md && git reset -q && git checkout -q README.md && echo more >> README.md &&
                { pkill -9 -f '[s]cratch='; pkill -9 sleep; true; }";
            island.sh("x", script).ok();
            repository.holm(&["fetch", "x"]).ok();
            case.applies_again(&when);
        }
    }
}

#[test]
fn attack_161_a_merge_that_is_killed_leaves_the_checkout_old_or_new() {
    let island = Island::new();
    let case = Case::new(&island);
    let (steps, repository) = (Steps::new(&island), &case.repository);
    repository.git(&["reset", "-q", "--hard"]);
    let old = (
        repository.git(&["rev-parse", "HEAD"]),
        contents(&repository.path),
    );
    island.sh("x", "git add -A; git commit -qm all").ok();
    let (_, count) = steps.run(repository, &["merge", "x"], 0, "");
    let new = (
        repository.git(&["rev-parse", "HEAD"]),
        contents(&repository.path),
    );
    assert_ne!(old, new);
    for at in 1..=count {
        repository.git(&["reset", "-q", "--hard", &old.0]);
        repository.git(&["update-ref", "-d", "refs/heads/holm/x"]);
        let (ran, _) = steps.run(repository, &["merge", "x"], at, "kill -9 $victim");
        let now = (
            repository.git(&["rev-parse", "HEAD"]),
            contents(&repository.path),
        );
        assert!(now == old || now == new, "at {at}: {ran:?} {now:#?}");
        assert_eq!(
            repository.git(&["status", "--porcelain", "-uno"]),
            "",
            "at {at}"
        );
        repository.holm(&["merge", "x"]).ok();
        assert_eq!(contents(&repository.path), new.1, "at {at}");
        case.nothing_is_left(&format!("at {at}"));
    }
}

/// Runs `holm apply x` and does something to the move of a path, out or in.
fn with_move(case: &Case, (path, call): (&str, &str), what: &str) -> Command {
    let repository = &case.repository;
    let mut command = case.island().command("strace", &repository.path);
    command
        .args(["-f", "-qq", "-o", "/dev/null", "-P"])
        .arg(repository.path.join(path))
        .args(["-e", &format!("trace={call}"), "-e"])
        .args([&format!("inject={call}:{what}:when=1"), "--"])
        .arg(program())
        .args(["apply", "x", "--json"]);
    command
}

/// Lets an apply get to a move and kills all its processes there: first the client, when the moving
/// process has begun, and then that one. An apply starts git `count` times.
fn cut_at(case: &Case, steps: &Steps, count: u32, moved: (&str, &str)) {
    let mut command = with_move(case, moved, "signal=KILL");
    let act = "kill -9 $(cut -d' ' -f4 /proc/$victim/stat)";
    steps.set(case.island(), &mut command, count, act);
    let ran = Ran::new(&mut command);
    assert_ne!(ran.code, Some(0), "{moved:?}: {ran:?}");
    eventually("all of it is gone", || {
        !is_at_work_in(&case.repository.path)
    });
    let journal = case.repository.path.join(".git/holm-apply/plan");
    assert!(journal.exists(), "{moved:?}: {ran:?}");
}

#[test]
fn attack_161_an_apply_that_is_killed_at_any_move_is_undone_or_finished_by_the_next() {
    let island = Island::new();
    let case = Case::new(&island);
    let steps = Steps::new(&island);
    let count = steps.of_an_apply(&case);
    let mut mixed = 0;
    // CI cuts at every other move, beginning with the first.
    for moved in MOVED.into_iter().step_by(times(2, 1)) {
        let when = format!("{moved:?}");
        cut_at(&case, &steps, count, moved);
        let now = contents(&case.repository.path);
        let is_mixed = now != case.old && now != case.new;
        mixed += u32::from(is_mixed);
        // The user's uncommitted files exist all the time.
        for name in ["edited", "mine"] {
            let path = case.repository.path.join(name);
            assert_eq!(now.get(&path), case.old.get(&path), "{when}");
        }
        let ran = case.applies_again(&when);
        assert_eq!(
            ran.stderr.contains("is undone"),
            is_mixed,
            "{when}: {ran:?}"
        );
    }
    // The counterpart: without the journal these would have stayed so.
    assert!(mixed > times(2, 5), "{mixed}");
    // A command that uses the checkout finds a consistent one.
    cut_at(&case, &steps, count, ("f3", IN));
    case.repository.holm(&["up", "y", "--dirty"]).ok();
    assert_eq!(contents(&case.repository.path), case.old);
    case.nothing_is_left("up --dirty");
}

#[test]
fn files_that_were_changed_after_a_killed_apply_stay_and_earlier_ones_are_kept() {
    let island = Island::new();
    let case = Case::new(&island);
    let path = |name: &str| case.repository.path.join(name);
    // Everything old is out, README.md and f1 are in, f3 is not.
    let steps = Steps::new(&island);
    cut_at(&case, &steps, steps.of_an_apply(&case), ("f3", IN));
    case.repository.write("README.md", "edited meanwhile\n");
    case.repository.write("f1", "edited meanwhile, too\n");
    case.repository.write("gone", "written anew\n");
    case.repository
        .write("becomes/other", "in the way of a file\n");
    let ran = case.repository.holm(&["merge", "x"]);
    for (name, text) in [
        ("README.md", "edited meanwhile\n"),
        ("f1", "edited meanwhile, too\n"),
        ("gone", "written anew\n"),
        ("becomes/other", "in the way of a file\n"),
        ("folder/a", "folder/a\n"),
        ("edited", "not committed\n"),
    ] {
        let found = fs::read_to_string(path(name)).ok();
        assert_eq!(found.as_deref(), Some(text), "{name}: {ran:?}");
        // Unchanged files are not mentioned.
        let is_said = ran.stderr.contains(&format!("  {name},"));
        assert_eq!(
            is_said,
            ["README.md", "f1", "gone"].contains(&name),
            "{name}: {ran:?}"
        );
    }
    assert!(!path("f2").exists() && !path("deep").exists(), "{ran:?}");
    for (name, earlier) in [
        ("README.md", "# hello\n"),
        ("gone", "gone\n"),
        ("becomes", "becomes\n"),
    ] {
        let said = ran
            .stderr
            .lines()
            .find(|line| line.starts_with(&format!("  {name}, whose")));
        let kept = said.and_then(|line| line.rsplit(' ').next()).expect(name);
        assert_eq!(fs::read_to_string(kept).unwrap(), earlier, "{name}");
    }
    // It is settled: the next one is not told again.
    let again = case.repository.holm(&["merge", "x"]);
    assert!(!again.stderr.contains("cut off"), "{again:?}");
}

#[test]
fn attack_161_the_counterpart_git_apply_that_is_killed_leaves_a_mixed_checkout() {
    let island = Island::new();
    let case = Case::new(&island);
    let patch = case.repository.holm(&["diff", "x"]).ok().stdout;
    let patch = island.write("patch", patch);
    let mut command = island.command("strace", &case.repository.path);
    command
        .args(["-f", "-qq", "-o", "/dev/null", "-P"])
        .arg("f3")
        .args([
            "-e",
            "trace=openat",
            "-e",
            "inject=openat:signal=KILL",
            "--",
        ])
        .args(["git", "apply"])
        .arg(patch);
    Ran::new(&mut command);
    let now = contents(&case.repository.path);
    assert!(now != case.old && now != case.new, "{now:#?}");
}

#[test]
fn attack_158_moves_that_fail_are_undone() {
    let island = Island::new();
    let case = Case::new(&island);
    // In CI those moves fail that the test above does not cut, each in one way.
    let moves = MOVED.into_iter().skip(times(1, 0)).step_by(times(2, 1));
    for (number, moved) in moves.enumerate() {
        let errors = times(
            &["ENOSPC", "EIO"][number % 2..=number % 2],
            &["ENOSPC", "EIO"],
        );
        for error in errors {
            let when = format!("{moved:?} {error}");
            let failed = with_move(&case, moved, &format!("error={error}"));
            let failed = Ran::new(&mut { failed }).error(1);
            let message = failed["message"].as_str().unwrap();
            assert!(message.contains(moved.0), "{when}: {message}");
            assert_eq!(
                failed["code"] == "disk_full",
                *error == "ENOSPC",
                "{failed}"
            );
            assert_eq!(contents(&case.repository.path), case.old, "{when}");
            case.nothing_is_left(&when);
        }
    }
    case.applies_again("in the end");
}

#[test]
fn attack_158_no_room_while_work_comes_back() {
    let island = Island::new();
    let case = Case::new(&island);
    let repository = &case.repository;
    repository.holm(&["fetch", "x"]).ok();
    let script = "head -c 3000000 /dev/urandom > big; git add -A; git commit -qm big";
    island.sh("x", script).ok();
    let names = [
        format!("refs/holm/{}", case.id),
        "refs/heads/holm/x".to_owned(),
    ];
    let tips = || {
        names
            .clone()
            .map(|name| repository.git(&["rev-parse", &name]))
    };
    let before = tips();
    for verb in ["fetch", "apply", "merge"] {
        let mut command = island.command("prlimit", &repository.path);
        command.args(["--fsize=1000000", "--"]).arg(program());
        let error = Ran::new(command.args([verb, "x", "--json"]));
        if verb == "merge" {
            // The checkout has edits, which is reported first.
            error.error(4);
        } else {
            error.error(1);
        }
        assert_eq!(contents(&repository.path), case.old, "{verb}");
        assert_eq!(tips(), before, "{verb}");
        case.nothing_is_left(verb);
    }
    repository.git(&["fsck", "--connectivity-only"]);
    repository.holm(&["fetch", "x"]).ok();
    assert_ne!(tips(), before);
    repository.holm(&["apply", "x"]).ok();
    assert_eq!(
        fs::read(repository.path.join("big")).unwrap().len(),
        3_000_000
    );
}
