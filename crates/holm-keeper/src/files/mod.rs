//! The program inside that does one operation of the file API and exits. init starts it for the
//! daemon, as the workspace's user and with no more rights than an agent.
//!
//! Whatever the agent does to the tree meanwhile, nothing outside `project.root` is read, listed,
//! written or deleted: every path is opened below the root's descriptor without following symlinks
//! ([`Root`]), and only opened descriptors are used. Nothing blocks on a pipe or a device.

mod archive;
mod content;
mod delete;
mod list;
pub mod remove;
pub(crate) mod root;
mod search;
#[cfg(test)]
mod swap_tests;
#[cfg(test)]
mod tests;
pub mod unpack;
#[cfg(test)]
mod unpack_tests;
mod walk;

pub use root::{READ, Root};

use content::Opened;
use holm_core::TreePath;
use holm_core::files::{Failure, Head, MOST_ARCHIVE, Operation, Request};
use holm_core::files::{Page, Range};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The default size of a page.
const ORDINARY_PAGE: usize = 1000;

/// The role: one request, one response on stdout.
pub fn main(request: &[u8]) -> ! {
    let done = rustix::io::dup(rustix::stdio::stdout())
        .map_err(io::Error::from)
        .and_then(|stdout| {
            let mut answer = BufWriter::with_capacity(64 << 10, File::from(stdout));
            serve(request, &mut io::stdin().lock(), &mut answer)?;
            answer.flush()
        });
    match done {
        Ok(()) => std::process::exit(0),
        Err(error) => {
            complain!("{error}");
            std::process::exit(1)
        }
    }
}

/// Answers one request. An error means that the response is incomplete.
fn serve(request: &[u8], input: &mut impl Read, answer: &mut impl Write) -> io::Result<()> {
    let operated = understood(request)
        .and_then(|(root, path, operation)| operate(root, path, operation, input));
    match operated {
        Ok(Done::Said(head)) => say(answer, &head),
        Ok(Done::Opened(opened)) => {
            say(answer, &opened.head())?;
            opened.copy(answer)
        }
        Ok(Done::Pack(root, path)) => {
            say(answer, &Head::Archive)?;
            archive::pack(&root, &path, answer)
        }
        Err(failure) => say(answer, &Head::Failed(failure)),
    }
}

/// The result of an operation.
enum Done {
    Said(Head),
    /// A file, to be copied after the head.
    Opened(Opened),
    /// A directory, to be packed after the head.
    Pack(Root, TreePath),
}

fn understood(request: &[u8]) -> Result<(Root, TreePath, Operation), Failure> {
    let wrong = |why: String| Failure::BadRequest(why);
    let request: Request =
        serde_json::from_slice(request).map_err(|error| wrong(error.to_string()))?;
    let path = match request.path.as_slice() {
        b"" => TreePath::root(),
        path => TreePath::parse(path).map_err(|error| wrong(error.to_string()))?,
    };
    let root = Root::open(Path::new(OsStr::from_bytes(&request.root)))?;
    Ok((root, path, request.operation))
}

fn operate(
    root: Root,
    path: TreePath,
    operation: Operation,
    input: &mut impl Read,
) -> Result<Done, Failure> {
    let said = match operation {
        Operation::Get => {
            let page = Page {
                after: None,
                limit: ORDINARY_PAGE,
            };
            match root.read(&path, Range::default()) {
                Err(Failure::IsADirectory) => root.list(&path, &page)?,
                opened => return Ok(Done::Opened(opened?)),
            }
        }
        Operation::List(page) => root.list(&path, &page)?,
        Operation::Read(range) => return Ok(Done::Opened(root.read(&path, range)?)),
        Operation::Stat => Head::Entry(root.stat(&path)?),
        Operation::Write(write) => Head::Entry(root.write(&path, write, input)?),
        Operation::Delete(depth) => {
            root.delete(&path, depth)?;
            Head::Done
        }
        Operation::Search(search) => Head::Found(search::search(&root, &path, &search)?),
        Operation::Unpack => {
            archive::unpack(&root, &path, input.take(MOST_ARCHIVE))?;
            Head::Done
        }
        Operation::Pack => {
            drop(root.directory(&path)?);
            archive::require_readable(&root, &path)?;
            return Ok(Done::Pack(root, path));
        }
    };
    Ok(Done::Said(said))
}

fn say(answer: &mut impl Write, head: &Head) -> io::Result<()> {
    serde_json::to_writer(&mut *answer, head)?;
    answer.write_all(b"\n")
}
