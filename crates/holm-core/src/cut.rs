//! Truncates output to a number of bytes without splitting a UTF-8 character.

/// The most continuation bytes of a character.
const MOST_FOLLOWING: usize = 3;

/// At most the first `most` bytes.
pub fn beginning(bytes: &[u8], most: usize) -> &[u8] {
    if bytes.len() <= most {
        return bytes;
    }
    let following = (0..=MOST_FOLLOWING.min(most)).find(|back| !follows(bytes[most - back]));
    &bytes[..most - following.unwrap_or_default()]
}

/// At most the last `most` bytes.
pub fn end(bytes: &[u8], most: usize) -> &[u8] {
    let last = &bytes[bytes.len().saturating_sub(most)..];
    if last.len() == bytes.len() {
        return last;
    }
    let following = last.iter().take_while(|byte| follows(**byte)).count();
    match following {
        0..=MOST_FOLLOWING => &last[following..],
        // Not UTF-8 at all.
        _ => last,
    }
}

/// Drops bytes at the beginning until at most `most` are left.
pub fn keep_end(bytes: &mut Vec<u8>, most: usize) {
    let surplus = bytes.len() - end(bytes, most).len();
    bytes.drain(..surplus);
}

/// Whether the byte continues a character.
fn follows(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_is_cut() {
        let text = "aé€😀z";
        for most in 0..=text.len() + 1 {
            let first = std::str::from_utf8(beginning(text.as_bytes(), most)).unwrap();
            let last = std::str::from_utf8(end(text.as_bytes(), most)).unwrap();
            assert!(
                text.starts_with(first) && first.len() + MOST_FOLLOWING >= most.min(text.len())
            );
            assert!(text.ends_with(last) && last.len() + MOST_FOLLOWING >= most.min(text.len()));
        }
        assert_eq!(beginning(b"\x80\x80\x80\x80\x80\x80", 5).len(), 5);
        assert_eq!(end(b"\x80\x80\x80\x80\x80\x80", 5).len(), 5);
        let mut bytes = text.as_bytes().to_vec();
        keep_end(&mut bytes, 4);
        assert_eq!(bytes, b"z");
    }
}
