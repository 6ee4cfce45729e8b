//! Decides whether the machine has room for one more workspace, by the limits that `holm.toml`
//! files declare. The engine asks before it creates one; the user may override the answer.

use serde::{Deserialize, Serialize};

/// The limits that one workspace's `holm.toml` declares, in bytes. Undeclared limits do not count:
/// a default is no promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    pub memory: Option<u64>,
    pub disk: Option<u64>,
}

/// The machine's resources, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub memory: u64,
    /// The file system that holds the workspaces.
    pub disk: u64,
    pub free_disk: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overcommitted {
    /// The declared memory of all running workspaces and the new one.
    Memory { declared: u64, there_is: u64 },
    /// The declared disk use of all running workspaces and the new one.
    Disk { declared: u64, there_is: u64 },
    /// The new workspace alone may use more than is free.
    FreeDisk { declared: u64, free: u64 },
}

/// Decides about `new` beside the `running` ones. A workspace that declares nothing is always
/// admitted.
pub fn admit(machine: Machine, running: &[Declared], new: Declared) -> Result<(), Overcommitted> {
    let sum = |of: fn(&Declared) -> Option<u64>| {
        running
            .iter()
            .filter_map(of)
            .fold(of(&new).unwrap_or(0), u64::saturating_add)
    };
    if new.memory.is_some() {
        let declared = sum(|declared| declared.memory);
        if declared > machine.memory {
            return Err(Overcommitted::Memory {
                declared,
                there_is: machine.memory,
            });
        }
    }
    if let Some(disk) = new.disk {
        if disk > machine.free_disk {
            return Err(Overcommitted::FreeDisk {
                declared: disk,
                free: machine.free_disk,
            });
        }
        let declared = sum(|declared| declared.disk);
        if declared > machine.disk {
            return Err(Overcommitted::Disk {
                declared,
                there_is: machine.disk,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Machine = Machine {
        memory: 100,
        disk: 1000,
        free_disk: 300,
    };

    fn declared(memory: impl Into<Option<u64>>, disk: impl Into<Option<u64>>) -> Declared {
        Declared {
            memory: memory.into(),
            disk: disk.into(),
        }
    }

    #[test]
    fn a_table_of_decisions() {
        use Overcommitted::{Disk, FreeDisk, Memory};
        let memory = |declared| {
            Err(Memory {
                declared,
                there_is: 100,
            })
        };
        let nothing = Declared::default();
        let rows = [
            (vec![], nothing, Ok(())),
            (vec![declared(200, 2000)], nothing, Ok(())),
            // Exactly the whole machine is allowed.
            (vec![], declared(100, None), Ok(())),
            (
                vec![declared(60, None), nothing],
                declared(40, None),
                Ok(()),
            ),
            (vec![], declared(101, None), memory(101)),
            (vec![declared(60, None)], declared(41, None), memory(101)),
            (
                vec![declared(u64::MAX, None)],
                declared(u64::MAX, None),
                memory(u64::MAX),
            ),
            // Workspaces that declare only the other resource do not count.
            (vec![declared(100, 700)], declared(None, 300), Ok(())),
            (
                vec![],
                declared(None, 301),
                Err(FreeDisk {
                    declared: 301,
                    free: 300,
                }),
            ),
            (
                vec![declared(None, 500), declared(None, 300)],
                declared(None, 201),
                Err(Disk {
                    declared: 1001,
                    there_is: 1000,
                }),
            ),
        ];
        for (running, new, expect) in rows {
            assert_eq!(admit(MACHINE, &running, new), expect, "{running:?} {new:?}");
        }
    }
}
