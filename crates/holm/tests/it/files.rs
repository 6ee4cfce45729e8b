//! The file API for programs: list, read, write, search, delete, upload and download a workspace's
//! tree.

use crate::support::{Island, eventually, noise};
use holm_api::Client;
use holm_api::client::{FileDeletion, FileRange, FileSearch, FileWrite};
use holm_core::{Code, Fault, WorkspaceId};
use std::io::Cursor;

const PLAIN: FileWrite = FileWrite {
    mode: None,
    parents: false,
};

pub fn workspace(island: &Island, label: &str) -> WorkspaceId {
    WorkspaceId::parse(&island.repository("shop").up(label)).unwrap()
}

pub async fn read(client: &Client, id: &WorkspaceId, path: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    let take = |piece: &[u8]| {
        bytes.extend_from_slice(piece);
        true
    };
    client
        .read_file(id, path, FileRange::default(), take)
        .await?;
    Ok(bytes)
}

pub async fn write(
    client: &Client,
    id: &WorkspaceId,
    path: &[u8],
    text: &[u8],
) -> Result<(), Fault> {
    let bytes = bytes::Bytes::copy_from_slice(text);
    let written = client.write_file(id, path, PLAIN, bytes).await?;
    assert_eq!(written.size, text.len() as u64);
    Ok(())
}

pub async fn names(client: &Client, id: &WorkspaceId, path: &[u8]) -> Result<Vec<String>, Fault> {
    let list = client.list_files(id, path, None, 1000).await?;
    Ok(list.entries.into_iter().map(|entry| entry.name).collect())
}

pub async fn download(client: &Client, id: &WorkspaceId, path: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    let take = |piece: &[u8]| {
        bytes.extend_from_slice(piece);
        true
    };
    client.download_files(id, path, take).await?;
    Ok(bytes)
}

#[track_caller]
pub fn code<T: std::fmt::Debug>(result: Result<T, Fault>) -> Code {
    result.unwrap_err().code
}

#[test]
fn files_are_listed_read_written_and_deleted() {
    let island = Island::new();
    let id = &workspace(&island, "x");
    let script = "mkdir src && printf '#!/bin/sh\\n' > src/run && chmod 751 src/run &&
        touch -d 2020-02-02T02:02:02.5Z src/run && ln -s run src/link";
    island.sh("x", script).ok();
    island.api(async |client| {
        assert_eq!(
            names(client, id, b".").await.unwrap(),
            [".git", "README.md", "src"]
        );
        let list = client.list_files(id, b"src", None, 10).await.unwrap();
        let [link, run] = list.entries.as_slice() else {
            panic!("{list:?}")
        };
        assert_eq!(
            (link.kind.as_str(), link.target.as_deref()),
            ("link", Some("run"))
        );
        assert_eq!(
            (run.kind.as_str(), run.size, run.mode.as_str()),
            ("file", 10, "0751")
        );
        assert_eq!(run.modified, "2020-02-02T02:02:02.5Z");
        assert_eq!(*run, client.stat_file(id, b"src/run").await.unwrap());
        let first = client.list_files(id, b"src", None, 1).await.unwrap();
        assert!(first.more && first.entries.len() == 1);
        let rest = client
            .list_files(id, b"src", Some(b"link"), 1)
            .await
            .unwrap();
        assert!(!rest.more && rest.entries[0].name == "run");

        // A written file is complete, and keeps its mode; every byte value passes both ways.
        let content = noise(5 << 20);
        write(client, id, b"src/run", &content).await.unwrap();
        assert_eq!(read(client, id, b"src/run").await.unwrap(), content);
        assert_eq!(client.stat_file(id, b"src/run").await.unwrap().mode, "0751");
        let range = FileRange {
            offset: 1000,
            length: Some(7),
            ..FileRange::default()
        };
        let mut part = Vec::new();
        let take = |piece: &[u8]| {
            part.extend_from_slice(piece);
            true
        };
        client.read_file(id, b"src/run", range, take).await.unwrap();
        assert_eq!(part, content[1000..1007]);
        assert_eq!(
            code(write(client, id, b"a/b/c", b"x").await),
            Code::PathNotFound
        );
        let with_parents = FileWrite {
            mode: Some(0o600),
            parents: true,
        };
        let made = client
            .write_file(id, b"a/b/c", with_parents, "deep".into())
            .await;
        assert_eq!(made.unwrap().mode, "0600");

        let delete = |path: &'static [u8], how| client.delete_file(id, path, how);
        assert_eq!(code(delete(b"a", FileDeletion::One).await), Code::NotEmpty);
        assert_eq!(
            code(delete(b".", FileDeletion::Recursive).await),
            Code::Refused
        );
        assert_eq!(
            code(delete(b"none", FileDeletion::One).await),
            Code::PathNotFound
        );
        delete(b"src/link", FileDeletion::One).await.unwrap();
        assert_eq!(names(client, id, b"src").await.unwrap(), ["run"]);
    });
    assert_eq!(
        island
            .sh("x", "cat a/b/c; cksum < src/run")
            .ok()
            .out()
            .lines()
            .count(),
        1
    );
    island.api(async |client| {
        client
            .delete_file(id, b"a", FileDeletion::Recursive)
            .await
            .unwrap();
        // It came from the base.
        client
            .delete_file(id, b"README.md", FileDeletion::One)
            .await
            .unwrap();
    });
    let seen = island.sh("x", "ls -A; git status --short").ok().out();
    assert_eq!(seen, ".git\nsrc\n D README.md\n?? src/");
}

#[test]
fn a_directory_is_json_and_a_file_is_bytes_and_mixing_them_up_is_said() {
    let island = Island::new();
    let id = &workspace(&island, "x");
    let route = format!("/api/v1/workspaces/{id}/files");
    let (status, body) = island.ask("GET", &route, b"");
    let list: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        (status, &list["entries"][1]["name"]),
        (200, &"README.md".into())
    );
    let read = island.ask("GET", &format!("{route}?path=README.md"), b"");
    assert_eq!(read, (200, b"# hello\n".to_vec()));
    island.api(async |client| {
        let listed = client.list_files(id, b"README.md", None, 10).await;
        assert_eq!(code(listed), Code::NotADirectory);
        let packed = download(client, id, b"README.md").await;
        assert_eq!(code(packed), Code::NotADirectory);
        assert_eq!(
            code(crate::files::read(client, id, b".git").await),
            Code::NotAFile
        );
        assert_eq!(code(write(client, id, b".git", b"").await), Code::NotAFile);
        assert_eq!(
            code(client.stat_file(id, b"none").await),
            Code::PathNotFound
        );
    });
}

#[test]
fn a_stopped_workspace_is_started_for_its_files() {
    let island = Island::new();
    let id = &workspace(&island, "x");
    island.holm(&["stop", "x"]).ok();
    let bytes = island.api(async |client| read(client, id, b"README.md").await);
    assert_eq!(bytes.unwrap(), b"# hello\n");
    let shown = island.holm(&["show", "x", "--json"]).json();
    assert_eq!(shown["state"], "running");
    island.holm(&["rm", "x"]).ok();
    let gone = island.api(async |client| read(client, id, b"README.md").await);
    assert_eq!(code(gone), Code::WorkspaceNotFound);
}

#[test]
fn text_is_found_in_the_files_of_a_workspace() {
    let island = Island::new();
    let id = &workspace(&island, "x");
    island
        .sh(
            "x",
            "mkdir b; echo 'fn needle() {}' > a.rs; printf 'x\\nneedle \\033[2J\\n' > b/c",
        )
        .ok();
    island.api(async |client| {
        let search = |pattern: &str, regex| FileSearch {
            pattern: pattern.to_owned(),
            regex,
            limit: Some(10),
        };
        let found = client
            .search_files(id, b".", &search("needle", false))
            .await
            .unwrap();
        let found: Vec<_> = found
            .matches
            .iter()
            .map(|hit| (hit.path.as_str(), hit.line, hit.text.as_str()))
            .collect();
        let expect = [
            ("a.rs", 1, "fn needle() {}"),
            ("b/c", 2, "needle \u{1b}[2J"),
        ];
        assert_eq!(found, expect);
        let found = client
            .search_files(id, b"b", &search("^need.e", true))
            .await
            .unwrap();
        assert_eq!(found.matches.len(), 1);
        let bad = client.search_files(id, b".", &search("(", true)).await;
        assert_eq!(code(bad), Code::BadRequest);
        let empty = client.search_files(id, b".", &search("", false)).await;
        assert_eq!(code(empty), Code::BadRequest);
    });
}

#[test]
fn directories_come_and_go_as_tar() {
    let island = Island::new();
    let id = &workspace(&island, "x");
    let from = island.make_dir("home/from");
    island.make_dir("home/from/deep");
    island.write("home/from/deep/noise", noise(2 << 20));
    island
        .run(
            &from,
            "sh",
            &[
                "-c",
                "chmod 750 deep/noise; ln -s deep/noise link; mkdir .git; touch .git/x",
            ],
        )
        .ok();
    let packed = island
        .run(&from, "tar", &["-c", "--format=pax", "."])
        .ok()
        .stdout;
    island.api(async |client| {
        let made = FileWrite {
            parents: true,
            ..PLAIN
        };
        client
            .write_file(id, b"copy/own", made, "own".into())
            .await
            .unwrap();
        client
            .upload_files(id, b"copy", Cursor::new(packed))
            .await
            .unwrap();
    });
    let sums =
        "find . -type f -name noise -exec cksum {} + ; stat -c '%a %Y' deep/noise; readlink link";
    let expect = island.run(&from, "sh", &["-c", sums]).ok().out();
    assert_eq!(
        island.sh("x", &format!("cd copy && {sums}")).ok().out(),
        expect
    );
    let back = island.make_dir("home/back");
    let archive = island.api(async |client| download(client, id, b"copy").await.unwrap());
    island.write("home/back.tar", archive);
    island.run(&back, "tar", &["-xf", "../back.tar"]).ok();
    assert_eq!(island.run(&back, "sh", &["-c", sums]).ok().out(), expect);
    assert_eq!(std::fs::read(back.join("own")).unwrap(), b"own");
}

#[test]
fn an_archive_that_cannot_be_whole_is_refused_before_its_first_byte() {
    let island = Island::new();
    let id = &workspace(&island, "x");
    let script = "mkdir -p some/closed; echo 1 > some/one; echo 2 > some/two; echo 3 > some/closed/in; \
        chmod 000 some/two some/closed";
    island.sh("x", script).ok();
    let route = format!("/api/v1/workspaces/{id}/files/archive?path=some");
    let (status, body) = island.ask("GET", &route, b"");
    let said = String::from_utf8_lossy(&body);
    assert_eq!(status, 409, "{said}");
    let error: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(error["error"]["code"], "permission_denied", "{said}");
    let message = error["error"]["message"].as_str().unwrap();
    assert!(
        message.ends_with("may not read some/closed, some/two"),
        "{said}"
    );
    // A tar reader behind curl notices it, too.
    let socket = island.holm_home().join("run/daemon.sock");
    let script = format!(
        "curl -sSf --unix-socket {} 'http://localhost{route}' | tar -t",
        socket.display()
    );
    let piped = island.run(&island.home(), "bash", &["-o", "pipefail", "-c", &script]);
    assert_ne!(piped.code, Some(0), "{piped:?}");
    assert!(piped.stderr.contains("409"), "{piped:?}");
    island.sh("x", "chmod -R u+rwX some").ok();
    let piped = island.run(&island.home(), "bash", &["-o", "pipefail", "-c", &script]);
    assert_eq!(piped.ok().out(), "closed\nclosed/in\none\ntwo");
}

#[test]
fn limits_are_said_and_half_a_request_changes_nothing() {
    let island = Island::new();
    let id = &workspace(&island, "x");
    let route = format!("/api/v1/workspaces/{id}/files?path=big");
    let much = vec![b'x'; 80 << 20];
    island.api(async |client| {
        let refused = client.write_file(id, b"big", PLAIN, much.into()).await;
        assert_eq!(code(refused), Code::TooLarge);
    });
    // A client that goes away in the middle.
    drop(island.ask_partly("PUT", &route, 100, b"half"));
    let archive = format!("/api/v1/workspaces/{id}/files/archive");
    drop(island.ask_partly("PUT", &archive, 10_000, &[b'x'; 600]));
    eventually("nothing of it runs or stays", || {
        island
            .sh("x", "ls -A; pgrep -f '^/run/holm/bin/holm __files'")
            .out()
            == ".git\nREADME.md"
    });
    island.sh("x", "truncate -s 5G sparse").ok();
    island.api(async |client| {
        assert_eq!(code(read(client, id, b"sparse").await), Code::TooLarge);
        // A response that has begun is aborted, not silently truncated.
        download(client, id, b".").await.unwrap_err();
    });
}
