//! Everything that `up` determines and sends before it requests the workspaces.

use super::UpArgs;
use super::bring::Bringing;
use super::include::Included;
use super::initialize;
use super::notes::{LeftBehind, has_notable};
use super::start::Start;
use crate::cli::Context;
use crate::cli::build::{Building, Built, State};
use crate::cli::left::{Left, Missing};
use crate::cli::origin::{Origin, StartArgs};
use crate::cli::secret::read::{self, Found};
use crate::cli::send::{self, Wanted};
use crate::cli::trust_question::{self, Granted, Unapproved};
use crate::cli::user_checkout::{AGENTS_MD, Checkout, HOLM_TOML, path_text};
use holm_api::ERRAND;
use holm_api::client::Client;
use holm_api::project::TrustCheck;
use holm_api::workspace::CreateWorkspace;
use holm_config::daemon_user::DaemonUser;
use holm_config::look;
use holm_core::Fault;
use holm_engine::try_blocking;
use holm_git::Cancel;
use std::path::PathBuf;

/// What all of the workspaces are created from.
pub struct Prepared {
    pub client: Client,
    pub checkout: Checkout,
    pub project_id: String,
    /// Everything but the label and the uploads.
    pub request: CreateWorkspace,
    pub included: Included,
    pub left_behind: LeftBehind,
    /// The values of the secrets that it declares.
    pub secrets: Found,
    /// What may have to be done, for progress.
    pub coming: Vec<(&'static str, String)>,
}

pub async fn prepare(
    context: &Context,
    arguments: &UpArgs,
    cancel: &Cancel,
) -> Result<Prepared, Fault> {
    let Start {
        client,
        checkout,
        start,
        origin,
        refs,
    } = Start::find(context, arguments, cancel).await?;
    let wanted = Wanted {
        refs,
        commit: origin.commit(),
        config: Some(&origin.config),
    };
    let sending = send::send(&client, &checkout, wanted, cancel);
    let (project, left_behind) = tokio::try_join!(sending, left_behind(&checkout, &origin))?;
    let check = TrustCheck {
        project_id: project.id,
        config: origin.files.holm_toml.clone(),
        compose: origin.compose.clone(),
        worktree_include: checkout.worktree_include()?,
        settings: Vec::new(),
    };
    let unapproved = if arguments.untrusted {
        Unapproved::LeaveOut
    } else {
        let hint = trust_hint(&checkout, &start, arguments);
        Unapproved::Ask { hint }
    };
    let granted = trust_question::settle(context, &client, &check, unapproved).await?;
    let included = included(&checkout, &origin, arguments, &check, granted).await?;
    let left_behind = left_behind.without(&included);
    let bringing = Bringing {
        context,
        client: &client,
        checkout: &checkout,
        project_id: &check.project_id,
        cancel,
    };
    let notes = bringing.all(arguments, &origin, &included, granted).await?;
    let secrets = match granted {
        Granted::Everything => {
            let root = checkout.repository.main_root.clone();
            read::all(read::declared(&origin.config), root).await?
        }
        Granted::Nothing => Found::default(),
    };
    let building = Building {
        context,
        client: &client,
        checkout: &checkout,
        state: State::of(arguments.start.dirty, origin.commit()),
    };
    let built = match granted {
        Granted::Everything => built(building, &origin, arguments, &check).await?,
        Granted::Nothing => Built::new(),
    };
    let coming = coming(&origin);
    let project_id = check.project_id.clone();
    let mut request = request(&checkout, &origin, arguments, check, &included)?;
    request.built = built;
    request.notes = notes;
    request
        .notes
        .extend(note_of_turn(arguments, &request.built));
    request.notes.extend(secrets.notes.iter().cloned());
    Ok(Prepared {
        client,
        checkout,
        project_id,
        request,
        included,
        left_behind,
        secrets,
        coming,
    })
}

/// Runs the approved commands for this machine, if a workspace is made.
async fn initialize(
    building: &Building<'_>,
    origin: &Origin,
    arguments: &UpArgs,
    check: &TrustCheck,
) -> Result<(), Fault> {
    let container = origin.config.dev_container.as_ref();
    if container.is_none_or(|it| it.initialize.is_empty())
        || all_exist(building.client, check, arguments).await?
    {
        return Ok(());
    }
    initialize::run(building.context, building.checkout, &origin.config).await
}

/// The images of services that are built from the project's own Dockerfiles, after the commands for this machine.
async fn built(
    building: Building<'_>,
    origin: &Origin,
    arguments: &UpArgs,
    check: &TrustCheck,
) -> Result<Built, Fault> {
    initialize(&building, origin, arguments, check).await?;
    let builds = origin.config.image_builds();
    let builds = builds.map(|(name, build)| (name.to_string(), build.clone()));
    let builds: Vec<_> = builds.collect();
    if builds.is_empty() || all_exist(building.client, check, arguments).await? {
        return Ok(Built::new());
    }
    building.all(builds.into_iter()).await
}

/// Whether nothing is made, because the workspaces are there already and keep their images.
async fn all_exist(client: &Client, check: &TrustCheck, arguments: &UpArgs) -> Result<bool, Fault> {
    if !arguments.is_plain() || arguments.labels.is_empty() {
        return Ok(false);
    }
    let names = client.names().await?.names;
    let exists = |label: &String| {
        let mut own = names
            .iter()
            .filter(|it| it.project_id.as_str() == check.project_id);
        own.any(|name| name.label == *label)
    };
    Ok(arguments.labels.iter().all(exists))
}

/// The client has the turn's commit, and not its files.
fn note_of_turn(arguments: &UpArgs, built: &Built) -> Option<String> {
    let is_of_turn = arguments.at.is_some() && !built.is_empty();
    let note = "images were built from the commit that the turn started from, without its changes";
    is_of_turn.then(|| note.to_owned())
}

/// The steps of a creation, in their order.
fn coming(origin: &Origin) -> Vec<(&'static str, String)> {
    let config = &origin.config;
    let commit = origin.commit().unwrap_or_default();
    let commit: String = commit.chars().take(7).collect();
    let display = origin
        .resolved
        .as_ref()
        .and_then(|it| it.display.as_deref());
    let code = match display {
        Some(name) => format!("{name} {commit}"),
        None => commit,
    };
    let seeded = config
        .volumes
        .iter()
        .filter(|(_, volume)| !volume.seed.is_empty());
    let seeded: Vec<String> = seeded.map(|(name, _)| format!("{name}: seed")).collect();
    let services: Vec<String> = config.services.keys().map(ToString::to_string).collect();
    let steps = [
        ("code", code),
        ("setup", config.project.setup.join(" && ")),
        ("data", seeded.join(", ")),
        ("services", services.join(", ")),
    ];
    steps
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .collect()
}

fn trust_hint(checkout: &Checkout, start: &StartArgs, arguments: &UpArgs) -> String {
    let place = send::quoted(&checkout.repository.toplevel.to_string_lossy());
    let go = if arguments.url.is_some() || arguments.of_project {
        format!("cd {place} && ")
    } else {
        String::new()
    };
    let label = arguments.labels.first().map_or("LABEL", String::as_str);
    format!(
        "look and approve: `{go}holm trust{}`\ngo on without: `holm up {label} --untrusted`",
        start.typed()
    )
}

async fn included(
    checkout: &Checkout,
    origin: &Origin,
    arguments: &UpArgs,
    check: &TrustCheck,
    granted: Granted,
) -> Result<Included, Fault> {
    let mut included = Included::default();
    let toplevel = &checkout.repository.toplevel;
    for path in &arguments.include {
        included.add_typed(path, &checkout.current, toplevel)?;
    }
    if granted == Granted::Everything {
        let from_file = check.worktree_include.clone();
        add_matching(&mut included, checkout, origin, from_file).await?;
    }
    let is_uncommitted = checkout.has(AGENTS_MD) && !origin.files.has_agents_md;
    if is_uncommitted {
        // An uncommitted state contains the file already, unless git ignores it.
        let is_brought = arguments.start.dirty
            && matching(checkout, vec![AGENTS_MD.to_owned()])
                .await?
                .is_empty();
        if !is_brought {
            included.add(PathBuf::from(AGENTS_MD));
        }
    }
    Ok(included)
}

/// The ignored settings files of a checkout that a workspace from its current commit does not get.
pub async fn not_brought(checkout: &Checkout) -> Result<Vec<String>, Fault> {
    let origin = Origin::find(checkout, &StartArgs::default()).await?;
    let left_behind = left_behind(checkout, &origin).await?;
    if left_behind.settings().is_empty() {
        return Ok(Vec::new());
    }
    let mut included = Included::default();
    let from_file = checkout.worktree_include()?;
    add_matching(&mut included, checkout, &origin, from_file).await?;
    let left_behind = left_behind.without(&included);
    let names = left_behind.settings();
    Ok(names.into_iter().map(str::to_owned).collect())
}

/// Adds the ignored files that match `include` of holm.toml, and the patterns of `.worktreeinclude`.
async fn add_matching(
    included: &mut Included,
    checkout: &Checkout,
    origin: &Origin,
    from_file: Vec<String>,
) -> Result<(), Fault> {
    let from_holm_toml = origin.config.project.include.iter();
    let from_holm_toml = from_holm_toml.map(ToString::to_string).collect();
    // Separately, because git is much faster when every pattern is a plain path.
    for patterns in [from_holm_toml, from_file] {
        for path in matching(checkout, patterns).await? {
            included.add(path);
        }
    }
    Ok(())
}

/// Ignored files that match patterns relative to the root.
async fn matching(checkout: &Checkout, patterns: Vec<String>) -> Result<Vec<PathBuf>, Fault> {
    if patterns.is_empty() {
        return Ok(Vec::new());
    }
    let patterns: Vec<_> = patterns
        .iter()
        .map(|pattern| format!("/{pattern}"))
        .collect();
    checkout
        .git(move |repository| repository.ignored_matching(&patterns))
        .await
}

async fn left_behind(checkout: &Checkout, origin: &Origin) -> Result<LeftBehind, Fault> {
    let toplevel = &checkout.repository.toplevel;
    let mut left = LeftBehind::look(&origin.config);
    left.submodules.clone_from(&origin.files.submodules);
    left.has_lfs = origin.files.has_lfs;
    left.without_config = without_config(checkout, origin).await;
    if has_notable(toplevel) {
        let notable = checkout
            .git(|repository| repository.ignored_notable())
            .await?;
        left.ignored = notable
            .iter()
            .map(|name| PathBuf::from(name.trim_end_matches('/')))
            .collect();
    }
    Ok(left)
}

/// What a holm.toml would start, if the commit has none.
async fn without_config(checkout: &Checkout, origin: &Origin) -> Left {
    if origin.files.holm_toml.is_some() {
        return Left::default();
    }
    if checkout.has(HOLM_TOML) {
        let row = Missing {
            how: "not used",
            what: HOLM_TOML.to_owned(),
            why: "not committed",
            command: "holm up LABEL --dirty".to_owned(),
        };
        let note = "the holm.toml of the checkout is not in the commit; commit it, or \
                    `holm up LABEL --dirty` follows it";
        return Left {
            rows: vec![row],
            notes: vec![note.to_owned()],
        };
    }
    if checkout.repository.project_id.is_some() {
        // The first `up` of the repository said it, and looking for it reads many directories.
        return Left::default();
    }
    let toplevel = checkout.repository.toplevel.clone();
    // A failure here is not worth a note; the directory exists.
    let proposal = try_blocking(move || Ok(look::propose(&toplevel, &toplevel, Vec::new()).ok()));
    let Ok(Some(proposal)) = proposal.await else {
        return Left::default();
    };
    let missing = |how, what: &str| Missing {
        how,
        what: what.to_owned(),
        why: "no holm.toml",
        command: "holm init".to_owned(),
    };
    let setup = proposal.setup.iter();
    let setup = setup.map(|step| missing("not set up", &step.command));
    let services = proposal.services.iter();
    let services = services.map(|service| missing("not started", &service.run));
    Left {
        rows: setup.chain(services).collect(),
        notes: proposal.in_one_line().into_iter().collect(),
    }
}

fn request(
    checkout: &Checkout,
    origin: &Origin,
    arguments: &UpArgs,
    check: TrustCheck,
    included: &Included,
) -> Result<CreateWorkspace, Fault> {
    let repository = &checkout.repository;
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let resolved = origin.resolved.as_ref();
    Ok(CreateWorkspace {
        label: None,
        reuse: false,
        commit: origin.commit(),
        contained: origin.is_contained,
        reference: resolved.and_then(|resolved| resolved.display.clone()),
        default_root: path_text(&repository.main_root)?,
        home: path_text(&DaemonUser::current()?.home()?)?,
        config: check.config,
        compose: check.compose,
        built: Built::new(),
        worktree_include: check.worktree_include,
        untrusted: arguments.untrusted,
        driver: arguments.driver.clone(),
        allow_degraded: arguments.allow_degraded.clone(),
        force: arguments.force,
        no_setup: arguments.no_setup,
        keep: arguments.keep,
        user_name: repository.user_name.clone(),
        user_email: repository.user_email.clone(),
        remotes: repository.remotes.clone(),
        shallow: repository.shallow.clone(),
        path: variable("PATH").unwrap_or_default(),
        lang: variable("LANG"),
        tz: variable("TZ"),
        include: None,
        excluded: included.excluded(),
        dirty: None,
        handover: None,
        notes: Vec::new(),
        errand: variable(ERRAND),
    })
}
