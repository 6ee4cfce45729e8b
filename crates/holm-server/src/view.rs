//! Converts workspaces and projects to API types.

use holm_api::project::Project;
use holm_api::workspace::{Container, Port, ServiceBuild, Snapshot, Volume, Workspace};
use holm_core::config::{Limits, OnAssign};
use holm_core::dev_container::DevContainer;
use holm_core::service::status::ServiceStatus;
use holm_core::spec::{DeclaredPort, WorkspaceSpec};
use holm_engine::View;
use holm_engine::store::ProjectRecord;
use holm_proxy::Source;
use jiff::Timestamp;

pub fn workspace(view: View) -> Workspace {
    let View {
        record,
        project,
        state,
        reason,
        isolation,
        services,
        note,
        carried: _,
        tip,
        sessions: _,
        observed_at,
        was_stopped: _,
    } = view;
    let spec = &record.spec;
    let mut isolation = isolation.unwrap_or_default();
    let protected = isolation.protected.take();
    Workspace {
        id: record.id.to_string(),
        label: record.label.to_string(),
        project: project.to_string(),
        project_id: record.project_id.to_string(),
        owner: record.owner.clone(),
        state: state.as_str().to_owned(),
        reason,
        reference: spec.code.ref_name.clone(),
        commit: spec.code.commit.clone(),
        created_at: time(record.created_at),
        last_used_at: time(record.last_used_at),
        observed_at: observed_at.map(time),
        driver: spec.driver.as_str().to_owned(),
        root: spec.root.display().to_string(),
        head: tip.head,
        branch: tip.branch,
        // Programs inside can write at any moment, so an earlier clean check says nothing about
        // now.
        dirty: record.dirty.filter(|is_dirty| *is_dirty),
        ports: ports(&spec.network.ports),
        services: services.into_iter().map(service).collect(),
        builds: spec.services.iter().filter_map(build).collect(),
        container: spec.dev_container.as_ref().map(|it| container(spec, it)),
        volumes: spec.volumes.iter().map(volume).collect(),
        // Those in force, or at the next start.
        protected_paths: protected.unwrap_or_else(|| spec.protected_paths.clone()),
        snapshots: snapshots(spec),
        limits: Limits {
            memory: spec.limits.memory_bytes,
            cpus: spec.limits.cpus,
            processes: spec.limits.processes,
            disk: spec.limits.disk_bytes,
        },
        isolation,
        created: None,
        started: None,
        ms: None,
        removed_at: record.removed_at.map(time),
        expires_at: None,
        bytes: None,
        layers: spec.layer_keys().map(|layer| layer.key).collect(),
        notes: note.into_iter().collect(),
        policy: None,
        numbers: None,
    }
}

fn build(service: &holm_core::spec::Service) -> Option<ServiceBuild> {
    Some(ServiceBuild {
        service: service.name.clone(),
        build: service.image.as_ref()?.build.clone()?,
        is_rebuilt: service.on_assign == OnAssign::Rebuild,
        rebuild_when: service.rebuild_when.clone(),
    })
}

fn container(spec: &WorkspaceSpec, container: &DevContainer) -> Container {
    let mut services = spec.services.iter();
    let service = services.find(|service| service.name == container.service);
    let image = service.and_then(|service| service.image.as_ref());
    // A built image has a key for a name, which says nothing to people.
    let image = image.filter(|image| image.build.is_none());
    Container {
        file: container.file.clone(),
        service: container.service.clone(),
        image: image.map(|image| image.reference.to_string()),
        folder: container.folder.display().to_string(),
        user: container.user.clone(),
    }
}

/// Without its size, which has to be measured.
fn volume(volume: &holm_core::spec::Volume) -> Volume {
    Volume {
        name: volume.name.clone(),
        policy: volume.policy.as_str().to_owned(),
        bytes: None,
    }
}

pub fn snapshots(spec: &holm_core::spec::WorkspaceSpec) -> Vec<Snapshot> {
    let snapshots = spec.snapshots.iter().map(|snapshot| Snapshot {
        name: snapshot.name.clone(),
        created_at: snapshot.created_at.clone(),
    });
    snapshots.collect()
}

/// As users see it.
pub fn service(status: ServiceStatus) -> ServiceStatus {
    ServiceStatus {
        exit_code: None,
        ..status
    }
}

/// The declared ports, for a workspace without forwarding.
fn ports(declared: &[DeclaredPort]) -> Vec<Port> {
    let mut ports: Vec<Port> = declared
        .iter()
        .map(|declared| Port {
            name: declared.name.clone(),
            port: declared.port,
            host_port: None,
            url: None,
            canonical: false,
            source: Source::Declared.as_str().to_owned(),
            listening: false,
        })
        .collect();
    ports.sort_by(|one, other| one.name.cmp(&other.name));
    ports
}

pub fn project(record: ProjectRecord, live: u64) -> Project {
    Project {
        id: record.id.to_string(),
        name: record.name.to_string(),
        path: record.path,
        created_at: time(record.created_at),
        workspaces: live,
        protected_paths: record.rules.protected_paths.into_iter().collect(),
        isolation: record.rules.isolation,
    }
}

/// RFC 3339, UTC, to the millisecond.
pub fn time(at: Timestamp) -> String {
    format!("{at:.3}")
}
