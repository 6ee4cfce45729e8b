//! Tools that run programs inside.

use super::{
    Action, Argument, Execute, Form, Nature, Need, Reach, Tool, WORKSPACE, argument, needed,
    optional,
};

const SESSION: Argument = needed("session", Form::Text, "the id or the name of a session");

const TIMEOUT: Argument = optional(
    "timeout",
    Form::Time,
    "end it and its child processes after this time (\"30s\", \"5m\", or seconds)",
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
        description: "Runs a command inside a workspace, in the project's root, and waits until it ends. Returns \
            exit_code (124 timeout, 126/127 as in sh, 128+n signal), stdout and stderr; very long output is cut off \
            at the beginning. A stopped workspace is started. No shell is involved: use [\"sh\", \"-c\", \"…\"] if you need one.",
        arguments: &[
            WORKSPACE,
            needed("command", Form::Words, "the program and its arguments"),
            optional(
                "cwd",
                Form::Text,
                "working directory, absolute or relative to the project's root",
            ),
            optional("env", Form::Map, "environment variables to set"),
            optional("message", Form::Text, "the command's stdin"),
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
            Returns exit code, output, and the files that it changed; the run is recorded. After `timeout` (default: \
            five minutes) it is ended with all its child processes.",
        arguments: &[
            WORKSPACE,
            optional("message", Form::Text, "the agent's task"),
            optional(
                "agent",
                Form::Text,
                "the name of an agent; default: the default agent",
            ),
            optional("command", Form::Words, "a command instead of an agent"),
            optional("env", Form::Map, "environment variables to set"),
            optional(
                "files",
                Form::Map,
                "files to write before it starts: path relative to the project's root, and content",
            ),
            TIMEOUT,
            optional("wait", Form::Flag, "wait until it ends; default: true"),
            optional(
                "key",
                Form::Text,
                "idempotency key: requests with the same key run once",
            ),
        ],
        nature: Nature::Destroys,
        reach: Reach::Inside,
        action: Action::Execute(Execute::Run),
    },
    Tool {
        name: "runs_list",
        title: "List runs",
        description: "Lists recorded runs of one workspace or of all, newest first. With `run`: all details of \
            one run, with the files that it changed.",
        arguments: &[
            argument(
                "workspace",
                Form::Text,
                Need::Never,
                "only runs of this workspace",
            ),
            optional("run", Form::Text, "the id of one run"),
            optional(
                "state",
                Form::Text,
                "queued, running, succeeded, failed, timed_out, cancelled or lost",
            ),
            optional("limit", Form::Number, "maximum number of runs"),
        ],
        nature: Nature::Reads,
        reach: Reach::Inside,
        action: Action::Execute(Execute::Runs),
    },
    Tool {
        name: "session_spawn",
        title: "Start a session",
        description: "Starts an agent, a command or a shell in a persistent terminal inside a workspace. The session \
            continues when this call, its clients or the daemon end. With `parent` it ends when that session \
            ends. Returns the session; pass its `id` to the other session tools.",
        arguments: &[
            WORKSPACE,
            optional("agent", Form::Text, "the name of an agent"),
            optional(
                "command",
                Form::Words,
                "a command instead of an agent; default: a shell",
            ),
            optional("name", Form::Text, "1 to 40 characters of a-z, 0-9 and -"),
            optional(
                "parent",
                Form::Text,
                "the id or the name of a session of the same workspace",
            ),
            optional(
                "message",
                Form::Text,
                "typed into the session, followed by Enter, when it has started",
            ),
            optional("env", Form::Map, "environment variables to set"),
            optional("rows", Form::Number, "default: 24"),
            optional("cols", Form::Number, "default: 80"),
        ],
        nature: Nature::Changes,
        reach: Reach::Inside,
        action: Action::Execute(Execute::Spawn),
    },
    Tool {
        name: "session_message",
        title: "Type into a session",
        description: "Types `message` and then `keys` into a session, followed by Enter unless `enter` is false. \
            Returns a cursor: session_read with this cursor as `since` returns the output that followed.",
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
                "whether Enter follows; default: true if there is a message",
            ),
        ],
        nature: Nature::Destroys,
        reach: Reach::Inside,
        action: Action::Execute(Execute::Message),
    },
    Tool {
        name: "session_read",
        title: "Read a session",
        description: "Returns the screen of a session as text, or with `since` the output after a cursor.",
        arguments: &[
            SESSION,
            WORKSPACE_OF_SESSION,
            optional("since", Form::Number, "a cursor; 0: all stored output"),
        ],
        nature: Nature::Reads,
        reach: Reach::Inside,
        action: Action::Execute(Execute::Read),
    },
    Tool {
        name: "session_wait",
        title: "Wait for a session",
        description: "Waits until a session has written nothing for `idle`, its output matches `pattern`, it ended, or \
            `timeout` expired. Without `idle` and `pattern`, `idle` is 2 s. Returns which of these happened, and the cursor.",
        arguments: &[
            SESSION,
            WORKSPACE_OF_SESSION,
            optional("idle", Form::Time, "how long the session must be silent"),
            optional(
                "pattern",
                Form::Text,
                "a regular expression to find in the output",
            ),
            optional("since", Form::Number, "search output after this cursor"),
            optional("timeout", Form::Time, "maximum time to wait; default: 60 s"),
        ],
        nature: Nature::Reads,
        reach: Reach::Inside,
        action: Action::Execute(Execute::Wait),
    },
];
