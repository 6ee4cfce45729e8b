//! `holm diff`: a workspace's changes as a patch.

use super::completions::labels;
use super::output::{BAD, BROKEN_PIPE_EXIT, GOOD, HINT, STRONG, printable};
use super::work::{Subject, remark_left_out};
use super::{Context, Outcome, connect, patch_stat};
use clap::Args;
use holm_core::{Code, Fault};
use serde_json::json;
use std::io::{ErrorKind, IsTerminal, Write};
use std::process::{Child, Command, ExitCode, Stdio};

/// Show what changed in a workspace, as a patch
///
/// The working tree, untracked files included and ignored files not, against the commit that the
/// workspace started from: committed or not makes no difference. What is printed is what `git apply`
/// reads; on a terminal it is coloured, control characters are shown instead of obeyed, and a pager
/// (GIT_PAGER, PAGER, less) shows it.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  holm diff fix-login\n  holm diff fix-login --stat\n  \
    holm diff fix-login > fix.patch\n  holm diff fix-login --from @2 --to @3"
)]
pub struct DiffArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: String,
    /// Begin at this turn (@2) instead of the commit that the workspace started from
    #[arg(long, value_name = "@N")]
    from: Option<String>,
    /// End at this turn (@3); with --from alone: at the last one
    #[arg(long, value_name = "@N")]
    to: Option<String>,
    /// Only count: the changed lines of each file
    #[arg(long)]
    stat: bool,
    /// Print to the terminal without a pager
    #[arg(long)]
    no_pager: bool,
}

pub fn run(context: &Context, arguments: DiffArgs) -> Outcome {
    let of = Of::Typed(&arguments);
    show(context, &arguments.workspace, of)
}

/// The difference between two turns, on the terminal. `None`: the starting commit, and the last turn.
pub fn show_turns(context: &Context, typed: &str, from: Option<u64>, to: Option<u64>) -> Outcome {
    show(context, typed, Of::Turns { from, to })
}

/// What is compared.
enum Of<'a> {
    Typed(&'a DiffArgs),
    Turns { from: Option<u64>, to: Option<u64> },
}

fn show(context: &Context, typed: &str, of: Of<'_>) -> Outcome {
    let (is_stat, has_pager) = match &of {
        Of::Typed(arguments) => (arguments.stat, !arguments.no_pager),
        Of::Turns { .. } => (false, true),
    };
    let is_json = context.output.is_json();
    let is_terminal = std::io::stdout().is_terminal();
    let mut sink = if is_json {
        Sink::Whole(Vec::new())
    } else if is_stat {
        Sink::Counted(Vec::new())
    } else if is_terminal {
        let pager = if has_pager { Paging::Later } else { Paging::No };
        Sink::Terminal(Vec::new(), pager)
    } else {
        Sink::Exact
    };
    let mut written = Ok(());
    let shown = connect::block_on(async {
        let subject = Subject::find(typed).await?;
        let take = |piece: &[u8]| {
            written = sink.take(piece);
            written.is_ok()
        };
        let turns = match of {
            Of::Typed(arguments) => (arguments.from.clone(), arguments.to.clone()),
            Of::Turns { from, to } => {
                let name = |turn: Option<u64>| turn.map(|turn| format!("@{turn}"));
                (name(from), name(to))
            }
        };
        if let (None, None) = turns {
            let (captured, tree) = subject.tree(context).await?;
            remark_left_out(context, &captured);
            return subject.client.diff(&subject.id, &tree, take).await;
        }
        let (from, to) = turns;
        let client = &subject.client;
        client
            .diff_turns(&subject.id, from.as_deref(), to.as_deref(), take)
            .await
    });
    if let Err(fault) = shown {
        // The error stands below what was shown.
        if let Sink::Terminal(_, Paging::Pager(pager)) = sink {
            pager.wait();
        }
        return Err(fault);
    }
    match written.and_then(|()| sink.finish(context)) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::from(BROKEN_PIPE_EXIT)),
        Err(error) => Err(Fault::new(
            Code::Internal,
            "cannot write to stdout",
            "is the disk full?",
        )
        .because(error)),
    }
}

/// Whether a pager shows the text. It starts with the first line, so that an error is not drawn into it.
enum Paging {
    No,
    Later,
    Pager(Pager),
}

/// A program that shows long text page by page.
struct Pager(Child);

// === impl Paging ===

impl Paging {
    fn begun(&mut self) -> Option<&mut Pager> {
        if matches!(self, Paging::Later) {
            *self = Pager::start().map_or(Paging::No, Paging::Pager);
        }
        match self {
            Paging::Pager(pager) => Some(pager),
            Paging::No | Paging::Later => None,
        }
    }
}

// === impl Pager ===

impl Pager {
    /// The person's pager, or less; `None`: the text goes to the terminal itself.
    fn start() -> Option<Self> {
        let set = |name: &str| std::env::var(name).ok();
        let named = set("GIT_PAGER").or_else(|| set("PAGER"));
        let named = named.unwrap_or_else(|| "less".to_owned());
        if matches!(named.trim(), "" | "cat") {
            return None;
        }
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec {named}")]);
        if set("LESS").is_none() {
            // As git does: quit when all fits one screen, keep colours, leave the text on the screen.
            command.env("LESS", "FRX");
        }
        if named == "less" && !has_less() {
            return None;
        }
        command.stdin(Stdio::piped()).spawn().ok().map(Self)
    }

    fn wait(mut self) {
        drop(self.0.stdin.take());
        // Its exit code says nothing about the difference.
        let _ = self.0.wait();
    }
}

fn has_less() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join("less").is_file())
}

fn write_text(pager: Option<&mut Pager>, text: &str) -> std::io::Result<()> {
    match pager.and_then(|pager| pager.0.stdin.as_mut()) {
        Some(stdin) => {
            let is_plain = anstream::stdout().current_choice() == anstream::ColorChoice::Never;
            let plain = anstream::adapter::strip_str(text).to_string();
            stdin.write_all(if is_plain {
                plain.as_bytes()
            } else {
                text.as_bytes()
            })
        }
        None => anstream::stdout().lock().write_all(text.as_bytes()),
    }
}

/// Where the patch goes, with its incomplete last line.
enum Sink {
    Exact,
    /// The incomplete line.
    Terminal(Vec<u8>, Paging),
    Whole(Vec<u8>),
    /// For `--stat`.
    Counted(Vec<u8>),
}

// === impl Sink ===

impl Sink {
    fn take(&mut self, piece: &[u8]) -> std::io::Result<()> {
        match self {
            Sink::Exact => std::io::stdout().lock().write_all(piece),
            Sink::Whole(whole) | Sink::Counted(whole) => {
                whole.extend_from_slice(piece);
                Ok(())
            }
            Sink::Terminal(rest, pager) => {
                rest.extend_from_slice(piece);
                let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') else {
                    return Ok(());
                };
                let lines: Vec<u8> = rest.drain(..=end).collect();
                let mut text = String::new();
                for line in lines[..end].split(|byte| *byte == b'\n') {
                    text.push_str(&coloured(line));
                    text.push('\n');
                }
                write_text(pager.begun(), &text)
            }
        }
    }

    fn finish(self, context: &Context) -> std::io::Result<()> {
        match self {
            Sink::Exact => std::io::stdout().lock().flush(),
            Sink::Terminal(rest, mut pager) => {
                if !rest.is_empty() {
                    write_text(pager.begun(), &format!("{}\n", coloured(&rest)))?;
                }
                if let Paging::Pager(pager) = pager {
                    pager.wait();
                }
                Ok(())
            }
            Sink::Counted(patch) => {
                if patch.is_empty() {
                    context.output.remark("No changes.");
                } else {
                    let files = patch_stat::files(&patch);
                    context.output.asked_for(&patch_stat::render(&files));
                }
                Ok(())
            }
            Sink::Whole(whole) => {
                match String::from_utf8(whole) {
                    Ok(text) => context.output.document(&json!({ "diff": text })),
                    Err(error) => {
                        let bytes = error.into_bytes();
                        let text = String::from_utf8_lossy(&bytes);
                        let document = json!({ "diff": text, "diff_bytes": bytes });
                        context.output.document(&document);
                    }
                }
                Ok(())
            }
        }
    }
}

/// A coloured line of a patch, without control characters.
fn coloured(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let safe = text.split('\t').map(printable).collect::<Vec<_>>();
    let safe = safe.join("\t");
    let is_header = [
        "diff ",
        "index ",
        "--- ",
        "+++ ",
        "new file",
        "deleted file",
    ];
    let is_header = is_header.iter().any(|start| text.starts_with(start));
    let style = match line.first() {
        _ if is_header => STRONG,
        Some(b'+') => GOOD,
        Some(b'-') => BAD,
        Some(b'@') => HINT,
        _ => return safe,
    };
    format!("{style}{safe}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_patch_do_not_steer_the_terminal() {
        let check = |line: &[u8], expect: &str| {
            let shown = coloured(line);
            assert_eq!(anstream::adapter::strip_str(&shown).to_string(), expect);
        };
        check(b"+a\tb", "+a\tb");
        check(b"+\x1b]0;x\x07", "+\\u{1b}]0;x\\u{7}");
        check(b"-caf\xe9\r", "-caf\u{fffd}\\r");
        check(b" same", " same");
        assert!(coloured(b"+a") != "+a");
    }
}
