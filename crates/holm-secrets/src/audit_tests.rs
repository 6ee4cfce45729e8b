//! The chain: every edit, deletion, exchange and cut is found, and writers do not disturb each other.

use super::*;

fn happening(name: &str) -> Happening {
    Happening {
        time: "2026-11-16T06:00:00Z".to_owned(),
        event: "set".to_owned(),
        who: "me".to_owned(),
        secret: Some(name.to_owned()),
        ..Happening::default()
    }
}

fn written(directory: &Path) -> (Chain, String) {
    let chain = Chain::in_directory(directory);
    for name in ["A", "B", "C", "D", "E"] {
        chain.append(&[happening(name)]).unwrap();
    }
    assert_eq!(chain.verify().unwrap(), Ok(5));
    let text = std::fs::read_to_string(&chain.lines).unwrap();
    (chain, text)
}

#[test]
fn every_change_of_a_byte_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let (chain, text) = written(directory.path());
    for at in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        bytes[at] = if bytes[at] == b'x' { b'y' } else { b'x' };
        std::fs::write(&chain.lines, &bytes).unwrap();
        assert!(chain.verify().unwrap().is_err(), "byte {at}");
    }
}

#[test]
fn lines_taken_out_exchanged_repeated_or_cut_off_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let (chain, text) = written(directory.path());
    let lines: Vec<&str> = text.lines().collect();
    let verify = |lines: &[&str]| {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(&chain.lines, text).unwrap();
        chain.verify().unwrap()
    };
    for out in 0..lines.len() {
        let mut left = lines.clone();
        left.remove(out);
        assert!(verify(&left).is_err(), "without {out}");
        let mut twice = lines.clone();
        twice.insert(out, lines[out]);
        assert!(verify(&twice).is_err(), "twice {out}");
        for other in 0..out {
            let mut moved = lines.clone();
            moved.swap(out, other);
            assert!(verify(&moved).is_err(), "{other} and {out}");
        }
        assert_eq!(verify(&lines[..out]), Err(Broken::Cut(5)));
    }
    assert_eq!(verify(&lines), Ok(5));
    std::fs::remove_file(&chain.head).unwrap();
    assert_eq!(verify(&lines), Err(Broken::NoHead));
}

#[test]
fn half_a_line_of_a_machine_that_stopped_does_not_matter() {
    let directory = tempfile::tempdir().unwrap();
    let (chain, text) = written(directory.path());
    // The line was written, the head was not.
    std::fs::write(&chain.head, {
        let line: Line = serde_json::from_str(text.lines().nth(3).unwrap()).unwrap();
        let (number, hash) = (line.number, line.hash);
        serde_json::to_vec(&Head { number, hash }).unwrap()
    })
    .unwrap();
    assert_eq!(chain.verify().unwrap(), Ok(5));
    std::fs::write(&chain.lines, format!("{text}{{\"number\":6,\"ti")).unwrap();
    chain.append(&[happening("F"), happening("G")]).unwrap();
    assert_eq!(chain.verify().unwrap(), Ok(7));
    let names: Vec<_> = chain.read().unwrap();
    let names = names.into_iter().filter_map(|line| line.happening.secret);
    assert_eq!(names.collect::<String>(), "ABCDEFG");
}

#[test]
fn many_writers_make_one_chain() {
    let directory = tempfile::tempdir().unwrap();
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let chain = Chain::in_directory(directory.path());
            std::thread::spawn(move || {
                for number in 0..25 {
                    chain
                        .append(&[happening(&format!("{writer}.{number}"))])
                        .unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    let chain = Chain::in_directory(directory.path());
    assert_eq!(chain.verify().unwrap(), Ok(100));
}
