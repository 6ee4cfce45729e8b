//! The password of a database: from a file of its own, or from PostgreSQL's password file.
//!
//! Read at each connection, so that a changed password is found. It never is part of an error.

use holm_engine::store::StoreError;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What a line of a password file is compared with.
pub(crate) struct Wanted<'a> {
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    pub(crate) database: &'a str,
    pub(crate) user: &'a str,
}

/// The content of a file that has nothing but the password.
pub(crate) fn of_file(path: &Path) -> Result<String, StoreError> {
    let text = private(path)?
        .ok_or_else(|| misconfigured(format!("there is no password file {}", path.display())))?;
    let password = text.lines().next().unwrap_or_default();
    match password {
        "" => Err(misconfigured(format!(
            "the password file {} is empty",
            path.display()
        ))),
        password => Ok(password.to_owned()),
    }
}

/// The password of the first line that fits; `None`: no file or no line.
pub(crate) fn of_list(path: &Path, wanted: &Wanted<'_>) -> Result<Option<String>, StoreError> {
    let text = private(path)?.unwrap_or_default();
    Ok(text.lines().find_map(|line| password_of(line, wanted)))
}

fn password_of(line: &str, wanted: &Wanted<'_>) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let port = wanted.port.to_string();
    let mut fields = fields(line).into_iter();
    for part in [wanted.host, port.as_str(), wanted.database, wanted.user] {
        let field = fields.next()?;
        if field != "*" && field != part {
            return None;
        }
    }
    fields.next()
}

/// The parts between colons; a backslash keeps the character after it.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        let field = fields.len() - 1;
        match character {
            ':' => fields.push(String::new()),
            '\\' => fields[field].extend(characters.next()),
            other => fields[field].push(other),
        }
    }
    fields
}

/// The text of a file. A file that other users can read is refused.
fn private(path: &Path) -> Result<Option<String>, StoreError> {
    let shown = path.display();
    let read = std::fs::metadata(path).and_then(|found| Ok((found.mode(), std::fs::read(path)?)));
    let (mode, bytes) = match read {
        Ok(read) => read,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(StoreError::Misconfigured {
                what: format!("cannot read the password file {shown}"),
                source: Some(error.into()),
            });
        }
    };
    if mode & 0o077 != 0 {
        let what = format!("others can read the password file {shown}: `chmod 600 {shown}`");
        return Err(misconfigured(what));
    }
    let text = String::from_utf8(bytes);
    text.map(Some)
        .map_err(|_| misconfigured(format!("the password file {shown} is not UTF-8 text")))
}

fn misconfigured(what: String) -> StoreError {
    StoreError::Misconfigured { what, source: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_first_line_that_fits_has_the_password() {
        let wanted = Wanted {
            host: "db.example.org",
            port: 5432,
            database: "holm",
            user: "me",
        };
        let check = |line: &str, expect: Option<&str>| {
            assert_eq!(password_of(line, &wanted).as_deref(), expect, "{line}");
        };
        check("db.example.org:5432:holm:me:right", Some("right"));
        check("*:*:*:me:a\\:b\\\\c", Some("a:b\\c"));
        check("#*:*:*:*:x", None);
        check("other.example.org:5432:holm:me:x", None);
        check("db.example.org:5433:holm:me:x", None);
        check("*:*:*:*", None);
    }

    #[test]
    fn a_file_that_others_can_read_is_refused_without_its_text() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("password");
        std::fs::write(&path, "hidden\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let refused = of_file(&path).unwrap_err().to_string();
        assert!(
            refused.contains("chmod 600") && !refused.contains("hidden"),
            "{refused}"
        );
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(of_file(&path).unwrap(), "hidden");
        assert!(of_file(&directory.path().join("none")).is_err());
    }
}
