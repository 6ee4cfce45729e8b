//! The C library's allocator in long-lived processes of which a machine has many.

/// One heap for all threads. By default each thread that allocates gets a heap of its own, which keeps its pages.
pub fn one_heap() {
    // SAFETY: numbers only. `main` calls this before it starts a thread.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}
