//! A running workspace, as far as that needs no namespaces: the keeper's protocol ([`wire`]), the process
//! outside that keeps a workspace ([`keeper`]), the first process inside ([`init`]), and the programs of
//! ours that run inside ([`inside`], [`files`]). The daemon asks a keeper by a [`client`].
//!
//! What depends on the machine (entering a network, control groups, kernel rules, mounts) comes in by the
//! traits of [`platform`], which a driver implements. There is no unsafe code here.

#![forbid(unsafe_code)]

/// A line on stderr, for whoever looks into a keeper's or helper's own log. `eprintln!` panics when
/// it cannot write, and the log is on a disk that may be full.
#[macro_export]
macro_rules! complain {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

pub mod client;
pub mod container;
pub mod descriptors;
pub mod directories;
pub mod files;
pub mod guest;
pub mod guests;
pub mod here;
pub mod init;
pub mod inside;
pub mod keeper;
pub mod logs;
pub mod plan;
pub mod platform;
pub mod process;
pub mod records;
pub mod room;
pub mod roots;
pub mod runs;
mod stdio;
pub mod wire;
