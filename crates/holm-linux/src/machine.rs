//! The machine's resources. Read by the server before it creates a workspace.

use holm_core::admission::Machine;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// `data_dir` is where workspaces are.
pub fn look(data_dir: &Path) -> io::Result<Machine> {
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let memory = total_memory(&text).ok_or_else(|| io::Error::other("/proc/meminfo is odd"))?;
    let disk = rustix::fs::statvfs(data_dir)?;
    Ok(Machine {
        memory,
        disk: disk.f_blocks * disk.f_frsize,
        free_disk: disk.f_bavail * disk.f_frsize,
    })
}

fn total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The machine's own addresses, as far as the kernel lists them for every user.
pub fn addresses() -> Vec<IpAddr> {
    let mut found = Vec::new();
    let routes = std::fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    let mut last = None;
    for line in routes.lines() {
        // An address, and its kind on the next line.
        if let Some((_, address)) = line.split_once("|-- ") {
            last = address.trim().parse::<Ipv4Addr>().ok();
        } else if line.contains("host LOCAL") {
            found.extend(
                last.map(IpAddr::V4)
                    .filter(|address| !found.contains(address)),
            );
        }
    }
    let list = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let words = list
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    let numbers = words.filter_map(|word| u128::from_str_radix(word, 16).ok());
    found.extend(numbers.map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits))));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_something() {
        let machine = look(Path::new("/")).unwrap();
        assert!(machine.memory > 0 && machine.disk > 0);
        assert!(machine.free_disk <= machine.disk);
        let text = "MemTotal:       24682108 kB\nMemFree:        1 kB\n";
        assert_eq!(total_memory(text), Some(24_682_108 * 1024));
        assert_eq!(total_memory("MemTotal: lots\n"), None);
    }
}
