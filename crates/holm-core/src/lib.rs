//! The words and decisions of holm. Values in, values out.
//!
//! What is absent here: files, processes, sockets, clocks and async. Types that are stored or sent derive
//! serde's traits; which format they are written in is the business of other crates. Everything that has to
//! be decided (may this label be used, which workspace was meant, what has to happen next) is
//! decided in this crate, so that it can be tested as data.

/// How checked texts, tuple structs of one `String`, are read and printed.
macro_rules! checked_text {
    ($($type:ident),+) => {$(
        impl $type {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}
use checked_text;

pub mod address;
pub mod admission;
pub mod agents;
pub mod capture;
pub mod check;
pub mod clock;
pub mod clone_url;
pub mod comment;
pub mod compose;
pub mod compose_services;
pub mod concern;
pub mod config;
pub mod conflict;
pub mod container;
pub mod cut;
pub mod database;
pub mod detect;
pub mod disk;
pub mod dockerignore;
pub mod egress;
pub mod environment;
pub mod exec;
pub mod fault;
pub mod files;
pub mod first_start;
pub mod fitness;
pub mod git_settings;
pub mod head;
pub mod hint;
pub mod hunk;
pub mod id;
pub mod idle;
pub mod ignore;
pub mod image_build;
pub mod image_reference;
pub mod image_users;
pub mod inbox;
pub mod isolation;
pub mod label;
pub mod layer;
pub mod moves;
pub mod notify;
pub mod numbers;
pub mod placeholder;
pub mod plan;
pub mod policy;
pub mod range;
pub mod reference;
pub mod risk;
pub mod route;
pub mod run;
pub mod secret_name;
pub mod service;
pub mod service_network;
pub mod session;
pub mod share;
pub mod shell;
pub mod side;
pub mod spec;
pub mod state;
pub mod store_place;
pub mod token;
pub mod toolchain;
pub mod trash;
pub mod tree_change;
pub mod tree_path;
pub mod trust;
pub mod turn;

pub use fault::{Cause, Code, Fault, Kind};
pub use id::{ProjectId, RequestId, RunId, SessionId, TokenId, WorkspaceId};
pub use label::{Label, ProjectName};
pub use reference::WorkspaceRef;
pub use side::{Guest, Host};
pub use spec::WorkspaceSpec;
pub use tree_path::TreePath;
