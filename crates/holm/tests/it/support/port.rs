//! Ports of workspaces, as programs of the host reach them.

use super::{Island, eventually};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The port of this number in what `show` says of a workspace.
pub fn port_of(island: &Island, workspace: &str, port: u16) -> Option<Value> {
    let shown = island.holm(&["show", workspace, "--json"]).json();
    let ports = shown["ports"].as_array().expect("ports").clone();
    ports.into_iter().find(|found| found["port"] == port)
}

/// Waits until the port is listened on; returns its host port.
pub fn host_port(island: &Island, workspace: &str, port: u16) -> u16 {
    let mut found = None;
    eventually("the port is listened on", || {
        found = port_of(island, workspace, port).filter(|found| found["listening"] == true);
        found.is_some()
    });
    let found = found.expect("the port");
    found["host_port"].as_u64().expect("a host port") as u16
}

/// A connection to a loopback address of the host.
fn dial(address: &str, port: u16) -> std::io::Result<TcpStream> {
    let address: IpAddr = address.parse().expect("an address");
    let stream = TcpStream::connect(SocketAddr::from((address, port)))?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    Ok(stream)
}

/// Requests `/` by HTTP/1.0; the response, or why there is none.
pub fn fetch(address: &str, port: u16) -> std::io::Result<String> {
    let mut stream = dial(address, port)?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Starts a program inside that runs on in the background.
pub fn background(island: &Island, workspace: &str, command: &str) {
    let script = format!("{command} >/tmp/background.log 2>&1 &");
    island.sh(workspace, &script).ok();
}

/// A free port of the host, outside the kernel's ephemeral range and the daemon's host ports. Each
/// test is a process, and starts its search at another number.
pub fn free_port() -> u16 {
    static LOOKED: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id() * 16 + LOOKED.fetch_add(1, Ordering::Relaxed);
        let port = (10_000 + number % 9_000) as u16;
        let both = ["127.0.0.1", "::1"].map(|address| TcpListener::bind((address, port)));
        if both.iter().all(Result::is_ok) {
            return port;
        }
    }
}

/// Takes a port of the host as soon as it is free: the threads of a killed daemon end one by one.
pub fn take(address: &str, port: u16) -> TcpListener {
    let mut taken = None;
    eventually("the port is free", || {
        taken = TcpListener::bind((address, port)).ok();
        taken.is_some()
    });
    taken.expect("the port")
}
