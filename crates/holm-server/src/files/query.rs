//! The query of the file routes. Its values are bytes, which the ordinary parser would change if
//! they are not UTF-8; otherwise it is as strict: every parameter must be known and occur once.

use crate::failure::{Failure, bad_request};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use holm_core::{Code, Fault, TreePath};
use percent_encoding::percent_decode;
use std::collections::BTreeMap;

/// Parameters that were not taken yet.
pub struct FileQuery(BTreeMap<String, Vec<u8>>);

// === impl FileQuery ===

impl<S: Send + Sync> FromRequestParts<S> for FileQuery {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        Self::parse(parts.uri.query().unwrap_or_default())
    }
}

impl FileQuery {
    fn parse(query: &str) -> Result<Self, Failure> {
        let mut found = BTreeMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = String::from_utf8(decoded(name))
                .map_err(|_| bad_request("a parameter's name is not UTF-8"))?;
            if found.contains_key(&name) {
                let name = name.escape_debug();
                return Err(bad_request(format!("`{name}` comes twice")));
            }
            found.insert(name, decoded(value));
        }
        Ok(Self(found))
    }

    /// The path; the root by default.
    pub fn path(&mut self) -> Result<TreePath, Failure> {
        let Some(bytes) = self.bytes("path") else {
            return Ok(TreePath::root());
        };
        TreePath::parse(&bytes).map_err(|error| {
            let shown: String = String::from_utf8_lossy(&bytes).chars().take(200).collect();
            let message = format!("`{}` is not a path here", shown.escape_debug());
            let hint = "paths are relative to the project's root, as `src/main.rs`";
            Failure(Fault::new(Code::InvalidPath, message, hint).because(error))
        })
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub fn bytes(&mut self, name: &str) -> Option<Vec<u8>> {
        self.0.remove(name)
    }

    pub fn text(&mut self, name: &str) -> Result<Option<String>, Failure> {
        let value = self.bytes(name).map(String::from_utf8);
        let value = value.transpose();
        value.map_err(|_| bad_request(format!("`{name}` is not UTF-8")))
    }

    pub fn number(&mut self, name: &str) -> Result<Option<u64>, Failure> {
        let value = self.text(name)?.map(|text| text.parse());
        let value = value.transpose();
        value.map_err(|_| bad_request(format!("`{name}` is not a number")))
    }

    /// A number from 1 to `most`.
    pub fn limit(&mut self, ordinary: usize, most: usize) -> Result<usize, Failure> {
        let Some(limit) = self.number("limit")? else {
            return Ok(ordinary);
        };
        let limit = usize::try_from(limit)
            .ok()
            .filter(|limit| (1..=most).contains(limit));
        limit.ok_or_else(|| bad_request(format!("`limit` is not from 1 to {most}")))
    }

    /// The permission bits, in octal.
    pub fn mode(&mut self) -> Result<Option<u32>, Failure> {
        let Some(text) = self.text("mode")? else {
            return Ok(None);
        };
        let mode = u32::from_str_radix(&text, 8)
            .ok()
            .filter(|mode| *mode <= 0o777);
        let wrong = || bad_request("`mode` is not one of 000 to 777, in octal");
        mode.ok_or_else(wrong).map(Some)
    }

    /// `false` by default.
    pub fn flag(&mut self, name: &str) -> Result<bool, Failure> {
        match self.bytes(name).as_deref() {
            None | Some(b"false") => Ok(false),
            Some(b"true") => Ok(true),
            Some(_) => Err(bad_request(format!("`{name}` is neither true nor false"))),
        }
    }

    /// Refuses remaining parameters.
    pub fn end(self) -> Result<(), Failure> {
        match self.0.keys().next() {
            Some(name) => {
                let name = name.escape_debug();
                Err(bad_request(format!("unknown parameter `{name}`")))
            }
            None => Ok(()),
        }
    }
}

fn decoded(text: &str) -> Vec<u8> {
    let text = text.replace('+', " ");
    percent_decode(text.as_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_as_they_are() {
        let mut query = FileQuery::parse("path=caf%e9%0a%1b%2B+x&limit=5&parents=true").unwrap();
        assert_eq!(query.path().unwrap().as_bytes(), b"caf\xe9\n\x1b+ x");
        assert_eq!(query.limit(1, 10).unwrap(), 5);
        assert!(query.flag("parents").unwrap());
        query.end().unwrap();
        assert!(FileQuery::parse("").unwrap().path().unwrap().is_root());
    }

    #[test]
    fn everything_else_is_refused() {
        let path = |text: &str| FileQuery::parse(text).and_then(|mut query| query.path());
        for (query, code) in [
            ("path=", Code::InvalidPath),
            ("path", Code::InvalidPath),
            ("path=%2fetc", Code::InvalidPath),
            ("path=a/%2e%2e/b", Code::InvalidPath),
            ("path=%2e%2e%2f%2e%2e", Code::InvalidPath),
            ("path=a%00b", Code::InvalidPath),
            ("path=a&path=b", Code::BadRequest),
            ("%ff=a", Code::BadRequest),
        ] {
            assert_eq!(path(query).unwrap_err().0.code, code, "{query}");
        }
        let query = |text: &str| FileQuery::parse(text).unwrap();
        assert!(query("limit=0").limit(1, 10).is_err());
        assert!(query("limit=11").limit(1, 10).is_err());
        assert!(query("limit=-1").limit(1, 10).is_err());
        assert!(query("mode=4755").mode().is_err());
        assert!(query("mode=9").mode().is_err());
        assert!(query("regex=maybe").flag("regex").is_err());
        assert!(query("other=1").end().is_err());
    }
}
