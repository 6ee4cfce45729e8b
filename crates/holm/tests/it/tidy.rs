//! The house rules that a program can check. Breaking one is a failing test, with the place.

use crate::tidy_arguments::inside;
use holm_core::Code;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const LONGEST_FILE: usize = 600;
const LONGEST_FUNCTION: usize = 80;

const LICENCES: [&str; 9] = [
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

pub fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// Every Rust file of ours, with its text; paths are below the top.
pub fn sources() -> Vec<(String, String)> {
    let top = top();
    let mut found = Vec::new();
    let mut directories = vec![top.join("crates")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path
                    .strip_prefix(&top)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned();
                found.push((name, fs::read_to_string(path).unwrap()));
            }
        }
    }
    assert!(found.len() > 100, "the walk finds our files");
    found
}

pub fn is_test(name: &str) -> bool {
    name.contains("/tests/") || name.ends_with("_tests.rs") || name.ends_with("/tests.rs")
}

/// Without comments.
fn without_comments(text: &str) -> String {
    let lines = text.lines();
    let code = lines.filter(|line| !line.trim_start().starts_with("//"));
    code.collect::<Vec<_>>().join("\n")
}

/// Without comments and tests.
pub fn code_of(text: &str) -> String {
    without_comments(&without_tests(text))
}

/// With empty lines in the place of items for tests, so that the numbers of the other lines stay.
fn without_tests(text: &str) -> String {
    let mut code = String::new();
    let mut end: Option<String> = None;
    let mut is_begun = false;
    for line in text.lines() {
        let word = line.trim_start();
        match &end {
            None if word == "#[cfg(test)]" => {
                end = Some(format!("{}}}", &line[..line.len() - word.len()]));
                is_begun = false;
            }
            None => code.push_str(line),
            Some(_) if !is_begun && word.starts_with("#[") => {}
            Some(closing) => {
                let is_whole = !is_begun && word.ends_with(';');
                is_begun = true;
                if is_whole || line == closing {
                    end = None;
                }
            }
        }
        code.push('\n');
    }
    code
}

#[track_caller]
pub fn none(what: &str, found: Vec<String>) {
    assert!(found.is_empty(), "{what}:\n  {}", found.join("\n  "));
}

/// The names of our crates.
pub fn crates() -> BTreeSet<String> {
    let entries = fs::read_dir(top().join("crates")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[test]
fn every_file_says_what_it_is() {
    let silent = sources()
        .into_iter()
        .filter(|(_, text)| {
            let first = text.lines().next().unwrap_or_default();
            !first.starts_with("//! ") || first.len() < 12
        })
        .map(|(name, _)| name);
    none(
        "files without a `//!` that says what they are",
        silent.collect(),
    );
}

/// `routes!` takes a route only with its description, `.route(` would take it without. MCP is described by
/// its own specification, and the routes of the dashboard's page are for that page alone.
#[test]
fn every_route_is_in_the_document_of_the_api() {
    let found = sources().into_iter().filter(|(name, text)| {
        name.starts_with("crates/holm-server/src/")
            && name != "crates/holm-server/src/mcp.rs"
            && name != "crates/holm-server/src/dashboard/mod.rs"
            && text.contains(".route(")
    });
    let found = found.map(|(name, _)| name);
    none(
        "routes without a description (use `routes!` and `#[utoipa::path]`)",
        found.collect(),
    );
}

#[test]
fn files_and_functions_stay_short() {
    let mut long = Vec::new();
    for (name, text) in sources() {
        let lines = text.lines().count();
        if lines > LONGEST_FILE {
            long.push(format!("{name}: {lines} lines"));
        }
        if !is_test(&name) {
            long.extend(
                long_functions(&without_tests(&text))
                    .into_iter()
                    .map(|found| format!("{name}: {found}")),
            );
        }
    }
    none("too long", long);
}

/// Functions whose closing brace is too far below their beginning.
fn long_functions(code: &str) -> Vec<String> {
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let word = line.trim_start();
        let indent = &line[..line.len() - word.len()];
        let is_function = [
            "fn ",
            "pub fn ",
            "pub(crate) fn ",
            "async fn ",
            "pub async fn ",
            "pub(super) fn ",
            "const fn ",
        ]
        .iter()
        .any(|start| word.starts_with(start));
        if !is_function || word.ends_with(';') {
            continue;
        }
        // A method that a trait only declares has no body.
        let signature = lines[number..]
            .iter()
            .find(|line| line.ends_with('{') || line.ends_with(';'));
        if signature.is_some_and(|line| line.ends_with(';')) {
            continue;
        }
        let end = lines[number..]
            .iter()
            .position(|line| *line == format!("{indent}}}"));
        if let Some(length) = end.filter(|length| *length > LONGEST_FUNCTION) {
            found.push(format!("line {}: {length} lines: {word}", number + 1));
        }
    }
    found
}

#[test]
fn unsafe_code_is_in_one_place() {
    let unsafe_words = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"];
    let outside = sources()
        .into_iter()
        .filter(|(name, _)| {
            !name.starts_with("crates/holm-linux/src/sys/") && !name.ends_with("tidy.rs")
        })
        .filter(|(_, text)| unsafe_words.iter().any(|word| text.contains(word)))
        .map(|(name, _)| name);
    none(
        "unsafe code outside crates/holm-linux/src/sys",
        outside.collect(),
    );
}

#[test]
fn every_unsafe_block_says_which_rule_it_keeps() {
    let mut silent = Vec::new();
    for (name, text) in sources() {
        if !name.starts_with("crates/holm-linux/src/sys/") {
            continue;
        }
        let lines: Vec<&str> = text.lines().collect();
        for (number, _) in lines
            .iter()
            .enumerate()
            .filter(|(_, line)| line.contains("unsafe {"))
        {
            let before = &lines[number.saturating_sub(6)..number];
            if !before
                .iter()
                .any(|line| line.trim_start().starts_with("// SAFETY:"))
            {
                silent.push(format!("{name}:{}", number + 1));
            }
        }
    }
    none("unsafe blocks without their rule", silent);
}

/// `Fault::because` keeps the cause; text in the message would lose it.
#[test]
fn faults_do_not_format_their_cause_into_the_message() {
    let mut found = Vec::new();
    for (name, text) in sources().iter().filter(|(name, _)| !is_test(name)) {
        let code = code_of(text);
        let calls = code.match_indices("Fault::new(");
        let calls = calls.map(|(at, _)| inside(&code[at + "Fault::new".len()..]));
        let messages = code.match_indices("let message =");
        let messages = messages.filter_map(|(at, _)| code[at..].split(";\n").next());
        let formatted = calls.chain(messages).filter(|text| {
            let causes = [
                ": {error}\"",
                ": {cause}\"",
                ": {fault}\"",
                "(error.to_string()",
            ];
            causes.iter().any(|cause| text.contains(cause))
        });
        found.extend(formatted.map(|text| format!("{name}: {text}")));
    }
    none("a message contains the text of its cause", found);
}

#[test]
fn only_one_crate_runs_git_on_the_host() {
    let others = sources()
        .into_iter()
        .filter(|(name, _)| !is_test(name) && !name.starts_with("crates/holm-git/"))
        .filter(|(_, text)| text.contains("Command::new(\"git\")"))
        .map(|(name, _)| name);
    none("git is run outside holm-git", others.collect());
}

#[test]
fn the_core_does_not_touch_the_world() {
    let forbidden = [
        "std::fs",
        "TcpStream",
        "TcpListener",
        "UdpSocket",
        "std::process",
        "std::time::SystemTime",
        "serde_json",
        "tokio",
        "async fn",
    ];
    let mut found = Vec::new();
    for (name, text) in sources() {
        if !name.starts_with("crates/holm-core/src/") {
            continue;
        }
        let code = without_comments(&text);
        found.extend(
            forbidden
                .iter()
                .filter(|word| code.contains(**word))
                .map(|word| format!("{name}: {word}")),
        );
    }
    none("holm-core decides and does not act", found);
}

#[test]
fn nothing_is_left_open() {
    let words = [
        "todo!(",
        "unimplemented!(",
        "FIXME",
        "XXX",
        "HACK",
        "#[ignore",
    ];
    let mut found = Vec::new();
    for (name, text) in sources()
        .into_iter()
        .filter(|(name, _)| !name.ends_with("tidy.rs"))
    {
        found.extend(
            words
                .iter()
                .filter(|word| text.contains(**word))
                .map(|word| format!("{name}: {word}")),
        );
    }
    for entry in fs::read_dir(top().join("docs")).unwrap() {
        let path = entry.unwrap().path();
        let has_conflict = |text: String| text.lines().any(|line| line.starts_with("<<<<<<< "));
        // Directories and pictures have no text.
        if fs::read_to_string(&path).is_ok_and(has_conflict) {
            found.push(format!("{}: a conflict of a merge", path.display()));
        }
    }
    none("left open", found);
}

#[test]
fn tests_wait_for_conditions_not_for_time() {
    let sleepers = sources()
        .into_iter()
        .filter(|(name, text)| {
            is_test(name) && !name.ends_with("tidy.rs") && text.contains("thread::sleep(")
        })
        .map(|(name, _)| name);
    none("sleeping tests", sleepers.collect());
}

#[test]
fn the_list_of_attacks_has_every_test_and_every_test_a_row() {
    let list = fs::read_to_string(top().join("docs/attacks.md")).unwrap();
    let mut rows = BTreeSet::new();
    for line in list.lines().filter_map(|line| line.strip_prefix("| ")) {
        let first = line.split('|').next().unwrap_or_default();
        rows.extend(
            first
                .split(',')
                .filter_map(|n| n.trim().parse::<u32>().ok()),
        );
    }
    let mut tested = BTreeSet::new();
    for (name, text) in sources() {
        if is_test(&name) {
            tested.extend(text.lines().flat_map(attack_numbers));
        }
    }
    let list = |numbers: Vec<&u32>| numbers.iter().map(ToString::to_string).collect();
    none(
        "tests of attacks that docs/attacks.md does not list",
        list(tested.difference(&rows).collect()),
    );
    none(
        "attacks of docs/attacks.md without a test",
        list(rows.difference(&tested).collect()),
    );
}

/// The numbers in the name of a test: 13 and 14 of `fn attacks_13_and_14_…`.
fn attack_numbers(line: &str) -> Vec<u32> {
    let Some((_, name)) = line.split_once("fn ") else {
        return Vec::new();
    };
    let Some((_, numbers)) = name.split_once("attack") else {
        return Vec::new();
    };
    numbers
        .split(['_', '('])
        .skip(1)
        .map_while(|word| match word {
            "and" | "to" => Some(None),
            _ => word.parse().ok().map(Some),
        })
        .flatten()
        .collect()
}

#[test]
fn a_test_that_needs_root_asks_the_function_that_records_the_skip() {
    let silent = sources().into_iter().filter(|(name, text)| {
        name.contains("/tests/it/")
            && !name.ends_with("support/user.rs")
            && text.contains(&["get", "euid"].concat())
    });
    none(
        "tests that look for root themselves, instead of `support::is_root`",
        silent.map(|(name, _)| name).collect(),
    );
}

#[test]
fn every_test_file_is_listed() {
    let mut unlisted = Vec::new();
    for name in crates() {
        let directory = top().join("crates").join(name).join("tests/it");
        let Ok(entries) = fs::read_dir(&directory) else {
            continue;
        };
        let listed = fs::read_to_string(directory.join("main.rs")).unwrap();
        for entry in entries {
            let path = entry.unwrap().path();
            let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
            if module != "main" && !listed.contains(&format!("mod {module};")) {
                unlisted.push(path.display().to_string());
            }
        }
    }
    none("test files that never run", unlisted);
}

#[test]
fn the_list_of_errors_is_fresh() {
    let mut text = String::from(
        "# Errors\n\nWhat does an error code mean?\n\nEvery error has a code that does not change, a message, and a hint that names the next \
         command.\nWith `--json` it is `{\"error\":{\"code\",\"message\",\"hint\"}}` on stderr. This list is \
         generated.\n\n| code | exit | HTTP | when |\n| --- | --- | --- | --- |\n",
    );
    for code in Code::ALL {
        let kind = code.kind();
        text += &format!(
            "| `{code}` | {} | {} | {} |\n",
            kind.exit_code(),
            kind.http_status(),
            code.doc()
        );
    }
    let path = top().join("docs/errors.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let written = fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == text,
        "docs/errors.md is stale: UPDATE_DOCS=1 cargo nextest run -p holm tidy"
    );
}

#[test]
fn dependencies_have_known_licences_and_one_source() {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--format-version",
            "1",
            "--offline",
            "--locked",
            "--filter-platform",
            "x86_64-unknown-linux-gnu",
        ])
        .current_dir(top())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut strange = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let licence = package["license"].as_str().unwrap_or("none");
        if !is_allowed(licence) {
            strange.insert(name.to_owned(), licence.to_owned());
        }
        let source = package["source"].as_str().unwrap_or("registry+ours");
        assert!(
            source.starts_with("registry+"),
            "{name} comes from {source}"
        );
    }
    assert!(strange.is_empty(), "{strange:?}");
}

#[test]
fn on_other_systems_the_program_needs_nothing() {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let arguments = [
        "tree",
        "-p",
        "holm",
        "-e",
        "normal",
        "--offline",
        "--locked",
        "--prefix",
        "none",
    ];
    // Windows would need crates of the dev-dependencies that are not on every machine.
    let output = Command::new(&cargo)
        .args(arguments)
        .args(["--target", "x86_64-apple-darwin"])
        .current_dir(top())
        .output()
        .unwrap();
    let tree = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        tree.lines().count(),
        1,
        "{tree}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// One of the alternatives must be known, with all its parts.
fn is_allowed(licence: &str) -> bool {
    let licence = licence.replace('/', " OR ").replace(['(', ')'], "");
    licence.split(" OR ").any(|choice| {
        choice
            .split(" AND ")
            .all(|part| LICENCES.contains(&part.trim()))
    })
}
