//! A connection to the user's D-Bus session bus. Every operation has a deadline.

use super::KeyringError;
use super::message::{Call, Kind, Malformed, Message, START, Writer};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::net::{connect, socket_with, sockopt};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

const BUS: &str = "org.freedesktop.DBus";
/// The reply to the authentication is a short line.
const LONGEST_LINE: usize = 1024;

pub struct Bus {
    stream: UnixStream,
    serial: u32,
    deadline: Instant,
}

// === impl Bus ===

impl Bus {
    /// Connects to the first address that works.
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

    /// Calls a method and waits for its reply; other messages are dropped.
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

    /// Subscribes to signals.
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

    /// Authenticates by uid, which the kernel confirms.
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
        if line.starts_with(b"OK ") {
            self.write(b"BEGIN\r\n")
        } else {
            Err(KeyringError::Absent(
                "the message bus does not let us in".to_owned(),
            ))
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

/// Connects with a deadline: `connect` on a Unix socket blocks when the listener's queue is full.
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

/// Parses `unix:path=…,guid=…`; `None`: another transport.
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
