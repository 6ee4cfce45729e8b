//! Secrets at rest and on their way: what keeps them sealed, what masks them in output, and the
//! record of what happened to them.
//!
//! Used by the daemon (which has the [`vault`] and writes the [`audit`] record) and by keepers (which
//! hold values in memory, mask output, exchange values for placeholders and write to the same record). Nothing here knows workspaces,
//! services or HTTP. No error and no `Debug` of this crate has a value in it.

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

pub use key::{KeyError, Place, Protection};
pub use value::{InvalidValue, LONGEST_VALUE, Value};
