//! A connection to the user's message bus. Everything ends by a deadline, whoever does not answer.

use super::KeyringError;
use super::message::{Call, Kind, Malformed, Message, START, Writer};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::net::{connect, socket_with, sockopt};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

const BUS: &str = "org.freedesktop.DBus";
/// An answer to the greeting is a short line.
const LONGEST_LINE: usize = 1024;

pub struct Bus {
    stream: UnixStream,
    serial: u32,
    deadline: Instant,
}

// === impl Bus ===

impl Bus {
    /// To the first of the addresses that can be reached.
    pub fn connect(addresses: &str, deadline: Instant) -> Result<Self, KeyringError> {
        let mut last = KeyringError::Absent(format!("no address in `{addresses}` can be used"));
        for address in addresses.split(';').filter_map(unix_address) {
            let opened = address
                .map_err(io::Error::from)
                .and_then(|address| open(&address, deadline));
            match opened {
                Ok(stream) => {
                    let mut bus = Self {
                        stream,
                        serial: 0,
                        deadline,
                    };
                    bus.greet()?;
                    let hello = Call {
                        destination: BUS,
                        path: "/org/freedesktop/DBus",
                        interface: BUS,
                        member: "Hello",
                    };
                    bus.call(hello, "", &Writer::default())?;
                    return Ok(bus);
                }
                Err(error) => last = KeyringError::Absent(format!("the message bus: {error}")),
            }
        }
        Err(last)
    }

    /// Calls and waits for the answer; whatever else comes meanwhile is nothing to us.
    pub fn call(
        &mut self,
        call: Call<'_>,
        signature: &str,
        body: &Writer,
    ) -> Result<Message, KeyringError> {
        self.serial += 1;
        let serial = self.serial;
        let bytes = call.message(serial, signature, body);
        self.write(&bytes)?;
        loop {
            let message = self.next()?;
            if message.answers != serial {
                continue;
            }
            match message.kind {
                Kind::Answer => return Ok(message),
                Kind::Error => return Err(KeyringError::named(&message.error)),
                Kind::Call | Kind::Signal => {}
            }
        }
    }

    /// Waits for a signal of an object.
    pub fn signal(&mut self, path: &str, member: &str) -> Result<Message, KeyringError> {
        loop {
            let message = self.next()?;
            let is_it = message.path == path && message.member == member;
            if message.kind == Kind::Signal && is_it {
                return Ok(message);
            }
        }
    }

    /// From now on signals of this kind come here.
    pub fn listen(&mut self, rule: &str) -> Result<(), KeyringError> {
        let call = Call {
            destination: BUS,
            path: "/org/freedesktop/DBus",
            interface: BUS,
            member: "AddMatch",
        };
        let mut body = Writer::default();
        body.text(rule);
        self.call(call, "s", &body).map(drop)
    }

    /// Says who we are, which the kernel vouches for.
    fn greet(&mut self) -> Result<(), KeyringError> {
        let user = rustix::process::geteuid().as_raw().to_string();
        let user: String = user.bytes().map(|digit| format!("{digit:02x}")).collect();
        self.write(format!("\0AUTH EXTERNAL {user}\r\n").as_bytes())?;
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.read(&mut byte)?;
            line.extend(byte);
            if line.len() > LONGEST_LINE {
                return Err(Malformed.into());
            }
        }
        match line.starts_with(b"OK ") {
            true => self.write(b"BEGIN\r\n"),
            false => Err(KeyringError::Absent(
                "the message bus does not let us in".to_owned(),
            )),
        }
    }

    fn next(&mut self) -> Result<Message, KeyringError> {
        let mut start = [0; START];
        self.read(&mut start)?;
        let mut rest = Zeroizing::new(vec![0; Message::rest(&start)?]);
        self.read(&mut rest)?;
        Ok(Message::parse(&start, &rest)?)
    }

    fn read(&mut self, mut into: &mut [u8]) -> Result<(), KeyringError> {
        while !into.is_empty() {
            self.stream.set_read_timeout(Some(self.left()?))?;
            match self.stream.read(into) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(length) => into = &mut into[length..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), KeyringError> {
        while !bytes.is_empty() {
            self.stream.set_write_timeout(Some(self.left()?))?;
            match self.stream.write(bytes) {
                Ok(length) => bytes = &bytes[length..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn left(&self) -> Result<Duration, KeyringError> {
        left(self.deadline).ok_or(KeyringError::Slow)
    }
}

fn left(deadline: Instant) -> Option<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    (!left.is_zero()).then_some(left)
}

/// A socket whose listener does not take connections is not waited for either.
fn open(address: &SocketAddrUnix, deadline: Instant) -> io::Result<UnixStream> {
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let left = left(deadline).ok_or(io::ErrorKind::TimedOut)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(left))?;
    connect(&socket, address)?;
    Ok(UnixStream::from(socket))
}

/// `unix:path=…,guid=…`; `None`: of a kind that leads elsewhere.
fn unix_address(text: &str) -> Option<rustix::io::Result<SocketAddrUnix>> {
    let fields = text.strip_prefix("unix:")?.split(',');
    for (name, value) in fields.filter_map(|field| field.split_once('=')) {
        let value = unescaped(value)?;
        match name {
            "path" => return Some(SocketAddrUnix::new(value)),
            "abstract" => return Some(SocketAddrUnix::new_abstract_name(&value)),
            _ => {}
        }
    }
    None
}

fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                let digits = std::str::from_utf8(&digits).ok()?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
            }
            byte => bytes.push(byte),
        }
    }
    Some(bytes)
}
