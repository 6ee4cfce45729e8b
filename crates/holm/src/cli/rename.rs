//! `holm rename`: changes the label and nothing else.

use super::completions::labels;
use super::output::{GOOD, printable};
use super::{Context, Outcome, connect, resolve};
use clap::Args;
use holm_core::{Code, Fault, Label};
use std::process::ExitCode;

/// Change the label of a workspace
///
/// The id, the code, the branch inside and everything that runs stay as they are.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm rename amber-cove fix-login")]
pub struct RenameArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: String,
    /// The new label: 1 to 40 of a-z, 0-9 and -
    label: String,
}

pub fn run(context: &Context, arguments: RenameArgs) -> Outcome {
    let label = parse_label(&arguments.label)?;
    let renamed = connect::block_on(async {
        let client = connect::started().await?;
        let id = resolve::one(&client, &arguments.workspace).await?;
        client.rename(&id, label.as_str()).await
    })?;
    context.output.done(&renamed, || {
        let label = printable(&renamed.label);
        format!("{GOOD}✓{GOOD:#} {} is now {label}", renamed.id)
    });
    Ok(ExitCode::SUCCESS)
}

/// Parses a typed label.
pub fn parse_label(typed: &str) -> Result<Label, Fault> {
    Label::parse(typed).map_err(|error| {
        let hint = match similar(typed) {
            Some(label) => format!("use   {label}"),
            None => "a label is 1 to 40 of a-z, 0-9 and -, for example `fix-login`".to_owned(),
        };
        let message = format!("{} cannot be a label", typed.escape_debug());
        Fault::new(Code::InvalidLabel, message, hint).because(error)
    })
}

/// A label in place of one that is not allowed: `bad-label` of `Bad_Label`.
fn similar(typed: &str) -> Option<Label> {
    let letter = |letter: char| match letter.to_ascii_lowercase() {
        plain @ ('a'..='z' | '0'..='9') => plain,
        _ => '-',
    };
    let plain: String = typed.chars().map(letter).collect();
    let words = plain.split('-').filter(|word| !word.is_empty());
    Label::parse(&words.collect::<Vec<_>>().join("-")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_that_is_not_allowed_has_a_similar_one() {
        let check = |typed: &str, hint: &str| {
            let fault = parse_label(typed).unwrap_err();
            assert!(fault.hint.starts_with(hint), "{}", fault.hint);
        };
        check("Bad_Label", "use   bad-label");
        check("-fix--it-", "use   fix-it");
        check("größe", "use   gr-e");
        check("___", "a label is 1 to 40");
    }
}
