//! Tools for projects and workspaces as a whole.

use super::{
    Action, Argument, Create, Form, Inspect, Lifecycle, Nature, Need, Reach, Tool, WORKSPACE,
    argument, needed, optional,
};

const PROJECT_PATH: Argument = optional(
    "path",
    Form::Text,
    "a directory of a git repository on this machine: a known project, or below the configured source folders",
);

const PROJECT_URL: Argument = optional(
    "url",
    Form::Text,
    "a git URL (https, ssh, file); it is cloned below the first source folder if it is not there yet",
);

pub static TOOLS: [Tool; 17] = [
    Tool {
        name: "project_create",
        title: "Make a project known",
        description: "Makes a git repository a project of holm. With `path` one that is on this machine, with \
            `url` a clone of it, and with only a `name` a new, empty repository. `isolation` and \
            `protected_paths` are kept with the project and hold for every workspace that is made from then \
            on; its holm.toml can add protected paths, and not take these away. Returns the project.",
        arguments: &[
            PROJECT_PATH,
            PROJECT_URL,
            optional(
                "name",
                Form::Text,
                "what the project is called, and its directory if it is new",
            ),
            optional(
                "isolation",
                Form::Text,
                "\"workspace\" (the default), or \"project\": workspaces see each other's trees, read-only; \
                 a person has to approve that with `holm trust`",
            ),
            optional(
                "protected_paths",
                Form::Words,
                "paths below the root that cannot be changed, moved or created in any workspace",
            ),
        ],
        nature: Nature::Changes,
        reach: Reach::Everything,
        action: Action::Create(Create::Project),
    },
    Tool {
        name: "project_list",
        title: "List projects",
        description: "The projects that holm knows, with their names, ids and paths.",
        arguments: &[],
        nature: Nature::Reads,
        reach: Reach::Everything,
        action: Action::Inspect(Inspect::Projects),
    },
    Tool {
        name: "workspace_create",
        title: "Make a workspace",
        description: "Makes a workspace of a project and starts its services: an isolated copy of the code on \
            a branch of its own, with its own ports, databases and processes. The project is named by \
            `project`, `path` or `url`. A live workspace with this label is started and returned with \
            \"created\": false. Takes milliseconds, and longer when `setup` or a seed has to run first.",
        arguments: &[
            optional(
                "project",
                Form::Text,
                "the name or the id of a known project",
            ),
            PROJECT_PATH,
            PROJECT_URL,
            optional(
                "label",
                Form::Text,
                "1 to 40 of a-z, 0-9 and -; left out, a pleasant one is made up",
            ),
            optional(
                "from",
                Form::Text,
                "branch, tag or commit to start from; left out, the checkout's commit",
            ),
            optional(
                "dirty",
                Form::Flag,
                "take the uncommitted state of the checkout along",
            ),
            optional(
                "wait",
                Form::Flag,
                "wait until services are ready; true when left out",
            ),
        ],
        nature: Nature::Changes,
        reach: Reach::Everything,
        action: Action::Create(Create::Workspace),
    },
    Tool {
        name: "workspace_list",
        title: "List workspaces",
        description: "All workspaces with their state, ports and services; with `trash` those that were removed.",
        arguments: &[optional("trash", Form::Flag, "those in the trash instead")],
        nature: Nature::Reads,
        reach: Reach::Everything,
        action: Action::Inspect(Inspect::Workspaces),
    },
    Tool {
        name: "workspace_show",
        title: "Show a workspace",
        description: "Everything about one workspace: state, commit, ports and URLs, services, volumes, limits, \
            and the isolation that is in force.",
        arguments: &[WORKSPACE],
        nature: Nature::Reads,
        reach: Reach::Inside,
        action: Action::Inspect(Inspect::Show),
    },
    Tool {
        name: "workspace_start",
        title: "Start a workspace",
        description: "Starts the processes and services of a stopped workspace. Code and data are as they were.",
        arguments: &[WORKSPACE],
        nature: Nature::Settles,
        reach: Reach::Workspace,
        action: Action::Lifecycle(Lifecycle::Start),
    },
    Tool {
        name: "workspace_stop",
        title: "Stop a workspace",
        description: "Ends all processes of a workspace. Code and data stay.",
        arguments: &[WORKSPACE],
        nature: Nature::Settles,
        reach: Reach::Workspace,
        action: Action::Lifecycle(Lifecycle::Stop),
    },
    Tool {
        name: "workspace_remove",
        title: "Remove a workspace",
        description: "Moves a workspace to the trash, from which workspace_restore brings it back for some days. \
            With unsaved work this is refused, and the work is listed; `force` goes on, and the trash keeps it.",
        arguments: &[
            WORKSPACE,
            optional("force", Form::Flag, "remove it even with unsaved work"),
        ],
        nature: Nature::Destroys,
        reach: Reach::Everything,
        action: Action::Lifecycle(Lifecycle::Remove),
    },
    Tool {
        name: "workspace_restore",
        title: "Restore a workspace",
        description: "Brings a workspace back from the trash, stopped, with the same id.",
        arguments: &[needed(
            "workspace",
            Form::Text,
            "the label or the id that it had",
        )],
        nature: Nature::Changes,
        reach: Reach::Everything,
        action: Action::Lifecycle(Lifecycle::Restore),
    },
    Tool {
        name: "workspace_rename",
        title: "Rename a workspace",
        description: "Changes the label of a workspace and nothing else.",
        arguments: &[
            WORKSPACE,
            needed("label", Form::Text, "1 to 40 of a-z, 0-9 and -"),
        ],
        nature: Nature::Settles,
        reach: Reach::Workspace,
        action: Action::Lifecycle(Lifecycle::Rename),
    },
    Tool {
        name: "workspace_assign",
        title: "Move a workspace to another commit",
        description: "Moves a live workspace to another branch, tag or commit of the user's repository; each \
            service reacts by its strategy. Uncommitted changes are refused unless `stash`.",
        arguments: &[
            WORKSPACE,
            needed("ref", Form::Text, "branch, tag or commit"),
            optional(
                "stash",
                Form::Flag,
                "make a stash inside of what is not committed",
            ),
        ],
        nature: Nature::Changes,
        reach: Reach::Workspace,
        action: Action::Create(Create::Assign),
    },
    Tool {
        name: "workspace_sync",
        title: "Bring a workspace up to date",
        description: "Fast-forwards a workspace to the newest commit of the branch it started from, if it has no \
            changes of its own in the way; otherwise says why not.",
        arguments: &[WORKSPACE],
        nature: Nature::Changes,
        reach: Reach::Workspace,
        action: Action::Create(Create::Sync),
    },
    Tool {
        name: "checkout",
        title: "Take the canonical ports",
        description: "Lets a workspace have the canonical ports of this machine (localhost:3000 leads to it). With \
            `none` all are let go; without arguments it says who has which.",
        arguments: &[
            argument("workspace", Form::Text, Need::Never, "who gets them"),
            optional(
                "ports",
                Form::Words,
                "names or numbers; left out: all that it declares",
            ),
            optional("none", Form::Flag, "let go of all"),
        ],
        nature: Nature::Settles,
        reach: Reach::Everything,
        action: Action::Lifecycle(Lifecycle::Checkout),
    },
    Tool {
        name: "snapshot",
        title: "Take a snapshot",
        description: "Keeps code, home and volumes of a workspace as they are at this instant, under a name.",
        arguments: &[WORKSPACE, needed("name", Form::Text, "what it is called")],
        nature: Nature::Changes,
        reach: Reach::Inside,
        action: Action::Lifecycle(Lifecycle::Snapshot),
    },
    Tool {
        name: "fork",
        title: "Fork a workspace",
        description: "Makes a workspace that begins as another one is, with everything uncommitted and its data; or \
            as a snapshot of it is.",
        arguments: &[
            WORKSPACE,
            optional("label", Form::Text, "of the new one"),
            optional("at", Form::Text, "the name of a snapshot"),
        ],
        nature: Nature::Changes,
        reach: Reach::Everything,
        action: Action::Lifecycle(Lifecycle::Fork),
    },
    Tool {
        name: "reset",
        title: "Reset a workspace",
        description: "Leads code and volumes, or one volume, back to the beginning or to a snapshot. With unsaved work \
            refused, unless `force`: then a snapshot keeps it.",
        arguments: &[
            WORKSPACE,
            optional("volume", Form::Text, "only this volume"),
            optional("at", Form::Text, "the name of a snapshot"),
            optional("force", Form::Flag, "even with unsaved work"),
        ],
        nature: Nature::Destroys,
        reach: Reach::Workspace,
        action: Action::Lifecycle(Lifecycle::Reset),
    },
    Tool {
        name: "service_restart",
        title: "Restart a service",
        description: "Restarts one service of a workspace and waits until it is ready, failed, or 60 s are over.",
        arguments: &[
            WORKSPACE,
            needed("service", Form::Text, "its name in holm.toml"),
        ],
        nature: Nature::Changes,
        reach: Reach::Inside,
        action: Action::Lifecycle(Lifecycle::RestartService),
    },
];
