//! Tests that this machine cannot run say so: `make unit` lists them at its end, and CI fails. Tests of
//! other crates include this file, so it uses nothing but the standard library.

use std::io::Write;

/// Records that the calling test cannot run here; the test returns afterwards.
///
/// With `CI` set the test fails instead: CI has to be a machine that runs every test.
#[track_caller]
pub fn skipped(reason: &str) {
    assert!(
        std::env::var_os("CI").is_none(),
        "CI has to run every test, and this one cannot run here: {reason}"
    );
    let test = std::env::var("NEXTEST_TEST_NAME")
        .ok()
        .or_else(|| std::thread::current().name().map(str::to_owned))
        .unwrap_or_default();
    eprintln!("{test} was skipped: {reason}");
    if let Some(file) = std::env::var_os("HOLM_TEST_SKIPPED") {
        // One write of one line, because several test processes write at the same time.
        let line = format!("{test}: {reason}\n");
        std::fs::File::options()
            .append(true)
            .create(true)
            .open(file)
            .and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("the list of skipped tests");
    }
}
