//! Starts the two containers of a workspace, and removes them.

use crate::ask::Starts;
use crate::engine::refused;
use crate::live::{Live, limited};
use crate::mounts::{self, Mounts};
use crate::stream::Piped;
use async_trait::async_trait;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{AttachContainerOptionsBuilder, StartContainerOptions};
use holm_core::Fault;
use holm_core::isolation::LimitsInForce;
use holm_keeper::container::{INIT_ROLE, KEEPER_GROUP, KEEPER_ROLE, Start, Started, USER};
use holm_keeper::plan::{KeptByEngine, LaunchAnswer, LaunchFailure, Part};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::time::timeout;

/// How long the keeper may take. Some engines copy the files of an image for each container.
const PATIENCE: Duration = Duration::from_secs(120);

/// The rights of a keeper: it changes the network of its workspace, looks at the workspace's processes, and works on files
/// as their owner.
const RIGHTS: [&str; 7] = [
    "DAC_OVERRIDE",
    "FOWNER",
    "NET_ADMIN",
    "NET_BIND_SERVICE",
    "SETGID",
    "SETUID",
    "SYS_PTRACE",
];

/// Starts on one engine.
pub struct Containers(pub Arc<Live>);

#[async_trait]
impl Starts for Containers {
    async fn start(&self, order: Start) -> Result<Started, Fault> {
        let id = order.id.clone();
        let started = self.0.start(order).await;
        if !matches!(&started, Ok(Started::Answered(LaunchAnswer::Ready(_))))
            && let Err(fault) = self.0.remove_workspace(&id).await
        {
            // The next start removes them first. Why this one failed is what the user has to know.
            tracing::warn!(id, %fault, "containers of a failed start stay");
        }
        started
    }
}

// === impl Live ===

impl Live {
    /// Removes the containers of a workspace and what was mounted for them.
    pub async fn remove_workspace(&self, id: &str) -> Result<(), Fault> {
        self.remove_container(&self.installation.workspace(id))
            .await?;
        self.remove_container(&self.installation.keeper(id)).await?;
        self.remove_mounts(id).await
    }

    async fn start(&self, mut order: Start) -> Result<Started, Fault> {
        if let Some(failure) = self.missing_limit(&order) {
            return Ok(Started::Answered(LaunchAnswer::Failed(failure)));
        }
        let (keeper, workspace) = (
            self.installation.keeper(&order.id),
            self.installation.workspace(&order.id),
        );
        self.remove_workspace(&order.id).await?;
        order.plan["keeper"]["kept_by_engine"] = serde_json::json!(self.kept(&order));
        let secrets = order.secret_files.as_ref();
        let Mounts {
            workspace: shown,
            keeper: seen,
        } = mounts::make(self, &order.id, &order.shown, secrets).await?;
        let body = self.keeper_body(&order, seen);
        self.create_container(&keeper, body).await?;
        let mut stream = BufReader::new(self.attach(&keeper).await?);
        self.run(&keeper).await?;
        // Values of secrets go to the keeper's stdin, and nowhere else.
        let plan = serde_json::to_vec(&order.plan).unwrap_or_default();
        let lost = |error: io::Error| format!("its keeper does not take the plan: {error}");
        let sent = async {
            stream.write_all(&plan).await?;
            stream.shutdown().await
        };
        if let Err(error) = sent.await {
            return Ok(Started::Failed(lost(error)));
        }
        let body = self.workspace_body(&order, shown);
        self.create_container(&workspace, body).await?;
        self.run(&workspace).await?;
        let mut line = String::new();
        let heard = timeout(PATIENCE, stream.read_line(&mut line)).await;
        let why = match heard {
            Ok(Ok(1..)) => match serde_json::from_str(&line) {
                Ok(answer) => return Ok(Started::Answered(answer)),
                Err(error) => format!("its keeper speaks nonsense: {error}"),
            },
            Ok(Ok(0)) => "its keeper ended without a word".to_owned(),
            Ok(Err(error)) => format!("its keeper is gone: {error}"),
            Err(_) => "its keeper does not answer".to_owned(),
        };
        let said = [self.logs(&keeper).await, self.logs(&workspace).await];
        let said: Vec<_> = said.into_iter().filter(|said| !said.is_empty()).collect();
        Ok(Started::Failed(format!("{why}; {}", said.join("; "))))
    }

    async fn run(&self, name: &str) -> Result<(), Fault> {
        let started = self
            .docker
            .start_container(name, None::<StartContainerOptions>)
            .await;
        started.map_err(|error| refused(format!("cannot start the container {name}"), error))
    }

    async fn attach(&self, name: &str) -> Result<Piped, Fault> {
        let options = AttachContainerOptionsBuilder::default()
            .stream(true)
            .stdin(true)
            .stdout(true)
            .build();
        let attached = self.docker.attach_container(name, Some(options)).await;
        let attached =
            attached.map_err(|error| refused(format!("cannot attach to {name}"), error))?;
        Ok(Piped::new(attached.output, attached.input))
    }

    fn keeper_body(
        &self,
        order: &Start,
        mounts: Vec<bollard::models::Mount>,
    ) -> ContainerCreateBody {
        ContainerCreateBody {
            hostname: Some(order.label.clone()),
            image: Some(self.image.id.clone()),
            entrypoint: Some(vec![order.keeper.display().to_string()]),
            cmd: Some(vec![KEEPER_ROLE.to_owned()]),
            user: Some("0:0".to_owned()),
            working_dir: Some("/".to_owned()),
            // No first process of ours reacts to another signal, and an engine would wait.
            stop_signal: Some("SIGKILL".to_owned()),
            labels: Some(self.installation.labels_of(&order.id)),
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            open_stdin: Some(true),
            stdin_once: Some(true),
            host_config: Some(HostConfig {
                network_mode: Some(self.settings.network.clone()),
                readonly_rootfs: Some(true),
                mounts: Some(mounts),
                ..limited(&RIGHTS)
            }),
            ..ContainerCreateBody::default()
        }
    }

    fn workspace_body(
        &self,
        order: &Start,
        mounts: Vec<bollard::models::Mount>,
    ) -> ContainerCreateBody {
        let limits = &order.limits;
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        const BILLION: f64 = 1e9;
        let keeper = self.installation.keeper(&order.id);
        ContainerCreateBody {
            image: Some(self.image.id.clone()),
            entrypoint: Some(vec![order.init.display().to_string()]),
            cmd: Some(vec![INIT_ROLE.to_owned()]),
            user: Some(format!("{USER}:{USER}")),
            working_dir: Some("/".to_owned()),
            // No first process of ours reacts to another signal, and an engine would wait.
            stop_signal: Some("SIGKILL".to_owned()),
            labels: Some(self.installation.labels_of(&order.id)),
            host_config: Some(HostConfig {
                network_mode: Some(format!("container:{keeper}")),
                readonly_rootfs: Some(true),
                mounts: Some(mounts),
                ipc_mode: Some("private".to_owned()),
                memory: limits.memory.map(whole),
                // No swap beside it.
                memory_swap: limits.memory.map(whole),
                nano_cpus: limits.cpus.map(|cpus| (cpus * BILLION) as i64),
                pids_limit: limits.processes.map(whole),
                ..limited(&[])
            }),
            ..ContainerCreateBody::default()
        }
    }

    /// A limit of `holm.toml` that this engine does not keep.
    fn missing_limit(&self, order: &Start) -> Option<LaunchFailure> {
        let kept = self.kept(order).limits;
        let kept = [
            ("memory", kept.memory.is_some()),
            ("cpus", kept.cpus.is_some()),
            ("processes", kept.processes.is_some()),
        ];
        let (name, _) = kept
            .into_iter()
            .find(|(name, is_kept)| !is_kept && order.required.iter().any(|part| part == name))?;
        Some(LaunchFailure {
            part: Part::Limit,
            step: name.to_owned(),
            cause: format!("{} has no control group for it", self.address),
            errno: None,
        })
    }

    /// What the engine keeps, as it says itself.
    fn kept(&self, order: &Start) -> KeptByEngine {
        let (info, limits) = (&self.info, &order.limits);
        let by = |has: Option<bool>, is_set: bool| {
            (is_set && has != Some(false)).then(|| "cgroup".to_owned())
        };
        let version = info
            .cgroup_version
            .as_ref()
            .map(|version| format!("v{version}"));
        KeptByEngine {
            limits: LimitsInForce {
                memory: by(info.memory_limit, limits.memory.is_some()),
                cpus: by(info.cpu_cfs_quota, limits.cpus.is_some()),
                processes: by(info.pids_limit, limits.processes.is_some()),
                disk: None,
            },
            cgroup: version,
        }
    }
}

/// A keeper never has the group of a workspace.
const _: () = assert!(KEEPER_GROUP != USER);
