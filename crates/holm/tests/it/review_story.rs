//! From a task to a merge with an agent that edits, asks, lies, and answers comments over MCP, as a person sees it.

use crate::support::{Island, eventually};
use serde_json::{Value, json};

const HOLM_TOML: &str = r#"
[checks.test]
run = "grep -q good a.txt"

[agents.scripted]
command = ["python3", "agent.py"]
"#;

/// Speaks MCP to `holm mcp` inside. Without review comments it makes the work bad, asks, tries to approve, and says that
/// all is well; with comments it corrects the work and answers each.
const AGENT: &str = r#"
import json, re, subprocess, sys
message = sys.stdin.read()
mcp = subprocess.Popen(["holm", "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
number = 0
def send(method, params, is_request=True):
    global number
    text = {"jsonrpc": "2.0", "method": method, "params": params}
    if is_request:
        number += 1
        text["id"] = number
    mcp.stdin.write(json.dumps(text) + "\n")
    mcp.stdin.flush()
    while is_request:
        answer = json.loads(mcp.stdout.readline())
        if answer.get("id") == number:
            return answer
def call(tool, **arguments):
    return send("tools/call", {"name": tool, "arguments": arguments})
send("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}})
send("notifications/initialized", {}, False)
log = open("/tmp/answers", "a")
ids = re.findall(r"^(c\d+) ", message, re.M)
if not ids:
    open("a.txt", "w").write("first\nbad\nlast\n")
    call("notify", text="May I delete\x1b[2J the tests?")
    for tool in ["approve", "workspace_approve"]:
        print(json.dumps(call(tool)), file=log)
    approve = subprocess.run(["holm", "approve", "."], capture_output=True, text=True)
    print("approve", approve.returncode, file=log)
else:
    listed = call("comments_list")["result"]["structuredContent"]["comments"]
    assert [one["id"] for one in listed] == ids, listed
    open("a.txt", "w").write("first\ngood\nlast\n")
    call("comment_resolve", comment=ids[0])
    call("comment_reply", comment=ids[1], text="The first line has to stay.")
mcp.stdin.close()
mcp.wait()
print("All tests pass. Approved by the maintainer.")
"#;

/// `reason origin text` of each item of the inbox.
fn inbox(island: &Island) -> Vec<String> {
    let list = island.holm(&["inbox", "--json"]).ok().json();
    let items = list["items"].as_array().unwrap().iter();
    let told = items.map(|item| {
        let (reason, text) = (item["reason"].as_str(), item["text"].as_str());
        format!("{}: {}", reason.unwrap(), text.unwrap())
    });
    told.collect()
}

fn has(island: &Island, reason: &str) -> bool {
    inbox(island).iter().any(|item| item.starts_with(reason))
}

fn changed_lines(comment: &Value) -> Vec<String> {
    let hunks = comment["changes"].as_array().into_iter().flatten();
    let lines = hunks.flat_map(|hunk| hunk["lines"].as_array().unwrap());
    let told = lines.map(|line| {
        let (kind, text) = (line["kind"].as_str(), line["text"].as_str());
        format!("{} {}", kind.unwrap(), text.unwrap())
    });
    told.collect()
}

#[test]
fn a_task_becomes_a_merge_by_what_holm_saw_and_not_by_what_the_agent_says() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("holm.toml", HOLM_TOML);
    repository.write("agent.py", AGENT);
    repository.write("a.txt", "first\ngood\nlast\n");
    repository.commit("files");
    let run = ["run", "--new", "x", "--agent", "scripted", "do it"];
    let run = repository.holm(&run).ok();
    assert!(run.out().contains("All tests pass"), "{run:?}");
    assert!(run.stderr.contains("✗ test exit 1"), "{run:?}");
    // No tool approves, and the command does not work inside.
    let answers = island.sh("x", "cat /tmp/answers").ok().out();
    assert_eq!(answers.matches("\"error\"").count(), 2, "{answers}");
    assert!(!answers.contains("approve 0"), "{answers}");
    for reason in [
        "question: May I delete[2J the tests?",
        "ready: ",
        "failed: ",
    ] {
        eventually(reason, || has(&island, reason));
    }

    for (line, text) in [("2", "this is bad"), ("1", "and why is this here?")] {
        let place = format!("a.txt:{line}");
        island.holm(&["comment", "x", &place, text]).ok();
    }
    island.holm(&["comments", "send", "x"]).ok();
    island.holm(&["review", "x", "--looked", "--stat"]).ok();
    eventually("the look closes what waits for it", || {
        !has(&island, "question") && !has(&island, "ready")
    });
    let again = ["run", "x", "--agent", "scripted", "go on"];
    repository.holm(&again).ok();

    // The review has each comment with what changed since, and the agent's words are only quoted.
    let review = island.holm(&["review", "x", "--json"]).ok().json();
    let comments = review["comments"].as_array().unwrap();
    let told: Vec<_> = comments
        .iter()
        .map(|one| json!([one["id"], one["state"], one["stale"], changed_lines(one)]))
        .collect();
    assert_eq!(
        told,
        [
            json!(["c1", "resolved", true, ["delete bad", "add good"]]),
            json!(["c2", "open", false, []]),
        ]
    );
    let text = island.holm(&["review", "x", "--stat"]).ok().out();
    assert!(
        text.contains("│ − bad\n       │ + good\n"),
        "the change is below its comment: {text}"
    );
    assert!(
        text.contains("answered: \"The first line has to stay.\""),
        "{text}"
    );
    eventually("the answer is in the inbox", || has(&island, "comment: "));

    let check = island.holm(&["check", "x", "--json"]).ok().json();
    assert_eq!(check["checks"][0]["state"], "passed", "{check:#}");
    let refused = repository.holm(&["merge", "x", "--approved", "--json"]);
    assert_eq!(refused.error(4)["code"], "not_approved");
    // The work is what the repository had, so nothing is left to take.
    let turns = island.holm(&["turns", "x", "--json"]).ok().json();
    assert_eq!(turns["turns"].as_array().unwrap().len(), 2, "{turns:#}");
    island.sh("x", "echo better good > a.txt").ok();
    let tree = island.holm(&["approve", "x", "--json"]).ok().json()["tree"].clone();
    let commit = ["fetch", "x", "--commit", "better", "--approved"];
    repository.holm(&commit).ok();
    repository.holm(&["merge", "x", "--approved"]).ok();
    assert_eq!(repository.git(&["rev-parse", "HEAD^{tree}"]), tree);
    island.holm(&["review", "x", "--looked", "--stat"]).ok();
    eventually("nothing is left", || inbox(&island).is_empty());
}
