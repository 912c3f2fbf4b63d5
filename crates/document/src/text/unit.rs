//! Offsets in UTF-16 units, as JavaScript, ProseMirror, CodeMirror and the Language Server Protocol
//! count them.

use std::fmt;
use std::ops::Range;

use ropey::Rope;
use serde::{Deserialize, Serialize};

use super::{Text, TextRepr};
use crate::codes::codes;
use crate::id::NodeId;
use crate::steps::{bytes_looked_at, step};
use crate::{EditError, Mark};

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

codes! { inherent OffsetError {
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
            TextRepr::Short(text) => {
                bytes_looked_at(text.len());
                text.chars().map(char::len_utf16).sum()
            }
            TextRepr::Long(rope) => rope.len_utf16_cu(),
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
            TextRepr::Short(text) if text.is_ascii() => Some(offset).filter(|&at| at <= text.len()),
            TextRepr::Short(text) => places(text).nth(offset).map(|(_, utf16)| utf16),
            TextRepr::Long(rope) => rope.try_char_to_utf16_cu(offset).ok(),
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
            TextRepr::Short(text) if text.is_ascii() => {
                Some((offset, offset)).filter(|_| offset <= text.len())
            }
            TextRepr::Short(text) => places(text).find(|&(_, utf16)| utf16 >= offset),
            TextRepr::Long(rope) => rope.try_utf16_cu_to_char(offset).ok().map(|scalar| {
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
    #[doc(hidden)]
    pub fn marks_to_scalars(
        &self,
        id: Option<&NodeId>,
        marks: &mut [Mark],
    ) -> Result<(), EditError> {
        let rope = match &self.0 {
            // A rope converts many offsets faster than a search from the start for each.
            TextRepr::Short(text) if marks.len() > 1 && !text.is_ascii() => {
                bytes_looked_at(text.len());
                Some(Self(TextRepr::Long(Rope::from_str(text))))
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
