//! Resolves names with the C library: the host's files, resolver and plugins.

use std::ffi::CString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub enum Looked {
    Found(Vec<IpAddr>),
    NoSuchName,
    Failed,
}

#[cfg(all(target_feature = "crt-static", target_env = "gnu"))]
unsafe extern "C" {
    fn __nss_configure_lookup(
        database: *const libc::c_char,
        sources: *const libc::c_char,
    ) -> libc::c_int;
}

/// Makes a static program look names up in `/etc/hosts` and DNS only. Other sources of `nsswitch.conf` are shared
/// libraries of the host's C library, which a static program cannot load safely.
#[cfg(all(target_feature = "crt-static", target_env = "gnu"))]
pub fn use_built_in_sources() {
    // SAFETY: both strings are static and end with a zero byte. `main` calls this before it starts a thread.
    unsafe { __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr()) };
}

/// A program that is linked dynamically uses every source of `nsswitch.conf`.
#[cfg(not(all(target_feature = "crt-static", target_env = "gnu")))]
pub fn use_built_in_sources() {}

/// Blocks for as long as the host's resolver does.
pub fn look_up(name: &str) -> io::Result<Looked> {
    let name = CString::new(name)?;
    // SAFETY: `addrinfo` is plain data for which zero is a valid value of every field.
    let mut hints: libc::addrinfo = unsafe { std::mem::zeroed() };
    hints.ai_socktype = libc::SOCK_STREAM;
    let mut list: *mut libc::addrinfo = std::ptr::null_mut();
    // SAFETY: the name ends with a zero byte and lives until the call returns, as `hints` does;
    // `list` is written only when the call succeeds.
    let code = unsafe {
        libc::getaddrinfo(
            name.as_ptr(),
            std::ptr::null(),
            &raw const hints,
            &raw mut list,
        )
    };
    match code {
        0 => {}
        libc::EAI_NONAME | libc::EAI_NODATA => return Ok(Looked::NoSuchName),
        _ => return Ok(Looked::Failed),
    }
    let mut found = Vec::new();
    let mut next = list;
    // SAFETY: a successful call returns a list that ends with a null pointer and is ours until it
    // is freed; each entry's family says what its address points to.
    unsafe {
        while let Some(entry) = next.as_ref() {
            let address = match entry.ai_family {
                libc::AF_INET => {
                    let socket = entry.ai_addr.cast::<libc::sockaddr_in>().read_unaligned();
                    let bits = u32::from_be(socket.sin_addr.s_addr);
                    Some(IpAddr::V4(Ipv4Addr::from_bits(bits)))
                }
                libc::AF_INET6 => {
                    let socket = entry.ai_addr.cast::<libc::sockaddr_in6>().read_unaligned();
                    Some(IpAddr::V6(Ipv6Addr::from(socket.sin6_addr.s6_addr)))
                }
                _ => None,
            };
            found.extend(address.filter(|address| !found.contains(address)));
            next = entry.ai_next;
        }
        libc::freeaddrinfo(list);
    }
    Ok(Looked::Found(found))
}
