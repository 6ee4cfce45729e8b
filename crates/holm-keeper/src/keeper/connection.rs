//! One request on the control socket. Only the daemon's user and root may connect.

use super::kept::Return;
use super::{Registry, data, dial, exec, here, ports, runs, sessions, watch};
use crate::platform::Pids;
use crate::records;
use crate::wire::{Answer, CodeSeen, Grant, Op, Request, read_control, send_answer};
use holm_core::service::Wish;
use holm_core::service::status::Services;
use holm_core::spec::{Egress, Service};
use rustix::net::sockopt::socket_peercred;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// Concurrent connections; each has a thread.
const MOST: usize = 512;

/// Answers in a separate thread, so that a slow client delays no other.
pub fn serve(stream: UnixStream, registry: &Arc<Registry>) {
    let registry = Arc::clone(registry);
    let thread = std::thread::Builder::new().stack_size(256 * 1024);
    let spawned = thread.spawn(move || {
        let Some(_talking) = registry.talk(MOST) else {
            let _ = send_answer(&stream, &Answer::Refused("too many connections".to_owned()));
            return;
        };
        if let Err(error) = answer(stream, &registry) {
            complain!("control connection: {error}");
        }
    });
    if let Err(error) = spawned {
        complain!("cannot serve a connection: {error}");
    }
}

/// In a container only holm's own programs see the directory with the socket, and the kernel has no pid for a peer in
/// another container.
fn is_of_user(stream: &UnixStream, registry: &Registry) -> io::Result<bool> {
    if registry.platform().pids() == Pids::OfAnotherNamespace {
        return Ok(true);
    }
    let peer = socket_peercred(stream)?.uid;
    Ok(peer == rustix::process::getuid() || peer.is_root())
}

fn answer(mut stream: UnixStream, registry: &Arc<Registry>) -> io::Result<()> {
    if !is_of_user(&stream, registry)? {
        let why = "another user's workspace".to_owned();
        return send_answer(&stream, &Answer::Refused(why));
    }
    let Some(request) = read_request(&mut stream)? else {
        return Ok(());
    };
    let ours = registry.plan.version;
    let is_simple = matches!(
        request.op,
        Op::Status | Op::Stop { .. } | Op::Relabel { .. }
    );
    if request.version != ours && !is_simple {
        let text = format!(
            "it was started by another version of holm, which speaks protocol {ours}, not {}",
            request.version
        );
        return send_answer(&stream, &Answer::Refused(text));
    }
    match request.op {
        Op::Status => send_answer(&stream, &Answer::Status(Box::new(registry.status()))),
        Op::Relabel { label } => {
            registry.relabel(label);
            here::write(registry);
            send_answer(&stream, &Answer::Done)
        }
        Op::Stop { grace_ms } => {
            registry.stop(Duration::from_millis(grace_ms));
            send_answer(&stream, &Answer::Done)
        }
        Op::Exec(exec) => exec::run(stream, registry, exec),
        Op::Dial { port } => dial::dial(&stream, registry, port),
        Op::Connect { port } => dial::connect(&stream, registry, port),
        Op::WatchPorts => ports::watch(&stream, registry),
        Op::Watch => watch::watch(&stream, registry),
        Op::SetPorts(ports) => {
            registry.set_ports(ports);
            here::write(registry);
            send_answer(&stream, &Answer::Done)
        }
        Op::SetEnv(env) => {
            registry.set_env(env);
            send_answer(&stream, &Answer::Done)
        }
        Op::Resume(resume) => match registry.doors.bring(Return { stream, resume }) {
            Ok(()) => Ok(()),
            Err(Return { stream, .. }) => {
                let why = "it knows nothing of this command".to_owned();
                send_answer(&stream, &Answer::Refused(why))
            }
        },
        Op::Run(order) => runs::begin(&stream, registry, order),
        Op::WatchRun { run } => runs::watch(&stream, registry, &run),
        Op::CancelRun { run } => send_answer(&stream, &runs::cancel(registry, &run)),
        Op::WatchServices => match registry.services() {
            Some(services) => services.watch(&stream),
            None => send_answer(&stream, &Answer::Services(Services::default())),
        },
        Op::Service { name, wish } => send_answer(&stream, &wished(registry, &name, wish)),
        Op::Copy(pairs) => send_answer(&stream, &data::copy(registry, &pairs)),
        Op::RenewVolumes(volumes) => send_answer(&stream, &data::renew(registry, volumes)),
        Op::React { wishes, code } => send_answer(&stream, &reacted(registry, wishes, code)),
        Op::SetServices(declared) => send_answer(&stream, &redeclared(registry, declared)),
        Op::SetSignIns {
            agent,
            sign_ins,
            holder,
        } => send_answer(&stream, &registry.set_sign_ins(agent, sign_ins, holder)),
        Op::EndSignIns { holder } => send_answer(&stream, &registry.end_sign_ins(&holder)),
        Op::SetSecrets(grants) => send_answer(&stream, &other_secrets(registry, grants)),
        Op::SetEgress(egress) => send_answer(&stream, &other_rules(registry, &egress)),
        Op::Records(query) => records::answer(stream, &registry.plan.directories(), query),
        Op::Session(ask) => sessions::answer(&stream, registry, ask),
        Op::AttachSession(attach) => sessions::attach(stream, registry, attach),
        Op::WatchSessions => sessions::watch(&stream, registry),
        Op::DialOut { host, port } => dial_out(&stream, registry, &host, port),
    }
}

fn dial_out(stream: &UnixStream, registry: &Registry, host: &str, port: u16) -> io::Result<()> {
    let ready = || {
        send_answer(stream, &Answer::Dialled)?;
        stream.try_clone()
    };
    let dialled = registry.outside().dial_out(host, port, ready);
    dialled.or_else(|error| {
        let errno = error.raw_os_error().unwrap_or(libc::ECONNREFUSED);
        send_answer(stream, &Answer::NotDialled { errno })
    })
}

/// Reads the request of a connection. `None`: there is none, or it was refused already.
fn read_request(stream: &mut UnixStream) -> io::Result<Option<Request>> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let request = match read_control(stream) {
        Ok(request) => Some(request),
        // The client only checked whether a keeper listens.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            let text = format!("it does not know what to make of this: {error}");
            send_answer(stream, &Answer::Refused(text))?;
            None
        }
        Err(error) => return Err(error),
    };
    stream.set_read_timeout(None)?;
    Ok(request)
}

fn reacted(registry: &Registry, wishes: Vec<(String, Wish)>, code: CodeSeen) -> Answer {
    registry.set_code(code);
    here::write(registry);
    match registry.services() {
        Some(services) => services.react(wishes),
        None => Answer::Refused("it is not started yet".to_owned()),
    }
}

fn wished(registry: &Registry, name: &str, wish: Wish) -> Answer {
    match registry.services() {
        Some(services) => services.wish(name, wish),
        None => not_yet(),
    }
}

fn other_secrets(registry: &Arc<Registry>, grants: Vec<Grant>) -> Answer {
    let answer = registry.secrets.set(grants);
    registry.secrets.watch(registry);
    let outside = registry.outside();
    outside.set_placeholders(registry.secrets.placeholders());
    answer
}

fn other_rules(registry: &Registry, egress: &Egress) -> Answer {
    match registry.outside().set_egress(egress) {
        Ok(()) => {
            registry.set_egress(egress.clone());
            here::write(registry);
            Answer::Done
        }
        Err(error) => Answer::Refused(format!("the rules cannot be changed: {error}")),
    }
}

fn redeclared(registry: &Registry, declared: Vec<Service>) -> Answer {
    match registry.services() {
        Some(services) => {
            let declared = startable(&registry.plan.services, &registry.declared(), declared);
            registry.set_declared(declared.clone());
            let answer = services.declare(declared);
            here::write(registry);
            answer
        }
        None => not_yet(),
    }
}

/// The driver plans rooms when the workspace starts, so another image counts from the next start on. Until then the
/// service keeps its present image, and its command, variables and readiness, which are for that image.
fn startable(planned: &[Service], present: &[Service], declared: Vec<Service>) -> Vec<Service> {
    let startable = declared.into_iter().filter_map(|service| {
        let is_same = |other: &&Service| other.name == service.name;
        let planned = planned.iter().find(is_same);
        if service.image.as_ref() == planned.and_then(|planned| planned.image.as_ref()) {
            return Some(service);
        }
        let kept = present.iter().find(is_same).or(planned)?.clone();
        Some(Service {
            depends_on: service.depends_on,
            restart: service.restart,
            on_assign: service.on_assign,
            build: service.build,
            rebuild_when: service.rebuild_when,
            ..kept
        })
    });
    startable.collect()
}

fn not_yet() -> Answer {
    Answer::Refused("it is not started yet".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use holm_core::config::{OnAssign, Restart};
    use holm_core::spec::ServiceImage;

    fn service(name: &str, image: Option<&str>, run: &str) -> Service {
        let image = image.map(|reference| ServiceImage {
            reference: reference.parse().unwrap(),
            manifest: format!("sha256:{}", "0".repeat(64)).parse().unwrap(),
            tree: None,
            volumes: Vec::new(),
            build: None,
            container: None,
        });
        Service {
            name: name.to_owned(),
            run: run.to_owned(),
            image,
            ready: None,
            depends_on: Vec::new(),
            restart: Restart::No,
            on_assign: OnAssign::None,
            build: None,
            rebuild_when: Vec::new(),
            env: Vec::new(),
            port: None,
        }
    }

    #[test]
    fn another_image_waits_for_the_next_start_and_undoes_no_earlier_reload() {
        let planned = [service("db", Some("db:1"), "old")];
        // A reload before changed the command.
        let present = [service("db", Some("db:1"), "present")];
        let mut other_image = service("db", Some("db:2"), "for the other image");
        other_image.restart = Restart::Always;
        let added = service("new", Some("db:1"), "");
        let found = startable(&planned, &present, vec![other_image, added]);
        let mut expected = service("db", Some("db:1"), "present");
        expected.restart = Restart::Always;
        assert_eq!(found, [expected]);
        let same_image = service("db", Some("db:1"), "new");
        let found = startable(&planned, &present, vec![same_image.clone()]);
        assert_eq!(found, [same_image]);
    }
}
