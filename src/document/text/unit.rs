//! Offsets in UTF-16 units, as JavaScript, ProseMirror, CodeMirror and the Language Server Protocol
//! count them.

use std::fmt;
use std::ops::Range;

use ropey::Rope;
use serde::{Deserialize, Serialize};

use super::{Repr, Text};
use crate::codes::codes;
use crate::document::{EditError, Mark};
use crate::id::NodeId;
use crate::steps::{bytes_looked_at, step};

/// A unit of offsets and ranges of a text.
///
/// In JSON `"scalar"` or `"utf16"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum TextUnit {
    /// Unicode scalar values, which are the `char`s of Rust.
    #[default]
    Scalar,
    /// UTF-16 units. A character above U+FFFF is a surrogate pair and counts two, any other counts
    /// one.
    Utf16,
}

impl fmt::Display for TextUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scalar => "scalar values",
            Self::Utf16 => "UTF-16 units",
        })
    }
}

/// Why an offset or a range has no counterpart in the other unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OffsetError {
    /// The offset is greater than the length of the text.
    #[error("offset {offset} is out of range: the text has {len} {unit}")]
    OutOfRange {
        /// The offset.
        offset: usize,
        /// The length of the text in the same unit.
        len: usize,
        /// The unit of the two.
        unit: TextUnit,
    },
    /// The offset is between the two UTF-16 units of one character.
    #[error("offset {offset} is inside a surrogate pair: the text has {len} UTF-16 units")]
    InsidePair {
        /// The offset in UTF-16 units.
        offset: usize,
        /// The length of the text in UTF-16 units.
        len: usize,
    },
    /// The range ends before it starts.
    #[error("range {start}..{end} ends before it starts: the text has {len} {unit}")]
    Reversed {
        /// The start of the range.
        start: usize,
        /// The end of the range.
        end: usize,
        /// The length of the text in the same unit.
        len: usize,
        /// The unit of the three.
        unit: TextUnit,
    },
}

codes! { OffsetError {
    Self::OutOfRange { offset, len, unit } => "offsetOutOfRange";
    Self::InsidePair { offset, len } => "offsetInsidePair";
    Self::Reversed { start, end, len, unit } => "offsetReversed";
}}

/// # UTF-16
///
/// Offsets and ranges of this crate count Unicode scalar values. These methods convert them for
/// programs that count UTF-16 units. They take O(log n) steps in the length of the text, and
/// allocate nothing.
impl Text {
    /// Returns the length in UTF-16 units, which is that of the same string in JavaScript.
    ///
    /// ```
    /// use doclock::document::Text;
    ///
    /// let text = Text::from("a🦀b");
    /// assert_eq!((text.len(), text.utf16_len()), (3, 4));
    /// ```
    pub fn utf16_len(&self) -> usize {
        match &self.0 {
            Repr::Short(text) => {
                bytes_looked_at(text.len());
                text.chars().map(char::len_utf16).sum()
            }
            Repr::Long(rope) => rope.len_utf16_cu(),
        }
    }

    /// Converts an offset in scalar values to UTF-16 units.
    ///
    /// # Errors
    ///
    /// [`OffsetError::OutOfRange`], in scalar values.
    ///
    /// # Examples
    ///
    /// ```
    /// use doclock::document::Text;
    ///
    /// let text = Text::from("a🦀b");
    /// assert_eq!(text.utf16_offset(2)?, 3);
    /// assert_eq!(text.utf16_offset(3)?, text.utf16_len());
    /// assert_eq!(
    ///     text.utf16_offset(4).unwrap_err().to_string(),
    ///     "offset 4 is out of range: the text has 3 scalar values",
    /// );
    /// # Ok::<(), doclock::document::OffsetError>(())
    /// ```
    pub fn utf16_offset(&self, offset: usize) -> Result<usize, OffsetError> {
        step();
        let found = match &self.0 {
            Repr::Short(text) if text.is_ascii() => Some(offset).filter(|&at| at <= text.len()),
            Repr::Short(text) => places(text).nth(offset).map(|(_, utf16)| utf16),
            Repr::Long(rope) => rope.try_char_to_utf16_cu(offset).ok(),
        };
        found.ok_or_else(|| OffsetError::OutOfRange {
            offset,
            len: self.len(),
            unit: TextUnit::Scalar,
        })
    }

    /// Converts an offset in UTF-16 units to scalar values.
    ///
    /// # Errors
    ///
    /// [`OffsetError::OutOfRange`] in UTF-16 units, or [`OffsetError::InsidePair`] for an offset
    /// inside a surrogate pair, where no character begins or ends.
    ///
    /// # Examples
    ///
    /// ```
    /// use doclock::document::{OffsetError, Text};
    ///
    /// let text = Text::from("a🦀b");
    /// assert_eq!(text.scalar_offset(3)?, 2);
    /// assert_eq!(text.scalar_offset(2), Err(OffsetError::InsidePair { offset: 2, len: 4 }));
    /// # Ok::<(), OffsetError>(())
    /// ```
    pub fn scalar_offset(&self, offset: usize) -> Result<usize, OffsetError> {
        step();
        // The character that contains or follows the offset, and its start.
        let found = match &self.0 {
            Repr::Short(text) if text.is_ascii() => {
                Some((offset, offset)).filter(|_| offset <= text.len())
            }
            Repr::Short(text) => places(text).find(|&(_, utf16)| utf16 >= offset),
            Repr::Long(rope) => rope.try_utf16_cu_to_char(offset).ok().map(|scalar| {
                let utf16 = rope.try_char_to_utf16_cu(scalar);
                (scalar, utf16.unwrap_or(offset))
            }),
        };
        match found {
            Some((scalar, utf16)) if utf16 == offset => Ok(scalar),
            Some(_) => Err(OffsetError::InsidePair {
                offset,
                len: self.utf16_len(),
            }),
            None => Err(OffsetError::OutOfRange {
                offset,
                len: self.utf16_len(),
                unit: TextUnit::Utf16,
            }),
        }
    }

    /// Converts a range in scalar values to UTF-16 units, for example that of a [`Mark`].
    ///
    /// # Errors
    ///
    /// As [`utf16_offset`](Self::utf16_offset), or [`OffsetError::Reversed`] for a range that ends
    /// before it starts.
    ///
    /// # Examples
    ///
    /// ```
    /// use doclock::document::Text;
    ///
    /// let text = Text::from("a🦀b");
    /// assert_eq!(text.utf16_range(1..2)?, 1..3);
    /// # Ok::<(), doclock::document::OffsetError>(())
    /// ```
    pub fn utf16_range(&self, range: Range<usize>) -> Result<Range<usize>, OffsetError> {
        let converted = self.utf16_offset(range.start)?..self.utf16_offset(range.end)?;
        self.in_order(converted, &range, TextUnit::Scalar)
    }

    /// Converts a range in UTF-16 units to scalar values.
    ///
    /// # Errors
    ///
    /// As [`scalar_offset`](Self::scalar_offset), or [`OffsetError::Reversed`] for a range that
    /// ends before it starts.
    ///
    /// # Examples
    ///
    /// ```
    /// use doclock::document::Text;
    ///
    /// let text = Text::from("a🦀b");
    /// let range = text.scalar_range(1..3)?;
    /// assert_eq!(text.slice(range).unwrap(), "🦀");
    /// # Ok::<(), doclock::document::OffsetError>(())
    /// ```
    pub fn scalar_range(&self, range: Range<usize>) -> Result<Range<usize>, OffsetError> {
        let converted = self.scalar_offset(range.start)?..self.scalar_offset(range.end)?;
        self.in_order(converted, &range, TextUnit::Utf16)
    }

    fn in_order(
        &self,
        converted: Range<usize>,
        given: &Range<usize>,
        unit: TextUnit,
    ) -> Result<Range<usize>, OffsetError> {
        match given.start > given.end {
            true => Err(OffsetError::Reversed {
                start: given.start,
                end: given.end,
                len: match unit {
                    TextUnit::Scalar => self.len(),
                    TextUnit::Utf16 => self.utf16_len(),
                },
                unit,
            }),
            false => Ok(converted),
        }
    }

    /// Converts the ranges of marks of this text, the text of the given node, from UTF-16 units to
    /// scalar values.
    pub(crate) fn marks_to_scalars(
        &self,
        id: Option<&NodeId>,
        marks: &mut [Mark],
    ) -> Result<(), EditError> {
        let rope = match &self.0 {
            // A rope converts many offsets faster than a search from the start for each.
            Repr::Short(text) if marks.len() > 1 && !text.is_ascii() => {
                bytes_looked_at(text.len());
                Some(Self(Repr::Long(Rope::from_str(text))))
            }
            _ => None,
        };
        let text = rope.as_ref().unwrap_or(self);
        for mark in marks {
            let Some(range) = &mut mark.range else {
                continue;
            };
            *range = text.scalar_range(range.clone()).map_err(|cause| {
                let (id, mark) = (id.cloned(), Some(mark.kind.clone()));
                EditError::Offset { id, mark, cause }
            })?;
        }
        Ok(())
    }
}

/// The start of each character, and the end of the text, in scalar values and in UTF-16 units.
fn places(text: &str) -> impl Iterator<Item = (usize, usize)> + '_ {
    bytes_looked_at(text.len());
    let mut utf16 = 0;
    let ends = text.chars().map(move |character| {
        utf16 += character.len_utf16();
        utf16
    });
    std::iter::once(0).chain(ends).enumerate()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::counted;
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
            let mut together = marks;
            let converted = text.marks_to_scalars(None, &mut together);
            prop_assert_eq!(converted.is_ok(), expected.is_some());
            if let Some(expected) = expected {
                prop_assert_eq!(together, expected);
            }
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
}
