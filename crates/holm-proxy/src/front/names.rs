//! The headers that are holm's own.

use hyper::header::HeaderName;

/// What holm's own headers begin with; a client's are taken out.
pub const OURS: &str = "holm-";

/// How many front doors a request has passed.
pub const HOPS: HeaderName = HeaderName::from_static("holm-hops");

/// A page that waits asks with this whether there is something to see now.
pub const WAITING: HeaderName = HeaderName::from_static("holm-waiting");

/// A request that comes by so often goes in circles.
pub const LONGEST_WAY: u8 = 8;
