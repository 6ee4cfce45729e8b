//! `holm ports`: every port, inside and on the host.

use super::completions::labels;
use super::table::Table;
use super::{Context, Outcome, connect, resolve};
use clap::Args;
use holm_api::port::WorkspacePort;
use holm_api::workspace::Port;
use std::process::ExitCode;

/// List the ports of all workspaces, or of one: inside, on the host, and as a URL
///
/// Declared ports are those of [ports] in holm.toml; other listening ports are discovered within a
/// second. Each has a port on this machine's loopback that stays the same for as long as the
/// workspace exists and takes any protocol.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm ports\n  holm ports fix-login --json")]
pub struct PortsArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: Option<String>,
}

pub fn run(context: &Context, arguments: PortsArgs) -> Outcome {
    let list = connect::block_on(async {
        let client = connect::started().await?;
        match &arguments.workspace {
            Some(workspace) => {
                let id = resolve::one(&client, workspace).await?;
                client.ports_of(&id).await
            }
            None => client.ports().await,
        }
    })?;
    if list.ports.is_empty() && !context.output.is_json() {
        context.output.remark(
            "No ports yet. Declare them in [ports] of holm.toml, or start a program that listens.",
        );
        return Ok(ExitCode::SUCCESS);
    }
    context.output.result(&list, || render(&list.ports));
    Ok(ExitCode::SUCCESS)
}

fn render(ports: &[WorkspacePort]) -> String {
    let mut table = Table::new([
        "WORKSPACE",
        "NAME",
        "INSIDE",
        "HOST",
        "URL",
        "SOURCE",
        "LISTENING",
    ]);
    for entry in ports {
        let port = &entry.port;
        let listening = match (port.listening, port.canonical) {
            (true, false) => "yes".to_owned(),
            (false, false) => "no".to_owned(),
            (is_listening, true) => {
                let word = if is_listening { "yes" } else { "no" };
                format!("{word}, and localhost:{} leads here", port.port)
            }
        };
        table.row([
            format!("{}/{}", entry.project, entry.label),
            port.name.clone(),
            port.port.to_string(),
            port.host_port.map_or_else(|| "-".to_owned(), host_address),
            port.url.clone().unwrap_or_else(|| "-".to_owned()),
            port.source.clone(),
            listening,
        ]);
    }
    table.render()
}

fn host_address(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

/// The lines of a workspace's ports: `web   http://…   http://127.0.0.1:23107   → :3000`.
pub fn lines(ports: &[Port]) -> Vec<String> {
    let name_width = ports.iter().map(|port| port.name.len()).max().unwrap_or(0);
    let urls: Vec<&str> = ports
        .iter()
        .map(|port| port.url.as_deref().unwrap_or_default())
        .collect();
    let url_width = urls.iter().map(|url| url.len()).max().unwrap_or(0);
    let line = |(port, url): (&Port, &&str)| {
        let host = port
            .host_port
            .map_or_else(String::new, |host| format!("http://127.0.0.1:{host}"));
        let mut parts = vec![format!("{:name_width$}", port.name)];
        if url_width > 0 {
            parts.push(format!("{url:url_width$}"));
        }
        parts.push(format!("{host:22}"));
        parts.push(format!("→ :{}", port.port));
        parts.join("   ")
    };
    ports.iter().zip(&urls).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn port(name: &str, number: u16, url: Option<&str>) -> Port {
        Port {
            name: name.to_owned(),
            port: number,
            host_port: Some(23_107),
            url: url.map(str::to_owned),
            canonical: false,
            source: "declared".to_owned(),
            listening: false,
        }
    }

    #[test]
    fn lines_line_up() {
        let web = port("web", 3000, Some("http://web.fix-login.localhost:7070"));
        assert_eq!(
            lines(std::slice::from_ref(&web)),
            ["web   http://web.fix-login.localhost:7070   http://127.0.0.1:23107   → :3000"]
        );
        assert_eq!(
            lines(&[port("db", 5432, None)]),
            ["db   http://127.0.0.1:23107   → :5432"]
        );
    }

    #[test]
    fn a_table_with_fixed_data() {
        let mut web = port("web", 3000, Some("http://web.fix-login.localhost:7070"));
        web.listening = true;
        web.canonical = true;
        let entry = |port: Port| WorkspacePort {
            workspace: "waaaaaaaaaaaa".to_owned(),
            label: "fix-login".to_owned(),
            project: "shop".to_owned(),
            port,
        };
        let mut db = port("5432", 5432, None);
        db.host_port = None;
        db.source = "discovered".to_owned();
        let text = render(&[entry(web), entry(db)]);
        assert_eq!(
            anstream::adapter::strip_str(&text).to_string(),
            "WORKSPACE       NAME  INSIDE  HOST             URL                                  SOURCE      LISTENING\n\
             shop/fix-login  web   3000    127.0.0.1:23107  http://web.fix-login.localhost:7070  declared    yes, and localhost:3000 leads here\n\
             shop/fix-login  5432  5432    -                -                                    discovered  no\n"
        );
    }
}
