//! The units of `/proc`: clock ticks and pages. The processor time of a process, which needs no file.

use std::time::Duration;

/// How many ticks of `/proc/<pid>/stat` are a second.
pub fn ticks_per_second() -> u64 {
    configured(libc::_SC_CLK_TCK, 100)
}

/// How many bytes are a page.
pub fn page_size() -> u64 {
    configured(libc::_SC_PAGESIZE, 4096)
}

/// The processor time that all threads of a process have used, to the nanosecond; `None`: there is no such process.
/// A process that ran in between has used more, however briefly it ran.
pub fn processor_time(pid: i32) -> Option<Duration> {
    // `clock_getcpuclockid` makes the number of the clock in the same way.
    let clock = (!pid << 3) | 2;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one `timespec`, which lives until the call returns.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let nanoseconds = u32::try_from(time.tv_nsec).ok()?;
    (result == 0).then(|| Duration::new(seconds, nanoseconds))
}

fn configured(name: libc::c_int, usual: u64) -> u64 {
    // SAFETY: no pointers; a name that the C library does not know is answered with -1.
    let value = unsafe { libc::sysconf(name) };
    u64::try_from(value)
        .ok()
        .filter(|value| *value > 0)
        .unwrap_or(usual)
}
