//! Reads Markdown into nodes.

use std::borrow::Cow;
use std::mem;

use pulldown_cmark::{Alignment, CodeBlockKind, Event, LinkType, Parser, Tag, TagEnd};
use serde_json::Value;

use super::{EXTENSIONS, OBJECT, TargetFilter};
use crate::document::{Attributes, Mark, Marks, NodeSpec};
use crate::steps::{step, steps};

pub(super) fn document(markdown: &str, filter: &TargetFilter) -> NodeSpec {
    let markdown = prepared(markdown);
    let mut outline = Outline::new(filter);
    // The work of the parser is not counted.
    steps(markdown.len());
    for event in Parser::new_ext(&markdown, EXTENSIONS) {
        step();
        outline.take(event);
    }
    outline.into_document()
}

/// The text with newlines of one kind and, as CommonMark requires, U+FFFD for U+0000.
fn prepared(text: &str) -> Cow<'_, str> {
    match text.contains(['\r', '\0']) {
        true => {
            let text = text.replace("\r\n", "\n").replace('\r', "\n");
            text.replace('\0', "\u{FFFD}").into()
        }
        false => text.into(),
    }
}

/// The path from the document to the position of the parser.
struct Outline<'f> {
    filter: &'f TargetFilter,
    /// The innermost block.
    block: Block,
    /// The outer blocks, the document first.
    around: Vec<Block>,
    /// The open marks of the innermost block, the outermost first.
    marks: Vec<OpenMark>,
    /// How many of them are links.
    links: usize,
}

struct Block {
    kind: &'static str,
    attributes: Vec<(&'static str, Value)>,
    children: Vec<NodeSpec>,
    /// The block as a single line of a list, if it has no further content.
    short: Option<Vec<NodeSpec>>,
    /// The text since the last child.
    text: String,
    /// Its length in characters.
    len: usize,
    marks: Vec<Mark>,
}

struct OpenMark {
    /// `None` for a construct that ends like a mark and is none.
    kind: Option<&'static str>,
    attributes: Attributes,
    start: usize,
}

impl<'f> Outline<'f> {
    fn new(filter: &'f TargetFilter) -> Self {
        Self {
            filter,
            block: Block::new("document", vec![]),
            around: Vec::new(),
            marks: Vec::new(),
            links: 0,
        }
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) => self.block.say(&text),
            Event::SoftBreak => self.block.say(" "),
            Event::HardBreak => self.block.say("\n"),
            Event::Code(text) => self.say_marked("code", &text, []),
            Event::InlineHtml(text) => {
                let text = self.block.lines_of_html(&text);
                self.say_marked("html", &text, []);
            }
            Event::FootnoteReference(label) => {
                self.say_marked("footnote", &label, [("label", (*label).into())]);
            }
            Event::Rule => {
                self.open("thematic-break", vec![]);
                self.close();
            }
            Event::TaskListMarker(checked) => {
                let mut outwards =
                    std::iter::once(&mut self.block).chain(self.around.iter_mut().rev());
                if let Some(item) = outwards.find(|block| {
                    step();
                    block.kind == "list-item"
                }) {
                    item.attributes.push(("checked", checked.into()));
                }
            }
            // Of extensions that are disabled.
            Event::InlineMath(_) | Event::DisplayMath(_) => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Emphasis => self.open_mark("em", []),
            Tag::Strong => self.open_mark("bold", []),
            Tag::Strikethrough => self.open_mark("strikethrough", []),
            Tag::Link {
                link_type,
                dest_url,
                title,
                ..
            } => {
                let automatic = matches!(link_type, LinkType::Autolink | LinkType::Email);
                if automatic && self.links > 0 {
                    // Links do not nest; the parser accepts an inner link only if it has no
                    // brackets.
                    return self.marks.push(OpenMark::none(self.block.len));
                }
                let href = match link_type {
                    LinkType::Email => format!("mailto:{dest_url}").into(),
                    _ => dest_url,
                };
                if !self.filter.allows(&href) {
                    return self.marks.push(OpenMark::none(self.block.len));
                }
                self.spell_out_footnote();
                self.open_mark("link", [("href", given(&href)), ("title", given(&title))]);
            }
            Tag::Image { dest_url, .. } if !self.filter.allows(&dest_url) => {
                self.marks.push(OpenMark::none(self.block.len));
            }
            Tag::Image {
                dest_url, title, ..
            } => self.open_mark(
                "image",
                [("src", given(&dest_url)), ("title", given(&title))],
            ),
            block => {
                let (kind, attributes) = block_of(block);
                self.open(kind, attributes);
            }
        }
    }

    /// A footnote reference right before a link becomes text: together they would be read as
    /// another kind of link.
    fn spell_out_footnote(&mut self) {
        let here = self.block.len;
        self.block.spell_out_footnote();
        // The last opened ones: none begins before an outer one.
        let open = self.marks.iter_mut().rev().inspect(|_| step());
        let moved = open.take_while(|mark| mark.start == here);
        moved.for_each(|mark| mark.start = self.block.len);
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Emphasis
            | TagEnd::Strong
            | TagEnd::Strikethrough
            | TagEnd::Link
            | TagEnd::Image => self.close_mark(),
            _ => self.close(),
        }
    }

    fn open(&mut self, kind: &'static str, attributes: Vec<(&'static str, Value)>) {
        self.block.end_text();
        let around = mem::replace(&mut self.block, Block::new(kind, attributes));
        self.around.push(around);
    }

    fn close(&mut self) {
        if let Some(around) = self.around.pop() {
            let closed = mem::replace(&mut self.block, around);
            self.block.add(closed);
        }
    }

    fn open_mark<const N: usize>(&mut self, kind: &'static str, attributes: [(&str, Value); N]) {
        self.links += usize::from(kind == "link");
        self.marks.push(OpenMark {
            kind: Some(kind),
            attributes: attributes.into(),
            start: self.block.len,
        });
    }

    fn close_mark(&mut self) {
        let Some(open) = self.marks.pop() else {
            return;
        };
        self.links -= usize::from(open.kind == Some("link"));
        if open.kind.is_some() && open.start == self.block.len {
            self.block.say(OBJECT.encode_utf8(&mut [0; 4]));
        }
        if let Some(kind) = open.kind {
            let mark = Mark::new(kind, open.start..self.block.len);
            self.block.marks.push(mark.with_attributes(open.attributes));
        }
    }

    fn say_marked<const N: usize>(
        &mut self,
        kind: &'static str,
        text: &str,
        attributes: [(&str, Value); N],
    ) {
        self.open_mark(kind, attributes);
        self.block.say(text);
        self.close_mark();
    }

    fn into_document(mut self) -> NodeSpec {
        while !self.around.is_empty() {
            self.close();
        }
        self.block.into_spec()
    }
}

impl OpenMark {
    fn none(start: usize) -> Self {
        Self {
            kind: None,
            attributes: Attributes::default(),
            start,
        }
    }
}

impl Block {
    fn new(kind: &'static str, attributes: Vec<(&'static str, Value)>) -> Self {
        Self {
            kind,
            attributes,
            children: Vec::new(),
            short: None,
            text: String::new(),
            len: 0,
            marks: Vec::new(),
        }
    }

    fn say(&mut self, text: &str) {
        steps(text.len());
        self.text.push_str(text);
        self.len += text.chars().count();
    }

    /// A line break within a tag becomes a space. Only a tag at the beginning of a paragraph keeps
    /// its lines: in one line it could be a block.
    fn lines_of_html(&self, text: &str) -> String {
        let lines: Vec<_> = text.split('\n').map(str::trim_start).collect();
        let begins_with_letter = |line: &&str| line.starts_with(|char: char| char.is_alphabetic());
        let keeps_lines = matches!(self.kind, "paragraph" | "list-item")
            && self.text.is_empty()
            && lines.iter().skip(1).all(begins_with_letter);
        let html = lines.join(if keeps_lines { "\n" } else { " " });
        match self.kind {
            "table-cell" => html.replace(r"\|", "|"),
            _ => html,
        }
    }

    /// Turns the footnote reference that was just made into text.
    fn spell_out_footnote(&mut self) {
        let here = self.len;
        let ends_here = |mark: &mut Mark| {
            mark.kind == "footnote" && mark.range.as_ref().is_some_and(|range| range.end == here)
        };
        if let Some(range) = self.marks.pop_if(ends_here).and_then(|mark| mark.range) {
            // Counted from the end, so the length of the text does not matter.
            steps(range.len());
            let mut chars = self.text.char_indices().rev();
            let start = chars.nth(range.len().saturating_sub(1));
            let label = start.map_or_else(String::new, |(start, _)| self.text.split_off(start));
            self.len = range.start;
            self.say(&format!("[^{label}]"));
        }
    }

    /// Makes a child of the pending text, if there is any.
    fn end_text(&mut self) {
        let len = mem::take(&mut self.len);
        let mut text = mem::take(&mut self.text);
        let marks = mem::take(&mut self.marks);
        if text.is_empty() {
            return;
        }
        let marks = Marks::normal(marks, len).unwrap_or_default();
        let mut marks: Vec<Mark> = marks.iter().cloned().collect();
        if matches!(self.kind, "paragraph" | "list-item") && begins_html_block(&text, &marks) {
            marks.retain(|mark| mark.kind != "html" || !starts_at_once(mark));
        }
        if self.kind == "html-block" {
            // Indentation, and empty lines after unclosed HTML, are dropped.
            text = text.trim().to_owned();
        }
        if matches!(self.kind, "code-block" | "html-block") && !text.ends_with('\n') {
            text.push('\n');
        }
        let text = NodeSpec::new("inline-text").with_text(text);
        self.children.push(text.with_marks(marks));
    }

    /// A list of one item with one paragraph is tight, even if an invisible link definition follows
    /// the paragraph: nothing visible could be written in its place.
    fn add(&mut self, mut child: Self) {
        child.end_text();
        self.short = match (self.kind, child.kind, self.children.is_empty()) {
            ("list-item", "paragraph", true) => Some(child.children.clone()),
            ("list", "list-item", true) => child.short.take().map(|text| {
                let attributes: Attributes = child.attributes.iter().cloned().collect();
                vec![
                    NodeSpec::new(child.kind)
                        .with_attributes(attributes)
                        .with_children(text),
                ]
            }),
            _ => None,
        };
        self.children.push(child.into_spec());
    }

    fn into_spec(mut self) -> NodeSpec {
        self.end_text();
        let attributes: Attributes = self.attributes.into_iter().collect();
        let children = match self.kind {
            "list" => self.short.unwrap_or(self.children),
            _ => self.children,
        };
        NodeSpec::new(self.kind)
            .with_attributes(attributes)
            .with_children(children)
    }
}

fn starts_at_once(mark: &Mark) -> bool {
    mark.range.as_ref().is_some_and(|range| range.start == 0)
}

/// Whether a paragraph begins with HTML that would form a block without the link definition before
/// it, which is dropped. Nothing can replace the definition, so there the HTML becomes plain text.
fn begins_html_block(text: &str, marks: &[Mark]) -> bool {
    steps(text.len() + marks.len());
    marks
        .iter()
        .any(|mark| mark.kind == "html" && starts_at_once(mark))
        && matches!(
            Parser::new(&text.replace('\n', r"\")).next(),
            Some(Event::Start(Tag::HtmlBlock))
        )
}

fn block_of(tag: Tag<'_>) -> (&'static str, Vec<(&'static str, Value)>) {
    match tag {
        Tag::Paragraph => ("paragraph", vec![]),
        Tag::Heading { level, .. } => ("heading", vec![("level", (level as usize).into())]),
        Tag::BlockQuote(_) => ("block-quote", vec![]),
        Tag::CodeBlock(kind) => ("code-block", language(&kind).into_iter().collect()),
        Tag::HtmlBlock => ("html-block", vec![]),
        Tag::List(None) => ("list", vec![("ordered", false.into())]),
        Tag::List(Some(start)) => (
            "list",
            vec![("ordered", true.into()), ("start", start.into())],
        ),
        Tag::Item => ("list-item", vec![]),
        Tag::FootnoteDefinition(label) => ("footnote", vec![("label", (*label).into())]),
        Tag::Table(columns) => {
            let align = columns.into_iter().map(alignment).collect();
            ("table", vec![("align", align)])
        }
        Tag::TableHead => ("table-head", vec![]),
        Tag::TableRow => ("table-row", vec![]),
        Tag::TableCell => ("table-cell", vec![]),
        // Of extensions that are disabled, or no blocks.
        _ => ("paragraph", vec![]),
    }
}

/// An empty attribute is omitted.
fn given(text: &str) -> Value {
    match text.is_empty() {
        true => Value::Null,
        false => text.into(),
    }
}

/// The first word after the fence.
fn language(kind: &CodeBlockKind<'_>) -> Option<(&'static str, Value)> {
    match kind {
        CodeBlockKind::Indented => None,
        CodeBlockKind::Fenced(info) => {
            let language = info.split_whitespace().next()?;
            Some(("language", language.into()))
        }
    }
}

fn alignment(alignment: Alignment) -> &'static str {
    match alignment {
        Alignment::None => "none",
        Alignment::Left => "left",
        Alignment::Center => "center",
        Alignment::Right => "right",
    }
}
