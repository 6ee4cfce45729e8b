//! Frames, whole and cut.

use super::*;

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
