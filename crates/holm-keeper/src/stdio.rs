//! stdin, stdout and stderr of a program inside. The keeper creates them and sends one side to
//! init; where the kernel refuses to send descriptors, init creates them and the keeper takes the
//! other side.

use crate::wire::StdStream;
use rustix::fs::{FileType, fstat};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

/// All three are connected to the keeper.
pub const PIPES: [StdStream; 3] = [StdStream::Pipe; 3];

/// None is.
pub const NOTHING: [StdStream; 3] = [StdStream::Nothing; 3];

/// Only the outputs are.
pub const OUTPUTS: [StdStream; 3] = [StdStream::Nothing, StdStream::Pipe, StdStream::Pipe];

/// Both sides of the three streams.
pub struct Stdio {
    /// The program's ends, in order.
    pub theirs: Vec<OwnedFd>,
    /// The other ends of pipes, in order.
    pub ours: Vec<OwnedFd>,
}

pub fn make(streams: [StdStream; 3]) -> io::Result<Stdio> {
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for (number, stream) in streams.into_iter().enumerate() {
        if stream == StdStream::Nothing {
            let nothing = File::options().read(true).write(true).open("/dev/null")?;
            theirs.push(nothing.into());
            continue;
        }
        let (reader, writer) = io::pipe()?;
        let (reader, writer) = (OwnedFd::from(reader), OwnedFd::from(writer));
        let is_stdin = number == 0;
        let (inside, outside) = if is_stdin {
            (reader, writer)
        } else {
            (writer, reader)
        };
        theirs.push(inside);
        ours.push(outside);
    }
    Ok(Stdio { theirs, ours })
}

/// Whether init passed one pipe per request. Init may be under a guest's control.
pub fn are_pipes(ends: &[OwnedFd], streams: [StdStream; 3]) -> bool {
    let asked = streams.iter().filter(|stream| **stream == StdStream::Pipe);
    let is_pipe = |end: &OwnedFd| {
        fstat(end).is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Fifo)
    };
    ends.len() == asked.count() && ends.iter().all(is_pipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn attack_182_only_pipes_are_taken_for_streams() {
        let made = make(PIPES).unwrap();
        assert!(are_pipes(&made.ours, PIPES));
        assert!(!are_pipes(&made.ours[..2], PIPES));
        assert!(are_pipes(&[], NOTHING));
        for path in ["/dev/null", "/proc/self/exe", "/"] {
            let file = OwnedFd::from(File::open(path).unwrap());
            assert!(!are_pipes(
                &[file],
                [StdStream::Pipe, StdStream::Nothing, StdStream::Nothing]
            ));
        }
    }

    #[test]
    fn each_stream_leads_the_right_way() {
        let Stdio { theirs, ours } =
            make([StdStream::Pipe, StdStream::Nothing, StdStream::Pipe]).unwrap();
        let [stdin, nothing, stderr]: [OwnedFd; 3] = theirs.try_into().unwrap();
        let [ours_in, ours_err]: [OwnedFd; 2] = ours.try_into().unwrap();
        for (to, from) in [(ours_in, stdin), (stderr, ours_err)] {
            File::from(to).write_all(b"x").unwrap();
            let mut text = String::new();
            File::from(from).read_to_string(&mut text).unwrap();
            assert_eq!(text, "x");
        }
        let mut nothing = File::from(nothing);
        nothing.write_all(b"x").unwrap();
        assert_eq!(nothing.read(&mut [0]).unwrap(), 0);
    }
}
