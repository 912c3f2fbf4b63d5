//! Offsets of texts in UTF-16 units.

use crate::document::{Mark, OffsetError, Text};
use crate::steps::counted;

/// A search from the start would count the bytes before the offset.
#[test]
fn a_long_text_is_not_searched_for_an_offset() {
    let text = Text::from("a🦀漢".repeat(1 << 18));
    for third in [0, 1 << 10, 1 << 18] {
        let (offset, steps) = counted(|| text.scalar_offset(4 * third));
        assert_eq!(offset, Ok(3 * third));
        assert!(steps <= 8, "{steps} steps");
        let (offset, steps) = counted(|| text.utf16_offset(3 * third));
        assert_eq!(offset, Ok(4 * third));
        assert!(steps <= 8, "{steps} steps");
    }
    let (error, steps) = counted(|| text.scalar_offset(2));
    let len = text.utf16_len();
    assert_eq!(error, Err(OffsetError::InsidePair { offset: 2, len }));
    assert!(steps <= 8, "{steps} steps");
}

#[test]
fn a_short_text_is_not_searched_for_each_of_many_marks() {
    let text = Text::from("a🦀漢".repeat(100));
    let mut marks: Vec<Mark> = (0..1_000).map(|_| Mark::new("em", 1..400)).collect();
    let (converted, steps) = counted(|| text.marks_to_scalars(None, &mut marks));
    assert_eq!(converted, Ok(()));
    assert!(marks.iter().all(|mark| mark.range == Some(1..300)));
    assert!(steps <= 2_500, "{steps} steps");
}
