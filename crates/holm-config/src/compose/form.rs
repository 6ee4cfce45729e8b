//! Forms of single values: flags, sizes, durations, command lines and paths.

use holm_core::config::parse_duration;

/// `true`, or one of the other words that YAML 1.1 has for it.
pub fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "y" | "1" => Some(true),
        "false" | "no" | "off" | "n" | "0" => Some(false),
        _ => None,
    }
}

/// Bytes of `1024`, `64m`, `1.5gb`: powers of 1024.
pub fn size(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let power = match unit.trim() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 1,
        "m" | "mb" | "mib" => 2,
        "g" | "gb" | "gib" => 3,
        "t" | "tb" | "tib" => 4,
        _ => return None,
    };
    let number: f64 = number.parse().ok()?;
    let bytes = number * 1024_f64.powi(power);
    (bytes.is_finite() && bytes < 1e18).then_some(bytes as u64)
}

/// Milliseconds of `1h5m30s20ms`, `1.5s` or `0`.
pub fn duration(text: &str) -> Option<u64> {
    if text
        .trim_start_matches('0')
        .trim_end_matches(['s', 'm', 'h'])
        .is_empty()
        && text.starts_with('0')
    {
        return Some(0);
    }
    if let Some((whole, fraction)) = text.strip_suffix('s').and_then(|text| text.split_once('.')) {
        let is_number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let seconds: f64 = format!("{whole}.{fraction}").parse().ok()?;
        return (is_number(whole) && is_number(fraction)).then_some((seconds * 1000.0) as u64);
    }
    if let Some(micros) = text
        .strip_suffix("us")
        .and_then(|text| text.parse::<u64>().ok())
    {
        return Some(micros / 1000);
    }
    u64::try_from(parse_duration(text).ok()?.as_millis()).ok()
}

/// The words of a command line, with the quotes and backslashes of a shell but nothing else of it.
pub fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (Some('"'), '\\') => {
                let escaped = characters.next()?;
                let word = word.get_or_insert_default();
                if !['"', '\\', '$', '`'].contains(&escaped) {
                    word.push('\\');
                }
                word.push(escaped);
            }
            (Some(_), inside) => word.get_or_insert_default().push(inside),
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, '\\') => word.get_or_insert_default().push(characters.next()?),
            (None, blank) if blank.is_whitespace() => words.extend(word.take()),
            (None, other) => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

/// Whether a text names something on another machine.
pub fn is_remote(text: &str) -> bool {
    let schemes = ["git@", "github.com/", "oci:", "docker-image:"];
    text.contains("://") || schemes.iter().any(|scheme| text.starts_with(scheme))
}

/// A path as the files of the project mean it: relative to the root if it is below it, otherwise absolute,
/// from `~`, or with leading `..`.
pub fn resolve(root: &str, base: &str, path: &str) -> String {
    if is_remote(path) || path.starts_with('~') {
        return path.to_owned();
    }
    let below = path.strip_prefix(root.trim_end_matches('/'));
    match below.filter(|below| below.is_empty() || below.starts_with('/')) {
        Some(below) if !root.is_empty() => normal("", below),
        _ if path.starts_with('/') => match normal("", path).as_str() {
            "." => "/".to_owned(),
            // An absolute path may come back to the root through `..`.
            clean => match format!("/{clean}")
                .strip_prefix(&format!("{}/", root.trim_end_matches('/')))
            {
                Some(below) => below.to_owned(),
                None => format!(
                    "/{}",
                    clean.trim_start_matches("../").trim_start_matches("..")
                ),
            },
        },
        _ if base.starts_with(['/', '~']) => format!("{base}/{path}"),
        _ => normal(base, path),
    }
}

/// Joins two relative paths and removes `.` and `..` where that is possible.
fn normal(base: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in base.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    if parts.is_empty() {
        ".".to_owned()
    } else {
        parts.join("/")
    }
}

/// Whether a resolved path leaves the project's root.
pub fn is_outside(path: &str) -> bool {
    path.starts_with(['/', '~']) || path == ".." || path.starts_with("../") || is_remote(path)
}

/// The directory of a resolved path.
pub fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or(".", |(parent, _)| parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations() {
        for (text, bytes) in [
            ("1024", 1024),
            ("64m", 64 << 20),
            ("1.5GB", 3 << 29),
            ("2 kb", 2048),
            ("10b", 10),
        ] {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for text in ["", "x", "1x", "-1", "1.2.3", "9999999999t"] {
            assert_eq!(size(text), None, "{text}");
        }
        for (text, ms) in [
            ("1h5m30s20ms", 3_930_020),
            ("10s", 10_000),
            ("1.5s", 1500),
            ("0s", 0),
            ("0", 0),
            ("2000us", 2),
        ] {
            assert_eq!(duration(text), Some(ms), "{text}");
        }
        for text in ["", "x", "10", "1.s", "-1s"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn command_lines() {
        let check = |line: &str, expect: Option<&[&str]>| {
            let words = words(line);
            assert_eq!(
                words.as_deref(),
                expect
                    .map(|it| it.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>())
                    .as_deref(),
                "{line}"
            );
        };
        check("", Some(&[]));
        check("a  b", Some(&["a", "b"]));
        check("sh -c 'echo \"x y\"'", Some(&["sh", "-c", "echo \"x y\""]));
        check("\"a\\\"b\\n\" c\\ d ''", Some(&["a\"b\\n", "c d", ""]));
        check("'open", None);
        check("end\\", None);
    }

    #[test]
    fn paths_stay_below_the_root_or_say_so() {
        let check = |base: &str, path: &str, expect: &str| {
            assert_eq!(resolve("/home/me/shop", base, path), expect, "{path}")
        };
        check("", "./a/../b", "b");
        check("", ".", ".");
        check("app", "..", ".");
        check("app", "../../x", "../x");
        check("", "/etc/passwd", "/etc/passwd");
        check("", "/home/me/shop/a", "a");
        check("", "/home/me/shop", ".");
        check("", "/home/me/shop/../x", "../x");
        check("", "/home/me/shopping", "/home/me/shopping");
        check("", "/home/me/x/../shop/a", "a");
        check("", "/../etc", "/etc");
        check("", "~/x", "~/x");
        check("../lib", "x", "../lib/x");
        for outside in [
            "/",
            "~",
            "~me/x",
            "..",
            "../x",
            "https://example.org/x.git",
            "git@example.org:x",
        ] {
            assert!(
                is_outside(&resolve("/home/me/shop", "", outside)),
                "{outside}"
            );
        }
        for inside in ["a", "./..a", "a/../b", "/home/me/shop/x"] {
            assert!(
                !is_outside(&resolve("/home/me/shop", "", inside)),
                "{inside}"
            );
        }
    }
}
