//! A Dockerfile: the port that it exposes and the command that it starts. The image itself is not built.

use super::command::words;
use super::directory::{Directory, quoted};

pub struct Dockerfile {
    /// The path of the file.
    pub file: String,
    pub port: Option<u16>,
    /// Its last `CMD`, for a shell.
    pub command: Option<String>,
}

const NAMES: [&str; 3] = ["Dockerfile.dev", "Dockerfile", "Containerfile"];

// === impl Dockerfile ===

impl Dockerfile {
    pub fn of(directory: Directory<'_>) -> Option<Self> {
        let name = directory.first(&NAMES)?;
        let text = directory.text(name)?.replace("\\\n", " ");
        let mut dockerfile = Self {
            file: directory.path(name),
            port: None,
            command: None,
        };
        for line in text.lines() {
            let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
            match word.to_ascii_uppercase().as_str() {
                // Only the last stage runs.
                "FROM" => (dockerfile.port, dockerfile.command) = (None, None),
                "EXPOSE" => dockerfile.port = dockerfile.port.or(exposed(rest)),
                "CMD" => dockerfile.command = command(rest),
                _ => {}
            }
        }
        Some(dockerfile)
    }
}

/// The first port of `EXPOSE 8000/tcp 9000`. Ports below 1024 belong to a server in front.
fn exposed(text: &str) -> Option<u16> {
    let mut ports = text.split_whitespace().filter_map(|word| {
        let number = word.strip_suffix("/tcp").unwrap_or(word);
        number.parse().ok()
    });
    ports.find(|port| *port >= 1024)
}

/// `["a", "b c"]` as words for a shell, or a line for a shell.
fn command(text: &str) -> Option<String> {
    let text = text.trim();
    let listed = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let line = match listed {
        Some(listed) => {
            let items = listed
                .split(',')
                .map(|item| item.trim().trim_matches(['"', '\'']));
            items.map(quoted).collect::<Vec<_>>().join(" ")
        }
        None => text.to_owned(),
    };
    (!words(&line).is_empty()).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_commands() {
        assert_eq!(exposed("80 8000/tcp"), Some(8000));
        assert_eq!(exposed("$PORT"), None);
        assert_eq!(
            command(r#"["node", "a b.js"]"#).as_deref(),
            Some("node 'a b.js'")
        );
        assert_eq!(command("npm start").as_deref(), Some("npm start"));
        assert_eq!(command(""), None);
    }
}
