//! Running a command inside, as values on channels.

pub use holm_core::exec::*;
pub use holm_keeper::client::ExecStream;
