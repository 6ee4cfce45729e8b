//! Tools for a workspace's changes, files, logs and ports.

use super::{
    Action, Argument, File, Form, Inspect, Nature, Need, Reach, Tool, WORKSPACE, argument, needed,
    optional,
};

const PATH_INSIDE: Argument = needed("path", Form::Text, "below the project's root");

pub static TOOLS: [Tool; 8] = [
    Tool {
        name: "changes",
        title: "List changed files",
        description: "Which files differ from the commit that the workspace started from, untracked ones included: \
            path, operation (create update delete rename), from, binary.",
        arguments: &[WORKSPACE],
        nature: Nature::Reads,
        reach: Reach::Inside,
        action: Action::Inspect(Inspect::Changes),
    },
    Tool {
        name: "diff",
        title: "Show the difference",
        description: "The working tree against the commit that the workspace started from, as a patch of git; of a \
            very long one the beginning.",
        arguments: &[WORKSPACE],
        nature: Nature::Reads,
        reach: Reach::Inside,
        action: Action::Inspect(Inspect::Diff),
    },
    Tool {
        name: "file_list",
        title: "List a directory",
        description: "The entries of a directory of the workspace. Links are not followed.",
        arguments: &[
            WORKSPACE,
            optional(
                "path",
                Form::Text,
                "below the project's root; left out: the root",
            ),
            optional("after", Form::Text, "the last name of the page before"),
            optional("limit", Form::Number, "at most so many; 1000 when left out"),
        ],
        nature: Nature::Reads,
        reach: Reach::Inside,
        action: Action::File(File::List),
    },
    Tool {
        name: "file_read",
        title: "Read a file",
        description: "A file of the workspace: `content` as text, or with encoding \"base64\" where it is not UTF-8. \
            At most 256 KiB at a time; `more` says that there is more behind `offset` + `length`.",
        arguments: &[
            WORKSPACE,
            PATH_INSIDE,
            optional("offset", Form::Number, "the byte to begin with"),
            optional("length", Form::Number, "at most so many bytes"),
        ],
        nature: Nature::Reads,
        reach: Reach::Inside,
        action: Action::File(File::Read),
    },
    Tool {
        name: "file_write",
        title: "Write a file",
        description: "Replaces a file of the workspace in one step, or makes it, with the directories on the way.",
        arguments: &[
            WORKSPACE,
            PATH_INSIDE,
            needed("content", Form::Text, "the whole new content"),
            optional("encoding", Form::Text, "\"base64\" if the content is"),
            optional(
                "executable",
                Form::Flag,
                "whether it can be executed; left out: as before",
            ),
        ],
        nature: Nature::Destroys,
        reach: Reach::Inside,
        action: Action::File(File::Write),
    },
    Tool {
        name: "logs",
        title: "Read logs",
        description: "The last lines that services of the workspace wrote, with time, service and stream. Logs are kept \
            outside of the workspace.",
        arguments: &[
            WORKSPACE,
            optional("service", Form::Text, "only of this service"),
            optional("since", Form::Text, "RFC 3339, or how long ago (\"10m\")"),
            optional(
                "last",
                Form::Number,
                "at most so many lines; 200 when left out",
            ),
        ],
        nature: Nature::Reads,
        reach: Reach::Inside,
        action: Action::Inspect(Inspect::Logs),
    },
    Tool {
        name: "ports",
        title: "List ports",
        description: "Every port, declared or discovered: inside, on the host, and with its URL.",
        arguments: &[argument(
            "workspace",
            Form::Text,
            Need::Never,
            "only those of this workspace",
        )],
        nature: Nature::Reads,
        reach: Reach::Inside,
        action: Action::Inspect(Inspect::Ports),
    },
    Tool {
        name: "here",
        title: "Say what a workspace has",
        description: "What a running workspace knows of itself: id, label, URLs and ports, services and their state, \
            databases, volumes, limits, where it may connect to, and how to see logs.",
        arguments: &[WORKSPACE],
        nature: Nature::Reads,
        reach: Reach::Inside,
        action: Action::Inspect(Inspect::Here),
    },
];
