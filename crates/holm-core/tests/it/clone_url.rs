//! Which URLs are cloned, and which of them are one repository.

use holm_core::clone_url::{CloneUrl, UrlRefusal};

#[test]
fn one_repository_has_one_identity() {
    let check = |url: &str, written: &str, identity: &str, name: &str| {
        let url = CloneUrl::parse(url).unwrap_or_else(|refusal| panic!("{url}: {refusal}"));
        assert_eq!(url.to_string(), written);
        assert_eq!(url.identity(), identity);
        assert_eq!(url.name(), name);
    };
    let plain = "https://example.org/team/shop";
    for spelling in [
        "https://example.org/team/shop",
        "HTTPS://Example.ORG:443/team/shop",
        "https://token@example.org/team/shop",
    ] {
        check(spelling, plain, plain, "shop");
    }
    check(
        "https://example.org/team/shop.git",
        &format!("{plain}.git"),
        plain,
        "shop",
    );
    check(
        "https://example.org/team/shop/",
        &format!("{plain}/"),
        plain,
        "shop",
    );
    let other = "https://example.org:8443/Team/shop";
    check(other, other, other, "shop");

    let ssh = "ssh://git@example.org/~/team/shop";
    check(
        "git@example.org:team/shop.git",
        &format!("{ssh}.git"),
        ssh,
        "shop",
    );
    let absolute = "ssh://git@example.org/srv/shop";
    for spelling in [
        "git@Example.org:/srv/shop",
        "ssh://git@example.org:22/srv/shop",
        "git+ssh://git@example.org/srv/shop",
        "ssh+git://git@example.org/srv/shop",
    ] {
        check(spelling, absolute, absolute, "shop");
    }
    let no_user = "ssh://example.org:2222/srv/shop";
    check(no_user, no_user, no_user, "shop");
    let wide = "ssh://git@[::1]:2222/srv/shop";
    check(wide, wide, wide, "shop");
    check(
        "git@[::1]:/srv/shop",
        "ssh://git@[::1]/srv/shop",
        "ssh://git@[::1]/srv/shop",
        "shop",
    );
}

#[test]
fn what_reaches_no_server_is_refused() {
    let check =
        |url: &str, expect: UrlRefusal| assert_eq!(CloneUrl::parse(url), Err(expect), "{url:?}");
    let transport = |name: &str| UrlRefusal::Transport(name.to_owned());
    for local in [
        "file:///srv/shop.git",
        "FILE:///srv/shop",
        "/srv/shop",
        "../shop",
        "./shop",
        "~/shop",
    ] {
        check(local, UrlRefusal::Local);
    }
    check("ext::sh -c x", UrlRefusal::Malformed);
    check("ext::sh", transport("ext"));
    check("fd::17", transport("fd"));
    check("http://example.org/shop", transport("http"));
    check("git://example.org/shop", transport("git"));
    check("ftp://example.org/shop", transport("ftp"));
    check("foo::https://example.org/x", transport("foo::https"));
    for secret in [
        "https://me:pass@example.org/shop",
        "ssh://git:pass@example.org/shop",
        "https://example.org/shop?private_token=t",
        "https://example.org/shop#t",
    ] {
        check(secret, UrlRefusal::Secret);
    }
    for malformed in [
        "",
        "shop",
        "example.org:shop",
        "--upload-pack=x",
        "-oProxyCommand=x@example.org:shop",
        "git@-oProxyCommand=x:shop",
        "ssh://-oProxyCommand=x/shop",
        "ssh://-x@example.org/shop",
        "ssh://git@example.org",
        "https://example.org/",
        "https://example.org/..",
        "https://example.org/.git",
        "https:///shop",
        "https://example.org:x/shop",
        "https://example.org:99999/shop",
        "https://exa mple.org/shop",
        "https://example.org/a\nb",
        "https://example.org/a\0b",
        "git@example.org::x",
        "git@example.org:-x",
        "git@example.org:",
        "a/b@c:d",
        "git@exa$(x)mple.org:shop",
        "ssh://git@exa;mple.org/shop",
    ] {
        check(malformed, UrlRefusal::Malformed);
    }
    assert!(CloneUrl::parse(&format!("https://example.org/{}", "a".repeat(3000))).is_err());
}
