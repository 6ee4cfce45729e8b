//! Quotes text for git's small file formats: config values, ignore lines, alternates. Used by the
//! seed of a workspace and by commands that name object directories.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// A config value in double quotes.
pub(crate) fn config_value(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            // A config file cannot contain NUL, and no user setting does.
            '\0' => {}
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// A quoted subsection name; `None` if the format cannot express it.
pub(crate) fn config_subsection(text: &str) -> Option<String> {
    if text.is_empty() || text.contains(['\n', '\0']) {
        return None;
    }
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    Some(format!("\"{escaped}\""))
}

/// A line for `info/exclude` that matches exactly `path` (relative to the root); `None` if the
/// format cannot express it.
pub(crate) fn ignore_line(path: &str) -> Option<String> {
    let path = path.trim_start_matches('/');
    if path.is_empty() || path.contains(['\n', '\0']) {
        return None;
    }
    let mut line = String::from("/");
    for character in path.chars() {
        // Trailing blanks would be cut off, so all blanks are escaped.
        if matches!(character, '\\' | '*' | '?' | '[' | ' ' | '\t' | '\r') {
            line.push('\\');
        }
        line.push(character);
    }
    Some(line)
}

/// An object directory for `GIT_ALTERNATE_OBJECT_DIRECTORIES`, where `:` is the separator.
pub(crate) fn alternate(path: &Path) -> OsString {
    let bytes = path.as_os_str().as_bytes();
    let is_plain = !bytes.contains(&b':') && !bytes.contains(&b'\n') && !bytes.starts_with(b"\"");
    if is_plain {
        return path.as_os_str().to_owned();
    }
    let mut quoted = vec![b'"'];
    for byte in bytes {
        match byte {
            b'"' | b'\\' => quoted.extend([b'\\', *byte]),
            b'\n' => quoted.extend(b"\\n"),
            other => quoted.push(*other),
        }
    }
    quoted.push(b'"');
    OsString::from_vec(quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_mean_something_are_escaped() {
        assert_eq!(config_value("a \"b\" \\ #;\n"), r##""a \"b\" \\ #;\n""##);
        assert_eq!(config_subsection("o\"x").as_deref(), Some("\"o\\\"x\""));
        assert_eq!(config_subsection("a\nb"), None);
        assert_eq!(ignore_line("!a*/b ").as_deref(), Some("/!a\\*/b\\ "));
        assert_eq!(ignore_line("a\nb"), None);
        assert_eq!(alternate(Path::new("/a b")), "/a b");
        assert_eq!(alternate(Path::new("/a:b\\")), "\"/a:b\\\\\"");
    }
}
