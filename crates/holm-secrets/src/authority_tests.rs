//! Checks the authority's certificates with OpenSSL.

use super::*;
use std::process::Command;

fn openssl(arguments: &[&str]) -> String {
    let ran = Command::new("openssl").args(arguments).output().unwrap();
    let (out, err) = (ran.stdout, ran.stderr);
    format!(
        "{}{}",
        String::from_utf8_lossy(&out),
        String::from_utf8_lossy(&err)
    )
}

#[test]
fn others_believe_its_certificates_for_their_name_and_no_other() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let authority = Authority::generate().unwrap();
    let again = Authority::open(&authority.kept().unwrap()).unwrap();
    assert_eq!(again.certificate(), authority.certificate());
    std::fs::write(at("ca"), authority.certificate()).unwrap();
    let other = Authority::generate().unwrap();
    let verify = |leaf: &Leaf, host: &str| {
        std::fs::write(at("leaf"), &leaf.certificate).unwrap();
        let (ca, file) = (at("ca"), at("leaf"));
        let strict = [
            "verify",
            "-x509_strict",
            "-purpose",
            "sslserver",
            "-CAfile",
            &ca,
        ];
        openssl(&[&strict[..], &["-verify_hostname", host, &file]].concat())
    };
    let long = format!("{}.example.org", "a".repeat(60));
    for host in ["api.example.org", &long] {
        let leaf = again.leaf(host).unwrap();
        assert!(
            verify(&leaf, host).ends_with("OK\n"),
            "{}",
            verify(&leaf, host)
        );
        assert!(!verify(&leaf, "other.example.org").ends_with("OK\n"));
        assert!(!verify(&other.leaf(host).unwrap(), host).ends_with("OK\n"));
        assert_eq!(again.leaf(host).unwrap(), leaf, "made once");
    }
    // The CA may sign leaf certificates but no further CA.
    let text = openssl(&["x509", "-noout", "-text", "-in", &at("ca")]);
    assert!(text.contains("CA:TRUE, pathlen:0"), "{text}");
    assert!(Authority::open(&Value::parse(b"nonsense".to_vec()).unwrap()).is_err());
}

#[test]
fn tokens_are_of_one_workspace_and_one_secret() {
    let authority = Authority::generate().unwrap();
    let value = |text: &str| Value::parse(text.as_bytes().to_vec()).unwrap();
    let long = "x".repeat(4000);
    let token =
        |workspace: &str, secret: &str| authority.token(workspace, secret, &value(&long)).unwrap();
    let one = token("w1", "KEY");
    assert_eq!(one.len(), long.len());
    assert_eq!(one, token("w1", "KEY"));
    let reopened = Authority::open(&authority.kept().unwrap()).unwrap();
    assert_eq!(reopened.token("w1", "KEY", &value(&long)).unwrap(), one);
    for (workspace, secret) in [("w2", "KEY"), ("w1", "OTHER"), ("w", "1KEY")] {
        assert_ne!(token(workspace, secret), one);
    }
    let elsewhere = Authority::generate().unwrap();
    assert_ne!(elsewhere.token("w1", "KEY", &value(&long)).unwrap(), one);
    assert_eq!(
        authority.token("w1", "KEY", &value("short")),
        Err(Unfit::TooShort)
    );
}
