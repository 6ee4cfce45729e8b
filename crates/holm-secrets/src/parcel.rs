//! Exports stored secrets to one file that is encrypted with a passphrase, and imports them.

use crate::Value;
use crate::key::{KeyError, Locked};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

const LABEL: &[u8] = b"holm secrets export";

/// One exported secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Packed {
    pub name: String,
    /// The project's name; `None`: a secret of the user.
    pub project: Option<String>,
    pub value: Value,
}

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parcel {
    holm_secrets: u32,
    locked: Locked,
}

pub fn pack(passphrase: &Value, secrets: &[Packed]) -> Result<String, KeyError> {
    let text = serde_json::to_vec(secrets).map_err(|_| KeyError::Damaged)?;
    let parcel = Parcel {
        holm_secrets: 1,
        locked: Locked::new(passphrase, LABEL, &Zeroizing::new(text))?,
    };
    serde_json::to_string(&parcel).map_err(|_| KeyError::Damaged)
}

pub fn unpack(passphrase: &Value, text: &str) -> Result<Vec<Packed>, KeyError> {
    let parcel: Parcel = serde_json::from_str(text).map_err(|_| KeyError::Damaged)?;
    if parcel.holm_secrets != 1 {
        return Err(KeyError::Damaged);
    }
    let text = parcel.locked.open(passphrase, LABEL)?;
    serde_json::from_slice(&text).map_err(|_| KeyError::Damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parcel_opens_with_its_passphrase_only() {
        let value = |text: &str| Value::parse(text.into()).unwrap();
        let secrets = [Packed {
            name: "KEY".to_owned(),
            project: Some("shop".to_owned()),
            value: value("canary-5461"),
        }];
        let text = pack(&value("open sesame"), &secrets).unwrap();
        assert!(!text.contains("canary") && !text.contains("KEY"), "{text}");
        assert_eq!(unpack(&value("open sesame"), &text).unwrap(), secrets);
        let wrong = unpack(&value("open barley"), &text).unwrap_err();
        assert!(matches!(wrong, KeyError::WrongPassphrase));
        for text in ["", "{}", &text[..text.len() - 3], &text.replace('a', "b")] {
            assert!(unpack(&value("open sesame"), text).is_err());
        }
    }
}
