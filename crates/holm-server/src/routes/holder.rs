//! Finds the program that listens on a port of the host, for messages about taken ports.

use std::path::Path;

/// A listening socket in the kernel's tables.
struct Listener {
    inode: u64,
    uid: u32,
}

/// In words: the name and pid of the program, or its user when that is all that can be seen.
pub fn of(port: u16) -> String {
    let listeners: Vec<Listener> = ["/proc/self/net/tcp", "/proc/self/net/tcp6"]
        .iter()
        .filter_map(|table| std::fs::read_to_string(table).ok())
        .flat_map(|table| listeners(&table, port))
        .collect();
    for listener in &listeners {
        if let Some(pid) = owner(listener.inode) {
            return named(pid);
        }
    }
    match listeners.first() {
        Some(listener) => format!("a program of the user {} (pid unknown)", listener.uid),
        None => "another program (pid unknown)".to_owned(),
    }
}

/// The lines of `/proc/net/tcp` that listen on the port.
fn listeners(table: &str, port: u16) -> Vec<Listener> {
    const LISTEN: &str = "0A";
    let lines = table.lines().skip(1);
    lines
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, local, _, state, _, _, _, uid, _, inode, ..] = fields.as_slice() else {
                return None;
            };
            let (_, number) = local.rsplit_once(':')?;
            let is_meant = u16::from_str_radix(number, 16) == Ok(port) && *state == LISTEN;
            is_meant.then_some(Listener {
                inode: inode.parse().ok()?,
                uid: uid.parse().ok()?,
            })
        })
        .collect()
}

/// A process with the socket open, among those that this user can inspect.
fn owner(inode: u64) -> Option<u32> {
    let wanted = format!("socket:[{inode}]");
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.into_iter().find(|pid: &u32| {
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd"));
        let mut descriptors = descriptors.into_iter().flatten().flatten();
        descriptors.any(|descriptor| {
            let target = std::fs::read_link(descriptor.path());
            target.is_ok_and(|target| target == Path::new(&wanted))
        })
    })
}

fn named(pid: u32) -> String {
    if pid == std::process::id() {
        return "holm itself: it is a host port or the front door (`holm ports`)".to_owned();
    }
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    match name.trim() {
        "" => format!("pid {pid}"),
        name => format!("`{name}` (pid {pid})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_lines_of_a_port_that_listen() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:0BB8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 100 0 0 10 0\n\
            1: 0100007F:0BB8 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1000        0 4712 1 0 100 0 0 10 0\n\
            2: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4713 1 0 100 0 0 10 0\n\
            nonsense\n";
        let found = listeners(table, 3000);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].inode, found[0].uid), (4711, 1000));
    }

    #[test]
    fn a_listener_of_this_process_is_found() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(of(port).starts_with("holm itself"), "{}", of(port));
        drop(listener);
        assert_eq!(of(port), "another program (pid unknown)");
    }
}
