//! The one binary of holm: command line, daemon, keeper, init.
//!
//! Keepers, inits and probes are dispatched before anything else runs, because they must stay
//! single-threaded; everything else is the command line, of which `daemon run` is the server.

#[cfg(target_os = "linux")]
mod cli;
#[cfg(target_os = "linux")]
mod config;
#[cfg(target_os = "linux")]
mod fitness;
#[cfg(target_os = "linux")]
mod headless;
#[cfg(target_os = "linux")]
mod helper;
#[cfg(target_os = "linux")]
mod mcp;
#[cfg(target_os = "linux")]
mod paths;
#[cfg(target_os = "linux")]
mod runtime;
#[cfg(target_os = "linux")]
mod secret_name;
#[cfg(target_os = "linux")]
mod server;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    let started = std::time::Instant::now();
    holm_linux::roles::dispatch();
    cli::main(started)
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    eprintln!("error: holm runs on Linux and on Windows in WSL2, not on this system");
    std::process::ExitCode::from(4)
}
