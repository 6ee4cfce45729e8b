//! Real coding agents in a workspace, against a model server of our own that runs in the same
//! workspace: nothing leaves. Each built-in agent is instructed by the model to write a file, and
//! that file is in the record of its run.

use crate::support::{Island, Ran};
use serde_json::Value;

const MODEL: &str = include_str!("support/model.py");

const CONFIG: &str = r#"
[agents.claude]
env = ["ANTHROPIC_API_KEY"]

# It asks how to log in where a server is named, unless its own settings say so.
[agents.gemini]
env = ["GEMINI_API_KEY"]
files = ["~/.gemini/settings.json"]
"#;

const HOLM: &str = r#"
[services.model]
run = "python3 model.py 8765"
ready = { tcp = 8765 }

[egress]
mode = "none"
"#;

#[test]
fn real_agents_change_files_and_their_runs_say_so() {
    let island = Island::new();
    island.make_dir("holm");
    island.make_dir("holm/config");
    island.write("holm/config/config.toml", CONFIG);
    island.make_dir(island.home().join(".gemini"));
    island.write(
        island.home().join(".gemini/settings.json"),
        r#"{"security":{"auth":{"selectedType":"gemini-api-key"}},"privacy":{"usageStatisticsEnabled":false}}"#,
    );
    let repository = island.repository("shop");
    repository.write("holm.toml", HOLM);
    repository.write("model.py", MODEL);
    repository.commit("a model");
    repository.up("x");
    let server = "http://127.0.0.1:8765";
    for (agent, variable) in [
        ("claude", format!("ANTHROPIC_BASE_URL={server}")),
        ("gemini", format!("GOOGLE_GEMINI_BASE_URL={server}")),
    ] {
        let message = format!("please write notes/{agent}.txt: made by {agent}");
        let arguments = [
            "run", "x", "--agent", agent, "--env", &variable, "--json", &message,
        ];
        let mut command = island.holm_command(&island.home(), &arguments);
        let command = command.env("ANTHROPIC_API_KEY", "none");
        let ran = Ran::new(command.env("GEMINI_API_KEY", "none"));
        let log = || island.holm(&["logs", "x", "model"]).out();
        assert_eq!(ran.code, Some(0), "{ran:#?}\n{}", log());
        let text = String::from_utf8(ran.stdout).unwrap();
        let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        let run = &last["run"];
        assert_eq!(
            (&run["state"], &run["agent"]),
            (&"succeeded".into(), &agent.into())
        );
        let path = format!("notes/{agent}.txt");
        let changes = run["changes"].as_array().unwrap();
        let change = changes
            .iter()
            .find(|change| change["path"] == path.as_str());
        let change = change.unwrap_or_else(|| panic!("{run:#}\n{}", log()));
        assert_eq!(change["operation"], "create");
        assert_eq!(change["content"], format!("made by {agent}\n"));
        assert!(text.contains("the file is written"), "what it said: {text}");
    }
    let rest = island
        .sh("x", "ls -A ~/.gemini | grep settings.json; true")
        .ok();
    assert_eq!(rest.out(), "", "what it was given is gone");
}
