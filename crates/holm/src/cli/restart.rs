//! `holm restart`: stop, then start.

use super::build::{Building, State};
use super::completions::labels;
use super::several::{self, WaitArgs};
use super::work::Subject;
use super::{Context, Outcome, secret};
use clap::Args;
use holm_api::client::Client;
use holm_api::image::TakeImages;
use holm_core::{Code, Fault, WorkspaceId};

/// Stop workspaces and start them again
///
/// Stops and starts every process; keeps code and data. Returns when all services are ready. With --rebuild, images
/// that are built from Dockerfiles of the project are built again first, from the commit that the workspace started
/// from or was moved to.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  holm restart fix-login\n  holm restart api-1 api-2\n  holm restart fix-login --rebuild"
)]
pub struct RestartArgs {
    /// Labels, project/label, ids or beginnings of ids
    #[arg(value_name = "WS", required = true, add = labels())]
    workspaces: Vec<String>,
    /// Build the images of its services again, also if nothing that they are built from changed
    #[arg(long)]
    rebuild: bool,
    #[command(flatten)]
    wait: WaitArgs,
}

pub fn run(context: &Context, arguments: RestartArgs) -> Outcome {
    let patience = arguments.wait.patience();
    several::start_each(
        context,
        &arguments.workspaces,
        patience,
        |client, id| async move {
            if arguments.rebuild {
                rebuild(context, &client, &id).await?;
            }
            let notes = secret::read::before_start(&client, &id).await?;
            let mut workspace = client.restart(&id).await?;
            workspace.notes.extend(notes);
            Ok(workspace)
        },
    )
}

/// What the images are built from was approved when the workspace was made.
async fn rebuild(context: &Context, client: &Client, id: &WorkspaceId) -> Result<(), Fault> {
    let workspace = client.workspace(id).await?;
    if workspace.builds.is_empty() {
        let message = format!("no image of workspace `{}` is built here", workspace.label);
        let hint = "`build` in [services.NAME] of holm.toml builds one; `holm image pull` fetches others again";
        return Err(Fault::new(Code::Refused, message, hint));
    }
    let subject = Subject {
        client: client.clone(),
        id: id.clone(),
    };
    let building = Building {
        context,
        client,
        checkout: &subject.repository(&workspace).await?,
        state: State::Commit(workspace.commit.clone()),
    };
    let builds = workspace.builds.iter();
    let builds = builds.map(|one| (one.service.clone(), one.build.clone()));
    let built = building.again(builds).await?;
    client.take_images(id, &TakeImages { built }).await?;
    Ok(())
}
