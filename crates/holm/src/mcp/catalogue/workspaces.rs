//! Tools for projects and workspaces as a whole.

use super::{
    Action, Argument, Create, Form, Inspect, Lifecycle, Nature, Need, Reach, Tool, WORKSPACE,
    argument, needed, optional,
};

const PROJECT_PATH: Argument = optional(
    "path",
    Form::Text,
    "the directory of a git repository on this machine: a registered project, or below the configured source folders",
);

const PROJECT_URL: Argument = optional(
    "url",
    Form::Text,
    "a git URL (https, ssh, file); cloned below the first source folder unless a clone exists",
);

pub static TOOLS: [Tool; 17] = [
    Tool {
        name: "project_create",
        title: "Create a project",
        description: "Registers a git repository as a project: with `path` a repository on this machine, with \
            `url` a clone, and with only `name` a new, empty repository. `isolation` and \
            `protected_paths` are stored with the project and apply to all workspaces created later; \
            holm.toml can add protected paths but cannot remove these. Returns the project.",
        arguments: &[
            PROJECT_PATH,
            PROJECT_URL,
            optional(
                "name",
                Form::Text,
                "the project's name, and the name of its directory if it is new",
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
        title: "Create a workspace",
        description: "Creates a workspace of a project and starts its services: an isolated copy of the code on \
            a branch of its own, with its own ports, databases and processes. Name the project with \
            `project`, `path` or `url`. If a workspace with this label exists, it is started and returned with \
            \"created\": false. Takes milliseconds, or longer if `setup` or a seed has to run first.",
        arguments: &[
            optional(
                "project",
                Form::Text,
                "the name or id of a registered project",
            ),
            PROJECT_PATH,
            PROJECT_URL,
            optional(
                "label",
                Form::Text,
                "1 to 40 characters of a-z, 0-9 and -; default: a generated label",
            ),
            optional(
                "from",
                Form::Text,
                "branch, tag or commit to start from; default: the checkout's commit",
            ),
            optional(
                "dirty",
                Form::Flag,
                "include uncommitted changes of the checkout",
            ),
            optional(
                "wait",
                Form::Flag,
                "wait until services are ready; default: true",
            ),
        ],
        nature: Nature::Changes,
        reach: Reach::Everything,
        action: Action::Create(Create::Workspace),
    },
    Tool {
        name: "workspace_list",
        title: "List workspaces",
        description: "Lists all workspaces with their state, ports and services; with `trash`, removed workspaces.",
        arguments: &[optional("trash", Form::Flag, "list the trash instead")],
        nature: Nature::Reads,
        reach: Reach::Everything,
        action: Action::Inspect(Inspect::Workspaces),
    },
    Tool {
        name: "workspace_show",
        title: "Show a workspace",
        description: "Everything about one workspace: state, commit, ports and URLs, services, volumes, limits, \
            and the isolation in force.",
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
        description: "Moves a workspace to the trash, from which workspace_restore can restore it for some days. \
            If it has unsaved work, this is refused and the work is listed; with `force` it is moved with the work.",
        arguments: &[
            WORKSPACE,
            optional("force", Form::Flag, "remove it even if it has unsaved work"),
        ],
        nature: Nature::Destroys,
        reach: Reach::Everything,
        action: Action::Lifecycle(Lifecycle::Remove),
    },
    Tool {
        name: "workspace_restore",
        title: "Restore a workspace",
        description: "Restores a workspace from the trash, with the same id. It is stopped.",
        arguments: &[needed("workspace", Form::Text, "its former label or id")],
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
            needed("label", Form::Text, "1 to 40 characters of a-z, 0-9 and -"),
        ],
        nature: Nature::Settles,
        reach: Reach::Workspace,
        action: Action::Lifecycle(Lifecycle::Rename),
    },
    Tool {
        name: "workspace_assign",
        title: "Move a workspace to another commit",
        description: "Moves a live workspace to another branch, tag or commit of the user's repository; each \
            service reacts as its strategy says. Refused if there are uncommitted changes, unless `stash` is set.",
        arguments: &[
            WORKSPACE,
            needed("ref", Form::Text, "branch, tag or commit"),
            optional(
                "stash",
                Form::Flag,
                "stash uncommitted changes inside the workspace first",
            ),
        ],
        nature: Nature::Changes,
        reach: Reach::Workspace,
        action: Action::Create(Create::Assign),
    },
    Tool {
        name: "workspace_sync",
        title: "Bring a workspace up to date",
        description: "Fast-forwards a workspace to the newest commit of the branch it started from, unless its own \
            changes conflict; then it returns the reason.",
        arguments: &[WORKSPACE],
        nature: Nature::Changes,
        reach: Reach::Workspace,
        action: Action::Create(Create::Sync),
    },
    Tool {
        name: "checkout",
        title: "Assign the canonical ports",
        description: "Assigns the canonical ports of this machine to a workspace (localhost:3000 then reaches it). With \
            `none` all are released; without arguments it returns which workspace has which port.",
        arguments: &[
            argument(
                "workspace",
                Form::Text,
                Need::Never,
                "the workspace that gets them",
            ),
            optional(
                "ports",
                Form::Words,
                "names or numbers; default: all ports that it declares",
            ),
            optional("none", Form::Flag, "release all"),
        ],
        nature: Nature::Settles,
        reach: Reach::Everything,
        action: Action::Lifecycle(Lifecycle::Checkout),
    },
    Tool {
        name: "snapshot",
        title: "Take a snapshot",
        description: "Saves the current code, home directory and volumes of a workspace under a name.",
        arguments: &[WORKSPACE, needed("name", Form::Text, "the snapshot's name")],
        nature: Nature::Changes,
        reach: Reach::Inside,
        action: Action::Lifecycle(Lifecycle::Snapshot),
    },
    Tool {
        name: "fork",
        title: "Fork a workspace",
        description: "Creates a workspace as a copy of another one, including uncommitted changes and data, or as a copy \
            of a snapshot of it.",
        arguments: &[
            WORKSPACE,
            optional("label", Form::Text, "the label of the new workspace"),
            optional("at", Form::Text, "the name of a snapshot"),
        ],
        nature: Nature::Changes,
        reach: Reach::Everything,
        action: Action::Lifecycle(Lifecycle::Fork),
    },
    Tool {
        name: "reset",
        title: "Reset a workspace",
        description: "Resets code and volumes, or one volume, to the initial state or to a snapshot. Refused if there is \
            unsaved work, unless `force` is set: then a snapshot of it is taken first.",
        arguments: &[
            WORKSPACE,
            optional("volume", Form::Text, "only this volume"),
            optional("at", Form::Text, "the name of a snapshot"),
            optional("force", Form::Flag, "reset even if there is unsaved work"),
        ],
        nature: Nature::Destroys,
        reach: Reach::Workspace,
        action: Action::Lifecycle(Lifecycle::Reset),
    },
    Tool {
        name: "service_restart",
        title: "Restart a service",
        description: "Restarts one service of a workspace and waits until it is ready or failed, for at most 60 s.",
        arguments: &[
            WORKSPACE,
            needed("service", Form::Text, "its name in holm.toml"),
        ],
        nature: Nature::Changes,
        reach: Reach::Inside,
        action: Action::Lifecycle(Lifecycle::RestartService),
    },
];
