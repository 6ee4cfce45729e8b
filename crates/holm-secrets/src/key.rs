//! The master key file. It holds the key in plain form (readable only by the user), or encrypted
//! with a passphrase, or only the key's id while the key is in the user's keyring.

use crate::Value;
use crate::file;
use crate::hexadecimal::{decode_array, encode};
use crate::seal::{MasterKey, SealError, Sealed, random};
use argon2::{Algorithm, Argon2, Params, Version};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;
use zeroize::Zeroizing;

const LABEL: &[u8] = b"holm master key";

/// Argon2 parameters: 64 MiB and three passes, from the OWASP recommendations.
const MEMORY_KIB: u32 = 64 * 1024;
const PASSES: u32 = 3;
/// A file with larger parameters was not written by holm.
const MOST_MEMORY_KIB: u32 = 1024 * 1024;
const MOST_PASSES: u32 = 16;

/// How the key is protected.
#[derive(Clone, Debug)]
pub enum Protection {
    /// By the file's mode only.
    File,
    Passphrase(Value),
    Keyring,
}

/// Where a key is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyStorage {
    File,
    Passphrase,
    Keyring,
}

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("cannot read or write the key")]
    File(#[source] io::Error),
    #[error("the file of the key is damaged")]
    Damaged,
    #[error("the passphrase is wrong, or the file was changed")]
    WrongPassphrase,
    #[error(transparent)]
    Seal(#[from] SealError),
}

/// The content of the file.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyFile {
    version: u32,
    /// Which key it is.
    pub id: String,
    kept: Kept,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Kept {
    Plain(String),
    Passphrase(Locked),
    Keyring,
}

/// Data encrypted with a passphrase.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Locked {
    salt: String,
    memory_kib: u32,
    passes: u32,
    sealed: Sealed,
}

// === impl KeyStorage ===

impl KeyStorage {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Passphrase => "passphrase",
            Self::Keyring => "keyring",
        }
    }
}

// === impl Protection ===

impl Protection {
    pub fn storage(&self) -> KeyStorage {
        match self {
            Self::File => KeyStorage::File,
            Self::Passphrase(_) => KeyStorage::Passphrase,
            Self::Keyring => KeyStorage::Keyring,
        }
    }
}

// === impl KeyFile ===

impl KeyFile {
    pub fn new(key: &MasterKey, protection: &Protection) -> Result<Self, KeyError> {
        let kept = match protection {
            Protection::File => Kept::Plain(encode(key.bytes())),
            Protection::Passphrase(passphrase) => {
                Kept::Passphrase(Locked::new(passphrase, LABEL, key.bytes())?)
            }
            Protection::Keyring => Kept::Keyring,
        };
        Ok(Self {
            version: 1,
            id: key.id(),
            kept,
        })
    }

    pub fn read(path: &Path) -> Result<Option<Self>, KeyError> {
        let Some(text) = file::read(path)
            .map_err(KeyError::File)?
            .map(Zeroizing::new)
        else {
            return Ok(None);
        };
        let read: Self = serde_json::from_slice(&text).map_err(|_| KeyError::Damaged)?;
        match read.version {
            1 => Ok(Some(read)),
            _ => Err(KeyError::Damaged),
        }
    }

    pub fn write(&self, path: &Path) -> Result<(), KeyError> {
        let text = serde_json::to_vec(self).map_err(|_| KeyError::Damaged)?;
        file::replace(path, &Zeroizing::new(text)).map_err(KeyError::File)
    }

    pub fn storage(&self) -> KeyStorage {
        match self.kept {
            Kept::Plain(_) => KeyStorage::File,
            Kept::Passphrase(_) => KeyStorage::Passphrase,
            Kept::Keyring => KeyStorage::Keyring,
        }
    }

    /// The key, if the file has it in plain form.
    pub fn plain(&self) -> Result<Option<MasterKey>, KeyError> {
        match &self.kept {
            Kept::Plain(text) => {
                let bytes = decode_array(text).ok_or(KeyError::Damaged)?;
                self.checked(MasterKey::from_bytes(bytes)).map(Some)
            }
            Kept::Passphrase(_) | Kept::Keyring => Ok(None),
        }
    }

    /// The key, decrypted with the passphrase. If the key is not encrypted, the passphrase is
    /// ignored.
    pub fn unlock(&self, passphrase: &Value) -> Result<MasterKey, KeyError> {
        match &self.kept {
            Kept::Plain(_) | Kept::Keyring => self.plain()?.ok_or(KeyError::Damaged),
            Kept::Passphrase(locked) => {
                let bytes = locked.open(passphrase, LABEL)?;
                let bytes = bytes.as_slice().try_into().map_err(|_| KeyError::Damaged)?;
                self.checked(MasterKey::from_bytes(bytes))
            }
        }
    }

    fn checked(&self, key: MasterKey) -> Result<MasterKey, KeyError> {
        if key.id() == self.id {
            Ok(key)
        } else {
            Err(KeyError::Damaged)
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        use zeroize::Zeroize;
        if let Kept::Plain(text) = self {
            text.zeroize();
        }
    }
}

// === impl Locked ===

impl Locked {
    pub fn new(passphrase: &Value, label: &[u8], bytes: &[u8]) -> Result<Self, KeyError> {
        let salt: [u8; 16] = random()?;
        let key = stretch(passphrase, &salt, MEMORY_KIB, PASSES)?;
        Ok(Self {
            salt: encode(&salt),
            memory_kib: MEMORY_KIB,
            passes: PASSES,
            sealed: key.seal_bytes(label, bytes)?,
        })
    }

    pub fn open(&self, passphrase: &Value, label: &[u8]) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        let salt: [u8; 16] = decode_array(&self.salt).ok_or(KeyError::Damaged)?;
        if self.memory_kib > MOST_MEMORY_KIB || self.passes > MOST_PASSES {
            return Err(KeyError::Damaged);
        }
        let key = stretch(passphrase, &salt, self.memory_kib, self.passes)?;
        match key.open_bytes(label, &self.sealed) {
            Err(SealError::DoesNotOpen) => Err(KeyError::WrongPassphrase),
            other => Ok(other?),
        }
    }
}

fn stretch(
    passphrase: &Value,
    salt: &[u8],
    memory_kib: u32,
    passes: u32,
) -> Result<MasterKey, KeyError> {
    let params = Params::new(memory_kib, passes, 1, Some(32)).map_err(|_| KeyError::Damaged)?;
    let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let mut key = Zeroizing::new([0; 32]);
    argon
        .hash_password_into(passphrase.reveal().as_bytes(), salt, key.as_mut_slice())
        .map_err(|_| KeyError::Damaged)?;
    Ok(MasterKey::from_bytes(*key))
}
