//! What an honest layer becomes, and that overlayfs understands it.

use crate::support::{Tar, gzip, unpack_tar};
use holm_image::{
    ArchiveLimits, Compression, LeftOut, PackedLayer, Reason, digest_of, read_owners, unpack,
};
use rustix::fs::getxattr;
use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::process::Command;
use tar::{EntryType, Header};

#[test]
fn files_links_modes_and_times_are_kept() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().join("layer");
    let tar = Tar::default()
        .directory("./")
        .entry(EntryType::Directory, "closed/", "", 0o500, b"")
        .entry(EntryType::Regular, "closed/tool", "", 0o755, b"#!/bin/sh\n")
        .link("again", "closed/tool")
        .symlink("there", "/etc/passwd")
        .file("/absolute", b"in the root of the image")
        .file("deep/without/parents", b"x")
        .pax(&[
            ("SCHILY.xattr.user.note", "kept"),
            ("mtime", "1600000000.25"),
        ])
        .file("noted", b"x")
        .end();
    let unpacked = unpack_tar(&tar, &place).unwrap();
    assert_eq!(unpacked.left_out, []);
    let tree = place.join("tree");
    let tool = fs::metadata(tree.join("closed/tool")).unwrap();
    assert_eq!(
        (tool.mode() & 0o7777, tool.mtime(), tool.nlink()),
        (0o755, 1_700_000_000, 2)
    );
    let closed = fs::metadata(tree.join("closed")).unwrap();
    assert_eq!(
        (closed.mode() & 0o7777, closed.mtime()),
        (0o500, 1_700_000_000)
    );
    assert_eq!(fs::metadata(tree.join("again")).unwrap().ino(), tool.ino());
    assert_eq!(
        fs::read_link(tree.join("there")).unwrap(),
        Path::new("/etc/passwd")
    );
    assert!(tree.join("absolute").is_file() && tree.join("deep/without/parents").is_file());
    let noted = fs::metadata(tree.join("noted")).unwrap();
    assert_eq!(
        (noted.mtime(), noted.mtime_nsec()),
        (1_600_000_000, 250_000_000)
    );
    let mut value = [0; 16];
    let length = getxattr(tree.join("noted"), "user.note", &mut value).unwrap();
    assert_eq!(&value[..length], b"kept");
}

#[test]
fn owners_are_recorded_beside_the_tree() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().join("layer");
    let mut header = Header::new_gnu();
    header.set_path("data").unwrap();
    header.set_mode(0o600);
    header.set_mtime(0);
    header.set_uid(999);
    header.set_gid(998);
    header.set_size(0);
    header.set_cksum();
    let tar = Tar::default()
        .raw(&header, b"")
        .link("same", "data")
        .file("of-root", b"")
        .end();
    unpack_tar(&tar, &place).unwrap();
    let owners = read_owners(File::open(place.join("owners")).unwrap()).unwrap();
    let owners: Vec<_> = owners
        .iter()
        .map(|(path, owner)| (path.to_str().unwrap(), owner.user, owner.group))
        .collect();
    assert_eq!(owners, [("data", 999, 998), ("same", 999, 998)]);
    assert!(
        read_owners(b"1:2:x".as_slice()).is_err() && read_owners(b"1:x:y\0".as_slice()).is_err()
    );
}

#[test]
fn compressed_layers_are_unpacked() {
    let place = tempfile::tempdir().unwrap();
    let tar = Tar::default().file("a", &[7; 300_000]).end();
    let frame = |bytes: &[u8]| {
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        ruzstd::encoding::compress_to_vec(bytes, level)
    };
    let half = tar.len() / 2;
    // Several frames, and one to be skipped, as programs that compress in parallel write.
    let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0], b"xyz".as_slice()].concat();
    let zstd = [frame(&tar[..half]), skipped, frame(&tar[half..])].concat();
    let members = [gzip(&tar[..half]), gzip(&tar[half..])].concat();
    for (name, bytes, compression) in [
        ("gzip", members, Compression::Gzip),
        ("zstd", zstd, Compression::Zstd),
    ] {
        let place = place.path().join(name);
        let digest = digest_of(&tar);
        let layer = PackedLayer {
            content: bytes.as_slice(),
            compression,
            digest,
        };
        unpack(layer, &place, ArchiveLimits::default()).unwrap();
        assert_eq!(
            fs::read(place.join("tree/a")).unwrap(),
            [7; 300_000],
            "{name}"
        );
    }
}

#[test]
fn devices_fifos_and_privileges_are_left_out_and_reported() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().join("layer");
    let tar = Tar::default()
        .entry(EntryType::Char, "dev/null", "", 0o666, b"")
        .entry(EntryType::Block, "dev/sda", "", 0o666, b"")
        .entry(EntryType::Fifo, "pipe", "", 0o666, b"")
        .entry(EntryType::Regular, "su", "", 0o6755, b"x")
        .pax(&[
            ("SCHILY.xattr.security.capability", "cap"),
            ("SCHILY.xattr.user.overlay.opaque", "y"),
        ])
        .file("ping", b"x")
        .end();
    let unpacked = unpack_tar(&tar, &place).unwrap();
    let reported = |path: &str, reason| LeftOut {
        path: path.to_owned(),
        reason,
    };
    assert_eq!(
        unpacked.left_out,
        [
            reported("dev/null", Reason::Device),
            reported("dev/sda", Reason::Device),
            reported("pipe", Reason::Fifo),
            reported("su", Reason::SetId),
            reported("ping", Reason::Attribute("security.capability".into())),
            reported("ping", Reason::Attribute("user.overlay.opaque".into())),
        ]
    );
    assert_eq!(unpacked.files, 2, "`su` and `ping`");
    let tree = place.join("tree");
    assert_eq!(
        fs::metadata(tree.join("su")).unwrap().mode() & 0o7777,
        0o755
    );
    assert!(!tree.join("pipe").exists() && !tree.join("dev/null").exists());
    assert!(getxattr(tree.join("ping"), "user.overlay.opaque", &mut [0u8; 4]).is_err());
    // The counterpart: GNU tar sets the bits and makes the fifo.
    let naive = place.with_file_name("naive");
    crate::support::naive(&tar, &naive);
    assert_eq!(
        fs::metadata(naive.join("su")).unwrap().mode() & 0o7777,
        0o6755
    );
    assert!(
        fs::metadata(naive.join("pipe"))
            .unwrap()
            .file_type()
            .is_fifo()
    );
}

#[test]
fn whiteouts_hide_what_is_below_and_never_what_is_beside() {
    let places = tempfile::tempdir().unwrap();
    let at = |name: &str| places.path().join(name);
    let lower = Tar::default()
        .file("gone", b"")
        .file("dir/old", b"")
        .file("opaque/old", b"")
        .file("kept/old", b"")
        .end();
    let upper = Tar::default()
        .file(".wh.gone", b"")
        .file(".wh.dir", b"")
        .file("dir/new", b"")
        .file("opaque/new", b"")
        .file("opaque/.wh..wh..opq", b"")
        .file("kept/new", b"")
        .file("kept/.wh.new", b"")
        .end();
    unpack_tar(&lower, &at("lower")).unwrap();
    assert!(!unpack_tar(&upper, &at("upper")).unwrap().hides_everything);
    let tree = at("upper").join("tree");
    let gone = fs::symlink_metadata(tree.join("gone")).unwrap();
    assert!(gone.file_type().is_char_device() && gone.rdev() == 0);
    for directory in ["dir", "opaque"] {
        let mut value = [0; 4];
        let length = getxattr(tree.join(directory), "user.overlay.opaque", &mut value).unwrap();
        assert_eq!(&value[..length], b"y", "{directory}");
    }
    assert!(tree.join("kept/new").is_file());
    // The kernel's own answer.
    fs::create_dir(at("merged")).unwrap();
    let script = "mount -t overlay -o userxattr,lowerdir=upper/tree:lower/tree none merged && cd merged && find . | sort";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .current_dir(places.path())
        .output()
        .unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        listed.lines().collect::<Vec<_>>(),
        [
            ".",
            "./dir",
            "./dir/new",
            "./kept",
            "./kept/new",
            "./kept/old",
            "./opaque",
            "./opaque/new"
        ],
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn an_opaque_root_is_reported_because_overlayfs_cannot_express_it() {
    let places = tempfile::tempdir().unwrap();
    let tar = Tar::default().file(".wh..wh..opq", b"").end();
    assert!(
        unpack_tar(&tar, &places.path().join("layer"))
            .unwrap()
            .hides_everything
    );
}

#[test]
fn the_last_of_several_entries_counts() {
    let places = tempfile::tempdir().unwrap();
    let place = places.path().join("layer");
    let tar = Tar::default()
        .file("a", b"first")
        .file("a", b"second")
        .symlink("b", "a")
        .file("b", b"own")
        .directory("c")
        .file("c", b"now a file")
        .file("d", b"")
        .directory("d")
        .file("d/e", b"")
        .end();
    unpack_tar(&tar, &place).unwrap();
    let read = |name: &str| fs::read_to_string(place.join("tree").join(name)).unwrap();
    assert_eq!(
        (read("a"), read("b"), read("c")),
        ("second".into(), "own".into(), "now a file".into())
    );
    assert!(place.join("tree/d/e").is_file());
}
