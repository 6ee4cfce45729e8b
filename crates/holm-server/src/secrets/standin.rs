//! Placeholders: the CA of this installation, tokens, and certificates for the hosts. Called when a
//! workspace gets its secrets.
//!
//! The CA's key is sealed in the vault like every value, and never leaves the daemon.

use super::keeping::{Keeping, entry, lock};
use holm_core::config::Inject;
use holm_core::config::{Destination, HostPattern};
use holm_core::spec::WorkspaceSpec;
use holm_core::{Code, Fault};
use holm_keeper::wire::{Grant, Standin};
use holm_secrets::Value;
use holm_secrets::authority::{Authority, AuthorityError, Leaf};
use holm_secrets::vault::{Scope, VaultError};
use std::sync::Arc;

const NAME: &str = "authority";
/// The default port of a host.
const HTTPS: u16 = 443;

/// The name of a host, and a port.
type HostPort = (String, u16);

// === impl Keeping ===

impl Keeping {
    /// Adds what the keeper needs for placeholders.
    pub(super) fn with_placeholders(
        &self,
        spec: &WorkspaceSpec,
        mut grants: Vec<Grant>,
    ) -> Result<Vec<Grant>, Fault> {
        for grant in &mut grants {
            if grant.form != Inject::Placeholder {
                continue;
            }
            let declared = spec.secrets.iter().find(|secret| secret.name == grant.name);
            let hosts = declared.map(|secret| secret.hosts.as_slice());
            grant.placeholder = Some(self.standin(&spec.id, grant, hosts.unwrap_or_default())?);
        }
        Ok(grants)
    }

    fn standin(&self, workspace: &str, grant: &Grant, hosts: &[String]) -> Result<Standin, Fault> {
        let authority = self.authority()?;
        let name = &grant.name;
        let token = match &grant.value {
            Some(value) => Some(authority.token(workspace, name, value).map_err(|unfit| {
                Fault::new(
                    Code::InvalidSecret,
                    format!("the value of the secret {name} cannot have a placeholder: {unfit}"),
                    format!(
                        "use `inject = \"env\"` for secrets.{name} in holm.toml, or another value"
                    ),
                )
            })?),
            None => None,
        };
        let hosts = hosts
            .iter()
            .filter_map(|host| place(host))
            .collect::<Vec<_>>();
        let mut leaves = Vec::new();
        for (host, _) in &hosts {
            leaves.push(authority.leaf(host).map_err(fault)?);
        }
        Ok(Standin {
            token,
            hosts,
            leaves,
            authority: authority.certificate().to_owned(),
        })
    }

    /// The token that an agent has for a value of its sign-in.
    pub fn agent_token(&self, workspace: &str, name: &str, value: &Value) -> Result<String, Fault> {
        let token = self.authority()?.described_token(workspace, name, value);
        token.map_err(|unfit| {
            Fault::new(
                Code::InvalidSecret,
                format!("the sign-in {name} cannot have a placeholder: {unfit}"),
                "name its file or variable below [agents] in config.toml to give it as it is",
            )
        })
    }

    /// Names and ports of hosts, with a certificate for each.
    pub fn places(&self, hosts: &[String]) -> Result<(Vec<HostPort>, Vec<Leaf>), Fault> {
        let authority = self.authority()?;
        let places: Vec<_> = hosts.iter().filter_map(|host| place(host)).collect();
        let leaves = places
            .iter()
            .map(|(host, _)| authority.leaf(host).map_err(fault));
        let leaves = leaves.collect::<Result<_, _>>()?;
        Ok((places, leaves))
    }

    /// The certificate of the CA, as PEM.
    pub fn ca_certificate(&self) -> Result<String, Fault> {
        Ok(self.authority()?.certificate().to_owned())
    }

    /// Created when the first placeholder needs it.
    fn authority(&self) -> Result<Arc<Authority>, Fault> {
        let mut known = lock(&self.authority);
        if let Some(authority) = &*known {
            return Ok(Arc::clone(authority));
        }
        let kept = self.with(|vault| vault.get(&Scope::Installation, NAME))?;
        let authority = match kept {
            Some((_, kept)) => Authority::open(&kept).map_err(fault)?,
            None => {
                let made = Authority::generate().map_err(fault)?;
                let kept = made.kept().map_err(fault)?;
                self.with(|vault| {
                    vault.put(vec![(entry(Scope::Installation, NAME, None), kept)])?;
                    // Without reading it back, certificates could be issued by a CA that is then
                    // lost.
                    let back = vault.get(&Scope::Installation, NAME)?;
                    back.map(drop).ok_or(VaultError::Damaged)
                })?;
                made
            }
        };
        Ok(Arc::clone(known.insert(Arc::new(authority))))
    }
}

/// The name and the port of an entry of `hosts`. The check of `holm.toml` accepts only names.
fn place(text: &str) -> Option<(String, u16)> {
    let destination = Destination::parse(text).ok()?;
    let port = destination.port.map_or(HTTPS, std::num::NonZeroU16::get);
    match destination.host {
        HostPattern::Name(name) => Some((name, port)),
        HostPattern::Below(_) | HostPattern::Address(_) | HostPattern::Network { .. } => None,
    }
}

fn fault(error: AuthorityError) -> Fault {
    Fault::of(Code::Internal, error, "see the daemon's log")
}
