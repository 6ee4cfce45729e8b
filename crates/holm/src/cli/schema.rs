//! `holm schema`: the JSON schema of `holm.toml`, for editors.

use super::{Context, Outcome};
use clap::Args;
use std::process::ExitCode;

/// Print the JSON schema of holm.toml
///
/// Editors use it to complete and check the file.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm schema > holm.schema.json")]
pub struct SchemaArgs {}

pub fn run(context: &Context, _: SchemaArgs) -> Outcome {
    let schema = holm_config::schema::holm_toml();
    context.output.result(&schema, || format!("{schema:#}"));
    Ok(ExitCode::SUCCESS)
}
