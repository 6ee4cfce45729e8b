//! The planner in a simulated world: from any state and after any failure, observing and planning
//! again reaches the desired state, and no user data is touched on the way.

use holm_core::plan::{Action, Base, Desired, Files, Keeper, Observed, plan};
use proptest::prelude::*;

const DESIRED: [Desired; 3] = [Desired::Running, Desired::Stopped, Desired::Removed];

const FILES: [Files; 5] = [
    Files::Absent,
    Files::Partial,
    Files::Complete,
    Files::Outdated,
    Files::SetAside,
];

const KEEPERS: [Keeper; 4] = [
    Keeper::Absent,
    Keeper::Running,
    Keeper::Outdated,
    Keeper::Broken,
];

/// The actual state. `Files::Complete` may contain a user's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct World {
    observed: Observed,
    /// How often complete files were made from nothing: other work than before.
    made: u32,
    /// The files that lie in the trash, by the number of their making.
    trash: Option<u32>,
}

/// How one action goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Luck {
    Works,
    /// Nothing was done.
    FailsBefore,
    /// It was interrupted and leaves what an interruption can leave.
    Crashes,
    /// Everything was done, but the acknowledgement was lost.
    FailsAfter,
}

const BAD_LUCK: [Luck; 3] = [Luck::FailsBefore, Luck::Crashes, Luck::FailsAfter];

// === impl World ===

impl World {
    fn new(observed: Observed) -> Self {
        Self {
            observed,
            made: 0,
            trash: (observed.files == Files::SetAside).then_some(0),
        }
    }

    /// Every world that a driver can see.
    fn all() -> Vec<World> {
        let mut all = Vec::new();
        for base in [Base::Absent, Base::Present] {
            for files in FILES {
                for keeper in KEEPERS {
                    all.push(World::new(Observed {
                        base,
                        files,
                        keeper,
                    }));
                }
            }
        }
        all
    }

    /// Does an action as a driver would. Panics where a driver must never be asked.
    fn apply(&mut self, action: Action) {
        let observed = &mut self.observed;
        match action {
            Action::BuildBase => observed.base = Base::Present,
            Action::MakeFiles => {
                assert_eq!(observed.base, Base::Present, "files need their base");
                if observed.files != Files::Complete {
                    assert_eq!(observed.keeper, Keeper::Absent, "files made under a keeper");
                    observed.files = Files::Complete;
                    self.made += 1;
                }
            }
            Action::Launch => {
                assert_eq!(observed.base, Base::Present, "a mount needs its base");
                assert_eq!(observed.files, Files::Complete, "a launch needs files");
                assert_ne!(observed.keeper, Keeper::Broken, "a launch beside remains");
                observed.keeper = Keeper::Running;
            }
            Action::Halt => observed.keeper = Keeper::Absent,
            Action::SetAside => {
                assert_eq!(
                    observed.keeper,
                    Keeper::Absent,
                    "files moved under a keeper"
                );
                if !matches!(observed.files, Files::Absent | Files::SetAside) {
                    assert_eq!(self.trash, None, "a second entry in the trash");
                    observed.files = Files::SetAside;
                    self.trash = Some(self.made);
                }
            }
            Action::RemakeFiles => {
                assert_eq!(observed.base, Base::Present, "files need their base");
                assert_eq!(observed.keeper, Keeper::Absent, "files made under a keeper");
                if observed.files == Files::Outdated {
                    observed.files = Files::Complete;
                    self.made += 1;
                }
            }
            Action::RenewVolumes => {
                if observed.keeper == Keeper::Outdated {
                    observed.keeper = Keeper::Running;
                }
            }
            // Never planned from an observation.
            Action::BuildLayer | Action::TakeSnapshot => {}
            // Not planned from an observation, but from a stored move.
            Action::Switch | Action::SetUp | Action::React => {}
            Action::TakeBack => {
                assert_eq!(
                    observed.keeper,
                    Keeper::Absent,
                    "files put under a keeper of something else"
                );
                if observed.files == Files::SetAside {
                    assert_eq!(self.trash, Some(self.made), "other work than was set aside");
                    observed.files = Files::Complete;
                    self.trash = None;
                }
            }
        }
    }

    /// The action is interrupted in the middle. A single rename is done or not.
    fn crash(&mut self, action: Action) {
        match action {
            Action::MakeFiles if self.observed.files != Files::Complete => {
                self.observed.files = Files::Partial;
            }
            Action::Launch if self.observed.keeper != Keeper::Running => {
                self.observed.keeper = Keeper::Broken;
            }
            // One of them is mounted, another is not yet.
            Action::RenewVolumes => self.observed.keeper = Keeper::Outdated,
            Action::Halt if self.observed.keeper != Keeper::Absent => {
                self.observed.keeper = Keeper::Broken;
            }
            _ => {}
        }
    }

    /// Looks once and does what the plan says, until bad luck. True when all was done.
    fn work(&mut self, desired: Desired, luck: &mut dyn FnMut() -> Luck) -> bool {
        for action in plan(desired, self.observed) {
            let before = *self;
            let luck = luck();
            match luck {
                Luck::FailsBefore => {}
                Luck::Crashes => self.crash(action),
                Luck::Works | Luck::FailsAfter => self.apply(action),
            }
            check_step(desired, action, &before, self);
            if luck != Luck::Works {
                return false;
            }
        }
        true
    }

    fn is_at_goal(&self, desired: Desired) -> bool {
        let Observed { files, keeper, .. } = self.observed;
        match desired {
            Desired::Running => files == Files::Complete && keeper == Keeper::Running,
            Desired::Stopped => files == Files::Complete && keeper == Keeper::Absent,
            Desired::Removed => {
                matches!(files, Files::Absent | Files::SetAside) && keeper == Keeper::Absent
            }
        }
    }
}

/// What no single step may do.
fn check_step(desired: Desired, action: Action, before: &World, after: &World) {
    if desired == Desired::Removed {
        let allowed = matches!(action, Action::Halt | Action::SetAside);
        assert!(allowed, "{action:?} of something that is to be removed");
    } else {
        assert_ne!(action, Action::SetAside, "work set aside that is wanted");
    }
    if before.observed.files == Files::SetAside {
        assert_eq!(after.made, before.made, "{action:?} instead of the trash");
        if action != Action::TakeBack {
            assert_eq!(after.trash, before.trash, "{action:?} touched the trash");
        }
    }
    if before.observed.files == Files::Complete && action != Action::SetAside {
        assert_eq!(
            after.observed.files,
            Files::Complete,
            "{action:?} touched work"
        );
        assert_eq!(after.made, before.made, "{action:?} replaced work");
    }
    if before.observed.files == Files::Complete && after.observed.files != Files::Complete {
        assert_eq!(
            after.trash,
            Some(before.made),
            "work is gone and not in the trash"
        );
    }
}

#[test]
fn from_everything_there_can_be_one_plan_leads_to_the_goal() {
    for desired in DESIRED {
        for start in World::all() {
            let mut world = start;
            assert!(world.work(desired, &mut || Luck::Works));
            assert!(
                world.is_at_goal(desired),
                "{desired:?} from {start:?}: {world:?}"
            );
            assert_eq!(
                plan(desired, world.observed),
                [],
                "{desired:?} from {start:?}"
            );
        }
    }
}

#[test]
fn what_is_as_wanted_is_left_alone() {
    for desired in DESIRED {
        for world in World::all()
            .into_iter()
            .filter(|world| world.is_at_goal(desired))
        {
            assert_eq!(plan(desired, world.observed), [], "{desired:?} {world:?}");
        }
    }
}

#[test]
fn a_keeper_whose_files_are_gone_is_ended_before_they_are_made_again() {
    for files in [Files::Absent, Files::Partial] {
        let observed = Observed {
            base: Base::Present,
            files,
            keeper: Keeper::Running,
        };
        let expect = [Action::Halt, Action::MakeFiles, Action::Launch];
        assert_eq!(plan(Desired::Running, observed), expect);
    }
}

#[test]
fn what_lies_in_the_trash_comes_back_and_is_never_made_anew() {
    for base in [Base::Absent, Base::Present] {
        let observed = Observed {
            base,
            files: Files::SetAside,
            keeper: Keeper::Absent,
        };
        assert_eq!(plan(Desired::Stopped, observed), [Action::TakeBack]);
        assert_eq!(plan(Desired::Removed, observed), []);
        let actions = plan(Desired::Running, observed);
        assert_eq!(actions.first(), Some(&Action::TakeBack));
        assert_eq!(actions.last(), Some(&Action::Launch));
        assert!(!actions.contains(&Action::MakeFiles));
    }
}

#[test]
fn each_action_twice_is_the_same_as_once() {
    for desired in DESIRED {
        for start in World::all() {
            let mut world = start;
            for action in plan(desired, start.observed) {
                world.apply(action);
                let once = world;
                world.apply(action);
                assert_eq!(
                    world, once,
                    "{action:?} twice, to {desired:?} from {start:?}"
                );
            }
        }
    }
}

#[test]
fn failing_at_any_one_action_and_starting_again_converges() {
    for desired in DESIRED {
        for start in World::all() {
            for at in 0..plan(desired, start.observed).len() {
                for bad in BAD_LUCK {
                    let mut world = start;
                    let mut count = 0;
                    let mut luck = || {
                        count += 1;
                        if count == at + 1 { bad } else { Luck::Works }
                    };
                    assert!(!world.work(desired, &mut luck));
                    assert!(world.work(desired, &mut || Luck::Works));
                    assert!(
                        world.is_at_goal(desired),
                        "{desired:?} from {start:?}, {bad:?} at {at}: {world:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn changing_ones_mind_in_the_middle_converges() {
    for first in DESIRED {
        for then in DESIRED {
            for start in World::all() {
                for bad in BAD_LUCK {
                    let mut world = start;
                    world.work(first, &mut || bad);
                    world.work(then, &mut || Luck::Works);
                    assert!(world.is_at_goal(then), "{first:?}, {then:?} from {start:?}");
                }
            }
        }
    }
}

fn any_luck() -> impl Strategy<Value = Luck> {
    prop_oneof![
        Just(Luck::Works),
        Just(Luck::FailsBefore),
        Just(Luck::Crashes),
        Just(Luck::FailsAfter),
    ]
}

/// What happens between two observations without an action of holm.
#[derive(Clone, Copy, Debug)]
enum Weather {
    Calm,
    Reboot,
    KeeperHangs,
    BaseLost,
}

fn any_weather() -> impl Strategy<Value = Weather> {
    prop_oneof![
        Just(Weather::Calm),
        Just(Weather::Reboot),
        Just(Weather::KeeperHangs),
        Just(Weather::BaseLost),
    ]
}

proptest! {
    // A failing case is printed; it is kept by writing a test for it.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_failures_and_wishes_ends_at_the_last_wish(
        start in 0..World::all().len(),
        rounds in prop::collection::vec(
            (0..3_usize, prop::collection::vec(any_luck(), 0..6), any_weather()),
            0..12,
        ),
        last in 0..3_usize,
    ) {
        let mut world = World::all()[start];
        for (wish, luck, weather) in rounds {
            let mut luck = luck.into_iter();
            world.work(DESIRED[wish], &mut || luck.next().unwrap_or(Luck::Works));
            match weather {
                Weather::Calm => {}
                Weather::Reboot => world.observed.keeper = Keeper::Absent,
                Weather::KeeperHangs if world.observed.keeper == Keeper::Running => {
                    world.observed.keeper = Keeper::Broken;
                }
                Weather::KeeperHangs => {}
                Weather::BaseLost if world.observed.keeper == Keeper::Absent => {
                    world.observed.base = Base::Absent;
                }
                Weather::BaseLost => {}
            }
        }
        prop_assert!(world.work(DESIRED[last], &mut || Luck::Works));
        prop_assert!(world.is_at_goal(DESIRED[last]));
        prop_assert_eq!(plan(DESIRED[last], world.observed), []);
    }
}
