//! The refresh of an agent's sign-in. The agent inside has tokens in place of its access token and
//! its refresh token; when it asks its token host for a new access token, the gateway asks instead.
//!
//! Nothing that the program inside wrote reaches the host: the gateway builds the request from the
//! user's refresh token, so the answer belongs to the user's account, whatever runs inside. Nothing
//! of the host's answer reaches the program except an expiry and tokens. Pure; [`super::serve`]
//! carries the messages.

use bytes::Bytes;
use holm_secrets::Value;
use hyper::header::HeaderValue;
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use std::os::unix::net::UnixStream;

/// The longest request and answer; both are short documents.
pub const MOST_REQUEST: usize = 64 << 10;
pub const MOST_ANSWER: usize = 256 << 10;

/// How much of an error of the token host is passed on.
const MOST_WORDS: usize = 200;

/// A token host's answer: values on their way to the daemon, tokens on their way inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTokens {
    pub access: Value,
    pub refresh: Option<Value>,
    pub identity: Option<Value>,
    pub expires_in: Option<u64>,
}

/// A refresh for which the daemon holds the agent's lock.
pub struct Renewing {
    pub daemon: UnixStream,
    /// The user's copy is newer: the host need not be asked.
    pub newer: Option<NewTokens>,
}

/// The sign-in that may be refreshed at a host.
pub struct Renewal {
    pub agent: String,
    pub name: String,
    pub token: String,
    pub value: Value,
}

/// How the body of a request is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Json,
    Form,
}

/// A refresh that a program inside requested.
#[derive(Debug, PartialEq, Eq)]
pub struct Asked {
    pub encoding: Encoding,
    /// These identify the agent's program, not the user.
    client_id: Option<String>,
    client_secret: Option<String>,
}

/// Parses a request; `None`: it is something else than a refresh with this token, and gets no
/// value.
pub fn asked(body: &[u8], token: &str) -> Option<Asked> {
    let (encoding, fields) = match serde_json::from_slice::<Map<String, serde_json::Value>>(body) {
        Ok(map) => {
            let texts = map.into_iter().filter_map(|(key, value)| {
                let text = value.as_str()?.to_owned();
                Some((key, text))
            });
            (Encoding::Json, texts.collect())
        }
        Err(_) => (Encoding::Form, form(body)?),
    };
    let field = |name: &str| {
        let mut found = fields.iter().filter(|(key, _)| key == name);
        let first = found.next().map(|(_, value)| value.clone());
        first.filter(|_| found.next().is_none())
    };
    let is_refresh = field("grant_type").as_deref() == Some("refresh_token");
    let is_own = field("refresh_token").as_deref() == Some(token);
    (is_refresh && is_own).then(|| Asked {
        encoding,
        client_id: field("client_id"),
        client_secret: field("client_secret"),
    })
}

fn form(body: &[u8]) -> Option<Vec<(String, String)>> {
    let text = std::str::from_utf8(body).ok()?;
    let pairs = text.split('&').map(|pair| {
        let (key, value) = pair.split_once('=')?;
        Some((unescaped(key)?, unescaped(value)?))
    });
    pairs.collect()
}

fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(escape).collect()
}

// === impl Asked ===

impl Asked {
    /// The body of the gateway's own request, and its type.
    pub fn request(&self, refresh: &Value) -> (Bytes, HeaderValue) {
        let fields = [
            ("grant_type", Some("refresh_token")),
            ("refresh_token", Some(refresh.reveal())),
            ("client_id", self.client_id.as_deref()),
            ("client_secret", self.client_secret.as_deref()),
        ];
        let fields = fields
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)));
        match self.encoding {
            Encoding::Json => {
                let map: Map<_, _> = fields
                    .map(|(key, value)| (key.to_owned(), value.into()))
                    .collect();
                let text = serde_json::Value::Object(map).to_string();
                (text.into(), HeaderValue::from_static("application/json"))
            }
            Encoding::Form => {
                let pairs = fields.map(|(key, value)| format!("{key}={}", escaped(value)));
                let text = pairs.collect::<Vec<_>>().join("&");
                let kind = "application/x-www-form-urlencoded";
                (text.into(), HeaderValue::from_static(kind))
            }
        }
    }
}

/// Parses the answer of a token host.
pub fn answered(body: &[u8]) -> Option<NewTokens> {
    let answer: serde_json::Value = serde_json::from_slice(body).ok()?;
    let value = |key: &str| {
        let text = answer.get(key)?.as_str()?;
        Value::parse(text.as_bytes().to_vec()).ok()
    };
    Some(NewTokens {
        access: value("access_token")?,
        refresh: value("refresh_token"),
        identity: value("id_token"),
        expires_in: answer.get("expires_in").and_then(serde_json::Value::as_u64),
    })
}

/// What the program inside is told: `tokens` are those of the workspace.
pub fn response(tokens: &NewTokens) -> String {
    let mut answer = json!({ "token_type": "Bearer", "access_token": tokens.access.reveal() });
    let others = [
        ("refresh_token", &tokens.refresh),
        ("id_token", &tokens.identity),
    ];
    for (key, value) in others {
        if let Some(value) = value {
            answer[key] = value.reveal().into();
        }
    }
    if let Some(seconds) = tokens.expires_in {
        answer["expires_in"] = seconds.into();
    }
    answer.to_string()
}

/// An error of the token host, without anything that could be a value.
pub fn error(body: &[u8]) -> String {
    let answer: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let code = answer["error"]
        .as_str()
        .or(answer["error"]["type"].as_str())
        .or(answer["error"]["code"].as_str());
    let is_word = |text: &&str| {
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        text.len() <= MOST_WORDS && text.bytes().all(is_letter)
    };
    json!({ "error": code.filter(is_word).unwrap_or("refused") }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "1//0zqwertzuiop";

    fn value(text: &str) -> Value {
        Value::parse(text.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn attack_197_only_a_refresh_with_the_workspaces_token_gets_the_value() {
        let json = format!(
            r#"{{"grant_type":"refresh_token","refresh_token":"{TOKEN}","client_id":"c","scope":"less","expires_in":9}}"#
        );
        let found = asked(json.as_bytes(), TOKEN).unwrap();
        let (body, _) = found.request(&value("1//0realrealreal"));
        // Neither a scope nor anything else of the program is passed on.
        let sent: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let expected = json!({ "grant_type": "refresh_token", "refresh_token": "1//0realrealreal", "client_id": "c" });
        assert_eq!(sent, expected);
        let form = "grant_type=refresh_token&refresh_token=1%2F%2F0zqwertzuiop&client_secret=s%26x";
        let found = asked(form.as_bytes(), TOKEN).unwrap();
        let (body, _) = found.request(&value("1//0realrealreal"));
        assert_eq!(
            body,
            "grant_type=refresh_token&refresh_token=1%2F%2F0realrealreal&client_secret=s%26x"
        );
        for other in [
            // Would exchange the user's sign-in for an API key.
            format!(
                "grant_type=urn:ietf:params:oauth:grant-type:token-exchange&subject_token={TOKEN}&refresh_token={TOKEN}"
            ),
            // The sign-in of an attacker, which must not reach the user's copy.
            "grant_type=refresh_token&refresh_token=of-an-attacker".to_owned(),
            format!("grant_type=refresh_token&grant_type=password&refresh_token={TOKEN}"),
            r#"{"grant_type":"authorization_code","code":"x"}"#.to_owned(),
            String::new(),
        ] {
            assert_eq!(asked(other.as_bytes(), TOKEN), None, "{other}");
            // A replacement anywhere in the body would put the value in.
            let swapped = other.replace(TOKEN, "1//0realrealreal");
            assert!(!other.contains(TOKEN) || swapped.contains("realreal"));
        }
    }

    #[test]
    fn attack_197_an_answer_tells_tokens_and_nothing_else() {
        let answer =
            br#"{"access_token":"real-access","refresh_token":"real-refresh","expires_in":3600,
            "api_key":"real-key","account":{"uuid":"u"}}"#;
        let found = answered(answer).unwrap();
        assert_eq!(found.access, value("real-access"));
        let tokens = NewTokens {
            access: value("token-a"),
            refresh: Some(value("token-r")),
            ..found
        };
        let text = response(&tokens);
        assert!(!text.contains("real"), "{text}");
        assert!(text.contains("3600") && text.contains("token-r"), "{text}");
        assert_eq!(answered(br#"{"error":"invalid_grant"}"#), None);
        assert_eq!(
            error(br#"{"error":"invalid_grant"}"#),
            r#"{"error":"invalid_grant"}"#
        );
        assert_eq!(
            error(br#"{"error":"Token real-1 is bad"}"#),
            r#"{"error":"refused"}"#
        );
    }
}
