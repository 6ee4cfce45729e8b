//! MCP on two streams: one JSON-RPC message per line. Invalid JSON or an invalid message gets a
//! JSON-RPC error, and the connection goes on.
//!
//! Waiting for the next message is cancel-safe: bytes read stay in the buffer, and a separate task
//! writes complete lines.

use rmcp::RoleServer;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use std::io;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// The longest line: a file to write.
const LONGEST: usize = 16 << 20;
/// Lines that wait to be written. A client that does not read is not read from either.
const WAITING: usize = 64;

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const INVALID_PARAMS: i32 = -32602;

pub struct Lines<R> {
    read: BufReader<R>,
    /// The incomplete line.
    line: Vec<u8>,
    /// It is too long, and dropped up to its end.
    is_too_long: bool,
    is_over: bool,
    /// An answer to be sent before the next line is read.
    due: Option<Vec<u8>>,
    write: Option<mpsc::Sender<Written>>,
}

/// A line, and where to report that it was written.
struct Written {
    line: Vec<u8>,
    done: Option<oneshot::Sender<io::Result<()>>>,
}

/// A parsed line.
enum Understood {
    Message(Box<RxJsonRpcMessage<RoleServer>>),
    /// It needs no answer.
    Nothing,
    /// It is answered with this error.
    Wrong(Vec<u8>),
}

// === impl Lines ===

impl<R: AsyncRead + Send + Unpin> Lines<R> {
    /// Also returns the writing task, which ends when everything is written after this is dropped.
    pub fn new(read: R, write: impl AsyncWrite + Send + Unpin + 'static) -> (Self, JoinHandle<()>) {
        let (sender, lines) = mpsc::channel(WAITING);
        let writing = tokio::spawn(write_lines(write, lines));
        let lines = Self {
            read: BufReader::new(read),
            line: Vec::new(),
            is_too_long: false,
            is_over: false,
            due: None,
            write: Some(sender),
        };
        (lines, writing)
    }

    /// The next line without its end; `None` at the end of the stream. A last line without an end
    /// counts.
    async fn next(&mut self) -> Option<Understood> {
        loop {
            if self.is_over {
                return None;
            }
            let Ok(part) = self.read.fill_buf().await else {
                return None;
            };
            let end = part.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(part.len(), |end| end + 1);
            self.is_over = part.is_empty();
            self.is_too_long |= self.line.len() + taken > LONGEST;
            if self.is_too_long {
                self.line.clear()
            } else {
                self.line.extend_from_slice(&part[..taken])
            }
            self.read.consume(taken);
            if end.is_some() || self.is_over {
                let line = std::mem::take(&mut self.line);
                return Some(if std::mem::take(&mut self.is_too_long) {
                    let words = format!("a line has at most {LONGEST} bytes");
                    Understood::Wrong(wrong(&Value::Null, PARSE_ERROR, &words))
                } else {
                    understand(&line)
                });
            }
        }
    }

    /// Sends the pending answer, if there is one.
    async fn answer(&mut self) -> Option<()> {
        if self.due.is_some() {
            let place = self.write.as_ref()?.reserve().await.ok()?;
            let line = self.due.take().unwrap_or_default();
            place.send(Written { line, done: None });
        }
        Some(())
    }
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleServer> for Lines<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let write = self.write.clone();
        async move {
            let line = serde_json::to_vec(&message)?;
            let (done, written) = oneshot::channel();
            let line = Written {
                line,
                done: Some(done),
            };
            let closed = || io::Error::from(io::ErrorKind::NotConnected);
            let write = write.ok_or_else(closed)?;
            write.send(line).await.map_err(|_| closed())?;
            written.await.map_err(|_| closed())?
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            self.answer().await?;
            match self.next().await? {
                Understood::Message(message) => return Some(*message),
                Understood::Nothing => {}
                Understood::Wrong(answer) => self.due = Some(answer),
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.write = None;
        Ok(())
    }
}

/// Writes complete lines until the sender or the reader is gone.
async fn write_lines(
    mut write: impl AsyncWrite + Send + Unpin,
    mut lines: mpsc::Receiver<Written>,
) {
    while let Some(Written { mut line, done }) = lines.recv().await {
        line.push(b'\n');
        let written = async {
            write.write_all(&line).await?;
            write.flush().await
        };
        let written = written.await;
        let is_broken = written.is_err();
        if let Some(done) = done {
            // The sender may have given up waiting.
            let _ = done.send(written);
        }
        if is_broken {
            return;
        }
    }
}

fn understand(line: &[u8]) -> Understood {
    let line = line.trim_ascii();
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
    if line.is_empty() {
        return Understood::Nothing;
    }
    let value: Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(error) => {
            let words = format!("this line is no JSON: {error}");
            return Understood::Wrong(wrong(&Value::Null, PARSE_ERROR, &words));
        }
    };
    let (method, id) = (value.get("method").cloned(), value.get("id").cloned());
    let is_named = is_named(&value);
    let is_request = value.get("jsonrpc").is_some_and(|version| version == "2.0");
    let error = match serde_json::from_value(value) {
        Ok(message) if is_named => return Understood::Message(Box::new(message)),
        Ok(_) => "its parameters are not named".to_owned(),
        Err(error) => error.to_string(),
    };
    match (method, id) {
        // Notifications get no answer, even invalid ones.
        (Some(Value::String(_)), None) => Understood::Nothing,
        (Some(Value::String(_)), Some(id)) if id.is_string() || id.is_i64() || id.is_u64() => {
            let (code, words) = if is_request && !is_named {
                (
                    INVALID_PARAMS,
                    "the parameters are not an object".to_owned(),
                )
            } else {
                (
                    INVALID_REQUEST,
                    format!("this is no request of JSON-RPC 2.0: {error}"),
                )
            };
            Understood::Wrong(wrong(&id, code, &words))
        }
        _ => {
            let words = "this is no message of JSON-RPC 2.0";
            Understood::Wrong(wrong(&Value::Null, INVALID_REQUEST, words))
        }
    }
}

/// Whether a message is an object with named parameters. rmcp also accepts them by position, so a
/// value that a model meant for one parameter would become another one.
pub fn is_named(message: &Value) -> bool {
    let is_object = |params: &Value| params.is_object() || params.is_null();
    message.is_object() && message.get("params").is_none_or(is_object)
}

/// The error for a message whose parameters are not named.
pub fn unnamed(message: &Value) -> Vec<u8> {
    let id = message.get("id").unwrap_or(&Value::Null);
    wrong(id, INVALID_PARAMS, "the parameters are not an object")
}

fn wrong(id: &Value, code: i32, message: &str) -> Vec<u8> {
    let error = json!({ "code": code, "message": message });
    let answer = json!({ "jsonrpc": "2.0", "id": id, "error": error });
    answer.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(line: &str) -> Option<(Value, Value)> {
        match understand(line.as_bytes()) {
            Understood::Wrong(answer) => {
                let answer: Value = serde_json::from_slice(&answer).unwrap();
                Some((answer["id"].clone(), answer["error"]["code"].clone()))
            }
            _ => None,
        }
    }

    #[test]
    fn what_is_no_message_is_answered_by_the_book() {
        let check = |line: &str, expect: Option<(Value, i32)>| {
            let expect = expect.map(|(id, code)| (id, json!(code)));
            assert_eq!(answer(line), expect, "{line}");
        };
        for line in ["garbage", "{", "[1,", "\u{0}", "{\"a\":1e400}"] {
            check(line, Some((Value::Null, PARSE_ERROR)));
        }
        for line in [
            "null",
            "[]",
            "\"\"",
            "{}",
            "7",
            r#"{"jsonrpc":"2.0","id":7}"#,
        ] {
            check(line, Some((Value::Null, INVALID_REQUEST)));
        }
        let old = r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#;
        check(old, Some((json!(7), INVALID_REQUEST)));
        let odd = r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#;
        check(odd, Some((Value::Null, INVALID_REQUEST)));
        let listed = r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":[]}"#;
        check(listed, Some((json!("a"), INVALID_PARAMS)));
        let placed =
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":[null,"workspace_list",{}]}"#;
        check(placed, Some((json!(2), INVALID_PARAMS)));
        check(r#"["2.0",1,{}]"#, Some((Value::Null, INVALID_REQUEST)));
        check("", None);
        check("  \r", None);
        check(r#"{"jsonrpc":"1.0","method":"x"}"#, None);
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, None);
    }

    /// Bytes read stay when waiting is cancelled in the middle of a line.
    #[tokio::test]
    async fn half_a_line_is_kept() {
        let (mut client, server) = tokio::io::duplex(4096);
        let (read, write) = tokio::io::split(server);
        let (mut lines, writing) = Lines::new(read, write);
        let (first, second) = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.split_at(9);
        client.write_all(first.as_bytes()).await.unwrap();
        tokio::select! {
            biased;
            _ = lines.receive() => panic!("half a line is no message"),
            () = tokio::task::yield_now() => {}
        }
        client.write_all(second.as_bytes()).await.unwrap();
        client.write_all(b"\ngarbage\n").await.unwrap();
        assert!(lines.receive().await.is_some());
        client.shutdown().await.unwrap();
        assert!(lines.receive().await.is_none());
        drop(lines);
        writing.await.unwrap();
        let mut answer = String::new();
        BufReader::new(client).read_line(&mut answer).await.unwrap();
        assert!(
            answer.contains("-32700") && answer.contains("\"id\":null"),
            "{answer}"
        );
    }
}
