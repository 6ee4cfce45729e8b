//! Secrets at rest and in use: sealing, masking in output, placeholders, and the audit record.
//!
//! The daemon owns the [`vault`] and writes the [`audit`] record. Keepers hold values in memory,
//! mask output, replace values by placeholders and write to the same record. This crate knows no
//! workspaces, services or HTTP. No error and no `Debug` output of it contains a value.

pub mod audit;
pub mod authority;
mod encodings;
pub mod exchange;
mod file;
mod hexadecimal;
mod key;
pub mod keyring;
pub mod mask;
pub mod parcel;
mod patterns;
pub mod seal;
mod value;
pub mod vault;

pub use key::{KeyError, KeyStorage, Protection};
pub use value::{InvalidValue, LONGEST_VALUE, Value};
