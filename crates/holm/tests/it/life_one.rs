//! Sixteen clients at one workspace at the same time: every answer fits into one order of all that was
//! asked, and in the end nothing is stuck (attack 167).

use crate::support::{Island, Ran};
use std::collections::HashSet;
use std::sync::Barrier;

/// What the workspace can be, as the clients know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Model {
    Running,
    Stopped,
    Removed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Start,
    Stop,
    Restart,
    Exec,
    Show,
    Remove,
    Restore,
}

/// A client's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Is(Model),
    /// The command ran, or the stop of the workspace interrupted it.
    Ran,
    NotRunning,
    NotFound,
}

const CLIENTS: usize = 16;
const ROUNDS: usize = 6;

/// What the answer implies about the moment in which it was carried out: the state before and
/// after.
fn fits(verb: Verb, told: Told, before: Model) -> Option<Model> {
    use Model::{Removed, Running, Stopped};
    let after = match (verb, told, before) {
        (Verb::Start | Verb::Restart, Told::Is(Running), Running | Stopped) => Running,
        (Verb::Stop, Told::Is(Stopped), Running | Stopped) => Stopped,
        (Verb::Exec, Told::Ran, Running) => Running,
        (Verb::Exec, Told::NotRunning, Stopped) => Stopped,
        (Verb::Show, Told::Is(is), before) if is == before => before,
        (Verb::Remove, Told::Is(Removed), Running | Stopped) => Removed,
        (Verb::Restore, Told::Is(Stopped), Removed) => Stopped,
        // The trash does not have it.
        (Verb::Restore, Told::NotFound, Running | Stopped) => before,
        (Verb::Restore | Verb::Show, Told::NotFound, _) => return None,
        (_, Told::NotFound, Removed) => Removed,
        _ => return None,
    };
    Some(after)
}

/// The possible states after all of these happened in some order.
fn possible(before: &HashSet<Model>, round: &[(Verb, Told)]) -> HashSet<Model> {
    let all = (1_u32 << round.len()) - 1;
    let mut reached: HashSet<(u32, Model)> = before.iter().map(|model| (0, *model)).collect();
    let mut fresh: Vec<_> = reached.iter().copied().collect();
    while let Some((done, model)) = fresh.pop() {
        for (number, (verb, told)) in round.iter().enumerate() {
            let bit = 1 << number;
            if done & bit == 0
                && let Some(after) = fits(*verb, *told, model)
                && reached.insert((done | bit, after))
            {
                fresh.push((done | bit, after));
            }
        }
    }
    let ends = reached.into_iter().filter(|(done, _)| *done == all);
    ends.map(|(_, model)| model).collect()
}

fn told(verb: Verb, ran: Ran) -> Told {
    let said = ran.stderr.clone();
    match (verb, ran.code) {
        (Verb::Exec, Some(0 | 129 | 137 | 143)) => Told::Ran,
        (Verb::Exec, Some(4)) if said.contains("not_running") => Told::NotRunning,
        // It ended while the command was on its way in.
        (Verb::Exec, Some(1)) if said.contains("exec_failed") => Told::Ran,
        (_, Some(3)) => Told::NotFound,
        (_, Some(0)) => Told::Is(match ran.json()["state"].as_str().unwrap() {
            "running" => Model::Running,
            "stopped" => Model::Stopped,
            "removed" => Model::Removed,
            state => panic!("{verb:?}: {state}"),
        }),
        (_, code) => panic!("{verb:?} ended with {code:?}: {said}"),
    }
}

fn act(island: &Island, id: &str, verb: Verb) -> Told {
    let arguments: &[&str] = match verb {
        Verb::Start => &["start", id, "--json"],
        Verb::Stop => &["stop", id, "--json"],
        Verb::Restart => &["restart", id, "--json"],
        Verb::Exec => &["exec", id, "--no-start", "--json", "--", "true"],
        Verb::Show => &["show", id, "--json"],
        Verb::Remove => &["rm", id, "--force", "--json"],
        Verb::Restore => &["restore", id, "--json"],
    };
    told(verb, island.holm(arguments))
}

#[test]
fn attack_167_sixteen_clients_at_one_workspace() {
    let island = Island::new();
    let id = island.repository("shop").up("one");
    let seed = std::env::var("HOLM_TEST_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok());
    let mut random: u64 = seed.unwrap_or(u64::from(std::process::id()) << 16 | 1);
    println!("HOLM_TEST_SEED={random}");
    let mut verb = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        match random % 16 {
            0..4 => Verb::Start,
            4..7 => Verb::Stop,
            7 => Verb::Restart,
            8..11 => Verb::Exec,
            11..13 => Verb::Show,
            13 => Verb::Remove,
            _ => Verb::Restore,
        }
    };
    let mut models = HashSet::from([Model::Running]);
    for _ in 0..ROUNDS {
        let verbs: Vec<Verb> = (0..CLIENTS).map(|_| verb()).collect();
        let together = Barrier::new(CLIENTS);
        let round: Vec<(Verb, Told)> = std::thread::scope(|scope| {
            let clients: Vec<_> = verbs
                .into_iter()
                .map(|verb| {
                    let (island, id, together) = (&island, &id, &together);
                    scope.spawn(move || {
                        together.wait();
                        (verb, act(island, id, verb))
                    })
                })
                .collect();
            clients.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let after = possible(&models, &round);
        assert!(
            !after.is_empty(),
            "no order explains {round:?} after {models:?}"
        );
        models = after;
    }
    // No state is stuck.
    act(&island, &id, Verb::Restore);
    assert_eq!(act(&island, &id, Verb::Start), Told::Is(Model::Running));
    island.inside(&id, &["true"]).ok();
    assert_eq!(act(&island, &id, Verb::Remove), Told::Is(Model::Removed));
}

#[test]
fn the_model_tells_what_cannot_be() {
    use Model::{Removed, Running, Stopped};
    let running = HashSet::from([Running]);
    let stop_and_exec = [(Verb::Stop, Told::Is(Stopped)), (Verb::Exec, Told::Ran)];
    assert_eq!(possible(&running, &stop_and_exec), HashSet::from([Stopped]));
    let never_stopped = [
        (Verb::Exec, Told::NotRunning),
        (Verb::Show, Told::Is(Running)),
    ];
    assert!(possible(&running, &never_stopped).is_empty());
    let twice = [(Verb::Remove, Told::Is(Removed)); 2];
    assert!(
        possible(&running, &twice).is_empty(),
        "removed by one of two"
    );
}
