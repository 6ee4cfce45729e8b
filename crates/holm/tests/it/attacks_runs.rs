//! Attacks on runs: context files that would leave the tree (26), requests of every wrong form, output
//! without end and readers that do not read (143).

use crate::support::{Island, times};

/// A run that was begun and not waited for.
fn begun(island: &Island, arguments: &[&str]) -> String {
    let arguments = [&["run", "--detach"], arguments].concat();
    island.holm(&arguments).ok().out()
}

#[test]
fn attack_26_context_files_stay_in_the_tree() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("holm.toml", "[project]\nprotected_paths = [\"safe\"]\n");
    repository.commit("protected");
    let id = repository.up("x");
    let outside = island.make_dir("outside");
    island.sh("x", &format!("ln -s /tmp link; ln -s {} away; ln -s ../../.. up; ln -s new.txt file; mkfifo pipe", outside.display())).ok();
    let local = island.write("local.txt", "brought");
    let local = local.display();
    for path in [
        "../x",
        "a/../../x",
        "/etc/x",
        "/tmp/x",
        "",
        ".",
        "link/x",
        "away/x",
        "up/x",
        "file",
        "pipe",
        "safe/x",
        "docs/../x",
        "holm.toml/x",
    ] {
        let file = format!("{path}={local}");
        let refused = island.holm(&[
            "run",
            "x",
            "--json",
            "--file",
            &file,
            "--",
            "touch",
            "/tmp/began",
        ]);
        assert!(matches!(refused.code, Some(2..=4)), "{path}: {refused:?}");
    }
    // Through the API, where no client checked it before; nothing else is accepted either.
    for body in [
        r#"{"command":["true"],"files":[{"path":"..\u0000","content":"x"}]}"#.to_owned(),
        r#"{"command":["true"],"files":[{"path":"a","content":"x","target":"/etc"}]}"#.to_owned(),
        r#"{"command":["true"],"owner":"root"}"#.to_owned(),
        r#"{"command":[]}"#.to_owned(),
        r#"{"command":["a\u0000b"]}"#.to_owned(),
        r#"{"command":["a"],"agent":"shell"}"#.to_owned(),
        r#"{"command":["a"],"env":{"A=B":"c"}}"#.to_owned(),
        r#"{"command":["a"],"timeout_ms":99999999999}"#.to_owned(),
        format!(
            r#"{{"command":["true"],"message":"{}"}}"#,
            "m".repeat(600_000)
        ),
        format!(r#"{{"command":["{}"]}}"#, "a".repeat(300_000)),
        "[".repeat(100_000),
    ] {
        let (status, answer) = island.ask(
            "POST",
            &format!("/api/v1/workspaces/{id}/runs"),
            body.as_bytes(),
        );
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!((400..500).contains(&status), "{status} {answer}");
        assert!(answer.contains("\"hint\""), "{answer}");
    }
    // Ids of every kind (120).
    for wrong in [
        "r000000000000",
        "..%2f..",
        "%2e%2e",
        "r%00",
        "w000000000000",
        &"r".repeat(10_000),
    ] {
        for route in [
            format!("{id}/runs/{wrong}"),
            format!("{wrong}/runs/r000000000000"),
            format!("{wrong}/runs"),
        ] {
            let (status, _) = island.ask("GET", &format!("/api/v1/workspaces/{route}"), b"");
            assert!(matches!(status, 400 | 404), "{route}: {status}");
        }
    }
    assert_eq!(std::fs::read_dir(outside).unwrap().count(), 0);
    island
        .sh("x", "test ! -e /tmp/began && test ! -e /tmp/x")
        .ok();
    let list = island.holm(&["runs", "ls", "--json"]).json();
    assert_eq!(
        list["runs"].as_array().unwrap().len(),
        0,
        "nothing began: {list:#}"
    );
}

#[test]
fn attack_143_output_without_end_is_bounded_and_slow_readers_hold_up_nobody() {
    let island = Island::new();
    let id = island.repository("shop").up("x");
    let size: u64 = times(200_000_000, 1_000_000_000);
    let script = format!("echo first; head -c {size} /dev/zero | tr '\\0' x; echo; echo last");
    let run = begun(&island, &["x", "--", "sh", "-c", &script]);
    let key = (
        holm_core::WorkspaceId::parse(&id).unwrap(),
        holm_core::RunId::parse(&run).unwrap(),
    );
    // A client that reads the first piece, and then nothing while it runs.
    let missed = island.api(async |client| {
        let mut slow = client.run_output(&key.0, &key.1, 0).await.unwrap();
        let first = slow.next().await.unwrap();
        assert!(
            matches!(first, holm_api::run::RunEvent::Output(_)),
            "{first:?}"
        );
        let limit = std::time::Instant::now() + std::time::Duration::from_secs(120);
        while !client.run(&key.0, &key.1).await.unwrap().state.has_ended() {
            assert!(
                std::time::Instant::now() < limit,
                "a slow reader holds the run up"
            );
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        let (mut heard, mut missed, mut cursor) = (0, 0, 0);
        loop {
            match slow.next().await.unwrap() {
                holm_api::run::RunEvent::Output(piece) => {
                    heard += piece.data.len() as u64;
                    cursor = piece.cursor;
                }
                holm_api::run::RunEvent::Truncated { bytes, .. } => missed += bytes,
                holm_api::run::RunEvent::Ended(run) => {
                    assert_eq!(run.exit_code, Some(0));
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        let begun = match first {
            holm_api::run::RunEvent::Output(piece) => piece.data.len() as u64,
            _ => 0,
        };
        assert_eq!((heard + missed + begun, cursor), (size + 12, size + 12));
        missed
    });
    assert!(missed > size / 10 * 9, "{missed}");
    let record = island
        .data()
        .join("workspaces")
        .join(&id)
        .join("runs")
        .join(&run);
    let files = std::fs::read_dir(record).unwrap().map(|file| file.unwrap());
    let size: u64 = files.map(|file| file.metadata().unwrap().len()).sum();
    assert!(size < 10 << 20, "{size} bytes are kept");
    let keeper = island.keeper_of(&id).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{keeper}/status")).unwrap();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 64 << 10, "the keeper took {peak} kB");
    // The beginning and the end are stored, and the gap is reported.
    let output = island.holm(&["runs", "show", &run, "--output"]).ok();
    assert!(output.stdout.starts_with(b"first\nxxx") && output.stdout.ends_with(b"xxx\nlast\n"));
    assert!(
        output.stderr.contains("bytes of output are left out here"),
        "{}",
        output.stderr
    );
}
