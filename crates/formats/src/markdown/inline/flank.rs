//! Makes delimiters work at any position.

use super::{Delimiter, InlineToken};
use crate::steps::step;

/// Makes delimiters work. An opening one needs no space after it, a closing one no space before it.
/// Next to punctuation, and always for an underscore, the other side must be space or punctuation.
/// A character that prevents this is guarded: written as a reference, `&#97;`, it has punctuation
/// at both ends.
pub(super) fn settle(pieces: &mut [InlineToken], text: &[char]) {
    part_emphasis_from_strong(pieces);
    let mut unsettled: Vec<usize> = (0..pieces.len()).rev().collect();
    while let Some(at) = unsettled.pop() {
        step();
        let (delimiter, inner, outer) = match pieces[at] {
            InlineToken::Open(delimiter) => (delimiter, at.checked_add(1), at.checked_sub(1)),
            InlineToken::Close(delimiter) => (delimiter, at.checked_sub(1), at.checked_add(1)),
            _ => continue,
        };
        let inside = facing(pieces, text, inner, at);
        if inside.is_some_and(char::is_whitespace) {
            guard(pieces, inner, at, &mut unsettled);
        }
        let works_anywhere = inside.is_some_and(is_letter) && delimiter != Delimiter::Underscore;
        let outside = facing(pieces, text, outer, at);
        if !works_anywhere && outside.is_some_and(|char| !separates(char)) {
            guard(pieces, outer, at, &mut unsettled);
        }
    }
}

/// The character of the text `beside` next to the piece `at`.
fn facing(pieces: &[InlineToken], text: &[char], beside: Option<usize>, at: usize) -> Option<char> {
    let InlineToken::Text { range, guarded } = pieces.get(beside?)? else {
        return None;
    };
    let (edge, is_guarded) = match beside > Some(at) {
        true => (range.start, guarded.0),
        false => (range.end.checked_sub(1)?, guarded.1),
    };
    let is_guarded = is_guarded || (range.len() == 1 && guarded.0 | guarded.1);
    if is_guarded {
        Some(';')
    } else {
        text.get(edge).copied()
    }
}

/// Guards the edge of a text next to the piece `at`. Its neighbours have to be checked again.
fn guard(pieces: &mut [InlineToken], beside: Option<usize>, at: usize, unsettled: &mut Vec<usize>) {
    let text = beside.and_then(|beside| Some((beside, pieces.get_mut(beside)?)));
    if let Some((beside, InlineToken::Text { guarded, .. })) = text {
        match beside > at {
            true => guarded.0 = true,
            false => guarded.1 = true,
        }
        unsettled.extend(beside.checked_sub(1));
        unsettled.extend((beside + 1 < pieces.len()).then_some(beside + 1));
    }
}

/// Next to the two asterisks of strong text, a third would be read as one of them; emphasis has
/// another spelling.
fn part_emphasis_from_strong(pieces: &mut [InlineToken]) {
    let strong = |at: Option<usize>| {
        let piece = at.and_then(|at| pieces.get(at));
        let strong = [
            InlineToken::Open(Delimiter::Asterisks),
            InlineToken::Close(Delimiter::Asterisks),
        ];
        piece.is_some_and(|piece| strong.contains(piece))
    };
    let beside_strong = |at: usize| strong(at.checked_sub(1)) || strong(at.checked_add(1));
    let mut open = None;
    let mut parted = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        match piece {
            InlineToken::Open(Delimiter::Asterisk) => open = Some(at),
            InlineToken::Close(Delimiter::Asterisk) => {
                let start = open.take();
                let beside = start.filter(|start| beside_strong(*start) || beside_strong(at));
                parted.extend(beside.map(|start| (start, at)));
            }
            _ => {}
        }
    }
    for (start, end) in parted {
        pieces[start] = InlineToken::Open(Delimiter::Underscore);
        pieces[end] = InlineToken::Close(Delimiter::Underscore);
    }
}

/// Whether no Markdown reader counts a character as punctuation. Some symbols are letters, such as
/// Ⓐ.
pub(super) fn is_letter(char: char) -> bool {
    char.is_alphanumeric() && !matches!(char, '\u{24B6}'..='\u{24E9}' | '\u{1F130}'..='\u{1F189}')
}

/// Whether every Markdown reader counts a character as space or punctuation.
fn separates(char: char) -> bool {
    char.is_whitespace() || char.is_ascii_punctuation()
}
