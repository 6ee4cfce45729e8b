//! The seed of a volume that the first start of a service makes: the service runs until it is ready, and ends by itself
//! when it is asked to. Called by [`seed`](super::seed) in the temporary workspace of the seed.

use super::connect::{client, succeeds_inside};
use super::{LinuxDriver, disk_fault, workspace_id};
use holm_core::container::Attachment;
use holm_core::first_start::CLEAN_STOP_MS;
use holm_core::service::status::{ServiceStatus, Services};
use holm_core::service::{Wish, exit_in_words};
use holm_core::spec::{Service, Volume, WorkspaceSpec};
use holm_core::{Code, Fault};
use holm_engine::progress::Progress;
use holm_engine::try_blocking;
use holm_image::{Images, Protocol};
use holm_keeper::directories::WorkspaceDirs;
use holm_keeper::inside;
use holm_keeper::wire::LogQuery;
use std::fs;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// A database may be large when it is new.
const READY_WITHIN: Duration = Duration::from_secs(600);

/// The exit code of a program that was killed.
const KILLED: u8 = 137;

/// How much of the service's log is kept, and how much of it is shown.
const MOST_LINES: usize = 10_000;
const SHOWN_LINES: usize = 20;

struct First<'a> {
    service: &'a Service,
    volume: &'a Volume,
    dirs: WorkspaceDirs,
}

/// Waits for the service, ends it, and keeps its log beside the volume.
pub async fn run(
    driver: &LinuxDriver,
    spec: &WorkspaceSpec,
    volume: &Volume,
    progress: &Progress,
) -> Result<(), Fault> {
    let Some(service) = spec.services.first() else {
        let message = format!("workspace {} has no service to start", spec.id);
        return Err(Fault::new(Code::Internal, message, "report this"));
    };
    let first = First {
        service,
        volume,
        dirs: driver.layout.workspace(&workspace_id(spec)?),
    };
    let (name, of) = (&service.name, &volume.name);
    progress.report(&format!("seed of {of}: the first start of {name}"), 0, 0);
    let mut changes = client(&first.dirs).watch_services().await?;
    let ready = timeout(READY_WITHIN, first.ready(driver, &mut changes)).await;
    match ready {
        Ok(ready) => ready?,
        Err(_) => {
            let seconds = READY_WITHIN.as_secs();
            return Err(first
                .failed(format!("is not ready after {seconds} s"))
                .await);
        }
    }
    progress.report(&format!("seed of {of}: stopping {name} cleanly"), 0, 0);
    client(&first.dirs).service(name, Wish::Stop).await?;
    let limit = Duration::from_millis(CLEAN_STOP_MS) + Duration::from_secs(30);
    let has_ended = |it: &ServiceStatus| it.exit_code.is_some();
    let ended = timeout(limit, first.until(&mut changes, has_ended)).await;
    let code = ended.ok().flatten().and_then(|status| status.exit_code);
    match code {
        Some(KILLED) | None => Err(first
            .failed("does not end when it is asked to".to_owned())
            .await),
        Some(_) => first.keep_log().await,
    }
}

// === impl First ===

impl First<'_> {
    /// Its check succeeds, or, without one, its port accepts connections.
    async fn ready(
        &self,
        driver: &LinuxDriver,
        changes: &mut mpsc::Receiver<Services>,
    ) -> Result<(), Fault> {
        let is_checked = self.service.ready.is_some();
        let settled = |it: &ServiceStatus| {
            let is_over = matches!(it.state.as_str(), "exited" | "failed" | "stopped");
            is_over || (is_checked && it.state == "ready")
        };
        let settled = self.until(changes, settled);
        let ended = if is_checked {
            settled.await.filter(|status| status.state != "ready")
        } else {
            let port = self.port(driver).await?;
            tokio::select! {
                ended = settled => ended,
                listens = self.listens(port) => return listens,
            }
        };
        match ended {
            None => Ok(()),
            Some(status) => {
                let code = status.exit_code.map(exit_in_words);
                let how = status.reason.or(code).unwrap_or_else(|| "ended".to_owned());
                Err(self.failed(format!("is not ready: {how}")).await)
            }
        }
    }

    async fn until(
        &self,
        changes: &mut mpsc::Receiver<Services>,
        is_wanted: impl Fn(&ServiceStatus) -> bool,
    ) -> Option<ServiceStatus> {
        while let Some(services) = changes.recv().await {
            let mut services = services.services.into_iter();
            let own = services.find(|status| status.name == self.service.name);
            if let Some(status) = own.filter(|status| is_wanted(status)) {
                return Some(status);
            }
        }
        None
    }

    /// The first port that the file publishes, else the first that the image exposes.
    async fn port(&self, driver: &LinuxDriver) -> Result<u16, Fault> {
        let published = self.service.container().and_then(|it| match &it.network {
            Attachment::Own(own) => own.published.first().map(|port| port.target),
            _ => None,
        });
        if let Some(port) = published {
            return Ok(port);
        }
        let (layout, image) = (Arc::clone(&driver.layout), self.service.image.clone());
        let exposed = try_blocking(move || {
            let root = Images::open(&layout.images()).ok().zip(image);
            let root = root.and_then(|(images, image)| images.root(&image.manifest).ok());
            let ports = root.map(|root| root.config.ports).unwrap_or_default();
            let mut ports = ports.into_iter();
            Ok(ports
                .find(|port| port.protocol == Protocol::Tcp)
                .map(|it| it.port))
        });
        exposed.await?.ok_or_else(|| {
            let (service, volume) = (&self.service.name, &self.volume.name);
            Fault::new(
                Code::SeedFailed,
                format!("nothing says when {service} has filled {volume}: it has no health check and no port"),
                format!("give {service} a `healthcheck`, or [volumes.{volume}] a `seed`"),
            )
        })
    }

    /// Databases listen on their address when their data is complete.
    async fn listens(&self, port: u16) -> Result<(), Fault> {
        let address = self.service.container().and_then(|it| match &it.network {
            Attachment::Own(own) => Some(own.address.to_string()),
            _ => None,
        });
        let port = port.to_string();
        let words = [inside::TCP, &port].into_iter();
        let words: Vec<&str> = words.chain(address.as_deref()).collect();
        if succeeds_inside(&self.dirs, &words).await? {
            return Ok(());
        }
        Err(self.failed("could not be asked".to_owned()).await)
    }

    /// An unreadable log has no lines.
    async fn lines(&self) -> Vec<String> {
        let query = LogQuery {
            services: vec![self.service.name.clone()],
            since_us: None,
            last: Some(MOST_LINES),
        };
        let mut lines = Vec::new();
        let Ok(mut reader) = client(&self.dirs).logs(query).await else {
            return lines;
        };
        while let Ok(pulled) = reader.read().await {
            let texts = pulled.items.iter();
            lines.extend(
                texts.map(|(_, record)| String::from_utf8_lossy(&record.text).into_owned()),
            );
            if !pulled.has_more || pulled.items.is_empty() {
                break;
            }
        }
        lines
    }

    async fn keep_log(&self) -> Result<(), Fault> {
        let text = self.lines().await.join("\n");
        let written = fs::write(self.dirs.setup_log(), text);
        written.map_err(|error| {
            let volume = &self.volume.name;
            disk_fault(
                error,
                format!("cannot keep the log of the seed of {volume}"),
            )
        })
    }

    async fn failed(&self, how: String) -> Fault {
        let (service, volume) = (&self.service.name, &self.volume.name);
        let mut message =
            format!("the first start of {service}, which makes the seed of {volume}, {how}");
        let lines = self.lines().await;
        for line in &lines[lines.len().saturating_sub(SHOWN_LINES)..] {
            message.push_str("\n  ");
            message.push_str(line);
        }
        let hint = format!(
            "correct the service; without `policy = \"fork\"` of [volumes.{volume}] each workspace starts it with an empty volume"
        );
        Fault::new(Code::SeedFailed, message, hint)
    }
}
