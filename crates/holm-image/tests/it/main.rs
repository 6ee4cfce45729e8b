//! Images as users of the crate see them: hostile layers and archives, a real registry, and lying ones.

#![expect(clippy::unwrap_used, reason = "helpers of tests panic like tests")]

mod documents;
mod images;
mod import;
mod pull;
mod pull_hostile;
mod scripted;
mod server;
mod store;
mod support;
mod unpack;
mod unpack_hostile;
