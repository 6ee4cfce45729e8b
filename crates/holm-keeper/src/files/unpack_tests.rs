//! Archives that different readers understand differently (attack 26): [`unpack`] produces what GNU
//! tar lists, or refuses.

use super::unpack::unpack;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

/// One header block, written without a library, which would refuse it.
fn header(kind: u8, name: &str, size: usize, link: &str) -> Vec<u8> {
    let mut block = vec![0; 512];
    block[..name.len()].copy_from_slice(name.as_bytes());
    block[100..107].copy_from_slice(b"0000644");
    block[108..115].copy_from_slice(b"0000000");
    block[116..123].copy_from_slice(b"0000000");
    block[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
    block[136..147].copy_from_slice(b"00000000000");
    block[156] = kind;
    block[157..157 + link.len()].copy_from_slice(link.as_bytes());
    block[257..265].copy_from_slice(b"ustar\x0000");
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    block
}

fn padded(mut content: Vec<u8>) -> Vec<u8> {
    content.resize(content.len().next_multiple_of(512), 0);
    content
}

fn entry(kind: u8, name: &str, content: &[u8]) -> Vec<u8> {
    [
        header(kind, name, content.len(), ""),
        padded(content.to_vec()),
    ]
    .concat()
}

/// An extended header for the next entry.
fn pax(records: &[(&str, &str)]) -> Vec<u8> {
    let mut text = String::new();
    for (key, value) in records {
        let rest = format!(" {key}={value}\n");
        let mut length = rest.len() + 1;
        while length != rest.len() + length.to_string().len() {
            length += 1;
        }
        text.push_str(&format!("{length}{rest}"));
    }
    entry(b'x', "pax", text.as_bytes())
}

fn end() -> Vec<u8> {
    vec![0; 1024]
}

/// What GNU tar lists; `None` when it complains.
fn listed(archive: &Path) -> Option<BTreeSet<String>> {
    let output = Command::new("tar")
        .args([
            "--list",
            "--absolute-names",
            "--quoting-style=literal",
            "--file",
        ])
        .arg(archive)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let names = text
        .lines()
        .map(|line| line.trim_end_matches('/').to_owned());
    output.status.success().then(|| names.collect())
}

/// The unpacked files, symlinks and empty directories.
fn found(directory: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut left = vec![directory.to_owned()];
    while let Some(here) = left.pop() {
        let entries: Vec<_> = fs::read_dir(&here).unwrap().flatten().collect();
        if entries.is_empty() && here != directory {
            names.insert(here.strip_prefix(directory).unwrap().display().to_string());
        }
        for entry in entries {
            if entry.file_type().unwrap().is_dir() {
                left.push(entry.path());
            } else {
                let path = entry.path();
                names.insert(path.strip_prefix(directory).unwrap().display().to_string());
            }
        }
    }
    names
}

fn laid_out(
    place: &Path,
    archive: &[Vec<u8>],
) -> (io::Result<BTreeSet<String>>, Option<BTreeSet<String>>) {
    let (path, into) = (place.join("archive.tar"), place.join("into"));
    let _ = fs::remove_dir_all(&into);
    fs::create_dir(&into).unwrap();
    fs::write(&path, archive.concat()).unwrap();
    (unpack(&path, &into).map(|()| found(&into)), listed(&path))
}

#[test]
fn attack_26_it_reads_what_tar_reads() {
    let place = tempfile::tempdir().unwrap();
    // An archive inside an archive: a reader that counts wrong takes its entries for the outer
    // one's.
    let inner = [entry(b'0', "evil", b"evil"), end()].concat();
    let size = inner.len().to_string();
    let cases: Vec<(&str, Vec<Vec<u8>>)> = vec![
        (
            "plain",
            vec![entry(b'0', "a", b"hello"), entry(b'5', "d/", b""), end()],
        ),
        (
            "the extended size is larger",
            vec![
                pax(&[("size", &size)]),
                header(b'0', "a", 0, ""),
                inner.clone(),
                entry(b'0', "b", b""),
                end(),
            ],
        ),
        (
            "the extended size is smaller",
            vec![
                pax(&[("size", "0")]),
                header(b'0', "a", inner.len(), ""),
                inner.clone(),
                end(),
            ],
        ),
        (
            "the extended size is given twice",
            vec![
                pax(&[("size", "0"), ("size", &size)]),
                header(b'0', "a", 0, ""),
                inner.clone(),
                end(),
            ],
        ),
        (
            "the same name twice",
            vec![entry(b'0', "a", b"one"), entry(b'0', "a", b"two"), end()],
        ),
        (
            "an extended name",
            vec![
                pax(&[("path", "long/name")]),
                entry(b'0', "short", b"x"),
                end(),
            ],
        ),
        (
            "a long name of GNU",
            vec![
                entry(b'L', "././@LongLink", b"really/long\0"),
                entry(b'0', "short", b"x"),
                end(),
            ],
        ),
        (
            "a directory with a size",
            vec![header(b'5', "d", inner.len(), ""), inner.clone(), end()],
        ),
        (
            "a link with a size",
            vec![header(b'2', "l", inner.len(), "a"), inner.clone(), end()],
        ),
        (
            "old files that are directories",
            vec![entry(b'\0', "d/", b""), end()],
        ),
        (
            "cut short",
            vec![header(b'0', "a", 4096, ""), vec![b'x'; 512]],
        ),
        (
            "a wrong checksum",
            vec![
                {
                    let mut block = header(b'0', "a", 0, "");
                    block[0] = b'b';
                    block
                },
                end(),
            ],
        ),
        (
            "a sparse file that is huge",
            vec![
                pax(&[
                    ("GNU.sparse.major", "1"),
                    ("GNU.sparse.minor", "0"),
                    ("GNU.sparse.name", "huge"),
                    ("GNU.sparse.realsize", "1099511627776"),
                ]),
                entry(
                    b'0',
                    "GNUSparseFile.0/huge",
                    &padded(b"1\n1099511627775\n1\n".to_vec()),
                ),
                end(),
            ],
        ),
        (
            "a character device",
            vec![entry(b'3', "device", b""), end()],
        ),
        ("a block device", vec![entry(b'4', "device", b""), end()]),
        (
            "a global header",
            vec![
                entry(b'g', "pax", b"15 path=evil/x\n"),
                entry(b'0', "a", b""),
                end(),
            ],
        ),
        (
            "a hard link out",
            vec![header(b'1', "hard", 0, "/etc/passwd"), end()],
        ),
        (
            "a file over a directory",
            vec![entry(b'0', "a/b", b""), entry(b'0', "a", b""), end()],
        ),
    ];
    let mut taken = Vec::new();
    for (what, archive) in &cases {
        let (ours, theirs) = laid_out(place.path(), archive);
        if let Ok(names) = ours {
            assert_eq!(Some(&names), theirs.as_ref(), "{what}");
            taken.push(*what);
        }
    }
    // Makes sure that some archives are accepted, so that the comparison means something.
    for what in [
        "plain",
        "the same name twice",
        "an extended name",
        "a long name of GNU",
        "the extended size is larger",
    ] {
        assert!(taken.contains(&what), "{what} is refused; taken: {taken:?}");
    }
    for what in [
        "cut short",
        "a character device",
        "a block device",
        "a hard link out",
        "a wrong checksum",
        "a sparse file that is huge",
    ] {
        assert!(!taken.contains(&what), "{what} is taken");
    }
}

#[test]
fn attack_26_a_hundred_thousand_entries() {
    // In memory, because only parsing is tested.
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    };
    let one = [entry(b'0', "a", b"x"), entry(b'5', "d/e/", b"")].concat();
    let mut archive = vec![one; 50_000];
    archive.push(end());
    let (ours, theirs) = laid_out(place.path(), &archive);
    assert_eq!(Some(ours.unwrap()), theirs);
}
