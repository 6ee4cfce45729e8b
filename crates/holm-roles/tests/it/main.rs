//! The small program without a role. Tests of `holm` show its roles at work.

use std::process::Command;

#[test]
fn without_a_role_it_names_the_program_to_use() {
    for arguments in [&[][..], &["--version"], &["up"]] {
        let ran = Command::new(env!("CARGO_BIN_EXE_holm-roles"))
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(ran.status.code(), Some(2), "{arguments:?}: {ran:?}");
        let said = String::from_utf8(ran.stderr).unwrap();
        assert!(said.contains("use `holm`"), "{arguments:?}: {said}");
    }
}
