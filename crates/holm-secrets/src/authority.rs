//! The certificate authority of this installation. The gateway uses its certificates to stand in
//! for hosts at which a placeholder may be used. The daemon holds the key and stores it sealed; a
//! keeper gets certificates for single names, never the CA key.
//!
//! Only workspaces with placeholders trust it.

use crate::Value;
use hkdf::Hkdf;
use holm_core::placeholder::{self, Unfit};
use jiff::civil::Date;
use jiff::{Span, Timestamp, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use zeroize::Zeroizing;

const NAME: &str = "holm gateway";
const END: &str = "-----END CERTIFICATE-----\n";
const YEARS: i64 = 20;
/// The longest validity that browsers accept; a workspace gets a fresh certificate at every start.
const LEAF_DAYS: i64 = 397;
/// A cached certificate older than this is replaced.
const FRESH_DAYS: i32 = 30;
const NOISE: &[u8] = b"holm placeholder 1";

pub struct Authority {
    certificate: String,
    key: KeyPair,
    /// By host, with the date of creation.
    leaves: Mutex<HashMap<String, (Date, Leaf)>>,
}

/// A certificate for one name and its key, both PEM, without the CA's certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaf {
    pub host: String,
    pub certificate: String,
    pub key: Value,
}

#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    #[error("the certificate authority is damaged")]
    Damaged,
    #[error("cannot make a certificate for {host}")]
    Certificate {
        host: String,
        #[source]
        source: rcgen::Error,
    },
}

// === impl Authority ===

impl Authority {
    pub fn generate() -> Result<Self, AuthorityError> {
        let failed = |source| AuthorityError::Certificate {
            host: NAME.to_owned(),
            source,
        };
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = own_params();
        let today = today();
        limit(&mut params, today, Span::new().years(YEARS));
        let certificate = params.self_signed(&key).map_err(failed)?;
        Ok(Self {
            certificate: certificate.pem(),
            key,
            leaves: Mutex::default(),
        })
    }

    /// Restores it from the result of [`Self::kept`].
    pub fn open(kept: &Value) -> Result<Self, AuthorityError> {
        let text = kept.reveal();
        let end = text.find(END).ok_or(AuthorityError::Damaged)? + END.len();
        let (certificate, key) = text.split_at(end);
        Ok(Self {
            certificate: certificate.to_owned(),
            key: KeyPair::from_pem(key).map_err(|_| AuthorityError::Damaged)?,
            leaves: Mutex::default(),
        })
    }

    /// Certificate and key as one text, to be sealed.
    pub fn kept(&self) -> Result<Value, AuthorityError> {
        let key = Zeroizing::new(self.key.serialize_pem());
        let text = format!("{}{}", self.certificate, *key);
        Value::parse(text.into_bytes()).map_err(|_| AuthorityError::Damaged)
    }

    /// The CA certificate for workspaces, as PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// A certificate for one host.
    pub fn leaf(&self, host: &str) -> Result<Leaf, AuthorityError> {
        let today = today();
        let mut leaves = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |made: &Date| (today - *made).get_days().abs() < FRESH_DAYS;
        if let Some((_, leaf)) = leaves.get(host).filter(|(made, _)| is_fresh(made)) {
            return Ok(leaf.clone());
        }
        let leaf = self
            .make_leaf(host, today)
            .map_err(|source| AuthorityError::Certificate {
                host: host.to_owned(),
                source,
            })?;
        leaves.insert(host.to_owned(), (today, leaf.clone()));
        Ok(leaf)
    }

    fn make_leaf(&self, host: &str, today: Date) -> Result<Leaf, rcgen::Error> {
        let mut params = CertificateParams::new([host.to_owned()])?;
        let mut name = DistinguishedName::new();
        // A common name is at most 64 characters long; clients check the alternative name.
        if host.len() <= 64 {
            name.push(DnType::CommonName, host);
        }
        params.distinguished_name = name;
        limit(&mut params, today, Span::new().days(LEAF_DAYS));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let own = own_params();
        let issuer = Issuer::from_params(&own, &self.key);
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?;
        Ok(Leaf {
            host: host.to_owned(),
            certificate: certificate.pem(),
            // A PEM key is short text, so this cannot fail.
            key: Value::parse(key.serialize_pem().into_bytes())
                .map_err(|_| rcgen::Error::CouldNotParseKeyPair)?,
        })
    }

    /// The token that stands for a value inside a workspace. It depends only on the value's shape,
    /// so programs can keep the token when the value is replaced.
    pub fn token(&self, workspace: &str, secret: &str, value: &Value) -> Result<String, Unfit> {
        self.token_of(workspace, secret, value.reveal())
    }

    /// The same, but a JSON web token keeps what it says about the account and expires, which its
    /// program reads. Without its signature it is worthless.
    pub fn described_token(
        &self,
        workspace: &str,
        secret: &str,
        value: &Value,
    ) -> Result<String, Unfit> {
        let text = value.reveal();
        let (said, signature) = match placeholder::signature(text) {
            Some(start) => text.split_at(start),
            None => ("", text),
        };
        let token = self.token_of(workspace, secret, signature)?;
        Ok(format!("{said}{token}"))
    }

    fn token_of(&self, workspace: &str, secret: &str, text: &str) -> Result<String, Unfit> {
        let derived = Hkdf::<Sha256>::new(Some(NOISE), self.key.serialized_der());
        let (mut block, mut buffer, mut used) = (0u64, Zeroizing::new([0; 64]), 64);
        placeholder::token(text, || {
            if used == buffer.len() {
                let number = block.to_le_bytes();
                let length = (workspace.len() as u64).to_le_bytes();
                let label = [
                    &number[..],
                    &length,
                    workspace.as_bytes(),
                    secret.as_bytes(),
                ];
                // HKDF can always provide this length.
                let _ = derived.expand_multi_info(&label, buffer.as_mut_slice());
                (block, used) = (block + 1, 0);
            }
            used += 1;
            buffer[used - 1]
        })
    }
}

/// The parameters of every CA of ours; together with the key they identify the issuer.
fn own_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, NAME);
    params.distinguished_name = name;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// Valid from the day before, because clocks differ.
fn limit(params: &mut CertificateParams, today: Date, time: Span) {
    let (begin, end) = (
        today.saturating_sub(Span::new().days(1)),
        today.saturating_add(time),
    );
    let [begin, end] = [begin, end].map(|day| {
        let (month, number) = (day.month().unsigned_abs(), day.day().unsigned_abs());
        date_time_ymd(i32::from(day.year()), month, number)
    });
    (params.not_before, params.not_after) = (begin, end);
}

fn today() -> Date {
    Timestamp::now().to_zoned(TimeZone::UTC).date()
}

#[cfg(test)]
#[path = "authority_tests.rs"]
mod tests;
