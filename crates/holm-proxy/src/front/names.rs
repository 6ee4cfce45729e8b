//! Names of holm's own headers.

use hyper::header::HeaderName;

/// The prefix of holm's own headers; those that a client sends are removed.
pub const OURS: &str = "holm-";

/// How many front doors a request has passed.
pub const HOPS: HeaderName = HeaderName::from_static("holm-hops");

/// Sent by the waiting page when it polls.
pub const WAITING: HeaderName = HeaderName::from_static("holm-waiting");

/// A request that passed this many front doors is in a loop.
pub const LONGEST_WAY: u8 = 8;
