//! Operations on odd trees: names, symlinks, pipes, depth.

use super::{Root, archive, search, serve};
use holm_core::TreePath;
use holm_core::files::{
    Depth, Failure, Found, Head, Kind, Operation, Page, Parents, Range, Request, Search, Syntax,
    Write,
};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const WHOLE: Range = Range {
    offset: 0,
    length: None,
};

fn tree() -> (TempDir, Root) {
    let place = tempfile::tempdir().unwrap();
    let root = Root::open(&place.path().canonicalize().unwrap()).unwrap();
    (place, root)
}

pub fn path(text: impl AsRef<[u8]>) -> TreePath {
    TreePath::parse(text.as_ref()).unwrap()
}

pub fn content(root: &Root, at: &TreePath, range: Range) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    root.read(at, range)?.copy(&mut bytes).unwrap();
    Ok(bytes)
}

pub fn write(root: &Root, at: &TreePath, bytes: &[u8], parents: Parents) -> Result<(), Failure> {
    let write = Write {
        length: bytes.len() as u64,
        mode: None,
        parents,
    };
    root.write(at, write, &mut &*bytes).map(drop)
}

pub fn names(root: &Root, at: &TreePath, after: Option<&[u8]>, limit: usize) -> Vec<Vec<u8>> {
    let after = after.map(<[u8]>::to_vec);
    match root.list(at, &Page { after, limit }) {
        Ok(Head::Listed { entries, .. }) => entries.into_iter().map(|entry| entry.name).collect(),
        other => panic!("{other:?}"),
    }
}

pub fn found(root: &Root, at: &TreePath, pattern: &str, syntax: Syntax) -> Result<Found, Failure> {
    let pattern = pattern.to_owned();
    let limit = 10;
    let wanted = Search {
        pattern,
        syntax,
        limit,
    };
    search::search(root, at, &wanted)
}

#[test]
fn odd_names_are_listed_read_written_and_deleted_exactly_attack_25() {
    let (place, root) = tree();
    let long = vec![b'n'; 255];
    let odd: [&[u8]; 8] = [
        b"-rf",
        b"a\nb",
        b"a\x1b[2J",
        b"caf\xe9",
        "caf\u{e9}".as_bytes(),
        "cafe\u{301}".as_bytes(),
        b"dot. ",
        &long,
    ];
    for name in odd {
        write(&root, &path(name), name, Parents::Require).unwrap();
    }
    let mut expect: Vec<Vec<u8>> = odd.iter().map(|name| name.to_vec()).collect();
    expect.sort();
    assert_eq!(names(&root, &TreePath::root(), None, 100), expect);
    // Page by page the result is the same.
    let (mut paged, mut after) = (Vec::new(), None);
    loop {
        let page = names(&root, &TreePath::root(), after.as_deref(), 3);
        let Some(last) = page.last() else { break };
        after = Some(last.clone());
        paged.extend(page);
    }
    assert_eq!(paged, expect);
    for name in odd {
        assert_eq!(content(&root, &path(name), WHOLE).unwrap(), name);
        root.delete(&path(name), Depth::One).unwrap();
        assert!(!place.path().join(OsStr::from_bytes(name)).exists());
    }
    let too_long = path(vec![b'n'; 256]);
    let refused = write(&root, &too_long, b"", Parents::Require);
    assert_eq!(refused, Err(Failure::NameTooLong));
}

#[test]
fn links_are_seen_and_never_followed_attack_9() {
    let (place, root) = tree();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("kept"), "canary").unwrap();
    symlink(outside.path(), place.path().join("out")).unwrap();
    symlink(outside.path().join("kept"), place.path().join("file")).unwrap();
    symlink("/proc/self/mem", place.path().join("mem")).unwrap();
    let entry = root.stat(&path("file")).unwrap();
    let target = outside.path().join("kept");
    assert_eq!(entry.kind, Kind::Link);
    assert_eq!(entry.target.unwrap(), target.as_os_str().as_bytes());
    for at in ["file", "out/kept", "mem"].map(path) {
        assert_eq!(content(&root, &at, WHOLE), Err(Failure::Link));
        let refused = write(&root, &at, b"changed", Parents::Require);
        assert_eq!(refused, Err(Failure::Link), "{at}");
    }
    let made = write(&root, &path("out/made/x"), b"", Parents::Make);
    assert!(made.is_err());
    let page = Page {
        after: None,
        limit: 9,
    };
    assert!(matches!(root.list(&path("out"), &page), Err(Failure::Link)));
    assert_eq!(
        root.delete(&path("out/kept"), Depth::Whole),
        Err(Failure::Link)
    );
    let none = found(&root, &TreePath::root(), "canary", Syntax::Literal).unwrap();
    assert!(none.matches.is_empty(), "{none:?}");
    root.delete(&path("out"), Depth::Whole).unwrap();
    root.delete(&path("file"), Depth::One).unwrap();
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(fs::read(target).unwrap(), b"canary");
}

#[test]
fn pipes_and_sockets_are_refused_at_once_attack_12() {
    let (place, root) = tree();
    let fifo = place.path().join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let _socket = UnixListener::bind(place.path().join("socket")).unwrap();
    for name in ["fifo", "socket"] {
        let at = path(name);
        assert_eq!(content(&root, &at, WHOLE), Err(Failure::Special));
        let refused = write(&root, &at, b"x", Parents::Require);
        assert_eq!(refused, Err(Failure::Special));
        assert_eq!(root.stat(&at).unwrap().kind, Kind::Other);
    }
    found(&root, &TreePath::root(), "x", Syntax::Literal).unwrap();
    let mut packed = Vec::new();
    archive::pack(&root, &TreePath::root(), &mut packed).unwrap();
    assert_eq!(tar_entries(&packed), 0);
    root.delete(&path("fifo"), Depth::One).unwrap();
    assert!(!fifo.exists());
}

fn tar_entries(bytes: &[u8]) -> usize {
    tar::Archive::new(bytes).entries().unwrap().count()
}

#[test]
fn a_file_is_read_in_parts_and_replaced_in_one_step() {
    let (place, root) = tree();
    let at = path("run");
    fs::write(place.path().join("run"), "0123456789").unwrap();
    fs::set_permissions(place.path().join("run"), fs::Permissions::from_mode(0o751)).unwrap();
    let part = |offset, length| content(&root, &at, Range { offset, length }).unwrap();
    assert_eq!(part(3, Some(4)), b"3456");
    assert_eq!(part(8, Some(100)), b"89");
    assert_eq!(part(10, None), b"");
    assert_eq!(part(u64::MAX, Some(u64::MAX)), b"");
    // A reader that has the old file open keeps it.
    let mut old = root.read(&at, WHOLE).unwrap();
    write(&root, &at, b"new", Parents::Require).unwrap();
    let mut kept = Vec::new();
    std::mem::replace(&mut old, root.read(&at, WHOLE).unwrap())
        .copy(&mut kept)
        .unwrap();
    assert_eq!(kept, b"0123456789");
    let entry = root.stat(&at).unwrap();
    assert_eq!((entry.mode, entry.size), (0o751, 3));
    let given = Write {
        length: 1,
        mode: Some(0o600),
        parents: Parents::Require,
    };
    assert_eq!(root.write(&at, given, &mut &b"x"[..]).unwrap().mode, 0o600);
    // Incomplete content changes nothing.
    let given = Write { length: 5, ..given };
    root.write(&at, given, &mut &b"cut"[..]).unwrap_err();
    assert_eq!(part(0, None), b"x");
    assert_eq!(names(&root, &TreePath::root(), None, 9), [b"run"]);
    let deep = path("a/b/c");
    let refused = write(&root, &deep, b"", Parents::Require);
    assert_eq!(refused, Err(Failure::NotFound));
    write(&root, &deep, b"deep", Parents::Make).unwrap();
    assert_eq!(content(&root, &deep, WHOLE).unwrap(), b"deep");
    assert_eq!(root.delete(&path("a"), Depth::One), Err(Failure::NotEmpty));
    root.delete(&path("a"), Depth::Whole).unwrap();
    assert_eq!(
        root.delete(&path("a"), Depth::Whole),
        Err(Failure::NotFound)
    );
}

#[test]
fn the_root_itself_is_neither_written_nor_deleted() {
    let (place, root) = tree();
    let at = TreePath::root();
    assert!(root.delete(&at, Depth::Whole).is_err());
    assert!(write(&root, &at, b"", Parents::Make).is_err());
    assert_eq!(root.stat(&at).unwrap().kind, Kind::Directory);
    assert!(place.path().exists());
}

#[test]
fn sparse_files_larger_than_any_disk_are_not_read_attack_27() {
    let (place, root) = tree();
    let file = fs::File::create(place.path().join("sparse")).unwrap();
    file.set_len(1 << 40).unwrap();
    let refused = content(&root, &path("sparse"), WHOLE);
    assert!(matches!(refused, Err(Failure::TooLarge(_))));
    let range = Range {
        offset: (1 << 40) - 2,
        length: None,
    };
    assert_eq!(content(&root, &path("sparse"), range).unwrap(), [0, 0]);
    archive::pack(&root, &TreePath::root(), &mut Vec::new()).unwrap_err();
    let passed = found(&root, &TreePath::root(), "x", Syntax::Literal).unwrap();
    assert_eq!(passed.skipped, 1);
}

#[test]
fn a_tree_deeper_than_any_path_is_listed_packed_and_deleted_attack_27() {
    let (_place, root) = tree();
    let name = "d".repeat(100);
    // Each is reached by its full path: the last is longer than three times PATH_MAX.
    let mut at = path("top");
    while at.as_bytes().len() < 13_000 {
        at = at.join(name.as_bytes());
    }
    let (above, _) = at.split().unwrap();
    write(&root, &at, b"the bottom", Parents::Make).unwrap();
    assert_eq!(names(&root, &above, None, 9), [name.as_bytes()]);
    assert_eq!(content(&root, &at, WHOLE).unwrap(), b"the bottom");
    let hits = found(&root, &TreePath::root(), "bottom", Syntax::Literal).unwrap();
    assert_eq!(hits.matches[0].path, at.as_bytes());
    let mut packed = Vec::new();
    archive::pack(&root, &TreePath::root(), &mut packed).unwrap();
    assert_eq!(
        tar_entries(&packed),
        at.as_bytes().split(|byte| *byte == b'/').count()
    );
    root.delete(&path("top"), Depth::Whole).unwrap();
    assert!(names(&root, &TreePath::root(), None, 9).is_empty());
}

#[test]
fn what_is_packed_unpacks_the_same_and_gnu_tar_reads_it() {
    let (place, root) = tree();
    write(&root, &path("src/run"), b"#!/bin/sh\n", Parents::Make).unwrap();
    write(&root, &path(b"src/caf\xe9\n"), b"odd", Parents::Make).unwrap();
    write(&root, &path("src/empty"), b"", Parents::Make).unwrap();
    let long = format!("src/{}/{}", "l".repeat(200), "m".repeat(255));
    write(&root, &path(&long), b"long", Parents::Make).unwrap();
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(place.path().join("src/run"), executable).unwrap();
    symlink("../../outside//x", place.path().join("src/link")).unwrap();
    let far = format!("{}//./x", "f".repeat(150));
    symlink(&far, place.path().join("src/far")).unwrap();
    let mut packed = Vec::new();
    archive::pack(&root, &path("src"), &mut packed).unwrap();

    fs::create_dir(place.path().join("copy")).unwrap();
    archive::unpack(&root, &path("copy"), packed.as_slice()).unwrap();
    fs::create_dir(place.path().join("gnu")).unwrap();
    let file = place.path().join("packed.tar");
    fs::write(&file, &packed).unwrap();
    let mut tar = Command::new("tar");
    let tar = tar.arg("-xf").arg(&file).arg("-C");
    assert!(
        tar.arg(place.path().join("gnu"))
            .status()
            .unwrap()
            .success()
    );
    for copy in ["copy", "gnu"] {
        assert_eq!(
            described(&place.path().join(copy)),
            described(&place.path().join("src"))
        );
    }
    let refused = archive::unpack(&root, &path("copy"), &b"no archive at all"[..]);
    assert!(
        matches!(refused, Err(Failure::BadArchive(_))),
        "{refused:?}"
    );
}

/// Names, kinds, modes, times, contents and symlinks of everything below.
fn described(directory: &Path) -> String {
    let mut find = Command::new("find");
    let find = find.arg(".").args(["-mindepth", "1", "-printf"]);
    let find = find.arg("%p %y %m %T@ %l\n").current_dir(directory);
    let mut lines: Vec<_> = String::from_utf8_lossy(&find.output().unwrap().stdout)
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort();
    assert!(lines.len() > 5);
    let sums = "find . -type f -exec cksum {} + | sort";
    let mut sh = Command::new("sh");
    let sums = sh.args(["-c", sums]).current_dir(directory).output();
    let sums = String::from_utf8_lossy(&sums.unwrap().stdout).into_owned();
    format!("{}\n{sums}", lines.join("\n"))
}

#[test]
fn text_is_found_where_people_look_for_it() {
    let (place, root) = tree();
    write(
        &root,
        &path("a.rs"),
        b"one\r\ntwo (x)\nthree",
        Parents::Make,
    )
    .unwrap();
    write(&root, &path("b/c.rs"), b"two\n", Parents::Make).unwrap();
    write(&root, &path(".git/config"), b"two\n", Parents::Make).unwrap();
    write(&root, &path("binary"), b"two\0\n", Parents::Make).unwrap();
    write(&root, &path("many"), &b"match\n".repeat(50), Parents::Make).unwrap();
    let shown = |pattern: &str, syntax| {
        let hits = found(&root, &TreePath::root(), pattern, syntax).unwrap();
        let shown = hits.matches.iter().map(|hit| {
            let path = String::from_utf8_lossy(&hit.path);
            format!("{path}:{}:{}", hit.line, String::from_utf8_lossy(&hit.text))
        });
        shown.collect::<Vec<_>>()
    };
    let both = ["a.rs:2:two (x)", "b/c.rs:1:two"];
    assert_eq!(shown("two", Syntax::Literal), both);
    assert_eq!(shown("^(?i)TWO", Syntax::Regex), both);
    assert_eq!(shown("one$", Syntax::Regex), ["a.rs:1:one"]);
    assert_eq!(shown("(x)", Syntax::Literal), ["a.rs:2:two (x)"]);
    let many = found(&root, &TreePath::root(), "match", Syntax::Literal).unwrap();
    assert_eq!((many.matches.len(), many.more), (10, true));
    for bad in ["(", "a{1000}{1000}{1000}"] {
        let refused = found(&root, &TreePath::root(), bad, Syntax::Regex);
        assert!(matches!(refused, Err(Failure::BadPattern(_))), "{bad}");
    }
    // A pattern that takes backtracking engines exponential time.
    write(&root, &path("slow"), &[b'a'; 100_000], Parents::Make).unwrap();
    assert!(shown("^(a+)+$b", Syntax::Regex).is_empty());
    drop(place);
}

#[test]
fn a_request_from_elsewhere_is_an_answer_and_no_panic() {
    let (place, _) = tree();
    let head = |request: &[u8]| {
        let mut answer = Vec::new();
        serve(request, &mut std::io::empty(), &mut answer).unwrap();
        let line = answer.split(|byte| *byte == b'\n').next().unwrap();
        serde_json::from_slice::<Head>(line).unwrap()
    };
    for wrong in [&b""[..], b"{", b"{}", b"[1]", b"{\"root\":[]}"] {
        let answer = head(wrong);
        assert!(matches!(answer, Head::Failed(Failure::BadRequest(_))));
    }
    let mut request = Request {
        root: place.path().as_os_str().as_bytes().to_vec(),
        path: b"../x".to_vec(),
        operation: Operation::Get,
    };
    let asked = |request: &Request| head(&serde_json::to_vec(request).unwrap());
    assert!(matches!(
        asked(&request),
        Head::Failed(Failure::BadRequest(_))
    ));
    request.path = Vec::new();
    assert!(matches!(asked(&request), Head::Listed { .. }));
    request.path = b"absent".to_vec();
    for operation in [Operation::Get, Operation::Pack, Operation::Unpack] {
        request.operation = operation;
        assert!(matches!(asked(&request), Head::Failed(Failure::NotFound)));
    }
}
