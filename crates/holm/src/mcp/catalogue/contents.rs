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
        description: "Lists the files that differ from the commit that the workspace started from, including untracked \
            files: path, operation (create update delete rename), from, binary.",
        arguments: &[WORKSPACE],
        nature: Nature::Reads,
        reach: Reach::Inside,
        action: Action::Inspect(Inspect::Changes),
    },
    Tool {
        name: "diff",
        title: "Show the difference",
        description: "The difference between the commit that the workspace started from and its working tree, as a git \
            patch. A very long patch is cut off at the end.",
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
                "below the project's root; default: the root",
            ),
            optional("after", Form::Text, "the last name of the previous page"),
            optional(
                "limit",
                Form::Number,
                "maximum number of entries; default: 1000",
            ),
        ],
        nature: Nature::Reads,
        reach: Reach::Inside,
        action: Action::File(File::List),
    },
    Tool {
        name: "file_read",
        title: "Read a file",
        description: "Reads a file of the workspace: `content` is text, or base64 with `encoding` \"base64\" if the file is \
            not UTF-8. At most 256 KiB per call; `more` is true if the file continues after `offset` + `length`.",
        arguments: &[
            WORKSPACE,
            PATH_INSIDE,
            optional("offset", Form::Number, "the first byte to read"),
            optional("length", Form::Number, "maximum number of bytes"),
        ],
        nature: Nature::Reads,
        reach: Reach::Inside,
        action: Action::File(File::Read),
    },
    Tool {
        name: "file_write",
        title: "Write a file",
        description: "Creates or atomically replaces a file of the workspace, and creates missing directories.",
        arguments: &[
            WORKSPACE,
            PATH_INSIDE,
            needed("content", Form::Text, "the whole new content"),
            optional(
                "encoding",
                Form::Text,
                "\"base64\" if `content` is encoded that way",
            ),
            optional(
                "executable",
                Form::Flag,
                "whether the file is executable; default: unchanged",
            ),
        ],
        nature: Nature::Destroys,
        reach: Reach::Inside,
        action: Action::File(File::Write),
    },
    Tool {
        name: "logs",
        title: "Read logs",
        description: "The last lines that the workspace's services wrote, with time, service and stream. Logs are stored \
            outside the workspace.",
        arguments: &[
            WORKSPACE,
            optional("service", Form::Text, "only lines of this service"),
            optional("since", Form::Text, "RFC 3339, or how long ago (\"10m\")"),
            optional(
                "last",
                Form::Number,
                "maximum number of lines; default: 200",
            ),
        ],
        nature: Nature::Reads,
        reach: Reach::Inside,
        action: Action::Inspect(Inspect::Logs),
    },
    Tool {
        name: "ports",
        title: "List ports",
        description: "Lists all ports, declared and discovered: the port inside, the port on the host, and the URL.",
        arguments: &[argument(
            "workspace",
            Form::Text,
            Need::Never,
            "only ports of this workspace",
        )],
        nature: Nature::Reads,
        reach: Reach::Inside,
        action: Action::Inspect(Inspect::Ports),
    },
    Tool {
        name: "here",
        title: "Describe a workspace",
        description: "Describes a running workspace as its own processes see it: id, label, URLs and ports, services and \
            their state, databases, volumes, limits, allowed network destinations, and how to read logs.",
        arguments: &[WORKSPACE],
        nature: Nature::Reads,
        reach: Reach::Inside,
        action: Action::Inspect(Inspect::Here),
    },
];
