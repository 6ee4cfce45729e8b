//! Parses the kernel's list of mount points. Called by the launcher, which shows directories of the
//! host, and by the mover, which must not move mount points.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The mount points in a `mountinfo`.
pub fn points(table: &[u8]) -> impl Iterator<Item = PathBuf> {
    table
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(unescape)
}

/// The kernel writes blanks, line ends and backslashes in paths as three octal digits.
fn unescape(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = after
            .get(..3)
            .and_then(|digits| str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match (first, escaped) {
            (b'\\', Some(byte)) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_mountinfo_are_read_as_the_kernel_writes_them() {
        let check = |text: &[u8], expect: &[u8]| {
            assert_eq!(unescape(text).into_os_string().into_vec(), expect);
        };
        check(b"/plain", b"/plain");
        check(b"/a\\040b\\012c\\134d", b"/a b\nc\\d");
        check(b"/\xff\\040", b"/\xff ");
        check(b"/not\\09x\\0", b"/not\\09x\\0");
    }

    #[test]
    fn the_mount_points_of_this_process_are_found() {
        let table = std::fs::read("/proc/self/mountinfo").unwrap();
        let found: Vec<PathBuf> = points(&table).collect();
        assert!(found.contains(&PathBuf::from("/")), "{found:?}");
        assert!(found.contains(&PathBuf::from("/proc")), "{found:?}");
    }
}
