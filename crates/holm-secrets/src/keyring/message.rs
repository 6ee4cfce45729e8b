//! D-Bus messages, as far as a keyring needs them: written little-endian, read in either byte
//! order. Answers are checked while they are read: a length that does not fit is an error.

use zeroize::Zeroizing;

/// A keyring never needs a longer answer.
pub const LONGEST: usize = 256 * 1024;
/// The fixed-length part of a message header.
pub const START: usize = 16;

const PROTOCOL: u8 = 1;

mod field {
    pub const PATH: u8 = 1;
    pub const INTERFACE: u8 = 2;
    pub const MEMBER: u8 = 3;
    pub const ERROR_NAME: u8 = 4;
    pub const REPLY_SERIAL: u8 = 5;
    pub const DESTINATION: u8 = 6;
    pub const SIGNATURE: u8 = 8;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Call = 1,
    Answer = 2,
    Error = 3,
    Signal = 4,
}

/// A method call.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub destination: &'a str,
    pub path: &'a str,
    pub interface: &'a str,
    pub member: &'a str,
}

/// Serialises values with their alignment. Wiped when dropped, because it may contain a key.
#[derive(Default)]
pub struct Writer {
    bytes: Zeroizing<Vec<u8>>,
}

/// A received message.
pub struct Message {
    pub kind: Kind,
    pub path: String,
    pub member: String,
    pub error: String,
    pub answers: u32,
    body: Zeroizing<Vec<u8>>,
    order: Order,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    order: Order,
}

/// Not valid D-Bus, or longer than [`LONGEST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

// === impl Writer ===

impl Writer {
    pub fn u32(&mut self, number: u32) {
        self.align(4);
        self.bytes.extend(number.to_le_bytes());
    }

    pub fn flag(&mut self, is_set: bool) {
        self.u32(u32::from(is_set));
    }

    /// A string or an object path.
    pub fn text(&mut self, text: &str) {
        self.u32(text.len() as u32);
        self.bytes.extend(text.as_bytes());
        self.bytes.push(0);
    }

    pub fn signature(&mut self, text: &str) {
        self.bytes.push(text.len() as u8);
        self.bytes.extend(text.as_bytes());
        self.bytes.push(0);
    }

    pub fn octets(&mut self, octets: &[u8]) {
        self.u32(octets.len() as u32);
        self.bytes.extend(octets);
    }

    /// An array whose elements `fill` writes, each aligned to `align`.
    pub fn array(&mut self, align: usize, fill: impl FnOnce(&mut Self)) {
        self.u32(0);
        let length_at = self.bytes.len() - 4;
        self.align(align);
        let begin = self.bytes.len();
        fill(self);
        let length = (self.bytes.len() - begin) as u32;
        self.bytes[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
    }

    /// Aligns for a structure or a dictionary entry.
    pub fn structure(&mut self) {
        self.align(8);
    }

    fn align(&mut self, to: usize) {
        let length = self.bytes.len().next_multiple_of(to);
        self.bytes.resize(length, 0);
    }

    fn field(&mut self, code: u8, signature: &str, text: &str) {
        self.structure();
        self.bytes.push(code);
        self.signature(signature);
        match signature {
            "g" => self.signature(text),
            _ => self.text(text),
        }
    }
}

impl Call<'_> {
    /// The complete message, with a body of this signature.
    pub fn message(&self, serial: u32, signature: &str, body: &Writer) -> Zeroizing<Vec<u8>> {
        let mut message = Writer::default();
        message.bytes.extend([b'l', Kind::Call as u8, 0, PROTOCOL]);
        message.u32(body.bytes.len() as u32);
        message.u32(serial);
        message.array(8, |fields| {
            fields.field(field::PATH, "o", self.path);
            fields.field(field::INTERFACE, "s", self.interface);
            fields.field(field::MEMBER, "s", self.member);
            fields.field(field::DESTINATION, "s", self.destination);
            if !signature.is_empty() {
                fields.field(field::SIGNATURE, "g", signature);
            }
        });
        message.structure();
        // Allocated once: a vector that grows would leave an unwiped copy behind.
        let mut whole = Zeroizing::new(Vec::with_capacity(message.bytes.len() + body.bytes.len()));
        whole.extend_from_slice(&message.bytes);
        whole.extend_from_slice(&body.bytes);
        whole
    }
}

// === impl Message ===

impl Message {
    /// How many bytes follow the fixed-length part.
    pub fn rest(start: &[u8; START]) -> Result<usize, Malformed> {
        let mut reader = Reader {
            bytes: start,
            at: 4,
            order: Order::of(start[0])?,
        };
        let body = reader.u32()? as usize;
        reader.u32()?;
        let fields = reader.u32()? as usize;
        if body <= LONGEST && fields <= LONGEST && start[3] == PROTOCOL {
            Ok(fields.next_multiple_of(8) + body)
        } else {
            Err(Malformed)
        }
    }

    pub fn parse(start: &[u8; START], rest: &[u8]) -> Result<Self, Malformed> {
        let order = Order::of(start[0])?;
        let kind = match start[1] {
            2 => Kind::Answer,
            3 => Kind::Error,
            4 => Kind::Signal,
            _ => Kind::Call,
        };
        let mut lengths = Reader {
            bytes: start,
            at: 12,
            order,
        };
        let end = lengths.u32()? as usize;
        let body = rest.get(end.next_multiple_of(8)..).ok_or(Malformed)?;
        let mut message = Self {
            kind,
            path: String::new(),
            member: String::new(),
            error: String::new(),
            answers: 0,
            body: Zeroizing::new(body.to_vec()),
            order,
        };
        let mut fields = Reader {
            bytes: rest.get(..end).ok_or(Malformed)?,
            at: 0,
            order,
        };
        while fields.at < end {
            fields.align(8)?;
            let code = fields.octet()?;
            let signature = fields.signature()?;
            match (code, signature.as_str()) {
                (field::REPLY_SERIAL, "u") => message.answers = fields.u32()?,
                (_, "u") => drop(fields.u32()?),
                (_, "g") => drop(fields.signature()?),
                (code, "s" | "o") => {
                    let text = fields.text()?;
                    match code {
                        field::PATH => message.path = text,
                        field::MEMBER => message.member = text,
                        field::ERROR_NAME => message.error = text,
                        _ => {}
                    }
                }
                _ => return Err(Malformed),
            }
        }
        Ok(message)
    }

    pub fn body(&self) -> Reader<'_> {
        Reader {
            bytes: &self.body,
            at: 0,
            order: self.order,
        }
    }
}

impl Order {
    fn of(byte: u8) -> Result<Self, Malformed> {
        match byte {
            b'l' => Ok(Self::Little),
            b'B' => Ok(Self::Big),
            _ => Err(Malformed),
        }
    }
}

// === impl Reader ===

impl<'a> Reader<'a> {
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.align(4)?;
        let bytes = self.take(4)?.try_into().map_err(|_| Malformed)?;
        Ok(match self.order {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        })
    }

    pub fn flag(&mut self) -> Result<bool, Malformed> {
        Ok(self.u32()? != 0)
    }

    pub fn text(&mut self) -> Result<String, Malformed> {
        let length = self.u32()? as usize;
        let text = self.take(length)?.to_vec();
        self.take(1)?;
        String::from_utf8(text).map_err(|_| Malformed)
    }

    pub fn signature(&mut self) -> Result<String, Malformed> {
        let length = usize::from(self.octet()?);
        let text = self.take(length)?.to_vec();
        self.take(1)?;
        String::from_utf8(text).map_err(|_| Malformed)
    }

    pub fn octets(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.u32()? as usize;
        self.take(length)
    }

    pub fn texts(&mut self) -> Result<Vec<String>, Malformed> {
        let length = self.u32()? as usize;
        let end = self.at.checked_add(length).ok_or(Malformed)?;
        let mut texts = Vec::new();
        while self.at < end {
            texts.push(self.text()?);
        }
        Ok(texts)
    }

    pub fn structure(&mut self) -> Result<(), Malformed> {
        self.align(8)
    }

    fn octet(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    fn align(&mut self, to: usize) -> Result<(), Malformed> {
        let next = self.at.next_multiple_of(to);
        if next <= self.bytes.len() {
            self.at = next;
            Ok(())
        } else {
            Err(Malformed)
        }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let end = self.at.checked_add(count).ok_or(Malformed)?;
        let taken = self.bytes.get(self.at..end).ok_or(Malformed)?;
        self.at = end;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn call() -> Call<'static> {
        Call {
            destination: "test.Name",
            path: "/a",
            interface: "test.Interface",
            member: "Do",
        }
    }

    #[test]
    fn what_is_written_is_read_the_same() {
        let mut body = Writer::default();
        body.text("one");
        body.array(8, |entries| {
            for (name, value) in [("a", "1"), ("bc", "23")] {
                entries.structure();
                entries.text(name);
                entries.text(value);
            }
        });
        body.octets(b"\0\x01\xff");
        body.flag(true);
        let bytes = call().message(7, "sa{ss}ayb", &body);
        let (start, rest) = bytes.split_first_chunk::<START>().unwrap();
        assert_eq!(Message::rest(start), Ok(rest.len()));
        let message = Message::parse(start, rest).unwrap();
        assert_eq!(
            (message.path.as_str(), message.member.as_str()),
            ("/a", "Do")
        );
        let mut reader = message.body();
        assert_eq!(reader.text().unwrap(), "one");
        let length = reader.u32().unwrap();
        assert!(length > 0);
        for (name, value) in [("a", "1"), ("bc", "23")] {
            reader.structure().unwrap();
            assert_eq!(reader.text().unwrap(), name);
            assert_eq!(reader.text().unwrap(), value);
        }
        assert_eq!(reader.octets().unwrap(), b"\0\x01\xff");
        assert_eq!(reader.flag(), Ok(true));
        assert_eq!(reader.u32(), Err(Malformed));
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_or_refused(
            start in proptest::array::uniform16(any::<u8>()),
            rest in proptest::collection::vec(any::<u8>(), 0..200),
            at in 0usize..100, byte in any::<u8>(),
        ) {
            let read = |start: &[u8; START], rest: &[u8]| {
                let length = Message::rest(start);
                prop_assert!(length.is_err() || length.unwrap() <= 3 * LONGEST);
                if let Ok(message) = Message::parse(start, rest) {
                    let mut reader = message.body();
                    let _ = (reader.text(), reader.texts(), reader.octets().map(<[u8]>::len));
                }
                Ok(())
            };
            read(&start, &rest)?;
            let mut bytes = call().message(7, "", &Writer::default()).to_vec();
            let place = at % bytes.len();
            bytes[place] = byte;
            let (start, rest) = bytes.split_first_chunk::<START>().unwrap();
            read(start, rest)?;
        }
    }
}
