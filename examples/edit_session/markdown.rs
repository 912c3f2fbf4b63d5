//! Markdown into a tree of nodes.
//!
//! A `document` has blocks: `heading`, `paragraph`, `list` with its `list-item`s, `code-block` and so on. What a
//! block says is in children of the type `inline-text`, one for each stretch between other blocks; emphasis, links
//! and the like are marks over its characters.

use std::mem;

use doclock::{Attributes, Mark, NodeSpec};
use pulldown_cmark::{Alignment, CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use serde_json::Value;

use crate::walk::TEXT;

/// The document that a Markdown text describes. Every text describes one.
pub fn document(markdown: &str) -> NodeSpec {
    let extensions = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS;
    let mut outline = Outline::new();
    for event in Parser::new_ext(markdown, extensions) {
        outline.take(event);
    }
    outline.into_document()
}

/// What stands for an image without a description or a link without words: a mark needs something to cover.
const OBJECT: &str = "\u{FFFC}";

/// The way from the document down to where the parser is.
struct Outline {
    /// The innermost block.
    block: Block,
    /// The blocks around it, the document first.
    around: Vec<Block>,
    /// The marks that are open in the innermost block, the outermost first.
    marks: Vec<OpenMark>,
}

struct Block {
    kind: &'static str,
    attributes: Vec<(&'static str, Value)>,
    children: Vec<NodeSpec>,
    /// What was said since the last child.
    text: String,
    /// Its length in characters.
    len: usize,
    marks: Vec<Mark>,
}

struct OpenMark {
    kind: &'static str,
    attributes: Attributes,
    start: usize,
}

impl Outline {
    fn new() -> Self {
        Self {
            block: Block::new("document", vec![]),
            around: Vec::new(),
            marks: Vec::new(),
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
            Event::InlineHtml(text) => self.say_marked("html", &text, []),
            Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.say_marked("math", &text, []);
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
                if let Some(item) = outwards.find(|block| block.kind == "list-item") {
                    item.attributes.push(("checked", checked.into()));
                }
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.open("paragraph", vec![]),
            Tag::Heading { level, .. } => {
                self.open("heading", vec![("level", (level as usize).into())]);
            }
            Tag::BlockQuote(_) => self.open("block-quote", vec![]),
            Tag::CodeBlock(kind) => self.open("code-block", language(&kind).into_iter().collect()),
            Tag::HtmlBlock => self.open("html-block", vec![]),
            Tag::List(start) => {
                let start_at = start.map(|start| ("start", start.into()));
                let ordered = ("ordered", start.is_some().into());
                self.open("list", std::iter::once(ordered).chain(start_at).collect());
            }
            Tag::Item => self.open("list-item", vec![]),
            Tag::FootnoteDefinition(label) => {
                self.open("footnote", vec![("label", (*label).into())]);
            }
            Tag::DefinitionList => self.open("definition-list", vec![]),
            Tag::DefinitionListTitle => self.open("definition-title", vec![]),
            Tag::DefinitionListDefinition => self.open("definition", vec![]),
            Tag::Table(columns) => {
                let align = columns.into_iter().map(alignment).collect();
                self.open("table", vec![("align", align)]);
            }
            Tag::TableHead => self.open("table-head", vec![]),
            Tag::TableRow => self.open("table-row", vec![]),
            Tag::TableCell => self.open("table-cell", vec![]),
            Tag::MetadataBlock(_) => self.open("metadata", vec![]),
            Tag::Emphasis => self.open_mark("em", []),
            Tag::Strong => self.open_mark("bold", []),
            Tag::Strikethrough => self.open_mark("strikethrough", []),
            Tag::Superscript => self.open_mark("superscript", []),
            Tag::Subscript => self.open_mark("subscript", []),
            Tag::Link {
                dest_url, title, ..
            } => self.open_mark(
                "link",
                [("href", given(&dest_url)), ("title", given(&title))],
            ),
            Tag::Image {
                dest_url, title, ..
            } => self.open_mark(
                "image",
                [("src", given(&dest_url)), ("title", given(&title))],
            ),
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Emphasis
            | TagEnd::Strong
            | TagEnd::Strikethrough
            | TagEnd::Superscript
            | TagEnd::Subscript
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
            self.block.children.push(closed.into_spec());
        }
    }

    fn open_mark<const N: usize>(&mut self, kind: &'static str, attributes: [(&str, Value); N]) {
        self.marks.push(OpenMark {
            kind,
            attributes: attributes.into(),
            start: self.block.len,
        });
    }

    fn close_mark(&mut self) {
        let Some(open) = self.marks.pop() else {
            return;
        };
        if open.start == self.block.len {
            self.block.say(OBJECT);
        }
        let mark = Mark::new(open.kind, open.start..self.block.len);
        self.block.marks.push(mark.with_attributes(open.attributes));
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

impl Block {
    fn new(kind: &'static str, attributes: Vec<(&'static str, Value)>) -> Self {
        Self {
            kind,
            attributes,
            children: Vec::new(),
            text: String::new(),
            len: 0,
            marks: Vec::new(),
        }
    }

    fn say(&mut self, text: &str) {
        self.text.push_str(text);
        self.len += text.chars().count();
    }

    /// Makes a child of what was said, if anything was.
    fn end_text(&mut self) {
        self.len = 0;
        let text = mem::take(&mut self.text);
        let marks = mem::take(&mut self.marks);
        if !text.is_empty() {
            let text = NodeSpec::new(TEXT).with_text(text).with_marks(marks);
            self.children.push(text);
        }
    }

    fn into_spec(mut self) -> NodeSpec {
        self.end_text();
        let attributes: Attributes = self.attributes.into_iter().collect();
        NodeSpec::new(self.kind)
            .with_attributes(attributes)
            .with_children(self.children)
    }
}

/// An empty attribute is left out.
fn given(text: &str) -> Value {
    match text.is_empty() {
        true => Value::Null,
        false => text.into(),
    }
}

/// The first word of what follows the fence.
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
