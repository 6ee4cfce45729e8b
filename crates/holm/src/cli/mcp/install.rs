//! `holm mcp install`: adds holm to the configuration file of an MCP client.
//!
//! Only the one entry is added or replaced; everything else in the file stays, and a file that does
//! not parse is left alone. The change is shown first, and the user confirms it.

use super::outside_only;
use crate::cli::completions::labels;
use crate::cli::output::{self, FAINT, GOOD, STRONG, printable, printable_lines};
use crate::cli::{Context, Outcome, connect};
use clap::{Args, ValueEnum};
use holm_config::daemon_user::DaemonUser;
use holm_core::{Cause, Code, Fault};
use holm_engine::try_blocking;
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstRootNode};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Add holm to the configuration of an MCP client, after showing the change
///
/// claude: ~/.claude.json; codex: ~/.codex/config.toml; cursor: ~/.cursor/mcp.json; gemini:
/// ~/.gemini/settings.json; opencode: ~/.config/opencode/opencode.json. Only the entry called `holm`
/// is added or replaced. HOLM_HOME and HOLM_PORT are passed on, where they are set.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    holm mcp install claude\n  \
    holm mcp install codex --print\n  \
    holm mcp install cursor --workspace fix-login --yes")]
pub struct InstallArgs {
    /// The client
    client: ClientName,
    /// Scope it to this workspace
    #[arg(long, value_name = "WS", add = labels())]
    workspace: Option<String>,
    /// Print what would be written, and write nothing
    #[arg(long)]
    print: bool,
    /// Write it without asking
    #[arg(long, short)]
    yes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ClientName {
    Claude,
    Codex,
    Cursor,
    Gemini,
    Opencode,
}

/// The JSON output.
#[derive(Debug, Serialize)]
struct Installed {
    client: &'static str,
    path: String,
    written: bool,
    /// The file had this entry already.
    unchanged: bool,
    /// The entry, as in the file.
    text: String,
}

/// How the client starts holm.
struct Entry {
    command: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
}

pub fn run(context: &Context, arguments: InstallArgs) -> Outcome {
    outside_only()?;
    connect::block_on(install(context, arguments))
}

async fn install(context: &Context, arguments: InstallArgs) -> Outcome {
    let client = arguments.client;
    let path = client.path()?;
    let entry = Entry::new(arguments.workspace)?;
    let before = read(&path)?;
    let after = client
        .merged(&entry, &before)
        .map_err(|why| not_understood(&path, why))?;
    let mut installed = Installed {
        client: client.name(),
        path: path.display().to_string(),
        written: false,
        unchanged: before == after,
        text: client.fragment(&entry),
    };
    if arguments.print {
        context.output.result(&installed, || after.clone());
        return Ok(ExitCode::SUCCESS);
    }
    if installed.unchanged {
        context.output.done(&installed, || {
            let place = printable(&installed.path);
            format!("{GOOD}✓{GOOD:#} {place} has it already")
        });
        return Ok(ExitCode::SUCCESS);
    }
    context.output.remark(&shown(&installed));
    let may_ask = !arguments.yes && !context.output.is_json() && output::can_ask();
    if may_ask && !agreed(&path).await? {
        return Err(Fault::new(
            Code::Cancelled,
            format!("{} was not changed", path.display()),
            "`holm mcp install CLIENT --print` prints what would be written",
        ));
    }
    if !may_ask && !arguments.yes {
        return Err(Fault::new(
            Code::NeedsYes,
            format!("nobody agreed to change {}", path.display()),
            format!(
                "`holm mcp install {} --yes` writes what is shown",
                client.name()
            ),
        ));
    }
    write(&path, &after)?;
    installed.written = true;
    context.output.done(&installed, || {
        let (name, place) = (installed.client, printable(&installed.path));
        format!("{GOOD}✓{GOOD:#} {place}; start {name} anew to use it")
    });
    Ok(ExitCode::SUCCESS)
}

fn shown(installed: &Installed) -> String {
    let place = printable(&installed.path);
    let text = printable_lines(&installed.text);
    format!("{STRONG}{place}{STRONG:#} {FAINT}(everything else in it stays){FAINT:#}\n\n{text}\n")
}

async fn agreed(path: &Path) -> Result<bool, Fault> {
    let question = format!("Write this to {}?", printable(&path.display().to_string()));
    try_blocking(move || Ok(output::ask_wanted(&question))).await
}

/// Empty where there is no file.
fn read(path: &Path) -> Result<String, Fault> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(not_understood(path, error)),
    }
}

fn not_understood(path: &Path, cause: impl Into<Cause>) -> Fault {
    Fault::new(
        Code::InvalidConfig,
        format!("{} is not understood, so it is left alone", path.display()),
        "correct it, or add the entry by hand: `holm mcp install CLIENT --print` on another machine shows it",
    )
    .because(cause)
}

/// Writes atomically. A symlink stays: its target is replaced and keeps its mode.
fn write(path: &Path, text: &str) -> Result<(), Fault> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let failed = |error: std::io::Error| {
        let message = format!("cannot write {}", path.display());
        Fault::new(Code::ReadOnly, message, "is the directory writable?").because(error)
    };
    let directory = path.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(directory).map_err(failed)?;
    let mut file = tempfile::Builder::new()
        .prefix(".holm-mcp-")
        .tempfile_in(directory)
        .map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    if let Ok(metadata) = path.metadata() {
        let kept = file.as_file().set_permissions(metadata.permissions());
        kept.map_err(failed)?;
    }
    file.persist(&path).map_err(|error| failed(error.error))?;
    Ok(())
}

// === impl Entry ===

impl Entry {
    fn new(workspace: Option<String>) -> Result<Self, Fault> {
        let program = std::env::current_exe().map_err(|error| {
            let message = "cannot tell where this program is";
            Fault::new(Code::Internal, message, "run it by its whole path").because(error)
        })?;
        let mut args = vec!["mcp".to_owned()];
        if let Some(workspace) = workspace {
            args.extend(["--workspace".to_owned(), workspace]);
        }
        // The client's own environment may not have it.
        let names = ["HOLM_HOME", "HOLM_PORT"].into_iter();
        let env = names.filter_map(|name| {
            let value = std::env::var(name).ok().filter(|value| !value.is_empty());
            Some((name.to_owned(), value?))
        });
        Ok(Self {
            command: program.display().to_string(),
            args,
            env: env.collect(),
        })
    }

    fn json(&self) -> Value {
        let mut entry = json!({ "command": self.command, "args": self.args });
        if !self.env.is_empty() {
            entry["env"] = self.variables();
        }
        entry
    }

    /// In OpenCode's own form.
    fn opencode(&self) -> Value {
        let command = std::iter::once(&self.command).chain(&self.args);
        let command: Vec<&String> = command.collect();
        let mut entry = json!({ "type": "local", "command": command, "enabled": true });
        if !self.env.is_empty() {
            entry["environment"] = self.variables();
        }
        entry
    }

    fn variables(&self) -> Value {
        let env = self.env.iter().cloned();
        let env: Map<_, _> = env.map(|(name, value)| (name, json!(value))).collect();
        Value::Object(env)
    }

    fn toml(&self) -> toml_edit::Table {
        let mut table = toml_edit::Table::new();
        table["command"] = toml_edit::value(&self.command);
        table["args"] = toml_edit::value(self.args.iter().collect::<toml_edit::Array>());
        if !self.env.is_empty() {
            let mut env = toml_edit::InlineTable::new();
            for (name, value) in &self.env {
                env.insert(name, value.as_str().into());
            }
            table["env"] = toml_edit::value(env);
        }
        table
    }
}

// === impl ClientName ===

impl ClientName {
    fn name(self) -> &'static str {
        match self {
            ClientName::Claude => "claude",
            ClientName::Codex => "codex",
            ClientName::Cursor => "cursor",
            ClientName::Gemini => "gemini",
            ClientName::Opencode => "opencode",
        }
    }

    /// The client's configuration file.
    fn path(self) -> Result<PathBuf, Fault> {
        let home = DaemonUser::Caller.home()?;
        let moved = |variable: &str| {
            let place = std::env::var_os(variable).filter(|place| !place.is_empty());
            place.map(PathBuf::from).filter(|place| place.is_absolute())
        };
        Ok(match self {
            ClientName::Claude => moved("CLAUDE_CONFIG_DIR")
                .unwrap_or(home)
                .join(".claude.json"),
            ClientName::Codex => moved("CODEX_HOME")
                .unwrap_or_else(|| home.join(".codex"))
                .join("config.toml"),
            ClientName::Cursor => home.join(".cursor/mcp.json"),
            ClientName::Gemini => home.join(".gemini/settings.json"),
            ClientName::Opencode => moved("XDG_CONFIG_HOME")
                .unwrap_or_else(|| home.join(".config"))
                .join("opencode/opencode.json"),
        })
    }

    /// The file with the entry added.
    fn merged(self, entry: &Entry, before: &str) -> Result<String, String> {
        match self {
            ClientName::Codex => merged_toml(entry, before),
            ClientName::Opencode => merged_json("mcp", &entry.opencode(), before),
            ClientName::Claude | ClientName::Cursor | ClientName::Gemini => {
                merged_json("mcpServers", &entry.json(), before)
            }
        }
    }

    fn fragment(self, entry: &Entry) -> String {
        self.merged(entry, "").unwrap_or_default()
    }
}

/// Edits the text itself, so that order, spaces, comments and numbers of everything else stay.
fn merged_json(key: &str, entry: &Value, before: &str) -> Result<String, String> {
    let text = if before.trim().is_empty() {
        "{}\n"
    } else {
        before
    };
    let parsed = CstRootNode::parse(text, &ParseOptions::default());
    let root = parsed.map_err(|error| error.to_string())?;
    let document = root.object_value().ok_or("it is not an object")?;
    let servers = match document.get(key) {
        Some(servers) => servers
            .object_value()
            .ok_or_else(|| format!("`{key}` is not an object"))?,
        None => document.object_value_or_set(key),
    };
    match servers.get("holm") {
        Some(known) => {
            let value = known
                .value()
                .map(|value| value.to_string())
                .unwrap_or_default();
            if serde_json::from_str(&value).ok().as_ref() == Some(entry) {
                return Ok(before.to_owned());
            }
            known.set_value(input(entry));
        }
        None => drop(servers.append("holm", input(entry))),
    }
    Ok(root.to_string())
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(is) => CstInputValue::Bool(*is),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(name, value)| (name.clone(), input(value)));
            CstInputValue::Object(fields.collect())
        }
    }
}

fn merged_toml(entry: &Entry, before: &str) -> Result<String, String> {
    let parsed = before.parse::<toml_edit::DocumentMut>();
    let mut document = parsed.map_err(|error| error.to_string())?;
    let mut fresh = toml_edit::Table::new();
    fresh.set_implicit(true);
    let servers = document
        .entry("mcp_servers")
        .or_insert(toml_edit::Item::Table(fresh));
    let Some(servers) = servers.as_table_mut() else {
        return Err("`mcp_servers` is not a table".to_owned());
    };
    let wanted = entry.toml();
    let known = servers.get("holm").map(|known| known.to_string());
    if known.as_deref() == Some(wanted.to_string().as_str()) {
        return Ok(before.to_owned());
    }
    servers["holm"] = toml_edit::Item::Table(wanted);
    Ok(document.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry {
            command: "/usr/bin/holm".to_owned(),
            args: vec!["mcp".to_owned()],
            env: vec![("HOLM_HOME".to_owned(), "/h".to_owned())],
        }
    }

    #[test]
    fn what_a_client_had_stays() {
        let before = r#"{"zebra": 1, "numbers": 12345678901234567890, "mcpServers": {"other": {"command": "x"}, "holm": {"command": "old"}}, "a": [null] /* why */}"#;
        let after = merged_json("mcpServers", &entry().json(), before).unwrap();
        let keys: Vec<_> = ["zebra", "numbers", "mcpServers", "\"a\""]
            .map(|key| after.find(key).unwrap())
            .to_vec();
        assert!(keys.is_sorted(), "{after}");
        assert!(after.contains("/* why */"), "{after}");
        let document: Value = serde_json::from_str(&after.replace("/* why */", "")).unwrap();
        assert_eq!(document["mcpServers"]["other"]["command"], "x");
        assert_eq!(document["mcpServers"]["holm"], entry().json());
        assert!(after.contains("12345678901234567890"), "{after}");
        assert_eq!(
            merged_json("mcpServers", &entry().json(), &after).unwrap(),
            after
        );

        let before = "# mine\nmodel = \"x\" # why\n\n[mcp_servers.other]\ncommand = \"y\"\n\n[profiles.a]\nb = 1\n";
        let after = merged_toml(&entry(), before).unwrap();
        for line in before.lines() {
            assert!(after.contains(line), "{line}\n{after}");
        }
        assert!(
            after.contains("[mcp_servers.holm]\ncommand = \"/usr/bin/holm\"\n"),
            "{after}"
        );
        assert!(after.contains("HOLM_HOME = \"/h\""), "{after}");
        assert_eq!(merged_toml(&entry(), &after).unwrap(), after);
    }

    #[test]
    fn what_is_not_understood_is_left_alone() {
        for before in ["{", "[]", "{\"mcpServers\": 1}", "null"] {
            merged_json("mcpServers", &entry().json(), before).unwrap_err();
        }
        for before in ["= x", "mcp_servers = 1"] {
            merged_toml(&entry(), before).unwrap_err();
        }
    }

    #[test]
    fn opencode_has_a_form_of_its_own() {
        let after = ClientName::Opencode.merged(&entry(), "{\"model\": \"m\"}");
        let document: Value = serde_json::from_str(&after.unwrap()).unwrap();
        let holm = json!({ "type": "local", "command": ["/usr/bin/holm", "mcp"], "enabled": true,
            "environment": { "HOLM_HOME": "/h" } });
        assert_eq!(document, json!({ "model": "m", "mcp": { "holm": holm } }));
    }
}
