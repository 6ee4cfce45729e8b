//! Tools that need the user's repository: projects, new workspaces, and moves to other commits. The
//! client's own program does the work ([`Helper`]).

use super::catalogue::Create;
use super::{Call, value_of};
use holm_api::project::NewProject;
use holm_api::workspace::NewWorkspace;
use holm_core::Fault;
use holm_core::clone_url::CloneFrom;
use holm_server::helper::{Earlier, Helper, program};
use serde_json::Value;
use std::path::Path;

// === impl Call ===

impl Call<'_> {
    pub async fn create(&self, create: Create) -> Result<Value, Fault> {
        let from = self.holm.local.allow()?;
        match create {
            Create::Project => self.create_project(from).await,
            Create::Workspace => self.create_workspace(from).await,
            Create::Assign => {
                let id = self.workspace().await?.to_string();
                let reference = self.arguments.needed("ref")?;
                let mut words = vec!["assign"];
                if self.arguments.is_set("stash") {
                    words.push("--stash");
                }
                words.extend(["--", &id, reference]);
                self.progress.say("moving the workspace".to_owned());
                program::holm(Path::new("/"), &words, None).await
            }
            Create::Sync => {
                let id = self.workspace().await?.to_string();
                self.progress.say("moving the workspace".to_owned());
                program::holm(Path::new("/"), &["sync", "--", &id], None).await
            }
        }
    }

    async fn create_project(&self, from: CloneFrom) -> Result<Value, Fault> {
        let wish = NewProject {
            path: self.arguments.owned("path"),
            url: self.arguments.owned("url"),
            name: self.arguments.owned("name"),
            isolation: self.arguments.owned("isolation"),
            protected_paths: self.arguments.words("protected_paths"),
        };
        let report = |words| self.progress.say(words);
        let projects = self.client.projects().await?.projects;
        let helper = Helper::new(projects, from, &report).await?;
        value_of(&helper.project(&wish, Earlier::None).await?)
    }

    async fn create_workspace(&self, from: CloneFrom) -> Result<Value, Fault> {
        let wish = NewWorkspace {
            project: self.arguments.owned("project"),
            path: self.arguments.owned("path"),
            url: self.arguments.owned("url"),
            label: self.arguments.owned("label"),
            from: self.arguments.owned("from"),
            dirty: self.arguments.is_set("dirty"),
            wait: self.arguments.is_unset("wait").then_some(false),
            ..NewWorkspace::default()
        };
        let report = |words| self.progress.say(words);
        let projects = self.client.projects().await?.projects;
        let helper = Helper::new(projects, from, &report).await?;
        value_of(&helper.workspace(&wish, None).await?)
    }
}
