//! The daemon: the engine behind HTTP on a Unix socket.
//!
//! `holm daemon run` calls [`run`]. Workspaces do not depend on the daemon: when it ends, for
//! whatever reason, they go on, and the next one finds them. One file per group of routes;
//! `holm-api` documents every route.

#[macro_use]
mod operations;

mod agents;
mod api;
mod apply;
mod audit;
mod bounds;
mod browsers;
mod caller;
mod checks;
mod comments;
mod compare;
mod compose;
mod conflicts;
mod create;
mod cuts;
mod daemon;
mod dashboard;
mod data;
mod declared;
mod disk;
mod door;
mod egress;
mod errands;
mod events;
mod exec;
mod failure;
mod files;
mod gate;
mod gc;
mod guests;
pub mod headless;
mod health;
pub mod helper;
mod housekeeping;
mod images;
mod inbox;
mod jsonl;
mod keyed;
mod layers;
mod listen;
mod make;
mod mcp;
mod metrics;
mod moves;
mod numbers;
mod objects;
mod openapi;
mod page;
mod policy;
mod projects;
mod receive_pack;
mod reload;
mod repositories;
mod resume;
mod review;
mod routes;
mod runs;
pub mod runtime;
mod secrets;
mod service_images;
mod services;
mod sessions;
mod siblings;
pub mod startup;
mod takeover;
mod tokens;
mod trees;
mod trust;
mod turns;
mod uploads;
mod view;
mod work;
mod workspaces;

use audit::Audit;
use axum::Router;
use browsers::Browsers;
use conflicts::Conflicts;
pub use dashboard::Asset;
use dashboard::Dashboard;
use door::Door;
use errands::Errands;
use events::Events;
use health::LastHealth;
use holm_api::workspace::{Port, Workspace};
use holm_config::paths::Paths;
use holm_config::policy::PolicyFile;
use holm_core::Fault;
use holm_core::plan::State;
use holm_core::spec::WorkspaceSpec;
use holm_engine::clock::Clock;
use holm_engine::storage::Measure;
use holm_engine::{Drivers, Engine, MissingObjects, Store, View};
use holm_image::Images;
use holm_keeper::plan::NetworkSource;
use holm_keeper::wire::GrantSource;
use holm_secrets::keyring::Keyring;
use jiff::Timestamp;
use listen::{Peer, PeerListener};
pub use mcp::Mcp;
use metrics::Metrics;
use repositories::Repositories;
use routes::{Deaths, PendingCommands, Routes};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokens::Tokens;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;
use turns::Turns;
use uploads::Uploads;

/// The context of every route.
pub struct App {
    engine: Engine,
    routes: Routes,
    browsers: Browsers,
    dashboard: Dashboard,
    watchers: sessions::Watchers,
    waiting: resume::Waiting,
    events: Events,
    repositories: Repositories,
    secrets: Arc<secrets::Keeping>,
    uploads: Uploads,
    images: Images,
    network: NetworkSource,
    errands: Errands,
    known_inputs: layers::KnownInputs,
    gauge: numbers::Gauge,
    mcp: Mcp,
    metrics: Arc<Metrics>,
    health: LastHealth,
    tokens: Tokens,
    turns: Turns,
    checks: checks::Checks,
    inbox: inbox::Inbox,
    conflicts: Arc<Conflicts>,
    audit: Audit,
    policy: PolicyFile,
    paths: Paths,
    started_at: Timestamp,
    stop: watch::Sender<bool>,
}

/// The file of the store, below the data directory.
pub const STORE: &str = "holm.db";

/// The file with a copy of the store, if the store is a database.
pub const COPY: &str = "copy.db";

/// Directories that are created at the start.
const DIRECTORIES: [&str; 5] = ["incoming", "projects", "workspaces", "trash", "secrets"];

/// How long requests may take to end when the daemon stops.
const GRACE: Duration = Duration::from_secs(5);

/// What the program gives to its daemon: the store, the drivers, and the answers to MCP.
pub struct Parts {
    pub store: Opens<Arc<dyn Store>>,
    pub drivers: fn(&Paths, GrantSource) -> Result<Drivers, Fault>,
    /// The proxy and the CAs of the user's settings.
    pub network: fn(&Paths) -> NetworkSource,
    pub mcp: Mcp,
    /// The files of the dashboard; empty in a build without it.
    pub dashboard: &'static [Asset],
}

/// Opens a part once the daemon has its directories.
pub type Opens<T> = fn(&Paths) -> Result<T, Fault>;

/// Serves until a signal or a client stops it. `ready` is called once, when clients can connect.
pub fn run(paths: Paths, parts: Parts, ready: impl FnOnce()) -> Result<(), Fault> {
    startup::private_dir(&paths.data_dir)?;
    startup::private_dir(&paths.run_dir)?;
    let lock = startup::DataLock::acquire(&paths.data_dir.join("lock"))?;
    for name in DIRECTORIES {
        startup::private_dir(&paths.data_dir.join(name))?;
    }
    log_to(&paths.data_dir.join("daemon.log"))?;
    let runtime = runtime::build(&mut Builder::new_multi_thread())?;
    let served = runtime.block_on(serve(paths, parts, ready));
    if let Err(fault) = &served {
        tracing::error!(code = %fault.code, "{fault}");
    }
    runtime.shutdown_timeout(Duration::from_secs(1));
    // Only now another daemon may take over.
    drop(lock);
    served
}

async fn serve(paths: Paths, parts: Parts, ready: impl FnOnce()) -> Result<(), Fault> {
    let socket = paths.socket();
    let (app, unheard, deaths) = App::open(paths, parts)?;
    let app = Arc::new(app);
    let door = Door::open(&app.paths, &app.home())?;
    app.routes.front_door().set(door.port());
    app.repositories.sweep();
    let recovery = app.engine.recover().await?;
    tracing::info!(
        ?recovery,
        version = env!("CARGO_PKG_VERSION"),
        "the daemon starts"
    );
    turns::begin(&app);
    checks::begin(&app);
    conflicts::begin(&app);
    app.sweep_turns().await?;
    app.routes.begin(unheard, app.events.clone()).await?;
    app.take_up_again().await?;
    app.resume_sessions().await?;
    app.tokens.load().await?;
    let router = open_doors(&app, door)?;
    let listener = PeerListener::bind(&socket)?;
    match std::fs::remove_file(app.paths.stopped()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(%error, "clients take this daemon for a stopped one");
        }
        _ => {}
    }
    let mut stops = [SignalKind::terminate(), SignalKind::interrupt()]
        .map(signal)
        .into_iter();
    while let Some(Ok(mut stop)) = stops.next() {
        let app = Arc::clone(&app);
        tokio::spawn(async move {
            stop.recv().await;
            app.stop.send_replace(true);
        });
    }
    let service = router.into_make_service_with_connect_info::<Peer>();
    let serving = axum::serve(listener, service).with_graceful_shutdown(stopped(app.clone()));
    ready();
    housekeeping::begin(&app);
    siblings::begin(&app);
    inbox::begin(&app);
    tokio::spawn(until_stopped(
        Arc::clone(&app),
        resume::begin(Arc::clone(&app), deaths),
    ));
    tokio::spawn(until_stopped(
        Arc::clone(&app),
        numbers::keep(Arc::clone(&app)),
    ));
    tokio::spawn(until_stopped(
        Arc::clone(&app),
        metrics::begin(Arc::clone(&app)),
    ));
    let out_of_patience = async {
        stopped(Arc::clone(&app)).await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        result = serving => if let Err(error) = result {
            tracing::error!(%error, "the socket failed");
        },
        () = out_of_patience => tracing::warn!("requests under way are left behind"),
    }
    if *app.stop.borrow() {
        // Before the connections of running commands are cut: their clients must not start another
        // daemon.
        if let Err(error) = std::fs::write(app.paths.stopped(), "") {
            tracing::warn!(%error, "clients cannot tell that this daemon was stopped");
        }
    }
    // Clients get "connection refused" rather than no answer.
    if let Err(error) = std::fs::remove_file(&socket) {
        tracing::warn!(%error, "the socket stays behind");
    }
    tracing::info!("the daemon ends");
    Ok(())
}

/// Starts serving programs, browsers and guests, until the daemon stops. The user's socket comes
/// last.
fn open_doors(app: &Arc<App>, door: Door) -> Result<Router, Fault> {
    let router = api::router(Arc::clone(app));
    let guests = guests::bind(&app.paths)?;
    let guests = guests::serve(Arc::clone(app), guests, router.clone());
    tokio::spawn(until_stopped(Arc::clone(app), door.serve(app, &router)));
    tokio::spawn(until_stopped(Arc::clone(app), guests));
    tokio::spawn(until_stopped(Arc::clone(app), app.tokens.clone().watch()));
    tokio::spawn(until_stopped(Arc::clone(app), app.audit.clone().watch()));
    Ok(router)
}

/// The home of the daemon's user.
fn home() -> PathBuf {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    home.map_or_else(|| PathBuf::from("/"), PathBuf::from)
}

async fn stopped(app: Arc<App>) {
    let mut stop = app.stop.subscribe();
    // The sender is part of `app`, so it exists while this waits.
    let _ = stop.wait_for(|is_stopping| *is_stopping).await;
}

/// Runs work for as long as the daemon serves.
async fn until_stopped(app: Arc<App>, work: impl Future<Output = ()>) {
    tokio::select! {
        () = work => {}
        () = stopped(app) => {}
    }
}

fn log_to(path: &std::path::Path) -> Result<(), Fault> {
    let file = startup::open_log(path)?;
    let filter = EnvFilter::try_from_env("HOLM_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(Mutex::new(file))
        .init();
    Ok(())
}

/// The user's message bus, which may have a keyring. A daemon of a service user has none.
fn message_bus() -> Option<String> {
    let named = std::env::var("DBUS_SESSION_BUS_ADDRESS").ok();
    named.or_else(|| {
        let place = std::env::var("XDG_RUNTIME_DIR").ok()?;
        Some(format!("unix:path={place}/bus"))
    })
}

// === impl App ===

impl App {
    fn open(paths: Paths, parts: Parts) -> Result<(Self, PendingCommands, Deaths), Fault> {
        let settings = holm_config::user::load(&paths.config_file, &home())?;
        let store = (parts.store)(&paths)?;
        let repositories = Repositories::new(&paths.data_dir);
        let keyring = Keyring::at(message_bus());
        let clock = Clock::open(&*store, disk::trash_keeps(&paths))?;
        let secrets = secrets::Keeping::new(
            paths.data_dir.join("secrets"),
            keyring,
            Arc::clone(&store),
            clock.clone(),
        );
        let secrets = Arc::new(secrets);
        let giving = Arc::clone(&secrets);
        let drivers = (parts.drivers)(&paths, Arc::new(move |spec| giving.grants(spec)))?;
        let asked = repositories.clone();
        let missing: MissingObjects =
            Arc::new(move |project, objects| asked.missing(project, objects));
        let engine = Engine::new(drivers, store, missing, clock);
        let policy = PolicyFile::of_machine();
        engine.keep_within(policy::bounds(policy.clone()));
        let (routes, unheard, deaths) = Routes::new(&engine);
        let app = Self {
            events: Events::new(engine.clone()),
            routes,
            browsers: Browsers::new(&paths.data_dir),
            dashboard: Dashboard::new(parts.dashboard),
            watchers: sessions::Watchers::default(),
            waiting: resume::Waiting::default(),
            repositories,
            secrets,
            errands: Errands::default(),
            known_inputs: layers::KnownInputs::default(),
            gauge: numbers::Gauge::default(),
            mcp: parts.mcp,
            metrics: Arc::default(),
            health: LastHealth::default(),
            tokens: Tokens::new(&engine, &paths.data_dir),
            turns: Turns::open(&paths.data_dir)?,
            checks: checks::Checks::new(settings.checks_at_once),
            inbox: inbox::Inbox::default(),
            conflicts: Arc::new(Conflicts::new(&paths.data_dir)),
            audit: Audit::new(&engine),
            policy,
            uploads: Uploads::open(paths.data_dir.join("incoming"))?,
            images: images::open(&paths.data_dir)?,
            network: (parts.network)(&paths),
            engine,
            paths,
            started_at: Timestamp::now(),
            stop: watch::channel(false).0,
        };
        Ok((app, unheard, deaths))
    }

    /// Continues what earlier daemons began.
    async fn take_up_again(&self) -> Result<(), Fault> {
        let runs = self.engine.resume_runs().await?;
        tracing::info!(runs, "what is under way is taken up again");
        self.end_interrupted_checks().await?;
        self.resume_browsers().await
    }

    /// The API form of a workspace, with its current ports.
    async fn workspace(&self, view: View) -> Workspace {
        let specs = vec![Arc::clone(&view.record.spec)];
        let ports = self.routes.ports_of(&view.record.id).await;
        let mut workspace = self.with_ports(view, ports).await;
        workspace.policy = self.policy_in_force();
        self.measure_volumes(specs, std::slice::from_mut(&mut workspace))
            .await;
        workspace
    }

    /// Adds the sizes of volumes, if they can be measured.
    async fn measure_volumes(&self, specs: Vec<Arc<WorkspaceSpec>>, workspaces: &mut [Workspace]) {
        if specs.iter().all(|spec| spec.volumes.is_empty()) {
            return;
        }
        for driver in self.engine.drivers().all() {
            let of_driver = specs.iter().filter(|spec| spec.driver == driver.name());
            let of_driver: Vec<_> = of_driver.cloned().collect();
            let measured = driver.measure(Measure::Volumes(of_driver)).await;
            for (id, usage) in measured.unwrap_or_default().workspaces {
                let measured = workspaces.iter_mut().filter(|one| one.id == id.as_str());
                for volumes in measured.map(|workspace| &mut workspace.volumes) {
                    for (volume, bytes) in volumes.iter_mut().zip(&usage.each_volume) {
                        volume.bytes = Some(*bytes);
                    }
                }
            }
        }
    }

    async fn with_ports(&self, view: View, ports: Vec<Port>) -> Workspace {
        let ports = self.routes.seen_anew(&view, ports).await;
        let notes = self.routes.notes(&view.record.id);
        let waiting = self.waiting.of(&view.record.id);
        let mut workspace = view::workspace(view);
        workspace.notes.extend(notes);
        if workspace.state != State::Running.as_str() {
            workspace.notes.extend(waiting);
        }
        if !ports.is_empty() {
            workspace.ports = ports;
        }
        workspace
    }

    /// The policy file, if there is one.
    fn policy_in_force(&self) -> Option<String> {
        // An unreadable policy is in force too: nothing starts.
        let is_in_force = !matches!(self.policy.load(), Ok(None));
        is_in_force.then(|| self.policy.path.display().to_string())
    }

    /// The port of the front door.
    fn door_port(&self) -> u16 {
        self.routes.front_door().port().unwrap_or_default()
    }

    fn home(&self) -> PathBuf {
        home()
    }
}
