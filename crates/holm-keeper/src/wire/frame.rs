//! Frames of length, channel and payload. Used on both sides of the control socket.

use super::{Answer, MAX_FRAME, channel};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;

pub fn frame(channel: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(payload.len() + 5);
    bytes.extend((payload.len() as u32).to_le_bytes());
    bytes.push(channel);
    bytes.extend(payload);
    bytes
}

pub fn control_frame<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    Ok(frame(channel::CONTROL, &serde_json::to_vec(message)?))
}

/// Sends one message to the client of a keeper.
pub fn send_answer(mut stream: &UnixStream, answer: &Answer) -> io::Result<()> {
    stream.write_all(&control_frame(answer)?)
}

/// Takes the first complete frame out of `buffer`.
pub fn take_frame(buffer: &mut Vec<u8>) -> io::Result<Option<(u8, Vec<u8>)>> {
    let Some((header, _)) = buffer.split_first_chunk::<5>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
    if length > MAX_FRAME {
        let message = format!("a frame of {length} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    if buffer.len() < 5 + length {
        return Ok(None);
    }
    let channel = header[4];
    let payload = buffer[5..5 + length].to_vec();
    buffer.drain(..5 + length);
    Ok(Some((channel, payload)))
}

/// Reads one control frame from a blocking stream.
pub fn read_control<T: for<'a> Deserialize<'a>>(stream: &mut impl io::Read) -> io::Result<T> {
    let mut header = [0; 5];
    stream.read_exact(&mut header)?;
    let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
    if length > MAX_FRAME || header[4] != channel::CONTROL {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "not a control frame",
        ));
    }
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload)?;
    Ok(serde_json::from_slice(&payload)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Answer;

    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_cut() {
        let bytes = [frame(2, b"hello"), frame(3, b""), frame(1, &[0; 70_000])].concat();
        for cut in [1, 2, 4, 5, 6, 1000, bytes.len()] {
            let (mut buffer, mut found) = (Vec::new(), Vec::new());
            for piece in bytes.chunks(cut) {
                buffer.extend(piece);
                while let Some(frame) = take_frame(&mut buffer).unwrap() {
                    found.push(frame);
                }
            }
            assert_eq!(
                found,
                [(2, b"hello".to_vec()), (3, vec![]), (1, vec![0; 70_000])]
            );
        }
    }

    #[test]
    fn a_length_that_cannot_be_is_an_error() {
        let mut buffer = [u32::MAX.to_le_bytes().as_slice(), &[0]].concat();
        assert!(take_frame(&mut buffer).is_err());
        assert!(read_control::<Answer>(&mut buffer.as_slice()).is_err());
    }
}
