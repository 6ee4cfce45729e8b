//! An engine with a store that listens: the store's container, and connections to it.

use crate::engine::{self, Address, Kind, is_absent, is_conflict, refused, unavailable};
use crate::image;
use crate::labels::{Installation, PROGRAM};
use crate::settings::{Settings, SharedParts};
use crate::stream::Piped;
use crate::upload;
use bollard::Docker;
use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::{
    ContainerCreateBody, ExecConfig, HostConfig, Mount, MountType, MountVolumeOptions, SystemInfo,
    VolumeCreateRequest,
};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, InspectContainerOptions, LogsOptionsBuilder,
    RemoveContainerOptionsBuilder, StartContainerOptions,
};
use futures_util::StreamExt;
use holm_core::{Code, Fault};
use holm_keeper::container::{Hello, KEEPER_GROUP, RELAY_ROLE, STORE_ROLE, USER, VOLUME};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::PoisonError;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

/// Our program in the store's own root.
const OWN_PROGRAM: &str = "/holm-program";

/// How long the store may take until it listens.
const BEGINS_WITHIN: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long a connection to it may take.
const CONNECTS_WITHIN: Duration = Duration::from_secs(30);

/// An engine with a store that listens.
pub struct Live {
    pub docker: Docker,
    pub address: Address,
    pub installation: Installation,
    pub settings: Settings,
    /// Of what workspaces see.
    pub image: image::Root,
    /// Where the volume is on the engine's machine.
    pub mountpoint: String,
    pub info: SystemInfo,
    pub kind: Kind,
    /// Connections to the store that nothing was said on yet.
    spare: std::sync::Mutex<Vec<Piped>>,
    pub refilling: Mutex<()>,
}

/// The store's first word on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    Connected,
    /// Nothing of the workspace runs.
    Absent,
    Unreachable,
}

pub fn no_name(error: io::Error) -> Fault {
    let message = "cannot read the name of this installation for engines";
    Fault::new(Code::CorruptState, message, "holm doctor").because(error)
}

// === impl Live ===

impl Live {
    pub async fn begin(parts: &SharedParts) -> Result<Self, Fault> {
        let settings = (parts.settings)()?;
        let address = engine::find(&settings)?.ok_or_else(engine::none)?;
        let docker = engine::connect(&address).await?;
        let kind = engine::kind(&docker).await?;
        let info = docker.info().await;
        let info =
            info.map_err(|error| refused(format!("{address} does not say what it is"), error))?;
        engine::require_overlays(kind, &info)?;
        let installation = Installation::known_or_new(&parts.data_dir).map_err(no_name)?;
        let image = image::root(&docker, &settings).await?;
        let volume = VolumeCreateRequest {
            name: Some(installation.volume()),
            labels: Some(installation.labels()),
            ..VolumeCreateRequest::default()
        };
        // Creating one that exists returns it.
        let volume = docker.create_volume(volume).await;
        let volume = volume.map_err(|error| refused("cannot make holm's volume", error))?;
        let live = Self {
            docker,
            address,
            installation,
            settings,
            image,
            mountpoint: volume.mountpoint,
            info,
            kind,
            spare: std::sync::Mutex::default(),
            refilling: Mutex::default(),
        };
        live.begin_store().await?;
        Ok(live)
    }

    /// Has the store of this program and this image run.
    async fn begin_store(&self) -> Result<(), Fault> {
        let program = version()?;
        let name = self.installation.store();
        let wanted = format!("{program} {}", self.image.id);
        let found = self
            .docker
            .inspect_container(&name, None::<InspectContainerOptions>)
            .await;
        let is_wanted = match &found {
            Ok(found) => {
                let labels = found
                    .config
                    .as_ref()
                    .and_then(|config| config.labels.as_ref());
                labels.and_then(|labels| labels.get(PROGRAM)) == Some(&wanted)
            }
            Err(error) if is_absent(error) => false,
            Err(_) => false,
        };
        if !is_wanted {
            self.remove_container(&name).await?;
            self.create_store(&name, wanted).await?;
        }
        let started = self
            .docker
            .start_container(&name, None::<StartContainerOptions>)
            .await;
        match started {
            Err(error) if !is_conflict(&error) => {
                return Err(refused("cannot start holm's store", error));
            }
            _ => {}
        }
        self.wait_for_store(&name).await
    }

    async fn create_store(&self, name: &str, wanted: String) -> Result<(), Fault> {
        let mut labels = self.installation.labels();
        labels.insert(PROGRAM.to_owned(), wanted);
        let body = ContainerCreateBody {
            image: Some(self.image.id.clone()),
            entrypoint: Some(vec![OWN_PROGRAM.to_owned()]),
            cmd: Some(vec![STORE_ROLE.to_owned()]),
            user: Some("0:0".to_owned()),
            working_dir: Some("/".to_owned()),
            stop_signal: Some("SIGKILL".to_owned()),
            labels: Some(labels),
            host_config: Some(HostConfig {
                network_mode: Some("none".to_owned()),
                mounts: Some(vec![self.volume()]),
                ..limited(&["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"])
            }),
            ..ContainerCreateBody::default()
        };
        self.create_container(name, body).await?;
        let archive = upload::make(|archive| {
            let name = Path::new(OWN_PROGRAM.trim_start_matches('/'));
            archive.file(Path::new("/proc/self/exe"), name)
        });
        upload::put(&self.docker, name, Path::new("/"), archive.await?).await
    }

    async fn wait_for_store(&self, name: &str) -> Result<(), Fault> {
        let deadline = Instant::now() + BEGINS_WITHIN;
        loop {
            let connected = self.relay(name).await;
            let Err(fault) = connected else {
                return Ok(());
            };
            let found = self
                .docker
                .inspect_container(name, None::<InspectContainerOptions>)
                .await;
            let runs = found.is_ok_and(|found| {
                found
                    .state
                    .and_then(|state| state.running)
                    .unwrap_or_default()
            });
            if !runs || Instant::now() > deadline {
                let said = self.logs(name).await;
                return Err(fault.because(format!("holm's store does not run: {said}")));
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    /// The whole volume.
    pub fn volume(&self) -> Mount {
        Mount {
            typ: Some(MountType::VOLUME),
            source: Some(self.installation.volume()),
            target: Some(VOLUME.to_owned()),
            volume_options: Some(MountVolumeOptions {
                no_copy: Some(true),
                ..MountVolumeOptions::default()
            }),
            ..Mount::default()
        }
    }

    pub async fn create_container(
        &self,
        name: &str,
        body: ContainerCreateBody,
    ) -> Result<(), Fault> {
        let options = CreateContainerOptionsBuilder::default().name(name).build();
        let created = self.docker.create_container(Some(options), body).await;
        let created =
            created.map_err(|error| refused(format!("cannot make the container {name}"), error))?;
        for warning in created.warnings {
            tracing::debug!(name, warning, "the engine warns");
        }
        Ok(())
    }

    /// Removes a container, whatever it does. It is fine if it is not there.
    pub async fn remove_container(&self, name: &str) -> Result<(), Fault> {
        let options = RemoveContainerOptionsBuilder::default()
            .force(true)
            .v(true)
            .build();
        let deadline = Instant::now() + BEGINS_WITHIN;
        loop {
            match self
                .docker
                .remove_container(name, Some(options.clone()))
                .await
            {
                Ok(()) => return Ok(()),
                Err(error) if is_absent(&error) => return Ok(()),
                // Another removal is under way.
                Err(error) if is_conflict(&error) && Instant::now() < deadline => {
                    sleep(LOOK_AGAIN).await;
                }
                Err(error) => {
                    return Err(refused(
                        format!("cannot remove the container {name}"),
                        error,
                    ));
                }
            }
        }
    }

    /// The last words of a container.
    pub async fn logs(&self, name: &str) -> String {
        let options = LogsOptionsBuilder::default()
            .stdout(true)
            .stderr(true)
            .tail("5")
            .build();
        let lines: Vec<_> = self.docker.logs(name, Some(options)).collect().await;
        let lines = lines
            .into_iter()
            .filter_map(Result::ok)
            .map(|line| line.to_string());
        lines.collect::<String>().trim().to_owned()
    }

    /// A program of ours in the store that is connected to the store's socket.
    pub async fn relay(&self, name: &str) -> Result<Piped, Fault> {
        let cannot = |error| refused("cannot connect to holm's store", error);
        let config = ExecConfig {
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            cmd: Some(vec![OWN_PROGRAM.to_owned(), RELAY_ROLE.to_owned()]),
            user: Some(format!("{USER}:{KEEPER_GROUP}")),
            ..ExecConfig::default()
        };
        let made = self
            .docker
            .create_exec(name, config)
            .await
            .map_err(cannot)?;
        let begun = self
            .docker
            .start_exec(&made.id, None::<StartExecOptions>)
            .await;
        let StartExecResults::Attached { output, input } = begun.map_err(cannot)? else {
            return Err(unavailable(
                "the engine does not attach a program",
                "report this",
            ));
        };
        let mut stream = Piped::new(output, input);
        let greeted = timeout(CONNECTS_WITHIN, stream.read_u8()).await;
        match greeted {
            Ok(Ok(b'!')) => Ok(stream),
            Ok(Ok(_)) | Err(_) => Err(unavailable("holm's store does not answer", "try again")),
            Ok(Err(error)) => {
                Err(unavailable("holm's store does not answer", "try again").because(error))
            }
        }
    }

    pub async fn connect(&self, hello: &Hello) -> Result<(Piped, Answered), Fault> {
        let stream = self.relay(&self.installation.store()).await?;
        self.greet(stream, hello).await
    }

    pub async fn greet(
        &self,
        mut stream: Piped,
        hello: &Hello,
    ) -> Result<(Piped, Answered), Fault> {
        let greeted = async {
            let mut line = serde_json::to_vec(hello)?;
            line.push(b'\n');
            stream.write_all(&line).await?;
            stream.flush().await?;
            let mut answer = [0; 2];
            stream.read_exact(&mut answer).await?;
            io::Result::Ok(match answer[0] {
                b'+' => Answered::Connected,
                b'-' => Answered::Absent,
                _ => Answered::Unreachable,
            })
        };
        let lost = |error: io::Error| {
            unavailable("the connection to holm's store broke", "try again").because(error)
        };
        let answered = greeted.await.map_err(lost)?;
        Ok((stream, answered))
    }

    pub fn take_spare(&self) -> Option<Piped> {
        self.spare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop()
    }

    pub fn keep_spare(&self, stream: Piped) {
        self.spare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(stream);
    }

    pub fn spare_count(&self) -> usize {
        self.spare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }
}

/// No rights but these.
pub fn limited(rights: &[&str]) -> HostConfig {
    HostConfig {
        cap_drop: Some(vec!["ALL".to_owned()]),
        cap_add: Some(rights.iter().map(|right| (*right).to_owned()).collect()),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        ..HostConfig::default()
    }
}

/// Tells one build of this program from another.
fn version() -> Result<String, Fault> {
    let own = fs::metadata("/proc/self/exe").map_err(|error| {
        let message = "holm cannot find its own program";
        Fault::new(Code::Internal, message, "install it again").because(error)
    })?;
    Ok(format!(
        "{:x}-{:x}-{:x}",
        own.ino(),
        own.size(),
        own.mtime_nsec()
    ))
}
