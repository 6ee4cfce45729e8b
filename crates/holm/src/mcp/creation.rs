//! Tools that need the user's repository: projects, new workspaces, and moves to other commits. The
//! client's own program does the work ([`Helper`]).

use super::{Call, value_of};
use holm_api::project::NewProject;
use holm_api::workspace::NewWorkspace;
use holm_core::Fault;
use holm_server::helper::{Earlier, Helper, program};
use serde_json::Value;
use std::path::Path;

// === impl Call ===

impl Call<'_> {
    pub async fn workspace_assign(&self) -> Result<Value, Fault> {
        let reference = self.arguments.needed("ref")?;
        let stash = self.arguments.is_set("stash").then_some("--stash");
        self.move_workspace("assign", stash, Some(reference)).await
    }

    pub async fn workspace_sync(&self) -> Result<Value, Fault> {
        self.move_workspace("sync", None, None).await
    }

    async fn move_workspace(
        &self,
        verb: &str,
        option: Option<&str>,
        reference: Option<&str>,
    ) -> Result<Value, Fault> {
        self.holm.local.allow()?;
        let id = self.workspace().await?.to_string();
        let words = [Some(verb), option, Some("--"), Some(&id), reference];
        let words: Vec<&str> = words.into_iter().flatten().collect();
        self.progress.say("moving the workspace".to_owned());
        program::holm(Path::new("/"), &words, None).await
    }

    pub async fn project_create(&self) -> Result<Value, Fault> {
        let from = self.holm.local.allow()?;
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

    pub async fn workspace_create(&self) -> Result<Value, Fault> {
        let from = self.holm.local.allow()?;
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
