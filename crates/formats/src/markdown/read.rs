//! Reads Markdown into nodes.

use std::borrow::Cow;
use std::mem;

use doclock::document::{Attributes, Mark, Marks, NodeSpec};
use pulldown_cmark::{Alignment, CodeBlockKind, Event, LinkType, Parser, Tag, TagEnd};
use serde_json::Value;
use smol_str::SmolStr;

use super::{
    DEEPEST, EXTENSIONS, MarkdownAttribute, MarkdownMark, MarkdownNames, MarkdownNode,
    MarkdownOptions, OBJECT, tables,
};
use crate::dropped::{Dropped, DroppedPart, DroppedReport};
use crate::names::ends_front_matter;
use crate::steps::{step, steps};

/// The document, and what it does not express, each with the line of the first.
pub(super) fn document(
    markdown: &str,
    options: &MarkdownOptions,
) -> (NodeSpec, Vec<Dropped<usize>>) {
    let markdown = prepared(markdown);
    let (front_matter, rest) = front_matter(&markdown);
    let front = markdown.len() - rest.len();
    let (rest, sparse_tables) = tables::bounded(rest.into());
    let markdown = match rest {
        Cow::Borrowed(_) => Cow::Borrowed(&*markdown),
        Cow::Owned(rest) => Cow::Owned(markdown[..front].to_owned() + &rest),
    };
    let mut outline = Outline::new(&markdown, options);
    for at in sparse_tables {
        outline.at = front + at;
        outline.drop_type(MarkdownNode::Table);
    }
    // The work of the parser is not counted.
    steps(markdown.len());
    if let Some(lines) = front_matter {
        outline
            .block
            .set(MarkdownAttribute::FrontMatter, lines.into());
    }
    for (event, range) in Parser::new_ext(&markdown[front..], EXTENSIONS).into_offset_iter() {
        step();
        outline.at = front + range.start;
        outline.end = front + range.end;
        outline.take(event);
    }
    outline.into_document()
}

/// The lines of YAML between a first line `---` and the next line `---` or `...`, as site
/// generators and editors of notes write them, and the rest. An empty line after the first one
/// makes that a thematic break.
fn front_matter(markdown: &str) -> (Option<&str>, &str) {
    let none = (None, markdown);
    let mut lines = markdown.split_inclusive('\n');
    let Some(first) = lines.next().filter(|line| line.trim_end() == "---") else {
        return none;
    };
    let mut end = first.len();
    for line in lines {
        let is_first = end == first.len();
        if is_first && (line.trim().is_empty() || ends_front_matter(line)) {
            return none;
        }
        if ends_front_matter(line) {
            let yaml = &markdown[first.len()..end];
            let yaml = yaml.strip_suffix('\n').unwrap_or(yaml);
            return (Some(yaml), &markdown[end + line.len()..]);
        }
        end += line.len();
    }
    none
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
    markdown: &'f str,
    options: &'f MarkdownOptions,
    report: DroppedReport<usize>,
    /// The byte at which the current event begins.
    at: usize,
    /// The byte at which it ends.
    end: usize,
    /// How many blocks and marks are open in the source that is kept because it nests too deep.
    too_deep: usize,
    /// The innermost block.
    block: OpenBlock<'f>,
    /// The outer blocks, the document first.
    around: Vec<OpenBlock<'f>>,
    /// The open marks of the innermost block, the outermost first.
    marks: Vec<OpenInline>,
    /// How many of them are links.
    links: usize,
}

/// The levels that are left for a block, an item of a list or a table in it, and its text.
const INNER: usize = 8;

struct OpenBlock<'f> {
    names: &'f MarkdownNames,
    kind: MarkdownNode,
    attributes: Vec<(SmolStr, Value)>,
    children: Vec<NodeSpec>,
    /// The block as a single line of a list, if it has no further content.
    short: Option<Vec<NodeSpec>>,
    /// The text since the last child.
    text: String,
    /// Its length in characters.
    len: usize,
    marks: Vec<Mark>,
}

struct OpenInline {
    /// `None` for a construct that ends like a mark and is none.
    kind: Option<MarkdownMark>,
    attributes: Attributes,
    start: usize,
}

impl<'f> Outline<'f> {
    fn new(markdown: &'f str, options: &'f MarkdownOptions) -> Self {
        Self {
            markdown,
            options,
            report: DroppedReport::default(),
            at: 0,
            end: 0,
            too_deep: 0,
            block: OpenBlock::new(&options.names, MarkdownNode::Document),
            around: Vec::new(),
            marks: Vec::new(),
            links: 0,
        }
    }

    fn take(&mut self, event: Event<'_>) {
        if self.is_too_deep(&event) {
            return;
        }
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) => self.block.say(&text),
            Event::SoftBreak => self.block.say(" "),
            Event::HardBreak => self.block.say("\n"),
            Event::Code(text) => self.say_marked(MarkdownMark::Code, &text, []),
            // GitHub's way to break a line in a cell.
            Event::InlineHtml(tag)
                if self.block.kind == MarkdownNode::TableCell && is_break(&tag) =>
            {
                self.block.say("\n");
            }
            Event::InlineHtml(text) => {
                let text = self.block.lines_of_html(&text);
                self.say_marked(MarkdownMark::Html, &text, []);
            }
            Event::FootnoteReference(label) => {
                let attribute = MarkdownAttribute::FootnoteReferenceLabel;
                self.say_marked(
                    MarkdownMark::Footnote,
                    &label,
                    [(attribute, (*label).into())],
                );
            }
            Event::Rule => {
                self.open(MarkdownNode::ThematicBreak, vec![]);
                self.close();
            }
            Event::TaskListMarker(checked) => {
                let mut outwards =
                    std::iter::once(&mut self.block).chain(self.around.iter_mut().rev());
                if let Some(item) = outwards.find(|block| {
                    step();
                    block.kind == MarkdownNode::ListItem
                }) {
                    item.set(MarkdownAttribute::ListItemChecked, checked.into());
                }
            }
            // Of extensions that are disabled.
            Event::InlineMath(_) | Event::DisplayMath(_) => {}
        }
    }

    /// Whether the event is in a block that would nest too deep. Its source becomes a code block.
    fn is_too_deep(&mut self, event: &Event<'_>) -> bool {
        match event {
            Event::Start(_) if self.too_deep > 0 => self.too_deep += 1,
            Event::End(_) if self.too_deep > 0 => self.too_deep -= 1,
            Event::Start(
                tag @ (Tag::BlockQuote(_) | Tag::List(_) | Tag::FootnoteDefinition(_)),
            ) if self.around.len() >= DEEPEST - INNER => {
                self.too_deep = 1;
                self.drop_type(block_of(tag.clone()).0);
                self.open(MarkdownNode::CodeBlock, vec![]);
                self.block.say(&self.markdown[self.at..self.end]);
                self.close();
            }
            _ => return self.too_deep > 0,
        }
        true
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Emphasis => self.open_mark(MarkdownMark::Emphasis, []),
            Tag::Strong => self.open_mark(MarkdownMark::Strong, []),
            Tag::Strikethrough => self.open_mark(MarkdownMark::Strikethrough, []),
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
                    return self.skip_mark(MarkdownMark::Link);
                }
                let href = match link_type {
                    LinkType::Email => format!("mailto:{dest_url}").into(),
                    _ => dest_url,
                };
                if !self.options.targets.allows(&href) {
                    return self.skip_mark(MarkdownMark::Link);
                }
                self.spell_out_footnote();
                self.open_mark(
                    MarkdownMark::Link,
                    [
                        (MarkdownAttribute::LinkTarget, given(&href)),
                        (MarkdownAttribute::LinkTitle, given(&title)),
                    ],
                );
            }
            Tag::Image { dest_url, .. } if !self.options.targets.allows(&dest_url) => {
                self.skip_mark(MarkdownMark::Image);
            }
            Tag::Image {
                dest_url, title, ..
            } => self.open_mark(
                MarkdownMark::Image,
                [
                    (MarkdownAttribute::ImageSource, given(&dest_url)),
                    (MarkdownAttribute::ImageTitle, given(&title)),
                ],
            ),
            block => {
                if matches!(&block, Tag::CodeBlock(CodeBlockKind::Fenced(info)) if has_more(info)) {
                    self.drop(DroppedPart::CodeBlockInfo);
                }
                let (kind, attributes) = block_of(block);
                self.open(kind, attributes);
            }
        }
    }

    fn drop(&mut self, part: DroppedPart) {
        let line = || 1 + self.markdown[..self.at].matches('\n').count();
        self.report.add(part, line);
    }

    fn drop_type(&mut self, node: MarkdownNode) {
        let node = self.options.names.of_node(node).clone();
        self.drop(DroppedPart::NodeType { node });
    }

    fn drop_mark(&mut self, mark: MarkdownMark) {
        let mark = self.options.names.of_mark(mark).clone();
        self.drop(DroppedPart::Mark { mark });
    }

    /// Opens a construct that ends like a mark and is none.
    fn skip_mark(&mut self, mark: MarkdownMark) {
        self.drop_mark(mark);
        self.marks.push(OpenInline {
            kind: None,
            attributes: Attributes::default(),
            start: self.block.len,
        });
    }

    /// A footnote reference right before a link becomes text: together they would be read as
    /// another kind of link.
    fn spell_out_footnote(&mut self) {
        let here = self.block.len;
        if self.block.spell_out_footnote() {
            self.drop_mark(MarkdownMark::Footnote);
        }
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

    fn open(&mut self, kind: MarkdownNode, attributes: Vec<(MarkdownAttribute, Value)>) {
        self.end_text();
        let mut block = OpenBlock::new(&self.options.names, kind);
        for (attribute, value) in attributes {
            block.set(attribute, value);
        }
        let around = mem::replace(&mut self.block, block);
        self.around.push(around);
    }

    fn end_text(&mut self) {
        if self.block.end_text() {
            self.drop_mark(MarkdownMark::Html);
        }
    }

    fn close(&mut self) {
        self.end_text();
        if let Some(around) = self.around.pop() {
            let closed = mem::replace(&mut self.block, around);
            self.block.add(closed);
        }
    }

    fn open_mark<const N: usize>(
        &mut self,
        kind: MarkdownMark,
        attributes: [(MarkdownAttribute, Value); N],
    ) {
        self.links += usize::from(kind == MarkdownMark::Link);
        let names = &self.options.names;
        let named =
            attributes.map(|(attribute, value)| (names.of_attribute(attribute).clone(), value));
        self.marks.push(OpenInline {
            kind: Some(kind),
            attributes: named.into_iter().collect(),
            start: self.block.len,
        });
    }

    fn close_mark(&mut self) {
        let Some(open) = self.marks.pop() else {
            return;
        };
        self.links -= usize::from(open.kind == Some(MarkdownMark::Link));
        if open.kind.is_some() && open.start == self.block.len {
            self.block.say(OBJECT.encode_utf8(&mut [0; 4]));
        }
        if let Some(kind) = open.kind {
            let name = self.options.names.of_mark(kind).clone();
            let mark = Mark::new(name, open.start..self.block.len);
            self.block.marks.push(mark.with_attributes(open.attributes));
        }
    }

    fn say_marked<const N: usize>(
        &mut self,
        kind: MarkdownMark,
        text: &str,
        attributes: [(MarkdownAttribute, Value); N],
    ) {
        self.open_mark(kind, attributes);
        self.block.say(text);
        self.close_mark();
    }

    fn into_document(mut self) -> (NodeSpec, Vec<Dropped<usize>>) {
        while !self.around.is_empty() {
            self.close();
        }
        self.end_text();
        (self.block.into_spec(), self.report.into_entries())
    }
}

impl<'f> OpenBlock<'f> {
    fn new(names: &'f MarkdownNames, kind: MarkdownNode) -> Self {
        Self {
            names,
            kind,
            attributes: Vec::new(),
            children: Vec::new(),
            short: None,
            text: String::new(),
            len: 0,
            marks: Vec::new(),
        }
    }

    fn set(&mut self, attribute: MarkdownAttribute, value: Value) {
        let name = self.names.of_attribute(attribute).clone();
        self.attributes.push((name, value));
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
        let keeps_lines = self.has_lines()
            && self.text.is_empty()
            && lines.iter().skip(1).all(begins_with_letter);
        let html = lines.join(if keeps_lines { "\n" } else { " " });
        match self.kind {
            MarkdownNode::TableCell => html.replace(r"\|", "|"),
            _ => html,
        }
    }

    /// Whether the text has several lines, each of which could begin a block.
    fn has_lines(&self) -> bool {
        matches!(self.kind, MarkdownNode::Paragraph | MarkdownNode::ListItem)
    }

    /// Turns the footnote reference that was just made into text. Returns whether there is one.
    fn spell_out_footnote(&mut self) -> bool {
        let here = self.len;
        let name = self.names.of_mark(MarkdownMark::Footnote);
        let ends_here = |mark: &mut Mark| {
            mark.kind == *name && mark.range.as_ref().is_some_and(|range| range.end == here)
        };
        let footnote = self.marks.pop_if(ends_here).and_then(|mark| mark.range);
        if let Some(range) = footnote.clone() {
            // Counted from the end, so the length of the text does not matter.
            steps(range.len());
            let mut chars = self.text.char_indices().rev();
            let start = chars.nth(range.len().saturating_sub(1));
            let label = start.map_or_else(String::new, |(start, _)| self.text.split_off(start));
            self.len = range.start;
            self.say(&format!("[^{label}]"));
        }
        footnote.is_some()
    }

    /// Makes a child of the pending text, if there is any. Returns whether HTML in it loses its
    /// mark.
    fn end_text(&mut self) -> bool {
        let len = mem::take(&mut self.len);
        let mut text = mem::take(&mut self.text);
        let marks = mem::take(&mut self.marks);
        if text.is_empty() {
            return false;
        }
        let marks = Marks::normal(marks, len).unwrap_or_default();
        let mut marks: Vec<Mark> = marks.iter().cloned().collect();
        let html = self.names.of_mark(MarkdownMark::Html);
        let is_first_html = |mark: &Mark| mark.kind == *html && starts_at_once(mark);
        steps(text.len() + marks.len());
        let loses_html =
            self.has_lines() && marks.iter().any(is_first_html) && begins_html_block(&text);
        if loses_html {
            marks.retain(|mark| !is_first_html(mark));
        }
        if self.kind == MarkdownNode::HtmlBlock {
            // Indentation, and empty lines after unclosed HTML, are dropped.
            text = text.trim().to_owned();
        }
        if matches!(self.kind, MarkdownNode::CodeBlock | MarkdownNode::HtmlBlock)
            && !text.ends_with('\n')
        {
            text.push('\n');
        }
        let name = self.names.of_node(MarkdownNode::Text).clone();
        let text = NodeSpec::new(name).with_text(text);
        self.children.push(text.with_marks(marks));
        loses_html
    }

    /// A list of one item with one paragraph is tight, even if an invisible link definition follows
    /// the paragraph: nothing visible could be written in its place.
    fn add(&mut self, mut child: Self) {
        self.short = match (self.kind, child.kind, self.children.is_empty()) {
            (MarkdownNode::ListItem, MarkdownNode::Paragraph, true) => Some(child.children.clone()),
            (MarkdownNode::List, MarkdownNode::ListItem, true) => {
                let text = child.short.take();
                text.map(|text| vec![child.spec().with_children(text)])
            }
            _ => None,
        };
        self.children.push(child.into_spec());
    }

    /// The node without its children.
    fn spec(&self) -> NodeSpec {
        let attributes: Attributes = self.attributes.iter().cloned().collect();
        NodeSpec::new(self.names.of_node(self.kind).clone()).with_attributes(attributes)
    }

    fn into_spec(self) -> NodeSpec {
        let spec = self.spec();
        spec.with_children(match self.kind {
            MarkdownNode::List => self.short.unwrap_or(self.children),
            _ => self.children,
        })
    }
}

fn starts_at_once(mark: &Mark) -> bool {
    mark.range.as_ref().is_some_and(|range| range.start == 0)
}

/// Whether a paragraph that begins with HTML would be a block without the link definition before
/// it, which is dropped. Nothing can replace the definition, so there the HTML becomes plain text.
fn begins_html_block(text: &str) -> bool {
    matches!(
        Parser::new(&text.replace('\n', r"\")).next(),
        Some(Event::Start(Tag::HtmlBlock))
    )
}

fn block_of(tag: Tag<'_>) -> (MarkdownNode, Vec<(MarkdownAttribute, Value)>) {
    use MarkdownAttribute as Attribute;
    use MarkdownNode as Node;

    match tag {
        Tag::Paragraph => (Node::Paragraph, vec![]),
        Tag::Heading { level, .. } => {
            let level = (level as usize).into();
            (Node::Heading, vec![(Attribute::HeadingLevel, level)])
        }
        Tag::BlockQuote(_) => (Node::BlockQuote, vec![]),
        Tag::CodeBlock(kind) => {
            let language = language(&kind).map(Value::from);
            let language = language.map(|language| (Attribute::CodeBlockLanguage, language));
            (Node::CodeBlock, language.into_iter().collect())
        }
        Tag::HtmlBlock => (Node::HtmlBlock, vec![]),
        Tag::List(None) => (Node::List, vec![(Attribute::ListOrdered, false.into())]),
        Tag::List(Some(start)) => {
            let start = (Attribute::ListStart, start.into());
            (
                Node::List,
                vec![(Attribute::ListOrdered, true.into()), start],
            )
        }
        Tag::Item => (Node::ListItem, vec![]),
        Tag::FootnoteDefinition(label) => (
            Node::Footnote,
            vec![(Attribute::FootnoteLabel, (*label).into())],
        ),
        Tag::Table(columns) => {
            let align = columns.into_iter().map(alignment).collect();
            (Node::Table, vec![(Attribute::TableAlign, align)])
        }
        Tag::TableHead => (Node::TableHead, vec![]),
        Tag::TableRow => (Node::TableRow, vec![]),
        Tag::TableCell => (Node::TableCell, vec![]),
        // Of extensions that are disabled, or no blocks.
        _ => (Node::Paragraph, vec![]),
    }
}

fn is_break(tag: &str) -> bool {
    let name = tag.trim_start_matches('<').trim_end_matches('>');
    name.trim_end_matches('/')
        .trim_end()
        .eq_ignore_ascii_case("br")
}

/// An empty attribute is omitted.
fn given(text: &str) -> Value {
    match text.is_empty() {
        true => Value::Null,
        false => text.into(),
    }
}

/// The first word after the fence.
fn language<'t>(kind: &'t CodeBlockKind<'_>) -> Option<&'t str> {
    match kind {
        CodeBlockKind::Indented => None,
        CodeBlockKind::Fenced(info) => info.split_whitespace().next(),
    }
}

/// Whether more words than the language follow the fence.
fn has_more(info: &str) -> bool {
    info.split_whitespace().nth(1).is_some()
}

fn alignment(alignment: Alignment) -> &'static str {
    match alignment {
        Alignment::None => "none",
        Alignment::Left => "left",
        Alignment::Center => "center",
        Alignment::Right => "right",
    }
}
