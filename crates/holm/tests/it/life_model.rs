//! Random operations by several clients at once, with a daemon that dies now and then: the final
//! state is that of a simple model (attack 167).
//!
//! A failing run is reduced by leaving out operations, and printed. `HOLM_TEST_SEED` repeats one.

use crate::support::{Island, Ran, Repository, eventually};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Up,
    Start,
    Stop,
    Restart,
    Rename,
    Remove,
    Exec,
    KillDaemon,
    KillKeeper,
}

/// A verb on one of the clients' own workspaces.
#[derive(Clone, Copy, Debug)]
struct Operation {
    verb: Verb,
    which: usize,
}

const LABELS: usize = 2;
const CLIENTS: usize = 4;

/// What one client believes of its workspaces: label to whether it runs.
type Model = BTreeMap<String, bool>;

fn operations() -> impl Strategy<Value = Vec<Vec<Operation>>> {
    let verb = prop_oneof![
        4 => Just(Verb::Up),
        2 => Just(Verb::Start),
        2 => Just(Verb::Stop),
        2 => Just(Verb::Restart),
        2 => Just(Verb::Rename),
        2 => Just(Verb::Remove),
        3 => Just(Verb::Exec),
        1 => Just(Verb::KillKeeper),
        1 => Just(Verb::KillDaemon),
    ];
    let one = (verb, 0..LABELS).prop_map(|(verb, which)| Operation { verb, which });
    vec(vec(one, 1..8), CLIENTS)
}

/// Runs a command until it says something else than that the daemon died under it, which another
/// client may have made it do.
fn until_answered(run: impl Fn() -> Ran) -> Ran {
    for _ in 0..50 {
        let ran = run();
        if ran.code != Some(5) {
            return ran;
        }
    }
    run()
}

/// One client. It has its own labels, so it knows what to expect; all share the daemon.
fn client(
    island: &Island,
    repository: &Repository<'_>,
    name: usize,
    operations: &[Operation],
) -> Result<Model, String> {
    let mut model = Model::new();
    for (step, operation) in operations.iter().enumerate() {
        let label = format!("c{name}-{}", operation.which);
        let other = format!("{label}-renamed");
        let known = model.get(&label).copied();
        let expect = |ran: Ran, code: i32| match ran.code {
            Some(got) if got == code => Ok(()),
            _ => Err(format!(
                "client {name}, step {step}, {operation:?}: {ran:?}"
            )),
        };
        let here = |arguments: &[&str]| until_answered(|| island.holm(arguments));
        let found = if known.is_some() { 0 } else { 3 };
        match operation.verb {
            Verb::Up => {
                let ran = until_answered(|| repository.holm(&["up", &label]));
                expect(ran, 0)?;
                model.insert(label, true);
            }
            Verb::Start | Verb::Restart | Verb::Stop => {
                let word = match operation.verb {
                    Verb::Start => "start",
                    Verb::Restart => "restart",
                    _ => "stop",
                };
                expect(here(&[word, &label]), found)?;
                if known.is_some() {
                    model.insert(label, operation.verb != Verb::Stop);
                }
            }
            Verb::Exec => {
                expect(here(&["exec", &label, "--", "cat", "README.md"]), found)?;
                if known.is_some() {
                    model.insert(label, true);
                }
            }
            Verb::Rename => rename(island, &label, &other, &mut model)?,
            Verb::Remove => {
                let ran = here(&["rm", &label, "--force"]);
                // The first attempt may have done it and died before it could answer.
                if !(known.is_some() && ran.code == Some(3)) {
                    expect(ran, found)?;
                }
                model.remove(&label);
            }
            Verb::KillDaemon => kill_daemon(island),
            Verb::KillKeeper => {
                let shown = here(&["show", &label, "--json"]);
                if known == Some(true) && shown.code == Some(0) {
                    let id = shown.json()["id"].as_str().unwrap().to_owned();
                    kill(island.keeper_of(&id));
                    // It should run, so the next request starts it again.
                    expect(here(&["start", &label]), 0)?;
                }
            }
        }
    }
    Ok(model)
}

fn rename(island: &Island, label: &str, other: &str, model: &mut Model) -> Result<(), String> {
    let ran = until_answered(|| island.holm(&["rename", label, other]));
    let renamed = match (
        model.get(label).copied(),
        model.contains_key(other),
        ran.code,
    ) {
        (Some(_), false, Some(0 | 3)) => true,
        (None, _, Some(3)) | (Some(_), true, Some(4)) => false,
        _ => return Err(format!("rename {label} to {other} with {model:?}: {ran:?}")),
    };
    if renamed && let Some(runs) = model.remove(label) {
        model.insert(other.to_owned(), runs);
    }
    Ok(())
}

/// Several clients may try, and one of them is first.
fn kill_daemon(island: &Island) {
    kill(island.daemon_of_the_lock());
}

fn kill(pid: Option<i32>) {
    if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
        // Gone already is as good.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

fn run(operations: &[Vec<Operation>]) -> Result<(), String> {
    let island = Island::new();
    let repository = island.repository("shop");
    let models: Vec<Result<Model, String>> = std::thread::scope(|scope| {
        let clients: Vec<_> = operations
            .iter()
            .enumerate()
            .map(|(name, own)| {
                let (island, repository) = (&island, &repository);
                scope.spawn(move || client(island, repository, name, own))
            })
            .collect();
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .collect()
    });
    let mut expected = BTreeMap::new();
    for model in models {
        for (label, runs) in model? {
            let word = if runs { "running" } else { "stopped" };
            expected.insert(label, word.to_owned());
        }
    }
    let found = island.states();
    if found != expected {
        return Err(format!("there is {found:?}, the model has {expected:?}"));
    }
    // Nothing is stuck: all of it can be removed, and then there is nothing.
    for label in found.keys() {
        island.holm(&["rm", label, "--force"]).ok();
    }
    eventually("nothing is left", || {
        let census = island.census();
        census.processes == 0 && census.workspaces.is_empty() && census.sockets.is_empty()
    });
    Ok(())
}

#[test]
fn attack_167_many_clients_and_a_mortal_daemon_agree_with_the_model() {
    let seed = std::env::var("HOLM_TEST_SEED").ok();
    let seed: u64 = seed.and_then(|text| text.parse().ok()).unwrap_or(3);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: 6,
        max_shrink_iters: 20,
        failure_persistence: None,
        ..Config::default()
    };
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config, random);
    let result = runner.run(&operations(), |operations| {
        run(&operations).map_err(TestCaseError::fail)
    });
    if let Err(error) = result {
        panic!("seed {seed}: {error}");
    }
}

#[test]
fn attack_167_sixteen_clients_on_one_workspace_leave_it_usable() {
    let island = Island::new();
    let repository = island.repository("shop");
    let id = repository.up("x");
    island.sh("x", "echo work > file").ok();
    std::thread::scope(|scope| {
        for client in 0..16 {
            let (island, id) = (&island, id.as_str());
            scope.spawn(move || {
                for step in 0..4 {
                    let arguments: &[&str] = match (client + step) % 5 {
                        0 => &["start", id],
                        1 => &["stop", id],
                        2 => &["restart", id],
                        3 => &["rm", id],
                        _ => &["exec", id, "--", "cat", "file"],
                    };
                    let ran = until_answered(|| island.holm(arguments));
                    // A command may lose its workspace under it; work that is not saved is not removed.
                    let allowed = match arguments[0] {
                        "exec" => ran.code == Some(0) && ran.out() == "work" || ran.code != Some(0),
                        "rm" => ran.code == Some(4),
                        _ => ran.code == Some(0),
                    };
                    assert!(allowed, "{arguments:?}: {ran:?}");
                }
            });
        }
    });
    island.holm(&["start", "x"]).ok();
    assert_eq!(island.sh("x", "cat file").ok().out(), "work");
    // The helper that measures the disk may run for a moment. A second keeper would stay.
    eventually("one keeper and one init are left", || {
        island.inhabitants().len() == 2
    });
    island.holm(&["stop", "x"]).ok();
    assert_eq!(island.states()["x"], "stopped");
}
