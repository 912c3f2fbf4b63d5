//! Reads the tree of a page into nodes.

mod blocks;
mod element;
mod text;

use doclock::document::NodeSpec;
use html5ever::{Attribute, QualName};
use smol_str::SmolStr;

use super::style::{Property, Value as StyleValue};
use super::tree::{Data, HtmlNode, HtmlTree};
use super::{
    Dropped, DroppedPart, HtmlError, MarkdownAttribute, MarkdownMark, MarkdownNode,
    MarkdownOptions, allows,
};
use crate::DEEPEST;
use crate::dropped::DroppedReport;
use crate::names::MAX_NUMBER;
use crate::steps::step;
use blocks::PartialBlock;
use element::Element;
use text::{OpenMark, TextStyle};

/// The document, and what it does not express, each with the line of the first.
pub(super) fn document(
    tree: &HtmlTree,
    options: &MarkdownOptions,
) -> Result<(NodeSpec, Vec<Dropped<usize>>), HtmlError> {
    let mut reader = HtmlReader {
        options,
        report: DroppedReport::default(),
        line: 1,
        blocks: vec![PartialBlock::new(MarkdownNode::Document, false)],
        marks: Vec::new(),
        text_style: TextStyle::default(),
        too_deep: None,
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
    match reader.too_deep {
        Some(line) => Err(HtmlError::TooDeep {
            line,
            limit: DEEPEST,
        }),
        None => Ok(reader.into_document()),
    }
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

struct HtmlReader<'o> {
    options: &'o MarkdownOptions,
    report: DroppedReport<usize>,
    line: usize,
    /// The open blocks, the document first.
    blocks: Vec<PartialBlock>,
    /// The open marks, the outermost first. They go on in the next text.
    marks: Vec<OpenMark>,
    text_style: TextStyle,
    /// The first line whose HTML, as it would be written, nests too deep.
    too_deep: Option<usize>,
}

impl HtmlReader<'_> {
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
        self.reach(1);
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
