//! Resources: `holm here` of a workspace, and the logs of its services, by URIs with ids:
//! `holm://workspaces/<id>/here`, `holm://workspaces/<id>/logs` and `…/logs/<service>`.

use super::arguments::Arguments;
use super::progress::Progress;
use super::{Call, Holm};
use crate::wiring::guest;
use holm_api::service::LogLine;
use holm_core::{Code, Fault, WorkspaceId};
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::{Map, json};

const PREFIX: &str = "holm://workspaces/";
const MARKDOWN: &str = "text/markdown";
const PLAIN: &str = "text/plain";

/// A parsed URI.
#[derive(Debug, PartialEq, Eq)]
enum Meant {
    Here,
    Logs(Option<String>),
}

pub fn templates() -> Vec<ResourceTemplate> {
    let template = |below: &str, name: &str, description: &str, kind: &str| {
        ResourceTemplate::new(format!("{PREFIX}{{id}}/{below}"), name)
            .with_description(description)
            .with_mime_type(kind)
    };
    vec![
        template("here", "here", "What a running workspace has", MARKDOWN),
        template(
            "logs",
            "logs",
            "The last lines of all services of a workspace",
            PLAIN,
        ),
        template(
            "logs/{service}",
            "service-logs",
            "The last lines of one service",
            PLAIN,
        ),
    ]
}

// === impl Holm ===

impl Holm {
    pub(super) async fn resources(&self) -> Result<Vec<Resource>, Fault> {
        let client = self.client().await?;
        let workspaces = match &self.scope {
            Some(id) => vec![client.workspace(id).await?],
            None => client.workspaces().await?.workspaces,
        };
        let mut resources = Vec::new();
        for workspace in workspaces {
            let (id, label) = (&workspace.id, &workspace.label);
            if workspace.state == "running" {
                let here = Resource::new(format!("{PREFIX}{id}/here"), format!("{label}: here"));
                let words = format!("What the workspace {label} has");
                resources.push(here.with_description(words).with_mime_type(MARKDOWN));
            }
            for service in &workspace.services {
                let name = &service.name;
                let uri = format!("{PREFIX}{id}/logs/{name}");
                let logs = Resource::new(uri, format!("{label}: logs of {name}"));
                resources.push(logs.with_mime_type(PLAIN));
            }
        }
        Ok(resources)
    }

    pub(super) async fn read(&self, uri: &str) -> Result<ReadResourceResult, Fault> {
        let (id, meant) = parse(uri).ok_or_else(|| not_found(uri))?;
        if self.scope.as_ref().is_some_and(|scope| *scope != id) {
            return Err(not_found(uri));
        }
        let mut arguments = Map::new();
        if let Meant::Logs(Some(service)) = &meant {
            arguments.insert("service".to_owned(), json!(service));
        }
        let call = Call {
            holm: self,
            client: self.client().await?,
            arguments: Arguments::new(arguments),
            progress: Progress::unheard(),
        };
        let (text, kind) = match meant {
            Meant::Here => {
                let here = call.description(&id).await?;
                (guest::markdown(&here), MARKDOWN)
            }
            Meant::Logs(_) => {
                let lines = call.log_lines(&id).await?;
                (lines.iter().map(line).collect(), PLAIN)
            }
        };
        let contents = ResourceContents::text(text, uri).with_mime_type(kind);
        Ok(ReadResourceResult::new(vec![contents]))
    }
}

fn line(line: &LogLine) -> String {
    format!("{} {} {}\n", line.time, line.service, line.text)
}

fn parse(uri: &str) -> Option<(WorkspaceId, Meant)> {
    let (id, below) = uri.strip_prefix(PREFIX)?.split_once('/')?;
    let id = WorkspaceId::parse(id).ok()?;
    let meant = match below.split_once('/') {
        None if below == "here" => Meant::Here,
        None if below == "logs" => Meant::Logs(None),
        Some(("logs", service)) if !service.is_empty() => Meant::Logs(Some(service.to_owned())),
        _ => return None,
    };
    Some((id, meant))
}

fn not_found(uri: &str) -> Fault {
    Fault::new(
        Code::NotFound,
        format!("no resource `{}`", uri.escape_debug()),
        "resources/list lists them",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_mean_ids_only() {
        let id = WorkspaceId::parse("w000000000001").unwrap();
        let check = |uri: &str, meant: Option<Meant>| {
            assert_eq!(parse(uri), meant.map(|meant| (id.clone(), meant)), "{uri}");
        };
        check("holm://workspaces/w000000000001/here", Some(Meant::Here));
        check(
            "holm://workspaces/w000000000001/logs",
            Some(Meant::Logs(None)),
        );
        let web = Meant::Logs(Some("web".to_owned()));
        check("holm://workspaces/w000000000001/logs/web", Some(web));
        for wrong in [
            "",
            "holm://workspaces/",
            "holm://workspaces/fix/here",
            "file:///etc/passwd",
            "holm://workspaces/w000000000001",
            "holm://workspaces/w000000000001/logs/",
            "holm://workspaces/../w000000000001/here",
        ] {
            check(wrong, None);
        }
    }
}
