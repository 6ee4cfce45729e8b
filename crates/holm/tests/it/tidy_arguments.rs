//! Arguments that do not belong together are not packed into a tuple.

use super::tidy::{code_of, is_test, none, sources};

/// The functions that take a tuple apart, and why its parts are one thing.
const ONE_THING: [(&str, &str, &str); 11] = [
    (
        "holm-linux/src/cgroup/mod.rs",
        "(uid, gid)",
        "the ids of one user",
    ),
    (
        "holm-linux/src/driver/freeze.rs",
        "(path, stat)",
        "a path and what is there",
    ),
    (
        "holm-linux/src/driver/freeze.rs",
        "(left_parent, left)",
        "a file: its directory and its metadata",
    ),
    (
        "holm-linux/src/driver/freeze.rs",
        "(right_parent, right)",
        "a file: its directory and its metadata",
    ),
    (
        "holm-linux/src/mover/copy.rs",
        "(from, name)",
        "a name in an open directory",
    ),
    (
        "holm-linux/src/mover/copy.rs",
        "(to, copy)",
        "a name in an open directory",
    ),
    (
        "holm-linux/src/mover/paths.rs",
        "(descriptor, address)",
        "a path, as the kernel's `*at` calls take it",
    ),
    (
        "holm-proxy/src/gateway/placeholders/serve.rs",
        "(inside, outside)",
        "both sides of a connection",
    ),
    (
        "holm-server/src/routes/task/hosting.rs",
        "(host_port, bound)",
        "a port and its listener",
    ),
    (
        "holm/src/cli/trust.rs",
        "(check, report)",
        "a question and its answer",
    ),
    (
        "holm/src/cli/trust_question.rs",
        "(check, report)",
        "a question and its answer",
    ),
];

#[test]
fn arguments_are_not_packed_into_tuples() {
    let mut allowed = ONE_THING.to_vec();
    let mut packed = Vec::new();
    for (file, text) in sources() {
        if is_test(&file) || !file.contains("/src/") {
            continue;
        }
        for tuple in tuple_parameters(&code_of(&text)) {
            let is_known = |(place, parts, _): &(&str, &str, &str)| {
                file.strip_prefix("crates/") == Some(*place) && tuple == *parts
            };
            match allowed.iter().position(is_known) {
                Some(at) => drop(allowed.swap_remove(at)),
                None => packed.push(format!("{file}: {tuple}")),
            }
        }
    }
    none(
        "arguments in a tuple (use a struct, or split the function)",
        packed,
    );
    let gone = allowed
        .iter()
        .map(|(file, tuple, _)| format!("{file}: {tuple}"));
    none(
        "tuples that are gone: take them off ONE_THING",
        gone.collect(),
    );
}

/// The patterns such as `(a, b)` among the parameters of functions.
fn tuple_parameters(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let Some(begin) = code[at..].find(['(', '<']) else {
            continue;
        };
        let list = inside(without_generics(&code[at + begin..]));
        let mut depth = 0;
        for (start, letter) in list.char_indices() {
            let is_parameter = depth == 0 && list[..start].trim_end().ends_with([',', '(']);
            if letter == '(' && (is_parameter || list[..start].trim().is_empty()) {
                let parts: Vec<&str> = inside(&list[start..]).split(',').collect();
                let parts = parts
                    .iter()
                    .map(|part| part.trim().trim_start_matches("mut "));
                let parts = parts.filter(|part| !part.is_empty());
                found.push(format!("({})", parts.collect::<Vec<_>>().join(", ")));
            }
            match letter {
                '(' | '[' | '<' => depth += 1,
                ')' | ']' => depth -= 1,
                '>' if !list[..start].ends_with('-') => depth -= 1,
                _ => {}
            }
        }
    }
    found
}

fn without_generics(text: &str) -> &str {
    let mut depth = 0;
    for (at, letter) in text.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' if !text[..at].ends_with('-') => depth -= 1,
            _ if depth == 0 => return &text[at..],
            _ => {}
        }
    }
    ""
}

/// The text between a `(` at the beginning and its `)`; nothing without one.
pub fn inside(text: &str) -> &str {
    let mut depth = 0;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return text.get(1..at).unwrap_or_default();
        }
    }
    ""
}

#[test]
fn tuples_are_found() {
    let check = |code: &str, expect: &[&str]| assert_eq!(tuple_parameters(code), expect, "{code}");
    check(
        "fn a(b: (u8, u8), c: impl Fn((u8, u8)) -> (u8, u8)) {}",
        &[],
    );
    check("fn a((b, c): (u8, u8)) {}", &["(b, c)"]);
    check(
        "fn a<T: Fn()>(\n    &self,\n    (b, mut c): (u8, u8),\n) {}",
        &["(b, c)"],
    );
    check("fn a(b: Vec<u8>, (c, d): B) { e((1, 2)) }", &["(c, d)"]);
    check("fn a(RunKey(b, c): RunKey) {}", &[]);
}
