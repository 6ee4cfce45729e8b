//! The tokio runtimes: one thread for a verb, several for the daemon.

use holm_core::{Code, Fault};
use tokio::runtime::{Builder, Runtime};

pub fn build(builder: &mut Builder) -> Result<Runtime, Fault> {
    builder.enable_all().build().map_err(|error| {
        let message = "cannot wait for events";
        let hint = "is the limit of open files reached?";
        Fault::new(Code::Internal, message, hint).because(error)
    })
}
