//! Commands of a Compose file around a service's own program: `pre_start`, which are services of their own, and
//! `post_start` and `pre_stop`, which run beside it.

use super::{Work, given};
use crate::compose::Hook as FromFile;
use crate::config::{self, Image, Name, Restart};
use crate::container::{Attachment, Container, Hook};
use crate::image_reference::ImageReference;
use std::collections::BTreeMap;

// === impl Work ===

impl Work<'_> {
    pub fn hooks(&mut self, name: &str, key: &str, hooks: &[FromFile]) -> Vec<Hook> {
        if hooks
            .iter()
            .any(|hook| hook.privileged || hook.user.is_some())
        {
            let what = "runs as the user of the service, without privileges";
            self.warn(name, key, what);
        }
        let hooks = hooks.iter().map(hook);
        hooks.filter(|hook| !hook.command.is_empty()).collect()
    }

    /// Adds a service for each step of `pre_start`. Each waits for the end of the one before, the first for what the
    /// service waits for, and the service for the last.
    pub fn after_steps(
        &mut self,
        short: &Name,
        mut service: config::Service,
        steps: &[FromFile],
    ) -> config::Service {
        let Some(image) = service.image.clone() else {
            return service;
        };
        let Some(container) = &image.container else {
            return service;
        };
        let name = container.name.clone();
        if steps.iter().any(|step| step.privileged) {
            self.warn(&name, "pre_start", "runs without privileges");
        }
        for (number, step) in steps.iter().enumerate() {
            let step_name = match Name::parse(&format!("{short}-pre-start-{}", number + 1)) {
                Ok(step_name) => step_name,
                Err(error) => {
                    let words =
                        format!("`services.{name}.pre_start` has no name of its own: {error}");
                    self.errors.push(words);
                    return service;
                }
            };
            if self.names.values().any(|other| *other == step_name) {
                let words =
                    format!("`services.{name}.pre_start` is `{step_name}`, and a service too");
                self.errors.push(words);
            }
            let mut image = image.clone();
            match step.image.as_ref().map(|it| it.parse::<ImageReference>()) {
                None => {}
                Some(Ok(reference)) => {
                    image.reference = reference;
                    image.build = None;
                }
                Some(Err(error)) => {
                    let words = format!("`services.{name}.pre_start` has an image: {error}");
                    self.errors.push(words);
                }
            }
            image.container = Some(of_step(short, container, step));
            let before = config::Service {
                depends_on: std::mem::take(&mut service.depends_on),
                ..job(image)
            };
            service.depends_on = vec![step_name.clone()];
            self.done.services.insert(step_name, before);
        }
        service
    }
}

/// Has what the service has, unless the step says otherwise.
fn of_step(short: &Name, service: &Container, step: &FromFile) -> Container {
    let mut environment = service.environment.clone();
    environment.extend(given(&step.environment));
    let network = match &service.network {
        Attachment::Own(_) => Attachment::Of(short.to_string()),
        other => other.clone(),
    };
    Container {
        command: Some(step.command.clone()).filter(|it| !it.is_empty()),
        environment,
        user: step.user.clone().or_else(|| service.user.clone()),
        directory: (step.working_dir.clone()).or_else(|| service.directory.clone()),
        network,
        is_job: true,
        post_start: Vec::new(),
        pre_stop: Vec::new(),
        watches: Vec::new(),
        ..service.clone()
    }
}

fn job(image: Image) -> config::Service {
    config::Service {
        run: String::new(),
        image: Some(image),
        ready: None,
        depends_on: Vec::new(),
        restart: Restart::No,
        on_assign: config::OnAssign::None,
        build: None,
        rebuild_when: Vec::new(),
        env: BTreeMap::new(),
    }
}

pub fn hook(hook: &FromFile) -> Hook {
    Hook {
        command: hook.command.clone(),
        directory: hook.working_dir.clone(),
        environment: given(&hook.environment),
    }
}
