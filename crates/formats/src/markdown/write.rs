//! Writes nodes as Markdown, block by block.

use doclock::{
    NodeId,
    document::{Node, View},
};
use serde_json::Value;

use super::inline::{self, EscapeContext};
use super::{MarkdownAttribute, MarkdownNode, MarkdownOptions};
use crate::dropped::{Dropped, DroppedPart, DroppedReport};
use crate::names::{AttributeOwner, MAX_NUMBER};
use crate::steps;

/// Writes blocks. The remaining steps are a stack, so any depth is safe.
pub(super) struct MarkdownWriter<'v, V> {
    view: &'v V,
    options: &'v MarkdownOptions,
    report: DroppedReport<NodeId>,
    ahead: Vec<MarkdownStep<'v>>,
    out: String,
    prefix: Prefix,
    /// Whether the current line has only its prefix.
    begun: bool,
    /// Whether the last line belongs to a paragraph, which a line of text right after it would
    /// continue.
    in_paragraph: bool,
    /// Whether an empty line has to precede the next block.
    gap: bool,
    /// The marker of the list that has just ended: another list with it would continue the first.
    ended_list: Option<char>,
    /// The cached next step that is not [passed](MarkdownStep::is_passed), if it was looked up
    /// since the last one.
    sought: Option<Option<usize>>,
}

/// An invisible link definition. No text refers to it, because brackets in a text are escaped.
const NOTHING: &str = "[_]: <>";

enum MarkdownStep<'v> {
    /// A paragraph of the texts of these nodes.
    Text(Vec<&'v Node>),
    Block(&'v Node),
    Item(&'v Node, String),
    /// The end of a block: whether an empty line has to precede the next one.
    Gap(bool),
    /// The end of a container block.
    Leave(ContainerEnd),
}

impl MarkdownStep<'_> {
    /// Whether it writes nothing between two paragraphs.
    fn is_passed(&self) -> bool {
        matches!(self, MarkdownStep::Gap(false) | MarkdownStep::Leave(_))
    }
}

enum ContainerEnd {
    List(char),
    /// The line prefix after the block.
    Quote(PrefixEnd),
    Other(PrefixEnd),
}

/// The line prefix, from the outer blocks.
#[derive(Default)]
struct Prefix {
    text: String,
    end: PrefixEnd,
}

#[derive(Clone, Copy, Default)]
struct PrefixEnd {
    len: usize,
    /// Where the trailing spaces begin, which an empty line omits.
    filled: usize,
}

impl Prefix {
    /// Returns the previous end.
    fn push(&mut self, text: &str) -> PrefixEnd {
        let before = self.end;
        self.text.push_str(text);
        self.end.len += text.len();
        let filled = text.trim_end().len();
        if filled > 0 {
            self.end.filled = before.len + filled;
        }
        before
    }

    fn truncate(&mut self, end: PrefixEnd) {
        self.text.truncate(end.len);
        self.end = end;
    }

    fn filled(&self) -> &str {
        &self.text[..self.end.filled]
    }
}

impl<'v, V: View> MarkdownWriter<'v, V> {
    pub(super) fn new(view: &'v V, options: &'v MarkdownOptions) -> Self {
        Self {
            view,
            options,
            report: DroppedReport::default(),
            ahead: Vec::new(),
            out: String::new(),
            prefix: Prefix::default(),
            begun: false,
            in_paragraph: false,
            gap: false,
            ended_list: None,
            sought: None,
        }
    }

    /// The text, and what it does not express.
    pub(super) fn written(mut self, node: &'v Node) -> (String, Vec<Dropped<NodeId>>) {
        match self.kind(node) {
            Some(MarkdownNode::Document) => {
                self.note_attributes(node);
                self.front_matter(node);
                self.contents(node, true);
            }
            _ => self.ahead.push(MarkdownStep::Block(node)),
        }
        while let Some(step) = self.ahead.pop() {
            steps::step();
            if !step.is_passed() {
                self.sought = None;
            }
            match step {
                MarkdownStep::Text(nodes) => {
                    self.paragraph(nodes);
                }
                MarkdownStep::Block(node) => self.block(node),
                MarkdownStep::Item(node, marker) => self.item(node, &marker),
                MarkdownStep::Gap(gap) => self.gap = gap && !self.begun && !self.out.is_empty(),
                MarkdownStep::Leave(end) => self.leave(&end),
            }
        }
        // Readers drop one at the beginning of a page.
        if let Some(rest) = self.out.strip_prefix('\u{feff}') {
            self.out = format!("&#xFEFF;{rest}");
        }
        (self.out, self.report.into_entries())
    }

    fn front_matter(&mut self, document: &'v Node) {
        let given = self.attribute(document, MarkdownAttribute::FrontMatter);
        let given = given.filter(|value| MarkdownAttribute::FrontMatter.accepts(value));
        if let Some(lines) = given.and_then(Value::as_str) {
            self.line("---");
            lines.split('\n').for_each(|line| {
                self.out.push_str(line);
                self.out.push('\n');
            });
            self.line("---");
            self.gap = true;
        }
    }

    fn kind(&self, node: &Node) -> Option<MarkdownNode> {
        self.options.names.node_named(node.kind())
    }

    fn attribute(&self, node: &'v Node, attribute: MarkdownAttribute) -> Option<&'v Value> {
        let name = self.options.names.of_attribute(attribute);
        node.attributes().get(name)
    }

    fn string(&self, node: &'v Node, attribute: MarkdownAttribute) -> &'v str {
        let value = self.attribute(node, attribute);
        value.and_then(Value::as_str).unwrap_or_default()
    }

    fn block(&mut self, node: &'v Node) {
        match self.kind(node) {
            Some(MarkdownNode::Text) => {
                let texts = self.texts(node);
                self.ahead.push(MarkdownStep::Text(texts));
            }
            Some(MarkdownNode::Paragraph) => {
                let texts = self.texts(node);
                if !self.paragraph(texts) {
                    self.report.drop_type(node);
                }
            }
            Some(MarkdownNode::Heading) => self.heading(node),
            Some(MarkdownNode::CodeBlock) => self.code(node),
            Some(MarkdownNode::HtmlBlock) => self.html(node),
            Some(MarkdownNode::ThematicBreak) => {
                self.line("___");
                self.report.drop_contents(self.view, node);
            }
            Some(MarkdownNode::Table) => self.table(node),
            Some(MarkdownNode::List) => self.list(node),
            Some(MarkdownNode::BlockQuote) => {
                let prefix = self.enter("> ", "> ");
                self.ahead
                    .push(MarkdownStep::Leave(ContainerEnd::Quote(prefix)));
                self.contents(node, true);
            }
            Some(MarkdownNode::Footnote) => {
                let label = self.string(node, MarkdownAttribute::FootnoteLabel);
                let prefix = self.enter(&format!("[^{label}]: "), "    ");
                self.ahead
                    .push(MarkdownStep::Leave(ContainerEnd::Other(prefix)));
                self.contents(node, true);
                // Within a list, an empty rest of the line would count as an empty line between
                // items.
                self.fill_if_empty(prefix.len > 0);
            }
            // A type that Markdown does not have, or not here.
            None
            | Some(
                MarkdownNode::Document
                | MarkdownNode::ListItem
                | MarkdownNode::TableHead
                | MarkdownNode::TableRow
                | MarkdownNode::TableCell,
            ) => {
                self.report.drop_type(node);
                return self.contents(node, true);
            }
        }
        self.note_attributes(node);
    }

    // --- What is dropped ---

    /// Notes the attributes of a node that Markdown cannot express.
    fn note_attributes(&mut self, node: &Node) {
        let names = &self.options.names;
        for (name, value) in node.attributes() {
            let kind = names.node_named(node.kind()).map(AttributeOwner::Node);
            let attribute = kind.and_then(|kind| names.attribute_named(kind, name));
            if !attribute.is_some_and(|attribute| attribute.accepts(value)) {
                self.report.drop_attribute(node, name);
            }
        }
    }

    /// The nodes whose text is that of a text block, of which only texts are kept.
    fn texts(&mut self, top: &'v Node) -> Vec<&'v Node> {
        let nodes: Vec<_> = self.view.descendants(top.id()).collect();
        for node in nodes.iter().skip(1) {
            match self.kind(node) {
                Some(MarkdownNode::Text) => self.note_attributes(node),
                _ => self.report.drop_type(node),
            }
        }
        nodes
    }

    /// The text of a block that is written verbatim, without marks.
    fn verbatim(&mut self, top: &'v Node) -> String {
        for node in self.texts(top) {
            for mark in node.marks() {
                self.report
                    .add(DroppedPart::mark(mark), || node.id().clone());
            }
        }
        self.view.text_of(top.id()).unwrap_or_default()
    }

    // --- Container blocks ---

    /// Pushes the contents of a node: its own text and text children as paragraphs, the others as
    /// blocks.
    fn contents(&mut self, node: &'v Node, gaps: bool) {
        let mut parts = Vec::new();
        let mut texts = Vec::new();
        if !node.text().is_empty() {
            texts.push(node);
        }
        for child in self.view.children(node.id()) {
            if self.kind(child) == Some(MarkdownNode::Text) {
                self.note_attributes(child);
                texts.extend(self.texts(child));
                continue;
            }
            if !texts.is_empty() {
                parts.push(MarkdownStep::Text(std::mem::take(&mut texts)));
            }
            parts.push(MarkdownStep::Block(child));
        }
        if !texts.is_empty() {
            parts.push(MarkdownStep::Text(texts));
        }
        for part in parts.into_iter().rev() {
            self.ahead.push(MarkdownStep::Gap(gaps));
            self.ahead.push(part);
        }
    }

    /// Begins a block with a line prefix. Returns the previous end of the prefix.
    fn enter(&mut self, first: &str, others: &str) -> PrefixEnd {
        self.begin();
        self.out.push_str(first);
        self.begun = true;
        self.ended_list = None;
        self.prefix.push(others)
    }

    /// Writes an invisible definition if one is needed and the new block is empty.
    fn fill_if_empty(&mut self, needed: bool) {
        if needed && matches!(self.ahead.last(), Some(MarkdownStep::Leave(_))) {
            self.out.push_str(NOTHING);
        }
    }

    fn leave(&mut self, end: &ContainerEnd) {
        match *end {
            ContainerEnd::List(marker) => self.ended_list = Some(marker),
            ContainerEnd::Quote(prefix) => {
                self.end_if_begun();
                if self.in_paragraph && self.text_follows() {
                    self.empty_line();
                }
                self.prefix.truncate(prefix);
                self.ended_list = None;
            }
            ContainerEnd::Other(prefix) => {
                self.end_if_begun();
                self.prefix.truncate(prefix);
                self.ended_list = None;
            }
        }
    }

    /// Whether a paragraph comes next, without an empty line before it.
    fn text_follows(&mut self) -> bool {
        // Blocks that end together share one lookup.
        let next = self.sought.unwrap_or_else(|| {
            let mut ahead = self.ahead.iter().inspect(|_| steps::step());
            ahead.rposition(|step| !step.is_passed())
        });
        self.sought = Some(next);
        next.is_some_and(|next| matches!(self.ahead[next], MarkdownStep::Text(_)))
    }

    fn list(&mut self, list: &'v Node) {
        let ordered = self.attribute(list, MarkdownAttribute::ListOrdered);
        let ordered = ordered.and_then(Value::as_bool).unwrap_or(false);
        let given = self.attribute(list, MarkdownAttribute::ListStart);
        let start = given.and_then(Value::as_u64).unwrap_or(1);
        if !ordered && given.is_some_and(|start| MarkdownAttribute::ListStart.accepts(start)) {
            self.report.drop_attribute(
                list,
                self.options
                    .names
                    .of_attribute(MarkdownAttribute::ListStart),
            );
        }
        self.report.drop_text(list);
        if list.children().is_empty() {
            self.report.drop_type(list);
        }
        let marker = self.marker(ordered);
        let gaps = !self.is_tight(list);
        self.ahead
            .push(MarkdownStep::Leave(ContainerEnd::List(marker)));
        let items: Vec<_> = self.view.children(list.id()).collect();
        for (nth, item) in items.into_iter().enumerate().rev() {
            // The first number counts, and none has more than nine digits.
            let number = start.saturating_add(nth as u64).min(MAX_NUMBER);
            let marker = match ordered {
                true => format!("{number}{marker} "),
                false => format!("{marker} "),
            };
            self.ahead.push(MarkdownStep::Gap(gaps));
            self.ahead.push(MarkdownStep::Item(item, marker));
        }
    }

    /// A marker that neither continues the previous list nor forms a thematic break from repeated
    /// markers.
    fn marker(&self, ordered: bool) -> char {
        let markers: &[char] = if ordered {
            &['.', ')']
        } else {
            &['-', '*', '+']
        };
        let around = self
            .begun
            .then(|| self.out.trim_end().chars().next_back())
            .flatten();
        let taken = [self.ended_list, around];
        let free = markers
            .iter()
            .find(|marker| !taken.contains(&Some(**marker)));
        free.or(markers.first()).copied().unwrap_or('-')
    }

    /// Whether the items contain text directly, without a paragraph.
    fn is_tight(&self, list: &'v Node) -> bool {
        let items = self.view.children(list.id());
        let mut parts = items.flat_map(|item| self.view.children(item.id()));
        let mut has_text = false;
        let loose = parts.any(|part| {
            has_text |= self.kind(part) == Some(MarkdownNode::Text);
            self.kind(part) == Some(MarkdownNode::Paragraph)
        });
        has_text && !loose
    }

    fn item(&mut self, item: &'v Node, marker: &str) {
        // In an item, blocks have gaps if the items have.
        let gaps = matches!(self.ahead.last(), Some(MarkdownStep::Gap(true)));
        let follows_text = self.in_paragraph && !self.gap;
        let prefix = self.enter(marker, &" ".repeat(marker.len()));
        self.ahead
            .push(MarkdownStep::Leave(ContainerEnd::Other(prefix)));
        if self.kind(item) != Some(MarkdownNode::ListItem) {
            self.ahead.push(MarkdownStep::Block(item));
            return;
        }
        self.note_attributes(item);
        self.contents(item, gaps);
        let checked = self.attribute(item, MarkdownAttribute::ListItemChecked);
        let checked = checked.and_then(Value::as_bool);
        // A bare marker would continue the paragraph before it, or make it a heading.
        self.fill_if_empty(follows_text && checked.is_none());
        if let Some(checked) = checked {
            self.out.push_str(if checked { "[x] " } else { "[ ] " });
            let text_follows = match self.ahead.last() {
                Some(MarkdownStep::Text(_)) => true,
                Some(MarkdownStep::Block(block)) => {
                    self.kind(block) == Some(MarkdownNode::Paragraph)
                }
                _ => false,
            };
            if !text_follows {
                self.end_line();
            }
        }
    }

    // --- Leaf blocks ---

    /// Returns whether there is anything to write.
    fn paragraph(&mut self, nodes: Vec<&'v Node>) -> bool {
        let text = self.inline(nodes, EscapeContext::Paragraph);
        if !text.is_empty() {
            text.split('\n').for_each(|line| self.line(line));
            self.in_paragraph = true;
        }
        !text.is_empty()
    }

    fn inline(&mut self, nodes: Vec<&'v Node>, place: EscapeContext) -> String {
        inline::written(nodes, place, self.options, &mut self.report)
    }

    fn heading(&mut self, node: &'v Node) {
        let level = self.attribute(node, MarkdownAttribute::HeadingLevel);
        let level = level.and_then(Value::as_u64).unwrap_or(1);
        let signs = "#".repeat(level.clamp(1, 6) as usize);
        let texts = self.texts(node);
        let text = self.inline(texts, EscapeContext::Heading);
        self.line(format!("{signs} {text}").trim_end());
    }

    fn code(&mut self, node: &'v Node) {
        let text = self.verbatim(node);
        let fence = "`".repeat(inline::longest_row(&text, '`').max(2) + 1);
        let language = self.string(node, MarkdownAttribute::CodeBlockLanguage);
        let language = inline::encoded(language, |char| {
            char.is_ascii_alphanumeric() || "+-#._/:=,".contains(char)
        });
        self.line(&format!("{fence}{language}"));
        text.lines().for_each(|line| self.line(line));
        self.line(&fence);
    }

    fn html(&mut self, node: &'v Node) {
        let text = self.verbatim(node);
        text.lines().for_each(|line| self.line(line));
        if text.is_empty() {
            self.report.drop_type(node);
        }
    }

    fn table(&mut self, table: &'v Node) {
        let (heads, rows): (Vec<_>, Vec<_>) = self
            .view
            .children(table.id())
            .partition(|row| self.kind(row) == Some(MarkdownNode::TableHead));
        let cells = |row: &&Node| row.children().len();
        let align = self.attribute(table, MarkdownAttribute::TableAlign);
        let align = align.and_then(Value::as_array);
        let align = align.map_or(&[][..], Vec::as_slice);
        let widest = heads.iter().chain(&rows).map(cells).max().unwrap_or(0);
        let columns = widest.max(align.len()).max(1);
        self.report.drop_text(table);
        for row in heads.iter().skip(1) {
            self.report.drop_type(row);
        }
        for row in &rows {
            if self.kind(row) != Some(MarkdownNode::TableRow) {
                self.report.drop_type(row);
            }
        }
        let mut heads = heads.into_iter();
        // The head and the rules determine the number of columns. Another row may have fewer cells.
        self.row(heads.next(), columns);
        let rules = (0..columns).map(|column| rule(align.get(column)));
        let rules: Vec<_> = rules.collect();
        self.line(&format!("| {} |", rules.join(" | ")));
        heads.chain(rows).for_each(|row| self.row(Some(row), 1));
    }

    /// A row of at least so many cells.
    fn row(&mut self, row: Option<&'v Node>, least: usize) {
        let mut cells = Vec::new();
        if let Some(row) = row {
            self.report.drop_text(row);
            self.note_attributes(row);
            for cell in self.view.children(row.id()) {
                match self.kind(cell) {
                    Some(MarkdownNode::TableCell) => self.note_attributes(cell),
                    _ => self.report.drop_type(cell),
                }
                let texts = self.texts(cell);
                cells.push(self.inline(texts, EscapeContext::Cell));
            }
        }
        cells.resize_with(cells.len().max(least), String::new);
        self.line(&format!("| {} |", cells.join(" | ")));
    }

    // --- Lines ---

    /// Moves to the start of the next block.
    fn begin(&mut self) {
        if std::mem::take(&mut self.gap) {
            self.empty_line();
        }
        if !std::mem::take(&mut self.begun) {
            steps::steps(self.prefix.end.len);
            self.out.push_str(&self.prefix.text);
        }
    }

    fn line(&mut self, line: &str) {
        self.ended_list = None;
        if line.is_empty() && !self.begun {
            if std::mem::take(&mut self.gap) {
                self.empty_line();
            }
            self.in_paragraph = false;
            return self.empty_line();
        }
        self.begin();
        steps::steps(line.len());
        self.out.push_str(line);
        self.begun = line.is_empty();
        self.end_line();
    }

    /// Ends a line; an empty line has no trailing space.
    fn end_line(&mut self) {
        if std::mem::take(&mut self.begun) {
            self.out.truncate(self.out.trim_end_matches(' ').len());
        }
        self.in_paragraph = false;
        self.out.push('\n');
    }

    fn end_if_begun(&mut self) {
        if self.begun {
            self.end_line();
        }
    }

    fn empty_line(&mut self) {
        steps::steps(1 + self.prefix.end.filled);
        self.out.push_str(self.prefix.filled());
        self.out.push('\n');
    }
}

fn rule(align: Option<&Value>) -> &'static str {
    match align.and_then(Value::as_str) {
        Some("left") => ":--",
        Some("center") => ":-:",
        Some("right") => "--:",
        _ => "---",
    }
}
