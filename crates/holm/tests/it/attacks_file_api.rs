//! Attacks on the file API from inside and by API callers: symlinks, swaps, pipes, names, archives
//! and paths (attacks 9, 10, 12, 25, 26, 120).

use crate::files::{code, download, names, read, workspace, write};
use crate::support::{Island, Running, eventually, times};
use holm_api::client::{FileDeletion, FileSearch};
use holm_core::Code;
use std::io::Cursor;

/// `d` is a directory and `l` a symlink out of the root; they change places as fast as possible.
/// Reports that, and continues until its input ends.
const SWAP: &str = r#"
import ctypes, os, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
os.makedirs("d/folder")
os.makedirs("/tmp/outside/folder", exist_ok=True)
for path, text in [("d/f", "inside"), ("/tmp/outside/f", "canary"), ("/tmp/outside/only-outside", "canary"),
                   ("/tmp/outside/folder/kept", "canary")]:
    with open(path, "w") as file:
        file.write(text)
os.symlink("/tmp/outside", "l")
over = threading.Event()
swaps = 0
def swap():
    global swaps
    while not over.is_set():
        if libc.renameat2(-100, b"d", -100, b"l", 2) == 0:
            swaps += 1
threading.Thread(target=swap, daemon=True).start()
print("swapping", flush=True)
root = os.getcwd()
leaks = 0
# The counterpart: who looks first and opens then is led out.
while leaks == 0:
    try:
        if os.path.realpath("d/f").startswith(root):
            leaks += open("d/f").read() == "canary"
    except OSError:
        pass
print("led out", flush=True)
sys.stdin.read()
over.set()
print("swapped often" if swaps > 1000 else swaps, flush=True)
"#;

#[test]
fn attack_10_swapping_inside_leads_the_file_api_nowhere() {
    let island = Island::new();
    let id = &workspace(&island, "x");
    let arguments = ["exec", "x", "--", "/usr/bin/python3", "-c", SWAP];
    let mut swapping = Running::new(&mut island.holm_command(&island.home(), &arguments));
    swapping.says("swapping");
    swapping.says("led out");
    let archive = archive_with(&[(tar::EntryType::Regular, "unpacked", "")]);
    let mut through = 0;
    island.api(async |client| {
        for _ in 0..times(20, 60) {
            let found = read(client, id, b"d/f").await;
            through += usize::from(found.is_ok());
            assert_ne!(found.ok().as_deref(), Some(&b"canary"[..]));
            let listed = names(client, id, b"d").await.unwrap_or_default();
            assert!(!listed.contains(&"only-outside".to_owned()));
            client.stat_file(id, b"d/only-outside").await.unwrap_err();
            let packed = download(client, id, b"d").await.unwrap_or_default();
            assert!(!packed.windows(6).any(|window| window == b"canary"));
            let search = FileSearch {
                pattern: "canary".to_owned(),
                ..FileSearch::default()
            };
            let hits = client.search_files(id, b"d", &search).await;
            assert!(hits.is_err() || hits.unwrap().matches.is_empty());
            let _ = write(client, id, b"d/written", b"x").await;
            let archive = Cursor::new(archive.clone());
            let _ = client.upload_files(id, b"d", archive).await;
            let _ = client
                .delete_file(id, b"d/folder", FileDeletion::Recursive)
                .await;
        }
    });
    swapping.close_stdin();
    swapping.says("swapped often");
    assert!(through > 0, "nothing was ever read");
    let outside = island
        .sh("x", "cd /tmp/outside && find . -type f | sort")
        .ok()
        .out();
    assert_eq!(outside, "./f\n./folder/kept\n./only-outside");
}

#[test]
fn attack_9_links_of_the_tree_are_shown_and_lead_nowhere() {
    let island = Island::new();
    let id = &workspace(&island, "x");
    let script = "mkdir /tmp/out; echo canary > /tmp/out/f; ln -s /tmp/out d; ln -s /tmp/out/f f;
        ln -s /proc/self/mem mem; ln -s /proc/1/root proc; ln -s ../../.. up; ln -s . self";
    island.sh("x", script).ok();
    island.api(async |client| {
        for path in [
            &b"f"[..],
            b"d/f",
            b"mem",
            b"proc/etc/passwd",
            b"up/etc/passwd",
            b"self/README.md",
        ] {
            let shown = path.escape_ascii();
            assert_eq!(
                code(read(client, id, path).await),
                Code::NotAFile,
                "{shown}"
            );
            assert_eq!(
                code(write(client, id, path, b"x").await),
                Code::NotAFile,
                "{shown}"
            );
        }
        assert_eq!(code(names(client, id, b"d").await), Code::NotAFile);
        assert_eq!(code(download(client, id, b"d").await), Code::NotAFile);
        let entry = client.stat_file(id, b"d").await.unwrap();
        assert_eq!(
            (entry.kind.as_str(), entry.target.as_deref()),
            ("link", Some("/tmp/out"))
        );
        client
            .delete_file(id, b"d", FileDeletion::Recursive)
            .await
            .unwrap();
    });
    assert_eq!(
        island.sh("x", "cat /tmp/out/f; ls /tmp/out").ok().out(),
        "canary\nf"
    );
}

#[test]
fn attack_12_pipes_sockets_and_devices_are_refused_and_nothing_waits() {
    let island = Island::new();
    let id = &workspace(&island, "x");
    let script = "rm README.md; mkfifo README.md fifo; python3 -c \
        'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'";
    island.sh("x", script).ok();
    island.api(async |client| {
        for path in ["README.md", "fifo", "socket"] {
            let path = path.as_bytes();
            assert_eq!(code(read(client, id, path).await), Code::NotAFile);
            assert_eq!(code(write(client, id, path, b"x").await), Code::NotAFile);
            assert_eq!(client.stat_file(id, path).await.unwrap().kind, "other");
        }
        download(client, id, b".").await.unwrap();
        client
            .delete_file(id, b"fifo", FileDeletion::One)
            .await
            .unwrap();
        let search = FileSearch {
            pattern: "x".to_owned(),
            ..FileSearch::default()
        };
        client.search_files(id, b".", &search).await.unwrap();
    });
    eventually("no program of ours is left inside", || {
        island
            .sh("x", "pgrep -f '^/run/holm/bin/holm __files'")
            .code
            == Some(1)
    });
}

#[test]
fn attack_25_odd_names_come_and_go_exactly() {
    let island = Island::new();
    let id = &workspace(&island, "x");
    island.sh("x", "mkdir odd").ok();
    let long = [b'n'; 255];
    let odd: [&[u8]; 8] = [
        b"-rf",
        b"a\nb",
        b"a\x1b]0;x\x07",
        b"caf\xe9",
        "caf\u{e9}".as_bytes(),
        "cafe\u{301}".as_bytes(),
        b"dot. +%41&=#?",
        &long,
    ];
    let at = |name: &[u8]| [b"odd/", name].concat();
    island.api(async |client| {
        for name in odd {
            write(client, id, &at(name), name).await.unwrap();
        }
    });
    let script = "import os; print([name for name in sorted(os.listdir(b'odd'))])";
    let seen = island.python("x", script).ok().out();
    assert!(
        seen.contains(r"b'caf\xe9'") && seen.contains("b'dot. +%41&=#?'"),
        "{seen}"
    );
    island.api(async |client| {
        let list = client.list_files(id, b"odd", None, 100).await.unwrap();
        let mut expect = odd.to_vec();
        expect.sort();
        let exact = list.entries.iter().map(|entry| match &entry.name_bytes {
            Some(bytes) => bytes.clone(),
            None => entry.name.clone().into_bytes(),
        });
        assert_eq!(exact.collect::<Vec<_>>(), expect);
        let raw: Vec<_> = list
            .entries
            .iter()
            .filter(|entry| entry.name_bytes.is_some())
            .collect();
        assert_eq!(raw.len(), 1);
        assert_eq!(raw[0].name, "caf\\xe9");
        for name in odd {
            assert_eq!(read(client, id, &at(name)).await.unwrap(), name);
            client
                .delete_file(id, &at(name), FileDeletion::One)
                .await
                .unwrap();
        }
        assert!(names(client, id, b"odd").await.unwrap().is_empty());
        // What an error says of a name is harmless, too.
        let fault = read(client, id, b"\x1b]0;x\x07\xff").await.unwrap_err();
        assert!(!fault.message().contains('\u{1b}'), "{fault:?}");
    });
}

fn archive_with(entries: &[(tar::EntryType, &str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (kind, name, link) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        header.set_size(0);
        // The builder's own methods refuse such names, so they are written by hand.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        builder.append(&header, std::io::empty()).unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn attack_26_archives_do_not_get_out_of_the_directory() {
    use tar::EntryType as Type;
    let island = Island::new();
    let id = &workspace(&island, "x");
    island
        .sh(
            "x",
            "mkdir into /tmp/outside; ln -s /tmp/outside into/planted",
        )
        .ok();
    let hostile: [&[(Type, &str, &str)]; 7] = [
        &[(Type::Regular, "../escaped", "")],
        &[(Type::Regular, "/tmp/outside/escaped", "")],
        &[(Type::Regular, "planted/escaped", "")],
        &[
            (Type::Symlink, "out", "/tmp/outside"),
            (Type::Regular, "out/escaped", ""),
        ],
        &[(Type::Link, "hard", "/etc/passwd")],
        &[(Type::Fifo, "fifo", "")],
        &[(Type::Char, "device", "")],
    ];
    island.api(async |client| {
        for entries in hostile {
            let archive = Cursor::new(archive_with(entries));
            client.upload_files(id, b"into", archive).await.unwrap_err();
        }
        let nothing = client
            .upload_files(id, b"none", Cursor::new(Vec::new()))
            .await;
        assert_eq!(code(nothing), Code::PathNotFound);
        let nonsense = Cursor::new(vec![b'x'; 3 << 20]);
        assert_eq!(
            code(client.upload_files(id, b"into", nonsense).await),
            Code::Refused
        );
    });
    let seen = island
        .sh("x", "find / -name 'escaped*' 2>/dev/null; ls -A . into")
        .ok()
        .out();
    assert_eq!(seen, ".:\n.git\nREADME.md\ninto\n\ninto:\nout\nplanted");
}

#[test]
fn protected_paths_stay_protected() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write(
        "holm.toml",
        "[project]\nprotected_paths = [\"AGENTS.md\", \"infra\", \"absent.md\"]\n",
    );
    repository.write("AGENTS.md", "original\n");
    repository.write("infra/key", "original\n");
    repository.commit("protected");
    let id = &holm_core::WorkspaceId::parse(&repository.up("x")).unwrap();
    island.api(async |client| {
        for path in [&b"AGENTS.md"[..], b"infra/key", b"infra/new", b"absent.md"] {
            let refused = write(client, id, path, b"changed").await;
            assert_eq!(
                code(refused),
                Code::PermissionDenied,
                "{}",
                path.escape_ascii()
            );
        }
        for path in [&b"AGENTS.md"[..], b"infra/key", b"infra"] {
            let refused = client.delete_file(id, path, FileDeletion::Recursive).await;
            assert_eq!(
                code(refused),
                Code::PermissionDenied,
                "{}",
                path.escape_ascii()
            );
        }
        assert_eq!(read(client, id, b"infra/key").await.unwrap(), b"original\n");
    });
    let seen = island
        .sh(
            "x",
            "cat AGENTS.md infra/key; ls -A infra; git status --short",
        )
        .ok();
    assert_eq!(seen.out(), "original\noriginal\nkey");
}

#[test]
fn attack_120_ids_and_paths_that_are_none_are_refused() {
    let island = Island::new();
    let id = workspace(&island, "x");
    let long = "a".repeat(10_000);
    let check = |method: &str, route: &str, expect: (u16, &str)| {
        let (status, body) = island.ask(method, &format!("/api/v1/workspaces/{route}"), b"");
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let error = &body["error"];
        assert_eq!((status, error["code"].as_str().unwrap()), expect, "{route}");
        assert!(!error["hint"].as_str().unwrap().is_empty());
    };
    let routes = [
        ("GET", "files"),
        ("PUT", "files"),
        ("DELETE", "files"),
        ("GET", "files/stat"),
        ("GET", "files/search"),
        ("GET", "files/archive"),
        ("PUT", "files/archive"),
    ];
    for (method, route) in routes {
        for wrong in ["x", "..%2f..", "%2e%2e%2f", "\u{2024}", &long] {
            let wrong: String = if wrong.is_ascii() {
                wrong.to_owned()
            } else {
                "%e2%80%a4%e2%80%a4".to_owned()
            };
            check(
                method,
                &format!("{wrong}/{route}"),
                (404, "workspace_not_found"),
            );
        }
        check(
            method,
            &format!("%00/{route}"),
            (404, "workspace_not_found"),
        );
        for wrong in [
            "",
            "/etc/passwd",
            "..",
            "a/../..",
            "%2e%2e%2f",
            "%2fetc",
            "a%00",
            "%00",
        ] {
            let route = format!("{id}/{route}?path={wrong}");
            check(method, &route, (400, "invalid_path"));
        }
        let longer = "a/".repeat(10_000);
        check(
            method,
            &format!("{id}/{route}?path={longer}"),
            (400, "invalid_path"),
        );
        check(
            method,
            &format!("{id}/{route}?other=1&pattern=x"),
            (400, "bad_request"),
        );
        check(
            method,
            &format!("{id}/{route}?path=a&path=b"),
            (400, "bad_request"),
        );
    }
    let file = format!("{id}/files?path=");
    check("GET", &format!("{file}{long}"), (400, "invalid_path"));
    check(
        "GET",
        &format!("{file}%e2%80%a4%e2%80%a4/x"),
        (404, "path_not_found"),
    );
    check(
        "GET",
        &format!("{file}a&offset=1&limit=1"),
        (400, "bad_request"),
    );
    check("GET", &format!("{file}a&offset=-1"), (400, "bad_request"));
    check("GET", &format!("{id}/files?limit=0"), (400, "bad_request"));
    check("PUT", &format!("{file}a&mode=4755"), (400, "bad_request"));
    check("PUT", &format!("{id}/files"), (409, "not_a_file"));
    check("DELETE", &format!("{id}/files"), (409, "refused"));
    check("POST", &format!("{id}/files"), (405, "method_not_allowed"));
}
