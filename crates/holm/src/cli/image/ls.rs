//! `holm image ls`: lists images.

use super::super::figures::{age, count};
use super::super::output::{FAINT, GOOD, printable};
use super::super::table::{Row, rows};
use super::super::{Context, Outcome, connect, terminal};
use clap::Args;
use holm_api::image::Image;
use holm_core::config::rough_size;
use jiff::Timestamp;
use std::io::IsTerminal;
use std::process::ExitCode;

/// List images, with the workspaces that use them
///
/// Sizes are those of the compressed blobs; images share what they have in common. `holm df` shows the disk use of
/// all images. With --json: {"images":[{reference,digest,bytes,stored_at,used_by:[{id,label,project}]}]}.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm image ls\n  holm image ls --json")]
pub struct LsArgs {}

/// The column with the fact.
const FACT: usize = 3;

pub fn run(context: &Context) -> Outcome {
    let list = connect::block_on(async { connect::started().await?.images().await })?;
    if context.output.is_quiet() {
        let names: Vec<String> = list
            .images
            .iter()
            .map(|it| it.reference.familiar())
            .collect();
        if !names.is_empty() {
            context.output.asked_for(&names.join("\n"));
        }
        return Ok(ExitCode::SUCCESS);
    }
    if list.images.is_empty() && !context.output.is_json() {
        let text = "No images. `holm image pull NAME` brings one.";
        context.output.remark(text);
        return Ok(ExitCode::SUCCESS);
    }
    context.output.result(&list, || {
        if std::io::stdout().is_terminal() {
            on_terminal(&list.images, terminal::size().cols.into(), Timestamp::now())
        } else {
            in_pipe(&list.images)
        }
    });
    Ok(ExitCode::SUCCESS)
}

fn on_terminal(images: &[Image], columns: usize, now: Timestamp) -> String {
    let all = images.iter().map(|image| {
        let name = image.reference.familiar();
        let is_used = !image.used_by.is_empty();
        let (style, glyph) = if is_used {
            (GOOD, "●")
        } else {
            (FAINT, "□")
        };
        let fact = if is_used {
            String::new()
        } else {
            format!("holm image rm {name}")
        };
        let cells = [
            name,
            rough_size(image.bytes),
            users(image),
            fact,
            age(&image.stored_at, now),
        ];
        Row {
            style,
            glyph,
            cells,
        }
    });
    rows(&all.collect::<Vec<_>>(), FACT, columns)
}

/// Whether an image is used comes first, and nothing is cut.
fn in_pipe(images: &[Image]) -> String {
    let lines = images.iter().map(|image| {
        let word = if image.used_by.is_empty() {
            "unused"
        } else {
            "used"
        };
        let name = printable(&image.reference.to_string());
        let (digest, bytes, at) = (&image.digest, image.bytes, &image.stored_at);
        let labels: Vec<String> = image
            .used_by
            .iter()
            .map(|user| format!("{}/{}", user.project, user.label))
            .collect();
        let labels = printable(&labels.join(","));
        format!("{word}  {name}  {digest}  {bytes}  {at}  {labels}")
            .trim_end()
            .to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn users(image: &Image) -> String {
    match image.used_by.len() {
        0 => "unused".to_owned(),
        several => count(several as u64, "workspace"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holm_api::image::ImageUser;

    #[test]
    fn what_people_and_pipes_read() {
        let image = |name: &str, labels: &[&str]| Image {
            reference: name.parse().unwrap(),
            digest: format!("sha256:{}", "a".repeat(64)).parse().unwrap(),
            bytes: 41 << 20,
            stored_at: "2026-11-17T14:20:00Z".to_owned(),
            used_by: labels
                .iter()
                .map(|label| ImageUser {
                    id: "w".to_owned(),
                    label: (*label).to_owned(),
                    project: "shop".to_owned(),
                })
                .collect(),
        };
        let images = [image("postgres:16", &["a", "b"]), image("redis:7", &[])];
        let now: Timestamp = "2026-11-20T14:20:00Z".parse().unwrap();
        let text = on_terminal(&images, 70, now);
        let text = anstream::adapter::strip_str(&text).to_string();
        assert_eq!(
            text,
            "● postgres:16  41 MiB  2 workspaces                                3 d\n\
             □ redis:7      41 MiB  unused        holm image rm redis:7         3 d\n"
        );
        let text = in_pipe(&images);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("used  ") && lines[0].ends_with("Z  shop/a,shop/b"));
        assert!(lines[1].starts_with("unused  ") && lines[1].contains("/library/redis:7  sha256:"));
    }
}
