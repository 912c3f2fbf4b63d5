//! Reads the tree of a page into nodes.

use html5ever::{Attribute, QualName};
use serde_json::Value;
use smol_str::SmolStr;

use super::tree::{Data, HtmlNode, Tree};
use super::{
    Dropped, DroppedPart, MarkdownAttribute, MarkdownMark, MarkdownNode, MarkdownOptions, OBJECT,
    allows,
};
use crate::document::{Attributes, Mark, Marks, NodeSpec};
use crate::formats::{MAX_NUMBER, Report};
use crate::steps::{step, steps};

/// The document, and what it does not express, each with the line of the first.
pub(super) fn document(tree: &Tree, options: &MarkdownOptions) -> (NodeSpec, Vec<Dropped<usize>>) {
    let mut reader = Reader {
        options,
        report: Report::default(),
        line: 1,
        blocks: vec![Block::new(MarkdownNode::Document, false)],
        marks: Vec::new(),
        preserved: 0,
    };
    let mut ahead = vec![Step::Enter(0)];
    while let Some(next) = ahead.pop() {
        step();
        match next {
            Step::Leave(left) => reader.leave(&left),
            Step::Enter(nth) => {
                let node = &tree.0[nth];
                reader.line = node.line;
                let left = match &node.data {
                    Data::None => Some(Left::default()),
                    Data::Text(text) => {
                        reader.text(text);
                        None
                    }
                    Data::Element(name, attributes) => reader.enter(tree, node, name, attributes),
                };
                if let Some(left) = left {
                    ahead.push(Step::Leave(left));
                    ahead.extend(node.children.iter().rev().map(|&child| Step::Enter(child)));
                }
            }
        }
    }
    reader.into_document()
}

enum Step {
    Enter(usize),
    Leave(Left),
}

/// What ends with an element.
#[derive(Default)]
struct Left {
    /// The number of blocks around the one of the element.
    block: Option<usize>,
    mark: bool,
    preserved: bool,
    /// Whether the text behind it begins a line.
    line: bool,
}

struct Reader<'o> {
    options: &'o MarkdownOptions,
    report: Report<usize>,
    line: usize,
    /// The open blocks, the document first.
    blocks: Vec<Block>,
    /// The open marks, the outermost first. They go on in the next text.
    marks: Vec<OpenMark>,
    /// How many open elements preserve white space.
    preserved: usize,
}

struct Block {
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
    /// Whether the last character is a space that is dropped at the end of a line.
    soft: bool,
    /// Whether the next text begins a line.
    broken: bool,
    /// The alignment of the columns of a table.
    align: Vec<&'static str>,
}

struct OpenMark {
    kind: MarkdownMark,
    attributes: Attributes,
    start: usize,
    /// Whether it covers text already.
    used: bool,
}

impl Block {
    fn new(kind: MarkdownNode, implied: bool) -> Self {
        Self {
            kind,
            implied,
            attributes: Vec::new(),
            children: Vec::new(),
            text: String::new(),
            len: 0,
            marks: Vec::new(),
            soft: false,
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

impl Reader<'_> {
    fn block(&mut self) -> &mut Block {
        // The document is never closed.
        if self.blocks.is_empty() {
            self.blocks.push(Block::new(MarkdownNode::Document, false));
        }
        let last = self.blocks.len() - 1;
        &mut self.blocks[last]
    }

    // --- Elements ---

    /// Returns what ends with the element; `None` if its content is dropped.
    fn enter(
        &mut self,
        tree: &Tree,
        node: &HtmlNode,
        name: &QualName,
        attributes: &[Attribute],
    ) -> Option<Left> {
        use MarkdownMark as Mark;
        use MarkdownNode as Node;
        let name = name.local.as_ref();
        let in_code = self.block().kind == Node::CodeBlock;
        let mut element = Element {
            name,
            attributes: attributes.iter().collect(),
        };
        let mut left = Left::default();
        match name {
            "script" | "style" | "template" | "title" | "iframe" | "noembed" | "noframes" => {
                self.drop_element(name);
                return None;
            }
            "html" | "head" | "body" | "thead" | "tbody" | "tfoot" => {}
            "br" => self.line_break(),
            "code" if in_code => self.language(&mut element),
            "em" | "i" if !in_code => left.mark = self.open_mark(Mark::Emphasis, []),
            "strong" | "b" if !in_code => left.mark = self.open_mark(Mark::Strong, []),
            "del" | "s" | "strike" if !in_code => {
                left.mark = self.open_mark(Mark::Strikethrough, []);
            }
            "code" => left.mark = self.open_mark(Mark::Code, []),
            "a" if !in_code => left.mark = self.link(&mut element),
            "img" if !in_code => self.image(&mut element),
            "input" if element.has("type", "checkbox") && self.check(&mut element) => {}
            "p" => left.block = self.open_element(Node::Paragraph, name),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                left.block = self.open_element(Node::Heading, name);
                let level: u64 = name[1..].parse().unwrap_or(1);
                self.set(&left, MarkdownAttribute::HeadingLevel, level.into());
            }
            "blockquote" => left.block = self.open_element(Node::BlockQuote, name),
            "hr" => {
                left.block = self.open_element(Node::ThematicBreak, name);
            }
            "pre" => {
                left.block = self.open_element(Node::CodeBlock, name);
                left.preserved = true;
            }
            "ul" | "ol" => {
                left.block = self.open_element(Node::List, name);
                self.set(&left, MarkdownAttribute::ListOrdered, (name == "ol").into());
                if name == "ol" {
                    let start = element.take("start");
                    let number = start.and_then(|start| start.parse().ok());
                    let number = number.filter(|number| *number <= MAX_NUMBER);
                    if start.is_some() && number.is_none() {
                        self.drop_attribute(name, "start");
                    }
                    let number = number.unwrap_or(1);
                    self.set(&left, MarkdownAttribute::ListStart, number.into());
                }
            }
            "li" => left.block = self.open_element(Node::ListItem, name),
            "table" => left.block = self.open_element(Node::Table, name),
            "tr" => {
                let kind = match self.is_head(tree, node) {
                    true => Node::TableHead,
                    false => Node::TableRow,
                };
                left.block = self.open_element(kind, name);
            }
            "td" | "th" => self.cell(&mut element, &mut left),
            "span" if element.is_preserved() => {}
            _ => {
                self.drop_element(name);
                left.line = is_block(name);
                if left.line {
                    self.begin_line();
                }
                left.preserved = element.preserves();
                self.preserved += usize::from(left.preserved);
                return Some(left);
            }
        }
        if element.preserves() {
            left.preserved = true;
            element.take_style("white-space");
        }
        self.preserved += usize::from(left.preserved);
        for attribute in element.rest() {
            self.drop_attribute(name, &attribute);
        }
        Some(left)
    }

    fn leave(&mut self, left: &Left) {
        self.preserved -= usize::from(left.preserved);
        if left.mark {
            self.close_mark();
        }
        if let Some(around) = left.block {
            while self.blocks.len() > around.max(1) {
                self.close();
            }
        }
        if left.line {
            self.begin_line();
        }
    }

    /// Opens a block for an element where one fits. Returns the number of blocks around it.
    fn open_element(&mut self, kind: MarkdownNode, name: &str) -> Option<usize> {
        use MarkdownNode as Node;
        let fits_in_item = Block::new(Node::ListItem, true).accepts(kind);
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
    fn is_head(&mut self, tree: &Tree, row: &HtmlNode) -> bool {
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

    fn cell(&mut self, element: &mut Element<'_>, left: &mut Left) {
        let row = self.block().kind;
        let is_head = row == MarkdownNode::TableHead;
        left.block = self.open_element(MarkdownNode::TableCell, element.name);
        let Some(around) = left.block else {
            return;
        };
        if (element.name == "th") != is_head {
            self.drop_element(element.name);
        }
        let style = element.style("text-align").map(str::to_owned);
        let given = style.as_deref().or_else(|| element.get("align"));
        let align = match given {
            Some("left") => "left",
            Some("center") => "center",
            Some("right") => "right",
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
            element.take_style("text-align");
        }
    }

    fn language(&mut self, element: &mut Element<'_>) {
        let class = element.get("class").unwrap_or_default();
        if let Some(language) = class.strip_prefix("language-")
            && !language.contains(char::is_whitespace)
        {
            let language = language.to_owned();
            element.take("class");
            let attribute = (MarkdownAttribute::CodeBlockLanguage, language.into());
            self.block().attributes.push(attribute);
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

    fn link(&mut self, element: &mut Element<'_>) -> bool {
        let href = element.take("href");
        let title = element.take("title");
        // Links do not nest.
        let in_link = self
            .marks
            .iter()
            .any(|mark| mark.kind == MarkdownMark::Link);
        if in_link || href.is_some_and(|href| !allows(self.options, href)) {
            self.drop_mark(MarkdownMark::Link);
            return false;
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
        self.close_mark();
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
        self.blocks.push(Block::new(kind, implied));
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

    fn spec(&self, block: Block) -> NodeSpec {
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

    fn set(&mut self, left: &Left, attribute: MarkdownAttribute, value: Value) {
        if left.block.is_some() {
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
        let document = document.unwrap_or_else(|| Block::new(MarkdownNode::Document, false));
        (self.spec(document), self.report.into_entries())
    }

    // --- Text ---

    fn text(&mut self, text: &str) {
        if self.preserved > 0 || self.block().kind == MarkdownNode::CodeBlock {
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
        if block.len > 0 && !block.soft && !block.broken && !block.text.ends_with('\n') {
            block.text.push(' ');
            block.len += 1;
            block.soft = true;
        }
    }

    /// Adds characters as they are.
    fn say(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        steps(text.len());
        self.place_for_text();
        if std::mem::take(&mut self.block().broken) && self.block().len > 0 {
            self.end_line();
            if !self.block().text.ends_with('\n') {
                self.push("\n");
            }
        }
        self.push(text);
    }

    fn push(&mut self, text: &str) {
        let block = self.block();
        block.text.push_str(text);
        block.len += text.chars().count();
        block.soft = false;
    }

    fn line_break(&mut self) {
        self.place_for_text();
        self.end_line();
        self.block().broken = false;
        self.push("\n");
    }

    /// Drops the space at the end of a line.
    fn end_line(&mut self) {
        let block = self.block();
        if std::mem::take(&mut block.soft) {
            block.text.pop();
            block.len -= 1;
            let len = block.len;
            for mark in &mut block.marks {
                if let Some(range) = &mut mark.range {
                    *range = range.start.min(len)..range.end.min(len);
                }
            }
            for mark in &mut self.marks {
                mark.start = mark.start.min(len);
            }
        }
    }

    /// Makes a child of the pending text, if there is any. Open marks go on in the next text.
    fn end_text(&mut self) {
        self.end_line();
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
    ) -> bool {
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
        true
    }

    fn close_mark(&mut self) {
        let Some(last) = self.marks.last() else {
            return;
        };
        let (kind, start, used) = (last.kind, last.start, last.used);
        let is_target = matches!(kind, MarkdownMark::Link | MarkdownMark::Image);
        if is_target && !used && start >= self.block().len {
            // The mark needs a character.
            self.place_for_text();
            self.say(OBJECT.encode_utf8(&mut [0; 4]));
        }
        let Some(open) = self.marks.pop() else {
            return;
        };
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

/// An element, and its attributes that are not read yet.
struct Element<'t> {
    name: &'t str,
    attributes: Vec<&'t Attribute>,
}

impl<'t> Element<'t> {
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

    /// A property of its style.
    fn style(&self, property: &str) -> Option<&'t str> {
        let declarations = self.get("style")?.split(';');
        let mut pairs = declarations.filter_map(|declaration| declaration.split_once(':'));
        let found = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case(property));
        found.map(|(_, value)| value.trim())
    }

    /// Drops its style from the attributes if it has only this property.
    fn take_style(&mut self, property: &str) {
        let declarations = self.get("style").unwrap_or_default().split(';');
        let mut others = declarations.filter(|declaration| {
            let name = declaration.split(':').next().unwrap_or_default().trim();
            !name.is_empty() && !name.eq_ignore_ascii_case(property)
        });
        if others.next().is_none() {
            self.take("style");
        }
    }

    /// Whether its style preserves white space.
    fn preserves(&self) -> bool {
        let style = self.style("white-space");
        style.is_some_and(|value| matches!(value, "pre" | "pre-wrap" | "break-spaces"))
    }

    /// Whether it does nothing but preserve white space.
    fn is_preserved(&self) -> bool {
        self.attributes.len() == 1 && self.preserves()
    }

    fn rest(&self) -> Vec<String> {
        let attributes = self.attributes.iter();
        attributes
            .map(|attribute| attribute.name.local.to_string())
            .collect()
    }
}
