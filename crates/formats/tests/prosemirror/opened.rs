//! The documents of cases, and the nodes at the positions of ProseMirror in them.

use std::sync::Arc;

use doclock::document::{Attributes, Fragment, Mark, Node, NodeSpec};
use doclock::transaction::{NodeOperation, Operation, TextSpan};
use doclock::{DataStore, Editor, NodeId, StoreOptions, View, dsl::*, schema::Schema};
use doclock_formats::prosemirror::{ProseMirrorOptions, from_prosemirror, to_prosemirror};
use serde_json::{Value, json};
use smol_str::SmolStr;

use crate::common::SESSION;

/// A position in a text, or in a block without text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) node: NodeId,
    pub(crate) offset: usize,
}

impl Place {
    pub(crate) fn on(&self, operation: NodeOperation) -> Operation {
        operation.on(self.node.clone())
    }
}

/// A document that is open in a store, with the selection of its case.
pub(crate) struct Opened<'a> {
    pub(crate) case: &'a Value,
    pub(crate) options: &'a ProseMirrorOptions,
    pub(crate) editor: Arc<Editor>,
    pub(crate) root: NodeId,
}

/// How many units of ProseMirror a subtree has, and the place at a distance from its beginning.
pub(crate) fn locate(view: &impl View, node: &Node, at: usize) -> (usize, Option<Place>) {
    if is_text(node) {
        let size = node.text().chars().map(char::len_utf16).sum();
        let mut before = 0;
        let offset = node.text().chars().position(|char| {
            before += char.len_utf16();
            before > at
        });
        let place = (at <= size).then(|| Place {
            node: node.id().clone(),
            offset: offset.unwrap_or(node.text().len()),
        });
        return (size, place);
    }
    if node.kind() == "thematic-break" {
        return (1, None);
    }
    let mut size = 1;
    let mut found = None;
    for child in view.children(node.id()) {
        let place = at.checked_sub(size).map(|at| locate(view, child, at));
        let inner = place.unwrap_or_else(|| locate(view, child, usize::MAX));
        found = found.or(inner.1);
        size += inner.0;
    }
    if at == 1 && is_block(node) && node.children().is_empty() {
        found = Some(Place {
            node: node.id().clone(),
            offset: 0,
        });
    }
    (size + 1, found)
}

pub(crate) fn is_text(node: &Node) -> bool {
    node.kind() == "inline-text"
}

pub(crate) fn is_block(node: &Node) -> bool {
    ["paragraph", "heading", "code-block"].contains(&node.kind())
}

/// The block that begins at a position.
pub(crate) fn block_at(view: &impl View, node: &Node, at: usize) -> Option<NodeId> {
    let mut here = 0;
    for child in view.children(node.id()) {
        if here == at {
            return Some(child.id().clone());
        }
        let (size, _) = locate(view, child, usize::MAX);
        if at < here + size {
            return block_at(view, child, at - here - 1);
        }
        here += size;
    }
    None
}

impl<'a> Opened<'a> {
    pub(crate) fn new(case: &'a Value, options: &'a ProseMirrorOptions, schema: &Schema) -> Self {
        let (editor, root) = opened(&case["doc"], options, schema);
        Self {
            case,
            options,
            editor: Arc::new(editor),
            root,
        }
    }

    pub(crate) fn ends(&self) -> (Place, Place) {
        let ends = [&self.case["anchor"], &self.case["head"]].map(|end| end.as_u64().unwrap());
        let [from, to] = [ends[0].min(ends[1]), ends[0].max(ends[1])];
        let place = |at| place_in(&self.editor, &self.root, at);
        (place(from), place(to))
    }

    /// The selected block, or the block around the selected text.
    pub(crate) fn block(&self) -> NodeId {
        let view = self.editor.store().snapshot();
        match self.case["node"].as_u64() {
            Some(at) => {
                let root = view.node(&self.root).unwrap();
                block_at(&view, root, at as usize).unwrap()
            }
            None => self.block_of(&self.ends().0),
        }
    }

    pub(crate) fn block_of(&self, place: &Place) -> NodeId {
        let view = self.editor.store().snapshot();
        let node = view.node(&place.node).unwrap();
        match is_text(node) {
            true => node.parent().unwrap().clone(),
            false => place.node.clone(),
        }
    }

    pub(crate) fn is_code(&self, place: &Place) -> bool {
        let view = self.editor.store().snapshot();
        view.node(self.block_of(place)).unwrap().kind() == "code-block"
    }

    pub(crate) fn len_of(&self, place: &Place) -> usize {
        let view = self.editor.store().snapshot();
        view.node(&place.node).unwrap().text().len()
    }

    /// The text blocks from one position to another.
    pub(crate) fn blocks(&self, from: &Place, to: &Place) -> Vec<NodeId> {
        let view = self.editor.store().snapshot();
        let (first, last) = (self.block_of(from), self.block_of(to));
        let all = view.descendants(&self.root);
        let blocks = all
            .filter(|node| is_block(node))
            .map(|node| node.id().clone());
        let mut found: Vec<NodeId> = Vec::new();
        for block in blocks.skip_while(|block| *block != first) {
            let ends = block == last;
            found.push(block);
            if ends {
                break;
            }
        }
        found
    }

    /// The items around two positions, in the innermost list around both.
    pub(crate) fn items(&self, from: &Place, to: &Place) -> Option<(NodeId, NodeId)> {
        let view = self.editor.store().snapshot();
        let way = |place: &Place| -> Vec<NodeId> {
            let mut way = vec![place.node.clone()];
            way.extend(view.ancestors(&place.node).map(|node| node.id().clone()));
            way
        };
        let (from, to) = (way(from), way(to));
        let child_of = |way: &[NodeId], list: &NodeId| {
            let at = way.iter().position(|id| id == list)?;
            way.get(at.checked_sub(1)?).cloned()
        };
        let lists = from
            .iter()
            .filter(|id| view.node(*id).unwrap().kind() == "list");
        let mut lists = lists.filter(|id| to.contains(id));
        let list = lists.next()?;
        Some((child_of(&from, list)?, child_of(&to, list)?))
    }

    pub(crate) fn mark(&self) -> (SmolStr, Attributes) {
        self.mark_of(&self.case["mark"])
    }

    pub(crate) fn mark_of(&self, mark: &Value) -> (SmolStr, Attributes) {
        let text = json!({"type": "text", "text": "x", "marks": [mark]});
        let (mark, ..) = self.converted(json!({"type": "paragraph", "content": [text]}));
        let Mark {
            kind, attributes, ..
        } = mark.unwrap();
        (kind, attributes)
    }

    pub(crate) fn kind(&self) -> (SmolStr, Attributes) {
        let mut block = json!({"type": self.case["type"]});
        if !self.case["attrs"].is_null() {
            block["attrs"] = self.case["attrs"].clone();
        }
        let (_, kind, attributes) = self.converted(block);
        (kind, attributes)
    }

    /// The first mark, and the type and the attributes, of a block.
    pub(crate) fn converted(&self, block: Value) -> (Option<Mark>, SmolStr, Attributes) {
        let doc = json!({"type": "doc", "content": [block]}).to_string();
        let options =
            ProseMirrorOptions::new(crate::names_of(self.case["schema"].as_str().unwrap()));
        let (spec, _) = from_prosemirror(&doc, &options).unwrap();
        let mut draft = DataStore::new().begin("test").unwrap();
        let top = draft.create(spec).unwrap();
        let block = draft.children(&top).next().unwrap();
        let marks = draft.children(block.id()).next();
        let mark = marks.and_then(|text| text.marks().iter().next().cloned());
        (mark, block.kind().into(), block.attributes().clone())
    }

    /// A block, or a part of a line of text, as it is in the document.
    pub(crate) fn described(&self, node: &Value, in_line: bool) -> Vec<NodeSpec> {
        let block = match in_line {
            true => &json!({"type": "paragraph", "content": [node]}),
            false => node,
        };
        let doc = json!({"type": "doc", "content": [block]}).to_string();
        let (spec, _) = from_prosemirror(&doc, self.options).unwrap();
        let blocks = spec.into_children();
        match in_line {
            true => blocks
                .into_iter()
                .flat_map(NodeSpec::into_children)
                .collect(),
            false => blocks,
        }
    }

    /// A text as it is in the document, where it is not in code.
    pub(crate) fn text(&self, at: &Place) -> String {
        let view = self.editor.store().snapshot();
        let block = view.node(self.block_of(at)).unwrap().kind() == "code-block";
        let text = self.case["text"].as_str().unwrap_or("\n");
        let newlines = ['\n', '\u{2028}', '\u{2029}', '\u{85}', '\u{fdd0}'];
        let chars = text
            .chars()
            .map(|char| match newlines.iter().position(|&it| it == char) {
                Some(nth) if !block => newlines[nth + 1],
                _ => char,
            });
        chars.collect()
    }

    /// The selected part of another document of a case.
    pub(crate) fn copied(&self, doc: &Value, schema: &Schema) -> Option<Fragment> {
        let (source, root) = opened(doc, self.options, schema);
        let ends = [&self.case["from"], &self.case["to"]].map(|at| at.as_u64().unwrap());
        let [start, end] = ends.map(|at| place_in(&source, &root, at));
        let copy = copy_range(span(&start, &end));
        source.execute([start.on(copy)]).unwrap();
        source.clipboard()
    }

    /// The selected cells of the source of a case.
    pub(crate) fn copied_cells(&self, schema: &Schema) -> Option<Fragment> {
        let (source, root) = opened(&self.case["source"], self.options, schema);
        let [first, last] = cells_in(&source, &root, &self.case["from"]);
        source
            .execute([copy_range(TextSpan::to(0, last, 0)).on(first)])
            .unwrap();
        source.clipboard()
    }

    pub(crate) fn written(&self) -> Value {
        let view = self.editor.store().snapshot();
        let (json, _) = to_prosemirror(&view, &self.root, self.options).unwrap();
        serde_json::from_str(&json).unwrap()
    }
}

pub(crate) fn place_in(editor: &Editor, root: &NodeId, at: u64) -> Place {
    let view = editor.store().snapshot();
    let node = view.node(root).unwrap();
    locate(&view, node, at as usize + 1).1.unwrap()
}

/// The cells at two positions, in the order of the document.
pub(crate) fn cells_in(editor: &Editor, root: &NodeId, ends: &Value) -> [NodeId; 2] {
    let view = editor.store().snapshot();
    let mut ends = [0, 1].map(|nth| ends[nth].as_u64().unwrap() as usize);
    ends.sort_unstable();
    ends.map(|at| block_at(&view, view.node(root).unwrap(), at).unwrap())
}

pub(crate) fn opened(
    doc: &Value,
    options: &ProseMirrorOptions,
    schema: &Schema,
) -> (Editor, NodeId) {
    let (document, dropped) = from_prosemirror(&doc.to_string(), options).unwrap();
    assert_eq!(dropped, [], "{doc}");
    let store = StoreOptions::new().session(SESSION).schema(schema.clone());
    let store = DataStore::with_options(store);
    let mut transaction = store.begin("test").unwrap();
    let root = transaction.create(document).unwrap();
    transaction.set_root(&root).unwrap();
    transaction.commit().unwrap();
    (Editor::new(store, "test"), root)
}

pub(crate) fn span(from: &Place, to: &Place) -> TextSpan {
    TextSpan::to(from.offset, to.node.clone(), to.offset)
}
