//! TEXT 1: offsets in UTF-16 units.

use doclock::document::{Mark, NodeSpec, OffsetError, Text, TextUnit};
use doclock::dsl::create;
use doclock::{DataStore, TransactionManager, View};
use proptest::prelude::*;

/// The offset of each UTF-16 unit, and of the end, in scalar values; `None` inside a surrogate
/// pair.
fn reference(text: &str) -> Vec<Option<usize>> {
    let mut places = Vec::new();
    for (scalar, character) in text.chars().enumerate() {
        let units = character.encode_utf16(&mut [0; 2]).len();
        places.extend((0..units).map(|unit| (unit == 0).then_some(scalar)));
    }
    places.push(Some(text.chars().count()));
    assert_eq!(places.len(), text.encode_utf16().count() + 1);
    places
}

fn agrees(plain: &str) -> Result<(), TestCaseError> {
    let text = Text::from(plain);
    let places = reference(plain);
    let len = places.len() - 1;
    prop_assert_eq!(text.utf16_len(), len);
    for (utf16, place) in places.iter().enumerate() {
        match *place {
            Some(scalar) => {
                prop_assert_eq!(text.scalar_offset(utf16), Ok(scalar));
                prop_assert_eq!(text.utf16_offset(scalar), Ok(utf16));
                prop_assert_eq!(text.scalar_range(utf16..len), Ok(scalar..text.len()));
                prop_assert_eq!(text.utf16_range(0..scalar), Ok(0..utf16));
            }
            None => {
                let inside = OffsetError::InsidePair { offset: utf16, len };
                prop_assert_eq!(text.scalar_offset(utf16), Err(inside));
                prop_assert_eq!(text.scalar_range(0..utf16), Err(inside));
                prop_assert_eq!(text.scalar_range(utf16..len), Err(inside));
            }
        }
    }
    for beyond in [1, 2, usize::MAX - text.len().max(len)] {
        let (offset, unit) = (len + beyond, TextUnit::Utf16);
        let error = OffsetError::OutOfRange { offset, len, unit };
        prop_assert_eq!(text.scalar_offset(offset), Err(error));
        let (offset, len, unit) = (text.len() + beyond, text.len(), TextUnit::Scalar);
        let error = OffsetError::OutOfRange { offset, len, unit };
        prop_assert_eq!(text.utf16_offset(offset), Err(error));
    }
    Ok(())
}

proptest! {
    // Each case checks every offset of its texts.
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Around the size at which a text becomes a rope, and far beyond it.
    #[test]
    fn text_01_offsets_are_those_of_encode_utf16(
        short in "[ab é漢\n🦀𝄞]{0,24}",
        around in "[a漢🦀]{200,600}",
        times in 1..6usize,
    ) {
        agrees(&short)?;
        agrees(&around)?;
        agrees(&around.repeat(times))?;
    }

    #[test]
    fn text_01_marks_are_converted_one_by_one_or_together(
        text in "[aé漢🦀]{0,700}",
        ends in prop::collection::vec(any::<[prop::sample::Index; 2]>(), 0..6),
    ) {
        let places = reference(&text);
        let text = Text::from(text);
        let range = |ends: &[prop::sample::Index; 2]| {
            let [one, other] = ends.map(|end| end.index(places.len()));
            one.min(other)..one.max(other)
        };
        let mut marks: Vec<_> = ends.iter().map(|ends| Mark::new("em", range(ends))).collect();
        marks.push(Mark::whole("whole"));
        let expected: Option<Vec<_>> = marks.iter().map(|mark| {
            let Some(range) = mark.range.clone() else { return Some(mark.clone()) };
            Some(Mark::new("em", places[range.start]?..places[range.end]?))
        }).collect();
        let marks_of = |marks: Vec<Mark>, unit: TextUnit| {
            let store = DataStore::new();
            let node = NodeSpec::new("text").with_id("t").with_text(text.clone());
            let created = create(node.with_marks(marks)).in_unit(unit);
            TransactionManager::new(store.clone()).execute([created]).ok()?;
            Some(store.snapshot().node("t")?.marks().clone())
        };
        let expected = expected.and_then(|expected| marks_of(expected, TextUnit::Scalar));
        prop_assert_eq!(marks_of(marks, TextUnit::Utf16), expected);
    }
}

#[test]
fn a_reversed_range_is_refused_in_the_unit_in_which_it_was_given() {
    for text in [Text::from("a🦀b"), Text::from("a🦀b".repeat(1_000))] {
        let (start, end, len, unit) = (3, 1, text.utf16_len(), TextUnit::Utf16);
        let reversed = OffsetError::Reversed {
            start,
            end,
            len,
            unit,
        };
        assert_eq!(text.scalar_range(start..end), Err(reversed));
        let (start, end, len, unit) = (2, 1, text.len(), TextUnit::Scalar);
        let reversed = OffsetError::Reversed {
            start,
            end,
            len,
            unit,
        };
        assert_eq!(text.utf16_range(start..end), Err(reversed));
    }
}
