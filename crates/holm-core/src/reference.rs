//! Resolves what a person typed for a workspace. Nothing below the edge sees a [`WorkspaceRef`].

use crate::id::{ProjectId, WorkspaceId, is_id_prefix};
use crate::{Code, Fault};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A label, `project/label`, an id, a unique prefix of an id, or `.`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceRef(String);

/// The names of a live workspace: enough to resolve what a person typed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Name)]
pub struct Candidate {
    pub id: WorkspaceId,
    pub label: String,
    pub project_id: ProjectId,
    pub project: String,
}

/// The context of the command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Here {
    /// The project of the current directory: its labels win.
    pub project: Option<ProjectId>,
    /// The workspace that this program runs in.
    pub workspace: Option<WorkspaceId>,
}

// === impl WorkspaceRef ===

impl WorkspaceRef {
    pub fn new(typed: &str) -> Self {
        Self(typed.to_owned())
    }

    /// The workspace that is meant, or why there is none.
    pub fn resolve(&self, here: &Here, candidates: &[Candidate]) -> Result<WorkspaceId, Fault> {
        if self.0 == "." {
            return here.workspace.clone().ok_or_else(|| {
                let hint = "name a workspace; `holm ls` lists them";
                Fault::new(
                    Code::WorkspaceNotFound,
                    "`.` is not inside a workspace",
                    hint,
                )
            });
        }
        let mut found = self.by_label(here, candidates);
        if found.is_empty() {
            found = self.by_id(candidates);
        }
        match found.as_slice() {
            [one] => Ok(one.id.clone()),
            [] => Err(self.not_found(candidates)),
            several => Err(self.ambiguous(several)),
        }
    }

    fn by_label<'a>(&self, here: &Here, candidates: &'a [Candidate]) -> Vec<&'a Candidate> {
        if let Some((project, label)) = self.0.split_once('/') {
            let is_meant = |c: &&Candidate| c.project == project && c.label == label;
            return candidates.iter().filter(is_meant).collect();
        }
        let labelled: Vec<_> = candidates.iter().filter(|c| c.label == self.0).collect();
        let own: Vec<_> = labelled
            .iter()
            .copied()
            .filter(|c| Some(&c.project_id) == here.project.as_ref())
            .collect();
        if own.is_empty() { labelled } else { own }
    }

    fn by_id<'a>(&self, candidates: &'a [Candidate]) -> Vec<&'a Candidate> {
        if !is_id_prefix(&self.0) {
            return Vec::new();
        }
        candidates
            .iter()
            .filter(|c| c.id.as_str().starts_with(&self.0))
            .collect()
    }

    fn not_found(&self, candidates: &[Candidate]) -> Fault {
        let nearest = candidates
            .iter()
            .map(|c| (distance(&self.0, &c.label), &c.label))
            .filter(|(distance, label)| *distance <= 1 + label.len() / 4)
            .min();
        let hint = match nearest {
            Some((_, label)) => format!("did you mean: `{label}`\nall workspaces: `holm ls`"),
            None => "all workspaces: `holm ls`\ncreate one: `holm up LABEL`".to_owned(),
        };
        let typed = self.0.escape_debug();
        let mut projects: Vec<&str> = candidates.iter().map(|c| c.project.as_str()).collect();
        projects.dedup();
        let message = match projects.as_slice() {
            [only] if !self.0.contains('/') => {
                format!("{} has no workspace {typed}", only.escape_debug())
            }
            _ => format!("no workspace {typed}"),
        };
        Fault::new(Code::WorkspaceNotFound, message, hint)
    }

    fn ambiguous(&self, several: &[&Candidate]) -> Fault {
        let listed: Vec<_> = several
            .iter()
            .map(|c| format!("{} ({}/{})", c.id, c.project, c.label))
            .collect();
        Fault::new(
            Code::Ambiguous,
            format!(
                "`{}` stands for {} workspaces: {}",
                self.0,
                several.len(),
                listed.join(", ")
            ),
            "type more of the id, or `project/label`",
        )
    }
}

/// The Levenshtein distance of two words.
pub fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, l) in left.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, r) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(l != *r);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(id: &str, project: (&str, &str), label: &str) -> Candidate {
        Candidate {
            id: WorkspaceId::parse(id).unwrap(),
            label: label.to_owned(),
            project_id: ProjectId::parse(project.0).unwrap(),
            project: project.1.to_owned(),
        }
    }

    const SHOP: (&str, &str) = ("p000000000001", "shop");
    const BLOG: (&str, &str) = ("p000000000002", "blog");

    #[test]
    fn which_workspace_is_meant() {
        let all = [
            candidate("waaaaaaaaaaaa", SHOP, "fix"),
            candidate("waaaaaaaaaaab", BLOG, "fix"),
            candidate("wbbbbbbbbbbbb", SHOP, "wb"),
            candidate("wcccccccccccc", SHOP, "login"),
        ];
        let nowhere = Here::default();
        let in_shop = Here {
            project: Some(ProjectId::parse(SHOP.0).unwrap()),
            workspace: None,
        };
        let inside = Here {
            project: None,
            workspace: Some(all[3].id.clone()),
        };
        let check = |typed: &str, here: &Here, expect: Result<&str, Code>| {
            let found = WorkspaceRef::new(typed).resolve(here, &all);
            let found = found
                .as_ref()
                .map(WorkspaceId::as_str)
                .map_err(|fault| fault.code);
            assert_eq!(found, expect, "{typed}");
        };
        check("login", &nowhere, Ok("wcccccccccccc"));
        check("fix", &nowhere, Err(Code::Ambiguous));
        check("fix", &in_shop, Ok("waaaaaaaaaaaa"));
        check("blog/fix", &in_shop, Ok("waaaaaaaaaaab"));
        check("blog/login", &nowhere, Err(Code::WorkspaceNotFound));
        check("waaaaaaaaaaab", &nowhere, Ok("waaaaaaaaaaab"));
        check("waaa", &nowhere, Err(Code::Ambiguous));
        check("wc", &nowhere, Ok("wcccccccccccc"));
        check("wb", &nowhere, Ok("wbbbbbbbbbbbb"));
        check("w", &nowhere, Err(Code::WorkspaceNotFound));
        check(".", &inside, Ok("wcccccccccccc"));
        check(".", &nowhere, Err(Code::WorkspaceNotFound));
        check("", &nowhere, Err(Code::WorkspaceNotFound));
        check("../login", &nowhere, Err(Code::WorkspaceNotFound));
    }

    #[test]
    fn what_is_refused_says_what_to_type() {
        let all = [
            candidate("waaaaaaaaaaaa", SHOP, "api-1"),
            candidate("waaaaaaaaaaab", BLOG, "api-1"),
        ];
        let near = WorkspaceRef::new("api-2")
            .resolve(&Here::default(), &all)
            .unwrap_err();
        assert_eq!(
            near.hint,
            "did you mean: `api-1`\nall workspaces: `holm ls`"
        );
        assert_eq!(near.message(), "no workspace api-2");
        let missing = |typed: &str| {
            let found = WorkspaceRef::new(typed).resolve(&Here::default(), &all[..1]);
            found.unwrap_err().message()
        };
        assert_eq!(missing("api-2"), "shop has no workspace api-2");
        assert_eq!(missing("blog/api-1"), "no workspace blog/api-1");
        let both = WorkspaceRef::new("api-1")
            .resolve(&Here::default(), &all)
            .unwrap_err();
        assert!(
            both.message().contains("waaaaaaaaaaaa (shop/api-1)"),
            "{}",
            both.message()
        );
        assert!(
            both.message().contains("waaaaaaaaaaab (blog/api-1)"),
            "{}",
            both.message()
        );
    }
}
