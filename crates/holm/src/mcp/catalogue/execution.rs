//! Tools that run programs inside.

use super::{
    Action, Argument, Execute, Form, Nature, Need, Reach, Tool, WORKSPACE, argument, needed,
    optional,
};

const SESSION: Argument = needed("session", Form::Text, "the id or the name of a session");

const TIMEOUT: Argument = optional(
    "timeout",
    Form::Time,
    "end it after this time (\"30s\", \"5m\", or seconds)",
);

const WORKSPACE_OF_SESSION: Argument = optional(
    "workspace",
    Form::Text,
    "the session's workspace; needed only if several have a session of this name",
);

pub static TOOLS: [Tool; 7] = [
    Tool {
        name: "exec",
        title: "Run a command inside",
        description: "Runs a command inside a workspace, in the project's root, and waits for its end. Returns \
            exit_code (124 time-out, 126/127 as in sh, 128+n signal), stdout and stderr; of very long output \
            the end. A stopped workspace is started. No shell: use [\"sh\", \"-c\", \"…\"] for one.",
        arguments: &[
            WORKSPACE,
            needed("command", Form::Words, "the program and its arguments"),
            optional(
                "cwd",
                Form::Text,
                "directory, absolute or below the project's root",
            ),
            optional("env", Form::Map, "variables to set"),
            optional("message", Form::Text, "what the command reads on stdin"),
            TIMEOUT,
        ],
        nature: Nature::Destroys,
        reach: Reach::Inside,
        action: Action::Execute(Execute::Exec),
    },
    Tool {
        name: "run",
        title: "Run an agent or a command once",
        description: "Runs an agent (or a command) once inside a workspace, with `message` on its stdin, and waits. \
            Returns exit code, output, and the files that it changed; the run is recorded. Ends after `timeout` \
            (five minutes when left out) with everything it started.",
        arguments: &[
            WORKSPACE,
            optional("message", Form::Text, "what the agent is to do"),
            optional("agent", Form::Text, "its name; left out, the default one"),
            optional("command", Form::Words, "a command in place of an agent"),
            optional("env", Form::Map, "variables to set"),
            optional(
                "files",
                Form::Map,
                "files to write below the project's root before it begins: path to text",
            ),
            TIMEOUT,
            optional("wait", Form::Flag, "wait for its end; true when left out"),
            optional(
                "key",
                Form::Text,
                "a message that is sent twice with the same key runs once",
            ),
        ],
        nature: Nature::Destroys,
        reach: Reach::Inside,
        action: Action::Execute(Execute::Run),
    },
    Tool {
        name: "runs_list",
        title: "List runs",
        description: "The record of runs, the newest first: of one workspace, or of all. With `run` everything \
            about one, with its changed files.",
        arguments: &[
            argument(
                "workspace",
                Form::Text,
                Need::Never,
                "only those of this workspace",
            ),
            optional("run", Form::Text, "the id of one run"),
            optional(
                "state",
                Form::Text,
                "queued, running, succeeded, failed, timed_out, cancelled or lost",
            ),
            optional("limit", Form::Number, "at most so many"),
        ],
        nature: Nature::Reads,
        reach: Reach::Inside,
        action: Action::Execute(Execute::Runs),
    },
    Tool {
        name: "session_spawn",
        title: "Start a session",
        description: "Starts a lasting terminal inside a workspace with an agent, a command or a shell in it. It \
            outlives this call, its clients and the daemon. `parent` makes it a child of another session, which \
            ends with it. Returns the session; its `id` is what the other session tools take.",
        arguments: &[
            WORKSPACE,
            optional("agent", Form::Text, "the name of an agent"),
            optional(
                "command",
                Form::Words,
                "a command in place of an agent; without either: a shell",
            ),
            optional("name", Form::Text, "1 to 40 of a-z, 0-9 and -"),
            optional(
                "parent",
                Form::Text,
                "the id or the name of a session of the same workspace",
            ),
            optional(
                "message",
                Form::Text,
                "typed into it, with Enter, as soon as it is there",
            ),
            optional("env", Form::Map, "variables to set"),
            optional("rows", Form::Number, "24 when left out"),
            optional("cols", Form::Number, "80 when left out"),
        ],
        nature: Nature::Changes,
        reach: Reach::Inside,
        action: Action::Execute(Execute::Spawn),
    },
    Tool {
        name: "session_message",
        title: "Type into a session",
        description: "Types `message` and then `keys` into a session, with Enter behind it unless `enter` is false. \
            Returns a cursor: session_read with `since` this cursor gives what came after.",
        arguments: &[
            SESSION,
            WORKSPACE_OF_SESSION,
            optional("message", Form::Text, "text to type"),
            optional(
                "keys",
                Form::Words,
                "keys to press: Enter, Escape, Tab, Up, C-c, F1, …",
            ),
            optional(
                "enter",
                Form::Flag,
                "whether Enter is typed behind it; true with a message",
            ),
        ],
        nature: Nature::Destroys,
        reach: Reach::Inside,
        action: Action::Execute(Execute::Message),
    },
    Tool {
        name: "session_read",
        title: "Read a session",
        description: "The screen of a session as text, or with `since` what was written since a cursor.",
        arguments: &[
            SESSION,
            WORKSPACE_OF_SESSION,
            optional(
                "since",
                Form::Number,
                "a cursor; 0: everything that is kept",
            ),
        ],
        nature: Nature::Reads,
        reach: Reach::Inside,
        action: Action::Execute(Execute::Read),
    },
    Tool {
        name: "session_wait",
        title: "Wait for a session",
        description: "Waits until a session has written nothing for `idle` (2 s when neither is given), or its output \
            matches `pattern`, or it ended, or `timeout` is over. Says which, and the cursor.",
        arguments: &[
            SESSION,
            WORKSPACE_OF_SESSION,
            optional("idle", Form::Time, "nothing was written for so long"),
            optional(
                "pattern",
                Form::Text,
                "a regular expression that the output contains",
            ),
            optional(
                "since",
                Form::Number,
                "the cursor from which on output is looked at",
            ),
            optional("timeout", Form::Time, "at most so long; 60 s when left out"),
        ],
        nature: Nature::Reads,
        reach: Reach::Inside,
        action: Action::Execute(Execute::Wait),
    },
];
