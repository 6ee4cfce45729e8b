//! The keyring of the user's desktop, through the Secret Service of freedesktop.org (GNOME Keyring,
//! KWallet, KeePassXC): one item per master key, found by the key's id.
//!
//! Called by the vault. Every operation has its own connection and a deadline, so a keyring that
//! hangs cannot hang the daemon. The key passes the bus's socket unencrypted (the service's `plain`
//! session): a program that can listen there can ask the keyring itself.

mod bus;
mod message;

use crate::hexadecimal::{decode_array, encode};
use crate::seal::MasterKey;
use bus::Bus;
use message::{Call, Malformed, Message, Writer};
use std::io;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

const SERVICE: &str = "org.freedesktop.secrets";
const PLACE: &str = "/org/freedesktop/secrets";
const LABEL: &str = "holm: key of the stored secrets";
/// The path that stands for a missing object.
const NOTHING: &str = "/";

/// Long enough for a service that the first call starts.
const PATIENCE: Duration = Duration::from_secs(4);
/// How long the user has to type the keyring's password.
const PROMPT: Duration = Duration::from_secs(60);

/// A client of the keyring on one bus.
#[derive(Clone, Debug, Default)]
pub struct Keyring {
    /// The value of `DBUS_SESSION_BUS_ADDRESS`; `None`: no bus.
    address: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    #[error("there is no keyring: {0}")]
    Absent(String),
    #[error("the keyring is locked")]
    Locked,
    #[error("the keyring does not have the key")]
    NoKey,
    #[error("the keyring does not answer")]
    Slow,
    #[error("the keyring refuses: {0}")]
    Refused(String),
}

/// One connection.
struct Open {
    bus: Bus,
    session: String,
}

// === impl Keyring ===

impl Keyring {
    /// `None` or an empty address: there is no keyring.
    pub fn at(address: Option<String>) -> Self {
        let address = address.filter(|address| !address.is_empty());
        Self { address }
    }

    /// Stores a key in the default collection and reads it back.
    pub fn keep(&self, key: &MasterKey) -> Result<(), KeyringError> {
        let mut open = self.open(PATIENCE)?;
        let collection = open.collection()?;
        if open.is_locked(&collection)? {
            return Err(KeyringError::Locked);
        }
        open.create(&collection, key)?;
        if open.get(&key.id())?.bytes() == key.bytes() {
            Ok(())
        } else {
            Err(KeyringError::NoKey)
        }
    }

    /// Checks that a key could be stored now.
    pub fn check(&self) -> Result<(), KeyringError> {
        let mut open = self.open(PATIENCE)?;
        let collection = open.collection()?;
        if open.is_locked(&collection)? {
            Err(KeyringError::Locked)
        } else {
            Ok(())
        }
    }

    pub fn get(&self, id: &str) -> Result<MasterKey, KeyringError> {
        self.open(PATIENCE)?.get(id)
    }

    /// Deletes a key.
    pub fn forget(&self, id: &str) -> Result<(), KeyringError> {
        let mut open = self.open(PATIENCE)?;
        let (unlocked, locked) = open.search(id)?;
        if unlocked.is_empty() && !locked.is_empty() {
            return Err(KeyringError::Locked);
        }
        for item in unlocked {
            let call = on(&item, "org.freedesktop.Secret.Item", "Delete");
            let answer = open.bus.call(call, "", &Writer::default())?;
            if answer.body().text()? != NOTHING {
                return Err(KeyringError::Locked);
            }
        }
        Ok(())
    }

    /// Unlocks the keyring; the desktop may ask the user for its password.
    pub fn unlock(&self) -> Result<(), KeyringError> {
        let mut open = self.open(PROMPT)?;
        let collection = open.collection()?;
        if open.is_locked(&collection)? {
            open.unlock(&collection)
        } else {
            Ok(())
        }
    }

    fn open(&self, patience: Duration) -> Result<Open, KeyringError> {
        let address = self.address.as_deref().ok_or_else(|| {
            KeyringError::Absent("the daemon has no address of a D-Bus session bus".to_owned())
        })?;
        let mut bus = Bus::connect(address, Instant::now() + patience)?;
        let mut body = Writer::default();
        body.text("plain");
        body.signature("s");
        body.text("");
        let call = on(PLACE, "org.freedesktop.Secret.Service", "OpenSession");
        let answer = bus.call(call, "sv", &body)?;
        let mut reader = answer.body();
        if reader.signature()? != "s" {
            return Err(Malformed.into());
        }
        reader.text()?;
        let session = reader.text()?;
        Ok(Open { bus, session })
    }
}

// === impl Open ===

impl Open {
    fn service(
        &mut self,
        member: &str,
        signature: &str,
        body: &Writer,
    ) -> Result<Message, KeyringError> {
        let call = on(PLACE, "org.freedesktop.Secret.Service", member);
        self.bus.call(call, signature, body)
    }

    fn collection(&mut self) -> Result<String, KeyringError> {
        let mut body = Writer::default();
        body.text("default");
        let path = self.service("ReadAlias", "s", &body)?.body().text()?;
        match path.as_str() {
            NOTHING => Err(KeyringError::Absent(
                "it has no default collection yet".to_owned(),
            )),
            _ => Ok(path),
        }
    }

    fn is_locked(&mut self, collection: &str) -> Result<bool, KeyringError> {
        let mut body = Writer::default();
        body.text("org.freedesktop.Secret.Collection");
        body.text("Locked");
        let call = on(collection, "org.freedesktop.DBus.Properties", "Get");
        let answer = self.bus.call(call, "ss", &body)?;
        let mut reader = answer.body();
        match reader.signature()?.as_str() {
            "b" => Ok(reader.flag()?),
            _ => Err(Malformed.into()),
        }
    }

    fn create(&mut self, collection: &str, key: &MasterKey) -> Result<(), KeyringError> {
        let text = Zeroizing::new(encode(key.bytes()));
        let mut body = Writer::default();
        body.array(8, |properties| {
            properties.structure();
            properties.text("org.freedesktop.Secret.Item.Label");
            properties.signature("s");
            properties.text(LABEL);
            properties.structure();
            properties.text("org.freedesktop.Secret.Item.Attributes");
            properties.signature("a{ss}");
            attributes(properties, &key.id());
        });
        body.structure();
        body.text(&self.session);
        body.octets(b"");
        body.octets(text.as_bytes());
        body.text("text/plain");
        body.flag(true);
        let call = on(
            collection,
            "org.freedesktop.Secret.Collection",
            "CreateItem",
        );
        let answer = self.bus.call(call, "a{sv}(oayays)b", &body)?;
        match answer.body().text()?.as_str() {
            NOTHING => Err(KeyringError::Locked),
            _ => Ok(()),
        }
    }

    /// The items of a key: unlocked ones and locked ones.
    fn search(&mut self, id: &str) -> Result<(Vec<String>, Vec<String>), KeyringError> {
        let mut body = Writer::default();
        attributes(&mut body, id);
        let answer = self.service("SearchItems", "a{ss}", &body)?;
        let mut reader = answer.body();
        Ok((reader.texts()?, reader.texts()?))
    }

    fn get(&mut self, id: &str) -> Result<MasterKey, KeyringError> {
        let (unlocked, locked) = self.search(id)?;
        let item = match (unlocked.first(), locked.is_empty()) {
            (Some(item), _) => item,
            (None, false) => return Err(KeyringError::Locked),
            (None, true) => return Err(KeyringError::NoKey),
        };
        let mut body = Writer::default();
        body.text(&self.session);
        let call = on(item, "org.freedesktop.Secret.Item", "GetSecret");
        let answer = self.bus.call(call, "o", &body)?;
        let mut reader = answer.body();
        reader.structure()?;
        reader.text()?;
        reader.octets()?;
        let text = std::str::from_utf8(reader.octets()?).map_err(|_| KeyringError::NoKey)?;
        let key = decode_array(text).map(MasterKey::from_bytes);
        // An item with another key under our attributes does not count.
        key.filter(|key| key.id() == id).ok_or(KeyringError::NoKey)
    }

    fn unlock(&mut self, collection: &str) -> Result<(), KeyringError> {
        self.bus
            .listen("type='signal',interface='org.freedesktop.Secret.Prompt',member='Completed'")?;
        let mut body = Writer::default();
        body.array(4, |paths| paths.text(collection));
        let answer = self.service("Unlock", "ao", &body)?;
        let mut reader = answer.body();
        reader.texts()?;
        let prompt = reader.text()?;
        if prompt == NOTHING {
            return Ok(());
        }
        let mut body = Writer::default();
        body.text("");
        let call = on(&prompt, "org.freedesktop.Secret.Prompt", "Prompt");
        self.bus.call(call, "s", &body)?;
        let is_dismissed = self.bus.signal(&prompt, "Completed")?.body().flag()?;
        if is_dismissed || self.is_locked(collection)? {
            Err(KeyringError::Locked)
        } else {
            Ok(())
        }
    }
}

fn on<'a>(path: &'a str, interface: &'a str, member: &'a str) -> Call<'a> {
    Call {
        destination: SERVICE,
        path,
        interface,
        member,
    }
}

/// The attributes by which an item is found.
fn attributes(body: &mut Writer, id: &str) {
    body.array(8, |entries| {
        for (name, value) in [("application", "holm"), ("key", id)] {
            entries.structure();
            entries.text(name);
            entries.text(value);
        }
    });
}

// === impl KeyringError ===

impl KeyringError {
    /// Maps a D-Bus error name.
    fn named(name: &str) -> Self {
        match name {
            "org.freedesktop.Secret.Error.IsLocked" => Self::Locked,
            "org.freedesktop.DBus.Error.ServiceUnknown"
            | "org.freedesktop.DBus.Error.NameHasNoOwner" => {
                Self::Absent("no program on the message bus offers one".to_owned())
            }
            "org.freedesktop.DBus.Error.NoReply" | "org.freedesktop.DBus.Error.TimedOut" => {
                Self::Slow
            }
            name if name.starts_with("org.freedesktop.DBus.Error.Spawn") => {
                Self::Absent(format!("its program does not start ({name})"))
            }
            name => Self::Refused(name.to_owned()),
        }
    }
}

impl From<Malformed> for KeyringError {
    fn from(_: Malformed) -> Self {
        Self::Refused("its answer is not of the form that the Secret Service prescribes".to_owned())
    }
}

impl From<io::Error> for KeyringError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Self::Slow,
            _ => Self::Absent(format!("the message bus: {error}")),
        }
    }
}

#[cfg(test)]
#[path = "keyring_tests.rs"]
mod tests;
