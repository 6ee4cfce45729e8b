//! Validates a secret's name, and describes a wrong one. Used by the command, before it reads a
//! value, and by the daemon, which trusts no client.

use crate::config::Variable;
use crate::{Code, Fault};

/// How much of a wrong name is shown.
const MOST_SHOWN: usize = 60;

pub fn parse(text: &str) -> Result<String, Fault> {
    let name = Variable::parse(text).map_err(|error| {
        Fault::new(
            Code::InvalidSecret,
            format!(
                "`{}` cannot be the name of a secret",
                text.escape_debug().take(MOST_SHOWN).collect::<String>()
            ),
            "a name is that of a variable, such as STRIPE_KEY",
        )
        .because(error)
    })?;
    Ok(name.to_string())
}
