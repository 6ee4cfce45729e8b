//! Layers that try to leave their root or to exhaust the machine. Beside each refusal stands what `tar -x -P` does.

use crate::support::{Tar, chain, gzip, naive, unpack_tar, unpack_within};
use holm_image::{ArchiveLimits, Compression, PackedLayer, UnpackError, digest_of, unpack};
use proptest::prelude::*;
use std::fs;
use std::io::Read;
use std::path::Path;
use tar::{EntryType, Header};

/// Unpacks to `<places>/layer`; nothing may be left after the refusal.
#[track_caller]
fn refused(places: &Path, tar: &[u8], message: &str) {
    let place = places.join("layer");
    let error = unpack_tar(tar, &place).unwrap_err();
    assert!(chain(&error).contains(message), "{}", chain(&error));
    let left: Vec<_> = fs::read_dir(places)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(
        !left
            .iter()
            .any(|name| name.to_str().unwrap().starts_with("layer")),
        "{left:?}"
    );
}

#[test]
fn attack_200_a_path_cannot_climb() {
    let places = tempfile::tempdir().unwrap();
    let tar = Tar::default().file("../climbed", b"x").end();
    refused(places.path(), &tar, "`../climbed` leaves the root");
    refused(
        places.path(),
        &Tar::default().file("a/../../climbed", b"x").end(),
        "leaves the root",
    );
    refused(
        places.path(),
        &Tar::default()
            .pax(&[("path", "../climbed")])
            .file("a", b"x")
            .end(),
        "leaves the root",
    );
    assert!(!places.path().join("climbed").exists());
    naive(&tar, &places.path().join("naive"));
    assert!(
        places.path().join("climbed").exists(),
        "tar -x writes outside"
    );
}

/// `chown` takes the largest id as "no change", so such a file would keep the owner of the program that unpacks.
#[test]
fn attack_200_an_owner_or_time_that_is_no_number_is_refused() {
    let places = tempfile::tempdir().unwrap();
    for (key, value) in [
        ("uid", "root"),
        ("uid", "4294967295"),
        ("gid", "-1"),
        ("gid", "4294967296"),
        ("mtime", "soon"),
        ("mtime", "1.+5"),
    ] {
        let tar = Tar::default().pax(&[(key, value)]).file("a", b"x").end();
        let message = format!("`a` has a header that cannot be read: `{key}` is malformed");
        refused(places.path(), &tar, &message);
    }
    let mut header = Header::new_gnu();
    header.set_path("a").unwrap();
    header.set_entry_type(EntryType::Regular);
    header.set_uid(u64::from(u32::MAX));
    header.set_gid(0);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_size(0);
    header.set_cksum();
    let tar = Tar::default().raw(&header, b"").end();
    refused(places.path(), &tar, "`uid` is malformed");
}

#[test]
fn attack_200_an_absolute_name_stays_inside() {
    let places = tempfile::tempdir().unwrap();
    let outside = places.path().join("outside");
    let tar = Tar::default().file(outside.to_str().unwrap(), b"x").end();
    unpack_tar(&tar, &places.path().join("layer")).unwrap();
    assert!(!outside.exists());
    let inside = outside.strip_prefix("/").unwrap();
    assert!(places.path().join("layer/tree").join(inside).is_file());
    naive(&tar, &places.path().join("naive"));
    assert!(outside.exists(), "tar -x writes outside");
}

#[test]
fn attack_200_a_link_is_not_written_through() {
    let places = tempfile::tempdir().unwrap();
    let outside = places.path().join("outside");
    fs::create_dir(&outside).unwrap();
    for target in [outside.to_str().unwrap(), "../outside", "../../outside"] {
        let tar = Tar::default()
            .symlink("door", target)
            .file("door/planted", b"x")
            .end();
        refused(places.path(), &tar, "`door/planted` below a symbolic link");
        let tar = Tar::default()
            .symlink("door", target)
            .directory("door/planted")
            .end();
        refused(places.path(), &tar, "below a symbolic link");
        let tar = Tar::default()
            .symlink("door", target)
            .file("door/.wh.planted", b"")
            .end();
        refused(places.path(), &tar, "below a symbolic link");
        let tar = Tar::default()
            .symlink("door", target)
            .file("door/.wh..wh..opq", b"")
            .end();
        refused(places.path(), &tar, "below a symbolic link");
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    // Also in the middle of a path, and if the target is inside: a link is never a directory of the layer.
    fs::create_dir(outside.join("deep")).unwrap();
    let target = outside.to_str().unwrap();
    let tar = Tar::default()
        .symlink("door", target)
        .file("door/deep/planted", b"x")
        .end();
    refused(places.path(), &tar, "below a symbolic link");
    let tar = Tar::default()
        .directory("own/deep")
        .symlink("door", "own")
        .file("door/deep/x", b"")
        .end();
    refused(places.path(), &tar, "below a symbolic link");
    assert_eq!(fs::read_dir(outside.join("deep")).unwrap().count(), 0);
    let tar = Tar::default()
        .symlink("door", outside.to_str().unwrap())
        .file("door/planted", b"x")
        .end();
    naive(&tar, &places.path().join("naive"));
    assert!(
        outside.join("planted").exists(),
        "tar -x writes through the link"
    );
}

#[test]
fn attack_200_a_file_replaces_a_link_instead_of_following_it() {
    let places = tempfile::tempdir().unwrap();
    let outside = places.path().join("outside");
    fs::write(&outside, b"safe").unwrap();
    let tar = Tar::default()
        .symlink("door", outside.to_str().unwrap())
        .file("door", b"overwritten")
        .end();
    unpack_tar(&tar, &places.path().join("layer")).unwrap();
    assert_eq!(fs::read(&outside).unwrap(), b"safe");
    // The counterpart: a program that opens the name for writing follows the link.
    let naive = places.path().join("naive");
    std::os::unix::fs::symlink(&outside, &naive).unwrap();
    fs::write(&naive, b"overwritten").unwrap();
    assert_eq!(fs::read(&outside).unwrap(), b"overwritten");
}

#[test]
fn attack_200_a_hard_link_cannot_reach_outside() {
    let places = tempfile::tempdir().unwrap();
    let outside = places.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), b"secret").unwrap();
    let secret = outside.join("secret");
    let absolute = Tar::default()
        .link("stolen", secret.to_str().unwrap())
        .file("stolen", b"")
        .end();
    refused(places.path(), &absolute, "which is no file of this layer");
    refused(
        places.path(),
        &Tar::default().link("stolen", "../outside/secret").end(),
        "leaves the root",
    );
    let through = Tar::default()
        .symlink("door", outside.to_str().unwrap())
        .link("stolen", "door/secret")
        .end();
    refused(places.path(), &through, "which is no file of this layer");
    refused(
        places.path(),
        &Tar::default().directory("d").link("e", "d").end(),
        "which is no file of this layer",
    );
    refused(
        places.path(),
        &Tar::default().link("e", "e").end(),
        "which is no file of this layer",
    );
    // A hard link to a symbolic link is that link, and never its target.
    let tar = Tar::default()
        .symlink("door", secret.to_str().unwrap())
        .link("stolen", "door")
        .end();
    unpack_tar(&tar, &places.path().join("layer")).unwrap();
    assert!(places.path().join("layer/tree/stolen").is_symlink());
    naive(&absolute[..512], &places.path().join("naive"));
    assert_eq!(
        fs::read(places.path().join("naive/stolen")).unwrap(),
        b"secret",
        "tar -x links the host's file"
    );
}

#[test]
fn attack_200_whiteouts_name_one_file_of_their_directory() {
    let places = tempfile::tempdir().unwrap();
    for name in [
        "a/.wh..",
        "a/.wh...",
        "a/.wh.",
        ".wh.a/b",
        ".wh..wh.aufs",
        ".wh..wh..opq/x",
        "a/.wh..wh.b",
    ] {
        refused(
            places.path(),
            &Tar::default().file(name, b"").end(),
            "is not a whiteout",
        );
    }
    refused(
        places.path(),
        &Tar::default().symlink(".wh.a", "/etc").end(),
        "is not a whiteout",
    );
    refused(
        places.path(),
        &Tar::default().file("x", b"").link("y", ".wh.x").end(),
        "is not a whiteout",
    );
}

#[test]
fn attack_200_a_link_to_a_whiteout_is_refused() {
    let places = tempfile::tempdir().unwrap();
    let tar = Tar::default().file(".wh.a", b"").link("b", "a").end();
    refused(places.path(), &tar, "which is no file of this layer");
}

#[test]
fn attack_200_a_directory_with_content_is_not_replaced() {
    let places = tempfile::tempdir().unwrap();
    let tar = Tar::default().file("d/x", b"").symlink("d", "/etc").end();
    refused(places.path(), &tar, "replaces the directory `d`");
    refused(
        places.path(),
        &Tar::default()
            .entry(EntryType::Symlink, "./", "/etc", 0o777, b"")
            .end(),
        "is the root",
    );
    refused(
        places.path(),
        &Tar::default()
            .entry(EntryType::new(b'Q'), "x", "", 0o777, b"")
            .end(),
        "unknown type 0x51",
    );
}

#[test]
fn attack_200_headers_entries_and_names_are_bounded() {
    let places = tempfile::tempdir().unwrap();
    let huge = "x".repeat(3 << 20);
    let tar = Tar::default()
        .pax(&[("comment", &huge)])
        .file("a", b"")
        .end();
    refused(
        places.path(),
        &tar,
        "the headers of an entry have more than 1048576 bytes",
    );
    let longname = Tar::default()
        .entry(
            EntryType::GNULongName,
            "././@LongLink",
            "",
            0,
            huge.as_bytes(),
        )
        .file("a", b"")
        .end();
    refused(places.path(), &longname, "the headers of an entry");
    let name = "y/".repeat(4000);
    refused(
        places.path(),
        &Tar::default().pax(&[("path", &name)]).file("a", b"").end(),
        "path of an entry has more than 4096",
    );
    let part = "z".repeat(256);
    refused(
        places.path(),
        &Tar::default().pax(&[("path", &part)]).file("a", b"").end(),
        "a part of more than 255 bytes",
    );
    let limits = ArchiveLimits {
        entries: 2,
        ..ArchiveLimits::default()
    };
    let three = Tar::default()
        .file("a", b"")
        .file("b", b"")
        .file("c", b"")
        .end();
    let error = unpack_within(&three, &places.path().join("layer"), limits).unwrap_err();
    assert!(chain(&error).contains("more than 2 entries"), "{error:?}");
    // The counterpart: the same file is no problem within the limits.
    unpack_tar(&three, &places.path().join("three")).unwrap();
    let mut pax = tar::Archive::new(tar.as_slice());
    assert_eq!(
        pax.entries().unwrap().count(),
        1,
        "without the bound the whole header is in memory"
    );
}

#[test]
fn attack_200_bombs_stop_early() {
    let places = tempfile::tempdir().unwrap();
    let place = places.path().join("layer");
    let tar = Tar::default().file("zeros", &vec![0; 80 << 20]).end();
    let packed = gzip(&tar);
    let layer = || PackedLayer {
        content: packed.as_slice(),
        compression: Compression::Gzip,
        digest: digest_of(&tar),
    };
    let limits = ArchiveLimits {
        ratio: 20,
        ..ArchiveLimits::default()
    };
    let error = unpack(layer(), &place, limits).unwrap_err();
    assert!(
        chain(&error).contains("more than 20 times"),
        "{}",
        chain(&error)
    );
    let limits = ArchiveLimits {
        bytes: 1 << 20,
        ..ArchiveLimits::default()
    };
    let error = unpack(layer(), &place, limits).unwrap_err();
    assert!(
        chain(&error).contains("more than 1048576 bytes"),
        "{}",
        chain(&error)
    );
    let mut naive = Vec::new();
    flate2::read::GzDecoder::new(packed.as_slice())
        .read_to_end(&mut naive)
        .unwrap();
    assert!(
        naive.len() > 100 * packed.len(),
        "without a bound, everything comes out"
    );
}

#[test]
fn attack_200_a_sparse_file_counts_with_its_real_size() {
    let places = tempfile::tempdir().unwrap();
    let mut header = Header::new_gnu();
    header.set_path("sparse").unwrap();
    header.set_entry_type(EntryType::GNUSparse);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(0);
    let gnu = header.as_gnu_mut().unwrap();
    let real: u64 = 1 << 40;
    gnu.sparse[0].offset = [0x80, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0];
    gnu.realsize = [0x80, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0];
    gnu.sparse[0].numbytes = *b"00000000000\0";
    header.set_cksum();
    let tar = Tar::default().raw(&header, b"").end();
    let mut archive = tar::Archive::new(tar.as_slice());
    let entry = archive.entries().unwrap().next().unwrap().unwrap();
    assert_eq!(entry.size(), real, "512 bytes become a terabyte");
    refused(
        places.path(),
        &tar,
        "the archive has more than 68719476736 bytes",
    );
}

#[test]
fn attack_200_truncated_and_changed_layers_are_refused() {
    let places = tempfile::tempdir().unwrap();
    let tar = Tar::default().file("a", &[1; 5000]).end();
    refused(places.path(), &tar[..2048], "ends in the middle of `a`");
    let wrong = PackedLayer {
        content: tar.as_slice(),
        compression: Compression::None,
        digest: digest_of(b"other"),
    };
    let error = unpack(
        wrong,
        &places.path().join("layer"),
        ArchiveLimits::default(),
    )
    .unwrap_err();
    assert!(matches!(error, UnpackError::Digest { .. }), "{error:?}");
    let packed = gzip(&tar);
    let cut = PackedLayer {
        content: &packed[..packed.len() - 9],
        compression: Compression::Gzip,
        digest: digest_of(&tar),
    };
    unpack(cut, &places.path().join("layer"), ArchiveLimits::default()).unwrap_err();
    assert!(!places.path().join("layer").exists());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Random entries with few names, so that they meet: the directory beside the layer stays as it was.
    #[test]
    fn no_sequence_of_entries_leaves_the_root(
        entries in prop::collection::vec((0..4u8, "(\\.\\./|/)?[ab](/[ab]){0,2}", "(/|\\.\\./\\.\\./)?(outside|a|b)(/[ab])?"), 1..12)
    ) {
        let places = tempfile::tempdir().unwrap();
        let outside = places.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("a"), b"safe").unwrap();
        let mut tar = Tar::default();
        for (kind, path, target) in &entries {
            let target = target.replacen("/outside", outside.to_str().unwrap(), 1);
            tar = match kind {
                0 => tar.file(path, b"planted"),
                1 => tar.directory(path),
                2 => tar.symlink(path, &target),
                _ => tar.link(path, &target),
            };
        }
        // Both outcomes are right, as long as nothing outside changes.
        let _ = unpack_tar(&tar.end(), &places.path().join("layer"));
        prop_assert_eq!(fs::read(outside.join("a")).unwrap(), b"safe");
        prop_assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
        prop_assert!(fs::read_dir(places.path()).unwrap().count() <= 2);
    }
}
