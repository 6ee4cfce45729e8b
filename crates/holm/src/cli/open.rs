//! `holm open`: a browser in which `localhost` is the workspace.
//!
//! This command starts the user's own browser, which continues when the command has ended. Its
//! profile belongs to the user who typed the command. The command succeeds only when the browser is
//! open: a browser that ends at once, for lack of a display, is an error.

use super::browser::{self, BrowserUser, Family, Found, Mode, Visit};
use super::completions::labels;
use super::output::GOOD;
use super::{Context, Outcome, connect, resolve};
use crate::wiring::as_inherited;
use clap::Args;
use holm_api::Workspace;
use holm_api::client::Client;
use holm_config::daemon_user::DaemonUser;
use holm_config::paths::{Paths, Surroundings, is_directory_of, process_variables};
use holm_core::{Code, Fault, WorkspaceId};
use holm_server::headless;
use serde::Serialize;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Open a browser in which localhost is the workspace
///
/// Chromium, Chrome or Firefox with a profile of its own for this workspace, whose every connection
/// goes through the workspace: `http://localhost:3000` is its port 3000, and everything else is
/// reached under the workspace's egress policy. Starts a stopped workspace first.
///
/// A window needs a display. With --headless the browser runs until it is ended, its workspace is
/// removed, or `holm daemon stop --all` stops everything.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  holm open fix-login\n  holm open fix-login api\n  \
                  holm open fix-login --print\n  holm open fix-login --headless --json"
)]
pub struct OpenArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: String,
    /// A port by name or number [default: the declared `web`, the first declared, or the only one that listens]
    #[arg(value_name = "NAME")]
    port: Option<String>,
    /// Print the command line and start nothing
    #[arg(long)]
    print: bool,
    /// Without a window; prints where the browser can be controlled (DevTools)
    #[arg(long)]
    headless: bool,
}

/// The JSON output.
#[derive(Debug, Serialize)]
struct Opened {
    workspace: String,
    label: String,
    url: String,
    browser: PathBuf,
    profile: PathBuf,
    /// The SOCKS endpoint.
    proxy: String,
    command: Vec<String>,
    pid: Option<u32>,
    /// Where a headless browser can be controlled.
    devtools: Option<String>,
}

/// How long a browser may take to show a page, or to report its endpoint.
const PATIENCE: Duration = Duration::from_secs(30);

const LOOK_AGAIN: Duration = Duration::from_millis(20);

// === impl OpenArgs ===

impl OpenArgs {
    /// A window at the usual port of a workspace.
    pub fn of(workspace: &str) -> Self {
        Self {
            workspace: workspace.to_owned(),
            port: None,
            print: false,
            headless: false,
        }
    }
}

pub fn run(context: &Context, arguments: OpenArgs) -> Outcome {
    let mode = if arguments.headless {
        Mode::Headless
    } else {
        Mode::Window
    };
    let is_shown = mode == Mode::Window && !arguments.print;
    if is_shown && !has_display() {
        return without_display(context, &arguments);
    }
    let found = find()?;
    let (workspace, proxy) = connect::block_on(async {
        let client = connect::started().await?;
        let id = resolve::one(&client, &arguments.workspace).await?;
        prepared(&client, &id, arguments.port.as_deref()).await
    })?;
    let port = chosen_port(&workspace, arguments.port.as_deref())?;
    let profile = profile(&workspace.id, found.family, mode)?;
    let url = format!("http://localhost:{port}");
    let visit = Visit {
        proxy,
        profile: &profile,
        url: &url,
        mode,
        user: browser_user(),
    };
    let words = found.arguments(&visit);
    let mut opened = Opened {
        workspace: workspace.id.clone(),
        label: workspace.label.clone(),
        proxy: format!("socks5://127.0.0.1:{proxy}"),
        command: command_words(&found, &words),
        browser: found.program.clone(),
        profile: profile.clone(),
        url: url.clone(),
        pid: None,
        devtools: None,
    };
    make_profile(&found, &visit)?;
    if arguments.print {
        let line = browser::shell_line(&found.program, &words);
        context.output.result(&opened, || line);
        return Ok(ExitCode::SUCCESS);
    }
    if visit.user == BrowserUser::Root && found.family == Family::Chromium {
        let note = "note: started by root, the browser runs without its own sandbox (--no-sandbox)";
        context.output.remark(note);
    }
    match mode {
        Mode::Window => opened.pid = shown(&found, &words, &opened.label)?,
        Mode::Headless => (opened.pid, opened.devtools) = steered(&found, &words, &visit)?,
    }
    match &opened.devtools {
        Some(devtools) => context.output.result(&opened, || devtools.clone()),
        None => context.output.done(&opened, || {
            format!(
                "{GOOD}✓{GOOD:#} {}  {url} in {}",
                opened.label,
                found.program.display()
            )
        }),
    }
    Ok(ExitCode::SUCCESS)
}

fn find() -> Result<Found, Fault> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    browser::find(&path).ok_or_else(|| {
        Fault::new(
            Code::NoBrowser,
            "no browser is on PATH: neither Chromium, Chrome nor Firefox",
            "install one (`apt install chromium`), or open a preview in any browser: `holm ports`",
        )
    })
}

/// Starts the workspace and returns it with the port of its endpoint. An invalid port starts
/// nothing.
async fn prepared(
    client: &Client,
    id: &WorkspaceId,
    port: Option<&str>,
) -> Result<(Workspace, u16), Fault> {
    let mut workspace = client.workspace(id).await?;
    if port.is_some() {
        chosen_port(&workspace, port)?;
    }
    if workspace.state != "running" {
        workspace = client.start(id).await?;
    }
    let browser = client.browser(id).await?;
    Ok((workspace, browser.port))
}

/// The port inside to open.
fn chosen_port(workspace: &Workspace, name: Option<&str>) -> Result<u16, Fault> {
    let label = &workspace.label;
    let ports = &workspace.ports;
    if let Some(name) = name {
        let named = ports
            .iter()
            .find(|port| port.name == name)
            .map(|port| port.port);
        let number = || name.parse().ok().filter(|port: &u16| *port != 0);
        return named.or_else(number).ok_or_else(|| {
            let message = format!("`{label}` has no port `{}`", name.escape_debug());
            Fault::new(
                Code::PortNotFound,
                message,
                format!("`holm ports {label}` lists them"),
            )
        });
    }
    let mut all = ports.iter().filter(|port| port.source == "declared");
    let declared = all.clone().find(|port| port.name == "web");
    let declared = declared.or_else(|| all.next());
    let listening: Vec<u16> = ports
        .iter()
        .filter(|port| port.listening)
        .map(|port| port.port)
        .collect();
    let (message, example) = match (declared, listening.as_slice()) {
        (Some(port), _) => return Ok(port.port),
        (None, [only]) => return Ok(*only),
        (None, []) => (
            format!("`{label}` declares no port, and no program in it listens on one"),
            3000,
        ),
        (None, several @ [first, ..]) => {
            let several: Vec<String> = several.iter().map(u16::to_string).collect();
            let several = several.join(", ");
            let message = format!("`{label}` declares no port, and listens on several: {several}");
            (message, *first)
        }
    };
    let hint = format!("name the one to open: `holm open {label} {example}`");
    Err(Fault::new(Code::PortNotFound, message, hint))
}

fn browser_user() -> BrowserUser {
    if rustix::process::geteuid().is_root() {
        BrowserUser::Root
    } else {
        BrowserUser::Ordinary
    }
}

fn profile(id: &str, family: Family, mode: Mode) -> Result<PathBuf, Fault> {
    let name = match (family, mode) {
        (Family::Chromium, Mode::Window) => "chromium",
        (Family::Chromium, Mode::Headless) => "chromium-headless",
        (Family::Firefox, Mode::Window) => "firefox",
        (Family::Firefox, Mode::Headless) => "firefox-headless",
    };
    Ok(profiles()?.join(id).join(name))
}

/// The profile directory of the user who typed the command: in the daemon's data if that is the
/// same user's, so that profiles are deleted with their workspaces. Root's browser must not use a
/// directory of the user `holm`.
pub fn profiles() -> Result<PathBuf, Fault> {
    let data_dir = match DaemonUser::current()? {
        DaemonUser::Caller => Paths::of_process()?.data_dir,
        DaemonUser::Service(_) => {
            let mut variables = process_variables();
            variables.remove("HOLM_HOME");
            let paths = Paths::decide(&Surroundings {
                variables: &variables,
                uid: 0,
                is_own_directory: &|path| is_directory_of(path, 0),
            });
            paths?.data_dir
        }
    };
    Ok(data_dir.join("browsers"))
}

fn make_profile(found: &Found, visit: &Visit<'_>) -> Result<(), Fault> {
    let made = || -> std::io::Result<()> {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(visit.profile)?;
        if let Some((name, text)) = found.preferences(visit.proxy) {
            std::fs::write(visit.profile.join(name), text)?;
        }
        Ok(())
    };
    made().map_err(|error| {
        let path = visit.profile.display();
        let message = format!("cannot make the profile {path}");
        Fault::new(
            Code::ReadOnly,
            message,
            "make the directory writable, then try again",
        )
        .because(error)
    })
}

fn command_words(found: &Found, words: &[String]) -> Vec<String> {
    let program = found.program.display().to_string();
    std::iter::once(program)
        .chain(words.iter().cloned())
        .collect()
}

/// Starts it in its own session, so that it continues and gets no signals of this terminal.
fn start(found: &Found, words: &[String]) -> Result<Child, Fault> {
    let mut browser = Command::new(&found.program);
    browser
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    as_inherited(&mut browser).spawn().map_err(|error| {
        let program = found.program.display();
        let message = format!("cannot start {program}");
        Fault::new(
            Code::NoBrowser,
            message,
            "`--print` shows the command line to try by hand",
        )
        .because(error)
    })
}

/// Opens a window; returns its process, or none when a running browser took it over.
fn shown(found: &Found, words: &[String], label: &str) -> Result<Option<u32>, Fault> {
    let mut child = start(found, words)?;
    let begun = Instant::now();
    // A browser that neither ends nor has a page in time counts as open.
    while begun.elapsed() < PATIENCE && !browser::has_page(child.id()) {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(None),
            Ok(Some(status)) => return Err(not_shown(found, label, status)),
            Ok(None) | Err(_) => std::thread::sleep(LOOK_AGAIN),
        }
    }
    Ok(Some(child.id()))
}

pub fn has_display() -> bool {
    let display = ["DISPLAY", "WAYLAND_DISPLAY"];
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    display.iter().any(is_set)
}

/// Prints the address for a browser elsewhere, and says that no window can open here.
fn without_display(context: &Context, arguments: &OpenArgs) -> Outcome {
    let workspace = connect::block_on(async {
        let client = connect::started().await?;
        let id = resolve::one(&client, &arguments.workspace).await?;
        client.workspace(&id).await
    })?;
    let port = chosen_port(&workspace, arguments.port.as_deref())?;
    let url = workspace.ports.iter().find(|known| known.port == port);
    let url = url.and_then(|known| known.url.clone());
    if let (Some(url), false) = (&url, context.output.is_json()) {
        context.output.asked_for(url);
    }
    let label = &workspace.label;
    let message =
        "there is no display (neither DISPLAY nor WAYLAND_DISPLAY is set), so no window can open";
    let hint = match url {
        Some(url) => format!(
            "open {url} in a browser; `holm open {label} --headless` needs no display, `--print` shows the command line"
        ),
        None => format!(
            "`holm open {label} --headless` needs no display; `--print` shows the command line"
        ),
    };
    Err(Fault::new(Code::NoBrowser, message, hint))
}

fn not_shown(found: &Found, label: &str, status: ExitStatus) -> Fault {
    let program = found.program.display();
    let message = format!("{program} opened no window: it ended ({status})");
    let hint = format!(
        "`holm open {label} --headless` needs no display; `--print` shows the command line to try by hand"
    );
    Fault::new(Code::NoBrowser, message, hint)
}

/// A headless browser for this profile: the running one, or a new one.
fn steered(
    found: &Found,
    words: &[String],
    visit: &Visit<'_>,
) -> Result<(Option<u32>, Option<String>), Fault> {
    if let Some(endpoint) = endpoint(found.family, visit.profile)
        && found.family == Family::Chromium
        && open_tab(endpoint.port, visit.url)
    {
        return Ok((None, Some(endpoint.url)));
    }
    for name in ["DevToolsActivePort", "WebDriverBiDiServer.json"] {
        // A leftover of an earlier browser would be taken for the new one's.
        let _ = std::fs::remove_file(visit.profile.join(name));
    }
    let mut child = start(found, words)?;
    headless::note(visit.profile, child.id()).map_err(|error| {
        let _ = child.kill();
        not_steered(found, "it cannot be written down").because(error)
    })?;
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if let Some(endpoint) = endpoint(found.family, visit.profile) {
            return Ok((Some(child.id()), Some(endpoint.url)));
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Err(not_steered(found, &format!("it ended ({status})")));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Err(not_steered(
        found,
        "it does not say where it can be steered",
    ))
}

fn not_steered(found: &Found, why: &str) -> Fault {
    let message = format!("{} did not start: {why}", found.program.display());
    Fault::new(
        Code::NoBrowser,
        message,
        "`--print` shows the command line to try by hand",
    )
}

struct Endpoint {
    port: u16,
    url: String,
}

/// Where the browser of a profile can be controlled.
fn endpoint(family: Family, profile: &Path) -> Option<Endpoint> {
    match family {
        Family::Chromium => {
            let text = std::fs::read_to_string(profile.join("DevToolsActivePort")).ok()?;
            let (port, path) = text.trim_end().split_once('\n')?;
            let port = port.parse().ok()?;
            let url = format!("ws://127.0.0.1:{port}{path}");
            Some(Endpoint { port, url })
        }
        Family::Firefox => {
            let text = std::fs::read_to_string(profile.join("WebDriverBiDiServer.json")).ok()?;
            let said: serde_json::Value = serde_json::from_str(&text).ok()?;
            let port = u16::try_from(said["ws_port"].as_u64()?).ok()?;
            let url = format!("ws://127.0.0.1:{port}/session");
            Some(Endpoint { port, url })
        }
    }
}

/// Opens another page in a running Chromium; false when it no longer runs.
fn open_tab(port: u16, url: &str) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let head = format!(
            "PUT /json/new?{url} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        let mut first = [0; 12];
        stream.read_exact(&mut first)?;
        Ok(first.ends_with(b" 200"))
    };
    ask().unwrap_or(false)
}
