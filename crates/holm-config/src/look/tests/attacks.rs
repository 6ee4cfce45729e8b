//! Hostile checkouts: symlinks out of the repository, endless files, documents that grow when they
//! are parsed, texts that try to become lines of the file. (attacks.md 185)

use super::proposed;
use crate::look::format::parse;
use crate::look::{LARGEST_FILE, look, read};
use crate::project;
use holm_core::detect::{self, Content, Form};
use std::os::unix::fs::symlink;
use tempfile::TempDir;

fn unusable(content: &Content) -> &str {
    match content {
        Content::Unusable(why) => why,
        other => panic!("it was used: {other:?}"),
    }
}

#[test]
fn links_lead_nowhere() {
    let outside = TempDir::new().unwrap();
    let manifest = r#"{"scripts":{"dev":"canary"}}"#;
    std::fs::write(outside.path().join("package.json"), manifest).unwrap();
    std::fs::write(outside.path().join("Procfile"), "web: canary").unwrap();
    let inside = TempDir::new().unwrap();
    symlink(
        outside.path().join("package.json"),
        inside.path().join("package.json"),
    )
    .unwrap();
    symlink(outside.path(), inside.path().join("apps")).unwrap();
    let found = look(inside.path()).unwrap();
    assert!(
        found.listing.is_empty() && found.contents.is_empty(),
        "{found:?}"
    );
    // A naive reader would have followed the symlink.
    let naive = std::fs::read_to_string(inside.path().join("apps/Procfile"));
    assert!(naive.unwrap().contains("canary"));
}

#[test]
fn a_link_that_comes_after_the_listing_leads_nowhere_either() {
    let outside = TempDir::new().unwrap();
    std::fs::write(outside.path().join("Procfile"), "web: canary").unwrap();
    let inside = TempDir::new().unwrap();
    symlink(outside.path(), inside.path().join("apps")).unwrap();
    symlink(
        outside.path().join("Procfile"),
        inside.path().join("Procfile"),
    )
    .unwrap();
    let root = std::fs::File::open(inside.path()).unwrap();
    for path in ["Procfile", "apps/Procfile", "../Procfile", "/etc/passwd"] {
        let why = read(&root, path).unwrap_err();
        assert!(why.starts_with("it cannot be opened"), "{path}: {why}");
    }
}

#[test]
fn files_that_never_end_and_files_that_are_too_large() {
    let inside = TempDir::new().unwrap();
    let pipe = inside.path().join("Procfile");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let large = std::fs::File::create(inside.path().join("package.json")).unwrap();
    large.set_len(LARGEST_FILE + 1).unwrap();
    std::fs::write(inside.path().join("compose.yaml"), b"\xff\xfe").unwrap();
    // A pipe is not listed; opening it would block forever.
    let found = look(inside.path()).unwrap();
    assert!(!found.contents.contains_key("Procfile"));
    let root = std::fs::File::open(inside.path()).unwrap();
    assert_eq!(
        read(&root, "Procfile").unwrap_err(),
        "it is not an ordinary file"
    );
    assert_eq!(
        unusable(&found.contents["package.json"]),
        "it is larger than 512 KiB"
    );
    // The user is told.
    let text = proposed(inside.path()).0.to_toml();
    assert!(
        text.contains("# - compose.yaml:1:1: the file is not UTF-8 text"),
        "{text}"
    );
    assert!(
        text.contains("# - package.json was not used: it is larger than 512 KiB"),
        "{text}"
    );
}

/// Nine lists of nine aliases each: 9⁹ values out of a few hundred bytes.
fn bomb(levels: usize) -> String {
    let mut text = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
    for level in 1..levels {
        let before = format!("*a{},", level - 1).repeat(9);
        text += &format!("a{level}: &a{level} [{}]\n", before.trim_end_matches(','));
    }
    text
}

#[test]
fn documents_that_grow_when_they_are_read() {
    unusable(&parse(&bomb(9), Form::Yaml));
    unusable(&parse(&"[".repeat(100_000), Form::Yaml));
    unusable(&parse(&"{a: ".repeat(100_000), Form::Yaml));
    unusable(&parse(&"- ".repeat(100_000), Form::Yaml));
    unusable(&parse(&"x: 1\n---\n".repeat(1000), Form::Yaml));
    unusable(&parse(&"- a\n".repeat(100_000), Form::Yaml));
    unusable(&parse(&"[".repeat(100_000), Form::Json));
    unusable(&parse(&format!("a = {}", "[".repeat(100_000)), Form::Toml));
    // Aliases themselves are allowed; a smaller bomb shows what the limits prevent.
    assert!(matches!(
        parse("a: &a [x]\nb: *a\n", Form::Yaml),
        Content::Document(_)
    ));
    let size = |levels: usize| {
        let content = parse(&bomb(levels), Form::Yaml);
        let Content::Document(document) = content else {
            panic!("{content:?}")
        };
        format!("{document:?}").len()
    };
    assert!(size(3) > 5 * size(2));
}

#[test]
fn texts_do_not_become_lines() {
    let compose = r#"{"services":{"a\n[limits]\nmemory=\"1B\"":{"image":"x\n[egress]\nmode = \"none\"","environment":{"A":"\n[shared.x]\naddress=\"127.0.0.1:1\"","B\n[agents.x]":"y"},"depends_on":["b\n[caches]"]},"db":{"image":"postgres\n[secrets.X]","build":"\r[nested]"}}}"#;
    let manifest =
        r#"{"scripts":{"dev":"vite\n[shared.evil]\naddress = \"127.0.0.1:6379\"\u001b[2J"}}"#;
    let inside = TempDir::new().unwrap();
    std::fs::write(inside.path().join("compose.yaml"), compose).unwrap();
    std::fs::write(inside.path().join("package.json"), manifest).unwrap();
    let (proposal, config) = proposed(inside.path());
    let text = proposal.to_toml();
    assert!(config.shared.is_empty() && config.agents.is_empty() && config.secrets.is_empty());
    assert_eq!(config.limits, Default::default());
    assert_eq!(config.egress, Default::default());
    assert!(!text.contains('\u{1b}') && !text.contains('\r'), "{text}");
    // The texts are there: unescaped, they would have been lines.
    assert!(
        text.contains("[shared.evil]") && text.contains("[limits]"),
        "{text}"
    );
    // A file that holm takes, with values that become settings.
    let compose = r#"{"services":{"db":{"image":"postgres","environment":{"POSTGRES_USER":"a\"\n[nested]\n"},"volumes":["/x\n[egress]\nmode = \"none\":/y"]}}}"#;
    let manifest = r#"{"scripts":{"dev":"vite"},"dependencies":{"pg":"8"}}"#;
    std::fs::write(inside.path().join("compose.yaml"), compose).unwrap();
    std::fs::write(inside.path().join("package.json"), manifest).unwrap();
    let (proposal, config) = proposed(inside.path());
    let text = proposal.to_toml();
    assert_eq!(config.project.compose, ["compose.yaml"]);
    assert_eq!(config.egress, Default::default());
    assert!(text.contains("[egress]"), "{text}");
    assert!(text.contains("%0A%5Bnested%5D%0A"), "{text}");
}

#[test]
fn a_repository_with_too_much_in_it() {
    let inside = TempDir::new().unwrap();
    for directory in 0..300 {
        let path = inside.path().join(format!("d{directory:03}"));
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("package.json"), r#"{"scripts":{"dev":"vite"}}"#).unwrap();
    }
    let found = look(inside.path()).unwrap();
    assert!(found.contents.len() <= 200, "{}", found.contents.len());
    let proposal = detect::propose(&found);
    assert!((1..=20).contains(&proposal.services.len()));
    project::parse(&proposal.to_toml(), "holm.toml").unwrap();
}
