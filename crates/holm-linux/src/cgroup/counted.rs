//! Reads the kernel's counters of a workspace's groups, which include processes that have ended.
//! Called by [`numbers`](crate::numbers).

use super::{Controller, Group, Version};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The counters; `None` where the kernel does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub cpu: Option<Duration>,
    /// Without page cache that the kernel could drop.
    pub memory: Option<u64>,
}

// === impl Group ===

impl Group {
    pub fn counted(&self) -> Counted {
        let cpu = self.directory(Controller::Cpu).and_then(|directory| {
            match self.version() {
                // Only where it is mounted together with the cpu controller.
                Version::V1 => number(&directory.join("cpuacct.usage")).map(Duration::from_nanos),
                Version::V2 => {
                    field(&directory.join("cpu.stat"), "usage_usec").map(Duration::from_micros)
                }
            }
        });
        let memory = self.directory(Controller::Memory).and_then(|directory| {
            let (usage, idle) = match self.version() {
                Version::V1 => ("memory.usage_in_bytes", "total_inactive_file"),
                Version::V2 => ("memory.current", "inactive_file"),
            };
            let idle = field(&directory.join("memory.stat"), idle).unwrap_or(0);
            Some(number(&directory.join(usage))?.saturating_sub(idle))
        });
        Counted { cpu, memory }
    }
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn field(path: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_names() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("memory.stat");
        fs::write(&file, "inactive_file_x 1\ninactive_file 7\n").unwrap();
        assert_eq!(field(&file, "inactive_file"), Some(7));
        assert_eq!(field(&file, "inactive"), None);
        assert_eq!(field(&place.path().join("none"), "x"), None);
    }
}
