//! Newlines in texts of ProseMirror, as characters of a document in which a newline is a hard
//! break.

use super::names::ProseMirrorNames;

/// A newline is a hard break in the document. So a newline in a text of ProseMirror is the next one
/// of these characters, U+2028, and so on. All of them end a line in Unicode, but for the last,
/// which Unicode reserves for programs, and which is in no text.
const NEWLINES: [char; 5] = ['\n', '\u{2028}', '\u{2029}', '\u{85}', '\u{FDD0}'];

impl ProseMirrorNames {
    /// A character of ProseMirror's text, in a text of the document with hard breaks.
    pub(super) fn escape_newline(&self, char: char) -> char {
        match NEWLINES.iter().position(|other| *other == char) {
            Some(nth) if self.has_break() => NEWLINES.get(nth + 1).copied().unwrap_or('\u{FFFD}'),
            _ => char,
        }
    }

    /// The character of ProseMirror's text for one of the document; no hard break.
    pub(super) fn unescape_newline(&self, char: char) -> char {
        match NEWLINES.iter().skip(1).position(|other| *other == char) {
            Some(nth) if self.has_break() => NEWLINES[nth],
            _ => char,
        }
    }

    /// Whether a character of ProseMirror's text has no counterpart.
    pub(super) fn is_reserved(&self, char: char) -> bool {
        NEWLINES.last() == Some(&char) && self.has_break()
    }
}
