//! Reads declared secrets from their sources, on the user's side. Called by `up`, `start`,
//! `restart` and `secret refresh`, always after the user approved the sources: the daemon returns
//! only those of approved workspaces, and `up` reads only what was granted.

use crate::wiring::as_inherited;
use holm_api::client::Client;
use holm_api::secret::{Declared, DeclaredList, Give, Named};
use holm_config::daemon_user::DaemonUser;
use holm_config::policy::PolicyFile;
use holm_core::config::{Place, ProjectConfig};
use holm_core::policy::SourceKind;
use holm_core::spec::SecretSource;
use holm_core::{Fault, WorkspaceId};
use holm_engine::try_blocking;
use holm_secrets::{LONGEST_VALUE, Value};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The values that were read, and notes about the others.
#[derive(Debug, Default)]
pub struct Found {
    pub give: Give,
    pub notes: Vec<String>,
}

/// One secret that is not stored.
#[derive(Clone, Debug)]
pub struct Wanted {
    name: String,
    source: SecretSource,
}

/// What a configuration declares.
pub fn declared(config: &ProjectConfig) -> Vec<Wanted> {
    let secrets = config.secrets.iter();
    let wanted = secrets.filter_map(|(name, secret)| {
        let source = SecretSource::from(&secret.from);
        (source != SecretSource::Stored).then(|| Wanted {
            name: name.to_string(),
            source,
        })
    });
    wanted.collect()
}

/// Reads a workspace's values again before it is started. If a source is gone, the earlier value
/// stays.
pub async fn before_start(client: &Client, id: &WorkspaceId) -> Result<Vec<String>, Fault> {
    let declared = client.declared_secrets(id).await?;
    if declared.secrets.is_empty() {
        return Ok(Vec::new());
    }
    let mut found = of_workspace(&declared).await?;
    found.give.missing.clear();
    client.give_secrets(id, &found.give).await?;
    Ok(found.notes)
}

/// Reads everything that a workspace declares.
pub async fn of_workspace(list: &DeclaredList) -> Result<Found, Fault> {
    let wanted = list.secrets.iter();
    let wanted = wanted.filter(|secret| secret.from != SecretSource::Stored);
    let wanted = wanted.map(|Declared { name, from, .. }| Wanted {
        name: name.clone(),
        source: from.clone(),
    });
    all(wanted.collect(), PathBuf::from(&list.project_path)).await
}

/// Reads them; files and commands are relative to `root`.
pub async fn all(wanted: Vec<Wanted>, root: PathBuf) -> Result<Found, Fault> {
    if wanted.is_empty() {
        return Ok(Found::default());
    }
    try_blocking(move || {
        let home = DaemonUser::current()?.home()?;
        let policy = PolicyFile::of_machine().load()?.unwrap_or_default();
        let mut found = Found::default();
        for Wanted { name, source } in wanted {
            let value = if policy.may_read(SourceKind::from(&source)) {
read(&source, &root, &home)
} else {
Err(format!("the machine's policy allows no `{}`", SourceKind::from(&source)))
};
            match value {
                Ok(value) => found.give.values.push(Named { name, value }),
                Err(why) => {
                    found.notes.push(format!(
                        "the secret {name} is not given: {why}; `holm secret refresh` reads it again"
                    ));
                    found.give.missing.push(name);
                }
            }
        }
        Ok(found)
    })
    .await
}

/// The value, or why there is none; the reason never contains the value.
fn read(source: &SecretSource, root: &Path, home: &Path) -> Result<Value, String> {
    let bytes = match source {
        SecretSource::Stored => return Err("it is stored".to_owned()),
        SecretSource::Env(variable) => match std::env::var_os(variable) {
            Some(value) => std::os::unix::ffi::OsStringExt::into_vec(value),
            None => return Err(format!("the variable {variable} is not set here")),
        },
        SecretSource::File(place) => {
            let path = match Place::parse(place).map_err(|error| error.to_string())? {
                Place::Project(path) => root.join(path),
                Place::Home(path) => home.join(path),
                Place::Absolute(path) => PathBuf::from(path),
            };
            let failed = |error| format!("cannot read {}: {error}", path.display());
            at_most(File::open(&path).map_err(failed)?).map_err(failed)?
        }
        SecretSource::Command(argv) => output_of(argv, root)?,
    };
    Value::parse_line(bytes).map_err(|error| error.to_string())
}

/// The output of a user's program. It may ask on the terminal; no shell is involved.
fn output_of(argv: &[String], root: &Path) -> Result<Vec<u8>, String> {
    let [program, arguments @ ..] = argv else {
        return Err("no command is named".to_owned());
    };
    let failed = |error| format!("cannot run {program}: {error}");
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(root)
        .stdout(Stdio::piped());
    let mut child = as_inherited(&mut command).spawn().map_err(failed)?;
    let output = match child.stdout.take() {
        Some(stdout) => at_most(stdout).map_err(failed)?,
        None => Vec::new(),
    };
    let status = child.wait().map_err(failed)?;
    if status.success() {
        Ok(output)
    } else {
        Err(format!("{program} ended with {status}"))
    }
}

/// One byte over the limit shows that there is more.
fn at_most(from: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(LONGEST_VALUE as u64 + 3)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}
