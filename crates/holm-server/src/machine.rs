//! What the machine has to give to workspaces. Asked before one is made.

use holm_core::admission::Machine;
use std::io;
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
