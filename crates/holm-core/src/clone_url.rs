//! Which URLs holm clones from, and when two of them name the same repository.
//!
//! Called by `up --url`, `project add URL` and `project_create`. A URL may come from a program that
//! holds a token, so only transports that reach a server are accepted: https and ssh. A local path
//! is named by `path`, which has a rule of its own; `file://`, a bare path, `ext::` and anything
//! that ssh or git could read as an option are refused here, before any program sees them.

use crate::{Code, Fault};
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloneUrl {
    transport: Transport,
    /// For ssh, where it is part of the address. The user name of an https URL is dropped: it is
    /// often a token.
    user: Option<String>,
    /// In lower case; an IPv6 address without brackets.
    host: String,
    port: Option<u16>,
    /// As written, with its leading `/` or `~`.
    path: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Https,
    Ssh,
}

/// Why a URL is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UrlRefusal {
    /// A local path, or the `file` transport.
    Local,
    /// Another transport; its name.
    Transport(String),
    /// A password, or a query or fragment, which can hold one.
    Secret,
    /// It does not parse as a URL.
    Malformed,
}

/// Which hosts may be cloned from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloneFrom {
    /// A person asked, who can reach every host from here anyway.
    Anywhere,
    /// A program with a token asked. Over ssh with the user's key, or https, this machine would show it
    /// what the rule about paths keeps from it.
    Elsewhere,
}

/// Longer than any server accepts.
const LONGEST: usize = 2048;

// === impl CloneUrl ===

impl CloneUrl {
    /// Parses `https://…`, `ssh://…`, `git+ssh://…`, `ssh+git://…` and `user@host:path`.
    pub fn parse(text: &str) -> Result<Self, UrlRefusal> {
        let is_text = |c: char| !c.is_control() && !c.is_whitespace();
        if text.is_empty() || text.len() > LONGEST || !text.chars().all(is_text) {
            return Err(UrlRefusal::Malformed);
        }
        if text.starts_with(['/', '.', '~']) {
            return Err(UrlRefusal::Local);
        }
        if let Some((scheme, rest)) = text.split_once("://") {
            return match scheme.to_ascii_lowercase().as_str() {
                "https" => Self::with_authority(Transport::Https, rest),
                "ssh" | "git+ssh" | "ssh+git" => Self::with_authority(Transport::Ssh, rest),
                "file" => Err(UrlRefusal::Local),
                other => Err(UrlRefusal::Transport(other.to_owned())),
            };
        }
        match text.split_once("::") {
            // `ext::sh -c …`: a helper program of git.
            Some((helper, _)) if !helper.contains(['@', '/', '[']) => {
                Err(UrlRefusal::Transport(helper.to_owned()))
            }
            _ => Self::short(text),
        }
    }

    /// `user@host[:port]/path`
    fn with_authority(transport: Transport, rest: &str) -> Result<Self, UrlRefusal> {
        let end = rest.find(['/', '?', '#']).ok_or(UrlRefusal::Malformed)?;
        let (authority, path) = rest.split_at(end);
        let (user, address) = match authority.rsplit_once('@') {
            Some((user, address)) => (Some(user), address),
            None => (None, authority),
        };
        if user.is_some_and(|user| user.contains(':')) || path.contains(['?', '#']) {
            return Err(UrlRefusal::Secret);
        }
        let (host, port) = host_and_port(address)?;
        let port = port.filter(|port| *port != transport.default_port());
        let user = user.filter(|_| transport == Transport::Ssh);
        let url = Self {
            transport,
            user: user.map(str::to_owned),
            host: host.to_ascii_lowercase(),
            port,
            path: path.to_owned(),
        };
        url.checked()
    }

    /// `user@host:path`, the short form of ssh. A relative path starts at the user's home there.
    fn short(text: &str) -> Result<Self, UrlRefusal> {
        let (user, rest) = text.split_once('@').ok_or(UrlRefusal::Malformed)?;
        let (host, path) = match rest.strip_prefix('[') {
            Some(rest) => rest.split_once("]:"),
            None => rest.split_once(':'),
        }
        .ok_or(UrlRefusal::Malformed)?;
        if user.contains(['/', ':']) {
            return Err(UrlRefusal::Malformed);
        }
        let path = match path {
            absolute if absolute.starts_with('/') => absolute.to_owned(),
            home if home.starts_with('~') => format!("/{home}"),
            relative if relative.is_empty() || relative.starts_with([':', '-']) => {
                return Err(UrlRefusal::Malformed);
            }
            relative => format!("/~/{relative}"),
        };
        let url = Self {
            transport: Transport::Ssh,
            user: Some(user.to_owned()),
            host: host.to_ascii_lowercase(),
            port: None,
            path,
        };
        url.checked()
    }

    fn checked(self) -> Result<Self, UrlRefusal> {
        let is_user = |user: &str| {
            let is_letter = |c: char| c.is_ascii_alphanumeric() || ".-_+".contains(c);
            !user.is_empty() && !user.starts_with('-') && user.chars().all(is_letter)
        };
        let is_letter = |c: char| c.is_ascii_alphanumeric() || ".-_:".contains(c);
        // ssh and git read a leading `-` as an option.
        let is_host = !self.host.is_empty()
            && !self.host.starts_with('-')
            && self.host.chars().all(is_letter);
        let is_path = self.path.trim_matches('/').chars().any(|c| c != '.');
        let is_good = is_host && is_path && self.user.as_deref().is_none_or(is_user);
        if is_good && !self.name().is_empty() {
            Ok(self)
        } else {
            Err(UrlRefusal::Malformed)
        }
    }

    pub fn transport(&self) -> Transport {
        self.transport
    }

    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn port(&self) -> u16 {
        self.port.unwrap_or(self.transport.default_port())
    }

    /// The last part of the path without `.git`, used as the clone's directory name.
    pub fn name(&self) -> &str {
        let path = self.trimmed_path();
        path.rsplit('/').next().unwrap_or_default()
    }

    /// Equal for two spellings of one repository. https and ssh differ, because a server need not
    /// show the same repository by both.
    pub fn identity(&self) -> String {
        self.written(self.trimmed_path())
    }

    fn trimmed_path(&self) -> &str {
        let path = self.path.trim_end_matches('/');
        path.strip_suffix(".git").unwrap_or(path)
    }

    fn written(&self, path: &str) -> String {
        let scheme = match self.transport {
            Transport::Https => "https",
            Transport::Ssh => "ssh",
        };
        let user = self.user.as_ref().map(|user| format!("{user}@"));
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        let port = self.port.map(|port| format!(":{port}"));
        let (user, port) = (user.unwrap_or_default(), port.unwrap_or_default());
        format!("{scheme}://{user}{host}{port}{path}")
    }
}

/// The form that git gets and people see. It never contains a secret.
impl fmt::Display for CloneUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written(&self.path))
    }
}

fn host_and_port(address: &str) -> Result<(&str, Option<u16>), UrlRefusal> {
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or(UrlRefusal::Malformed)?;
            match after {
                "" => (host, None),
                _ => (
                    host,
                    Some(after.strip_prefix(':').ok_or(UrlRefusal::Malformed)?),
                ),
            }
        }
        None => match address.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
    };
    let port = match port {
        None | Some("") => None,
        Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(text.parse().map_err(|_| UrlRefusal::Malformed)?)
        }
        Some(_) => return Err(UrlRefusal::Malformed),
    };
    Ok((host, port))
}

// === impl Transport ===

impl Transport {
    fn default_port(self) -> u16 {
        match self {
            Transport::Https => 443,
            Transport::Ssh => 22,
        }
    }
}

// === impl CloneFrom ===

impl CloneFrom {
    pub fn of(is_elsewhere: bool) -> Self {
        if is_elsewhere {
            CloneFrom::Elsewhere
        } else {
            CloneFrom::Anywhere
        }
    }
}

// === impl UrlRefusal ===

impl fmt::Display for UrlRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UrlRefusal::Local => f.write_str("it is a path of this machine"),
            UrlRefusal::Transport(name) => {
                write!(f, "holm does not clone by `{}`", name.escape_debug())
            }
            UrlRefusal::Secret => {
                f.write_str("it has a password, a query or a fragment in it, which git would store in the clear")
            }
            UrlRefusal::Malformed => f.write_str("it is not a URL that can be cloned"),
        }
    }
}

impl From<UrlRefusal> for Fault {
    fn from(refusal: UrlRefusal) -> Fault {
        let hint = match &refusal {
            UrlRefusal::Local => {
                "`--url` and `url` take https and ssh; go to a local repository (`cd`), or name it by `path`"
            }
            UrlRefusal::Secret => {
                "leave it out: git's credential helper or an ssh key has the password (`git help credentials`)"
            }
            UrlRefusal::Transport(_) | UrlRefusal::Malformed => {
                "for example https://example.org/team/shop.git or git@example.org:team/shop.git"
            }
        };
        Fault::new(
            Code::BadRequest,
            format!("this URL is not cloned: {refusal}"),
            hint,
        )
    }
}
