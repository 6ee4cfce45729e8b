//! `holm image`: the images that services run in.

mod credentials;
mod import;
mod ls;

use super::completions::images;
use super::output::{GOOD, printable};
use super::progress::Progress;
use super::{Context, Outcome, connect};
use clap::{Args, Subcommand};
use holm_api::image::{ImageList, PullImage, RemoveImage};
use holm_core::config::rough_size;
use holm_core::image_reference::ImageReference;
use holm_core::{Code, Fault};
use std::process::ExitCode;

/// List, pull, import and remove images
///
/// An image is a root directory for services: `[services.db] image = "postgres:16"`. holm pulls and unpacks it
/// itself, without Docker. All workspaces share its layers.
#[derive(Debug, Args)]
pub struct ImageArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Ls(ls::LsArgs),
    Pull(PullArgs),
    Import(import::ImportArgs),
    Rm(RmArgs),
}

/// Pull an image from its registry
///
/// A pull that was interrupted goes on where it ended. Credentials come from ~/.docker/config.json and its
/// credential helpers, and go to the registry of this image only. Which hosts may be asked, `[egress]` of
/// config.toml says; a registry on this machine needs an entry in `[images] loopback`.
/// With --json: {"images":[{reference,digest,bytes,stored_at,used_by}]}.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    holm image pull postgres:16\n  \
    holm image pull registry.example.org/team/app:1.2")]
struct PullArgs {
    /// name, name:tag, name@sha256:…, with or without the registry before it
    #[arg(value_name = "IMAGE")]
    image: String,
}

/// Remove an image that no workspace uses
///
/// `holm gc` deletes its files, except for what other images share.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm image rm postgres:16")]
struct RmArgs {
    /// Its name
    #[arg(value_name = "IMAGE", add = images())]
    image: String,
}

pub fn run(context: &Context, arguments: ImageArgs) -> Outcome {
    match arguments.action {
        Action::Ls(_) => ls::run(context),
        Action::Pull(arguments) => pull(context, &arguments.image),
        Action::Import(arguments) => import::run(context, arguments),
        Action::Rm(arguments) => rm(context, arguments.image),
    }
}

fn pull(context: &Context, typed: &str) -> Outcome {
    let reference = parse(typed)?;
    let credentials = credentials::find(&reference)?;
    let pull = PullImage {
        reference: reference.to_string(),
        credentials,
    };
    let list = connect::block_on(async {
        let client = connect::started().await?;
        let mut progress = Progress::new(context);
        let report = |step: &str, done, total| progress.report(step, done, total);
        let pulled = client.pull_image(&pull, report).await;
        pulled.inspect_err(|_| progress.fail())
    })?;
    stored(context, &list, "pulled");
    Ok(ExitCode::SUCCESS)
}

fn rm(context: &Context, typed: String) -> Outcome {
    parse(&typed)?;
    let removed = connect::block_on(async {
        let client = connect::started().await?;
        client.remove_image(&RemoveImage { reference: typed }).await
    })?;
    context.output.done(&removed, || {
        let name = printable(&removed.reference.familiar());
        format!("{GOOD}✓{GOOD:#} {name}  removed; `holm gc` frees its disk")
    });
    Ok(ExitCode::SUCCESS)
}

/// Says which images are there now.
fn stored(context: &Context, list: &ImageList, how: &str) {
    context.output.done(list, || {
        let lines = list.images.iter().map(|image| {
            let name = printable(&image.reference.familiar());
            let (size, digest) = (rough_size(image.bytes), &image.digest.hex()[..12]);
            format!("{GOOD}✓{GOOD:#} {name}  {how}, {size}, sha256:{digest}")
        });
        lines.collect::<Vec<_>>().join("\n")
    });
    if context.output.is_quiet() {
        let names = list.images.iter().map(|image| image.reference.familiar());
        context
            .output
            .asked_for(&names.collect::<Vec<_>>().join("\n"));
    }
}

fn parse(typed: &str) -> Result<ImageReference, Fault> {
    let hint = "write it as `name`, `name:tag` or `registry.example.org/team/name:tag`";
    let parsed = typed.parse::<ImageReference>();
    parsed.map_err(|error| Fault::of(Code::InvalidImage, error, hint))
}
