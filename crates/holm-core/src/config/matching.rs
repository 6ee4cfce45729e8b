//! Matches a path of the tree against a [`Pattern`]: from the root, `*` and `?` within a name,
//! `[…]` for one of several characters, `**` for any number of names; a directory matches
//! everything in it.

use super::Pattern;

// === impl Pattern ===

impl Pattern {
    pub fn matches(&self, path: &str) -> bool {
        let pattern: Vec<&str> = self.as_str().split('/').collect();
        let path: Vec<&str> = path.split('/').collect();
        names_match(&pattern, &path)
    }
}

fn names_match(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern.split_first(), path.split_first()) {
        // The path is below a directory that matched.
        (None, _) => true,
        (Some((&"**", rest)), _) => {
            let begins = 0..=path.len();
            let mut begins = begins.filter(|begin| !rest.is_empty() || *begin < path.len());
            begins.any(|begin| names_match(rest, &path[begin..]))
        }
        (Some(_), None) => false,
        (Some((name, pattern)), Some((found, path))) => {
            let (name, found): (Vec<char>, Vec<char>) =
                (name.chars().collect(), found.chars().collect());
            name_matches(&name, &found) && names_match(pattern, path)
        }
    }
}

/// Matches one name, with backtracking to the last `*`.
fn name_matches(pattern: &[char], name: &[char]) -> bool {
    let (mut at, mut found) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while found < name.len() {
        let step = match pattern.get(at) {
            Some('*') => {
                star = Some((at, found));
                at += 1;
                continue;
            }
            Some('?') => Some(1),
            Some('[') => class(&pattern[at..], name[found]),
            Some('\\') if pattern.get(at + 1) == Some(&name[found]) => Some(2),
            Some(character) if *character == name[found] => Some(1),
            _ => None,
        };
        match (step, star) {
            (Some(step), _) => {
                at += step;
                found += 1;
            }
            (None, Some((star_at, from))) => {
                star = Some((star_at, from + 1));
                at = star_at + 1;
                found = from + 1;
            }
            (None, None) => return false,
        }
    }
    pattern[at.min(pattern.len())..].iter().all(|c| *c == '*')
}

/// The length of a `[…]` if the character is in it; an unclosed bracket is literal.
fn class(pattern: &[char], character: char) -> Option<usize> {
    let is_negated = matches!(pattern.get(1), Some('!' | '^'));
    let begin = if is_negated { 2 } else { 1 };
    // A `]` in first position is one of the characters.
    let end = pattern.iter().skip(begin + 1).position(|c| *c == ']');
    let Some(end) = end.map(|end| end + begin + 1) else {
        return (character == '[').then_some(1);
    };
    let members = &pattern[begin..end];
    let mut is_member = false;
    let mut at = 0;
    while at < members.len() {
        if members.get(at + 1) == Some(&'-') && at + 2 < members.len() {
            is_member |= (members[at]..=members[at + 2]).contains(&character);
            at += 3;
        } else {
            is_member |= members[at] == character;
            at += 1;
        }
    }
    (is_member != is_negated).then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_patterns() {
        let check = |pattern: &str, path: &str, expect: bool| {
            let found = Pattern::parse(pattern).unwrap().matches(path);
            assert_eq!(found, expect, "{pattern} {path}");
        };
        check("package.json", "package.json", true);
        check("package.json", "web/package.json", false);
        check("*.json", "package.json", true);
        check("*.json", "a/package.json", false);
        check("migrations", "migrations/1/up.sql", true);
        check("migrations", "migrations2/up.sql", false);
        check("src/**", "src/a/b", true);
        check("src/**", "src", false);
        check("**/go.mod", "go.mod", true);
        check("**/go.mod", "a/b/go.mod", true);
        check("**/go.mod", "a/b/go.mod2", false);
        check("a/**/z", "a/z", true);
        check("a/**/z", "a/b/c/z/deep", true);
        check("a?c", "abc", true);
        check("a?c", "ac", false);
        check("a*c*e", "abcde", true);
        check("a*c*e", "abcdf", false);
        check("[a-c]x", "bx", true);
        check("[!a-c]x", "bx", false);
        check("app/[id]", "app/i", true);
        check("a[", "a[", true);
        check("[]]x", "]x", true);
        check("*", "größe", true);
    }
}
