//! Ports of the container and of other services that the workspace's loopback interface has.

use super::ports::{Forwarded, forwarded};
use super::services::{Form, Work};
use crate::compose::tree::{Location, Node};
use crate::shape::short;
use holm_core::compose_services::name_of;
use holm_core::config::{Name, Port};
use holm_core::container::{Attachment, Published};
use std::num::NonZeroU16;

// === impl Work ===

impl Work<'_> {
    pub fn forward(&mut self, node: &Node, form: Form, own: &Name) {
        for forwarded in forwarded(&mut self.source, node) {
            let Forwarded {
                service,
                port,
                name,
                at,
            } = forwarded;
            let target = match &service {
                None => own.clone(),
                Some(named) => match name_of(named) {
                    Ok(name)
                        if form == Form::Compose && self.config.services.contains_key(&name) =>
                    {
                        name
                    }
                    _ => {
                        let what = format!(
                            "there is no service `{}` to forward a port of",
                            short(named)
                        );
                        self.source.error(at, what);
                        continue;
                    }
                },
            };
            let Some(outside) = self.publish(&target, port, at) else {
                continue;
            };
            let is_known = self.config.ports.values().any(|port| port.port == outside);
            let name = name.or_else(|| Name::parse(&format!("port-{outside}")).ok());
            if let (false, Some(name)) = (is_known, name) {
                let port = Port {
                    port: outside,
                    host: None,
                };
                self.config.ports.entry(name).or_insert(port);
            }
        }
    }

    /// Programs of holm.toml listen in the container. Where that has a network of its own, their ports are published.
    pub fn publish_declared(&mut self, own: &Name) {
        let ports: Vec<u16> = self.config.ports.values().map(|it| it.port.get()).collect();
        for port in ports {
            let services = self.config.services.values();
            let mut containers = services.filter_map(|it| it.image.as_ref()?.container.as_ref());
            let is_published = containers.any(|it| match &it.network {
                Attachment::Own(own) => own.published.iter().any(|it| it.port == port),
                _ => false,
            });
            if !is_published {
                self.publish(own, port, Location::default());
            }
        }
    }

    /// Makes a port of a service one of the workspace's loopback interface. `None`: it is not possible.
    fn publish(&mut self, name: &Name, port: u16, at: Location) -> Option<NonZeroU16> {
        let number = NonZeroU16::new(port)?;
        let services = self.config.services.values();
        let networks =
            services.filter_map(|it| match &it.image.as_ref()?.container.as_ref()?.network {
                Attachment::Own(own) => Some(own.published.clone()),
                _ => None,
            });
        let is_taken = networks
            .flatten()
            .any(|it| it.port == port && it.target != port);
        let service = self.config.services.get_mut(name)?;
        let container = service.image.as_mut()?.container.as_mut()?;
        let Attachment::Own(own) = &mut container.network else {
            return Some(number);
        };
        if let Some(known) = own.published.iter().find(|it| it.target == port) {
            return NonZeroU16::new(known.port);
        }
        if is_taken {
            let words = format!("port {port} is not forwarded: another service publishes it");
            self.source.warn(at, words);
            return None;
        }
        own.published.push(Published { port, target: port });
        Some(number)
    }
}
