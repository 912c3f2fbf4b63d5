//! Escapes pieces of text.

use std::ops::Range;

use super::flank::is_letter;
use super::{EscapeContext, InlineToken, begins_reference, push_reference};
use crate::OBJECT;
use crate::steps::step;

pub(super) struct Speller<'a> {
    text: &'a [char],
    pieces: &'a [InlineToken],
    place: EscapeContext,
    /// Whether no line break and no end of a title may occur, as in a definition.
    escaped: bool,
    out: String,
}

impl<'a> Speller<'a> {
    pub(super) fn new(
        text: &'a [char],
        pieces: &'a [InlineToken],
        place: EscapeContext,
        escaped: bool,
    ) -> Self {
        Self {
            text,
            pieces,
            place,
            escaped,
            out: String::new(),
        }
    }

    pub(super) fn spelled(mut self) -> String {
        for (at, piece) in self.pieces.iter().enumerate() {
            match piece {
                InlineToken::Text { range, .. } if self.is_empty_bracket(at, range) => {}
                InlineToken::Text { range, guarded } => {
                    for place in range.clone() {
                        let first = guarded.0 && place == range.start;
                        let last = guarded.1 && place + 1 == range.end;
                        self.spell(place, at, first || last);
                    }
                }
                InlineToken::Open(delimiter) | InlineToken::Close(delimiter) => {
                    self.out.push_str(delimiter.text());
                }
                InlineToken::OpenBracket(bracket) => self.out.push_str(bracket),
                InlineToken::CloseBracket(bracket) => self.out.push_str(bracket),
                InlineToken::Raw(raw) => match self.place {
                    EscapeContext::Paragraph => self.out.push_str(raw),
                    EscapeContext::Heading => self.out.push_str(&raw.replace('\n', " ")),
                    EscapeContext::Cell => {
                        let line = raw.replace('\n', " ");
                        self.out.push_str(&line.replace('|', r"\|"));
                    }
                },
            }
        }
        self.out
    }

    /// Whether this is the placeholder for the words of a link or an image.
    fn is_empty_bracket(&self, at: usize, range: &Range<usize>) -> bool {
        let before = at.checked_sub(1).and_then(|at| self.pieces.get(at));
        self.text[range.clone()] == [OBJECT]
            && matches!(before, Some(InlineToken::OpenBracket(_)))
            && matches!(self.pieces.get(at + 1), Some(InlineToken::CloseBracket(_)))
    }

    fn spell(&mut self, place: usize, piece: usize, guarded: bool) {
        step();
        let char = self.text[place];
        let begins_line = self.out.is_empty() || self.out.ends_with('\n');
        let next = self.text.get(place + 1);
        let ends_line = next.is_none_or(|&next| next == '\n');
        if char == '\n' && !guarded && self.place == EscapeContext::Cell {
            self.out.push_str("<br>");
        } else if char == '\n' && !guarded && self.can_break(place, piece) {
            self.out.push_str("\\\n");
        } else if guarded
            // After a footnote reference the parser reads even an escaped bracket as a link.
            || (char == '[' && self.out.ends_with(']') && !self.out.ends_with("\\]"))
            || char.is_control()
            || (char.is_whitespace() && (char != ' ' || begins_line || ends_line))
        {
            push_reference(&mut self.out, char);
        } else {
            if self.is_special(char, place, piece, begins_line) {
                self.out.push('\\');
            }
            self.out.push(char);
        }
    }

    /// Whether a hard break is possible here: between two characters of a paragraph, not at the end
    /// of a link, and not before HTML, which could begin a block.
    fn can_break(&self, place: usize, piece: usize) -> bool {
        let is_word = |at: usize| self.text.get(at).is_some_and(|char| *char != '\n');
        let ends_piece = matches!(
            &self.pieces[piece],
            InlineToken::Text { range, .. } if range.end == place + 1
        );
        let goes_on = match self.pieces.get(piece + 1) {
            Some(InlineToken::Raw(raw)) => !raw.starts_with('<'),
            next => !matches!(next, Some(InlineToken::CloseBracket(_))),
        };
        self.place == EscapeContext::Paragraph
            && !self.escaped
            && place.checked_sub(1).is_some_and(is_word)
            && is_word(place + 1)
            && (goes_on || !ends_piece)
    }

    /// Whether a character is between two letters. There an underscore begins and ends nothing.
    fn is_within_word(&self, place: usize, piece: usize) -> bool {
        let InlineToken::Text { range, .. } = &self.pieces[piece] else {
            return false;
        };
        let is_inside = place > range.start && place + 1 < range.end;
        is_inside && is_letter(self.text[place - 1]) && is_letter(self.text[place + 1])
    }

    fn is_special(&self, char: char, place: usize, piece: usize, begins_line: bool) -> bool {
        match char {
            '_' => !self.is_within_word(place, piece),
            '\\' | '`' | '*' | '[' | ']' | '<' | '~' => true,
            '"' | '\'' | '(' | ')' if self.escaped => true,
            '&' => begins_reference(self.text[place + 1..].iter().copied()),
            '!' => {
                let InlineToken::Text { range, .. } = &self.pieces[piece] else {
                    return false;
                };
                let bracket = self.pieces.get(piece + 1);
                place + 1 == range.end
                    && !matches!(
                        bracket,
                        None | Some(InlineToken::Open(_) | InlineToken::Close(_))
                    )
            }
            '|' if self.place == EscapeContext::Cell => true,
            '#' if self.place == EscapeContext::Heading => true,
            // After a footnote reference it would form a definition or a link.
            ':' | '(' if self.out.ends_with(']') => true,
            '#' | '+' | '-' | '=' | '>' | ':' | '|' => begins_line,
            '.' | ')' => {
                // A number of up to nine digits at the beginning of a line.
                let written = self.out.as_bytes();
                let digits = written
                    .iter()
                    .rev()
                    .take(10)
                    .take_while(|byte| byte.is_ascii_digit());
                let (before, digits) = written.split_at(written.len() - digits.count());
                matches!(before.last(), None | Some(b'\n')) && !digits.is_empty()
            }
            _ => false,
        }
    }
}
