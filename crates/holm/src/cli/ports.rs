//! `holm ports`: every port, inside and on the host.

use super::completions::labels;
use super::output::{GOOD, HINT, printable};
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
    if context.output.is_quiet() {
        let addresses: Vec<String> = list
            .ports
            .iter()
            .map(|entry| main_address(&entry.port))
            .collect();
        context.output.asked_for(&addresses.join("\n"));
        return Ok(ExitCode::SUCCESS);
    }
    context.output.result(&list, || render(&list.ports));
    Ok(ExitCode::SUCCESS)
}

/// One block per workspace: `● web    :3000  http://…   127.0.0.1:23107`.
fn render(ports: &[WorkspacePort]) -> String {
    let mut blocks: Vec<String> = Vec::new();
    let mut rest = ports;
    while let Some(first) = rest.first() {
        let end = rest
            .iter()
            .position(|entry| entry.workspace != first.workspace);
        let (own, others) = rest.split_at(end.unwrap_or(rest.len()));
        blocks.push(block(own));
        rest = others;
    }
    blocks.join("\n")
}

fn block(ports: &[WorkspacePort]) -> String {
    let held = ports.iter().filter(|entry| entry.port.canonical);
    let held: Vec<String> = held.map(|entry| entry.port.port.to_string()).collect();
    let mut text = match ports.first() {
        Some(entry) => format!("{}/{}", printable(&entry.project), printable(&entry.label)),
        None => String::new(),
    };
    if !held.is_empty() {
        text.push_str(&format!(", holds localhost:{}", held.join(" and :")));
    }
    text.push('\n');
    let width = |of: fn(&Port) -> usize| {
        let widths = ports.iter().map(|entry| of(&entry.port));
        widths.max().unwrap_or(0)
    };
    let name = width(|port| port.name.chars().count());
    let inside = width(|port| port.port.to_string().len() + 1);
    let address = width(|port| main_address(port).chars().count());
    for WorkspacePort { port, .. } in ports {
        let (style, glyph) = if port.listening {
            (GOOD, "●")
        } else {
            (HINT, "◌")
        };
        let number = format!(":{}", port.port);
        let second = match port.host_port {
            Some(host) if !main_address(port).ends_with(&format!(":{host}")) => host_address(host),
            _ => String::new(),
        };
        let row = format!(
            "{:name$}  {number:inside$}  {:address$}  {second}",
            printable(&port.name),
            printable(&main_address(port))
        );
        text.push_str(&format!("{style}{glyph}{style:#} {}\n", row.trim_end()));
    }
    text
}

/// The preview, or the address on the host.
fn main_address(port: &Port) -> String {
    let host = || port.host_port.map(host_address);
    port.url
        .clone()
        .or_else(host)
        .unwrap_or_else(|| "–".to_owned())
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
        let is_http = url.is_empty() || url.starts_with("http://");
        let host = match port.host_port {
            Some(host) if is_http => format!("http://127.0.0.1:{host}"),
            // The address on the host is the only one.
            _ => String::new(),
        };
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
        let mut pg = port("pg", 5433, Some("postgres://127.0.0.1:23109"));
        pg.host_port = Some(23_109);
        let text = render(&[entry(web), entry(pg), entry(db)]);
        assert_eq!(
            anstream::adapter::strip_str(&text).to_string(),
            "shop/fix-login, holds localhost:3000\n\
             ● web   :3000  http://web.fix-login.localhost:7070  127.0.0.1:23107\n\
             ◌ pg    :5433  postgres://127.0.0.1:23109\n\
             ◌ 5432  :5432  –\n"
        );
    }
}
