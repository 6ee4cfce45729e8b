//! Tools for projects and workspaces as a whole.

use super::{Argument, Form, WORKSPACE, optional};

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

tools! {
    project_create "Create a project" Changes Everything
        "Registers a git repository as a project: with `path` a repository on this machine, with \
        `url` a clone, and with only `name` a new, empty repository. `isolation` and \
        `protected_paths` are stored with the project and apply to all workspaces created later; \
        holm.toml can add protected paths but cannot remove these. Returns the project."
        {
            PROJECT_PATH
            PROJECT_URL
            (name?: Text "the project's name, and the name of its directory if it is new")
            (isolation?: Text
                "\"workspace\" (the default), or \"project\": workspaces see each other's trees, \
                read-only; a person has to approve that with `holm trust`")
            (protected_paths?: Words
                "paths below the root that cannot be changed, moved or created in any workspace")
        }
    project_list "List projects" Reads Everything
        "The projects that holm knows, with their names, ids and paths."
        {}
    workspace_create "Create a workspace" Changes Everything
        "Creates a workspace of a project and starts its services: an isolated copy of the code on \
        a branch of its own, with its own ports, databases and processes. Name the project with \
        `project`, `path` or `url`. If a workspace with this label exists, it is started and \
        returned with \"created\": false. Takes milliseconds, or longer if `setup` or a seed has \
        to run first."
        {
            (project?: Text "the name or id of a registered project")
            PROJECT_PATH
            PROJECT_URL
            (label?: Text "1 to 40 characters of a-z, 0-9 and -; default: a generated label")
            (from?: Text "branch, tag or commit to start from; default: the checkout's commit")
            (dirty?: Flag "include uncommitted changes of the checkout")
            (wait?: Flag "wait until services are ready; default: true")
        }
    workspace_list "List workspaces" Reads Everything
        "Lists all workspaces with their state, ports and services; with `trash`, removed \
        workspaces."
        {
            (trash?: Flag "list the trash instead")
        }
    workspace_show "Show a workspace" Reads Inside
        "Everything about one workspace: state, commit, ports and URLs, services, volumes, limits, \
        and the isolation in force."
        {
            WORKSPACE
        }
    workspace_start "Start a workspace" Settles Workspace
        "Starts the processes and services of a stopped workspace. Code and data are as they \
        were."
        {
            WORKSPACE
        }
    workspace_stop "Stop a workspace" Settles Workspace
        "Ends all processes of a workspace. Code and data stay."
        {
            WORKSPACE
        }
    workspace_remove "Remove a workspace" Destroys Everything
        "Moves a workspace to the trash, from which workspace_restore can restore it for some \
        days. If it has unsaved work, this is refused and the work is listed; with `force` it is \
        moved with the work."
        {
            WORKSPACE
            (force?: Flag "remove it even if it has unsaved work")
        }
    workspace_restore "Restore a workspace" Changes Everything
        "Restores a workspace from the trash, with the same id. It is stopped."
        {
            (workspace: Text "its former label or id")
        }
    workspace_rename "Rename a workspace" Settles Workspace
        "Changes the label of a workspace and nothing else."
        {
            WORKSPACE
            (label: Text "1 to 40 characters of a-z, 0-9 and -")
        }
    workspace_assign "Move a workspace to another commit" Changes Workspace
        "Moves a live workspace to another branch, tag or commit of the user's repository; each \
        service reacts as its strategy says. Refused if there are uncommitted changes, unless \
        `stash` is set."
        {
            WORKSPACE
            (ref: Text "branch, tag or commit")
            (stash?: Flag "stash uncommitted changes inside the workspace first")
        }
    workspace_sync "Bring a workspace up to date" Changes Workspace
        "Fast-forwards a workspace to the newest commit of the branch it started from, unless its \
        own changes conflict; then it returns the reason."
        {
            WORKSPACE
        }
    checkout "Assign the canonical ports" Settles Everything
        "Assigns the canonical ports of this machine to a workspace (localhost:3000 then reaches \
        it). With `none` all are released; without arguments it returns which workspace has which \
        port."
        {
            (workspace?: Text "the workspace that gets them")
            (ports?: Words "names or numbers; default: all ports that it declares")
            (none?: Flag "release all")
        }
    snapshot "Take a snapshot" Changes Inside
        "Saves the current code, home directory and volumes of a workspace under a name."
        {
            WORKSPACE
            (name: Text "the snapshot's name")
        }
    fork "Fork a workspace" Changes Everything
        "Creates a workspace as a copy of another one, including uncommitted changes and data, or \
        as a copy of a snapshot of it."
        {
            WORKSPACE
            (label?: Text "the label of the new workspace")
            (at?: Text "the name of a snapshot")
        }
    reset "Reset a workspace" Destroys Workspace
        "Resets code and volumes, or one volume, to the initial state or to a snapshot. Refused if \
        there is unsaved work, unless `force` is set: then a snapshot of it is taken first."
        {
            WORKSPACE
            (volume?: Text "only this volume")
            (at?: Text "the name of a snapshot")
            (force?: Flag "reset even if there is unsaved work")
        }
    service_restart "Restart a service" Changes Inside
        "Restarts one service of a workspace and waits until it is ready or failed, for at most 60 \
        s."
        {
            WORKSPACE
            (service: Text "its name in holm.toml")
        }
}
