//! Limits of the processes of a service (`ulimits`), and settings of its network (`sysctls`).

use super::Work;
use crate::compose::Service as FromFile;
use crate::container::{Resource, ResourceLimit};
use std::collections::BTreeMap;

// === impl Work ===

impl Work<'_> {
    /// What holm does not know has no effect.
    pub fn limits(&mut self, name: &str, service: &FromFile) -> Vec<ResourceLimit> {
        let mut limits = Vec::new();
        for (key, limit) in &service.ulimits {
            let Some(resource) = Resource::named(key) else {
                self.warn(
                    name,
                    "ulimits",
                    &format!("has `{key}`, which has no effect"),
                );
                continue;
            };
            // -1 means no limit.
            limits.push(ResourceLimit {
                resource,
                soft: u64::try_from(limit.soft).ok(),
                hard: u64::try_from(limit.hard).ok(),
            });
        }
        limits
    }

    /// Settings of the network; all others need approval, and no driver has them.
    pub fn sysctls(&mut self, name: &str, service: &FromFile) -> BTreeMap<String, String> {
        let has_own = matches!(
            service.network_mode.as_deref(),
            None | Some("none" | "bridge" | "default" | "")
        );
        let mut sysctls = BTreeMap::new();
        for (key, value) in &service.sysctls {
            let is_plain = key
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
            match value {
                Some(value) if has_own && is_plain && key.starts_with("net.") => {
                    sysctls.insert(key.clone(), value.clone());
                }
                _ => self.warn(name, "sysctls", &format!("has `{key}`, which is not set")),
            }
        }
        sysctls
    }
}
