//! What a name means for a service that asks a DNS server.

use super::super::Unread;
use super::super::services::preview;
use holm_core::compose::ComposeFiles;
use holm_core::service_network::{Meaning, meaning};
use holm_core::spec::{Service, ServiceImage};
use std::net::{IpAddr, Ipv4Addr};

fn services(compose: &str) -> Vec<Service> {
    let caller = ComposeFiles::default();
    let mut read = |path: &str| match path {
        "compose.yaml" => Ok(compose.to_owned()),
        _ => Err(Unread::Missing),
    };
    let (_, translated) = preview("compose.yaml", &caller, &mut read).unwrap();
    let manifest = format!("sha256:{}", "0".repeat(64)).parse().unwrap();
    let services = translated.services.into_iter().map(|(name, service)| {
        let image = service.image.unwrap();
        Service {
            name: name.to_string(),
            run: String::new(),
            image: Some(ServiceImage {
                reference: image.reference,
                manifest: Clone::clone(&manifest),
                tree: None,
                volumes: Vec::new(),
                container: image.container,
                build: None,
            }),
            ready: None,
            depends_on: Vec::new(),
            restart: service.restart,
            on_assign: service.on_assign,
            build: None,
            rebuild_when: Vec::new(),
            env: Vec::new(),
            port: None,
        }
    });
    services.collect()
}

const STACK: &str = "
services:
  app: {image: x, networks: [front]}
  db: {image: x, networks: {back: {aliases: [Store]}}}
  web_1: {image: x, networks: [front, back], links: [\"db:data\"]}
networks: {front: {}, back: {internal: true}}
";

#[test]
fn services_find_those_of_their_own_networks() {
    let services = services(STACK);
    let address = |index: u8| Ipv4Addr::new(198, 19, 1, 2 + index);
    let (app, db, web) = (address(0), address(1), address(2));
    let check = |asking: Ipv4Addr, name: &str, expect: Meaning| {
        let found = meaning(&services, IpAddr::V4(asking), name);
        assert_eq!(found, expect, "{asking} asks for {name}");
    };
    let found = |address: Ipv4Addr| Meaning::Services(vec![address]);
    check(app, "web_1", found(web));
    check(app, "WEB-1.", found(web));
    check(app, "app", found(app));
    check(web, "db", found(db));
    check(web, "store", found(db));
    check(web, "data", found(db));
    check(db, "web-1", found(web));
    // Other networks, and names outside.
    check(app, "db", Meaning::Nothing);
    check(app, "store", Meaning::Elsewhere);
    check(app, "example.org", Meaning::Elsewhere);
    check(db, "app", Meaning::Nothing);
    // A service in internal networks only does not reach a resolver outside.
    check(db, "example.org", Meaning::Nothing);
    let workspace = Ipv4Addr::new(198, 18, 0, 1);
    check(workspace, "db", found(db));
    check(workspace, "example.org", Meaning::Elsewhere);
}
