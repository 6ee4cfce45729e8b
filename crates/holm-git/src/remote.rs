//! Removes credentials from the URLs of remotes, and from texts that quote them.

/// The URL without passwords, tokens, query and fragment; `None` if it is a command (`ext::…`).
///
/// The user name stays for ssh, where it is part of the address and no secret.
pub fn without_credentials(url: &str) -> Option<String> {
    if let Some((helper, rest)) = url.split_once("::")
        && is_scheme(helper)
    {
        if helper == "ext" || helper == "fd" {
            return None;
        }
        return Some(format!("{helper}::{}", without_credentials(rest)?));
    }
    let Some((scheme, rest)) = url.split_once("://") else {
        return Some(url.to_owned());
    };
    if !is_scheme(scheme) {
        return Some(url.to_owned());
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let lower = scheme.to_ascii_lowercase();
    let is_ssh = matches!(lower.as_str(), "ssh" | "git+ssh" | "ssh+git");
    let user = match user {
        Some(user) if is_ssh => user.split(':').next().map(|name| format!("{name}@")),
        _ => None,
    };
    let path = match lower.as_str() {
        "file" => path,
        _ => path.split(['?', '#']).next().unwrap_or_default(),
    };
    Some(format!(
        "{scheme}://{}{host}{path}",
        user.unwrap_or_default()
    ))
}

/// Removes user names and passwords from all URLs in a text.
pub(crate) fn without_userinfo(text: &str) -> String {
    let mut parts = text.split("://");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(['/', '\'', '"', ' ']).unwrap_or(part.len());
        let (authority, rest) = part.split_at(end);
        let host = authority.rsplit('@').next().unwrap_or_default();
        plain.push_str("://");
        plain.push_str(host);
        plain.push_str(rest);
    }
    plain
}

fn is_scheme(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_url() {
        let check = |url: &str, expect: &str| {
            assert_eq!(without_credentials(url).as_deref(), Some(expect), "{url}");
        };
        check(
            "https://user:token@example.org/x.git",
            "https://example.org/x.git",
        );
        check(
            "https://token@example.org:8443/x",
            "https://example.org:8443/x",
        );
        check("HTTPS://u:p@ss@example.org/x", "HTTPS://example.org/x");
        check(
            "https://example.org/x?private_token=t#f",
            "https://example.org/x",
        );
        check("https://u:t@example.org", "https://example.org");
        check("https://u:t@example.org?x@y", "https://example.org");
        check("https://example.org/a@b", "https://example.org/a@b");
        check("git@example.org:team/x.git", "git@example.org:team/x.git");
        check("ssh://git@example.org:22/x", "ssh://git@example.org:22/x");
        check("ssh://git:secret@example.org/x", "ssh://git@example.org/x");
        check(
            "foo::https://u:t@example.org/x",
            "foo::https://example.org/x",
        );
        check("/srv/git/x y.git", "/srv/git/x y.git");
        check("../x", "../x");
        check("file:///srv/git/a?b", "file:///srv/git/a?b");
        assert_eq!(without_credentials("ext::sh -c 'x token' %S"), None);
    }

    #[test]
    fn no_complaint_tells_a_password() {
        let check = |text: &str, expect: &str| assert_eq!(without_userinfo(text), expect);
        check("fatal: no access", "fatal: no access");
        check(
            "unable to access 'https://me:se@cret@example.org/x/': 403; ssh://git@example.org/a@b",
            "unable to access 'https://example.org/x/': 403; ssh://example.org/a@b",
        );
    }
}
