//! The units of `/proc`: clock ticks and pages.

/// How many ticks of `/proc/<pid>/stat` are a second.
pub fn ticks_per_second() -> u64 {
    configured(libc::_SC_CLK_TCK, 100)
}

/// How many bytes are a page.
pub fn page_size() -> u64 {
    configured(libc::_SC_PAGESIZE, 4096)
}

fn configured(name: libc::c_int, usual: u64) -> u64 {
    // SAFETY: no pointers; a name that the C library does not know is answered with -1.
    let value = unsafe { libc::sysconf(name) };
    u64::try_from(value)
        .ok()
        .filter(|value| *value > 0)
        .unwrap_or(usual)
}
