//! What a secret may be called, and what is said of a text that is no such name. Asked by the command, before it
//! reads a value, and by the daemon, which believes no command.

use crate::config::Variable;
use crate::{Code, Fault};

/// So much of a text that is no name is told.
const MOST_SHOWN: usize = 60;

pub fn parse(text: &str) -> Result<String, Fault> {
    let name = Variable::parse(text).map_err(|error| {
        Fault::new(
            Code::InvalidSecret,
            format!(
                "`{}` cannot be the name of a secret: {error}",
                text.escape_debug().take(MOST_SHOWN).collect::<String>()
            ),
            "a name is that of a variable, such as STRIPE_KEY",
        )
    })?;
    Ok(name.to_string())
}
