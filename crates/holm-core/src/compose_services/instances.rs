//! Several instances of one service (`scale`, `deploy.replicas`): services `web`, `web-2`, … of the workspace, which all
//! have the name `web` in their networks.

use super::Work;
use crate::compose::Service as FromFile;
use crate::config::Name;

/// More instances of one service are a mistake on one machine.
const MOST: u64 = 100;

pub struct Instance<'a> {
    /// The service's name in the file.
    pub of: &'a str,
    pub name: Name,
    /// From 0 on.
    pub number: usize,
}

/// How many instances the file asks for.
pub fn number_of(service: &FromFile) -> usize {
    let replicas = service.deploy.as_ref().and_then(|deploy| deploy.replicas);
    let number = service.scale.or(replicas).unwrap_or(1);
    // Compose gives a container of that name to one instance only.
    let most = if service.container_name.is_some() {
        1
    } else {
        MOST
    };
    usize::try_from(number.min(most)).unwrap_or(usize::MAX)
}

/// The names of the instances of a service that is `first` in the workspace.
pub fn names(first: &Name, service: &FromFile) -> impl Iterator<Item = Name> {
    let numbers = 0..number_of(service);
    numbers.filter_map(move |number| match number {
        0 => Some(first.clone()),
        number => Name::parse(&format!("{first}-{}", number + 1)).ok(),
    })
}

/// The port of `8080` or `8080-8090` that an instance has.
pub fn port(range: &str, number: usize) -> Option<u16> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last) = (first.parse::<u16>().ok()?, last.parse::<u16>().ok()?);
    let port = first.checked_add(u16::try_from(number).ok()?)?;
    (port <= last).then_some(port)
}

// === impl Work ===

impl<'a> Work<'a> {
    /// The instances of a service, with remarks about what the file asks for.
    pub fn instances(&mut self, name: &'a str, service: &'a FromFile) -> Vec<Instance<'a>> {
        let Some(first) = self.names.get(name).cloned() else {
            return Vec::new();
        };
        let wanted = service.deploy.as_ref().and_then(|deploy| deploy.replicas);
        let wanted = service.scale.or(wanted).unwrap_or(1);
        let number = number_of(service);
        if wanted == 0 {
            self.warn(name, "scale", "is 0, so the service does not run");
        } else if wanted > number as u64 {
            let words = match &service.container_name {
                Some(_) => "is more than 1 beside `container_name`; one instance runs".to_owned(),
                None => format!("is more than {MOST}; {MOST} instances run"),
            };
            self.warn(name, "scale", &words);
        }
        let mut instances = Vec::new();
        for (number, instance) in names(&first, service).enumerate() {
            if number > 0 && self.names.values().any(|other| *other == instance) {
                self.errors.push(format!(
                    "`services.{name}` has an instance `{instance}`, which is the name of another service"
                ));
                continue;
            }
            instances.push(Instance {
                of: name,
                name: instance,
                number,
            });
        }
        instances
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_take_the_ports_of_a_range() {
        assert_eq!(port("8080", 0), Some(8080));
        assert_eq!(port("8080", 1), None);
        assert_eq!(port("8080-8082", 2), Some(8082));
        assert_eq!(port("8080-8082", 3), None);
        assert_eq!(port("65535-70000", 0), None);
        assert_eq!(port("65535", 1), None);
    }
}
