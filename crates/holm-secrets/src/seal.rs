//! Seals one value: encrypted and authenticated with its own key, which is derived from the master
//! key, a fresh salt and the label (what the value is). A record that was truncated, changed, moved
//! to another name or opened with another key gives an error, never another text.

use crate::Value;
use crate::hexadecimal::{decode, decode_array, encode};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{ChaCha20Poly1305, Key, Nonce};
use hkdf::Hkdf;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::fmt;
use zeroize::Zeroizing;

const RECORD: &[u8] = b"holm secret record 1";
const KEY_ID: &[u8] = b"holm master key id 1";
const DIGEST: &[u8] = b"holm digest 1";
const SALT: usize = 32;
const NONCE: usize = 12;

/// The key from which the keys of all records are derived.
#[derive(Clone)]
pub struct MasterKey(Zeroizing<[u8; 32]>);

/// A sealed value, in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sealed {
    salt: String,
    nonce: String,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    #[error("the record is damaged")]
    Damaged,
    #[error("the record does not open: it was changed, belongs elsewhere, or has another key")]
    DoesNotOpen,
    #[error("the system gives no random bytes")]
    NoRandomness,
}

/// Random bytes from the kernel.
pub fn random<const N: usize>() -> Result<[u8; N], SealError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| SealError::NoRandomness)?;
    Ok(bytes)
}

/// A digest that reveals nothing about the bytes without the key, and is the same for the same bytes.
pub fn keyed_digest(key: &Value, bytes: &[u8]) -> String {
    let mut digest = [0; 16];
    let hkdf = Hkdf::<Sha256>::new(None, key.reveal().as_bytes());
    // HKDF fails only for lengths over 255 hashes.
    let done = hkdf.expand_multi_info(&[DIGEST, bytes], &mut digest);
    debug_assert!(done.is_ok());
    encode(&digest)
}

// === impl MasterKey ===

impl MasterKey {
    pub fn generate() -> Result<Self, SealError> {
        Ok(Self(Zeroizing::new(random()?)))
    }

    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Identifies the key without revealing anything about it.
    pub fn id(&self) -> String {
        encode(&derive::<16>(&self.0, None, &[KEY_ID]))
    }

    /// `label` says what the value is: opening needs the same label.
    pub fn seal(&self, label: &[u8], value: &Value) -> Result<Sealed, SealError> {
        self.seal_bytes(label, value.reveal().as_bytes())
    }

    pub fn open(&self, label: &[u8], sealed: &Sealed) -> Result<Value, SealError> {
        let text = self.open_bytes(label, sealed)?;
        Value::parse(text.to_vec()).map_err(|_| SealError::Damaged)
    }

    pub fn seal_bytes(&self, label: &[u8], bytes: &[u8]) -> Result<Sealed, SealError> {
        let (salt, nonce): ([u8; SALT], [u8; NONCE]) = (random()?, random()?);
        let payload = Payload {
            msg: bytes,
            aad: label,
        };
        let sealed = self
            .cipher(&salt, label)
            .encrypt(Nonce::from_slice(&nonce), payload);
        Ok(Sealed {
            salt: encode(&salt),
            nonce: encode(&nonce),
            text: encode(&sealed.map_err(|_| SealError::Damaged)?),
        })
    }

    pub fn open_bytes(
        &self,
        label: &[u8],
        sealed: &Sealed,
    ) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let salt = decode_array::<SALT>(&sealed.salt).ok_or(SealError::Damaged)?;
        let nonce = decode_array::<NONCE>(&sealed.nonce).ok_or(SealError::Damaged)?;
        let text = decode(&sealed.text).ok_or(SealError::Damaged)?;
        let payload = Payload {
            msg: &text,
            aad: label,
        };
        let opened = self
            .cipher(&salt, label)
            .decrypt(Nonce::from_slice(&nonce), payload);
        opened
            .map(Zeroizing::new)
            .map_err(|_| SealError::DoesNotOpen)
    }

    fn cipher(&self, salt: &[u8; SALT], label: &[u8]) -> ChaCha20Poly1305 {
        let key = Zeroizing::new(derive::<32>(&self.0, Some(salt), &[RECORD, label]));
        ChaCha20Poly1305::new(Key::from_slice(key.as_slice()))
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[master key]")
    }
}

fn derive<const N: usize>(key: &[u8; 32], salt: Option<&[u8]>, what: &[&[u8]]) -> [u8; N] {
    let mut derived = [0; N];
    let hkdf = Hkdf::<Sha256>::new(salt, key);
    // HKDF fails only for lengths over 255 hashes.
    let done = hkdf.expand_multi_info(what, &mut derived);
    debug_assert!(done.is_ok());
    derived
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(byte: u8) -> MasterKey {
        MasterKey::from_bytes([byte; 32])
    }

    /// Every field of a sealed record, with one bit flipped or one byte cut off.
    fn damaged(sealed: &Sealed, at: usize, bit: u8) -> Vec<Sealed> {
        let flip = |text: &str| {
            let mut bytes = decode(text).unwrap();
            let place = at % bytes.len();
            bytes[place] ^= 1 << (bit % 8);
            encode(&bytes)
        };
        let cut = |text: &str| encode(&decode(text).unwrap()[..text.len() / 2 - 1]);
        let with = |change: &dyn Fn(&mut Sealed)| {
            let mut changed = sealed.clone();
            change(&mut changed);
            changed
        };
        vec![
            with(&|record| record.salt = flip(&record.salt)),
            with(&|record| record.nonce = flip(&record.nonce)),
            with(&|record| record.text = flip(&record.text)),
            with(&|record| record.salt = cut(&record.salt)),
            with(&|record| record.nonce = cut(&record.nonce)),
            with(&|record| record.text = cut(&record.text)),
            with(&|record| record.text = String::new()),
            with(&|record| record.text.push_str("zz")),
        ]
    }

    proptest! {
        #[test]
        fn a_record_opens_as_it_was_or_not_at_all(
            text in "[^\\x00]{1,200}", label in ".{0,40}", at in 0usize..4096, bit in 0u8..8,
        ) {
            let value = Value::parse(text.into_bytes()).unwrap();
            let sealed = key(1).seal(label.as_bytes(), &value).unwrap();
            prop_assert_eq!(key(1).open(label.as_bytes(), &sealed), Ok(value.clone()));
            prop_assert_eq!(
                key(2).open(label.as_bytes(), &sealed), Err(SealError::DoesNotOpen)
            );
            let other = format!("{label}x");
            prop_assert_eq!(
                key(1).open(other.as_bytes(), &sealed), Err(SealError::DoesNotOpen)
            );
            for record in damaged(&sealed, at, bit) {
                prop_assert!(key(1).open(label.as_bytes(), &record).is_err());
            }
            let again = key(1).seal(label.as_bytes(), &value).unwrap();
            prop_assert_ne!(&again.text, &sealed.text, "no two records look alike");
        }
    }

    #[test]
    fn parts_of_two_records_do_not_make_a_third() {
        let value = |text: &str| Value::parse(text.into()).unwrap();
        let one = key(1).seal(b"A", &value("first value")).unwrap();
        let two = key(1).seal(b"A", &value("other value")).unwrap();
        let mixed = Sealed {
            text: two.text.clone(),
            ..one.clone()
        };
        assert_eq!(key(1).open(b"A", &mixed), Err(SealError::DoesNotOpen));
        let mixed = Sealed {
            salt: two.salt,
            ..one
        };
        assert_eq!(key(1).open(b"A", &mixed), Err(SealError::DoesNotOpen));
    }
}
