//! The protocol with the file program inside: content goes in within the window of `exec`, the head
//! of the response comes out, and the body is streamed.

use super::fault;
use holm_core::exec::{ExecInput, ExecOutput, STDIN_WINDOW};
use holm_core::files::{Head, MOST_ARCHIVE};
use holm_core::{Fault, TreePath, cut};
use holm_keeper::client::ExecStream;
use tokio::sync::mpsc;

/// The size limit of a head.
const MOST_HEAD: usize = 64 << 20;

/// How much of the end of stderr is kept.
const MOST_COMPLAINTS: usize = 4 << 10;

/// The size of one write to stdin.
const CHUNK: usize = 64 << 10;

/// A request body. It is complete only when its end was sent: a sender that vanishes aborts it.
#[derive(Debug)]
pub struct Content {
    pieces: mpsc::Receiver<Piece>,
    /// The current piece, and how much of it was sent.
    piece: Vec<u8>,
    gone: usize,
}

#[derive(Debug)]
pub enum Piece {
    Bytes(Vec<u8>),
    End,
}

/// The head of a response and its body. The head is never [`Head::Failed`].
#[derive(Debug)]
pub struct FileAnswer {
    pub head: Head,
    pub body: FileBody,
}

#[derive(Debug)]
pub struct FileBody {
    stream: ExecStream,
    path: TreePath,
    /// Arrived together with the head.
    ahead: Vec<u8>,
    expected: Expected,
    complaints: Vec<u8>,
}

/// How many more bytes may come.
#[derive(Debug)]
enum Expected {
    Exactly(u64),
    AtMost(u64),
}

/// Sends the content and waits for the head of the response.
pub(super) async fn converse(
    mut stream: ExecStream,
    mut content: Content,
    path: TreePath,
) -> Result<FileAnswer, Fault> {
    let (mut said, mut complaints) = (Vec::new(), Vec::new());
    let (mut under_way, mut is_fed) = (0, false);
    loop {
        tokio::select! {
            output = stream.output.recv() => match output {
                Some(ExecOutput::Stdout(bytes)) => {
                    let searched = said.len();
                    said.extend_from_slice(&bytes);
                    let end = said[searched..].iter().position(|byte| *byte == b'\n');
                    if let Some(end) = end {
                        let ahead = said.split_off(searched + end + 1);
                        return answer(&said, ahead, stream, path);
                    }
                    if said.len() > MOST_HEAD {
                        return Err(fault::too_long_answer(&path));
                    }
                }
                Some(ExecOutput::Stderr(bytes)) => keep_end(&mut complaints, &bytes),
                Some(ExecOutput::StdinTaken(bytes)) => under_way -= bytes.min(under_way),
                Some(ExecOutput::Exit(code)) => return Err(fault::ended(&path, code, &complaints)),
                Some(ExecOutput::Failed(fault)) => return Err(fault),
                Some(ExecOutput::Started | ExecOutput::Kept | ExecOutput::Resumed { .. }) => {}
                None => return Err(fault::vanished(&path)),
            },
            piece = content.next(), if !is_fed && under_way < STDIN_WINDOW => {
                let input = match piece {
                    Some(Piece::Bytes(bytes)) => {
                        under_way += bytes.len() as u64;
                        ExecInput::Stdin(bytes)
                    }
                    Some(Piece::End) => {
                        is_fed = true;
                        ExecInput::StdinEof
                    }
                    None => {
                        // The program may have ended just now.
                        let _ = stream.input.send(ExecInput::Hangup).await;
                        return Err(fault::cut_off(&path));
                    }
                };
                // A program that has ended reports that itself.
                let _ = stream.input.send(input).await;
            }
        }
    }
}

fn answer(
    head: &[u8],
    ahead: Vec<u8>,
    stream: ExecStream,
    path: TreePath,
) -> Result<FileAnswer, Fault> {
    let head =
        serde_json::from_slice(head).map_err(|error| fault::not_understood(&path, &error))?;
    let expected = match &head {
        Head::Failed(failure) => return Err(fault::of(&path, failure)),
        Head::Content { length, .. } => Expected::Exactly(*length),
        // The archive's headers come on top of its content.
        Head::Archive => Expected::AtMost(2 * MOST_ARCHIVE),
        _ => Expected::Exactly(0),
    };
    let body = FileBody {
        stream,
        path,
        ahead,
        expected,
        complaints: Vec::new(),
    };
    Ok(FileAnswer { head, body })
}

fn keep_end(complaints: &mut Vec<u8>, bytes: &[u8]) {
    complaints.extend_from_slice(bytes);
    cut::keep_end(complaints, MOST_COMPLAINTS);
}

// === impl Content ===

impl Content {
    /// An empty body.
    pub fn nothing() -> Self {
        Self::whole(Vec::new())
    }

    /// A body that is in memory.
    pub fn whole(bytes: Vec<u8>) -> Self {
        let (sender, pieces) = mpsc::channel(1);
        // The channel has room for one.
        let _ = sender.try_send(Piece::End);
        Self {
            pieces,
            piece: bytes,
            gone: 0,
        }
    }

    /// A streamed body.
    pub fn stream(pieces: mpsc::Receiver<Piece>) -> Self {
        Self {
            pieces,
            piece: Vec::new(),
            gone: 0,
        }
    }

    /// Cancel-safe.
    async fn next(&mut self) -> Option<Piece> {
        while self.gone == self.piece.len() {
            match self.pieces.recv().await? {
                Piece::Bytes(bytes) => (self.piece, self.gone) = (bytes, 0),
                Piece::End => return Some(Piece::End),
            }
        }
        let end = self.piece.len().min(self.gone + CHUNK);
        let bytes = self.piece[self.gone..end].to_vec();
        self.gone = end;
        Some(Piece::Bytes(bytes))
    }
}

// === impl FileBody ===

impl FileBody {
    /// The next bytes; `None` at the end, and an error when fewer or more came.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        loop {
            let bytes = match std::mem::take(&mut self.ahead) {
                ahead if !ahead.is_empty() => ahead,
                _ => match self.stream.output.recv().await {
                    Some(ExecOutput::Stdout(bytes)) => bytes,
                    Some(ExecOutput::Stderr(bytes)) => {
                        keep_end(&mut self.complaints, &bytes);
                        continue;
                    }
                    Some(ExecOutput::Exit(0)) => match self.expected {
                        Expected::Exactly(1..) => return Err(fault::vanished(&self.path)),
                        _ => return Ok(None),
                    },
                    Some(ExecOutput::Exit(code)) => {
                        return Err(fault::ended(&self.path, code, &self.complaints));
                    }
                    Some(ExecOutput::Failed(fault)) => return Err(fault),
                    Some(
                        ExecOutput::Started
                        | ExecOutput::Kept
                        | ExecOutput::Resumed { .. }
                        | ExecOutput::StdinTaken(_),
                    ) => continue,
                    None => return Err(fault::vanished(&self.path)),
                },
            };
            let (Expected::Exactly(left) | Expected::AtMost(left)) = &mut self.expected;
            match left.checked_sub(bytes.len() as u64) {
                Some(less) => *left = less,
                None => return Err(fault::too_long_answer(&self.path)),
            }
            return Ok(Some(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the caller gets when a program inside sends this.
    async fn answered(said: Vec<ExecOutput>) -> Result<Vec<u8>, Fault> {
        let (input, _input) = mpsc::channel(16);
        let (output_end, output) = mpsc::channel(16);
        for output in said {
            output_end.send(output).await.unwrap();
        }
        drop(output_end);
        let stream = ExecStream { input, output };
        let answer = converse(stream, Content::nothing(), TreePath::root()).await?;
        let (mut body, mut all) = (answer.body, Vec::new());
        while let Some(bytes) = body.next().await? {
            all.extend(bytes);
        }
        Ok(all)
    }

    #[tokio::test]
    async fn a_hostile_answer_is_an_error_and_never_more_than_was_promised() {
        let out = |text: &str| ExecOutput::Stdout(text.as_bytes().to_vec());
        let content = "{\"content\":{\"length\":4,\"size\":4}}\n";
        let good = vec![out(content), out("ab"), out("cd"), ExecOutput::Exit(0)];
        assert_eq!(answered(good).await.unwrap(), b"abcd");
        let together = vec![out(&format!("{content}abcd")), ExecOutput::Exit(0)];
        assert_eq!(answered(together).await.unwrap(), b"abcd");
        for bad in [
            vec![],
            vec![ExecOutput::Exit(0)],
            vec![ExecOutput::Exit(2)],
            vec![out("\n")],
            vec![out("{\"unknown\":1}\n"), ExecOutput::Exit(0)],
            vec![out("\"done\"\nmore"), ExecOutput::Exit(0)],
            vec![out(content), out("abc"), ExecOutput::Exit(0)],
            vec![out(content), out("abcd"), ExecOutput::Exit(1)],
            vec![out(content), out("abcd")],
            vec![out(content), out("abcde"), ExecOutput::Exit(0)],
            vec![out("{\"failed\":\"not_found\"}\n"), ExecOutput::Exit(0)],
        ] {
            let shown = format!("{bad:?}");
            answered(bad).await.expect_err(&shown);
        }
    }

    #[tokio::test]
    async fn content_whose_sender_vanishes_is_not_taken_for_whole() {
        let (input, mut inputs) = mpsc::channel(16);
        let (_output_end, output) = mpsc::channel(16);
        let (sender, pieces) = mpsc::channel(4);
        sender.send(Piece::Bytes(vec![1; 100_000])).await.unwrap();
        drop(sender);
        let stream = ExecStream { input, output };
        let content = Content::stream(pieces);
        converse(stream, content, TreePath::root())
            .await
            .unwrap_err();
        let mut last = None;
        while let Ok(input) = inputs.try_recv() {
            assert!(!matches!(input, ExecInput::StdinEof), "{input:?}");
            last = Some(input);
        }
        assert!(matches!(last, Some(ExecInput::Hangup)));
    }
}
