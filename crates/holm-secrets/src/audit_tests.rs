//! Tests of the chain: every edit, deletion, swap and cut is detected, and concurrent writers do
//! not disturb each other.

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
    assert_eq!(verified(&chain), Ok(5));
    let text = std::fs::read_to_string(&chain.lines).unwrap();
    (chain, text)
}

fn verified(chain: &Chain) -> Result<u64, Broken> {
    chain.verify(None).unwrap().map(|head| head.number)
}

#[test]
fn every_change_of_a_byte_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let (chain, text) = written(directory.path());
    for at in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        bytes[at] = if bytes[at] == b'x' { b'y' } else { b'x' };
        std::fs::write(&chain.lines, &bytes).unwrap();
        assert!(verified(&chain).is_err(), "byte {at}");
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
        verified(&chain)
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
    // A crash between the line and the head.
    std::fs::write(&chain.head, {
        let line: Line = serde_json::from_str(text.lines().nth(3).unwrap()).unwrap();
        let (number, hash) = (line.number, line.hash);
        serde_json::to_vec(&Head { number, hash }).unwrap()
    })
    .unwrap();
    assert_eq!(verified(&chain), Ok(5));
    std::fs::write(&chain.lines, format!("{text}{{\"number\":6,\"ti")).unwrap();
    chain.append(&[happening("F"), happening("G")]).unwrap();
    assert_eq!(verified(&chain), Ok(7));
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
    assert_eq!(verified(&chain), Ok(100));
}

#[test]
fn who_knows_an_earlier_head_finds_what_went_and_what_was_written_anew() {
    let directory = tempfile::tempdir().unwrap();
    let (chain, text) = written(directory.path());
    let known = chain.advance(None).unwrap().unwrap();
    assert_eq!(known.number, 5);
    let check = |expected: Result<u64, Broken>| {
        let verified = chain.verify(Some(&known)).unwrap();
        assert_eq!(verified.map(|head| head.number), expected);
        assert_eq!(
            chain.advance(Some(&known)).unwrap().is_some(),
            expected.is_ok()
        );
    };
    chain.append(&[happening("F")]).unwrap();
    check(Ok(6));
    // Both files are replaced by a new, consistent chain.
    for file in [&chain.lines, &chain.head] {
        std::fs::remove_file(file).unwrap();
    }
    check(Err(Broken::Cut(5)));
    for name in ["A", "B", "C", "D", "X", "F"] {
        chain.append(&[happening(name)]).unwrap();
    }
    assert_eq!(verified(&chain), Ok(6));
    check(Err(Broken::Cut(5)));
    // Lines that were cut off stay missing when others are appended, also without the remembered
    // head.
    std::fs::write(&chain.lines, &text[..text.find("\n").unwrap() + 1]).unwrap();
    chain.append(&[happening("G")]).unwrap();
    assert_eq!(verified(&chain), Err(Broken::Changed(2)));
    check(Err(Broken::Changed(2)));
    // An invalid line does not keep holm from appending.
    std::fs::write(&chain.lines, format!("{text}{{}}\n")).unwrap();
    chain.append(&[happening("H")]).unwrap();
    assert_eq!(verified(&chain), Err(Broken::Unreadable(6)));
    assert_eq!(chain.read().unwrap().len(), 6);
}

#[test]
fn the_end_of_a_value_is_told_once() {
    let directory = tempfile::tempdir().unwrap();
    let chain = Chain::in_directory(directory.path());
    let happening = |event: &str, name: &str| Happening {
        event: event.to_owned(),
        workspace: Some("w1".to_owned()),
        ..happening(name)
    };
    chain
        .append(&[happening(RECEIVED, "A"), happening(RECEIVED, "B")])
        .unwrap();
    let end = [happening(EXPIRED, "A")];
    for _ in 0..2 {
        chain.append_ends(&end).unwrap();
    }
    chain.append(&[happening(WITHDRAWN, "B")]).unwrap();
    chain.append_ends(&[happening(EXPIRED, "B")]).unwrap();
    chain.append(&[happening(RECEIVED, "A")]).unwrap();
    chain.append_ends(&end).unwrap();
    let lines = chain.read().unwrap();
    let events: Vec<_> = lines
        .iter()
        .map(|line| line.happening.event.as_str())
        .collect();
    assert_eq!(
        events,
        [RECEIVED, RECEIVED, EXPIRED, WITHDRAWN, RECEIVED, EXPIRED]
    );
    assert_eq!(verified(&chain), Ok(6));
}
