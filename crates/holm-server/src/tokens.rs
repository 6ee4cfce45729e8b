//! `/tokens`: access tokens for the front door. Stored as digests; shown once, when they are
//! created.
//!
//! All of them are in memory, so checking a wrong one costs a digest and no disk access. The
//! default token is in a file that only this user can read, for programs of this machine.

use super::App;
use super::cuts::Cuts;
use super::door::replace;
use super::failure::{Answer, Body, Failure, TokenKey, bad_request, workspace_id};
use super::startup::unusable;
use super::view::time;
use axum::Json;
use axum::extract::State;
use holm_api::token::{NewToken, Token, TokenList, TokenMade};
use holm_core::token::{Bearer, Holder, check_name, is_same};
use holm_core::{Code, Fault, TokenId, WorkspaceId};
use holm_engine::Engine;
use holm_engine::Notice;
use holm_engine::clock::Look;
use holm_engine::store::TokenRecord;
use jiff::SignedDuration;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path as FilePath, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Every token of this daemon. A handle; clones share everything.
#[derive(Clone)]
pub struct Tokens(Arc<Shared>);

struct Shared {
    engine: Engine,
    /// The file of the default token.
    file: PathBuf,
    known: RwLock<BTreeMap<TokenId, TokenRecord>>,
    /// Tokens that were seen to be expired, which is not stored yet.
    unwritten: Mutex<Vec<TokenId>>,
    cuts: Cuts,
}

/// Why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Unknown,
    Expired,
}

/// How often expiry is checked while connections may be open.
const OFTEN: Duration = Duration::from_secs(1);

/// A request that was being checked when its token expired is cut within this time.
const LATE: Duration = Duration::from_secs(5);

/// How long the connections of a browser that signed out stay open.
const PARTING: Duration = Duration::from_millis(200);

const MOST: usize = 1000;

/// Ten years.
const LONGEST: u64 = 10 * 365 * 86_400;

/// The name of the token in the file.
const DEFAULT: &str = "default";

const UNNAMED: &str = "token";

/// The name of a browser's token.
const BROWSER: &str = "browser";

/// Browsers that can be signed in at a time; the oldest is signed out for another one.
const MOST_BROWSERS: usize = 32;

/// How long a browser stays signed in: thirty days.
const SIGNED_IN: i64 = 30 * 86_400;

operations! {
    /// The tokens, without their secrets.
    get "/tokens" "token_list" list -> TokenList;
    /// Makes a token, which is shown now and never again.
    post "/tokens" "token_new" make sends NewToken -> TokenMade;
    /// Revokes a token and cuts its connections.
    delete "/tokens/{token}" "token_remove" remove of (TokenKey) -> Token;
}

async fn list(State(app): State<Arc<App>>) -> Answer<TokenList> {
    let known = app.tokens.all();
    let tokens = known
        .iter()
        .map(|record| to_api(record, app.tokens.is_over(record)));
    let tokens = tokens.collect();
    Ok(Json(TokenList { tokens }))
}

async fn make(State(app): State<Arc<App>>, Body(new): Body<NewToken>) -> Answer<TokenMade> {
    let name = new.name.unwrap_or_else(|| UNNAMED.to_owned());
    check_name(&name).map_err(bad_request)?;
    if new
        .expires_seconds
        .is_some_and(|seconds| !(1..=LONGEST).contains(&seconds))
    {
        return Err(bad_request(
            "`expires_seconds` is not between a second and ten years",
        ));
    }
    let workspace = new.workspace.as_deref().map(workspace_id).transpose()?;
    if let Some(id) = &workspace {
        // Fails if the workspace does not exist.
        app.engine.show(id).await?;
    }
    if app.tokens.all().len() >= MOST {
        let message = format!("there are {MOST} tokens already");
        let hint = "`holm token ls` lists them, `holm token rm` removes one";
        return Err(Failure(Fault::new(Code::Refused, message, hint)));
    }
    let lasts = new
        .expires_seconds
        .and_then(|seconds| i64::try_from(seconds).ok());
    let holder = holder(&new.may, workspace.is_some())?;
    let (bearer, mut record) = fresh(name, workspace, app.engine.clock().look(), lasts);
    record.holder = holder;
    app.tokens.add(record.clone()).await?;
    Ok(Json(TokenMade {
        made: to_api(&record, false),
        token: bearer.text(),
    }))
}

async fn remove(State(app): State<Arc<App>>, TokenKey(id): TokenKey) -> Answer<Token> {
    let found = app.tokens.one(&id);
    let Some(record) = found else {
        let message = format!("no token `{id}`");
        let hint = "`holm token ls` lists them";
        return Err(Failure(Fault::new(Code::TokenNotFound, message, hint)));
    };
    let is_over = app.tokens.is_over(&record);
    app.tokens.end(&record).await?;
    Ok(Json(to_api(&record, is_over)))
}

/// Parses what a token may do besides. A workspace never approves its own work.
fn holder(may: &[String], is_of_workspace: bool) -> Result<Holder, Failure> {
    let approve = Holder::Approver.right();
    if let Some(word) = may.iter().find(|word| *word != approve) {
        let word = word.escape_debug();
        return Err(bad_request(format!(
            "`{word}` is not a right; `{approve}` is one"
        )));
    }
    match (may.is_empty(), is_of_workspace) {
        (true, _) => Ok(Holder::Program),
        (false, false) => Ok(Holder::Approver),
        (false, true) => Err(bad_request("a token of a workspace cannot approve")),
    }
}

fn to_api(record: &TokenRecord, is_over: bool) -> Token {
    Token {
        id: record.id.to_string(),
        name: record.name.clone(),
        workspace: record.workspace.as_ref().map(ToString::to_string),
        created_at: time(record.created_at),
        expires_at: record.expires_at.map(time),
        expired: is_over,
        may: Some(record.holder.right())
            .filter(|right| !right.is_empty())
            .map(str::to_owned)
            .into_iter()
            .collect(),
    }
}

fn fresh(
    name: String,
    workspace: Option<WorkspaceId>,
    look: Look,
    seconds: Option<i64>,
) -> (Bearer, TokenRecord) {
    let bearer = Bearer::random();
    let ends = |seconds| look.for_expiry() + SignedDuration::from_secs(seconds);
    let record = TokenRecord {
        id: bearer.id.clone(),
        name,
        workspace,
        digest: digest(&bearer.text()),
        created_at: look.wall,
        expires_at: seconds.map(ends),
        expired_at: None,
        holder: Holder::Program,
    };
    (bearer, record)
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

// === impl Tokens ===

impl Tokens {
    /// Empty until [`Tokens::load`].
    pub fn new(engine: &Engine, data_dir: &FilePath) -> Self {
        Self(Arc::new(Shared {
            engine: engine.clone(),
            file: data_dir.join("token"),
            known: RwLock::default(),
            unwritten: Mutex::default(),
            cuts: Cuts::default(),
        }))
    }

    /// Whether a token was made to approve.
    pub fn may_approve(&self, id: &TokenId) -> bool {
        let record = self.one(id);
        record.is_some_and(|record| record.holder == Holder::Approver)
    }

    /// Loads the tokens, creates the default one if necessary, and follows the removal of
    /// workspaces.
    pub async fn load(&self) -> Result<(), Fault> {
        for record in self.0.engine.tokens().await? {
            self.known_mut(|known| known.insert(record.id.clone(), record.clone()));
            if let Some(workspace) = &record.workspace
                && self.0.engine.named(workspace).await?.is_none()
            {
                self.end(&record).await?;
            }
        }
        self.settle_default().await?;
        // Weak, because the engine is part of it: the store must be closed when the daemon ends.
        let (shared, runtime) = (Arc::downgrade(&self.0), tokio::runtime::Handle::current());
        self.0.engine.subscribe(move |id, notice| {
            if matches!(notice, Notice::Removed | Notice::Forgotten)
                && let Some(shared) = shared.upgrade()
            {
                Tokens(shared).end_guests(id, &runtime);
            }
        });
        Ok(())
    }

    /// Signs a browser in, and returns the token for its cookie.
    pub async fn sign_in(&self) -> Result<Bearer, Fault> {
        let browsers = self.all().into_iter();
        let browsers: Vec<_> = browsers
            .filter(|record| record.holder == Holder::Browser)
            .collect();
        let surplus = (browsers.len() + 1).saturating_sub(MOST_BROWSERS);
        for oldest in browsers.iter().take(surplus) {
            self.end(oldest).await?;
        }
        let look = self.0.engine.clock().look();
        let (bearer, mut record) = fresh(BROWSER.to_owned(), None, look, Some(SIGNED_IN));
        record.holder = Holder::Browser;
        self.add(record).await?;
        Ok(bearer)
    }

    /// Signs a browser out. Its connections are cut a moment later, because one of them waits for the answer.
    pub async fn sign_out(&self, id: &TokenId) -> Result<(), Fault> {
        self.known_mut(|known| known.remove(id));
        self.0.engine.remove_token(id.clone()).await?;
        let (tokens, id) = (self.clone(), id.clone());
        tokio::spawn(async move {
            tokio::time::sleep(PARTING).await;
            tokens.0.cuts.cut(id.as_str());
        });
        Ok(())
    }

    /// The owner of a token. Costs the same whether it is known or not.
    pub fn check(&self, text: &str) -> Result<TokenRecord, Refusal> {
        let bearer = Bearer::parse(text).ok_or(Refusal::Unknown)?;
        let record = self.one(&bearer.id);
        let kept = record.as_ref().map_or([0; 32], |record| record.digest);
        match record.filter(|_| is_same(&kept, &digest(text))) {
            None => Err(Refusal::Unknown),
            Some(record) if self.is_over(&record) => Err(Refusal::Expired),
            Some(record) => Ok(record),
        }
    }

    /// Whether a token has expired. An expired one stays so: the clock may be set back.
    fn is_over(&self, record: &TokenRecord) -> bool {
        let look = self.0.engine.clock().look();
        if record.expired_at.is_some() {
            return true;
        }
        let is_over = record
            .expires_at
            .is_some_and(|end| end <= look.for_expiry());
        if is_over && look.ends_for_good() {
            self.known_mut(|known| {
                if let Some(record) = known.get_mut(&record.id)
                    && record.expired_at.is_none()
                {
                    record.expired_at = Some(look.wall);
                    self.unwritten().push(record.id.clone());
                }
            });
        }
        is_over
    }

    /// Whether the token was not removed and is not over.
    pub fn is_known(&self, id: &TokenId) -> bool {
        let record = self.one(id);
        record.is_some_and(|record| !self.is_over(&record))
    }

    pub fn cuts(&self) -> &Cuts {
        &self.0.cuts
    }

    /// Cuts connections of expired tokens and stores the expiry, for as long as it is polled.
    pub async fn watch(self) {
        let mut ended = HashMap::new();
        loop {
            tokio::time::sleep(OFTEN).await;
            for record in self.all() {
                if !self.is_over(&record) {
                    continue;
                }
                let since = ended.entry(record.id.clone()).or_insert_with(Instant::now);
                // A few moments longer, for a request that was being checked.
                if since.elapsed() < LATE {
                    self.0.cuts.cut(record.id.as_str());
                }
            }
            self.note_ended().await;
        }
    }

    /// Stores which tokens were seen to be expired, before a response says so. A failure is
    /// retried.
    pub async fn note_ended(&self) {
        let ids = std::mem::take(&mut *self.unwritten());
        for id in ids {
            let at = self.one(&id).and_then(|record| record.expired_at);
            let Some(at) = at else { continue };
            if let Err(fault) = self.0.engine.expire_token(id.clone(), at).await {
                tracing::warn!(%fault, token = %id, "that a token has expired is not written down");
                self.unwritten().push(id);
            }
        }
    }

    fn unwritten(&self) -> MutexGuard<'_, Vec<TokenId>> {
        let unwritten = self.0.unwritten.lock();
        unwritten.unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self) -> Vec<TokenRecord> {
        let known = self.0.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = known.values().cloned().collect();
        all.sort_by_key(|record| record.created_at);
        all
    }

    fn one(&self, id: &TokenId) -> Option<TokenRecord> {
        let known = self.0.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(id).cloned()
    }

    async fn add(&self, record: TokenRecord) -> Result<(), Fault> {
        self.0.engine.add_token(record.clone()).await?;
        self.known_mut(|known| known.insert(record.id.clone(), record));
        Ok(())
    }

    /// Revokes it and cuts its connections.
    async fn end(&self, record: &TokenRecord) -> Result<(), Fault> {
        self.known_mut(|known| known.remove(&record.id));
        self.0.cuts.cut(record.id.as_str());
        self.0.engine.remove_token(record.id.clone()).await?;
        let kept = std::fs::read_to_string(&self.0.file).unwrap_or_default();
        if Bearer::parse(kept.trim()).is_some_and(|bearer| bearer.id == record.id) {
            // Its content is worthless; the next daemon writes another one.
            let _ = std::fs::remove_file(&self.0.file);
        }
        Ok(())
    }

    /// A workspace was removed: revokes its tokens and cuts its guests.
    fn end_guests(&self, id: &WorkspaceId, runtime: &tokio::runtime::Handle) {
        self.0.cuts.cut(id.as_str());
        let of_it = |record: &TokenRecord| record.workspace.as_ref() == Some(id);
        for record in self.all().into_iter().filter(of_it) {
            self.known_mut(|known| known.remove(&record.id));
            self.0.cuts.cut(record.id.as_str());
            let tokens = self.clone();
            // If this fails, the next daemon does it.
            runtime.spawn(async move {
                if let Err(fault) = tokens.end(&record).await {
                    tracing::warn!(%fault, token = %record.id, "a token stays in the store");
                }
            });
        }
    }

    /// Makes file and store agree on the default token, or creates a new one.
    async fn settle_default(&self) -> Result<(), Fault> {
        let file = &self.0.file;
        let kept = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(unusable("read", file, error)),
        };
        if self
            .check(kept.trim())
            .is_ok_and(|record| record.name == DEFAULT)
        {
            return Ok(());
        }
        for stale in self.all().iter().filter(|record| record.name == DEFAULT) {
            self.end(stale).await?;
        }
        let look = self.0.engine.clock().look();
        let (bearer, record) = fresh(DEFAULT.to_owned(), None, look, None);
        self.add(record).await?;
        // A temporary file, renamed: readable only by this user from the beginning.
        replace(file, format!("{}\n", bearer.text()).as_bytes())
            .map_err(|error| unusable("write", file, error))
    }

    fn known_mut<T>(&self, change: impl FnOnce(&mut BTreeMap<TokenId, TokenRecord>) -> T) -> T {
        let known = &self.0.known;
        change(&mut known.write().unwrap_or_else(PoisonError::into_inner))
    }
}
