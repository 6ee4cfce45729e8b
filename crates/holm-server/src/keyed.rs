//! `Idempotency-Key`: a request with a key is carried out once, however often it is sent.
//!
//! Routes that create something take an [`IdempotencyKey`] and call [`App::once`] first. A key
//! belongs to its caller and to one route, and stands for exactly one body.

use super::App;
use super::caller::Caller;
use super::failure::{Failure, bad_request};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use holm_engine::Once;
use holm_engine::store::RequestKey;
use serde::Serialize;
use sha2::{Digest, Sha256};
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};

/// The key of a request, if it has one.
pub struct IdempotencyKey(Option<String>);

const HEADER: &str = "idempotency-key";
const LONGEST: usize = 200;

// === impl IdempotencyKey ===

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let mut values = parts.headers.get_all(HEADER).iter();
        let Some(value) = values.next() else {
            return Ok(Self(None));
        };
        match (value.to_str(), values.next()) {
            (Ok(key), None) => Self::parse("Idempotency-Key", key),
            _ => Self::parse("Idempotency-Key", ""),
        }
    }
}

impl IntoParams for IdempotencyKey {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let words = "Sent again with the same key, the request is carried out once and answered as \
                     before. A key stands for one body and is forgotten after a day.";
        let form = ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some(format!("^[!-~]{{1,{LONGEST}}}$")));
        let parameter = ParameterBuilder::new()
            .name("Idempotency-Key")
            .parameter_in(ParameterIn::Header)
            .description(Some(words))
            .schema(Some(form));
        vec![parameter.build()]
    }
}

impl IdempotencyKey {
    /// `name` is where it stands in the request.
    pub fn parse(name: &str, key: &str) -> Result<Self, Failure> {
        let is_visible = key.bytes().all(|byte| byte.is_ascii_graphic());
        if key.is_empty() || key.len() > LONGEST || !is_visible {
            let why = format!("`{name}` is not 1 to {LONGEST} visible characters");
            return Err(bad_request(why));
        }
        Ok(Self(Some(key.to_owned())))
    }

    /// For a route that stores its keys itself. Keys of a workspace are separate.
    pub fn of(self, caller: &Caller) -> Option<String> {
        let key = self.0?;
        Some(if caller.is_guest() {
            format!("{} {key}", caller.actor())
        } else {
            key
        })
    }
}

// === impl App ===

impl App {
    /// What remains to be done for a request of `caller` on `route`; `None`: it has no key.
    pub async fn once<T: Serialize>(
        &self,
        key: IdempotencyKey,
        caller: &Caller,
        route: &str,
        body: &T,
    ) -> Result<Option<Once>, Failure> {
        let Some(key) = key.0 else {
            return Ok(None);
        };
        let key = RequestKey {
            scope: format!("{} {route}", caller.actor()),
            key,
        };
        // Of the parsed body, so that spaces and the order of fields do not matter.
        let body = serde_json::to_vec(body).map_err(bad_request)?;
        let digest = format!("{:x}", Sha256::digest(body));
        Ok(Some(self.engine.once(key, digest).await?))
    }
}
