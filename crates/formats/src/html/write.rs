//! Writes nodes as HTML.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use doclock::{
    NodeId,
    document::{Mark, Node, View},
};
use serde_json::Value;

use super::{
    Dropped, DroppedPart, MarkdownAttribute, MarkdownMark, MarkdownNode, MarkdownOptions, OBJECT,
    allows,
};
use crate::dropped::DroppedReport;
use crate::names::AttributeOwner;
use crate::steps::{step, steps};

/// Writes blocks. The remaining steps are a stack, so any depth is safe.
pub(super) struct HtmlWriter<'v, V> {
    view: &'v V,
    options: &'v MarkdownOptions,
    report: DroppedReport<NodeId>,
    ahead: Vec<HtmlStep<'v>>,
    out: String,
}

enum HtmlStep<'v> {
    /// A block in a parent of this type; `None` for a parent without a type.
    Block(&'v Node, Option<MarkdownNode>),
    /// The texts of these nodes, in a paragraph if it is set.
    Text(Vec<&'v Node>, bool),
    Row(&'v Node, bool, &'v [Value]),
    /// Tags.
    Raw(&'static str),
}

impl<'v, V: View> HtmlWriter<'v, V> {
    pub(super) fn new(view: &'v V, options: &'v MarkdownOptions) -> Self {
        Self {
            view,
            options,
            report: DroppedReport::default(),
            ahead: Vec::new(),
            out: String::new(),
        }
    }

    /// The HTML, and what it does not express.
    pub(super) fn written(mut self, node: &'v Node) -> (String, Vec<Dropped<NodeId>>) {
        match self.kind(node) {
            Some(MarkdownNode::Document) => {
                self.note_attributes(node, &[]);
                self.contents(node, Some(MarkdownNode::Document));
            }
            _ => self.ahead.push(HtmlStep::Block(node, None)),
        }
        while let Some(next) = self.ahead.pop() {
            step();
            match next {
                HtmlStep::Block(node, within) => self.block(node, within),
                HtmlStep::Text(nodes, wrapped) => {
                    if wrapped {
                        self.out.push_str("<p>");
                    }
                    self.inline(nodes);
                    if wrapped {
                        self.out.push_str("</p>\n");
                    }
                }
                HtmlStep::Row(row, is_head, align) => self.row(row, is_head, align),
                HtmlStep::Raw(tags) => self.out.push_str(tags),
            }
        }
        (self.out, self.report.into_entries())
    }

    fn kind(&self, node: &Node) -> Option<MarkdownNode> {
        self.options.names.node_named(node.kind())
    }

    /// The value of an attribute that HTML can express.
    fn attribute(&self, node: &'v Node, attribute: MarkdownAttribute) -> Option<&'v Value> {
        let name = self.options.names.of_attribute(attribute);
        let value = node.attributes().get(name);
        value.filter(|value| attribute.accepts(value))
    }

    fn block(&mut self, node: &'v Node, within: Option<MarkdownNode>) {
        use MarkdownAttribute as Attribute;
        use MarkdownNode as Kind;
        match self.kind(node) {
            Some(Kind::Text) => {
                let texts = self.texts(node);
                self.ahead
                    .push(HtmlStep::Text(texts, within != Some(Kind::ListItem)));
            }
            Some(Kind::Paragraph) => {
                self.note_attributes(node, &[]);
                self.text_block(node, "<p>", "</p>\n");
            }
            Some(Kind::Heading) => {
                let level = self.attribute(node, Attribute::HeadingLevel);
                let level = level.and_then(Value::as_u64).unwrap_or(1);
                self.note_attributes(node, &[Attribute::HeadingLevel]);
                self.text_block(node, &format!("<h{level}>"), &format!("</h{level}>\n"));
            }
            Some(Kind::CodeBlock) => self.code(node),
            Some(Kind::ThematicBreak) => {
                self.note_attributes(node, &[]);
                self.out.push_str("<hr>\n");
                self.report.drop_contents(self.view, node);
            }
            Some(Kind::BlockQuote) => {
                self.note_attributes(node, &[]);
                self.out.push_str("<blockquote>\n");
                self.ahead.push(HtmlStep::Raw("</blockquote>\n"));
                self.contents(node, Some(Kind::BlockQuote));
            }
            Some(Kind::List) => self.list(node),
            Some(Kind::ListItem) if within == Some(Kind::List) => {
                let checked = self.attribute(node, Attribute::ListItemChecked);
                self.note_attributes(node, &[Attribute::ListItemChecked]);
                self.out.push_str(match checked.and_then(Value::as_bool) {
                    Some(true) => "<li><input type=\"checkbox\" disabled checked>",
                    Some(false) => "<li><input type=\"checkbox\" disabled>",
                    None => "<li>",
                });
                self.ahead.push(HtmlStep::Raw("</li>\n"));
                self.contents(node, Some(Kind::ListItem));
            }
            Some(Kind::Table) => self.table(node),
            // A type that HTML does not have, or not here.
            _ => {
                self.report.drop_type(node);
                self.contents(node, within);
            }
        }
    }

    /// Pushes the contents of a node: its own text and text children, and the others as blocks.
    fn contents(&mut self, node: &'v Node, within: Option<MarkdownNode>) {
        let wrapped = within != Some(MarkdownNode::ListItem);
        let mut parts = Vec::new();
        let mut texts = Vec::new();
        if !node.text().is_empty() {
            texts.push(node);
        }
        for child in self.view.children(node.id()) {
            if self.kind(child) == Some(MarkdownNode::Text) {
                texts.extend(self.texts(child));
                continue;
            }
            if !texts.is_empty() {
                parts.push(HtmlStep::Text(std::mem::take(&mut texts), wrapped));
            }
            parts.push(HtmlStep::Block(child, within));
        }
        if !texts.is_empty() {
            parts.push(HtmlStep::Text(texts, wrapped));
        }
        self.ahead.extend(parts.into_iter().rev());
    }

    fn list(&mut self, list: &'v Node) {
        use MarkdownAttribute as Attribute;
        let ordered = self.attribute(list, Attribute::ListOrdered);
        let ordered = ordered.and_then(Value::as_bool).unwrap_or(false);
        let start = self
            .attribute(list, Attribute::ListStart)
            .and_then(Value::as_u64);
        match ordered {
            true => self.note_attributes(list, &[Attribute::ListOrdered, Attribute::ListStart]),
            false => self.note_attributes(list, &[Attribute::ListOrdered]),
        }
        self.out.push_str(&match (ordered, start) {
            (false, _) => "<ul>\n".to_owned(),
            (true, None | Some(1)) => "<ol>\n".to_owned(),
            (true, Some(start)) => format!("<ol start=\"{start}\">\n"),
        });
        self.ahead
            .push(HtmlStep::Raw(if ordered { "</ol>\n" } else { "</ul>\n" }));
        self.report.drop_text(list);
        let children: Vec<&Node> = self.view.children(list.id()).collect();
        for child in children.into_iter().rev() {
            if self.kind(child) == Some(MarkdownNode::ListItem) {
                self.ahead
                    .push(HtmlStep::Block(child, Some(MarkdownNode::List)));
                continue;
            }
            self.ahead.push(HtmlStep::Raw("</li>\n"));
            self.ahead
                .push(HtmlStep::Block(child, Some(MarkdownNode::ListItem)));
            self.ahead.push(HtmlStep::Raw("<li>"));
        }
    }

    fn code(&mut self, node: &'v Node) {
        let language = self.attribute(node, MarkdownAttribute::CodeBlockLanguage);
        let language = language.and_then(Value::as_str).unwrap_or_default();
        self.note_attributes(node, &[MarkdownAttribute::CodeBlockLanguage]);
        self.out.push_str("<pre><code");
        if !language.is_empty() {
            self.out
                .push_str(&format!(" class=\"language-{}\"", escaped(language)));
        }
        self.out.push('>');
        for node in self.texts(node) {
            for mark in node.marks() {
                self.report
                    .add(DroppedPart::mark(mark), || node.id().clone());
            }
            self.out.push_str(&escaped(&node.text().to_string()));
        }
        self.out.push_str("</code></pre>\n");
    }

    // --- Tables ---

    fn table(&mut self, table: &'v Node) {
        let align = self.attribute(table, MarkdownAttribute::TableAlign);
        let align = align
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice);
        self.note_attributes(table, &[MarkdownAttribute::TableAlign]);
        self.report.drop_text(table);
        self.out.push_str("<table>\n");
        self.ahead.push(HtmlStep::Raw("</table>\n"));
        let rows: Vec<&Node> = self.view.children(table.id()).collect();
        let first = rows.first().map_or(0, |row| row.children().len());
        let name = self
            .options
            .names
            .of_attribute(MarkdownAttribute::TableAlign);
        if align.len() != first && !table.attributes().get(name).is_none_or(Value::is_null) {
            self.report.drop_attribute(table, name);
        }
        for (nth, row) in rows.into_iter().enumerate().rev() {
            let kind = self.kind(row);
            let is_head = nth == 0 && kind == Some(MarkdownNode::TableHead);
            if !is_head && kind != Some(MarkdownNode::TableRow) {
                self.report.drop_type(row);
            }
            self.ahead.push(HtmlStep::Row(row, is_head, align));
        }
    }

    fn row(&mut self, row: &'v Node, is_head: bool, align: &'v [Value]) {
        self.report.drop_text(row);
        self.note_attributes(row, &[]);
        let name = if is_head { "th" } else { "td" };
        self.out.push_str("<tr>");
        for (column, cell) in self.view.children(row.id()).enumerate() {
            match self.kind(cell) {
                Some(MarkdownNode::TableCell) => self.note_attributes(cell, &[]),
                _ => self.report.drop_type(cell),
            }
            let style = match align.get(column).and_then(Value::as_str) {
                Some(align @ ("left" | "center" | "right")) => {
                    format!(" style=\"text-align: {align}\"")
                }
                _ => String::new(),
            };
            let (begin, end) = (format!("<{name}{style}>"), format!("</{name}>"));
            self.text_block(cell, &begin, &end);
        }
        self.out.push_str("</tr>\n");
    }

    // --- Text ---

    fn text_block(&mut self, node: &'v Node, begin: &str, end: &str) {
        self.out.push_str(begin);
        let texts = self.texts(node);
        self.inline(texts);
        self.out.push_str(end);
    }

    /// The nodes whose text is that of a block, of which only texts are kept.
    fn texts(&mut self, top: &'v Node) -> Vec<&'v Node> {
        let nodes: Vec<_> = self.view.descendants(top.id()).collect();
        for (nth, node) in nodes.iter().enumerate() {
            match self.kind(node) {
                Some(MarkdownNode::Text) => self.note_attributes(node, &[]),
                _ if nth == 0 => {}
                _ => self.report.drop_type(node),
            }
        }
        nodes
    }

    /// Writes the texts of these nodes, concatenated.
    fn inline(&mut self, nodes: Vec<&'v Node>) {
        let mut text: Vec<char> = Vec::new();
        let mut spans = Vec::new();
        for node in nodes {
            let before = text.len();
            text.extend(node.text().chars());
            for mark in node.marks() {
                let range = mark.range.clone().unwrap_or(0..0);
                spans.extend(self.span(node, mark, range.start + before..range.end + before));
            }
        }
        let (html, dropped) = MarkedLine::new(&text, spans).written();
        for (node, mark) in dropped {
            self.report.add(DroppedPart::mark(mark), || node.clone());
        }
        self.out.push_str(&html);
        // At the end of a block, one break is no line.
        if text.ends_with(&['\n']) {
            self.out.push_str("<br>");
        }
    }

    fn span(
        &mut self,
        node: &'v Node,
        mark: &'v Mark,
        range: Range<usize>,
    ) -> Option<MarkSpan<'v>> {
        use MarkdownAttribute as Attribute;
        let names = &self.options.names;
        let kind = names.mark_named(&mark.kind);
        let (name, attributes): (_, &[(Attribute, &str)]) = match kind {
            Some(MarkdownMark::Link) => (
                "a",
                &[
                    (Attribute::LinkTarget, "href"),
                    (Attribute::LinkTitle, "title"),
                ],
            ),
            Some(MarkdownMark::Image) => (
                "img",
                &[
                    (Attribute::ImageSource, "src"),
                    (Attribute::ImageTitle, "title"),
                ],
            ),
            Some(MarkdownMark::Strong) => ("strong", &[]),
            Some(MarkdownMark::Emphasis) => ("em", &[]),
            Some(MarkdownMark::Strikethrough) => ("del", &[]),
            Some(MarkdownMark::Code) => ("code", &[]),
            _ => {
                self.report
                    .add(DroppedPart::mark(mark), || node.id().clone());
                return None;
            }
        };
        let mut begin = format!("<{name}");
        let mut written = BTreeSet::new();
        for (attribute, key) in attributes {
            let of = names.of_attribute(*attribute);
            let value = mark.attributes.get(of).and_then(Value::as_str);
            // An anchor without a target is no link.
            let value = value.or((*key == "href").then_some(""));
            let Some(value) = value else {
                continue;
            };
            if *key != "title" && !allows(self.options, value) {
                self.report
                    .add(DroppedPart::mark(mark), || node.id().clone());
                return None;
            }
            let is_written = !value.is_empty() && !value.contains('\0');
            if is_written {
                written.insert(of.clone());
                begin.push_str(&format!(" {key}=\"{}\"", escaped(value)));
            } else if *key == "href" {
                begin.push_str(" href=\"\"");
            }
        }
        for (attribute, _) in &mark.attributes {
            if !written.contains(attribute) {
                let part = DroppedPart::MarkAttribute {
                    mark: mark.kind.clone(),
                    attribute: attribute.clone(),
                };
                self.report.add(part, || node.id().clone());
            }
        }
        Some(MarkSpan {
            node: node.id(),
            mark,
            name,
            begin,
            range,
        })
    }

    // --- What is dropped ---

    /// Notes the attributes of a node that are not written.
    fn note_attributes(&mut self, node: &Node, written: &[MarkdownAttribute]) {
        let names = &self.options.names;
        let kind = names.node_named(node.kind()).map(AttributeOwner::Node);
        for (name, value) in node.attributes() {
            let attribute = kind.and_then(|kind| names.attribute_named(kind, name));
            let is_written = attribute
                .is_some_and(|attribute| written.contains(&attribute) && attribute.accepts(value));
            if !is_written {
                self.report.drop_attribute(node, name);
            }
        }
    }
}

/// A mark over a range of a line.
struct MarkSpan<'v> {
    node: &'v NodeId,
    mark: &'v Mark,
    name: &'static str,
    /// The beginning of its tag, with the attributes.
    begin: String,
    range: Range<usize>,
}

/// The elements by their order: where two cover the same text, the first is the outer one.
const ORDER: [&str; 6] = ["a", "strong", "em", "del", "code", "img"];

/// Text with marks.
struct MarkedLine<'v, 't> {
    text: &'t [char],
    spans: Vec<MarkSpan<'v>>,
    /// Whether a character is white space that would collapse.
    fragile: Vec<bool>,
}

impl<'v, 't> MarkedLine<'v, 't> {
    fn new(text: &'t [char], mut spans: Vec<MarkSpan<'v>>) -> Self {
        let rank = |span: &MarkSpan<'_>| ORDER.iter().position(|name| *name == span.name);
        spans.sort_by_key(|span| (span.range.start, rank(span)));
        Self {
            text,
            spans,
            fragile: fragile(text),
        }
    }

    /// The HTML, and the marks that are not written on some of their characters.
    fn written(&self) -> (String, Vec<(&'v NodeId, &'v Mark)>) {
        let images = self.images();
        let mut dropped = BTreeSet::new();
        let outside = |at: &usize| {
            let before = images.range(..at).next_back();
            before.is_none_or(|(_, &nth)| self.spans[nth].range.end <= *at)
        };
        let ranges = self.spans.iter().map(|span| span.range.clone());
        let edges = ranges.chain(std::iter::once(0..self.text.len()));
        let edges = edges.flat_map(|range| [range.start, range.end]);
        let edges: BTreeSet<usize> = edges.filter(outside).collect();
        let edges: Vec<usize> = edges.into_iter().collect();

        let mut out = String::new();
        let (mut ahead, mut active): (usize, Vec<usize>) = (0, Vec::new());
        let mut open: Vec<usize> = Vec::new();
        for edge in edges.windows(2) {
            let &[start, end] = edge else { continue };
            while self
                .spans
                .get(ahead)
                .is_some_and(|span| span.range.start < end)
            {
                active.push(ahead);
                ahead += 1;
            }
            active.retain(|&nth| self.spans[nth].range.end > start);
            steps(active.len());
            let mut on: BTreeMap<usize, usize> = BTreeMap::new();
            for &nth in &active {
                let span = &self.spans[nth];
                let is_whole = span.range.start <= start && span.range.end >= end;
                let rank = ORDER
                    .iter()
                    .position(|name| *name == span.name)
                    .unwrap_or(0);
                let is_image = span.name == "img";
                let is_shown = images.get(&start) == Some(&nth);
                // One of each kind.
                if is_image && !is_shown || !is_whole || on.contains_key(&rank) {
                    dropped.insert(nth);
                } else if !is_image {
                    on.insert(rank, nth);
                }
            }
            let on: Vec<usize> = on.into_values().collect();
            let kept = open
                .iter()
                .zip(&on)
                .take_while(|(one, other)| one == other)
                .count();
            self.close(&mut open, kept, &mut out);
            for &nth in &on[kept..] {
                out.push_str(&self.spans[nth].begin);
                out.push('>');
                open.push(nth);
            }
            match images.get(&start) {
                Some(&nth) => self.image(&self.spans[nth], &mut out),
                None if self.is_empty_link(start..end, &open) => {}
                None => self.text(start..end, &mut out),
            }
        }
        self.close(&mut open, 0, &mut out);
        let dropped = dropped.into_iter().map(|nth| &self.spans[nth]);
        (out, dropped.map(|span| (span.node, span.mark)).collect())
    }

    /// Whether the text is the placeholder for the words of a link.
    fn is_empty_link(&self, range: Range<usize>, open: &[usize]) -> bool {
        let is_object = self.text[range.clone()] == [OBJECT];
        let [nth] = open else { return false };
        is_object && self.spans[*nth].name == "a" && self.spans[*nth].range == range
    }

    fn close(&self, open: &mut Vec<usize>, kept: usize, out: &mut String) {
        for nth in open.drain(kept..).rev() {
            out.push_str(&format!("</{}>", self.spans[nth].name));
        }
    }

    /// The images by their starts, without overlap.
    fn images(&self) -> BTreeMap<usize, usize> {
        let mut images = BTreeMap::new();
        let mut end = 0;
        for (nth, span) in self.spans.iter().enumerate() {
            if span.name == "img" && span.range.start >= end {
                end = span.range.end;
                images.insert(span.range.start, nth);
            }
        }
        images
    }

    fn image(&self, span: &MarkSpan<'_>, out: &mut String) {
        out.push_str(&span.begin);
        match &self.text[span.range.clone()] {
            [OBJECT] => {}
            alt => out.push_str(&format!(" alt=\"{}\"", escaped(&String::from_iter(alt)))),
        }
        out.push('>');
    }

    fn text(&self, range: Range<usize>, out: &mut String) {
        let mut preserved = false;
        for at in range {
            let char = self.text[at];
            if preserved != self.fragile[at] {
                preserved = self.fragile[at];
                out.push_str(if preserved { PRESERVED } else { "</span>" });
            }
            match char {
                '\n' => out.push_str("<br>"),
                char => push_escaped(char, out),
            }
        }
        if preserved {
            out.push_str("</span>");
        }
    }
}

const PRESERVED: &str = "<span style=\"white-space: pre-wrap\">";

/// For each character, whether it is in a run of white space that would not stay one space.
fn fragile(text: &[char]) -> Vec<bool> {
    let is_space = |at: usize| {
        let char = text.get(at).copied();
        char.is_some_and(|char| matches!(char, ' ' | '\t' | '\r' | '\u{c}'))
    };
    let mut fragile = vec![false; text.len()];
    let mut at = 0;
    while at < text.len() {
        let start = at;
        while is_space(at) {
            at += 1;
        }
        let is_line_start = start == 0 || text[start - 1] == '\n';
        let is_line_end = at == text.len() || text[at] == '\n';
        if at > start && (is_line_start || is_line_end || text[start..at] != [' ']) {
            fragile[start..at].fill(true);
        }
        at = at.max(start + 1);
    }
    fragile
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|char| push_escaped(char, &mut out));
    out
}

fn push_escaped(char: char, out: &mut String) {
    match char {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '"' => out.push_str("&quot;"),
        '\r' => out.push_str("&#13;"),
        '\0' => out.push('\u{FFFD}'),
        char => out.push(char),
    }
}
