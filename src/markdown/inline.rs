//! Writes text with marks as Markdown.
//!
//! First the text is split into pieces at the edges of marks, with delimiters in between. Then each
//! piece is escaped, depending on its neighbours.

mod flank;
mod spell;

use std::cmp::Reverse;
use std::ops::Range;

use pulldown_cmark::Parser;
use serde_json::Value;

use flank::settle;
use spell::Speller;

use super::{EXTENSIONS, TargetFilter};
use crate::document::{Attributes, Mark, Node};
use crate::steps::{step, steps};

/// The context of a text, which determines what has to be escaped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EscapeContext {
    /// Several lines, each of which could begin a block.
    Paragraph,
    /// One line, at whose end number signs are ignored.
    Heading,
    /// One line, in which bars separate cells.
    Cell,
}

/// Writes the texts of these nodes, concatenated.
pub(super) fn written<'v>(
    nodes: impl IntoIterator<Item = &'v Node>,
    place: EscapeContext,
    filter: &TargetFilter,
) -> String {
    let mut run = Run::default();
    nodes.into_iter().for_each(|node| run.add(node));
    run.spans
        .retain(|span| span.target().is_none_or(|target| filter.allows(target)));
    run.settle();
    let plain = run.spelled(place, Care::default());
    if place != EscapeContext::Paragraph || !begins_definition(&plain) {
        return plain;
    }
    let mut careful = Care::ALL.into_iter().map(|care| run.spelled(place, care));
    careful
        .find(|text| !begins_definition(text))
        .unwrap_or_else(|| {
            // No spelling works: the text is kept, without its code and HTML marks.
            run.spans.retain(|span| span.style < Style::Code);
            run.spelled(place, Care::default())
        })
}

/// Whether a paragraph would be read as a link definition. Only code or HTML within a link can
/// cause it: in other text brackets are escaped.
fn begins_definition(text: &str) -> bool {
    let may = text.starts_with('[') && text.contains("]:");
    may && {
        steps(text.len());
        let parser = Parser::new_ext(text, EXTENSIONS);
        parser.reference_definitions().iter().next().is_some()
    }
}

/// Another spelling for a paragraph that would be read as a link definition.
///
/// A definition is a label in brackets, a colon, a target and an optional title, up to the end of a
/// line. Code and HTML can contain its beginning. The text after them is spelled so that the target
/// or the title does not end.
#[derive(Clone, Copy, Default)]
struct Care {
    /// Lines are not broken, and quotes and parentheses are escaped, so no title ends.
    escaped: bool,
    /// Code has a space at both ends, so a target ends before its last backtick.
    padded: bool,
    target: Spelling,
}

/// The spelling of the target of a link.
#[derive(Clone, Copy, Default)]
enum Spelling {
    #[default]
    Plain,
    /// After a space, so that an open parenthesis in the target of a definition does not close.
    Apart,
    /// In angle brackets, so that one that opens in the target of a definition opens twice.
    Bracketed,
}

impl Care {
    const ALL: [Self; 6] = [
        Self::new(false, Spelling::Apart),
        Self::new(true, Spelling::Plain),
        Self::new(true, Spelling::Apart),
        Self::new(false, Spelling::Bracketed),
        Self::new(true, Spelling::Bracketed),
        Self::new(false, Spelling::Plain),
    ];

    const fn new(padded: bool, target: Spelling) -> Self {
        Self {
            escaped: true,
            padded,
            target,
        }
    }
}

/// The styles of Markdown. Of two over the same text, the first in this order is the outer one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Style {
    Strikethrough,
    Strong,
    Emphasis,
    Link,
    Image,
    /// Styles whose text is written verbatim.
    Code,
    Footnote,
    Html,
}

#[derive(Clone)]
struct Span<'v> {
    range: Range<usize>,
    style: Style,
    attributes: &'v Attributes,
}

#[derive(Default)]
struct Run<'v> {
    text: Vec<char>,
    spans: Vec<Span<'v>>,
}

/// A piece of text, or a delimiter between two.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Text {
        range: Range<usize>,
        /// Whether the first and the last character must be neither a letter nor a space.
        guarded: (bool, bool),
    },
    Open(Delimiter),
    Close(Delimiter),
    /// The brackets of a link or an image.
    OpenBracket(&'static str),
    CloseBracket(String),
    Raw(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delimiter {
    Asterisk,
    Underscore,
    Asterisks,
    Tildes,
}

impl Delimiter {
    fn text(self) -> &'static str {
        match self {
            Self::Asterisk => "*",
            Self::Underscore => "_",
            Self::Asterisks => "**",
            Self::Tildes => "~~",
        }
    }
}

impl<'v> Run<'v> {
    fn add(&mut self, node: &'v Node) {
        let start = self.text.len();
        self.text.extend(node.text().chars());
        let len = self.text.len() - start;
        let spans = node.marks().iter().filter_map(|mark: &Mark| {
            let range = mark.range.clone()?;
            Some(Span {
                range: range.start.min(len) + start..range.end.min(len) + start,
                style: style(&mark.kind)?,
                attributes: &mark.attributes,
            })
        });
        self.spans
            .extend(spans.filter(|span| !span.range.is_empty()));
    }

    /// Orders the marks for writing, and reduces them to what Markdown can express.
    fn settle(&mut self) {
        self.join();
        self.part(Style::Footnote);
        self.keep_footnotes_whole();
        self.join();
        self.part(Style::Link);
        self.part(Style::Html);
        self.nest_brackets();
    }

    /// Joins marks that touch or overlap and have the same spelling: one cannot end where the other
    /// begins.
    fn join(&mut self) {
        self.spans
            .sort_by_key(|span| (span.style, span.range.start));
        self.spans.dedup_by(|next, span| {
            let alike = span.style == next.style
                && (span.delimiter().is_some()
                    || span.style == Style::Code
                    || span.attributes == next.attributes);
            let joined = alike && next.range.start <= span.range.end;
            if joined {
                span.range.end = span.range.end.max(next.range.end);
            }
            joined
        });
    }

    /// Where two of this style overlap, the second begins where the first ends.
    fn part(&mut self, style: Style) {
        let mut end = 0;
        self.spans.retain_mut(|span| {
            if span.style == style {
                span.range.start = span.range.start.max(end);
                end = end.max(span.range.end);
            }
            !span.range.is_empty()
        });
    }

    /// A mark over a part of a footnote reference covers all of it, so the reference is written
    /// once.
    fn keep_footnotes_whole(&mut self) {
        let notes = self
            .spans
            .iter()
            .filter(|span| span.style == Style::Footnote);
        let notes: Vec<_> = notes.map(|span| span.range.clone()).collect();
        let around = |at: usize| {
            let note = notes.get(notes.partition_point(|note| note.end <= at))?;
            (note.start < at).then(|| note.clone())
        };
        for span in &mut self.spans {
            let Range { start, end } = span.range;
            span.range.start = around(start).map_or(start, |note| note.start);
            span.range.end = around(end).map_or(end, |note| note.end);
        }
    }

    /// A link or an image that begins in another ends with it at the latest.
    fn nest_brackets(&mut self) {
        let is_bracket = |span: &&mut Span<'_>| matches!(span.style, Style::Link | Style::Image);
        let mut brackets: Vec<_> = self.spans.iter_mut().filter(is_bracket).collect();
        brackets.sort_by_key(|span| (span.range.start, Reverse(span.range.end), span.style));
        let mut around: Vec<usize> = Vec::new();
        for span in brackets {
            while around.pop_if(|end| *end <= span.range.start).is_some() {}
            let end = around.last().copied().unwrap_or(usize::MAX);
            span.range.end = span.range.end.min(end);
            around.push(span.range.end);
        }
    }

    fn spelled(&self, place: EscapeContext, care: Care) -> String {
        let mut pieces = self.pieces(care);
        settle(&mut pieces, &self.text);
        Speller::new(&self.text, &pieces, place, care.escaped).spelled()
    }

    fn pieces(&self, care: Care) -> Vec<Piece> {
        let mut edges: Vec<usize> = vec![0, self.text.len()];
        edges.extend(
            self.spans
                .iter()
                .flat_map(|span| [span.range.start, span.range.end]),
        );
        edges.sort_unstable();
        edges.dedup();
        let mut starting = self.spans.clone();
        starting.sort_by_key(|span| Reverse(span.range.start));

        let mut pieces = Vec::new();
        let mut open = Open::default();
        let mut raw: Vec<Span<'v>> = Vec::new();
        for (nth, &at) in edges.iter().enumerate() {
            steps(raw.len() + 1);
            let mut opening = Vec::new();
            while let Some(span) = starting.pop_if(|span| span.range.start == at) {
                match span.style < Style::Code {
                    true => opening.push(span),
                    false => raw.push(span),
                }
            }
            self.close(&mut open, &mut opening, at, care, &mut pieces);
            raw.retain(|span| span.range.end > at);
            // The outer one ends last.
            opening.sort_by_key(|span| (Reverse(span.range.end), span.style));
            for span in opening {
                pieces.push(span.opened());
                open.push(span);
            }
            let Some(&end) = edges.get(nth + 1) else {
                continue;
            };
            pieces.push(match raw.iter().max_by_key(|span| span.style) {
                Some(span) => Piece::Raw(span.raw(&self.text[at..end], care)),
                None => Piece::Text {
                    range: at..end,
                    guarded: (false, false),
                },
            });
        }
        pieces
    }

    /// Closes the marks that end here. Inner ones are closed and reopened, and so are those that
    /// would split a link or an image that opens here.
    fn close(
        &self,
        open: &mut Open<'v>,
        opening: &mut Vec<Span<'v>>,
        at: usize,
        care: Care,
        pieces: &mut Vec<Piece>,
    ) {
        let brackets = opening.iter().filter(|span| span.delimiter().is_none());
        let reach = brackets.map(|span| span.range.end).max().unwrap_or(at);
        for span in open.split_off_what_ends(at, reach).into_iter().rev() {
            step();
            match span.automatic(&self.text, pieces) {
                Some(link) => {
                    pieces.truncate(pieces.len() - 2);
                    pieces.push(Piece::Raw(link));
                }
                None => pieces.push(span.closed(care)),
            }
            if span.range.end > at {
                opening.push(span);
            }
        }
    }
}

/// The open marks, the innermost last.
#[derive(Default)]
struct Open<'v> {
    spans: Vec<Span<'v>>,
    /// Those with delimiters: one of each style at most. The others are links and images, which
    /// nest.
    delimited: Vec<usize>,
}

impl<'v> Open<'v> {
    fn push(&mut self, span: Span<'v>) {
        if span.delimiter().is_some() {
            self.delimited.push(self.spans.len());
        }
        self.spans.push(span);
    }

    /// Removes the marks that end `at` this position, delimiters also before `reach`, and all
    /// inside them.
    fn split_off_what_ends(&mut self, at: usize, reach: usize) -> Vec<Span<'v>> {
        let mut keep = self.spans.len();
        for (nth, span) in self.spans.iter().enumerate().rev() {
            step();
            if span.delimiter().is_none() {
                if span.range.end > at {
                    break;
                }
                keep = nth;
            }
        }
        let ends = |nth: &usize| {
            let end = self.spans[*nth].range.end;
            end == at || end < reach
        };
        if let Some(delimited) = self.delimited.iter().copied().find(ends) {
            keep = keep.min(delimited);
        }
        self.delimited.retain(|nth| *nth < keep);
        self.spans.split_off(keep)
    }
}

fn style(mark: &str) -> Option<Style> {
    Some(match mark {
        "link" => Style::Link,
        "image" => Style::Image,
        "strikethrough" => Style::Strikethrough,
        "bold" => Style::Strong,
        "em" => Style::Emphasis,
        "code" => Style::Code,
        "footnote" => Style::Footnote,
        "html" => Style::Html,
        _ => return None,
    })
}

impl Span<'_> {
    fn delimiter(&self) -> Option<Delimiter> {
        match self.style {
            Style::Strikethrough => Some(Delimiter::Tildes),
            Style::Strong => Some(Delimiter::Asterisks),
            Style::Emphasis => Some(Delimiter::Asterisk),
            _ => None,
        }
    }

    fn opened(&self) -> Piece {
        match self.delimiter() {
            Some(delimiter) => Piece::Open(delimiter),
            None if self.style == Style::Image => Piece::OpenBracket("!["),
            None => Piece::OpenBracket("["),
        }
    }

    fn closed(&self, care: Care) -> Piece {
        let target = match self.style {
            Style::Image => self.attribute("src"),
            _ => self.attribute("href"),
        };
        match self.delimiter() {
            Some(delimiter) => Piece::Close(delimiter),
            None => Piece::CloseBracket(destination(target, self.attribute("title"), care.target)),
        }
    }

    /// The target of a link or the source of an image; `None` for other marks.
    fn target(&self) -> Option<&str> {
        match self.style {
            Style::Link => Some(self.attribute("href")),
            Style::Image => Some(self.attribute("src")),
            _ => None,
        }
    }

    fn attribute(&self, key: &str) -> &str {
        let value = self.attributes.get(key);
        value.and_then(Value::as_str).unwrap_or_default()
    }

    /// The short form of a link whose text is its target, if the last pieces are such a link.
    fn automatic(&self, text: &[char], pieces: &[Piece]) -> Option<String> {
        let [.., Piece::OpenBracket("["), Piece::Text { range, .. }] = pieces else {
            return None;
        };
        let words: String = text.get(range.clone())?.iter().collect();
        let href = self.attribute("href");
        let target = match href.strip_prefix("mailto:") {
            Some(mailbox) if is_mailbox(mailbox) => mailbox,
            _ if is_address(href) => href,
            _ => return None,
        };
        let is_short = words == target && self.attribute("title").is_empty();
        is_short.then(|| format!("<{target}>"))
    }

    fn raw(&self, text: &[char], care: Care) -> String {
        match self.style {
            Style::Code => code(text, care.padded),
            Style::Footnote => {
                let label = self.attribute("label");
                // Two touching ones have been joined.
                let times = text.len() / label.chars().count().max(1);
                format!("[^{label}]").repeat(times.max(1))
            }
            _ => text.iter().collect(),
        }
    }
}

/// Whether this is an address with a scheme, in characters that need no escape.
fn is_address(text: &str) -> bool {
    let letters = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphabetic());
    text.split_once(':').is_some_and(|(scheme, rest)| {
        (2..=32).contains(&scheme.len())
            && letters(scheme)
            && rest
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && !b"<>|".contains(&byte))
    })
}

/// Whether this is the address of a mailbox, in characters that need no escape.
fn is_mailbox(text: &str) -> bool {
    let plain =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    text.split_once('@').is_some_and(|(name, domain)| {
        name.split(['.', '-', '_', '+']).all(plain)
            && domain.split('.').all(plain)
            && domain.len() < 64
    })
}

/// A code span: fenced by more backticks than it has in a row.
fn code(text: &[char], padded: bool) -> String {
    let text: String = text
        .iter()
        .map(|&char| if char == '\n' { ' ' } else { char })
        .collect();
    let fence = "`".repeat(longest_row(&text, '`') + 1);
    let spaced = padded || text.starts_with(' ') && text.ends_with(' ');
    let spaced = spaced && !text.trim_matches(' ').is_empty();
    let space = match spaced || text.starts_with('`') || text.ends_with('`') {
        true => " ",
        false => "",
    };
    format!("{fence}{space}{text}{space}{fence}")
}

pub(super) fn longest_row(text: &str, of: char) -> usize {
    let rows = text.split(|char| char != of);
    rows.map(str::len).max().unwrap_or(0)
}

/// The part after the words of a link or an image.
fn destination(target: &str, title: &str, spelling: Spelling) -> String {
    let target = encoded(target, |char| {
        char.is_ascii_alphanumeric() || "-._~:/?#@!$+,;=%".contains(char)
    });
    let target = match spelling {
        // A title alone would be read as the target.
        Spelling::Plain if target.is_empty() && !title.is_empty() => "<>".to_owned(),
        Spelling::Apart if target.is_empty() && !title.is_empty() => " <>".to_owned(),
        Spelling::Plain => target,
        Spelling::Apart => format!(" {target}"),
        Spelling::Bracketed => format!("<{target}>"),
    };
    match title {
        "" => format!("]({target})"),
        title => format!("]({target} \"{}\")", title_text(title)),
    }
}

fn title_text(title: &str) -> String {
    encoded(title, |char| {
        char == ' ' || (char.is_ascii_graphic() && !"\"\\&<>`[]|*_~".contains(char))
    })
}

/// Encodes as references all ASCII characters that are not plain, and spaces of all kinds.
pub(super) fn encoded(text: &str, plain: impl Fn(char) -> bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for char in text.chars() {
        match plain(char) || !(char.is_ascii() || char.is_whitespace() || char.is_control()) {
            true => encoded.push(char),
            false => push_reference(&mut encoded, char),
        }
    }
    encoded
}

fn push_reference(out: &mut String, char: char) {
    match char {
        '&' => out.push_str("&amp;"),
        '\u{a0}' => out.push_str("&nbsp;"),
        // A reference to it would be read as this.
        '\0' => out.push('\u{FFFD}'),
        _ => out.push_str(&format!("&#{};", u32::from(char))),
    }
}
