//! holm itself: command line and daemon, and keeper and init where the small program is not embedded.
//!
//! Keepers, inits and probes are dispatched before anything else runs, because they must stay
//! single-threaded; everything else is the command line, of which `daemon run` is the server.

#[cfg(target_os = "linux")]
mod cli;
#[cfg(target_os = "linux")]
mod connect;
#[cfg(target_os = "linux")]
mod launch;
#[cfg(target_os = "linux")]
mod mcp;
#[cfg(target_os = "linux")]
mod resolve;
#[cfg(target_os = "linux")]
mod since;
#[cfg(target_os = "linux")]
mod wiring;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    let started = std::time::Instant::now();
    wiring::dispatch();
    cli::main(started)
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    eprintln!("error: holm runs on Linux and on Windows in WSL2, not on this system");
    std::process::ExitCode::from(4)
}
