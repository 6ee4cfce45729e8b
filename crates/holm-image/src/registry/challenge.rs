//! What a registry asks for when it answers 401, and the token that a realm gives.

use serde::Deserialize;
use zeroize::Zeroizing;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    Basic,
    Bearer { realm: String, service: String },
}

#[derive(Deserialize)]
struct Issued {
    token: Option<String>,
    access_token: Option<String>,
}

// === impl Challenge ===

impl Challenge {
    /// Parses the value of `WWW-Authenticate`.
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.trim().split_once(' ')?;
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let (mut realm, mut service) = (None, String::new());
        let mut rest = rest.trim_start();
        while let Some((key, value)) = rest.split_once("=\"") {
            let (value, after) = value.split_once('"')?;
            match key.trim() {
                "realm" => realm = Some(value.to_owned()),
                "service" => service = value.to_owned(),
                _ => {}
            }
            rest = after.trim_start_matches([',', ' ']);
        }
        realm.map(|realm| Self::Bearer { realm, service })
    }
}

/// The token in a realm's answer; it must be usable as the value of a header.
pub fn token(body: &[u8]) -> Option<Zeroizing<String>> {
    let issued: Issued = serde_json::from_slice(body).ok()?;
    let token = Zeroizing::new(issued.token.or(issued.access_token)?);
    let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
    (is_plain && !token.is_empty()).then_some(token)
}
