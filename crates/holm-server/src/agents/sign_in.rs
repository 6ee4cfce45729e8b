//! A known agent's sign-in for one workspace: tokens for the agent, values for the gateway.
//!
//! The files are read where the user's agent keeps them. A workspace gets the listed keys of each,
//! with a token in the place of every value.

use super::documents::document;
use crate::secrets::Keeping;
use holm_config::known_agents::{kept, put_at, table};
use holm_core::agents::known::{KnownAgent, Service, SignIn as Listed};
use holm_core::spec::WorkspaceSpec;
use holm_core::{Code, Fault};
use holm_keeper::wire::SignIn;
use holm_proxy::gateway::NewTokens;
use holm_secrets::Value;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::Path;

/// The agent of a workspace whose sign-in is meant.
pub struct Agent<'a> {
    pub name: &'a str,
    pub known: &'static KnownAgent,
    pub spec: &'a WorkspaceSpec,
    pub keeping: &'a Keeping,
}

/// What was found of the user's sign-in.
#[derive(Default)]
pub struct Found {
    /// Variables with tokens.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Documents with tokens, by their files.
    pub documents: BTreeMap<String, Json>,
    pub sign_ins: Vec<SignIn>,
    /// The files and variables, with the token of each variable.
    pub sources: BTreeMap<String, String>,
    pub notes: Vec<String>,
}

/// The values of one file.
pub struct Held {
    pub access: Value,
    pub refresh: Option<Value>,
    pub identity: Option<Value>,
    pub expires_ms: Option<i64>,
}

/// Whether the user has a sign-in, without making tokens for it.
pub fn exists(known: &KnownAgent, home: &Path, sent: &BTreeMap<String, String>) -> bool {
    let has_key = known.keys.keys().any(|name| sent.contains_key(name));
    has_key
        || known
            .sign_ins
            .iter()
            .any(|listed| held(listed, home).is_some())
}

/// The values of a file, if it has any.
pub fn held(listed: &Listed, home: &Path) -> Option<Held> {
    let document = document(home, &listed.file).ok()??;
    held_in(listed, &document)
}

pub fn held_in(listed: &Listed, document: &Json) -> Option<Held> {
    let value = |pointer: &str| {
        let text = document.pointer(pointer)?.as_str()?;
        Value::parse(text.as_bytes().to_vec()).ok()
    };
    let expires = listed.expires_ms.as_ref();
    Some(Held {
        access: value(&listed.access)?,
        refresh: listed.refresh.as_deref().and_then(value),
        identity: listed.identity.as_deref().and_then(value),
        expires_ms: expires.and_then(|pointer| document.pointer(pointer)?.as_i64()),
    })
}

// === impl Agent ===

impl Agent<'_> {
    /// Makes tokens for everything that the user has.
    pub fn find(&self, sent: &BTreeMap<String, String>) -> Result<Found, Fault> {
        let mut found = Found::default();
        for (variable, service) in &self.known.keys {
            let Some(value) = sent.get(variable) else {
                continue;
            };
            let Ok(value) = Value::parse(value.clone().into_bytes()) else {
                continue;
            };
            let name = format!("{}/{variable}", self.name);
            let sign_in = self.sign_in(name, &value, service_of(service)?)?;
            let token = sign_in.token.clone();
            found
                .env
                .push((variable.clone().into(), token.clone().into()));
            found.sources.insert(variable.clone(), token);
            found.sign_ins.push(sign_in);
        }
        for listed in &self.known.sign_ins {
            let whole = match document(&self.spec.home, &listed.file) {
                Ok(Some(whole)) => whole,
                Ok(None) => continue,
                Err(why) => {
                    found
                        .notes
                        .push(format!("~/{} is not used: {why}", listed.file));
                    continue;
                }
            };
            self.add(listed, &whole, &mut found)?;
        }
        Ok(found)
    }

    /// Everything that the user has, as it is, but for what refreshes it: a refresh inside would make the user's
    /// own copy worthless.
    pub fn find_as_is(&self, sent: &BTreeMap<String, String>) -> Found {
        let mut found = Found::default();
        let mut readable = Vec::new();
        for variable in self.known.keys.keys() {
            if let Some(value) = sent.get(variable) {
                let pair = (variable.clone().into(), value.clone().into());
                found.env.push(pair);
                found.sources.insert(variable.clone(), value.clone());
                readable.push(variable.clone());
            }
        }
        for listed in &self.known.sign_ins {
            let whole = document(&self.spec.home, &listed.file).ok().flatten();
            let held = whole.as_ref().and_then(|whole| held_in(listed, whole));
            let (Some(whole), Some(held)) = (whole, held) else {
                continue;
            };
            let brought = found
                .documents
                .entry(listed.file.clone())
                .or_insert_with(|| Json::Object(serde_json::Map::new()));
            merge(brought, kept(&whole, &listed.keep));
            put_at(brought, &listed.access, held.access.reveal().into());
            if let (Some(identity), Some(pointer)) = (&held.identity, &listed.identity) {
                put_at(brought, pointer, identity.reveal().into());
            }
            if let (Some(expires), Some(pointer)) = (held.expires_ms, &listed.expires_ms) {
                put_at(brought, pointer, expires.into());
            }
            found.sources.insert(listed.file.clone(), String::new());
            let ends = held.expires_ms.and_then(|ends| {
                let ends = jiff::Timestamp::from_millisecond(ends).ok()?;
                Some(format!(
                    ", valid until {}",
                    ends.strftime("%Y-%m-%dT%H:%M:%SZ")
                ))
            });
            let ends = ends.unwrap_or_default();
            readable.push(format!("the access token of ~/{}{ends}", listed.file));
        }
        if !readable.is_empty() {
            found.notes.push(format!(
                "{} can read your sign-in, because the gateway cannot inspect its connections: {}; what \
                 refreshes it stays outside",
                self.known.title,
                readable.join(", ")
            ));
        }
        found
    }

    fn add(&self, listed: &Listed, whole: &Json, found: &mut Found) -> Result<(), Fault> {
        let Some(held) = held_in(listed, whole) else {
            return Ok(());
        };
        let service = service_of(&listed.service)?;
        let brought = found
            .documents
            .entry(listed.file.clone())
            .or_insert_with(|| Json::Object(serde_json::Map::new()));
        merge(brought, kept(whole, &listed.keep));
        let names = self.names(listed);
        let access = self.sign_in(names.access, &held.access, service)?;
        put_at(brought, &listed.access, access.token.clone().into());
        found.sign_ins.push(access);
        if let (Some(refresh), Some(pointer)) = (&held.refresh, &listed.refresh) {
            let renewal = self.renewal(names.refresh, refresh, service)?;
            put_at(brought, pointer, renewal.token.clone().into());
            found.sign_ins.push(renewal);
        }
        if let (Some(identity), Some(pointer)) = (&held.identity, &listed.identity) {
            let token = self
                .keeping
                .agent_token(&self.spec.id, &names.identity, identity)?;
            put_at(brought, pointer, token.into());
        }
        if let (Some(expires), Some(pointer)) = (held.expires_ms, &listed.expires_ms) {
            put_at(brought, pointer, expires.into());
        }
        found.sources.insert(listed.file.clone(), String::new());
        Ok(())
    }

    /// The tokens of one file, as its agent is told after a refresh.
    pub fn new_tokens(&self, listed: &Listed, held: &Held) -> Result<NewTokens, Fault> {
        let names = self.names(listed);
        let token = |name: &str, value: &Value| -> Result<Value, Fault> {
            let token = self.keeping.agent_token(&self.spec.id, name, value)?;
            Value::parse(token.into_bytes()).map_err(|error| unfit(name, &error.to_string()))
        };
        let refresh = held.refresh.as_ref();
        let identity = held.identity.as_ref();
        let left = held.expires_ms.map(|expires| {
            let now = jiff::Timestamp::now().as_millisecond();
            u64::try_from((expires - now) / 1000).unwrap_or(0)
        });
        Ok(NewTokens {
            access: token(&names.access, &held.access)?,
            refresh: refresh.map(|it| token(&names.refresh, it)).transpose()?,
            identity: identity.map(|it| token(&names.identity, it)).transpose()?,
            expires_in: left,
        })
    }

    fn names(&self, listed: &Listed) -> Names {
        let name = |what: &str| format!("{}/{}/{what}", self.name, listed.service);
        Names {
            access: name("access"),
            refresh: name("refresh"),
            identity: name("identity"),
        }
    }

    fn sign_in(&self, name: String, value: &Value, service: &Service) -> Result<SignIn, Fault> {
        let token = self.keeping.agent_token(&self.spec.id, &name, value)?;
        let (hosts, leaves) = self.keeping.places(&service.hosts)?;
        Ok(SignIn {
            name,
            token,
            value: value.clone(),
            hosts,
            paths: service.paths.clone(),
            leaves,
            is_refresh: false,
        })
    }

    fn renewal(&self, name: String, value: &Value, service: &Service) -> Result<SignIn, Fault> {
        let Some(host) = &service.token else {
            return Err(unfit(&name, "its service has no token host"));
        };
        let (hosts, leaves) = self.keeping.places(std::slice::from_ref(&host.host))?;
        Ok(SignIn {
            token: self.keeping.agent_token(&self.spec.id, &name, value)?,
            name,
            value: value.clone(),
            hosts,
            paths: vec![host.path.clone()],
            leaves,
            is_refresh: true,
        })
    }
}

/// The names of a sign-in's values in the record.
struct Names {
    access: String,
    refresh: String,
    identity: String,
}

fn service_of(name: &str) -> Result<&'static Service, Fault> {
    let service = table().services.get(name);
    service.ok_or_else(|| unfit(name, "the table has no such service"))
}

fn unfit(name: &str, why: &str) -> Fault {
    let message = format!("the sign-in {name} cannot be used: {why}");
    Fault::new(Code::InvalidSecret, message, "see docs/agents.md")
}

/// Adds the keys of `more`.
fn merge(document: &mut Json, more: Json) {
    match (document, more) {
        (Json::Object(document), Json::Object(more)) => {
            for (key, value) in more {
                merge(document.entry(key).or_insert(Json::Null), value);
            }
        }
        (document, more) => *document = more,
    }
}
