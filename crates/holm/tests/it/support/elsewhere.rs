//! A modified machine: another mount here, a switch off there. In separate namespaces that end with
//! the script, made by the ordinary user, so the host is unchanged.

use super::user::program;
use super::{Island, Ran};
use std::path::Path;

/// `holm` has no capability, as on the host, while the script around it may mount and set switches.
const AROUND: &str = r#"set -u
holm() { setpriv --inh-caps=-all --ambient-caps=-all -- "$HOLM_PROGRAM" "$@"; }
"#;

// === impl Island ===

impl Island {
    /// Runs a shell script in which `holm` is the program, and the rest is up to the script.
    pub fn elsewhere(&self, directory: &Path, script: &str) -> Ran {
        let mut command = self.command("unshare", directory);
        command
            .args(["--map-current-user", "--keep-caps", "--mount", "--"])
            .args(["sh", "-c", &format!("{AROUND}{script}")])
            .env("HOLM_PROGRAM", program());
        Ran::new(&mut command)
    }
}
