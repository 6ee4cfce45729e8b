//! The system call filter: a table, and the BPF program compiled from it.
//!
//! Calls that are not in the table are allowed: the namespaces and the empty capability sets are
//! the boundary, and the filter removes calls that have broken such boundaries before. Programs of
//! a foreign architecture are refused, because their calls have other numbers.

use super::check;
use std::io;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    Deny,
    /// Denied when the argument has one of these bits.
    DenyBits {
        argument: u32,
        bits: u32,
    },
    /// Denied when the low half of the argument, which is all the kernel reads, is one of these.
    DenyValues {
        argument: u32,
        values: &'static [u32],
    },
    /// Sockets: Unix, IPv4, IPv6 and route netlink; no other family.
    PlainSocketsOnly,
    /// Denied when the argument is this and the pointer is not null: reading is allowed, setting is
    /// not.
    DenySetting {
        argument: u32,
        value: u32,
        pointer: u32,
    },
}

/// One row of the table: the call, the rule, and the caller's errno.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub name: &'static str,
    pub number: libc::c_long,
    pub rule: Rule,
    pub error: i32,
    /// Whether `nested = true` lifts this row.
    pub lifted_when_nested: bool,
}

/// Whether programs inside may create user namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nesting {
    Forbidden,
    Allowed,
}

const NEW_NAMESPACE: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;
const CLONE_NEWTIME: u32 = 0x80;
/// The bit that character and block devices share, and no other file type has.
const DEVICE: u32 = 0o020000;
const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541C;
/// Leases of files and, newer than the libc crate, of directories.
const F_GETDELEG: u32 = 1039;
const F_SETDELEG: u32 = 1040;
/// For encrypted directories of the host: `_IOR('f', 19)`, `_IOWR('f', 23)` to `_IOWR('f', 25)`.
const FS_IOC_SET_ENCRYPTION_POLICY: u32 = 0x800C_6613;
const FS_IOC_ADD_ENCRYPTION_KEY: u32 = 0xC050_6617;
const FS_IOC_REMOVE_ENCRYPTION_KEY: u32 = 0xC040_6618;
const FS_IOC_REMOVE_ENCRYPTION_KEY_ALL_USERS: u32 = 0xC040_6619;
/// Newer than the libc crate.
const SYS_OPEN_TREE_ATTR: libc::c_long = 467;

const fn deny(name: &'static str, number: libc::c_long) -> Row {
    Row {
        name,
        number,
        rule: Rule::Deny,
        error: libc::EPERM,
        lifted_when_nested: false,
    }
}

const fn deny_unless_nested(name: &'static str, number: libc::c_long, rule: Rule) -> Row {
    Row {
        name,
        number,
        rule,
        error: libc::EPERM,
        lifted_when_nested: true,
    }
}

/// Every call with a rule.
pub const TABLE: &[Row] = &[
    // Namespaces and mounts.
    deny_unless_nested(
        "unshare",
        libc::SYS_unshare,
        Rule::DenyBits {
            argument: 0,
            bits: NEW_NAMESPACE | CLONE_NEWTIME,
        },
    ),
    deny_unless_nested(
        "clone",
        libc::SYS_clone,
        Rule::DenyBits {
            argument: 0,
            bits: NEW_NAMESPACE,
        },
    ),
    // Its flags are behind a pointer that a filter cannot read; with ENOSYS libc uses clone.
    Row {
        error: libc::ENOSYS,
        lifted_when_nested: true,
        ..deny("clone3", libc::SYS_clone3)
    },
    deny_unless_nested("setns", libc::SYS_setns, Rule::Deny),
    deny_unless_nested("mount", libc::SYS_mount, Rule::Deny),
    deny_unless_nested("umount2", libc::SYS_umount2, Rule::Deny),
    deny_unless_nested("pivot_root", libc::SYS_pivot_root, Rule::Deny),
    deny_unless_nested("chroot", libc::SYS_chroot, Rule::Deny),
    deny_unless_nested("open_tree", libc::SYS_open_tree, Rule::Deny),
    deny_unless_nested("open_tree_attr", SYS_OPEN_TREE_ATTR, Rule::Deny),
    deny_unless_nested("move_mount", libc::SYS_move_mount, Rule::Deny),
    deny_unless_nested("fsopen", libc::SYS_fsopen, Rule::Deny),
    deny_unless_nested("fsconfig", libc::SYS_fsconfig, Rule::Deny),
    deny_unless_nested("fsmount", libc::SYS_fsmount, Rule::Deny),
    deny_unless_nested("fspick", libc::SYS_fspick, Rule::Deny),
    deny_unless_nested("mount_setattr", libc::SYS_mount_setattr, Rule::Deny),
    deny_unless_nested("sethostname", libc::SYS_sethostname, Rule::Deny),
    deny_unless_nested("setdomainname", libc::SYS_setdomainname, Rule::Deny),
    // Other processes' memory and descriptors.
    deny("ptrace", libc::SYS_ptrace),
    deny("process_vm_readv", libc::SYS_process_vm_readv),
    deny("process_vm_writev", libc::SYS_process_vm_writev),
    deny("process_madvise", libc::SYS_process_madvise),
    deny("pidfd_getfd", libc::SYS_pidfd_getfd),
    deny("kcmp", libc::SYS_kcmp),
    // Kernel interfaces with many past vulnerabilities.
    deny("bpf", libc::SYS_bpf),
    deny("perf_event_open", libc::SYS_perf_event_open),
    deny("userfaultfd", libc::SYS_userfaultfd),
    deny("io_uring_setup", libc::SYS_io_uring_setup),
    deny("io_uring_enter", libc::SYS_io_uring_enter),
    deny("io_uring_register", libc::SYS_io_uring_register),
    deny("keyctl", libc::SYS_keyctl),
    deny("add_key", libc::SYS_add_key),
    deny("request_key", libc::SYS_request_key),
    deny("fanotify_init", libc::SYS_fanotify_init),
    deny("vhangup", libc::SYS_vhangup),
    // Files by handle, devices.
    deny("open_by_handle_at", libc::SYS_open_by_handle_at),
    #[cfg(target_arch = "x86_64")]
    Row {
        rule: Rule::DenyBits {
            argument: 1,
            bits: DEVICE,
        },
        ..deny("mknod", libc::SYS_mknod)
    },
    Row {
        rule: Rule::DenyBits {
            argument: 2,
            bits: DEVICE,
        },
        ..deny("mknodat", libc::SYS_mknodat)
    },
    // The machine.
    deny("kexec_load", libc::SYS_kexec_load),
    deny("kexec_file_load", libc::SYS_kexec_file_load),
    deny("init_module", libc::SYS_init_module),
    deny("finit_module", libc::SYS_finit_module),
    deny("delete_module", libc::SYS_delete_module),
    deny("swapon", libc::SYS_swapon),
    deny("swapoff", libc::SYS_swapoff),
    deny("reboot", libc::SYS_reboot),
    deny("settimeofday", libc::SYS_settimeofday),
    deny("clock_settime", libc::SYS_clock_settime),
    deny("acct", libc::SYS_acct),
    deny("syslog", libc::SYS_syslog),
    deny("quotactl", libc::SYS_quotactl),
    deny("quotactl_fd", libc::SYS_quotactl_fd),
    deny("lookup_dcookie", libc::SYS_lookup_dcookie),
    deny("nfsservctl", libc::SYS_nfsservctl),
    #[cfg(target_arch = "x86_64")]
    deny("iopl", libc::SYS_iopl),
    #[cfg(target_arch = "x86_64")]
    deny("ioperm", libc::SYS_ioperm),
    #[cfg(target_arch = "x86_64")]
    deny("uselib", libc::SYS_uselib),
    #[cfg(target_arch = "x86_64")]
    deny("ustat", libc::SYS_ustat),
    #[cfg(target_arch = "x86_64")]
    deny("sysfs", libc::SYS_sysfs),
    #[cfg(target_arch = "x86_64")]
    deny("modify_ldt", libc::SYS_modify_ldt),
    // Claims on files that the user has too: opening a file with a lease blocks until its holder
    // responds, up to 45 seconds. Directory signals (F_NOTIFY) predate inotify.
    Row {
        rule: Rule::DenyValues {
            argument: 1,
            values: &[
                libc::F_SETLEASE as u32,
                libc::F_NOTIFY as u32,
                F_GETDELEG,
                F_SETDELEG,
            ],
        },
        ..deny("fcntl", libc::SYS_fcntl)
    },
    // Typing into another terminal; locking the user's encrypted directories, whose keys belong to
    // the uid.
    Row {
        rule: Rule::DenyValues {
            argument: 1,
            values: &[
                TIOCSTI,
                TIOCLINUX,
                FS_IOC_SET_ENCRYPTION_POLICY,
                FS_IOC_ADD_ENCRYPTION_KEY,
                FS_IOC_REMOVE_ENCRYPTION_KEY,
                FS_IOC_REMOVE_ENCRYPTION_KEY_ALL_USERS,
            ],
        },
        ..deny("ioctl", libc::SYS_ioctl)
    },
    Row {
        rule: Rule::PlainSocketsOnly,
        error: libc::EAFNOSUPPORT,
        ..deny("socket", libc::SYS_socket)
    },
    // The other way to create a socket of a family.
    Row {
        rule: Rule::PlainSocketsOnly,
        error: libc::EAFNOSUPPORT,
        ..deny("socketpair", libc::SYS_socketpair)
    },
    // A core limit of 1 keeps the kernel from calling the host's crash handler, one of 0 does not.
    // Success without effect, because programs that set it to 0 give up on an error.
    Row {
        rule: Rule::DenyValues {
            argument: 0,
            values: &[libc::RLIMIT_CORE],
        },
        error: NOTHING_HAPPENS,
        ..deny("setrlimit", libc::SYS_setrlimit)
    },
    Row {
        rule: Rule::DenySetting {
            argument: 1,
            value: libc::RLIMIT_CORE,
            pointer: 2,
        },
        error: NOTHING_HAPPENS,
        ..deny("prlimit64", libc::SYS_prlimit64)
    },
];

/// As a row's errno: the call returns success without effect.
pub const NOTHING_HAPPENS: i32 = 0;

/// Installs the filter for this process and its descendants, permanently. Needs no_new_privs.
pub fn install(nesting: Nesting) -> io::Result<()> {
    let mut program = assemble(nesting);
    let filter = libc::sock_fprog {
        len: program.len() as libc::c_ushort,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: `filter` and the program it points to live until the call returns, and `len` is the
    // program's length (a test keeps it far below the limit).
    check(unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0,
            &raw const filter,
        )
    })?;
    Ok(())
}

// === The program ===

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;
/// Set in the numbers of x32 calls, which x86_64 kernels accept too.
const X32_BIT: u32 = 0x4000_0000;

const OFFSET_NUMBER: u32 = 0;
const OFFSET_ARCHITECTURE: u32 = 4;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const JUMP_GREATER_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const JUMP_BITS: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

fn assemble(nesting: Nesting) -> Vec<libc::sock_filter> {
    let mut program = vec![
        load(OFFSET_ARCHITECTURE),
        jump(JUMP_EQUAL, ARCHITECTURE, 1, 0),
        fail(libc::ENOSYS),
        load(OFFSET_NUMBER),
        jump(JUMP_GREATER_EQUAL, X32_BIT, 0, 1),
        fail(libc::ENOSYS),
    ];
    let rows = TABLE
        .iter()
        .filter(|row| nesting == Nesting::Forbidden || !row.lifted_when_nested);
    for row in rows {
        let block = block(row);
        program.push(jump(JUMP_EQUAL, row.number as u32, 0, block.len() as u8));
        program.extend(block);
    }
    program.push(allow());
    program
}

/// A program that reports these calls and allows all others.
pub(super) fn notifying(numbers: &[libc::c_long]) -> Vec<libc::sock_filter> {
    let mut program = vec![load(OFFSET_NUMBER)];
    for number in numbers {
        program.push(jump(JUMP_EQUAL, *number as u32, 0, 1));
        program.push(instruction(RETURN, libc::SECCOMP_RET_USER_NOTIF, 0, 0));
    }
    program.push(allow());
    program
}

/// The instructions for one row; every path ends with a verdict.
fn block(row: &Row) -> Vec<libc::sock_filter> {
    match row.rule {
        Rule::Deny => vec![fail(row.error)],
        Rule::DenyBits { argument, bits } => {
            vec![
                load_argument(argument),
                jump(JUMP_BITS, bits, 0, 1),
                fail(row.error),
                allow(),
            ]
        }
        Rule::DenyValues { argument, values } => {
            let mut block = vec![load_argument(argument)];
            for value in values {
                block.extend([jump(JUMP_EQUAL, *value, 0, 1), fail(row.error)]);
            }
            block.push(allow());
            block
        }
        Rule::PlainSocketsOnly => vec![
            load_argument(0),
            jump(JUMP_EQUAL, libc::AF_UNIX as u32, 6, 0),
            jump(JUMP_EQUAL, libc::AF_INET as u32, 5, 0),
            jump(JUMP_EQUAL, libc::AF_INET6 as u32, 4, 0),
            jump(JUMP_EQUAL, libc::AF_NETLINK as u32, 0, 2),
            load_argument(2),
            jump(JUMP_EQUAL, libc::NETLINK_ROUTE as u32, 1, 0),
            fail(row.error),
            allow(),
        ],
        Rule::DenySetting {
            argument,
            value,
            pointer,
        } => vec![
            load_argument(argument),
            jump(JUMP_EQUAL, value, 0, 5),
            load_argument(pointer),
            jump(JUMP_EQUAL, 0, 0, 2),
            load_high_half(pointer),
            jump(JUMP_EQUAL, 0, 1, 0),
            fail(row.error),
            allow(),
        ],
    }
}

fn instruction(code: u16, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

fn load(offset: u32) -> libc::sock_filter {
    instruction(LOAD, offset, 0, 0)
}

/// The low half of an argument (little endian).
fn load_argument(argument: u32) -> libc::sock_filter {
    load(16 + 8 * argument)
}

fn load_high_half(argument: u32) -> libc::sock_filter {
    load(16 + 8 * argument + 4)
}

/// Skips `then` instructions if the condition holds, else `otherwise`.
fn jump(code: u16, value: u32, then: u8, otherwise: u8) -> libc::sock_filter {
    instruction(code, value, then, otherwise)
}

fn fail(error: i32) -> libc::sock_filter {
    instruction(RETURN, libc::SECCOMP_RET_ERRNO | error as u32, 0, 0)
}

fn allow() -> libc::sock_filter {
    instruction(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the program on one call, as the kernel would.
    fn verdict(nesting: Nesting, number: u32, architecture: u32, arguments: [u64; 6]) -> u32 {
        let program = assemble(nesting);
        let word = |offset: u32| match offset {
            OFFSET_NUMBER => number,
            OFFSET_ARCHITECTURE => architecture,
            _ => {
                let argument = arguments[(offset as usize - 16) / 8];
                let shift = (offset % 8) * 8;
                (argument >> shift) as u32
            }
        };
        let (mut at, mut accumulator) = (0usize, 0u32);
        loop {
            let step = program[at];
            at += 1;
            let taken = match step.code {
                LOAD => {
                    accumulator = word(step.k);
                    continue;
                }
                RETURN => return step.k,
                JUMP_EQUAL => accumulator == step.k,
                JUMP_GREATER_EQUAL => accumulator >= step.k,
                JUMP_BITS => accumulator & step.k != 0,
                other => panic!("unknown instruction {other}"),
            };
            at += usize::from(if taken { step.jt } else { step.jf });
        }
    }

    fn errno(error: i32) -> u32 {
        libc::SECCOMP_RET_ERRNO | error as u32
    }

    #[test]
    fn every_row_denies_what_it_says_and_nothing_else() {
        let call = |row: &Row, arguments| {
            verdict(
                Nesting::Forbidden,
                row.number as u32,
                ARCHITECTURE,
                arguments,
            )
        };
        for row in TABLE {
            let with = |argument: u32, value: u64| {
                let mut arguments = [0; 6];
                arguments[argument as usize] = value;
                arguments
            };
            match row.rule {
                Rule::Deny => assert_eq!(call(row, [0; 6]), errno(row.error), "{}", row.name),
                Rule::DenyBits { argument, bits } => {
                    for bit in (0..32).map(|shift| 1u32 << shift) {
                        let expect = if bits & bit != 0 {
                            errno(row.error)
                        } else {
                            libc::SECCOMP_RET_ALLOW
                        };
                        assert_eq!(
                            call(row, with(argument, bit.into())),
                            expect,
                            "{} {bit:#x}",
                            row.name
                        );
                    }
                }
                Rule::DenyValues { argument, values } => {
                    for value in values {
                        let high = u64::from(*value) | 0xdead_0000_0000_0000;
                        assert_eq!(call(row, with(argument, (*value).into())), errno(row.error));
                        assert_eq!(call(row, with(argument, high)), errno(row.error));
                        for other in [*value - 1, *value + 1] {
                            let expect = if values.contains(&other) {
                                errno(row.error)
                            } else {
                                libc::SECCOMP_RET_ALLOW
                            };
                            assert_eq!(call(row, with(argument, other.into())), expect);
                        }
                    }
                }
                Rule::PlainSocketsOnly => {
                    for family in 0..64 {
                        let plain = matches!(family, 1 | 2 | 10 | 16);
                        let expect = if plain {
                            libc::SECCOMP_RET_ALLOW
                        } else {
                            errno(row.error)
                        };
                        assert_eq!(call(row, with(0, family)), expect, "family {family}");
                    }
                    let uevents = [16, 0, 15, 0, 0, 0];
                    assert_eq!(call(row, uevents), errno(row.error));
                }
                Rule::DenySetting { .. } => {
                    let core = libc::RLIMIT_CORE.into();
                    for pointer in [1, 1 << 32, u64::MAX] {
                        let set = |resource| call(row, [0, resource, pointer, 0, 0, 0]);
                        assert_eq!(set(core), errno(row.error), "{pointer:#x}");
                        assert_eq!(set(core + 1), libc::SECCOMP_RET_ALLOW);
                    }
                    let ask = call(row, [0, core, 0, 1, 0, 0]);
                    assert_eq!(ask, libc::SECCOMP_RET_ALLOW);
                }
            }
        }
    }

    #[test]
    fn other_calls_pass_and_foreign_architectures_do_not() {
        let read = libc::SYS_read as u32;
        let i386 = 0x4000_0003;
        assert_eq!(
            verdict(Nesting::Forbidden, read, ARCHITECTURE, [0; 6]),
            libc::SECCOMP_RET_ALLOW
        );
        assert_eq!(
            verdict(Nesting::Forbidden, read, i386, [0; 6]),
            errno(libc::ENOSYS)
        );
        assert_eq!(
            verdict(Nesting::Forbidden, read | X32_BIT, ARCHITECTURE, [0; 6]),
            errno(libc::ENOSYS)
        );
    }

    #[test]
    fn nesting_lifts_namespaces_and_mounts_only() {
        let call =
            |number: libc::c_long| verdict(Nesting::Allowed, number as u32, ARCHITECTURE, [!0; 6]);
        assert_eq!(call(libc::SYS_unshare), libc::SECCOMP_RET_ALLOW);
        assert_eq!(call(libc::SYS_mount), libc::SECCOMP_RET_ALLOW);
        assert_eq!(call(libc::SYS_bpf), errno(libc::EPERM));
        assert_eq!(call(libc::SYS_ptrace), errno(libc::EPERM));
    }

    #[test]
    fn the_program_fits() {
        assert!(assemble(Nesting::Forbidden).len() < 1000);
    }
}
