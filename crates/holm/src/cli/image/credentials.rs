//! Credentials for one registry, from the user's own files: `~/.docker/config.json`, or `config.json` in
//! `DOCKER_CONFIG`.
//!
//! A credential helper of the file is a program of the user, and runs on the user's side. Only what is stored for exactly
//! this registry is read, and it goes to the daemon with one request.

use crate::wiring::as_inherited;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use holm_api::image::RegistryCredentials;
use holm_core::image_reference::{DEFAULT_REGISTRY, ImageReference};
use holm_core::{Cause, Code, Fault};
use holm_secrets::Value;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The file, as far as it is about credentials.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct File {
    auths: BTreeMap<String, Entry>,
    cred_helpers: BTreeMap<String, String>,
    creds_store: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    /// `user:password` in base64.
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

/// What a credential helper prints.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Helped {
    username: String,
    secret: String,
}

/// More than any helper prints.
const MOST: u64 = 256 << 10;
/// The user name that stands for an identity token.
const IDENTITY: &str = "<token>";
/// How a helper says that it has nothing.
const NOTHING: &str = "credentials not found";

/// The credentials for the registry of `reference`, if the user has some.
pub fn find(reference: &ImageReference) -> Result<Option<RegistryCredentials>, Fault> {
    let Some(path) = place() else {
        return Ok(None);
    };
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(&path, error)),
    };
    // The parser's own message quotes values, which are secrets here.
    let file: File = serde_json::from_slice(&text).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        unreadable(&path, format!("{place} is not as Docker writes it"))
    })?;
    let registry = reference.registry();
    let pair = match helper(&file, registry) {
        Some(name) => ask(name, registry)?,
        None => stored(&file, registry, &path)?,
    };
    let pair = pair.map(|(user, password)| {
        let password = Value::parse(password.into_bytes());
        Ok(RegistryCredentials {
            registry: registry.to_owned(),
            user,
            password: password.map_err(|error| unreadable(&path, error))?,
        })
    });
    pair.transpose()
}

fn place() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let directory = set("DOCKER_CONFIG").map(PathBuf::from);
    let directory = directory.or_else(|| Some(PathBuf::from(set("HOME")?).join(".docker")))?;
    Some(directory.join("config.json"))
}

/// The helper for a registry: its own, or the one for all.
fn helper<'a>(file: &'a File, registry: &str) -> Option<&'a str> {
    let mut helpers = file.cred_helpers.iter();
    let own = helpers.find(|(key, _)| is_for(key, registry));
    let name = own.map(|(_, name)| name).or(file.creds_store.as_ref());
    name.map(String::as_str).filter(|name| !name.is_empty())
}

/// Keys are hosts, or URLs of which the host counts.
fn is_for(key: &str, registry: &str) -> bool {
    let host = key.split_once("://").map_or(key, |(_, rest)| rest);
    let host = host.split('/').next().unwrap_or(host).to_ascii_lowercase();
    let is_default = [DEFAULT_REGISTRY.alias, DEFAULT_REGISTRY.host].contains(&host.as_str());
    host == registry || (is_default && registry == DEFAULT_REGISTRY.name)
}

type Pair = (String, String);

fn stored(file: &File, registry: &str, path: &Path) -> Result<Option<Pair>, Fault> {
    let mut entries = file.auths.iter();
    let Some((_, entry)) = entries.find(|(key, _)| is_for(key, registry)) else {
        return Ok(None);
    };
    // Docker writes a user without a password beside a token.
    if entry
        .identitytoken
        .as_ref()
        .is_some_and(|token| !token.is_empty())
    {
        return Err(identity(registry));
    }
    if let Some(auth) = entry.auth.as_ref().filter(|auth| !auth.is_empty()) {
        let wrong = || unreadable(path, format!("`auth` of {registry} is not `user:password`"));
        let bytes = STANDARD.decode(auth.trim()).map_err(|_| wrong())?;
        let text = String::from_utf8(bytes).map_err(|_| wrong())?;
        let (user, password) = text.split_once(':').ok_or_else(wrong)?;
        let password = password.trim_end_matches('\0');
        return Ok(Some((user.to_owned(), password.to_owned())));
    }
    match (&entry.username, &entry.password) {
        (Some(user), Some(password)) => Ok(Some((user.clone(), password.clone()))),
        _ => Ok(None),
    }
}

/// Asks a credential helper. It may ask the user on the terminal.
fn ask(name: &str, registry: &str) -> Result<Option<Pair>, Fault> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let program = format!("docker-credential-{name}");
    let failed = |cause: Cause| {
        let message = format!("{program} gives no credentials for {registry}");
        let hint = "the settings in ~/.docker/config.json name this helper: install it, or remove it there";
        Fault::new(Code::CredentialsUnreadable, message, hint).because(cause)
    };
    if !name.bytes().all(is_plain) {
        return Err(failed("this is not the name of a program".into()));
    }
    let mut command = Command::new(&program);
    command
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = as_inherited(&mut command)
        .spawn()
        .map_err(|error| failed(error.into()))?;
    // The default registry has its old address there.
    let server = if registry == DEFAULT_REGISTRY.name {
        format!("https://{}/v1/", DEFAULT_REGISTRY.alias)
    } else {
        registry.to_owned()
    };
    if let Some(mut stdin) = child.stdin.take() {
        // A helper that does not read answers all the same.
        let _ = writeln!(stdin, "{server}");
    }
    let mut output = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        let read = stdout.take(MOST).read_to_end(&mut output);
        read.map_err(|error| failed(error.into()))?;
    }
    let status = child.wait().map_err(|error| failed(error.into()))?;
    if !status.success() {
        let said = String::from_utf8_lossy(&output);
        return match said.contains(NOTHING) {
            true => Ok(None),
            false => Err(failed(format!("it ended with {status}").into())),
        };
    }
    // The cause could quote the output, which has a secret.
    let helped: Helped = serde_json::from_slice(&output)
        .map_err(|_| failed("it does not print what Docker's helpers print".into()))?;
    if helped.username == IDENTITY {
        return Err(identity(registry));
    }
    Ok(Some((helped.username, helped.secret)))
}

fn identity(registry: &str) -> Fault {
    let message = format!("the credentials for {registry} are an identity token");
    let hint = "holm needs a user name with a password or an access token: `docker login -u USER`";
    Fault::new(Code::CredentialsUnreadable, message, hint)
}

fn unreadable(path: &Path, cause: impl Into<Cause>) -> Fault {
    let message = format!("cannot use the credentials in {}", path.display());
    let hint = "correct the file, or move it away to pull without credentials";
    Fault::new(Code::CredentialsUnreadable, message, hint).because(cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> File {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn credentials_are_found_for_exactly_one_registry() {
        let text = format!(
            r#"{{"auths": {{"registry.example.org:5000": {{"auth": "bWU6c2VjcmV0"}},
                "https://{}/v1/": {{"username": "u", "password": "p"}},
                "token.example.org": {{"auth": "bWU6", "identitytoken": "t"}}, "empty.example.org": {{}},
                "wrong.example.org": {{"auth": "bWU="}}}}, "HttpHeaders": {{}}}}"#,
            DEFAULT_REGISTRY.alias
        );
        let file = file(&text);
        let found = |registry: &str| stored(&file, registry, Path::new("config.json"));
        let pair = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        assert_eq!(
            found("registry.example.org:5000").unwrap(),
            pair("me", "secret")
        );
        assert_eq!(found(DEFAULT_REGISTRY.name).unwrap(), pair("u", "p"));
        for other in [
            "registry.example.org",
            "registry.example.org:50001",
            "example.org:5000",
            "empty.example.org",
        ] {
            assert_eq!(found(other).unwrap(), None, "{other}");
        }
        for bad in ["token.example.org", "wrong.example.org"] {
            let fault = found(bad).unwrap_err();
            assert_eq!(fault.code, Code::CredentialsUnreadable);
            assert!(!fault.message().contains("bWU="), "{}", fault.message());
        }
    }

    #[test]
    fn the_own_helper_of_a_registry_comes_before_the_one_for_all() {
        let both =
            file(r#"{"credHelpers": {"a.example.org": "own"}, "credsStore": "all", "auths": {}}"#);
        assert_eq!(helper(&both, "a.example.org"), Some("own"));
        assert_eq!(helper(&both, "b.example.org"), Some("all"));
        assert_eq!(helper(&file("{}"), "a.example.org"), None);
        let fault = ask("../../evil", "a.example.org").unwrap_err();
        assert!(
            fault.message().contains("not the name of a program"),
            "{}",
            fault.message()
        );
        let fault = ask("holm-test-absent", "a.example.org").unwrap_err();
        assert!(
            fault
                .message()
                .contains("docker-credential-holm-test-absent"),
            "{}",
            fault.message()
        );
    }
}
