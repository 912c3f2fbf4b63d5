//! Writes text with marks as Markdown.
//!
//! First the text is split into pieces at the edges of marks, with delimiters in between. Then each
//! piece is escaped, depending on its neighbours.

mod flank;
mod spell;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Range;

use doclock::{
    NodeId,
    document::{Mark, Node},
};
use pulldown_cmark::Parser;
use serde_json::Value;

use flank::settle;
use spell::Speller;

use super::{EXTENSIONS, MarkdownAttribute, MarkdownOptions};
use crate::dropped::{DroppedPart, DroppedReport};
use crate::names::{AttributeOwner, MarkdownMark, MarkdownNames};
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
    options: &MarkdownOptions,
    report: &mut DroppedReport<NodeId>,
) -> String {
    let mut run = InlineRun::new(&options.names);
    nodes.into_iter().for_each(|node| run.add(node, report));
    run.drop_where(|span| {
        span.target()
            .is_some_and(|target| !options.targets.allows(target))
    });
    run.settle();
    let text = run.unambiguous(place);
    for nth in run.dropped {
        let (node, mark) = run.marks[nth];
        report.add(DroppedPart::mark(mark), || node.clone());
    }
    text
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
struct SpellingVariant {
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

impl SpellingVariant {
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
enum InlineStyle {
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
struct StyledSpan<'v> {
    range: Range<usize>,
    style: InlineStyle,
    mark: &'v Mark,
    /// The number of the mark in [`InlineRun::marks`].
    nth: usize,
    names: &'v MarkdownNames,
}

struct InlineRun<'v> {
    names: &'v MarkdownNames,
    text: Vec<char>,
    spans: Vec<StyledSpan<'v>>,
    /// The marks of the spans, each with the node that has it.
    marks: Vec<(&'v NodeId, &'v Mark)>,
    /// The marks that are not written on some of their characters.
    dropped: BTreeSet<usize>,
}

/// A piece of text, or a delimiter between two.
#[derive(Debug, PartialEq, Eq)]
enum InlineToken {
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

impl<'v> InlineRun<'v> {
    fn new(names: &'v MarkdownNames) -> Self {
        Self {
            names,
            text: Vec::new(),
            spans: Vec::new(),
            marks: Vec::new(),
            dropped: BTreeSet::new(),
        }
    }

    fn add(&mut self, node: &'v Node, report: &mut DroppedReport<NodeId>) {
        let start = self.text.len();
        self.text.extend(node.text().chars());
        let len = self.text.len() - start;
        for mark in node.marks() {
            let Some(range) = mark.range.clone() else {
                continue;
            };
            let nth = self.marks.len();
            self.marks.push((node.id(), mark));
            let Some(kind) = self.names.mark_named(&mark.kind) else {
                self.dropped.insert(nth);
                continue;
            };
            for (name, value) in &mark.attributes {
                let attribute = self.names.attribute_named(AttributeOwner::Mark(kind), name);
                if !attribute.is_some_and(|attribute| attribute.accepts(value)) {
                    let part = DroppedPart::MarkAttribute {
                        mark: mark.kind.clone(),
                        attribute: name.clone(),
                    };
                    report.add(part, || node.id().clone());
                }
            }
            let range = range.start.min(len) + start..range.end.min(len) + start;
            if !range.is_empty() {
                self.spans.push(StyledSpan {
                    range,
                    style: kind.into(),
                    mark,
                    nth,
                    names: self.names,
                });
            }
        }
    }

    fn drop_where(&mut self, is_dropped: impl Fn(&StyledSpan<'_>) -> bool) {
        let dropped = &mut self.dropped;
        self.spans.retain(|span| {
            let is_dropped = is_dropped(span);
            if is_dropped {
                dropped.insert(span.nth);
            }
            !is_dropped
        });
    }

    /// The text in a spelling that is not read as a link definition.
    fn unambiguous(&mut self, place: EscapeContext) -> String {
        let plain = self.spelled(place, SpellingVariant::default());
        if place != EscapeContext::Paragraph || !begins_definition(&plain) {
            return plain;
        }
        let mut careful = SpellingVariant::ALL
            .into_iter()
            .map(|care| self.spelled(place, care));
        let careful = careful.find(|text| !begins_definition(text));
        careful.unwrap_or_else(|| {
            // No spelling works: the text is kept, without its code and HTML marks.
            self.drop_where(|span| span.style >= InlineStyle::Code);
            self.spelled(place, SpellingVariant::default())
        })
    }

    /// Orders the marks for writing, and reduces them to what Markdown can express.
    fn settle(&mut self) {
        self.join();
        self.part(InlineStyle::Footnote);
        self.keep_footnotes_whole();
        self.join();
        self.part(InlineStyle::Link);
        self.part(InlineStyle::Html);
        self.nest_brackets();
        self.note_hidden();
    }

    /// Joins marks that touch or overlap and have the same spelling: one cannot end where the other
    /// begins.
    fn join(&mut self) {
        self.spans
            .sort_by_key(|span| (span.style, span.range.start));
        self.spans.dedup_by(|next, span| {
            let alike = span.style == next.style
                && (span.delimiter().is_some()
                    || span.style == InlineStyle::Code
                    || span.mark.attributes == next.mark.attributes);
            let joined = alike && next.range.start <= span.range.end;
            if joined {
                span.range.end = span.range.end.max(next.range.end);
            }
            joined
        });
    }

    /// Where two of this style overlap, the second begins where the first ends.
    fn part(&mut self, style: InlineStyle) {
        let mut end = 0;
        let dropped = &mut self.dropped;
        self.spans.retain_mut(|span| {
            if span.style == style {
                if span.range.start < end {
                    dropped.insert(span.nth);
                    span.range.start = end.min(span.range.end);
                }
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
            .filter(|span| span.style == InlineStyle::Footnote);
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
        let is_bracket = |span: &&mut StyledSpan<'_>| {
            matches!(span.style, InlineStyle::Link | InlineStyle::Image)
        };
        let mut brackets: Vec<_> = self.spans.iter_mut().filter(is_bracket).collect();
        brackets.sort_by_key(|span| (span.range.start, Reverse(span.range.end), span.style));
        let mut around: Vec<usize> = Vec::new();
        for span in brackets {
            while around.pop_if(|end| *end <= span.range.start).is_some() {}
            let end = around.last().copied().unwrap_or(usize::MAX);
            if end < span.range.end {
                self.dropped.insert(span.nth);
                span.range.end = end;
            }
            around.push(span.range.end);
        }
    }

    /// Notes the marks of text that is written verbatim under another such mark.
    fn note_hidden(&mut self) {
        let raw = self
            .spans
            .iter()
            .filter(|span| span.style >= InlineStyle::Code);
        let mut raw: Vec<_> = raw.collect();
        raw.sort_by_key(|span| span.range.start);
        let mut open: Vec<&StyledSpan<'_>> = Vec::new();
        for span in raw {
            // No two of one style overlap.
            open.retain(|other| other.range.end > span.range.start);
            for other in &open {
                self.dropped.insert(match other.style < span.style {
                    true => other.nth,
                    false => span.nth,
                });
            }
            open.push(span);
        }
    }

    fn spelled(&self, place: EscapeContext, care: SpellingVariant) -> String {
        let mut pieces = self.pieces(care);
        settle(&mut pieces, &self.text);
        Speller::new(&self.text, &pieces, place, care.escaped).spelled()
    }

    fn pieces(&self, care: SpellingVariant) -> Vec<InlineToken> {
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
        let mut open = OpenSpans::default();
        let mut raw: Vec<StyledSpan<'v>> = Vec::new();
        for (nth, &at) in edges.iter().enumerate() {
            steps(raw.len() + 1);
            let mut opening = Vec::new();
            while let Some(span) = starting.pop_if(|span| span.range.start == at) {
                match span.style < InlineStyle::Code {
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
                Some(span) => InlineToken::Raw(span.raw(&self.text[at..end], care)),
                None => InlineToken::Text {
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
        open: &mut OpenSpans<'v>,
        opening: &mut Vec<StyledSpan<'v>>,
        at: usize,
        care: SpellingVariant,
        pieces: &mut Vec<InlineToken>,
    ) {
        let brackets = opening.iter().filter(|span| span.delimiter().is_none());
        let reach = brackets.map(|span| span.range.end).max().unwrap_or(at);
        for span in open.split_off_what_ends(at, reach).into_iter().rev() {
            step();
            match span.automatic(&self.text, pieces) {
                Some(link) => {
                    pieces.truncate(pieces.len() - 2);
                    pieces.push(InlineToken::Raw(link));
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
struct OpenSpans<'v> {
    spans: Vec<StyledSpan<'v>>,
    /// Those with delimiters: one of each style at most. The others are links and images, which
    /// nest.
    delimited: Vec<usize>,
}

impl<'v> OpenSpans<'v> {
    fn push(&mut self, span: StyledSpan<'v>) {
        if span.delimiter().is_some() {
            self.delimited.push(self.spans.len());
        }
        self.spans.push(span);
    }

    /// Removes the marks that end `at` this position, delimiters also before `reach`, and all
    /// inside them.
    fn split_off_what_ends(&mut self, at: usize, reach: usize) -> Vec<StyledSpan<'v>> {
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

impl From<MarkdownMark> for InlineStyle {
    fn from(mark: MarkdownMark) -> Self {
        match mark {
            MarkdownMark::Strikethrough => Self::Strikethrough,
            MarkdownMark::Strong => Self::Strong,
            MarkdownMark::Emphasis => Self::Emphasis,
            MarkdownMark::Link => Self::Link,
            MarkdownMark::Image => Self::Image,
            MarkdownMark::Code => Self::Code,
            MarkdownMark::Footnote => Self::Footnote,
            MarkdownMark::Html => Self::Html,
        }
    }
}

impl StyledSpan<'_> {
    fn delimiter(&self) -> Option<Delimiter> {
        match self.style {
            InlineStyle::Strikethrough => Some(Delimiter::Tildes),
            InlineStyle::Strong => Some(Delimiter::Asterisks),
            InlineStyle::Emphasis => Some(Delimiter::Asterisk),
            _ => None,
        }
    }

    fn opened(&self) -> InlineToken {
        match self.delimiter() {
            Some(delimiter) => InlineToken::Open(delimiter),
            None if self.style == InlineStyle::Image => InlineToken::OpenBracket("!["),
            None => InlineToken::OpenBracket("["),
        }
    }

    fn closed(&self, care: SpellingVariant) -> InlineToken {
        match self.delimiter() {
            Some(delimiter) => InlineToken::Close(delimiter),
            None => {
                let target = self.target().unwrap_or_default();
                InlineToken::CloseBracket(destination(target, self.title(), care.target))
            }
        }
    }

    /// The target of a link or the source of an image; `None` for other marks.
    fn target(&self) -> Option<&str> {
        match self.style {
            InlineStyle::Link => Some(self.attribute(MarkdownAttribute::LinkTarget)),
            InlineStyle::Image => Some(self.attribute(MarkdownAttribute::ImageSource)),
            _ => None,
        }
    }

    fn title(&self) -> &str {
        self.attribute(match self.style {
            InlineStyle::Image => MarkdownAttribute::ImageTitle,
            _ => MarkdownAttribute::LinkTitle,
        })
    }

    fn attribute(&self, attribute: MarkdownAttribute) -> &str {
        let value = self.mark.attributes.get(self.names.of_attribute(attribute));
        value.and_then(Value::as_str).unwrap_or_default()
    }

    /// The short form of a link whose text is its target, if the last pieces are such a link.
    fn automatic(&self, text: &[char], pieces: &[InlineToken]) -> Option<String> {
        let [
            ..,
            InlineToken::OpenBracket("["),
            InlineToken::Text { range, .. },
        ] = pieces
        else {
            return None;
        };
        let words: String = text.get(range.clone())?.iter().collect();
        let href = self.target().unwrap_or_default();
        let target = match href.strip_prefix("mailto:") {
            Some(mailbox) if is_mailbox(mailbox) => mailbox,
            _ if is_address(href) => href,
            _ => return None,
        };
        let is_short = words == target && self.title().is_empty();
        is_short.then(|| format!("<{target}>"))
    }

    fn raw(&self, text: &[char], care: SpellingVariant) -> String {
        match self.style {
            InlineStyle::Code => code(text, care.padded),
            InlineStyle::Footnote => {
                let label = self.attribute(MarkdownAttribute::FootnoteReferenceLabel);
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

/// Encodes as references all ASCII characters that are not plain, and spaces of all kinds. An
/// ampersand is plain if it begins no reference.
pub(super) fn encoded(text: &str, plain: impl Fn(char) -> bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        let is_plain = match char {
            '&' => !begins_reference(chars.clone()),
            _ => plain(char),
        };
        match is_plain || !(char.is_ascii() || char.is_whitespace() || char.is_control()) {
            true => encoded.push(char),
            false => push_reference(&mut encoded, char),
        }
    }
    encoded
}

/// Whether the text after an ampersand forms a character reference.
fn begins_reference(text: impl Iterator<Item = char>) -> bool {
    let is_of_name = |char: &char| char.is_ascii_alphanumeric() || *char == '#';
    let mut len = 0;
    let mut text = text
        .take(41)
        .inspect(|char| len += usize::from(is_of_name(char)));
    let end = text.find(|char| !is_of_name(char));
    end == Some(';') && len > 0
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
