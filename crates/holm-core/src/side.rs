//! Marks whether a value belongs to the host or to a workspace. A path that is right outside is
//! wrong inside.

use std::fmt;

/// A value that is valid on the host: a path, a port, a uid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host<T>(pub T);

/// A value that is valid inside a workspace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guest<T>(pub T);

// === impl Host ===

impl<T: fmt::Display> fmt::Display for Host<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// === impl Guest ===

impl<T: fmt::Display> fmt::Display for Guest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
