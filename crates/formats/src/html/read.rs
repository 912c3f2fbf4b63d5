//! Reads the tree of a page into nodes.

use doclock::document::{Attributes, Mark, Marks, NodeSpec};
use html5ever::{Attribute, QualName};
use serde_json::Value;
use smol_str::SmolStr;

use super::style::{Property, Style, Value as StyleValue};
use super::tree::{Data, HtmlNode, HtmlTree};
use super::{
    Dropped, DroppedPart, MarkdownAttribute, MarkdownMark, MarkdownNode, MarkdownOptions, OBJECT,
    allows,
};
use crate::dropped::DroppedReport;
use crate::names::MAX_NUMBER;
use crate::steps::{step, steps};

/// The document, and what it does not express, each with the line of the first.
pub(super) fn document(
    tree: &HtmlTree,
    options: &MarkdownOptions,
) -> (NodeSpec, Vec<Dropped<usize>>) {
    let mut reader = HtmlReader {
        options,
        report: DroppedReport::default(),
        line: 1,
        blocks: vec![PartialBlock::new(MarkdownNode::Document, false)],
        marks: Vec::new(),
        text_style: TextStyle::default(),
    };
    let mut ahead = vec![TreeVisit::Enter(0)];
    while let Some(next) = ahead.pop() {
        step();
        match next {
            TreeVisit::Leave(end) => reader.leave(&end),
            TreeVisit::Enter(nth) => {
                let node = &tree.0[nth];
                reader.line = node.line;
                let end = match &node.data {
                    Data::None => Some(ElementEnd::new(reader.text_style)),
                    Data::Text(text) => {
                        reader.text(text);
                        None
                    }
                    Data::Element(name, attributes) => reader.enter(tree, node, name, attributes),
                };
                if let Some(end) = end {
                    ahead.push(TreeVisit::Leave(end));
                    ahead.extend(
                        node.children
                            .iter()
                            .rev()
                            .map(|&child| TreeVisit::Enter(child)),
                    );
                }
            }
        }
    }
    reader.into_document()
}

enum TreeVisit {
    Enter(usize),
    Leave(ElementEnd),
}

/// What ends with an element.
struct ElementEnd {
    /// The number of blocks around the one of the element.
    block: Option<usize>,
    mark: Option<MarkdownMark>,
    /// The style of the text around it.
    around: TextStyle,
    /// Whether the text behind it begins a line.
    line: bool,
}

impl ElementEnd {
    fn new(around: TextStyle) -> Self {
        Self {
            block: None,
            mark: None,
            around,
            line: false,
        }
    }
}

/// The style of a text, from the elements around it and their style attributes.
#[derive(Clone, Copy, Default)]
struct TextStyle {
    bold: bool,
    italic: bool,
    struck: bool,
    /// Whether white space is preserved.
    preserved: bool,
}

impl TextStyle {
    fn marks(self) -> [(MarkdownMark, bool); 3] {
        [
            (MarkdownMark::Strong, self.bold),
            (MarkdownMark::Emphasis, self.italic),
            (MarkdownMark::Strikethrough, self.struck),
        ]
    }

    /// Of an element with this name and style.
    fn within(self, name: &str, style: &Style, in_code: bool) -> Self {
        let value = |property, around, of_name| match style.get(property) {
            Some(StyleValue::On) => true,
            Some(StyleValue::Inherited) => around,
            Some(_) => false,
            None => around || of_name,
        };
        let preserved = value(Property::Space, self.preserved, name == "pre");
        if in_code {
            return Self { preserved, ..self };
        }
        // These are bold without a mark.
        let is_head = matches!(name, "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "th");
        let is_struck = matches!(name, "del" | "s" | "strike");
        Self {
            bold: match is_head {
                true => self.bold,
                false => value(Property::Weight, self.bold, matches!(name, "b" | "strong")),
            },
            italic: value(Property::Slant, self.italic, matches!(name, "em" | "i")),
            // A line goes through all descendants.
            struck: self.struck || value(Property::Strike, false, is_struck),
            preserved,
        }
    }
}

struct HtmlReader<'o> {
    options: &'o MarkdownOptions,
    report: DroppedReport<usize>,
    line: usize,
    /// The open blocks, the document first.
    blocks: Vec<PartialBlock>,
    /// The open marks, the outermost first. They go on in the next text.
    marks: Vec<OpenMark>,
    text_style: TextStyle,
}

struct PartialBlock {
    kind: MarkdownNode,
    /// Whether no element stands for it.
    implied: bool,
    attributes: Vec<(MarkdownAttribute, Value)>,
    children: Vec<NodeSpec>,
    /// The text since the last child.
    text: String,
    /// Its length in characters.
    len: usize,
    marks: Vec<Mark>,
    /// The last character, if the end of a line or of the text drops it.
    tail: TrailingCharacter,
    /// Whether the next text begins a line.
    broken: bool,
    /// The alignment of the columns of a table.
    align: Vec<&'static str>,
}

/// The last character of a text.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum TrailingCharacter {
    /// One that stays.
    #[default]
    Firm,
    /// A space, which is dropped at the end of a line.
    Space,
    /// A newline, which begins no line at the end of the text.
    Break,
}

struct OpenMark {
    kind: MarkdownMark,
    attributes: Attributes,
    start: usize,
    /// Whether it covers text already.
    used: bool,
}

impl PartialBlock {
    fn new(kind: MarkdownNode, implied: bool) -> Self {
        Self {
            kind,
            implied,
            attributes: Vec::new(),
            children: Vec::new(),
            text: String::new(),
            len: 0,
            marks: Vec::new(),
            tail: TrailingCharacter::Firm,
            broken: false,
            align: Vec::new(),
        }
    }

    fn is_empty(&self) -> bool {
        self.len == 0 && self.children.is_empty()
    }

    fn accepts(&self, kind: MarkdownNode) -> bool {
        use MarkdownNode as Node;
        match self.kind {
            Node::List => kind == Node::ListItem,
            Node::Table => matches!(kind, Node::TableHead | Node::TableRow),
            Node::TableHead | Node::TableRow => kind == Node::TableCell,
            Node::Document | Node::BlockQuote | Node::ListItem => !matches!(
                kind,
                Node::ListItem | Node::TableHead | Node::TableRow | Node::TableCell
            ),
            _ => false,
        }
    }
}

impl HtmlReader<'_> {
    fn block(&mut self) -> &mut PartialBlock {
        // The document is never closed.
        if self.blocks.is_empty() {
            self.blocks
                .push(PartialBlock::new(MarkdownNode::Document, false));
        }
        let last = self.blocks.len() - 1;
        &mut self.blocks[last]
    }

    // --- Elements ---

    /// Returns what ends with the element; `None` if its content is dropped.
    fn enter(
        &mut self,
        tree: &HtmlTree,
        node: &HtmlNode,
        name: &QualName,
        attributes: &[Attribute],
    ) -> Option<ElementEnd> {
        use MarkdownMark as Mark;
        use MarkdownNode as Node;
        let name = name.local.as_ref();
        let in_code = self.block().kind == Node::CodeBlock;
        let mut element = Element::new(name, attributes);
        let mut end = ElementEnd::new(self.text_style);
        if element.is_hidden() {
            self.drop_element(name);
            return None;
        }
        match name {
            "html" | "head" | "body" | "thead" | "tbody" | "tfoot" => {}
            // Of the clipboard, at the end of what was copied.
            "br" if element.has("class", "Apple-interchange-newline") => return Some(end),
            "br" => self.line_break(),
            "code" if in_code => self.language(&mut element),
            "em" | "i" | "strong" | "b" | "del" | "s" | "strike" if !in_code => {}
            "code" => end.mark = self.open_mark(Mark::Code, []),
            "a" if !in_code && element.get("href").is_some() => {
                end.mark = self.link(&mut element);
            }
            "img" if !in_code => self.image(&mut element),
            "input" if element.has("type", "checkbox") && self.check(&mut element) => {}
            "p" => end.block = self.open_element(Node::Paragraph, name),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                end.block = self.open_element(Node::Heading, name);
                let level: u64 = name[1..].parse().unwrap_or(1);
                self.set(&end, MarkdownAttribute::HeadingLevel, level.into());
            }
            "blockquote" => end.block = self.open_element(Node::BlockQuote, name),
            "hr" => {
                end.block = self.open_element(Node::ThematicBreak, name);
            }
            "pre" => {
                end.block = self.open_element(Node::CodeBlock, name);
                if end.block.is_some() {
                    self.language(&mut element);
                }
            }
            "ul" | "ol" => {
                end.block = self.open_element(Node::List, name);
                self.set(&end, MarkdownAttribute::ListOrdered, (name == "ol").into());
                if name == "ol" {
                    let start = element.take("start");
                    let number = start.and_then(|start| start.parse().ok());
                    let number = number.filter(|number| *number <= MAX_NUMBER);
                    if start.is_some() && number.is_none() {
                        self.drop_attribute(name, "start");
                    }
                    let number = number.unwrap_or(1);
                    self.set(&end, MarkdownAttribute::ListStart, number.into());
                }
            }
            "li" => end.block = self.open_element(Node::ListItem, name),
            "table" => end.block = self.open_element(Node::Table, name),
            "tr" => {
                let kind = match self.is_head(tree, node) {
                    true => Node::TableHead,
                    false => Node::TableRow,
                };
                end.block = self.open_element(kind, name);
            }
            "td" | "th" => self.cell(&mut element, &mut end),
            "span" if element.style.is_known() => end.line = element.is_block(),
            _ => {
                self.drop_element(name);
                end.line = element.is_block();
                element.attributes.clear();
            }
        }
        if end.line {
            self.begin_line();
        }
        let in_code = self.block().kind == Node::CodeBlock;
        if element.style.is_expressed(in_code) {
            element.take("style");
        }
        for attribute in element.rest() {
            self.drop_attribute(name, &attribute);
        }
        self.set_text_style(self.text_style.within(name, &element.style, in_code));
        Some(end)
    }

    fn leave(&mut self, end: &ElementEnd) {
        if let Some(kind) = end.mark {
            self.close_mark(kind);
        }
        self.set_text_style(end.around);
        if let Some(around) = end.block {
            while self.blocks.len() > around.max(1) {
                self.close();
            }
        }
        if end.line {
            self.begin_line();
        }
    }

    /// Opens a block for an element where one fits. Returns the number of blocks around it.
    fn open_element(&mut self, kind: MarkdownNode, name: &str) -> Option<usize> {
        use MarkdownNode as Node;
        let fits_in_item = PartialBlock::new(Node::ListItem, true).accepts(kind);
        loop {
            let block = self.block();
            if block.accepts(kind) {
                let around = self.blocks.len();
                self.open(kind, false);
                return Some(around);
            }
            match block.kind {
                _ if block.implied => self.close(),
                Node::List if fits_in_item => self.open(Node::ListItem, true),
                _ => {
                    // In a line of text, or without the list or the table around it.
                    self.drop_element(name);
                    self.begin_line();
                    return None;
                }
            }
        }
    }

    /// Whether a row is the head of its table: the first one, of header cells only.
    fn is_head(&mut self, tree: &HtmlTree, row: &HtmlNode) -> bool {
        let first = self.block().kind == MarkdownNode::Table && self.block().is_empty();
        let mut cells = row
            .children
            .iter()
            .filter_map(|&child| match &tree.0[child].data {
                Data::Element(name, _) => Some(name.local.as_ref() == "th"),
                _ => None,
            });
        first && cells.next() == Some(true) && cells.all(|is_head| is_head)
    }

    fn cell(&mut self, element: &mut Element<'_>, end: &mut ElementEnd) {
        let row = self.block().kind;
        let is_head = row == MarkdownNode::TableHead;
        end.block = self.open_element(MarkdownNode::TableCell, element.name);
        let Some(around) = end.block else {
            return;
        };
        if (element.name == "th") != is_head {
            self.drop_element(element.name);
        }
        let align = match (element.style.get(Property::Align), element.get("align")) {
            (Some(StyleValue::Align(align)), _) => align,
            (_, Some("left")) => "left",
            (_, Some("center")) => "center",
            (_, Some("right")) => "right",
            _ => "none",
        };
        // The row and the table are around the cell.
        let column = self.blocks[around - 1].children.len();
        let Some(table) = around.checked_sub(2).map(|table| &mut self.blocks[table]) else {
            return;
        };
        if table.children.is_empty() {
            table.align.push(align);
        }
        let column = table.align.get(column).copied().unwrap_or("none");
        if align == column && align != "none" {
            element.take("align");
            element.style.take(Property::Align);
        }
    }

    /// Reads the language from the classes of an element. The code in a `pre` may repeat it.
    fn language(&mut self, element: &mut Element<'_>) {
        let classes = element.get("class").unwrap_or_default().split_whitespace();
        let mut languages = classes
            .clone()
            .filter_map(|class| class.strip_prefix("language-"));
        let Some(language) = languages.find(|language| !language.is_empty()) else {
            return;
        };
        let attribute = (MarkdownAttribute::CodeBlockLanguage, language.into());
        let is_only = classes.count() == 1;
        let attributes = &mut self.block().attributes;
        let is_kept = attributes.is_empty() || attributes.contains(&attribute);
        if attributes.is_empty() {
            attributes.push(attribute);
        }
        if is_kept && is_only {
            element.take("class");
        }
    }

    /// Whether a checkbox is the first part of an item.
    fn check(&mut self, element: &mut Element<'_>) -> bool {
        let mut blocks = self.blocks.iter_mut().rev();
        // It may be in the first paragraph of the item.
        let item = blocks.find(|block| {
            !(block.kind == MarkdownNode::Paragraph && block.is_empty() && !block.implied)
        });
        let item = item.filter(|block| block.kind == MarkdownNode::ListItem && block.is_empty());
        let Some(item) = item.filter(|item| item.attributes.is_empty()) else {
            return false;
        };
        element.take("type");
        element.take("disabled");
        let checked = element.take("checked").is_some();
        let attribute = (MarkdownAttribute::ListItemChecked, checked.into());
        item.attributes.push(attribute);
        true
    }

    fn link(&mut self, element: &mut Element<'_>) -> Option<MarkdownMark> {
        let href = element.take("href");
        let title = element.take("title");
        // Links do not nest.
        let in_link = self
            .marks
            .iter()
            .any(|mark| mark.kind == MarkdownMark::Link);
        if in_link || href.is_some_and(|href| !allows(self.options, href)) {
            self.drop_mark(MarkdownMark::Link);
            return None;
        }
        self.open_mark(
            MarkdownMark::Link,
            [
                (MarkdownAttribute::LinkTarget, href),
                (MarkdownAttribute::LinkTitle, title),
            ],
        )
    }

    fn image(&mut self, element: &mut Element<'_>) {
        let alt = element.take("alt").unwrap_or_default();
        let source = element.take("src");
        let title = element.take("title");
        if source.is_some_and(|source| !allows(self.options, source)) {
            self.drop_mark(MarkdownMark::Image);
            return self.say(alt);
        }
        self.place_for_text();
        self.open_mark(
            MarkdownMark::Image,
            [
                (MarkdownAttribute::ImageSource, source),
                (MarkdownAttribute::ImageTitle, title),
            ],
        );
        self.say(alt);
        self.close_mark(MarkdownMark::Image);
        self.part_images();
    }

    /// Takes the mark of an image that directly follows an equal one. Otherwise the two would be
    /// one mark, and one image would be lost without a report.
    fn part_images(&mut self) {
        let marks = &mut self.block().marks;
        let Some((image, before)) = marks.split_last() else {
            return;
        };
        let start = image.range.as_ref().map(|range| range.start);
        let end = |mark: &Mark| mark.range.as_ref().map(|range| range.end);
        let is_equal = |mark: &Mark| mark.kind == image.kind && mark.attributes == image.attributes;
        // Marks are in the order of their ends, and none ends within the image.
        let mut adjacent = before.iter().rev().take_while(|mark| end(mark) == start);
        if adjacent.any(is_equal) {
            marks.pop();
            self.drop_mark(MarkdownMark::Image);
        }
    }

    // --- Blocks ---

    fn open(&mut self, kind: MarkdownNode, implied: bool) {
        self.end_text();
        self.blocks.push(PartialBlock::new(kind, implied));
    }

    fn close(&mut self) {
        self.end_text();
        if let Some(block) = self.blocks.pop() {
            let is_cell = block.kind == MarkdownNode::TableCell;
            let spec = self.spec(block);
            self.block().children.push(spec);
            // Each cell of the first row is a column.
            if is_cell
                && let [.., table, row] = self.blocks.as_mut_slice()
                && table.children.is_empty()
            {
                table.align.resize(row.children.len(), "none");
            }
        }
    }

    fn spec(&self, block: PartialBlock) -> NodeSpec {
        let names = &self.options.names;
        let mut attributes = block.attributes;
        if !block.align.is_empty() {
            attributes.push((MarkdownAttribute::TableAlign, block.align.into()));
        }
        let named = attributes
            .into_iter()
            .map(|(attribute, value)| (names.of_attribute(attribute).clone(), value));
        NodeSpec::new(names.of_node(block.kind).clone())
            .with_attributes(named.collect::<Attributes>())
            .with_children(block.children)
    }

    fn set(&mut self, end: &ElementEnd, attribute: MarkdownAttribute, value: Value) {
        if end.block.is_some() {
            self.block().attributes.push((attribute, value));
        }
    }

    /// Opens the blocks that text needs.
    fn place_for_text(&mut self) {
        use MarkdownNode as Node;
        loop {
            let inner = match self.block().kind {
                Node::Document | Node::BlockQuote => Node::Paragraph,
                Node::List => Node::ListItem,
                Node::Table => Node::TableRow,
                Node::TableHead | Node::TableRow => Node::TableCell,
                _ => return,
            };
            self.open(inner, true);
        }
    }

    /// The next text is not in the line of the last one.
    fn begin_line(&mut self) {
        let block = self.block();
        match block.implied && block.kind == MarkdownNode::Paragraph {
            true => self.close(),
            false => block.broken = true,
        }
    }

    fn into_document(mut self) -> (NodeSpec, Vec<Dropped<usize>>) {
        while self.blocks.len() > 1 {
            self.close();
        }
        self.end_text();
        let document = self.blocks.pop();
        let document = document.unwrap_or_else(|| PartialBlock::new(MarkdownNode::Document, false));
        (self.spec(document), self.report.into_entries())
    }

    // --- Text ---

    fn text(&mut self, text: &str) {
        if self.text_style.preserved || self.block().kind == MarkdownNode::CodeBlock {
            return self.say(text);
        }
        let is_space = |char: char| matches!(char, ' ' | '\t' | '\n' | '\u{c}' | '\r');
        for (nth, word) in text.split(is_space).enumerate() {
            if nth > 0 {
                self.space();
            }
            self.say(word);
        }
    }

    /// A space, which is dropped at both ends of a line and after another one.
    fn space(&mut self) {
        let block = self.block();
        let is_within = block.tail == TrailingCharacter::Firm && !block.text.ends_with('\n');
        if block.len > 0 && is_within && !block.broken {
            block.text.push(' ');
            block.len += 1;
            block.tail = TrailingCharacter::Space;
        }
    }

    /// Adds characters as they are.
    fn say(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        steps(text.len());
        self.place_for_text();
        self.end_broken_line();
        self.push(text);
    }

    fn end_broken_line(&mut self) {
        if std::mem::take(&mut self.block().broken) && self.block().len > 0 {
            self.end_line();
            if !self.block().text.ends_with('\n') {
                self.push("\n");
            }
        }
    }

    fn push(&mut self, text: &str) {
        let block = self.block();
        block.text.push_str(text);
        block.len += text.chars().count();
        block.tail = TrailingCharacter::Firm;
    }

    fn line_break(&mut self) {
        self.place_for_text();
        self.end_broken_line();
        self.end_line();
        self.push("\n");
        self.block().tail = TrailingCharacter::Break;
    }

    /// Drops the space at the end of a line.
    fn end_line(&mut self) {
        if self.block().tail == TrailingCharacter::Space {
            self.drop_tail();
        }
    }

    fn drop_tail(&mut self) {
        let block = self.block();
        if std::mem::take(&mut block.tail) != TrailingCharacter::Firm {
            block.text.pop();
            block.len -= 1;
            let len = block.len;
            // They are in the order of their ends.
            for range in block
                .marks
                .iter_mut()
                .rev()
                .map_while(|mark| mark.range.as_mut())
            {
                if range.end <= len {
                    break;
                }
                *range = range.start.min(len)..len;
            }
            for mark in &mut self.marks {
                mark.start = mark.start.min(len);
            }
        }
    }

    /// Makes a child of the pending text, if there is any. Open marks go on in the next text.
    fn end_text(&mut self) {
        self.drop_tail();
        let names = &self.options.names;
        let Some(block) = self.blocks.last_mut() else {
            return;
        };
        let len = std::mem::take(&mut block.len);
        let text = std::mem::take(&mut block.text);
        let mut marks = std::mem::take(&mut block.marks);
        block.broken = false;
        for open in &mut self.marks {
            let start = std::mem::take(&mut open.start);
            if start < len && block.kind == MarkdownNode::CodeBlock {
                let (line, mark) = (self.line, names.of_mark(open.kind).clone());
                self.report.add(DroppedPart::Mark { mark }, || line);
            } else if start < len {
                open.used = true;
                let mark = Mark::new(names.of_mark(open.kind).clone(), start..len);
                marks.push(mark.with_attributes(open.attributes.clone()));
            }
        }
        if len > 0 {
            let spec = NodeSpec::new(names.of_node(MarkdownNode::Text).clone());
            let marks = Marks::normal(marks, len).unwrap_or_default();
            let spec = spec.with_text(text).with_marks(marks.iter().cloned());
            block.children.push(spec);
        }
    }

    fn open_mark<const N: usize>(
        &mut self,
        kind: MarkdownMark,
        attributes: [(MarkdownAttribute, Option<&str>); N],
    ) -> Option<MarkdownMark> {
        let names = &self.options.names;
        let given = attributes.into_iter().filter_map(|(attribute, value)| {
            let value = value.filter(|value| !value.is_empty())?;
            Some((names.of_attribute(attribute).clone(), Value::from(value)))
        });
        let attributes: Attributes = given.collect();
        let start = self.block().len;
        self.marks.push(OpenMark {
            kind,
            attributes,
            start,
            used: false,
        });
        Some(kind)
    }

    /// Opens and closes the marks in which the text style changes.
    fn set_text_style(&mut self, text_style: TextStyle) {
        let before = std::mem::replace(&mut self.text_style, text_style);
        for ((kind, was), (_, is)) in before.marks().into_iter().zip(text_style.marks()) {
            match (was, is) {
                (false, true) => drop(self.open_mark(kind, [])),
                (true, false) => self.close_mark(kind),
                _ => {}
            }
        }
    }

    /// Closes the innermost mark of a kind.
    fn close_mark(&mut self, kind: MarkdownMark) {
        let Some(nth) = self.marks.iter().rposition(|mark| mark.kind == kind) else {
            return;
        };
        let (start, used) = (self.marks[nth].start, self.marks[nth].used);
        let is_target = matches!(kind, MarkdownMark::Link | MarkdownMark::Image);
        if is_target && !used && start >= self.block().len {
            // The mark needs a character.
            self.place_for_text();
            self.say(OBJECT.encode_utf8(&mut [0; 4]));
        }
        let open = self.marks.remove(nth);
        let name = self.options.names.of_mark(kind).clone();
        let block = self.block();
        if open.start < block.len {
            let mark = Mark::new(name, open.start..block.len);
            block.marks.push(mark.with_attributes(open.attributes));
        }
    }

    // --- What is dropped ---

    fn drop(&mut self, part: DroppedPart) {
        let line = self.line;
        self.report.add(part, || line);
    }

    fn drop_mark(&mut self, mark: MarkdownMark) {
        let mark = self.options.names.of_mark(mark).clone();
        self.drop(DroppedPart::Mark { mark });
    }

    fn drop_element(&mut self, name: &str) {
        let element = SmolStr::new(name);
        self.drop(DroppedPart::Element { element });
    }

    fn drop_attribute(&mut self, name: &str, attribute: &str) {
        let (element, attribute) = (name.into(), attribute.into());
        self.drop(DroppedPart::ElementAttribute { element, attribute });
    }
}

/// Whether an unknown element begins a line.
fn is_block(name: &str) -> bool {
    matches!(
        name,
        "address"
            | "article"
            | "aside"
            | "caption"
            | "center"
            | "dd"
            | "details"
            | "dialog"
            | "dir"
            | "div"
            | "dl"
            | "dt"
            | "fieldset"
            | "figcaption"
            | "figure"
            | "footer"
            | "form"
            | "header"
            | "hgroup"
            | "legend"
            | "main"
            | "menu"
            | "nav"
            | "option"
            | "search"
            | "section"
            | "summary"
    )
}

/// An element, its style, and its attributes that are not read yet.
struct Element<'t> {
    name: &'t str,
    attributes: Vec<&'t Attribute>,
    style: Style,
}

impl<'t> Element<'t> {
    fn new(name: &'t str, attributes: &'t [Attribute]) -> Self {
        let mut element = Self {
            name,
            attributes: attributes.iter().collect(),
            style: Style::default(),
        };
        element.style = element.get("style").map(Style::parsed).unwrap_or_default();
        element
    }

    fn get(&self, name: &str) -> Option<&'t str> {
        let mut attributes = self.attributes.iter();
        let found = attributes.find(|attribute| attribute.name.local.as_ref() == name);
        found.map(|attribute| &*attribute.value)
    }

    fn has(&self, name: &str, value: &str) -> bool {
        self.get(name)
            .is_some_and(|found| found.eq_ignore_ascii_case(value))
    }

    fn take(&mut self, name: &str) -> Option<&'t str> {
        let value = self.get(name);
        self.attributes
            .retain(|attribute| attribute.name.local.as_ref() != name);
        value
    }

    /// Whether a browser shows nothing of its content.
    fn is_hidden(&self) -> bool {
        let by_name = match self.name {
            "script" | "style" | "template" | "title" | "iframe" | "noembed" | "noframes" => {
                return true;
            }
            "annotation" | "annotation-xml" | "datalist" => true,
            "dialog" => self.get("open").is_none(),
            _ => self.get("hidden").is_some(),
        };
        let by_style = match self.style.get(Property::Display) {
            Some(display) => display == StyleValue::Hidden,
            None => by_name,
        };
        by_style || self.style.get(Property::Visibility) == Some(StyleValue::Hidden)
    }

    /// Whether it begins a line, if it is no block of a document.
    fn is_block(&self) -> bool {
        match self.style.get(Property::Display) {
            Some(StyleValue::On) => true,
            Some(StyleValue::Off) => false,
            _ => is_block(self.name),
        }
    }

    fn rest(&self) -> Vec<String> {
        let attributes = self.attributes.iter();
        attributes
            .map(|attribute| attribute.name.local.to_string())
            .collect()
    }
}
