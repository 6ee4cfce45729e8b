//! The planner. Create, start, repair, recovery after a crash or a reboot, removal and restoring
//! are one path: observe, [`plan`], apply.

use serde::{Deserialize, Serialize};

/// What the user wants of a workspace. Stored; only the user changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Desired {
    Running,
    Stopped,
    Removed,
}

/// The state of a workspace, as the driver observes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Observed {
    pub base: Base,
    pub files: Files,
    pub keeper: Keeper,
}

/// Whether the complete base of the workspace's commit exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Base {
    Absent,
    Present,
}

/// The workspace's own files: tree, home, temporary files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Files {
    Absent,
    /// Creation was interrupted. No program ran on them yet, so they contain no user data.
    Partial,
    Complete,
    /// Complete, but of an earlier generation than the wanted one (`reset`). The user gave up their
    /// content or has it in a snapshot.
    Outdated,
    /// They are in the trash, unchanged.
    SetAside,
}

/// The workspace's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Keeper {
    Absent,
    Running,
    /// They run with volumes of an earlier generation than the wanted one.
    Outdated,
    /// Parts of it exist, but it does not answer correctly.
    Broken,
}

/// One step. Each may be repeated: if it is done already, it changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Action {
    /// Check the commit out into a shared, immutable tree.
    BuildBase,
    /// Create the workspace's own directories; discards a partial attempt.
    MakeFiles,
    /// Start the keeper, which starts everything else.
    Launch,
    /// End every process of the workspace.
    Halt,
    /// Run `setup` in a workspace made for it, end it, and keep the result as a layer.
    BuildLayer,
    /// Recreate the tree as at the workspace's start or as in a snapshot.
    RemakeFiles,
    /// Mount volumes of a new generation, and restart the services that use them.
    RenewVolumes,
    /// Copy the workspace's files as of one instant.
    TakeSnapshot,
    /// Rename the workspace's files into the trash.
    SetAside,
    /// Rename the workspace's files out of the trash.
    TakeBack,
    /// Make the commit that the workspace moves to available to git inside, which switches the tree.
    Switch,
    /// Run `setup` in the workspace itself, after its inputs changed.
    SetUp,
    /// Make the services react to a move.
    React,
}

/// The steps from the observed to the desired state, in order.
pub fn plan(desired: Desired, observed: Observed) -> Vec<Action> {
    let mut actions = Vec::new();
    let must_halt = match (desired, observed.keeper) {
        (_, Keeper::Absent) => false,
        // A keeper on incomplete files belongs to something else than this workspace.
        (Desired::Running, Keeper::Running | Keeper::Outdated) => observed.files != Files::Complete,
        (_, Keeper::Broken)
        | (Desired::Stopped | Desired::Removed, Keeper::Running | Keeper::Outdated) => true,
    };
    if must_halt {
        actions.push(Action::Halt);
    }
    match desired {
        Desired::Removed => match observed.files {
            Files::Partial | Files::Complete | Files::Outdated => actions.push(Action::SetAside),
            Files::Absent | Files::SetAside => {}
        },
        Desired::Running | Desired::Stopped => {
            let is_up = matches!(observed.keeper, Keeper::Running | Keeper::Outdated);
            let runs = is_up && !must_halt;
            let must_remake = observed.files == Files::Outdated;
            let must_launch = desired == Desired::Running && !runs;
            let must_make = matches!(observed.files, Files::Absent | Files::Partial);
            if observed.files == Files::SetAside {
                actions.push(Action::TakeBack);
            }
            if observed.base == Base::Absent && (must_launch || must_make || must_remake) {
                actions.push(Action::BuildBase);
            }
            if must_make {
                actions.push(Action::MakeFiles);
            }
            if must_remake {
                actions.push(Action::RemakeFiles);
            }
            if must_launch {
                actions.push(Action::Launch);
            }
            if runs && observed.keeper == Keeper::Outdated {
                actions.push(Action::RenewVolumes);
            }
        }
    }
    actions
}

/// The state that users see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    Creating,
    Running,
    Stopped,
    Failed,
    Removed,
}

// === impl Desired ===

impl Desired {
    pub fn as_str(self) -> &'static str {
        match self {
            Desired::Running => "running",
            Desired::Stopped => "stopped",
            Desired::Removed => "removed",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Desired::Running, Desired::Stopped, Desired::Removed]
            .into_iter()
            .find(|desired| desired.as_str() == text)
    }
}

// === impl Action ===

impl Action {
    pub fn as_str(self) -> &'static str {
        match self {
            Action::BuildBase => "build_base",
            Action::MakeFiles => "make_files",
            Action::Launch => "launch",
            Action::Halt => "halt",
            Action::BuildLayer => "build_layer",
            Action::RemakeFiles => "remake_files",
            Action::RenewVolumes => "renew_volumes",
            Action::TakeSnapshot => "take_snapshot",
            Action::SetAside => "set_aside",
            Action::TakeBack => "take_back",
            Action::Switch => "switch",
            Action::SetUp => "set_up",
            Action::React => "react",
        }
    }
}

// === impl State ===

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            State::Creating => "creating",
            State::Running => "running",
            State::Stopped => "stopped",
            State::Failed => "failed",
            State::Removed => "removed",
        }
    }
}
