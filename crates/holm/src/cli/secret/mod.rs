//! `holm secret`: stored values and their history. A value is never printed.

pub mod read;
mod show;
mod typed;

use super::completions::labels;
use super::origin::{Origin, StartArgs};
use super::output::{FAINT, GOOD, printable};
use super::send::{self, SharedRefs, Wanted};
use super::user_checkout::Checkout;
use super::{Context, Outcome, connect, resolve};
use clap::{Args, Subcommand};
use holm_api::client::{Client, Verify};
use holm_api::secret::{
    DeclaredList, Export, Import, KeepIn, RemoveSecret, RotateKey, Scope, SetSecret, Unlock,
};
use holm_core::secret_name;
use holm_core::{Code, Fault, WorkspaceId};
use serde::Serialize;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Store secrets and see who received them
///
/// Values are sealed on the disk and given only to the services, runs and sessions that holm.toml
/// names. No command prints one.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    holm secret set STRIPE_KEY\n  \
    pass show stripe | holm secret set STRIPE_KEY --stdin\n  \
    holm secret refresh fix-login\n  \
    holm secret audit --verify")]
pub struct SecretArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Set(SetArgs),
    Ls(LsArgs),
    Rm(RmArgs),
    Refresh(RefreshArgs),
    RotateKey(RotateKeyArgs),
    /// Unlock stored secrets: by passphrase (once after each daemon start) or through the desktop
    /// keyring
    Unlock,
    Audit(AuditArgs),
    Export(ExportArgs),
    Import(ImportArgs),
}

/// The owner of the value; default: this project.
#[derive(Debug, Args)]
struct WhoseArgs {
    /// Only for this workspace, overriding the project's
    #[arg(long, value_name = "WS", add = labels(), conflicts_with = "user")]
    workspace: Option<String>,
    /// For every project that has no value of its own
    #[arg(long)]
    user: bool,
}

/// Store a value
///
/// It is read from stdin, or asked for on a terminal without showing it; never from the command
/// line. Workspaces that declare it as stored get it at once: files are replaced, and programs that
/// start from now on get the new value.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    holm secret set STRIPE_KEY\n  \
    holm secret set NPM_TOKEN --user --stdin < token.txt\n  \
    holm secret set STRIPE_KEY --workspace fix-login")]
struct SetArgs {
    /// The name of the variable or file
    name: String,
    #[command(flatten)]
    whose: WhoseArgs,
    /// Read the value from stdin; done anyway when stdin is not a terminal
    #[arg(long)]
    stdin: bool,
}

/// Delete a stored value, and withdraw it from workspaces
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm secret rm STRIPE_KEY\n  holm secret rm NPM_TOKEN --user")]
struct RmArgs {
    /// The name of the variable or file
    name: String,
    #[command(flatten)]
    whose: WhoseArgs,
}

/// List what is stored, or what a workspace gets
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm secret ls\n  holm secret ls fix-login")]
struct LsArgs {
    /// The secrets that this workspace declares, with their states: a label, project/label, an id
    /// or the beginning of one
    #[arg(value_name = "WS", add = labels())]
    workspace: Option<String>,
}

/// Read the values of workspaces again, from their sources in holm.toml
///
/// Files are replaced, and programs that start from now on get the new values; running programs
/// keep theirs until they are restarted. A value that no longer exists is withdrawn. The time of
/// `ttl` starts again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm secret refresh fix-login\n  holm secret refresh")]
struct RefreshArgs {
    /// A label, project/label, an id or the beginning of an id; default: every one of this project
    #[arg(value_name = "WS", add = labels())]
    workspace: Option<String>,
}

/// Seal everything with a new key
///
/// The new key is stored where the old one was, unless one of the options says otherwise.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  holm secret rotate-key\n  holm secret rotate-key --passphrase\n  \
    holm secret rotate-key --keyring"
)]
struct RotateKeyArgs {
    /// Encrypt the key with a passphrase, which is asked for
    #[arg(long, conflicts_with_all = ["without_passphrase", "keyring", "file"])]
    passphrase: bool,
    /// Remove the passphrase
    #[arg(long)]
    without_passphrase: bool,
    /// Store the key in the keyring of your desktop
    #[arg(long, conflicts_with = "file")]
    keyring: bool,
    /// Store the key in a file that only you may read
    #[arg(long)]
    file: bool,
}

/// Show who set, received and lost which secret, and when
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm secret audit\n  holm secret audit --verify")]
struct AuditArgs {
    /// Check that no line was changed, removed, moved or added; exit 1 if one was
    #[arg(long)]
    verify: bool,
}

/// Write the stored values of the user and of projects to a file, encrypted with a passphrase
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm secret export secrets.holm")]
struct ExportArgs {
    /// The file; must not exist
    file: PathBuf,
}

/// Store the values of a file that `export` wrote
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm secret import secrets.holm")]
struct ImportArgs {
    /// The file
    file: PathBuf,
}

#[derive(Debug, Serialize)]
struct Refreshed {
    workspaces: Vec<RefreshedOne>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct RefreshedOne {
    id: String,
    secrets: Vec<holm_api::secret::Declared>,
}

pub fn run(context: &Context, arguments: SecretArgs) -> Outcome {
    match arguments.verb {
        Verb::Set(arguments) => set(context, arguments),
        Verb::Ls(LsArgs { workspace: None }) => show::list(context),
        Verb::Ls(LsArgs {
            workspace: Some(typed),
        }) => show::declared(context, &typed),
        Verb::Rm(arguments) => rm(context, arguments),
        Verb::Refresh(arguments) => refresh(context, arguments),
        Verb::RotateKey(arguments) => rotate_key(context, &arguments),
        Verb::Unlock => unlock(context),
        Verb::Audit(arguments) => {
            let verify = if arguments.verify {
                Verify::Yes
            } else {
                Verify::No
            };
            show::audit(context, verify)
        }
        Verb::Export(arguments) => export(context, &arguments.file),
        Verb::Import(arguments) => import(context, &arguments.file),
    }
}

fn set(context: &Context, arguments: SetArgs) -> Outcome {
    let name = secret_name::parse(&arguments.name)?;
    let value = typed::value(&name)?;
    let secret = connect::block_on(async {
        let client = connect::started().await?;
        let scope = scope(&client, &arguments.whose).await?;
        client.set_secret(&SetSecret { name, scope, value }).await
    })?;
    context.output.done(&secret, || {
        let (name, version) = (printable(&secret.name), secret.version);
        let report = show::notes(&secret.notes);
        format!("{GOOD}✓{GOOD:#} {name} is stored  {FAINT}version {version}{FAINT:#}{report}")
    });
    Ok(ExitCode::SUCCESS)
}

fn rm(context: &Context, arguments: RmArgs) -> Outcome {
    let name = secret_name::parse(&arguments.name)?;
    let secret = connect::block_on(async {
        let client = connect::started().await?;
        let scope = scope(&client, &arguments.whose).await?;
        client.remove_secret(&RemoveSecret { name, scope }).await
    })?;
    context.output.done(&secret, || {
        let report = show::notes(&secret.notes);
        format!(
            "{GOOD}✓{GOOD:#} {} is deleted{report}",
            printable(&secret.name)
        )
    });
    Ok(ExitCode::SUCCESS)
}

fn refresh(context: &Context, arguments: RefreshArgs) -> Outcome {
    let (refreshed, labels) = connect::block_on(async {
        let client = connect::started().await?;
        let labels = resolve::labels(&client).await?;
        let ids = match &arguments.workspace {
            Some(typed) => vec![resolve::one(&client, typed).await?],
            None => of_this_project(&client).await?,
        };
        let (mut workspaces, mut notes) = (Vec::new(), Vec::new());
        for id in ids {
            let declared = client.declared_secrets(&id).await?;
            let found = read::of_workspace(&declared).await?;
            let given = client.give_secrets(&id, &found.give).await?;
            let DeclaredList {
                secrets,
                notes: untold,
                ..
            } = given;
            notes.extend(found.notes);
            notes.extend(untold);
            workspaces.push(RefreshedOne {
                id: id.to_string(),
                secrets,
            });
        }
        Ok((Refreshed { workspaces, notes }, labels))
    })?;
    context.output.done(&refreshed, || {
        show::refreshed(
            refreshed
                .workspaces
                .iter()
                .map(|one| (show::label(&labels, &one.id), one.secrets.as_slice())),
            &refreshed.notes,
        )
    });
    Ok(ExitCode::SUCCESS)
}

fn rotate_key(context: &Context, arguments: &RotateKeyArgs) -> Outcome {
    let rotate = RotateKey {
        passphrase: if arguments.passphrase {
            Some(typed::new_passphrase()?)
        } else {
            None
        },
        without_passphrase: arguments.without_passphrase,
        keep_in: match (arguments.keyring, arguments.file) {
            (true, _) => Some(KeepIn::Keyring),
            (false, true) => Some(KeepIn::File),
            (false, false) => None,
        },
    };
    let state = connect::block_on(async {
        let client = connect::started().await?;
        client.rotate_secrets_key(&rotate).await
    })?;
    context.output.done(&state, || {
        let (sealed, place) = (state.sealed, show::place(state.key.as_deref()));
        format!("{GOOD}✓{GOOD:#} {sealed} values are sealed with a new key, which is {place}")
    });
    Ok(ExitCode::SUCCESS)
}

fn unlock(context: &Context) -> Outcome {
    let list = connect::block_on(async { connect::started().await?.secrets().await })?;
    let passphrase = match list.key.as_deref() {
        Some("passphrase") => Some(typed::passphrase()?),
        // The desktop asks for its own, and a file needs none.
        _ => None,
    };
    let state = connect::block_on(async {
        let client = connect::started().await?;
        client.unlock_secrets(&Unlock { passphrase }).await
    })?;
    context.output.done(&state, || {
        if list.locked {
            format!("{GOOD}✓{GOOD:#} unlocked")
        } else {
            format!(
                "{GOOD}✓{GOOD:#} nothing is locked: the key is {}",
                show::place(list.key.as_deref())
            )
        }
    });
    Ok(ExitCode::SUCCESS)
}

fn export(context: &Context, file: &Path) -> Outcome {
    let passphrase = typed::new_passphrase()?;
    let exported = connect::block_on(async {
        let client = connect::started().await?;
        client.export_secrets(&Export { passphrase }).await
    })?;
    let mut options = std::fs::OpenOptions::new();
    let written = options.write(true).create_new(true).mode(0o600).open(file);
    written
        .and_then(|mut file| std::io::Write::write_all(&mut file, exported.parcel.as_bytes()))
        .map_err(|error| {
            Fault::new(
                Code::InvalidPath,
                format!("cannot write {}", file.display()),
                "name a file that is not there yet",
            )
            .because(error)
        })?;
    let report = serde_json::json!({ "file": file, "secrets": exported.secrets });
    context.output.done(&report, || {
        let (count, file) = (exported.secrets, file.display().to_string());
        format!("{GOOD}✓{GOOD:#} {count} values are in {}", printable(&file))
    });
    Ok(ExitCode::SUCCESS)
}

fn import(context: &Context, file: &Path) -> Outcome {
    let parcel = std::fs::read_to_string(file).map_err(|error| {
        Fault::new(
            Code::PathNotFound,
            format!("cannot read {}", file.display()),
            "`holm secret export FILE` makes one",
        )
        .because(error)
    })?;
    let passphrase = typed::passphrase()?;
    let imported = connect::block_on(async {
        let client = connect::started().await?;
        client.import_secrets(&Import { passphrase, parcel }).await
    })?;
    context.output.done(&imported, || {
        let mut text = format!("{GOOD}✓{GOOD:#} {} values are stored", imported.secrets.len());
        text.push_str(&show::notes(&imported.notes));
        for left_out in &imported.left_out {
            let left_out = printable(left_out);
            text.push_str(&format!("\n  {FAINT}note{FAINT:#}  left out, because the project is not known here: {left_out}"));
        }
        text
    });
    Ok(ExitCode::SUCCESS)
}

/// The owner of a value, by id.
async fn scope(client: &Client, whose: &WhoseArgs) -> Result<Scope, Fault> {
    match (&whose.workspace, whose.user) {
        (Some(typed), _) => {
            let id = resolve::one(client, typed).await?;
            Ok(Scope::Workspace(id.to_string()))
        }
        (None, true) => Ok(Scope::User),
        (None, false) => Ok(Scope::Project(this_project(client).await?)),
    }
}

/// The project of the current directory, registered if necessary.
async fn this_project(client: &Client) -> Result<String, Fault> {
    let checkout = Checkout::find().await?;
    let origin = Origin::find(&checkout, &StartArgs::default()).await?;
    let wanted = Wanted {
        refs: SharedRefs::of(&checkout).await?,
        commit: origin.commit(),
        config: Some(&origin.config),
    };
    let answer = send::register(client, &checkout, &wanted).await?;
    Ok(answer.project.id)
}

async fn of_this_project(client: &Client) -> Result<Vec<WorkspaceId>, Fault> {
    let project = this_project(client).await?;
    let names = client.names().await?.names;
    let own = names
        .into_iter()
        .filter(|name| name.project_id.as_str() == project);
    Ok(own.map(|name| name.id).collect())
}

/// Hands secrets over before `up` requests a workspace.
pub async fn hand_over(
    client: &Client,
    give: &holm_api::secret::Give,
) -> Result<Option<String>, Fault> {
    if give.values.is_empty() {
        return Ok(None);
    }
    let handed = client.hand_over_secrets(give).await?;
    Ok(Some(handed.handover))
}
