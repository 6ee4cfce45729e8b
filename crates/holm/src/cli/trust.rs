//! `holm trust`: shows what a repository requests from the host, and stores a person's approval of
//! exactly that.

use super::consent::{self, Decision};
use super::origin::{Origin, StartArgs};
use super::output::GOOD;
use super::send::{self, SharedRefs, Wanted};
use super::trust_question::{ask, asks_text, give, may_ask, not_trusted, project_name};
use super::user_checkout::Checkout;
use super::{Context, Outcome, connect, settings};
use clap::Args;
use holm_api::client::Client;
use holm_api::project::{TrustCheck, TrustQuestions, TrustReport};
use holm_core::{Code, Fault};
use std::process::ExitCode;

/// Show and approve what this repository asks of the host
///
/// Some settings of holm.toml reach out of the workspace (ignored files, secrets, wider network
/// access, higher limits). They take effect only after you approved exactly this content; when it
/// changes you are asked again. The file of the current commit counts, or the one that `holm up`
/// would use with --from or --dirty; the patterns of .worktreeinclude count as `include`. Settings
/// of the repository's own .git/config that make git run a program (filters, merge drivers, ssh
/// commands) are shown, too: `up --dirty`, `apply`, `merge` and fetching from its remote need them
/// approved. Your own git configuration needs no approval.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  holm trust\n  holm trust --show\n  holm trust --yes\n  holm trust --from origin/main\n  \
        holm trust --agent claude --yes"
)]
pub struct TrustArgs {
    #[command(flatten)]
    start: StartArgs,
    /// Decide about an agent's sign-in instead: may it be used in workspaces of this project?
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Approve without asking
    #[arg(long)]
    yes: bool,
    /// Print what is asked, and approve nothing
    #[arg(long, conflicts_with_all = ["yes", "agent", "digest"])]
    show: bool,
    /// Approve only requests with this digest, which --show prints with --json; can be repeated
    #[arg(long, value_name = "DIGEST", conflicts_with_all = ["yes", "agent"])]
    digest: Vec<String>,
    /// With --agent: the sign-in may not be used
    #[arg(long, requires = "agent", conflicts_with = "yes")]
    no: bool,
}

const NOTHING: &str = "This repository asks for nothing of the host.";

pub fn run(context: &Context, arguments: TrustArgs) -> Outcome {
    let report = connect::block_on(async {
        let (checkout, client) = tokio::join!(Checkout::find(), connect::started());
        let (checkout, client) = (checkout?, client?);
        let origin = Origin::find(&checkout, &arguments.start).await?;
        let wanted = Wanted {
            refs: SharedRefs::of(&checkout).await?,
            commit: origin.commit(),
            config: Some(&origin.config),
        };
        let answer = send::register(&client, &checkout, &wanted).await?;
        if let Some(agent) = &arguments.agent {
            let wish = match (arguments.yes, arguments.no) {
                (true, _) => Some(Decision::Yes),
                (_, true) => Some(Decision::No),
                _ => None,
            };
            let sign_in = consent::Use {
                project: answer.project.id.as_str(),
                agent,
            };
            return consent::decide(context, &client, sign_in, wish)
                .await
                .map(|()| None);
        }
        let check = TrustCheck {
            project_id: answer.project.id,
            config: origin.files.holm_toml.clone(),
            compose: origin.compose.clone(),
            worktree_include: checkout.worktree_include()?,
            settings: Vec::new(),
        };
        let report = client.check_trust(&check).await?;
        let settings = settings::check(&client, &checkout).await?;
        if arguments.show {
            let questions = settings.into_iter().chain([(check, report)]).collect();
            show(context, &client, questions).await;
            return Ok(None);
        }
        let mut asked = Vec::new();
        if let Some((check, report)) = settings {
            let report = approve(context, &client, (&check, report), &arguments).await?;
            asked = report.asks;
        }
        let mut report = approve(context, &client, (&check, report), &arguments).await?;
        report.asks.splice(0..0, asked);
        Ok(Some(report))
    })?;
    let Some(report) = report else {
        return Ok(ExitCode::SUCCESS);
    };
    context.output.done(&report, || match report.asks.len() {
        0 => NOTHING.to_owned(),
        _ => format!("{GOOD}✓{GOOD:#} approved"),
    });
    Ok(ExitCode::SUCCESS)
}

/// Prints the requests, approved or not.
async fn show(context: &Context, client: &Client, questions: Vec<(TrustCheck, TrustReport)>) {
    let mut texts = Vec::new();
    for (check, report) in questions
        .iter()
        .filter(|(_, report)| !report.asks.is_empty())
    {
        let name = project_name(client, check).await;
        texts.push(asks_text(&name, check, report));
    }
    let questions = questions.into_iter().map(|(_, report)| report);
    let questions = TrustQuestions {
        questions: questions.filter(|report| !report.asks.is_empty()).collect(),
    };
    context.output.result(&questions, || match texts.len() {
        0 => NOTHING.to_owned(),
        _ => texts.join("\n"),
    });
}

async fn approve(
    context: &Context,
    client: &Client,
    (check, mut report): (&TrustCheck, TrustReport),
    arguments: &TrustArgs,
) -> Result<TrustReport, Fault> {
    if report.asks.is_empty() {
        return Ok(report);
    }
    let is_shown = arguments.digest.contains(&report.digest);
    if !is_shown && !arguments.digest.is_empty() && !report.approved {
        return Err(Fault::new(
            Code::NotTrusted,
            "the requests are others than those that were shown",
            "look again: `holm trust --show`",
        ));
    }
    let is_yes = arguments.yes || is_shown;
    if !is_yes && !may_ask(context) && !report.approved {
        let hint = format!("approve it: `holm trust{} --yes`", arguments.start.typed());
        return Err(not_trusted(&report, &hint));
    }
    let name = project_name(client, check).await;
    context.output.remark(&asks_text(&name, check, &report));
    if report.approved {
        return Ok(report);
    }
    if !is_yes && !ask(context, &name, check).await {
        let hint = "go on without: `holm up LABEL --untrusted`";
        return Err(Fault::new(Code::NotTrusted, "nothing was approved", hint));
    }
    give(client, check, &report).await?;
    report.approved = true;
    Ok(report)
}
