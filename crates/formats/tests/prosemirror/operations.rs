//! Operations, compared with the commands of ProseMirror that have the same purpose.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use doclock::document::{
    Attributes, EditError, Fragment, HeaderPart, Mark, Node, NodeSpec, Position, Selection,
    TableSide, TextSelection,
};
use doclock::transaction::on_node::JoinTarget;
use doclock::transaction::{
    NodeOperation, Operation, OperationError, RunOperations, TextSpan, TransactionError,
    TransactionResult,
};
use doclock::{DataStore, Draft, Editor, NodeId, StoreOptions, View, dsl::*, schema::Schema};
use doclock_formats::prosemirror::{ProseMirrorOptions, from_prosemirror, to_prosemirror};
use serde_json::{Value, json};
use smol_str::SmolStr;

use crate::common::{SESSION, image, seed};
use crate::scripts;
use crate::steps::bare;

/// A command of ProseMirror, the operation with the same purpose, the rate of equal results below
/// which this test fails, in percent, and why the results differ on purpose. A row without a rate
/// is not compared.
struct Row {
    package: &'static str,
    command: &'static str,
    operation: &'static str,
    least: Option<f64>,
    why: &'static str,
}

const fn row(
    package: &'static str,
    command: &'static str,
    operation: &'static str,
    least: f64,
    why: &'static str,
) -> Row {
    Row {
        package,
        command,
        operation,
        least: Some(least),
        why,
    }
}

const fn other(
    package: &'static str,
    command: &'static str,
    operation: &'static str,
    why: &'static str,
) -> Row {
    Row {
        package,
        command,
        operation,
        least: None,
        why,
    }
}

const STATE: &str = "state";
const TRANSFORM: &str = "transform";
const COMMANDS: &str = "commands";
const LIST: &str = "schema-list";
const TABLES: &str = "tables";

const NEWLINE: &str = "a newline of code becomes a hard break where it is joined to text";
const SELECTS: &str = "it only selects";
const COLUMNS: &str = "all columns after a cell that spans rows and columns count";

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row(STATE, "insertText", "`insertText`", 99.5, ""),
    row(STATE, "insertTextOver", "`replaceText` with `endNodeId`", 98.0, NEWLINE),
    row(STATE, "paste", "`paste`", 98.0, NEWLINE),
    row(STATE, "cutAndPaste", "`cut`, `paste`", 97.5, NEWLINE),
    row(STATE, "copyOverItself", "`copy`, `paste`", 99.0, ""),
    row(STATE, "setStoredMarks", "`toggleMark` and `insertText` at a caret", 98.0, ""),
    row(TRANSFORM, "delete", "`deleteRange` with `exact`", 98.5, NEWLINE),
    row(TRANSFORM, "deleteRange", "`deleteRange`", 98.5, NEWLINE),
    row(TRANSFORM, "addMark", "`applyMark`", 99.5, ""),
    row(TRANSFORM, "removeMark", "`removeMark` with `attributes`", 99.5, ""),
    row(TRANSFORM, "removeMarkType", "`removeMark`", 99.5, ""),
    row(TRANSFORM, "clearMarks", "`clearFormatting`", 99.5, ""),
    other(TRANSFORM, "replace", "`paste`", "`paste` replaces the nodes that the range covers, as `replaceRange` does"),
    row(TRANSFORM, "replaceRange", "`paste`", 98.0, NEWLINE),
    row(TRANSFORM, "replaceRangeWith", "`paste`", 98.0, ""),
    row(TRANSFORM, "insert", "`addChild`, `paste` in a text", 98.0, ""),
    row(TRANSFORM, "split", "`splitTextNode`, `splitBlockNode`", 98.0, ""),
    row(TRANSFORM, "join", "`transformNode`, `joinBlock` `text`; `mergeBlockNodes`", 98.0, ""),
    row(TRANSFORM, "Transform.lift", "`liftNode`", 99.5, ""),
    row(TRANSFORM, "Transform.wrap", "`wrapNode`", 99.0, ""),
    row(TRANSFORM, "Transform.setBlockType", "`transformNode` of each block", 99.0, ""),
    other(TRANSFORM, "clearIncompatible", "`transformNode`", "a part of `setBlockType`"),
    row(TRANSFORM, "setNodeMarkup", "`transformNode`", 98.0, ""),
    row(TRANSFORM, "setNodeAttribute", "`setAttrs`", 99.5, ""),
    row(TRANSFORM, "setDocAttribute", "`setAttrs`", 99.5, ""),
    other(TRANSFORM, "addNodeMark, removeNodeMark", "", "only texts have marks; a leaf in a line is a character of a text"),
    row(COMMANDS, "deleteSelection", "`deleteRange`, `delete` with `fit`", 98.5, NEWLINE),
    row(COMMANDS, "splitBlock", "`insertParagraph`", 98.5, NEWLINE),
    row(COMMANDS, "joinBackward", "`joinBlock` `any`", 98.5, ""),
    row(COMMANDS, "joinForward", "`joinBlock` `any`", 98.5, ""),
    row(COMMANDS, "joinTextblockBackward", "`joinBlock` `text`", 96.5, NEWLINE),
    row(COMMANDS, "joinTextblockForward", "`joinBlock` `text`", 96.5, NEWLINE),
    row(COMMANDS, "joinUp", "`joinBlock` `around`, `mergeBlockNodes`", 98.5, ""),
    row(COMMANDS, "joinDown", "`joinBlock` `around`, `mergeBlockNodes`", 98.5, ""),
    row(COMMANDS, "lift", "`liftNode`", 99.5, ""),
    row(COMMANDS, "liftEmptyBlock", "`liftEmptyBlock`", 99.5, ""),
    row(COMMANDS, "wrapIn", "`wrapNode`", 99.0, ""),
    row(COMMANDS, "setBlockType", "`transformNode` of each block", 99.0, ""),
    row(COMMANDS, "exitCode", "`insertParagraph` at the end", 99.0, ""),
    row(COMMANDS, "newlineInCode", "`insertText`", 99.5, ""),
    row(COMMANDS, "createParagraphNear", "`addChild`", 99.5, ""),
    row(COMMANDS, "toggleMark", "`toggleMark`", 99.5, "it never removes a mark where a character may not have it, and adds none to white space"),
    row(COMMANDS, "splitBlockAs", "`insertParagraph` with `type`", 98.0, ""),
    row(COMMANDS, "splitBlockKeepMarks", "`insertParagraph`, `setSelection` with `marks`", 98.0, ""),
    other(COMMANDS, "selectAll, selectParentNode, selectTextblockStart, selectTextblockEnd, selectNodeBackward, selectNodeForward", "`setSelection`, `selectNode`", SELECTS),
    row(COMMANDS, "autoJoin", "`joinNeighbours` after the edit", 98.0, ""),
    other(COMMANDS, "chainCommands", "", "the program tries one operation after another"),
    row(LIST, "wrapInList", "`wrapInList`", 99.0, ""),
    row(LIST, "splitListItem", "`splitListItem`", 98.0, ""),
    row(LIST, "liftListItem", "`outdentNode`", 99.5, ""),
    row(LIST, "sinkListItem", "`indentNode`", 99.0, ""),
    row(LIST, "splitListItemKeepMarks", "`splitListItem`, `setSelection` with `marks`", 98.0, ""),
    row(LIST, "wrapRangeInList", "`wrapInList`", 99.0, ""),
    row(TABLES, "addRowBefore", "`addTableRow` `before`", 97.0, COLUMNS),
    row(TABLES, "addRowAfter", "`addTableRow` `after`", 97.0, COLUMNS),
    row(TABLES, "addColumnBefore", "`addTableColumn` `before`", 99.5, ""),
    row(TABLES, "addColumnAfter", "`addTableColumn` `after`", 99.5, ""),
    row(TABLES, "deleteRow", "`deleteTableRows`", 98.5, COLUMNS),
    row(TABLES, "deleteColumn", "`deleteTableColumns`", 99.5, ""),
    row(TABLES, "deleteTable", "`delete` with `fit`", 99.5, ""),
    row(TABLES, "mergeCells", "`mergeCells`", 99.5, ""),
    row(TABLES, "splitCell", "`splitCell`", 99.5, ""),
    row(TABLES, "splitCellWithType", "`transformNode`, `splitCell`", 99.5, ""),
    row(TABLES, "setCellAttr", "`setAttrs` of each cell", 99.5, ""),
    row(TABLES, "toggleHeaderRow", "`toggleHeader` `rows`", 99.5, ""),
    row(TABLES, "toggleHeaderColumn", "`toggleHeader` `columns`", 99.5, ""),
    row(TABLES, "toggleHeaderCell", "`toggleHeader` `cells`", 99.5, ""),
    row(TABLES, "toggleHeader", "`toggleHeader` `firstRow`, `firstColumn`", 99.5, ""),
    row(TABLES, "deleteCellSelection", "`clearCells`, `deleteRange`", 99.5, ""),
    row(TABLES, "handlePaste", "`copy`, `paste` of cells", 98.0, ""),
    row(TABLES, "moveTableRow", "`moveTableRow`", 97.5, "three or more rows that cells join move to their place"),
    row(TABLES, "moveTableColumn", "`moveTableColumn`", 97.5, "columns in which no cell begins move along"),
    row(TABLES, "fixTables", "`fixTable`", 99.0, "it adds columns beside a cell that overlaps another"),
    other(TABLES, "goToNextCell", "`setSelection`", SELECTS),
];

/// A position in a text, or in a block without text.
#[derive(Clone, Debug, PartialEq)]
struct Place {
    node: NodeId,
    offset: usize,
}

impl Place {
    fn on(&self, operation: NodeOperation) -> Operation {
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
fn locate(view: &impl View, node: &Node, at: usize) -> (usize, Option<Place>) {
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

fn is_text(node: &Node) -> bool {
    node.kind() == "inline-text"
}

fn is_block(node: &Node) -> bool {
    ["paragraph", "heading", "code-block"].contains(&node.kind())
}

/// The block that begins at a position.
fn block_at(view: &impl View, node: &Node, at: usize) -> Option<NodeId> {
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

    fn ends(&self) -> (Place, Place) {
        let ends = [&self.case["anchor"], &self.case["head"]].map(|end| end.as_u64().unwrap());
        let [from, to] = [ends[0].min(ends[1]), ends[0].max(ends[1])];
        let place = |at| place_in(&self.editor, &self.root, at);
        (place(from), place(to))
    }

    /// The selected block, or the block around the selected text.
    fn block(&self) -> NodeId {
        let view = self.editor.store().snapshot();
        match self.case["node"].as_u64() {
            Some(at) => {
                let root = view.node(&self.root).unwrap();
                block_at(&view, root, at as usize).unwrap()
            }
            None => self.block_of(&self.ends().0),
        }
    }

    fn block_of(&self, place: &Place) -> NodeId {
        let view = self.editor.store().snapshot();
        let node = view.node(&place.node).unwrap();
        match is_text(node) {
            true => node.parent().unwrap().clone(),
            false => place.node.clone(),
        }
    }

    fn is_code(&self, place: &Place) -> bool {
        let view = self.editor.store().snapshot();
        view.node(self.block_of(place)).unwrap().kind() == "code-block"
    }

    fn len_of(&self, place: &Place) -> usize {
        let view = self.editor.store().snapshot();
        view.node(&place.node).unwrap().text().len()
    }

    /// The text blocks from one position to another.
    fn blocks(&self, from: &Place, to: &Place) -> Vec<NodeId> {
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
    fn items(&self, from: &Place, to: &Place) -> Option<(NodeId, NodeId)> {
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

    fn mark(&self) -> (SmolStr, Attributes) {
        self.mark_of(&self.case["mark"])
    }

    fn mark_of(&self, mark: &Value) -> (SmolStr, Attributes) {
        let text = json!({"type": "text", "text": "x", "marks": [mark]});
        let (mark, ..) = self.converted(json!({"type": "paragraph", "content": [text]}));
        let Mark {
            kind, attributes, ..
        } = mark.unwrap();
        (kind, attributes)
    }

    fn kind(&self) -> (SmolStr, Attributes) {
        let mut block = json!({"type": self.case["type"]});
        if !self.case["attrs"].is_null() {
            block["attrs"] = self.case["attrs"].clone();
        }
        let (_, kind, attributes) = self.converted(block);
        (kind, attributes)
    }

    /// The first mark, and the type and the attributes, of a block.
    fn converted(&self, block: Value) -> (Option<Mark>, SmolStr, Attributes) {
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
    fn described(&self, node: &Value, in_line: bool) -> Vec<NodeSpec> {
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
    fn text(&self, at: &Place) -> String {
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

    /// The selected cells of the source of a case.
    fn copied_cells(&self, schema: &Schema) -> Option<Fragment> {
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

fn place_in(editor: &Editor, root: &NodeId, at: u64) -> Place {
    let view = editor.store().snapshot();
    let node = view.node(root).unwrap();
    locate(&view, node, at as usize + 1).1.unwrap()
}

/// The cells at two positions, in the order of the document.
fn cells_in(editor: &Editor, root: &NodeId, ends: &Value) -> [NodeId; 2] {
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

fn span(from: &Place, to: &Place) -> TextSpan {
    TextSpan::to(from.offset, to.node.clone(), to.offset)
}

/// The operations with the purpose of the command of a case.
pub(crate) fn operations(opened: &Opened<'_>, schema: &Schema) -> Vec<Operation> {
    let case = opened.case;
    let command = case["command"].as_str().unwrap();
    if command == "autoJoin" {
        let mut operations = of_command(opened, schema, case["inner"].as_str().unwrap());
        operations.push(join_neighbours(["list", "block-quote"]));
        return operations;
    }
    of_command(opened, schema, command)
}

fn of_command(opened: &Opened<'_>, schema: &Schema, command: &str) -> Vec<Operation> {
    let case = opened.case;
    if case["node"].is_u64() {
        return of_node(opened, command);
    }
    if case["cells"].is_array() {
        return of_cells(opened, command, schema);
    }
    let (from, to) = opened.ends();
    let over = span(&from, &to);
    let join = |target, forward| vec![from.on(join_block(target, forward))];
    match command {
        "delete" => vec![from.on(delete_range_exactly(over))],
        "deleteSelection" | "deleteRange" => vec![from.on(delete_range(over))],
        "deleteCellSelection" if case["result"].is_null() => vec![],
        "deleteCellSelection" => vec![from.on(delete_range(over))],
        "newlineInCode" if !opened.is_code(&from) => vec![],
        "insertText" | "newlineInCode" => {
            let text = opened.text(&from);
            vec![from.on(insert_text(from.offset, text))]
        }
        "insertTextOver" => {
            let text = opened.text(&from);
            vec![from.on(type_over(from.offset, to.node.clone(), to.offset, text))]
        }
        "paste" | "replaceRange" => {
            let (source, root) = self::opened(&case["source"], opened.options, schema);
            let ends = [&case["from"], &case["to"]].map(|at| at.as_u64().unwrap());
            let [start, end] = ends.map(|at| place_in(&source, &root, at));
            source
                .execute([start.on(copy_range(span(&start, &end)))])
                .unwrap();
            vec![from.on(paste_over(over, source.clipboard()))]
        }
        "insert" | "replaceRangeWith" => {
            let is_line = case["content"]["type"] == "text" || case["content"]["content"].is_null();
            let nodes = opened.described(&case["content"], command == "insert" && is_line);
            let nodes = nodes.into_iter().collect();
            let fragment = Fragment {
                nodes,
                ..Fragment::default()
            };
            vec![from.on(paste_over(over, fragment))]
        }
        "split" => vec![split(from, case["depth"] == 2)],
        "splitBlockAs" => {
            let as_type = |kind: &str| insert_paragraph_of(from.offset, kind).on(from.node.clone());
            // If the given type does not fit, the default type is the next try.
            vec![first_that_fits([
                as_type(&opened.kind().0),
                as_type("paragraph"),
            ])]
        }
        "splitBlockKeepMarks" | "splitListItemKeepMarks" => {
            let marks = case["marks"].as_array().map(|marks| {
                let marks = marks.iter().map(|mark| opened.mark_of(mark));
                let mark = |(kind, attributes)| Mark {
                    kind,
                    attributes,
                    range: None,
                };
                marks.map(mark).collect::<Vec<_>>()
            });
            let split = match command {
                "splitBlockKeepMarks" => insert_paragraph(from.offset),
                _ => split_list_item(from.offset, "list-item"),
            };
            let caret = Selection::caret(from.node.clone(), from.offset);
            // The marks of the caret before the split are those of the caret after it.
            let typed = op(move |on: &mut Draft| {
                let Some(Selection::Text(TextSelection { focus, .. })) = on.selection().cloned()
                else {
                    return Ok(());
                };
                let caret = Selection::caret(focus.node_id.clone(), focus.offset);
                let caret = match marks.clone() {
                    Some(marks) => caret.with_marks(marks),
                    None => caret,
                };
                on.run([
                    set_selection(caret),
                    insert_text(focus.offset, "x").on(focus.node_id),
                ])
            });
            vec![set_selection(caret), from.on(split), typed]
        }
        "setDocAttribute" => {
            vec![set_attrs([("title", case["title"].clone())]).on(opened.root.clone())]
        }
        "setStoredMarks" => {
            let caret = Selection::caret(from.node.clone(), from.offset);
            let toggled = case["toggled"].as_array().unwrap().iter().map(|mark| {
                let (kind, attributes) = opened.mark_of(mark);
                from.on(toggle_mark_with(kind, attributes, over.clone()))
            });
            let typed = from.on(insert_text(from.offset, opened.text(&from)));
            let toggled: Vec<_> = toggled.collect();
            [vec![set_selection(caret)], toggled, vec![typed]].concat()
        }
        "handlePaste" => vec![from.on(paste_over(over, opened.copied_cells(schema)))],
        "cutAndPaste" => vec![],
        "copyOverItself" if from == to => vec![],
        "copyOverItself" => vec![
            from.on(copy_range(over.clone())),
            from.on(paste_over(over, None)),
        ],
        "splitBlock" => vec![from.on(insert_paragraph_over(over))],
        "exitCode" if opened.is_code(&from) => {
            let len = opened.len_of(&from);
            vec![from.on(insert_paragraph(len))]
        }
        "joinBackward" => join(JoinTarget::Any, false),
        "joinForward" => join(JoinTarget::Any, true),
        "joinTextblockBackward" => join(JoinTarget::Text, false),
        "joinTextblockForward" => join(JoinTarget::Text, true),
        "joinUp" => join(JoinTarget::Around, false),
        "joinDown" => vec![to.on(join_block(JoinTarget::Around, true))],
        "setBlockType" | "Transform.setBlockType" => {
            let (kind, attributes) = opened.kind();
            let blocks = opened.blocks(&from, &to).into_iter();
            // A block that cannot have the type stays as it is.
            let transform = |block| [transform_node(kind.clone(), pairs_of(&attributes)).on(block)];
            blocks
                .map(|block| first_that_fits(transform(block)))
                .collect()
        }
        "wrapIn" => {
            let quote = element("block-quote", []);
            vec![wrap_nodes_up_to(opened.block_of(&to), quote).on(opened.block_of(&from))]
        }
        "wrapInList" | "wrapRangeInList" => {
            let (kind, attributes) = opened.kind();
            let list = element(kind, []).with_attributes(attributes);
            let item = element("list-item", []);
            let wrap = wrap_in_list_up_to(opened.block_of(&to), list, item);
            vec![wrap.on(opened.block_of(&from))]
        }
        "Transform.wrap" => {
            let (kind, attributes) = opened.kind();
            let around = element(kind, []).with_attributes(attributes);
            vec![wrap_nodes_up_to(opened.block_of(&to), around).on(opened.block_of(&from))]
        }
        "lift" | "Transform.lift" => {
            vec![lift_nodes_up_to(opened.block_of(&to)).on(opened.block_of(&from))]
        }
        "liftEmptyBlock" => vec![from.on(lift_empty_block())],
        "toggleMark" => {
            let (kind, attributes) = opened.mark();
            vec![from.on(toggle_mark_with(kind, attributes, over))]
        }
        "addMark" => {
            let (kind, attributes) = opened.mark();
            vec![from.on(apply_mark_with(kind, attributes, over))]
        }
        "removeMark" => {
            let (kind, attributes) = opened.mark();
            vec![from.on(remove_mark_with(kind, attributes, over))]
        }
        "removeMarkType" => vec![from.on(remove_mark(opened.mark().0, over))],
        "clearMarks" => vec![from.on(clear_formatting(over))],
        "fixTables" => {
            let view = opened.editor.store().snapshot();
            let mut blocks = view.children(&opened.root);
            let table = blocks.find(|block| block.kind() == "table").unwrap();
            vec![fix_table().on(table.id())]
        }
        "splitListItem" if opened.block_of(&from) == opened.block_of(&to) => {
            vec![from.on(split_list_item_over(from.offset, to.offset, "list-item"))]
        }
        "liftListItem" | "sinkListItem" => {
            let Some((first, last)) = opened.items(&from, &to) else {
                return vec![];
            };
            vec![match command {
                "liftListItem" => outdent_nodes_up_to(last).on(first),
                _ => indent_nodes_up_to(last).on(first),
            }]
        }
        _ => vec![],
    }
}

fn pairs_of(attributes: &Attributes) -> Vec<(String, Value)> {
    let pairs = attributes.iter();
    pairs
        .map(|(key, value)| (key.to_string(), value.clone()))
        .collect()
}

/// Runs the first of these operations that fits, if one does.
fn first_that_fits<const N: usize>(operations: [Operation; N]) -> Operation {
    op(move |on: &mut Draft| {
        for operation in &operations {
            match on.run([operation.clone()]) {
                Err(TransactionError::Operation {
                    cause: OperationError::Edit(EditError::DoesNotFit { .. }),
                    ..
                }) => {}
                done => return done,
            }
        }
        Ok(())
    })
}

/// Splits the block of a place, and with it the node around the block.
fn split(at: Place, twice: bool) -> Operation {
    op(move |on: &mut Draft| {
        let node = on.node(&at.node).unwrap();
        let (mut block, mut index) = (at.node.clone(), 0);
        if is_text(node) {
            let (place, len) = (on.index_in_parent(&at.node).unwrap(), node.text().len());
            block = node.parent().unwrap().clone();
            index = place + usize::from(at.offset > 0);
            if 0 < at.offset && at.offset < len {
                on.run([split_text_node(at.offset).on(at.node.clone())])?;
            }
        }
        on.run([split_block_node(index).on(block.clone())])?;
        if !twice {
            return Ok(());
        }
        let index = on.index_in_parent(&block).unwrap() + 1;
        let around = on.parent(&block).unwrap().clone();
        on.run([split_block_node(index).on(around)])
    })
}

/// The operation of a command for a selected block.
fn of_node(opened: &Opened<'_>, command: &str) -> Vec<Operation> {
    let block = opened.block();
    match command {
        "deleteSelection" => vec![delete_block().on(block)],
        "insert" => {
            let view = opened.editor.store().snapshot();
            let index = view.index_in_parent(&block).unwrap();
            let [spec] =
                <[_; 1]>::try_from(opened.described(&opened.case["content"], false)).unwrap();
            vec![add_child(spec, Some(index)).on(view.parent(&block).unwrap().clone())]
        }
        "setNodeMarkup" => {
            let view = opened.editor.store().snapshot();
            let (kind, attributes) = opened.kind();
            let before = view.node(&block).unwrap().attributes();
            let gone = before.iter().map(|(key, _)| (key.to_string(), Value::Null));
            let pairs = gone.chain(pairs_of(&attributes));
            vec![transform_node(kind, pairs).on(block)]
        }
        "setNodeAttribute" => {
            vec![set_attrs(pairs_of(&opened.kind().1)).on(block)]
        }
        "join" => {
            let view = opened.editor.store().snapshot();
            let left = view.previous_sibling(&block).unwrap();
            if !is_block(left) || !is_block(view.node(&block).unwrap()) {
                return vec![merge_block_nodes(block.clone()).on(left.id())];
            }
            let text = view.children(&block).next().map_or(&block, Node::id);
            let pairs = pairs_of(left.attributes());
            vec![
                transform_node(left.kind(), pairs).on(block.clone()),
                join_block(JoinTarget::Text, false).on(text),
            ]
        }
        "createParagraphNear" => {
            let view = opened.editor.store().snapshot();
            let index = view.index_in_parent(&block).unwrap();
            let parent = view.parent(&block).unwrap().clone();
            let is_first = index == 0 && view.next_sibling(&block).is_some();
            let index = if is_first { 0 } else { index + 1 };
            vec![add_child(element("paragraph", []), Some(index)).on(parent)]
        }
        "joinUp" | "joinDown" => {
            let view = opened.editor.store().snapshot();
            let sides = match command {
                "joinUp" => (view.previous_sibling(&block), view.node(&block)),
                _ => (view.node(&block), view.next_sibling(&block)),
            };
            let (Some(left), Some(right)) = sides else {
                return vec![];
            };
            let is_leaf = left.kind() == "thematic-break" || is_block(view.node(&block).unwrap());
            match is_leaf {
                true => vec![],
                false => vec![merge_block_nodes(right.id()).on(left.id())],
            }
        }
        _ => vec![],
    }
}

/// The operation of a command for selected cells.
fn of_cells(opened: &Opened<'_>, command: &str, schema: &Schema) -> Vec<Operation> {
    use HeaderPart::{Cells, Columns, FirstColumn, FirstRow, Rows};
    use TableSide::{After, Before};
    let view = opened.editor.store().snapshot();
    let root = view.node(&opened.root).unwrap();
    let cell_at = |end: &Value| block_at(&view, root, end.as_u64().unwrap() as usize).unwrap();
    let ends = opened.case["cells"].as_array().unwrap();
    let (cell, last) = (cell_at(&ends[0]), cell_at(&ends[1]));
    let operation = match command {
        "addRowBefore" => add_table_row(Before),
        "addRowAfter" => add_table_row(After),
        "addColumnBefore" => add_table_column(Before),
        "addColumnAfter" => add_table_column(After),
        "deleteRow" => delete_table_rows_up_to(last),
        "deleteColumn" => delete_table_columns_up_to(last),
        "handlePaste" => {
            let [first, last] = cells_in(&opened.editor, &opened.root, &opened.case["cells"]);
            let paste = paste_over(TextSpan::to(0, last, 0), opened.copied_cells(schema));
            return vec![paste.on(first)];
        }
        "deleteTable" => {
            let table = view.ancestors(&cell).nth(1).unwrap().id().clone();
            return vec![delete_block().on(table)];
        }
        "mergeCells" => merge_cells(last),
        "splitCell" => split_cell(),
        "splitCellWithType" => {
            let attributes = view.node(&cell).unwrap().attributes();
            let is_one = |name| attributes.get(name).is_none_or(|span| *span == json!(1));
            if is_one("colspan") && is_one("rowspan") {
                return vec![];
            }
            let kind = match opened.case["type"] == "cell" {
                true => "table-cell",
                false => "table-header",
            };
            let same: [(&str, Value); 0] = [];
            return vec![
                transform_node(kind, same).on(cell.clone()),
                split_cell().on(cell),
            ];
        }
        "setCellAttr" => set_attrs([("colwidth", opened.case["value"].clone())]),
        "toggleHeaderRow" => toggle_header_up_to(Rows, last),
        "toggleHeaderColumn" => toggle_header_up_to(Columns, last),
        "toggleHeaderCell" => toggle_header_up_to(Cells, last),
        "toggleHeader" if opened.case["part"] == "row" => toggle_header(FirstRow),
        "toggleHeader" => toggle_header(FirstColumn),
        "deleteCellSelection" => clear_cells_up_to(last),
        "moveTableRow" => move_table_row(last),
        "moveTableColumn" => move_table_column(last),
        _ => return vec![],
    };
    vec![operation.on(cell)]
}

/// How often the results of a command are equal.
#[derive(Clone, Copy, Default)]
struct Counts {
    all: usize,
    same: usize,
    refused: usize,
    /// The cases in which the command of ProseMirror has a defect, and which are compared with the
    /// command without it.
    defects: usize,
}

impl Counts {
    fn percent(self, of: usize) -> f64 {
        100.0 * of as f64 / self.all.max(1) as f64
    }
}

/// The counts of each command.
#[derive(Default)]
struct Rates {
    of: BTreeMap<String, Counts>,
    /// The cases of cutting and pasting back that lead back to the document: in ProseMirror, here.
    identities: BTreeMap<String, [usize; 2]>,
}

/// Runs these cases.
fn compared(cases: &str) -> Rates {
    let mut rates = Rates::default();
    let schemas = ["basic", "list", "table", "tiptap"].map(|name| (name, crate::of_schema(name)));
    let shown = std::env::var("DOCLOCK_SHOW").ok();
    for line in cases.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let command = case["command"].as_str().unwrap();
        let (_, (options, schema)) = schemas
            .iter()
            .find(|(name, _)| case["schema"] == *name)
            .unwrap();
        let opened = Opened::new(&case, options, schema);
        let before = image(&opened.editor.store().snapshot());
        let operations = operations(&opened, schema);
        let text = format!("{operations:?}");
        let outcome = match command {
            "cutAndPaste" => cut_and_paste(&opened),
            _ => opened.editor.execute(operations),
        };
        let found = opened.written();
        let expected = match case["result"].is_null() {
            true => &case["doc"],
            false => &case["result"],
        };
        let same = plain(&found) == plain(expected);
        let counts = rates.of.entry(command.to_owned()).or_default();
        counts.all += 1;
        counts.same += usize::from(same);
        counts.defects += usize::from(case["isDefect"] == true);
        counts.refused += usize::from(outcome.is_err() && !case["result"].is_null());
        if ["cutAndPaste", "copyOverItself"].contains(&command) && !case["result"].is_null() {
            let is_back = |json: &Value| usize::from(plain(json) == plain(&case["doc"]));
            let identities = rates.identities.entry(command.to_owned()).or_default();
            identities[0] += is_back(expected);
            identities[1] += is_back(&found);
        }
        if !same && shown.as_deref() == Some(command) {
            println!(
                "--- {} {}..{}",
                case["schema"], case["anchor"], case["head"]
            );
            println!("doc      {}", brief(&case["doc"]));
            println!("expected {}", brief(expected));
            println!("found    {}", brief(&found));
            match outcome.as_ref() {
                Err(error) => println!(
                    "{}",
                    error.to_string().chars().take(300).collect::<String>()
                ),
                Ok(_) => println!("{}", text.chars().take(300).collect::<String>()),
            }
        }
        if outcome.is_ok() && opened.editor.can_undo() {
            while opened.editor.can_undo() {
                opened.editor.undo().commit().unwrap();
            }
            assert_eq!(image(&opened.editor.store().snapshot()), before, "{line}");
        }
    }
    rates
}

/// Cuts what is selected and pastes it where the caret is then.
pub(crate) fn cut_and_paste(opened: &Opened<'_>) -> Result<TransactionResult, TransactionError> {
    let (from, to) = opened.ends();
    if from == to {
        return opened.editor.execute(Vec::<Operation>::new());
    }
    let [start, end] = [&from, &to].map(|it| Position::new(it.node.clone(), it.offset));
    opened.editor.select(Selection::new(start, end)).unwrap();
    opened
        .editor
        .execute([from.on(cut_range(span(&from, &to)))])?;
    // A document may have no text any more.
    let Some(Selection::Text(TextSelection { focus, .. })) = opened.editor.selection() else {
        return opened.editor.execute(Vec::<Operation>::new());
    };
    opened
        .editor
        .execute([paste(focus.offset).on(focus.node_id)])
}

/// A document as ProseMirror reads it: empty content, and the span of a cell or the number at which
/// a list begins if that is 1, are the same as none.
pub(crate) fn plain(json: &Value) -> Value {
    let mut json = bare(json.clone());
    let mut ahead = vec![&mut json];
    while let Some(value) = ahead.pop() {
        match value {
            Value::Array(values) => ahead.extend(values),
            Value::Object(fields) => {
                if let Some(attributes) = fields.get_mut("attrs").and_then(Value::as_object_mut) {
                    attributes.retain(|name, value| {
                        !["order", "start", "colspan", "rowspan"].contains(&name.as_str())
                            || *value != json!(1)
                    });
                }
                fields.retain(|name, value| {
                    !(name == "attrs" && *value == json!({})
                        || name == "content" && *value == json!([]))
                });
                ahead.extend(fields.values_mut());
            }
            _ => {}
        }
    }
    json
}

/// A document in few characters.
fn brief(json: &Value) -> String {
    let mut text = String::new();
    let marks = json["marks"].as_array().into_iter().flatten();
    let marks: Vec<&str> = marks.filter_map(|mark| mark["type"].as_str()).collect();
    match (json["text"].as_str(), json["content"].as_array()) {
        (Some(of), _) => write!(text, "{of:?}").unwrap(),
        (None, content) => {
            let content = content.into_iter().flatten().map(brief);
            let content: Vec<String> = content.collect();
            let attrs = json["attrs"].as_object().into_iter().flatten();
            let attrs = attrs.filter(|(_, value)| !value.is_null());
            let attrs: Vec<String> = attrs.map(|(_, value)| value.to_string()).collect();
            let kind = json["type"].as_str().unwrap_or_default();
            write!(text, "{kind}{}({})", attrs.join("."), content.join(" ")).unwrap();
        }
    }
    if !marks.is_empty() {
        write!(text, "^{}", marks.join("^")).unwrap();
    }
    text
}

fn check_rates(rates: &Rates) {
    let mut low = Vec::new();
    let compared = ROWS.iter().filter_map(|row| Some((row, row.least?)));
    for (row, least) in compared {
        let counts = rates.of.get(row.command).copied().unwrap_or_default();
        let (rate, defects) = (counts.percent(counts.same), counts.defects);
        println!(
            "{:24} {rate:6.1} % of {:5}, {:4} refused, {defects:4} defects",
            row.command, counts.all, counts.refused
        );
        // A few cases say little: one more difference than the rate allows is none.
        let allowed = (counts.all as f64 * (100.0 - least) / 100.0).ceil() as usize + 1;
        if counts.all - counts.same > allowed {
            low.push((row.command, rate, least));
        }
    }
    println!("identities: {:?}", rates.identities);
    assert_eq!(low, [], "these rates are lower than they were");
    // But for newlines of code, cutting and pasting back is an identity where it is one there.
    for (command, [peer, own]) in &rates.identities {
        assert!(
            100 * (own + 1) >= 99 * peer,
            "{command} leads back {own} times, in ProseMirror {peer} times"
        );
    }
    if let Some(page) = std::env::var_os("DOCLOCK_WRITE_TABLE") {
        write_table(Path::new(&page), rates);
    }
}

/// Replaces the table of a page.
fn write_table(page: &Path, rates: &Rates) {
    let mut table =
        "| package | command | operation | equal | why not more |\n|---|---|---|---|---|\n"
            .to_owned();
    for row in ROWS {
        let counts = rates.of.get(row.command).filter(|_| row.least.is_some());
        let rate = counts.map(|counts| format!("{:.1} %", counts.percent(counts.same)));
        let defects = counts.filter(|counts| counts.defects > 0);
        let why = defects.map(|counts| {
            let part = counts.percent(counts.defects);
            format!("a defect in {part:.1} % of the cases: {}", row.why)
        });
        let cells = [
            row.package,
            row.command,
            row.operation,
            &rate.unwrap_or_default(),
            why.as_deref().unwrap_or(row.why),
        ];
        let cells = cells.map(|cell| {
            if cell.is_empty() {
                " ".into()
            } else {
                format!(" {cell} ")
            }
        });
        writeln!(table, "|{}|", cells.join("|")).unwrap();
    }
    let text = std::fs::read_to_string(page).unwrap();
    let (before, rest) = text.split_once("<!-- table -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- end of the table -->\n").unwrap();
    let text = format!("{before}<!-- table -->\n{table}<!-- end of the table -->\n{after}");
    std::fs::write(page, text).unwrap();
}

#[test]
fn recorded_commands_have_the_results_of_prosemirror() {
    check_rates(&compared(include_str!("operations.jsonl")));
}

/// With the packages installed (`npm ci` in `crates/formats/tests/prosemirror`), the cases are new
/// each time.
#[test]
fn random_commands_have_the_results_of_prosemirror() {
    let Some(folder) = scripts() else { return };
    let count = std::env::var("DOCLOCK_COMMANDS").unwrap_or_else(|_| "2000".to_owned());
    let mut arguments = vec!["operations.mjs".to_owned(), seed().to_string(), count];
    arguments.extend(std::env::var("DOCLOCK_SHOW").ok());
    let output = Command::new("node")
        .current_dir(folder)
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    check_rates(&compared(&String::from_utf8(output.stdout).unwrap()));
}
