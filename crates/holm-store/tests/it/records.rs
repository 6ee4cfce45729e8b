//! Records for the tests of stores.

use crate::review::at;
use holm_core::plan::Desired;
use holm_core::spec::{Brought, Code, Environment, Network, SpecLimits, WorkspaceSpec};
use holm_core::state::Birth;
use holm_core::{Label, ProjectId, ProjectName, WorkspaceId};
use holm_engine::store::{ProjectRecord, ProjectRules, WorkspaceRecord};
use std::sync::Arc;

pub fn project(name: &str) -> ProjectRecord {
    ProjectRecord {
        id: ProjectId::random(),
        name: ProjectName::parse(name).unwrap(),
        path: format!("/src/{name} with ümlaut"),
        git_dir: format!("/src/{name}/.git"),
        device: u64::MAX,
        inode: 1 << 63,
        object_format: "sha1".to_owned(),
        refs_digest: None,
        rules: ProjectRules {
            protected_paths: ["infra/prod".to_owned()].into(),
            isolation: Some("workspace".to_owned()),
        },
        created_at: at(0),
    }
}

pub fn workspace(project: &ProjectRecord, label: &str) -> WorkspaceRecord {
    let (id, label) = (WorkspaceId::random(), Label::parse(label).unwrap());
    let spec = WorkspaceSpec {
        version: holm_core::spec::Version,
        id: id.to_string(),
        project_id: project.id.to_string(),
        driver: holm_core::config::DriverName::Linux,
        label: label.to_string(),
        root: "/src/shop".into(),
        home: "/home/me".into(),
        code: Code {
            commit: Some("1".repeat(40)),
            ref_name: Some("main".to_owned()),
            object_format: "sha1".to_owned(),
            user_name: None,
            user_email: None,
            remotes: Vec::new(),
            shallow: Vec::new(),
            excluded: Vec::new(),
            base: None,
        },
        protected_paths: vec!["AGENTS.md".to_owned()],
        nested: false,
        environment: Environment {
            path: "/usr/bin".to_owned(),
            lang: None,
            tz: None,
        },
        env: Vec::new(),
        toolchains: Vec::new(),
        home_copies: Vec::new(),
        limits: SpecLimits {
            cpus: Some(1.5),
            ..SpecLimits::default()
        },
        network: Network::default(),
        services: Vec::new(),
        allow_degraded: Vec::new(),
        brought: Brought::default(),
        layers: holm_core::spec::Layers::default(),
        purpose: holm_core::spec::Purpose::Work,
        caches: Vec::new(),
        volumes: Vec::new(),
        retired_volumes: Vec::new(),
        generation: 0,
        origin: None,
        snapshots: Vec::new(),
        siblings: holm_core::spec::Siblings::default(),
        agents: Vec::new(),
        moving: None,
        secrets: Vec::new(),
        checks: Vec::new(),
        review_required: false,
        check_runs: false,
        compose_files: Vec::new(),
        dev_container: None,
        declared: None,
    };
    WorkspaceRecord {
        id,
        project_id: project.id.clone(),
        label,
        owner: "me".to_owned(),
        desired: Desired::Running,
        birth: Birth::Pending,
        spec: Arc::new(spec),
        created_at: at(1),
        last_used_at: at(1),
        dirty: None,
        removed_at: None,
        labelled_at: at(1),
    }
}
