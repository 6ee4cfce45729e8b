//! Named keys, as in tmux, and the bytes that a terminal sends for them. Called by the keeper,
//! which knows the modes that the program set, and by the CLI to refuse unknown keys.

/// Whether the program switched the arrow keys to application mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorKeys {
    Normal,
    Application,
}

/// The bytes of a key; `None` for an unknown one.
pub fn bytes(name: &str, cursor_keys: CursorKeys) -> Option<Vec<u8>> {
    if let Some(rest) = name.strip_prefix("M-") {
        let mut bytes = vec![0x1b];
        bytes.extend(self::bytes(rest, cursor_keys).or_else(|| one(rest))?);
        return Some(bytes);
    }
    if let Some(rest) = name.strip_prefix("C-") {
        return control(rest).map(|byte| vec![byte]);
    }
    let cursor = |letter: char| match cursor_keys {
        CursorKeys::Normal => format!("\u{1b}[{letter}"),
        CursorKeys::Application => format!("\u{1b}O{letter}"),
    };
    let text = match name.to_ascii_lowercase().as_str() {
        "enter" | "return" => "\r".to_owned(),
        "escape" | "esc" => "\u{1b}".to_owned(),
        "tab" => "\t".to_owned(),
        "btab" | "backtab" => "\u{1b}[Z".to_owned(),
        "space" => " ".to_owned(),
        "backspace" | "bspace" => "\u{7f}".to_owned(),
        "up" => cursor('A'),
        "down" => cursor('B'),
        "right" => cursor('C'),
        "left" => cursor('D'),
        "home" => cursor('H'),
        "end" => cursor('F'),
        "insert" | "ic" => "\u{1b}[2~".to_owned(),
        "delete" | "dc" => "\u{1b}[3~".to_owned(),
        "pageup" | "ppage" => "\u{1b}[5~".to_owned(),
        "pagedown" | "npage" => "\u{1b}[6~".to_owned(),
        "f1" => "\u{1b}OP".to_owned(),
        "f2" => "\u{1b}OQ".to_owned(),
        "f3" => "\u{1b}OR".to_owned(),
        "f4" => "\u{1b}OS".to_owned(),
        "f5" => "\u{1b}[15~".to_owned(),
        "f6" => "\u{1b}[17~".to_owned(),
        "f7" => "\u{1b}[18~".to_owned(),
        "f8" => "\u{1b}[19~".to_owned(),
        "f9" => "\u{1b}[20~".to_owned(),
        "f10" => "\u{1b}[21~".to_owned(),
        "f11" => "\u{1b}[23~".to_owned(),
        "f12" => "\u{1b}[24~".to_owned(),
        _ => return None,
    };
    Some(text.into_bytes())
}

/// A single character.
fn one(text: &str) -> Option<Vec<u8>> {
    let mut characters = text.chars();
    let character = characters.next().filter(|one| !one.is_control())?;
    characters
        .next()
        .is_none()
        .then(|| character.to_string().into_bytes())
}

fn control(text: &str) -> Option<u8> {
    let [byte] = text.as_bytes() else {
        return text.eq_ignore_ascii_case("space").then_some(0);
    };
    match byte.to_ascii_uppercase() {
        letter @ b'@'..=b'_' => Some(letter & 0x1f),
        b'?' => Some(0x7f),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_what_a_terminal_sends() {
        let check = |name: &str, expect: Option<&str>| {
            let found = bytes(name, CursorKeys::Normal);
            assert_eq!(found, expect.map(|text| text.as_bytes().to_vec()), "{name}");
        };
        check("Enter", Some("\r"));
        check("C-c", Some("\u{3}"));
        check("C-C", Some("\u{3}"));
        check("C-\\", Some("\u{1c}"));
        check("C-Space", Some("\0"));
        check("M-x", Some("\u{1b}x"));
        check("M-Enter", Some("\u{1b}\r"));
        check("Up", Some("\u{1b}[A"));
        check("f12", Some("\u{1b}[24~"));
        for wrong in ["", "C-", "C-ab", "C-é", "M-", "M-ab", "Upp", "x", "M-\n"] {
            check(wrong, None);
        }
        let up = bytes("Up", CursorKeys::Application);
        assert_eq!(up.as_deref(), Some("\u{1b}OA".as_bytes()));
    }
}
