//! The blocks that elements and texts open and close.

use doclock::document::{Attributes, Mark, NodeSpec};
use serde_json::Value;

use super::text::TrailingCharacter;
use super::{ElementEnd, HtmlReader};
use crate::DEEPEST;
use crate::html::{Dropped, MarkdownAttribute, MarkdownMark, MarkdownNode};

pub(super) struct PartialBlock {
    pub(super) kind: MarkdownNode,
    /// Whether no element stands for it.
    pub(super) implied: bool,
    /// The level of its innermost element in the HTML of the document.
    level: usize,
    pub(super) attributes: Vec<(MarkdownAttribute, Value)>,
    pub(super) children: Vec<NodeSpec>,
    /// The text since the last child.
    pub(super) text: String,
    /// Its length in characters.
    pub(super) len: usize,
    pub(super) marks: Vec<Mark>,
    /// The last character, if the end of a line or of the text drops it.
    pub(super) tail: TrailingCharacter,
    /// Whether the next text begins a line.
    pub(super) broken: bool,
    /// The alignment of the columns of a table.
    pub(super) align: Vec<&'static str>,
}

/// The level of `body`, in which a document is.
const BODY: usize = 2;

impl PartialBlock {
    pub(super) fn new(kind: MarkdownNode, implied: bool) -> Self {
        Self {
            kind,
            implied,
            level: BODY,
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

    pub(super) fn is_empty(&self) -> bool {
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
    pub(super) fn block(&mut self) -> &mut PartialBlock {
        // The document is never closed.
        if self.blocks.is_empty() {
            self.blocks
                .push(PartialBlock::new(MarkdownNode::Document, false));
        }
        let last = self.blocks.len() - 1;
        &mut self.blocks[last]
    }

    /// Opens a block for an element where one fits. Returns the number of blocks around it.
    pub(super) fn open_element(&mut self, kind: MarkdownNode, name: &str) -> Option<usize> {
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

    fn open(&mut self, kind: MarkdownNode, implied: bool) {
        use MarkdownNode as Node;
        self.end_text();
        // With its `code` or `tbody`, and with a break of the line within.
        let (levels, within) = match kind {
            Node::CodeBlock | Node::Table => (2, 0),
            Node::BlockQuote | Node::List => (1, 1),
            _ => (1, 0),
        };
        let level = self.block().level + levels;
        self.blocks.push(PartialBlock {
            level,
            ..PartialBlock::new(kind, implied)
        });
        self.reach(within);
    }

    /// Notes that the HTML of the document has so many levels within this block.
    pub(super) fn reach(&mut self, levels: usize) {
        if self.block().level + levels > DEEPEST {
            self.too_deep.get_or_insert(self.line);
        }
    }

    /// Like [`reach`](Self::reach), for text within the open marks.
    pub(super) fn reach_text(&mut self) {
        use MarkdownMark as Mark;
        const ELEMENTS: [Mark; 5] = [
            Mark::Link,
            Mark::Strong,
            Mark::Emphasis,
            Mark::Strikethrough,
            Mark::Code,
        ];
        // An element that preserves white space, and the text.
        let text = 2;
        if self.block().kind == MarkdownNode::CodeBlock {
            self.reach(1);
        } else if self.block().level + ELEMENTS.len() + text > DEEPEST {
            let is_open = |kind: &Mark| self.marks.iter().any(|mark| mark.kind == *kind);
            let marks = ELEMENTS.iter().filter(|kind| is_open(kind)).count();
            self.reach(marks + text);
        }
    }

    pub(super) fn close(&mut self) {
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

    pub(super) fn set(&mut self, end: &ElementEnd, attribute: MarkdownAttribute, value: Value) {
        if end.block.is_some() {
            self.block().attributes.push((attribute, value));
        }
    }

    /// Opens the blocks that text needs.
    pub(super) fn place_for_text(&mut self) {
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
    pub(super) fn begin_line(&mut self) {
        let block = self.block();
        match block.implied && block.kind == MarkdownNode::Paragraph {
            true => self.close(),
            false => block.broken = true,
        }
    }

    pub(super) fn into_document(mut self) -> (NodeSpec, Vec<Dropped<usize>>) {
        while self.blocks.len() > 1 {
            self.close();
        }
        self.end_text();
        let document = self.blocks.pop();
        let document = document.unwrap_or_else(|| PartialBlock::new(MarkdownNode::Document, false));
        (self.spec(document), self.report.into_entries())
    }
}
