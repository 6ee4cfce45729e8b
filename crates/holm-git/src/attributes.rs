//! Reads `.gitattributes` and `.gitmodules` at a commit's root for LFS and submodules. Pure
//! functions over bytes, so that the caller fetches all files it needs with one
//! [`files_at`](crate::Repository::files_at).

/// The patterns of a `.gitattributes` whose files are LFS pointers.
pub fn lfs_patterns(gitattributes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(gitattributes);
    let mut patterns = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('#') || line.starts_with("[attr]") {
            continue;
        }
        let (pattern, attributes) = split_pattern(line);
        if attributes
            .split_whitespace()
            .any(|word| word == "filter=lfs")
        {
            patterns.push(pattern);
        }
    }
    patterns
}

/// Whether any file of the commit is an LFS pointer, as its root `.gitattributes` says.
pub fn uses_lfs(gitattributes: &[u8]) -> bool {
    !lfs_patterns(gitattributes).is_empty()
}

/// The paths of the submodules that a `.gitmodules` names.
pub fn submodule_paths(gitmodules: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(gitmodules);
    let mut paths = Vec::new();
    let mut in_submodule = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            in_submodule = line.starts_with("[submodule ");
        } else if in_submodule
            && let Some((key, value)) = line.split_once('=')
            && key.trim().eq_ignore_ascii_case("path")
        {
            paths.push(unquoted(value.trim()));
        }
    }
    paths
}

/// A pattern may be in double quotes, to hold spaces.
fn split_pattern(line: &str) -> (String, &str) {
    if let Some(rest) = line.strip_prefix('"')
        && let Some(end) = rest.find('"')
    {
        return (rest[..end].to_owned(), &rest[end + 1..]);
    }
    match line.split_once(char::is_whitespace) {
        Some((pattern, attributes)) => (pattern.to_owned(), attributes),
        None => (line.to_owned(), ""),
    }
}

fn unquoted(value: &str) -> String {
    let mut plain = String::new();
    let mut characters = value.chars();
    let mut quoted = false;
    while let Some(character) = characters.next() {
        match character {
            '"' => quoted = !quoted,
            '\\' => plain.extend(characters.next()),
            '#' | ';' if !quoted => break,
            other => plain.push(other),
        }
    }
    plain.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lfs_is_seen_in_attributes() {
        let file =
            b"*.txt text\n*.bin filter=lfs diff=lfs -text\n\"a b/*\" filter=lfs\n# x filter=lfs\n";
        assert_eq!(lfs_patterns(file), ["*.bin", "a b/*"]);
        assert!(uses_lfs(file));
        assert!(!uses_lfs(b"*.bin filter=other\n*.lfs text\n"));
    }

    #[test]
    fn submodules_are_seen() {
        let file = b"[submodule \"x\"]\n\tpath = lib/x\n\turl = https://example.org/x\n[submodule \"y\"]\n\tpath=\"a \\\"b\" ; c\n[other]\n\tpath = no\n";
        assert_eq!(submodule_paths(file), ["lib/x", "a \"b"]);
    }
}
