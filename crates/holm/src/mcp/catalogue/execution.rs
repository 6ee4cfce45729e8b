//! Tools that run programs inside.

use super::{Argument, Form, WORKSPACE, needed, optional};

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

tools! {
    exec "Run a command inside" Destroys Inside
        "Runs a command inside a workspace, in the project's root, and waits until it ends. \
        Returns exit_code (124 timeout, 126/127 as in sh, 128+n signal), stdout and stderr; very \
        long output is cut off at the beginning. A stopped workspace is started. No shell is \
        involved: use [\"sh\", \"-c\", \"…\"] if you need one."
        {
            WORKSPACE
            (command: Words "the program and its arguments")
            (cwd?: Text "working directory, absolute or relative to the project's root")
            (env?: Map "environment variables to set")
            (message?: Text "the command's stdin")
            TIMEOUT
        }
    run "Run an agent or a command once" Destroys Inside
        "Runs an agent (or a command) once inside a workspace, with `message` on its stdin, and \
        waits. Returns exit code, output, and the files that it changed; the run is recorded. \
        After `timeout` (default: five minutes) it is ended with all its child processes."
        {
            WORKSPACE
            (message?: Text "the agent's task")
            (agent?: Text "the name of an agent; default: the default agent")
            (command?: Words "a command instead of an agent")
            (env?: Map "environment variables to set")
            (files?: Map
                "files to write before it starts: path relative to the project's root, and content")
            TIMEOUT
            (wait?: Flag "wait until it ends; default: true")
            (key?: Text "idempotency key: requests with the same key run once")
        }
    runs_list "List runs" Reads Inside
        "Lists recorded runs of one workspace or of all, newest first. With `run`: all details of \
        one run, with the files that it changed."
        {
            (workspace?: Text "only runs of this workspace")
            (run?: Text "the id of one run")
            (state?: Text "queued, running, succeeded, failed, timed_out, cancelled or lost")
            (limit?: Number "maximum number of runs")
        }
    session_spawn "Start a session" Changes Inside
        "Starts an agent, a command or a shell in a persistent terminal inside a workspace. The \
        session continues when this call, its clients or the daemon end. With `parent` it ends \
        when that session ends. Returns the session; pass its `id` to the other session tools."
        {
            WORKSPACE
            (agent?: Text "the name of an agent")
            (command?: Words "a command instead of an agent; default: a shell")
            (name?: Text "1 to 40 characters of a-z, 0-9 and -")
            (parent?: Text "the id or the name of a session of the same workspace")
            (message?: Text "typed into the session, followed by Enter, when it has started")
            (env?: Map "environment variables to set")
            (rows?: Number "default: 24")
            (cols?: Number "default: 80")
        }
    session_message "Type into a session" Destroys Inside
        "Types `message` and then `keys` into a session, followed by Enter unless `enter` is \
        false. Returns a cursor: session_read with this cursor as `since` returns the output that \
        followed."
        {
            SESSION
            WORKSPACE_OF_SESSION
            (message?: Text "text to type")
            (keys?: Words "keys to press: Enter, Escape, Tab, Up, C-c, F1, …")
            (enter?: Flag "whether Enter follows; default: true if there is a message")
        }
    session_read "Read a session" Reads Inside
        "Returns the screen of a session as text, or with `since` the output after a cursor."
        {
            SESSION
            WORKSPACE_OF_SESSION
            (since?: Number "a cursor; 0: all stored output")
        }
    session_wait "Wait for a session" Reads Inside
        "Waits until a session has written nothing for `idle`, its output matches `pattern`, it \
        ended, or `timeout` expired. Without `idle` and `pattern`, `idle` is 2 s. Returns which of \
        these happened, and the cursor."
        {
            SESSION
            WORKSPACE_OF_SESSION
            (idle?: Time "how long the session must be silent")
            (pattern?: Text "a regular expression to find in the output")
            (since?: Number "search output after this cursor")
            (timeout?: Time "maximum time to wait; default: 60 s")
        }
}
