//! Repositories named by URL: cloned once, and fetched before each use. Called by `up --url`,
//! `project add URL` and `sync`.
//!
//! git runs with the user's own configuration and credentials but never prompts, and uses only
//! https and ssh, even if a server redirects it or a setting rewrites the URL.

use crate::GitError;
use crate::begin::parts;
use crate::command::{Cancel, Git};
use crate::remote::without_credentials;
use crate::repository::{Repository, own_value};
use holm_core::clone_url::{CloneUrl, Transport};
use std::net::IpAddr;
use std::path::Path;

/// The addresses that git may connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dial {
    /// Git resolves the host itself and may follow one redirect.
    Free,
    /// Only these addresses, which the caller has checked; no redirect.
    Only(Vec<IpAddr>),
}

/// The remote's name in a clone.
pub const ORIGIN: &str = "origin";

/// The only transports that git may use, whatever the configuration says.
const PROTOCOLS: &str = "https:ssh";

/// Settings of every command that talks to a remote. A server that sends nothing for a minute
/// counts as gone.
const CONFIG: [&str; 4] = [
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=60",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
];

/// Environment variables with which the user's git reaches servers: agents, proxies, certificates.
const VARIABLES: [&str; 16] = [
    "SSH_AUTH_SOCK",
    "DBUS_SESSION_BUS_ADDRESS",
    "XDG_RUNTIME_DIR",
    "USER",
    "LOGNAME",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "GIT_SSL_NO_VERIFY",
];

/// Clones a repository to a path that does not exist, and records the URL there. git removes a
/// partial clone when it fails.
pub fn clone(url: &CloneUrl, place: &Path, dial: &Dial, cancel: &Cancel) -> Result<(), GitError> {
    let (parent, name) = parts(place)?;
    // Runs in `/`, because the parent directory may be inside another repository with its own
    // settings.
    let git = remote_git(Path::new("/"), "clone", url, dial)?;
    let finished = git
        .args(["--quiet", "--no-hardlinks", "--no-recurse-submodules"])
        .more(["--origin", ORIGIN])
        .more([
            "--config".to_owned(),
            format!("holm.url={}", url.identity()),
        ])
        .more(["--", &url.to_string()])
        .more([parent.join(name)])
        .cancel(cancel)
        .run()?;
    if finished.status.success() {
        Ok(())
    } else {
        Err(finished.remote_error(&url.to_string()))
    }
}

/// The URL of a clone's `origin`, if holm would clone it. One process, which reads only the
/// repository's own configuration file.
pub fn origin_of(place: &Path) -> Result<Option<CloneUrl>, GitError> {
    let known = own_value(&place.join(".git"), "remote.origin.url")?;
    let known = known.and_then(|known| without_credentials(&known));
    Ok(known.and_then(|known| CloneUrl::parse(&known).ok()))
}

// === impl Repository ===

impl Repository {
    /// Fetches every branch of `origin`. Returns the remote-tracking branch of the remote's HEAD
    /// (`origin/main`), if it has one. Two processes at once.
    pub fn fetch_origin(
        &self,
        url: &CloneUrl,
        dial: &Dial,
        cancel: &Cancel,
    ) -> Result<Option<String>, GitError> {
        let head = remote_git(&self.toplevel, "ls-remote", url, dial)?
            .args(["--quiet", "--symref", ORIGIN, "HEAD"])
            .cancel(cancel)
            .spawn()?;
        let fetched = remote_git(&self.toplevel, "fetch", url, dial)?
            .args([
                "--quiet",
                "--no-recurse-submodules",
                "--no-auto-maintenance",
            ])
            .more(["--no-write-fetch-head", ORIGIN])
            .cancel(cancel)
            .run();
        // Waits for both before checking either result, so that no process is left running.
        let head = head.finish();
        let (fetched, head) = (fetched?, head?);
        for finished in [&fetched, &head] {
            if !finished.status.success() {
                return Err(finished.remote_error(&url.to_string()));
            }
        }
        Ok(default_branch(&head.stdout))
    }

    /// The URL of `origin`, if holm would clone it. Starts no process.
    pub fn origin(&self) -> Option<CloneUrl> {
        let mut remotes = self.remotes.iter();
        let origin = remotes.find(|remote| remote.name == ORIGIN)?;
        CloneUrl::parse(&origin.url).ok()
    }

    /// The remote-tracking branch with this name, unless the user's own branch has commits that it
    /// lacks. At most three processes.
    pub fn remote_branch(&self, name: &str) -> Result<Option<String>, GitError> {
        let branch = format!("{ORIGIN}/{name}");
        let Ok(there) = self.resolve(&format!("refs/remotes/{branch}")) else {
            return Ok(None);
        };
        if let Ok(here) = self.resolve(&format!("refs/heads/{name}")) {
            let words = ["--is-ancestor", &here.commit, &there.commit];
            let contained = self.git("merge-base")?.args(words).run()?;
            return Ok(contained.status.success().then_some(branch));
        }
        Ok(Some(branch))
    }

    /// The remote-tracking branch of `origin`'s HEAD at clone time.
    pub fn origin_head(&self) -> Option<String> {
        let branch = self.branch.as_ref()?;
        Some(format!("{ORIGIN}/{branch}"))
    }
}

/// Parses `ref: refs/heads/main<TAB>HEAD`.
fn default_branch(said: &[u8]) -> Option<String> {
    let said = String::from_utf8_lossy(said);
    let mut lines = said.lines();
    let branch = lines.find_map(|line| {
        let name = line.strip_prefix("ref: refs/heads/")?;
        name.strip_suffix("\tHEAD")
    });
    branch.map(|branch| format!("{ORIGIN}/{branch}"))
}

fn remote_git(directory: &Path, name: &str, url: &CloneUrl, dial: &Dial) -> Result<Git, GitError> {
    let ssh = match url.transport() {
        Transport::Https => None,
        Transport::Ssh => Some(ssh_command(directory, url, dial)?),
    };
    let mut git = Git::client(directory, name)?;
    for setting in CONFIG {
        git = git.config(setting);
    }
    if let Dial::Only(addresses) = dial {
        git = git.config("http.followRedirects=false");
        let (host, port) = (url.host(), url.port());
        if host.parse::<IpAddr>().is_err() && url.transport() == Transport::Https {
            let addresses: Vec<_> = addresses.iter().map(in_brackets).collect();
            let addresses = addresses.join(",");
            git = git.config(&format!("http.curloptResolve={host}:{port}:{addresses}"));
        }
    }
    for variable in VARIABLES {
        if let Some(value) = std::env::var_os(variable) {
            git = git.env(variable, value);
        }
    }
    if let Some(ssh) = ssh {
        // Any credential helper that wants to prompt gets no terminal.
        git = git
            .env("GIT_SSH_COMMAND", ssh)
            .env("SSH_ASKPASS", "false")
            .env("SSH_ASKPASS_REQUIRE", "force");
    }
    Ok(git.env("GIT_ALLOW_PROTOCOL", PROTOCOLS))
}

/// The user's own ssh command, or `ssh` with timeouts.
fn ssh_command(directory: &Path, url: &CloneUrl, dial: &Dial) -> Result<String, GitError> {
    let said = Git::client(directory, "config")?
        .args(["--get", "core.sshCommand"])
        .run()?;
    let configured = String::from_utf8_lossy(&said.stdout).trim().to_owned();
    let own = std::env::var("GIT_SSH_COMMAND").unwrap_or(configured);
    let mut command = if own.is_empty() {
        "ssh -oBatchMode=yes -oConnectTimeout=30 -oServerAliveInterval=20".to_owned()
    } else {
        own
    };
    if let Dial::Only(addresses) = dial
        && let Some(address) = addresses.first()
    {
        // The host key is looked up by name although ssh dials an address.
        let alias = match url.port() {
            22 => url.host().to_owned(),
            port => format!("[{}]:{port}", url.host()),
        };
        command.push_str(&format!(" -oHostName={address} -oHostKeyAlias='{alias}'"));
    }
    Ok(command)
}

fn in_brackets(address: &IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::init;

    #[test]
    fn the_remotes_head_is_read() {
        let check = |said: &str, expect: Option<&str>| {
            assert_eq!(default_branch(said.as_bytes()).as_deref(), expect);
        };
        check(
            "ref: refs/heads/main\tHEAD\nabc\tHEAD\n",
            Some("origin/main"),
        );
        check("ref: refs/heads/a/b\tHEAD\n", Some("origin/a/b"));
        check("abc\tHEAD\n", None);
        check("", None);
    }

    /// Attack 194: a setting or a server that points git to a local path fails. The counterpart
    /// runs the same command without the list of transports.
    #[test]
    fn attack_194_git_itself_is_kept_to_https_and_ssh() {
        let place = tempfile::tempdir().unwrap();
        let secret = place.path().join("secret");
        init(&secret).unwrap();
        let url = CloneUrl::parse("https://example.org/x").unwrap();
        let led_astray = |protocols: &str| {
            let git = remote_git(place.path(), "ls-remote", &url, &Dial::Free).unwrap();
            let rewrite = format!("url.file://{}.insteadOf={url}", secret.display());
            let git = git.config(&rewrite).args(["--", &url.to_string()]);
            git.env("GIT_ALLOW_PROTOCOL", protocols).run().unwrap()
        };
        let refused = led_astray(PROTOCOLS);
        let complaint = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success());
        assert!(
            complaint.contains("transport 'file' not allowed"),
            "{complaint}"
        );
        assert!(led_astray("https:ssh:file").status.success());
    }

    #[test]
    fn addresses_that_were_checked_are_dialled() {
        let ssh = CloneUrl::parse("ssh://git@example.org:2222/x").unwrap();
        let dial = Dial::Only(vec!["192.0.2.1".parse().unwrap()]);
        let command = ssh_command(Path::new("/"), &ssh, &dial).unwrap();
        let end = "-oHostName=192.0.2.1 -oHostKeyAlias='[example.org]:2222'";
        assert!(command.ends_with(end), "{command}");
    }
}
