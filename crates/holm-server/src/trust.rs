//! `/trust`: what a `holm.toml`, or the repository's own git configuration, requests from the host,
//! and whether a person approved exactly that.

use super::App;
use super::caller::Caller;
use super::failure::{Answer, Body, project_id};
use super::view::time;
use axum::Json;
use axum::extract::State;
use holm_api::project::{Ask, AskChange, ChangeKind, TrustApprove, TrustCheck, TrustReport};
use holm_config::user::UserConfig;
use holm_core::compose::ComposeFiles;
use holm_core::config::{Name, Pattern, ProjectConfig, ProtectedPath, Scope, Word};
use holm_core::git_settings::GitSetting;
use holm_core::image_reference::ImageReference;
use holm_core::spec::WorkspaceSpec;
use holm_core::trust::{Baseline, SETTINGS_DIGEST, asks, settings_asks, without_untrusted};
use holm_core::{Code, Fault, ProjectId, trust};
use holm_engine::store::ProjectRecord;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The files of a project that say how its workspaces are.
#[derive(Clone, Copy)]
pub struct Files<'a> {
    pub holm_toml: Option<&'a str>,
    pub compose: &'a ComposeFiles,
    /// The images that the client has built, by their services.
    pub built: &'a BTreeMap<String, ImageReference>,
}

/// A configuration, and its requests.
pub struct Judged {
    pub config: ProjectConfig,
    pub user: UserConfig,
    baseline: Baseline,
    pub asks: Vec<trust::Ask>,
    pub digest: String,
    pub is_approved: bool,
    /// Differences from the last approval, if there was one and this is not approved.
    since: Vec<trust::Change>,
}

operations! {
    /// Approves exactly what a check showed.
    post "/trust" "trust_approve" approve sends TrustApprove -> TrustApprove;
    /// What a `holm.toml` asks of the host, and whether that was approved.
    post "/trust/check" "trust_check" check sends TrustCheck -> TrustReport;
}

async fn check(State(app): State<Arc<App>>, Body(check): Body<TrustCheck>) -> Answer<TrustReport> {
    let id = project_id(&check.project_id)?;
    app.engine.project(&id).await?;
    if !check.settings.is_empty() {
        let (asks, digest) = judge_settings(&check.settings);
        let approved = asks.is_empty() || app.engine.is_approved(&id, digest.clone()).await?;
        return Ok(Json(TrustReport {
            asks: asks.into_iter().map(shown).collect(),
            digest,
            approved,
            approved_at: None,
            changes: Vec::new(),
        }));
    }
    let files = Files {
        holm_toml: check.config.as_deref(),
        compose: &check.compose,
        built: &BTreeMap::new(),
    };
    let judged = app.judge(&id, files, &check.worktree_include).await?;
    let last = app.engine.last_approval(&id).await?;
    let before = last.as_ref().map_or(&[][..], |last| &last.asks);
    let changes = trust::changes(before, &judged.asks);
    Ok(Json(TrustReport {
        asks: judged.asks.into_iter().map(shown).collect(),
        digest: judged.digest,
        approved: judged.is_approved,
        approved_at: last.map(|last| time(last.at)),
        changes: changes.into_iter().map(to_api).collect(),
    }))
}

async fn approve(
    State(app): State<Arc<App>>,
    caller: Caller,
    Body(approve): Body<TrustApprove>,
) -> Answer<TrustApprove> {
    app.require_approver(&caller)?;
    let id = project_id(&approve.project_id)?;
    app.engine.project(&id).await?;
    if let Some(decision) = &approve.sign_in {
        app.decide_sign_in(&id, &decision.agent, decision.allowed)
            .await?;
        return Ok(Json(approve));
    }
    let (asks, digest) = if approve.settings.is_empty() {
        let include = &approve.worktree_include;
        let files = Files {
            holm_toml: approve.config.as_deref(),
            compose: &approve.compose,
            built: &BTreeMap::new(),
        };
        let judged = app.judge(&id, files, include).await?;
        (judged.asks, judged.digest)
    } else {
        judge_settings(&approve.settings)
    };
    // The requests also depend on settings and on what was in force, which may have changed since
    // the check.
    if digest != approve.digest {
        return Err(not_what_was_shown().into());
    }
    app.engine.approve(&id, digest, asks).await?;
    Ok(Json(approve))
}

/// The requests of git settings, and their digest.
fn judge_settings(settings: &[GitSetting]) -> (Vec<trust::Ask>, String) {
    let asks = settings_asks(settings);
    let digest = format!("{SETTINGS_DIGEST}{}", holm_config::trust::digest(&asks));
    (asks, digest)
}

fn shown(ask: trust::Ask) -> Ask {
    Ask {
        key: ask.key,
        words: ask.words,
    }
}

fn not_what_was_shown() -> Fault {
    Fault::new(
        Code::NotTrusted,
        "what is asked for is not what was shown; nothing was approved",
        "`holm trust` shows it as it is now",
    )
}

fn to_api(change: trust::Change) -> AskChange {
    let (kind, ask, before) = match change {
        trust::Change::Added(ask) => (ChangeKind::Added, ask, None),
        trust::Change::Removed(ask) => (ChangeKind::Removed, ask, None),
        trust::Change::Changed { before, now } => (ChangeKind::Changed, now, Some(before.words)),
    };
    AskChange {
        change: kind,
        key: ask.key,
        words: ask.words,
        before,
    }
}

// === impl App ===

impl App {
    /// Parses a configuration and finds out what needs, and has, a person's approval.
    pub async fn judge(
        &self,
        id: &ProjectId,
        files: Files<'_>,
        worktree_include: &[String],
    ) -> Result<Judged, Fault> {
        let mut config = files.config()?;
        for pattern in worktree_include {
            let pattern = Pattern::parse(pattern).map_err(|error| {
                let shown = pattern.escape_debug();
                let message = format!(".worktreeinclude has `{shown}`, which cannot be used");
                Fault::new(
                    Code::InvalidConfig,
                    message,
                    "correct that line, or remove it",
                )
                .because(error)
            })?;
            config.project.include.push(pattern);
        }
        let latest = self.engine.latest_workspace(id).await?;
        let before = latest.map(|workspace| workspace.spec);
        self.judge_after(id, config, before.as_deref()).await
    }

    /// As [`Self::judge`], with what was in force before.
    pub async fn judge_after(
        &self,
        id: &ProjectId,
        mut config: ProjectConfig,
        before: Option<&WorkspaceSpec>,
    ) -> Result<Judged, Fault> {
        let rules = Rules::of(&self.engine.project(id).await?)?;
        rules.add_to(&mut config);
        let user = holm_config::user::load(&self.paths.config_file, &self.home())?;
        // Paths that the machine's policy protects stay protected, whatever the project says.
        let policy = self.policy.load()?.unwrap_or_default();
        let stays = |path: &ProtectedPath| policy.protected_paths.iter().any(|it| it.covers(path));
        let protected_before = before.map(|spec| -> Result<_, Fault> {
            let mut paths = super::policy::protected_paths(spec)?;
            paths.retain(|path| !stays(path));
            Ok(paths)
        });
        let protected_before = protected_before.transpose()?;
        let baseline = Baseline {
            isolation: rules.isolation,
            ..holm_config::trust::baseline(&user, protected_before)
        };
        let asks = asks(&config, &baseline);
        let digest = holm_config::trust::digest(&asks);
        let is_approved = asks.is_empty() || self.engine.is_approved(id, digest.clone()).await?;
        let last = if is_approved {
            None
        } else {
            self.engine.last_approval(id).await?
        };
        let since = last.map(|last| trust::changes(&last.asks, &asks));
        Ok(Judged {
            config,
            user,
            baseline,
            asks,
            digest,
            is_approved,
            since: since.unwrap_or_default(),
        })
    }
}

// === impl Files ===

impl Files<'_> {
    pub fn config(self) -> Result<ProjectConfig, Fault> {
        let Some(text) = self.holm_toml else {
            return Ok(ProjectConfig::default());
        };
        let mut config = holm_config::project::parse_with(text, "holm.toml", self.compose)?;
        config.name_built(self.built);
        Ok(config)
    }
}

/// A project's own rules, as configuration.
struct Rules {
    protected_paths: Vec<ProtectedPath>,
    isolation: Option<Scope>,
}

// === impl Rules ===

impl Rules {
    fn of(project: &ProjectRecord) -> Result<Self, Fault> {
        let damaged = |value: &str| {
            let message = format!("project {} has an unknown rule: `{value}`", project.id);
            Fault::new(Code::CorruptState, message, "holm doctor")
        };
        let paths = project.rules.protected_paths.iter();
        let paths = paths.map(|path| ProtectedPath::parse(path).map_err(|_| damaged(path)));
        let isolation = project.rules.isolation.as_deref();
        let isolation = isolation.map(|word| Scope::parse_word(word).ok_or_else(|| damaged(word)));
        Ok(Self {
            protected_paths: paths.collect::<Result<_, _>>()?,
            isolation: isolation.transpose()?,
        })
    }

    /// The repository's file adds to them and removes nothing.
    fn add_to(&self, config: &mut ProjectConfig) {
        for path in &self.protected_paths {
            let protected = &mut config.project.protected_paths;
            if !protected.contains(path) {
                protected.push(path.clone());
            }
        }
        if self.isolation == Some(Scope::Project) {
            config.project.isolation = Scope::Project;
        }
    }
}

// === impl Judged ===

impl Judged {
    /// Whether the user's settings give credentials to the agent of this name.
    pub fn gives_to(&self, agent: &Name) -> bool {
        self.baseline.agents_with_credentials.contains(agent)
    }

    /// Refuses unapproved requests, or drops them and returns them in words.
    pub fn settle(mut self, untrusted: Untrusted) -> Result<(Self, Vec<String>), Fault> {
        if self.is_approved {
            return Ok((self, Vec::new()));
        }
        let listed = |ask: &trust::Ask| format!("{}: {}", ask.key, ask.words);
        let listed: Vec<_> = self.asks.iter().map(listed).collect();
        match untrusted {
            Untrusted::Refuse => {
                let mut message = format!(
                    "holm.toml asks for what nobody approved: {}",
                    listed.join("; ")
                );
                if !self.since.is_empty() {
                    let since: Vec<_> = self.since.iter().map(ToString::to_string).collect();
                    message.push_str(&format!("; since the last approval: {}", since.join("; ")));
                }
                let hint = "`holm trust` shows and approves it; `--untrusted` goes on without it";
                Err(Fault::new(Code::NotTrusted, message, hint))
            }
            Untrusted::Drop => {
                self.config = without_untrusted(&self.config, &self.baseline);
                let notes = listed
                    .iter()
                    .map(|ask| format!("not approved, so left out: {ask} (`holm trust`)"));
                let notes = notes.collect();
                Ok((self, notes))
            }
        }
    }
}

/// What to do with unapproved requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untrusted {
    Refuse,
    Drop,
}
