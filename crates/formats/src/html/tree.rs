//! The elements and texts of a page.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::tokenizer::TokenizerOpts;
use html5ever::tree_builder::TreeBuilderOpts;
use html5ever::{Attribute, ExpandedName, ParseOpts, QualName, parse_document};

use super::HtmlError;
use crate::DEEPEST;
use crate::steps::steps;

/// After so many bytes, the limits are checked.
const CHUNK: usize = 1 << 10;

/// The nodes, in no order, the document first. Children are numbers of nodes.
#[derive(Default)]
pub(super) struct HtmlTree(pub(super) Vec<HtmlNode>);

#[derive(Default)]
pub(super) struct HtmlNode {
    parent: Option<usize>,
    depth: usize,
    pub(super) line: usize,
    pub(super) children: Vec<usize>,
    pub(super) data: Data,
}

#[derive(Default)]
pub(super) enum Data {
    /// The document, or a comment.
    #[default]
    None,
    Text(StrTendril),
    Element(Rc<QualName>, Vec<Attribute>),
}

/// Parses a text in small parts, so that the work ends soon after a limit is exceeded.
pub(super) fn parsed(html: &str) -> Result<HtmlTree, HtmlError> {
    let options = ParseOpts {
        tree_builder: TreeBuilderOpts {
            scripting_enabled: false,
            ..TreeBuilderOpts::default()
        },
        // It would drop one at the beginning of each part.
        tokenizer: TokenizerOpts {
            discard_bom: false,
            ..TokenizerOpts::default()
        },
    };
    let mut parser = parse_document(Sink::default(), options);
    let (mut rest, mut read) = (html.strip_prefix('\u{feff}').unwrap_or(html), 0);
    // The work of the parser is not counted.
    steps(html.len());
    while !rest.is_empty() {
        let (part, others) = rest.split_at(rest.ceil_char_boundary(CHUNK.min(rest.len())));
        parser.process(part.into());
        (rest, read) = (others, read + part.len());
        parser.tokenizer.sink.sink.check(read)?;
    }
    let sink = parser.finish();
    sink.check(read)?;
    Ok(HtmlTree(sink.nodes.into_inner()))
}

/// Receives the tree from the parser.
struct Sink {
    nodes: RefCell<Vec<HtmlNode>>,
    line: Cell<usize>,
    deepest: Cell<usize>,
}

impl Default for Sink {
    fn default() -> Self {
        Self {
            nodes: vec![HtmlNode::default()].into(),
            line: 1.into(),
            deepest: 0.into(),
        }
    }
}

impl Sink {
    fn check(&self, read: usize) -> Result<(), HtmlError> {
        let line = self.line.get();
        if self.deepest.get() > DEEPEST {
            let limit = DEEPEST;
            return Err(HtmlError::TooDeep { line, limit });
        }
        // A few are implied; each other one begins with a character of its own.
        match self.nodes.borrow().len() > 16 + 4 * read {
            true => Err(HtmlError::TooLarge { line }),
            false => Ok(()),
        }
    }

    fn add(&self, data: Data) -> usize {
        let mut nodes = self.nodes.borrow_mut();
        nodes.push(HtmlNode {
            line: self.line.get(),
            data,
            ..HtmlNode::default()
        });
        nodes.len() - 1
    }

    fn element(&self, data: Data, name: Rc<QualName>) -> TreeHandle {
        let nth = self.add(data);
        TreeHandle { nth, name }
    }

    /// Inserts a child into a node, before the child with this index.
    fn insert(&self, parent: usize, index: usize, child: NodeOrText<TreeHandle>) {
        let child = match child {
            NodeOrText::AppendNode(child) => {
                self.detach(child.nth);
                child.nth
            }
            NodeOrText::AppendText(text) => {
                let mut nodes = self.nodes.borrow_mut();
                let before = index
                    .checked_sub(1)
                    .and_then(|index| nodes[parent].children.get(index));
                if let Some(&before) = before
                    && let Data::Text(others) = &mut nodes[before].data
                {
                    return others.push_tendril(&text);
                }
                drop(nodes);
                self.add(Data::Text(text))
            }
        };
        let mut nodes = self.nodes.borrow_mut();
        let depth = nodes[parent].depth + 1;
        let siblings = &mut nodes[parent].children;
        siblings.insert(index.min(siblings.len()), child);
        (nodes[child].parent, nodes[child].depth) = (Some(parent), depth);
        self.deepest.set(self.deepest.get().max(depth));
    }

    fn detach(&self, child: usize) {
        let mut nodes = self.nodes.borrow_mut();
        if let Some(parent) = nodes[child].parent.take() {
            let siblings = &mut nodes[parent].children;
            // The last one, mostly.
            if let Some(index) = siblings.iter().rposition(|other| *other == child) {
                siblings.remove(index);
            }
        }
    }

    fn len(&self, parent: usize) -> usize {
        self.nodes.borrow()[parent].children.len()
    }
}

#[derive(Clone)]
struct TreeHandle {
    nth: usize,
    name: Rc<QualName>,
}

fn no_name() -> Rc<QualName> {
    Rc::new(QualName::new(None, "".into(), "".into()))
}

impl TreeSink for Sink {
    type Handle = TreeHandle;
    type Output = Self;
    type ElemName<'a> = ExpandedName<'a>;

    fn finish(self) -> Self {
        self
    }

    fn parse_error(&self, _message: Cow<'static, str>) {}

    fn get_document(&self) -> TreeHandle {
        TreeHandle {
            nth: 0,
            name: no_name(),
        }
    }

    fn elem_name<'a>(&'a self, target: &'a TreeHandle) -> ExpandedName<'a> {
        target.name.expanded()
    }

    fn create_element(
        &self,
        name: QualName,
        attributes: Vec<Attribute>,
        _: ElementFlags,
    ) -> TreeHandle {
        let name = Rc::new(name);
        self.element(Data::Element(name.clone(), attributes), name)
    }

    fn create_comment(&self, _text: StrTendril) -> TreeHandle {
        self.element(Data::None, no_name())
    }

    fn create_pi(&self, _target: StrTendril, _data: StrTendril) -> TreeHandle {
        self.element(Data::None, no_name())
    }

    fn append(&self, parent: &TreeHandle, child: NodeOrText<TreeHandle>) {
        self.insert(parent.nth, self.len(parent.nth), child);
    }

    fn append_based_on_parent_node(
        &self,
        element: &TreeHandle,
        previous: &TreeHandle,
        child: NodeOrText<TreeHandle>,
    ) {
        let has_parent = self.nodes.borrow()[element.nth].parent.is_some();
        match has_parent {
            true => self.append_before_sibling(element, child),
            false => self.append(previous, child),
        }
    }

    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}

    // Its content is dropped with it.
    fn get_template_contents(&self, target: &TreeHandle) -> TreeHandle {
        target.clone()
    }

    fn same_node(&self, one: &TreeHandle, other: &TreeHandle) -> bool {
        one.nth == other.nth
    }

    fn set_quirks_mode(&self, _mode: QuirksMode) {}

    fn append_before_sibling(&self, sibling: &TreeHandle, child: NodeOrText<TreeHandle>) {
        if let NodeOrText::AppendNode(child) = &child {
            self.detach(child.nth);
        }
        let parent = self.nodes.borrow()[sibling.nth].parent;
        if let Some(parent) = parent {
            let index = {
                let siblings = &self.nodes.borrow()[parent].children;
                siblings.iter().rposition(|other| *other == sibling.nth)
            };
            self.insert(parent, index.unwrap_or(0), child);
        }
    }

    fn add_attrs_if_missing(&self, target: &TreeHandle, attributes: Vec<Attribute>) {
        if let Data::Element(_, known) = &mut self.nodes.borrow_mut()[target.nth].data {
            for attribute in attributes {
                if !known.iter().any(|other| other.name == attribute.name) {
                    known.push(attribute);
                }
            }
        }
    }

    fn remove_from_parent(&self, target: &TreeHandle) {
        self.detach(target.nth);
    }

    fn reparent_children(&self, node: &TreeHandle, parent: &TreeHandle) {
        let children = std::mem::take(&mut self.nodes.borrow_mut()[node.nth].children);
        for child in children {
            self.nodes.borrow_mut()[child].parent = None;
            let child = TreeHandle {
                nth: child,
                name: no_name(),
            };
            self.append(parent, NodeOrText::AppendNode(child));
        }
    }

    fn set_current_line(&self, line: u64) {
        self.line.set(usize::try_from(line).unwrap_or(usize::MAX));
    }
}
