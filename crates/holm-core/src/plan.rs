//! What has to happen next. Create, start, repair, recovery after a crash or a reboot, removal and
//! bringing back from the trash are one path: look, [`plan`], apply.

/// What the user wants of a workspace. Stored; changes only when the user says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Desired {
    Running,
    Stopped,
    Removed,
}

/// What there is of a workspace, as the driver sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Observed {
    pub base: Base,
    pub files: Files,
    pub keeper: Keeper,
}

/// Whether the base of the workspace's starting commit is there, whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    Absent,
    Present,
}

/// The workspace's own files: tree, home, temporary files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Files {
    Absent,
    /// Making them was interrupted. Nothing ran on them yet, so nothing of a user is in them.
    Partial,
    Complete,
    /// Whole, and of an earlier beginning than the one that is wanted (`reset`). What was in them was
    /// given up or is in a snapshot.
    Outdated,
    /// They lie in the trash, as they were, and nothing is in their place.
    SetAside,
}

/// The workspace's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Keeper {
    Absent,
    Running,
    /// They run with volumes of an earlier beginning than the one that is wanted.
    Outdated,
    /// Something of it is there, and it does not answer as it should.
    Broken,
}

/// One step. Each may be repeated: doing it when it is done already changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Check the starting commit out into a shared, immutable tree.
    BuildBase,
    /// Make the workspace's own directories; throws away a partial attempt.
    MakeFiles,
    /// Start the keeper, and by it everything else.
    Launch,
    /// End every process of the workspace.
    Halt,
    /// Run the set-up in a workspace made for it, end it, and keep what it made as a layer.
    BuildLayer,
    /// Make the tree anew, as the workspace began or as a snapshot has it.
    RemakeFiles,
    /// Mount volumes that were begun anew, and start what uses them again.
    RenewVolumes,
    /// Copy what the workspace wrote, as of one instant.
    TakeSnapshot,
    /// Rename the workspace's files into the trash.
    SetAside,
    /// Rename the workspace's files out of the trash.
    TakeBack,
    /// Bring the tree of a workspace to the commit that it moves to.
    Switch,
    /// Run the set-up in the workspace itself, after its inputs changed.
    SetUp,
    /// Have the services do what a move asks of them.
    React,
}

/// The steps that lead from what there is to what is wanted, in order.
pub fn plan(desired: Desired, observed: Observed) -> Vec<Action> {
    let mut actions = Vec::new();
    let must_halt = match (desired, observed.keeper) {
        (_, Keeper::Absent) => false,
        // A keeper of files that are not whole keeps something else than this workspace.
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

/// The word that users see.
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
