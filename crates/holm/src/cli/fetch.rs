//! `holm fetch`: a workspace's commits as a branch of your repository.

use super::completions::labels;
use super::figures::count;
use super::output::{FAINT, GOOD, WARNING, printable};
use super::send::{self, SharedRefs, Wanted};
use super::user_checkout::Checkout;
use super::work::{Subject, remark_aside, remark_left_out};
use super::{Context, Outcome, connect, settings};
use clap::Args;
use holm_api::Workspace;
use holm_api::work::Captured;
use holm_core::{Code, Fault, Label};
use holm_git::{Branch, Cancel};
use serde::Serialize;
use std::process::ExitCode;

/// Bring the commits of a workspace into your repository, as a branch
///
/// The branch is holm/<label>. It is moved only when it is absent or was last written by this
/// workspace; otherwise holm/<label>-<first 4 of the id> is used, with a message. The commits are
/// also recorded as refs/holm/<id>. Uncommitted files stay inside, with a warning, unless --commit
/// commits them first. Every object is checked before it is stored; hooks, filters and settings of
/// the workspace are not taken over.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    holm fetch fix-login\n  \
    holm fetch fix-login --commit 'Fix the login redirect'\n  \
    git log holm/fix-login")]
pub struct FetchArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: String,
    /// Commit everything inside first, untracked files included, with this message
    #[arg(long, value_name = "MSG")]
    commit: Option<String>,
    /// Take exactly the tree that a person approved (`holm approve`), or refuse
    #[arg(long)]
    approved: bool,
}

/// The JSON output.
#[derive(Clone, Debug, Serialize)]
pub struct Fetched {
    pub id: String,
    pub label: String,
    pub branch: String,
    #[serde(rename = "ref")]
    pub reference: String,
    pub commit: String,
    /// Whether the branch was moved or created.
    pub moved: bool,
    /// The preferred branch, if it was not used because something else wrote it last.
    pub avoided: Option<String>,
    /// The number of uncommitted files inside, which were not fetched.
    pub uncommitted: u64,
    /// The number of stashes inside, and refs with commits that were not fetched.
    pub stashes: u64,
    pub aside: Vec<String>,
}

/// The state of a workspace, and the only tree that may be taken over.
pub struct Taken<'a> {
    pub captured: &'a Captured,
    pub approved: Option<String>,
}

pub fn run(context: &Context, arguments: FetchArgs) -> Outcome {
    check_message(arguments.commit.as_deref())?;
    let fetched = connect::block_on(async {
        let subject = Subject::find(&arguments.workspace).await?;
        let workspace = subject.client.workspace(&subject.id).await?;
        let checkout = subject.repository(&workspace).await?;
        settings::settle_partial(context, &subject.client, &checkout).await?;
        let approved = subject.approved(arguments.approved).await?;
        let captured = subject.head(context, arguments.commit).await?;
        let taken = Taken {
            captured: &captured,
            approved,
        };
        fetch(context, &subject, &workspace, &checkout, taken).await
    })?;
    context.output.done(&fetched, || text(&fetched));
    Ok(ExitCode::SUCCESS)
}

/// Fetches HEAD of the workspace and sets the branch. Also called by `merge`.
pub async fn fetch(
    context: &Context,
    subject: &Subject,
    workspace: &Workspace,
    checkout: &Checkout,
    taken: Taken<'_>,
) -> Result<Fetched, Fault> {
    let Taken { captured, approved } = taken;
    let Some(commit) = captured.head.clone() else {
        let label = &workspace.label;
        return Err(Fault::new(
            Code::RefNotFound,
            format!("workspace `{label}` has no commit yet"),
            format!("`holm fetch {label} --commit MSG` makes one"),
        ));
    };
    let label = Label::parse(&workspace.label)
        .map_err(|error| Fault::of(Code::Internal, error, "is it another version?"))?;
    let (upload_pack, id) = (subject.upload_pack(&commit)?, subject.id.clone());
    let object = commit.clone();
    let branch = checkout.git(move |repository| {
        match approved {
            None => repository.fetch(&upload_pack, &object, &id, &Cancel::default())?,
            Some(tree) => repository.fetch_approved(&upload_pack, &object, &id, &tree)?,
        }
        repository.point_branch(&label, &id, &object)
    });
    let branch = branch.await.map_err(|fault| {
        let is_for_files = fault.code == Code::NotApproved && captured.uncommitted > 0;
        if is_for_files {
            other_tree_for_files(&fault, &workspace.label, captured.uncommitted)
        } else {
            fault
        }
    })?;
    note_saved(subject, checkout, &commit).await?;
    remark_left_out(context, captured);
    remark_uncommitted(context, captured);
    remark_aside(context, &workspace.label, captured);
    Ok(fetched(workspace, captured, branch, commit))
}

/// The approved tree has files that no commit inside has.
fn other_tree_for_files(fault: &Fault, label: &str, files: u64) -> Fault {
    let files = count(files, "file");
    Fault::new(
        Code::NotApproved,
        format!(
            "the last commit of `{label}` has another tree than the approved one; not committed inside: {files}; {}",
            fault.message()
        ),
        format!(
            "take the approved files, uncommitted: `holm apply {label} --approved`\n\
             commit them inside and merge: `holm merge {label} --commit \"…\" --approved`"
        ),
    )
}

/// Sends the commits to the daemon, so that it no longer counts them as unsaved.
async fn note_saved(subject: &Subject, checkout: &Checkout, commit: &str) -> Result<(), Fault> {
    let wanted = Wanted {
        refs: SharedRefs::of(checkout).await?,
        commit: Some(commit.to_owned()),
        config: None,
    };
    let cancel = Cancel::default();
    let sent = send::send(&subject.client, checkout, wanted, &cancel).await;
    sent.map(|_| ())
}

fn fetched(workspace: &Workspace, captured: &Captured, branch: Branch, commit: String) -> Fetched {
    Fetched {
        id: workspace.id.clone(),
        label: workspace.label.clone(),
        reference: format!("refs/holm/{}", workspace.id),
        branch: branch.name,
        moved: branch.is_moved,
        avoided: branch.avoided,
        uncommitted: captured.uncommitted,
        stashes: captured.stashes,
        aside: captured.aside.clone(),
        commit,
    }
}

fn remark_uncommitted(context: &Context, captured: &Captured) {
    if captured.uncommitted == 0 {
        return;
    }
    let names: Vec<String> = captured
        .uncommitted_names
        .iter()
        .map(|name| printable(name))
        .collect();
    let more = if captured.uncommitted as usize > names.len() {
        ", …"
    } else {
        ""
    };
    context.output.remark(&format!(
        "{WARNING}warning:{WARNING:#} not committed inside, so not fetched: {}{more}\n  \
         {FAINT}`--commit MSG` commits them first; `holm apply` takes everything{FAINT:#}",
        names.join(", ")
    ));
}

/// The text output.
pub fn text(fetched: &Fetched) -> String {
    let Fetched { branch, commit, .. } = fetched;
    let short = &commit[..commit.len().min(10)];
    let mut text = if fetched.moved {
        format!("{GOOD}✓{GOOD:#} {branch} is at {short}")
    } else {
        format!("{GOOD}✓{GOOD:#} {branch} is at {short} already")
    };
    if let Some(avoided) = &fetched.avoided {
        text.push_str(&format!(
            "\n  {FAINT}{avoided} was last written by somebody else and stays as it is{FAINT:#}"
        ));
    }
    text
}

/// Refuses an empty message of `--commit`.
pub fn check_message(message: Option<&str>) -> Result<(), Fault> {
    if message.is_some_and(|message| message.trim().is_empty()) {
        return Err(Fault::new(
            Code::Usage,
            "the message of --commit is empty",
            "for example `--commit 'Fix the login redirect'`",
        ));
    }
    Ok(())
}
