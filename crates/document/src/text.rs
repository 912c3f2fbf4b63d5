//! The text of a node.

use std::fmt;
use std::ops::Range;

use arrayvec::ArrayString;
use ropey::Rope;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smol_str::SmolStr;

use crate::steps::bytes_looked_at;

mod unit;

pub use unit::{OffsetError, TextUnit};

/// A text of Unicode scalar values, which are its characters.
///
/// Short text is one small string. Long text is a rope (the ropey crate), so an edit does not copy
/// the whole text, and two versions share their common parts. The representation is not observable:
/// equality, order and positions are those of the characters.
///
/// ```
/// use doclock::document::Text;
///
/// let text = Text::from("naïve");
/// assert_eq!(text.len(), 5);
/// assert_eq!(text.slice(2..5).unwrap(), "ïve");
/// assert_eq!(text.slice(2..6), None);
/// ```
#[derive(Clone)]
pub struct Text(TextRepr);

#[derive(Clone)]
enum TextRepr {
    Short(SmolStr),
    Long(Rope),
}

/// Above this number of bytes a text becomes a rope: a copy begins to cost more than a leaf of a
/// rope.
const LONG: usize = 1024;
/// Below this number of bytes it becomes a string again; the gap prevents repeated conversions.
const SHORT: usize = LONG / 2;

impl Text {
    /// Returns the number of characters.
    pub fn len(&self) -> usize {
        match &self.0 {
            TextRepr::Short(text) if text.is_ascii() => text.len(),
            TextRepr::Short(text) => text.chars().count(),
            TextRepr::Long(rope) => rope.len_chars(),
        }
    }

    /// The number of bytes in UTF-8.
    #[doc(hidden)]
    pub fn bytes(&self) -> usize {
        match &self.0 {
            TextRepr::Short(text) => text.len(),
            TextRepr::Long(rope) => rope.len_bytes(),
        }
    }

    /// Returns whether there are no characters.
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            TextRepr::Short(text) => text.is_empty(),
            TextRepr::Long(rope) => rope.len_bytes() == 0,
        }
    }

    /// Iterates over the characters in order.
    pub fn chars(&self) -> impl Iterator<Item = char> + '_ {
        self.chunks().flat_map(str::chars)
    }

    /// Iterates over the text in pieces, in order, without copying.
    pub fn chunks(&self) -> impl Iterator<Item = &str> + '_ {
        let (short, long) = match &self.0 {
            TextRepr::Short(text) => (Some(text.as_str()), None),
            TextRepr::Long(rope) => (None, Some(rope.chunks())),
        };
        let chunks = short.into_iter().chain(long.into_iter().flatten());
        chunks.inspect(|chunk| bytes_looked_at(chunk.len()))
    }

    /// Returns the characters of a half-open range; `None` if the range is not within the text.
    pub fn slice(&self, range: Range<usize>) -> Option<SmolStr> {
        if range.start > range.end {
            return None;
        }
        match &self.0 {
            // Every insertion requests the replaced text, which is empty.
            TextRepr::Short(text) if range.is_empty() => {
                bytes(text, &range).map(|_| SmolStr::default())
            }
            TextRepr::Short(text) => bytes(text, &range).map(|bytes| {
                bytes_looked_at(bytes.len());
                SmolStr::new(&text[bytes])
            }),
            TextRepr::Long(rope) if range.is_empty() => {
                (range.end <= rope.len_chars()).then(SmolStr::default)
            }
            TextRepr::Long(rope) => {
                let slice = rope.get_slice(range)?;
                bytes_looked_at(slice.len_bytes());
                Some(match slice.as_str() {
                    Some(text) => SmolStr::new(text),
                    None => slice.to_string().into(),
                })
            }
        }
    }

    /// Splits off the text from `at` on, which the caller has checked.
    pub(super) fn split_off(&mut self, at: usize) -> Self {
        let tail = match &self.0 {
            TextRepr::Short(text) => {
                let start = bytes(text, &(at..at)).map_or(text.len(), |at| at.start);
                Self::from(&text[start..])
            }
            TextRepr::Long(rope) => Self::from(Rope::from(rope.slice(at.min(rope.len_chars())..))),
        };
        self.splice(at..self.len(), "");
        tail
    }

    /// Appends another text.
    pub(super) fn append(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (TextRepr::Long(rope), TextRepr::Long(other)) => rope.append(other.clone()),
            _ => {
                let end = self.len();
                match &other.0 {
                    TextRepr::Short(text) => self.splice(end..end, text),
                    TextRepr::Long(other) => {
                        let mut rope = Rope::from_str(&self.to_string());
                        rope.append(other.clone());
                        self.0 = TextRepr::Long(rope);
                    }
                }
            }
        }
    }

    /// Replaces the range, which the caller has checked.
    pub(super) fn splice(&mut self, range: Range<usize>, inserted: &str) {
        bytes_looked_at(inserted.len());
        match &mut self.0 {
            TextRepr::Short(text) => {
                let Some(bytes) = bytes(text, &range) else {
                    debug_assert!(false, "the range was checked");
                    return;
                };
                let length = text.len() - bytes.len() + inserted.len();
                let pieces = [&text[..bytes.start], inserted, &text[bytes.end..]];
                self.0 = if length > LONG {
                    let mut rope = Rope::from_str(text);
                    splice_rope(&mut rope, range, inserted);
                    TextRepr::Long(rope)
                } else {
                    // Assembled on the stack, so the new text costs one allocation.
                    let mut whole = ArrayString::<LONG>::new();
                    pieces.iter().for_each(|piece| whole.push_str(piece));
                    TextRepr::Short(SmolStr::new(whole.as_str()))
                };
            }
            TextRepr::Long(rope) => {
                splice_rope(rope, range, inserted);
                if rope.len_bytes() < SHORT {
                    self.0 = TextRepr::Short(rope.chunks().collect());
                }
            }
        }
    }
}

fn splice_rope(rope: &mut Rope, range: Range<usize>, inserted: &str) {
    let at = range.start;
    if !range.is_empty() {
        rope.remove(range);
    }
    if !inserted.is_empty() {
        rope.insert(at, inserted);
    }
}

/// The byte range of the characters of `range`; `None` if they are not within `text`.
fn bytes(text: &str, range: &Range<usize>) -> Option<Range<usize>> {
    // There are at least as many bytes as characters.
    if text.as_bytes().get(..range.end)?.is_ascii() {
        return Some(range.clone());
    }
    let mut starts = text
        .char_indices()
        .map(|(at, _)| at)
        .chain(std::iter::once(text.len()));
    let start = starts.nth(range.start)?;
    let end = match range.len() {
        0 => start,
        len => starts.nth(len - 1)?,
    };
    Some(start..end)
}

impl Default for Text {
    fn default() -> Self {
        Self(TextRepr::Short(SmolStr::default()))
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        bytes_looked_at(text.len());
        Self(if text.len() > LONG {
            TextRepr::Long(Rope::from_str(text))
        } else {
            TextRepr::Short(SmolStr::new(text))
        })
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(if text.len() > LONG {
            TextRepr::Long(Rope::from_str(&text))
        } else {
            TextRepr::Short(text.into())
        })
    }
}

impl From<Rope> for Text {
    fn from(rope: Rope) -> Self {
        Self(if rope.len_bytes() > LONG {
            TextRepr::Long(rope)
        } else {
            TextRepr::Short(rope.chunks().collect())
        })
    }
}

impl From<SmolStr> for Text {
    fn from(text: SmolStr) -> Self {
        if text.len() > LONG {
            Self::from(text.as_str())
        } else {
            Self(TextRepr::Short(text))
        }
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (TextRepr::Short(one), TextRepr::Short(other)) => one == other,
            (TextRepr::Long(one), TextRepr::Long(other)) => one.is_instance(other) || one == other,
            (TextRepr::Short(text), TextRepr::Long(rope))
            | (TextRepr::Long(rope), TextRepr::Short(text)) => *rope == text.as_str(),
        }
    }
}

impl Eq for Text {}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        match &self.0 {
            TextRepr::Short(text) => text == other,
            TextRepr::Long(rope) => rope == other,
        }
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        *self == **other
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.chunks().try_for_each(|chunk| f.write_str(chunk))
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_string(), f)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        SmolStr::deserialize(deserializer).map(Self::from)
    }
}
