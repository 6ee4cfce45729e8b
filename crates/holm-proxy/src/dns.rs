//! Parses DNS questions and builds answers. The message comes from the workspace and is hostile:
//! every read is bounds-checked, compression pointers in names are refused, and a message that is
//! not a single question is dropped.

use std::net::IpAddr;

const HEADER: usize = 12;
const LONGEST_NAME: usize = 255;
const LONGEST_LABEL: u8 = 63;

const KIND_A: u16 = 1;
const KIND_AAAA: u16 = 28;
const CLASS_INTERNET: u16 = 1;

const IS_ANSWER: u8 = 0x80;
const OPERATION: u8 = 0x78;
const RECURSION_DESIRED: u8 = 0x01;
const RECURSION_AVAILABLE: u8 = 0x80;

/// A compression pointer to the name in the question section.
const AT_QUESTION: [u8; 2] = [0xc0, HEADER as u8];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Good = 0,
    Malformed = 1,
    Failed = 2,
    NoSuchName = 3,
    NotSupported = 4,
    Refused = 5,
}

/// The record type in the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    V4,
    V6,
    /// Any other record type; the answer to it is empty.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// As the client wrote it. Bytes that cannot occur in a host name are escaped with `\`.
    pub name: String,
    pub kind: Kind,
    id: [u8; 2],
    recursion: u8,
    /// The question section, byte for byte, to repeat in the answer.
    raw: Vec<u8>,
}

/// The result of parsing one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    Question(Question),
    /// A complete error reply that needs no lookup.
    Answer(Vec<u8>),
    /// Drop the message without a reply.
    Nothing,
}

/// Parses one message. Sections after the question (EDNS) are ignored.
pub fn read(message: &[u8]) -> Read {
    let Some(header) = message.first_chunk::<HEADER>() else {
        return Read::Nothing;
    };
    if header[2] & IS_ANSWER != 0 {
        return Read::Nothing;
    }
    let id = [header[0], header[1]];
    let recursion = header[2] & RECURSION_DESIRED;
    let failure = |code| Read::Answer(bare(id, recursion, code));
    if header[2] & OPERATION != 0 {
        return failure(Code::NotSupported);
    }
    if [header[4], header[5]] != [0, 1] {
        return failure(Code::Malformed);
    }
    let Some((name, length)) = read_name(&message[HEADER..]) else {
        return failure(Code::Malformed);
    };
    let end = HEADER + length;
    let Some(&[kind_high, kind_low, class_high, class_low]) = message.get(end..end + 4) else {
        return failure(Code::Malformed);
    };
    if u16::from_be_bytes([class_high, class_low]) != CLASS_INTERNET {
        return failure(Code::Refused);
    }
    Read::Question(Question {
        name,
        kind: match u16::from_be_bytes([kind_high, kind_low]) {
            KIND_A => Kind::V4,
            KIND_AAAA => Kind::V6,
            _ => Kind::Other,
        },
        id,
        recursion,
        raw: message[HEADER..end + 4].to_vec(),
    })
}

/// Reads an uncompressed name and returns it with its length in bytes.
fn read_name(bytes: &[u8]) -> Option<(String, usize)> {
    let mut name = String::new();
    let mut at = 0;
    loop {
        let length = *bytes.get(at)?;
        at += 1;
        if length == 0 {
            break;
        }
        if length > LONGEST_LABEL || at + usize::from(length) >= LONGEST_NAME {
            return None;
        }
        let label = bytes.get(at..at + usize::from(length))?;
        at += usize::from(length);
        if !name.is_empty() {
            name.push('.');
        }
        for byte in label {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => name.push(*byte as char),
                other => name.push_str(&format!("\\{other:03}")),
            }
        }
    }
    Some((name, at))
}

fn bare(id: [u8; 2], recursion: u8, code: Code) -> Vec<u8> {
    let flags = [IS_ANSWER | recursion, RECURSION_AVAILABLE | code as u8];
    [id, flags, [0, 0], [0, 0], [0, 0], [0, 0]].concat()
}

// === impl Question ===

impl Question {
    /// Builds the reply. Addresses of the other family than the one asked for are left out.
    pub fn answer(&self, code: Code, addresses: &[IpAddr], seconds: u32) -> Vec<u8> {
        let mut message = bare(self.id, self.recursion, code);
        message[5] = 1;
        message.extend(&self.raw);
        let mut count = 0u8;
        for address in addresses {
            let (kind, octets) = match (self.kind, address) {
                (Kind::V4, IpAddr::V4(address)) => (KIND_A, address.octets().to_vec()),
                (Kind::V6, IpAddr::V6(address)) => (KIND_AAAA, address.octets().to_vec()),
                _ => continue,
            };
            message.extend(AT_QUESTION);
            message.extend(kind.to_be_bytes());
            message.extend(CLASS_INTERNET.to_be_bytes());
            message.extend(seconds.to_be_bytes());
            message.extend((octets.len() as u16).to_be_bytes());
            message.extend(octets);
            count += 1;
        }
        message[7] = count;
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn question(labels: &[&[u8]], kind: u16) -> Vec<u8> {
        let mut message = vec![7, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in labels {
            message.push(label.len() as u8);
            message.extend(*label);
        }
        message.push(0);
        message.extend(kind.to_be_bytes());
        message.extend([0, 1]);
        message
    }

    fn read_question(message: &[u8]) -> Question {
        match read(message) {
            Read::Question(question) => question,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_question_is_read_and_answered() {
        let question = read_question(&question(&[b"WWW", b"example", b"test"], 1));
        assert_eq!(question.name, "WWW.example.test");
        let addresses = ["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
        let answer = question.answer(Code::Good, &addresses, 30);
        assert_eq!(answer[..8], [7, 9, 0x81, 0x80, 0, 1, 0, 1]);
        assert_eq!(answer[answer.len() - 4..], [192, 0, 2, 1]);
        assert_eq!(question.answer(Code::NoSuchName, &[], 30)[3], 0x83);
    }

    #[test]
    fn bytes_that_no_name_has_are_seen() {
        for label in [
            b"a.b".as_slice(),
            b"a\0b",
            b"a\rb",
            b"a\\b",
            b"a b",
            "ä".as_bytes(),
        ] {
            let question = read_question(&question(&[label, b"test"], 28));
            assert!(question.name.contains('\\'), "{}", question.name);
        }
    }

    #[test]
    fn what_is_no_question_is_not_looked_at() {
        assert_eq!(read(b""), Read::Nothing);
        assert_eq!(read(&[0; 11]), Read::Nothing);
        let mut answer = question(&[b"a", b"test"], 1);
        answer[2] |= IS_ANSWER;
        assert_eq!(read(&answer), Read::Nothing);
        let code = |message: &[u8]| match read(message) {
            Read::Answer(answer) => answer[3] & 15,
            other => panic!("{other:?}"),
        };
        let good = question(&[b"a", b"test"], 1);
        let mut two = good.clone();
        two[5] = 2;
        assert_eq!(code(&two), Code::Malformed as u8);
        let mut update = good.clone();
        update[2] |= 5 << 3;
        assert_eq!(code(&update), Code::NotSupported as u8);
        let mut pointer = good.clone();
        pointer[12] = 0xc0;
        assert_eq!(code(&pointer), Code::Malformed as u8);
        let mut chaos = good.clone();
        *chaos.last_mut().unwrap() = 3;
        assert_eq!(code(&chaos), Code::Refused as u8);
        for length in HEADER..good.len() {
            assert_eq!(code(&good[..length]), Code::Malformed as u8);
        }
        let long = vec![b"a".repeat(63); 5];
        let long: Vec<&[u8]> = long.iter().map(Vec::as_slice).collect();
        assert_eq!(code(&question(&long, 1)), Code::Malformed as u8);
    }

    proptest! {
        #[test]
        fn any_message_is_read_without_a_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..600),
        ) {
            if let Read::Question(question) = read(&bytes) {
                prop_assert!(question.name.len() <= 4 * 255);
                let answer = question.answer(Code::Good, &[], 1);
                prop_assert!(answer.len() <= 300);
            }
        }

        #[test]
        fn a_question_that_was_cut_or_changed_is_read_without_a_panic(
            labels in proptest::collection::vec("[a-z]{1,63}", 1..5),
            at in 0usize..300,
            byte: u8,
        ) {
            let labels: Vec<&[u8]> = labels.iter().map(|label| label.as_bytes()).collect();
            let mut message = question(&labels, 1);
            if let Some(place) = message.get_mut(at) {
                *place = byte;
            }
            read(&message);
            message.truncate(at);
            read(&message);
        }
    }
}
