//! Hints in the words of the caller. Faults name commands of the command line; callers of MCP have tools and
//! callers of HTTP have routes.

/// What a command is called elsewhere: the verb, its tool, its route.
const NAMES: [(&str, Option<&str>, &str); 25] = [
    ("ls", Some("workspace_list"), "GET /workspaces"),
    ("show", Some("workspace_show"), "GET /workspaces/{id}"),
    ("up", Some("workspace_create"), "POST /workspaces"),
    (
        "start",
        Some("workspace_start"),
        "POST /workspaces/{id}/start",
    ),
    ("stop", Some("workspace_stop"), "POST /workspaces/{id}/stop"),
    ("restart", None, "POST /workspaces/{id}/restart"),
    ("rm", Some("workspace_remove"), "DELETE /workspaces/{id}"),
    (
        "restore",
        Some("workspace_restore"),
        "POST /workspaces/{id}/restore",
    ),
    ("rename", Some("workspace_rename"), "PATCH /workspaces/{id}"),
    (
        "assign",
        Some("workspace_assign"),
        "POST /workspaces/{id}/assign",
    ),
    ("sync", Some("workspace_sync"), "POST /workspaces/{id}/sync"),
    ("reload", None, "POST /workspaces/{id}/reload"),
    ("exec", Some("exec"), "GET /workspaces/{id}/exec"),
    ("run", Some("run"), "POST /workspaces/{id}/runs"),
    ("runs", Some("runs_list"), "GET /workspaces/{id}/runs"),
    ("logs", Some("logs"), "GET /workspaces/{id}/logs"),
    ("ports", Some("ports"), "GET /workspaces/{id}/ports"),
    ("checkout", Some("checkout"), "POST /checkout"),
    ("changes", Some("changes"), "GET /workspaces/{id}/changes"),
    ("diff", Some("diff"), "GET /workspaces/{id}/diff"),
    (
        "snapshot",
        Some("snapshot"),
        "POST /workspaces/{id}/snapshots",
    ),
    ("fork", Some("fork"), "POST /workspaces/{id}/fork"),
    ("reset", Some("reset"), "POST /workspaces/{id}/reset"),
    (
        "service",
        Some("service_restart"),
        "POST /workspaces/{id}/services",
    ),
    ("project", Some("project_list"), "GET /projects"),
];

/// The tools for `holm session new`, `send`, `read` and `wait`.
const SESSIONS: [(&str, &str); 4] = [
    ("new", "session_spawn"),
    ("send", "session_message"),
    ("read", "session_read"),
    ("wait", "session_wait"),
];

/// The hint with names of tools in place of commands. A command without a tool stays: a person can type it.
pub fn for_tools(hint: &str) -> String {
    replaced(hint, |words| match words {
        ["session", verb, ..] => {
            let mut tools = SESSIONS.iter();
            let found = tools.find(|(known, _)| known == verb);
            found.map(|(_, tool)| (*tool).to_owned())
        }
        [verb, ..] => named(verb)?.1.map(str::to_owned),
        [] => None,
    })
}

/// The hint with routes in place of commands. A command without a route stays.
pub fn for_routes(hint: &str) -> String {
    replaced(hint, |words| match words {
        ["session", ..] => Some("/workspaces/{id}/sessions".to_owned()),
        ["up", .., "--untrusted"] => Some("POST /workspaces with \"untrusted\": true".to_owned()),
        [verb, ..] => Some(named(verb)?.2.to_owned()),
        [] => None,
    })
}

fn named(verb: &str) -> Option<(&str, Option<&'static str>, &'static str)> {
    let mut names = NAMES.iter();
    let found = names.find(|(known, _, _)| *known == verb);
    found.map(|(verb, tool, route)| (*verb, *tool, *route))
}

/// Replaces each `holm …` between backticks.
fn replaced(hint: &str, name: impl Fn(&[&str]) -> Option<String>) -> String {
    let parts = hint.split('`').enumerate().map(|(place, part)| {
        let command = part.strip_prefix("holm ").filter(|_| place % 2 == 1);
        let words: Vec<&str> = command.unwrap_or_default().split_whitespace().collect();
        command
            .and_then(|_| name(&words))
            .unwrap_or_else(|| part.to_owned())
    });
    parts.collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_become_tools_and_routes() {
        let hint = "`holm ls` lists them; `holm start w0` starts it; `holm doctor` says more";
        assert_eq!(
            for_tools(hint),
            "`workspace_list` lists them; `workspace_start` starts it; `holm doctor` says more"
        );
        assert_eq!(
            for_routes(hint),
            "`GET /workspaces` lists them; `POST /workspaces/{id}/start` starts it; `holm doctor` says more"
        );
        assert_eq!(
            for_tools("`holm session new x` is one"),
            "`session_spawn` is one"
        );
        assert_eq!(
            for_tools("no command, a ` and holm ls"),
            "no command, a ` and holm ls"
        );
    }
}
