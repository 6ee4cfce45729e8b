//! The version of a git program, and the oldest one that holm supports.

/// The oldest supported git; it introduced `rev-parse --path-format`.
pub const MINIMUM_VERSION: Version = Version(2, 31);

/// Major and minor version of a git program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32);

// === impl Version ===

impl Version {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let number = text.trim().strip_prefix("git version ")?;
        let mut parts = number.split(|c: char| !c.is_ascii_digit());
        Some(Self(
            parts.next()?.parse().ok()?,
            parts.next()?.parse().ok()?,
        ))
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_vendors_print_them() {
        let check = |text: &str, expect: Option<Version>| {
            assert_eq!(Version::parse(text), expect, "{text}");
        };
        check("git version 2.47.3\n", Some(Version(2, 47)));
        check("git version 2.39.5 (Apple Git-154)", Some(Version(2, 39)));
        check("git version 3.0-rc1", Some(Version(3, 0)));
        check("git version", None);
        check("", None);
    }
}
