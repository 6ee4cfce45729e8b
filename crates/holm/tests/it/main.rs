//! holm as its users see it: the real program, a real kernel, real git, as an ordinary user.
//!
//! Run by root (CI, a container) the tests switch to the user `holm-tester`; run by anybody else
//! they are that user. `tidy.rs` fails when a file here is not listed.

#![allow(
    clippy::unwrap_used,
    reason = "in a test, what cannot be had is a failure"
)]

mod api;
mod attacks_api;
mod attacks_egress;
mod attacks_file_api;
mod attacks_files;
mod attacks_git;
mod attacks_git_objects;
mod attacks_guests;
mod attacks_identity;
mod attacks_kernel;
mod attacks_kernel_limits;
mod attacks_mounts;
mod attacks_names;
mod attacks_ports;
mod attacks_process;
mod attacks_process_load;
mod attacks_process_sockets;
mod attacks_protected;
mod attacks_runs;
mod attacks_terminal;
mod attacks_trash;
mod attacks_users;
mod bad_input;
mod browser;
mod browser_outward;
mod browser_previews;
mod build_tools;
mod caches;
mod canonical;
mod code;
mod completions;
mod container;
mod contract;
mod daemon;
mod dirty;
mod egress;
mod egress_missing;
mod events;
mod events_stream;
mod exec;
mod feel;
mod files;
mod front_door;
mod git_inside;
mod here;
mod identity;
mod idle;
mod include;
mod init;
mod inside;
mod jsonshape;
mod layers;
mod life_crash;
mod life_health;
mod life_inject;
mod life_many;
mod life_model;
mod life_one;
mod life_resume;
mod life_stuck;
mod lifecycle;
mod limits;
mod limits_attacks;
mod make;
mod mcp;
mod moves;
mod moves_crash;
mod moves_services;
mod on_a_terminal;
mod ports;
mod previews;
mod previews_programs;
mod renames;
mod root;
mod runs;
mod runs_agents;
mod schema;
mod service_attacks;
mod service_feel;
mod service_logs;
mod services;
mod sessions;
mod shop;
mod siblings;
mod snapshots;
mod software;
mod support;
mod tidy;
mod toolchains;
mod top;
mod trash;
mod trust;
mod truth;
mod volume_seeds;
mod volumes;
mod warm;
mod work_comes_back;
mod work_crash;
