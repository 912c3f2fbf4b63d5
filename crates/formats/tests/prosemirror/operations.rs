//! Operations, compared with the commands of ProseMirror that have the same purpose.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use doclock::document::{
    Attributes, EditError, Fragment, HeaderPart, Mark, Node, Position, Selection, TableSide,
    TextSelection,
};
use doclock::transaction::on_node::JoinTarget;
use doclock::transaction::{
    Operation, OperationError, RunOperations, TextSpan, TransactionError, TransactionResult,
};
use doclock::{Draft, View, dsl::*, schema::Schema};
use serde_json::{Value, json};

use crate::common::{image, seed};
use crate::opened::{Opened, Place, block_at, cells_in, is_block, is_text, span};
use crate::rows::{NEWLINE, ROWS};
use crate::scripts;
use crate::steps::bare;
use crate::typing::type_text;

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
            vec![from.on(paste_over(over, opened.copied(&case["source"], schema)))]
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
        "handlePaste (no cells)" => {
            let [first, last] = cells_in(&opened.editor, &opened.root, &opened.case["cells"]);
            let content = opened.copied(&opened.case["content"], schema);
            return vec![paste_over(TextSpan::to(0, last, 0), content).on(first)];
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
            "inputRules" | "input rules" | "undoInputRule" => type_text(&opened),
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
        // Three standard deviations more than the rate allows are chance.
        let expected = counts.all as f64 * (100.0 - least) / 100.0;
        let allowed = (expected + 3.0 * expected.sqrt()).ceil() as usize;
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
            let why = if row.why.is_empty() { NEWLINE } else { row.why };
            format!("{part:.1} % of the cases meet a defect of the command: {why}")
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

/// Runs random cases of these commands, or of all of them. With the packages installed (`npm ci` in
/// `crates/formats/tests/prosemirror`), they are new each time.
fn random_cases(least: &str, commands: Option<String>) -> Option<Rates> {
    let folder = scripts()?;
    let count = std::env::var("DOCLOCK_COMMANDS").unwrap_or_else(|_| least.to_owned());
    let mut arguments = vec!["operations.mjs".to_owned(), seed().to_string(), count];
    arguments.extend(commands);
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
    Some(compared(&String::from_utf8(output.stdout).unwrap()))
}

#[test]
fn random_commands_have_the_results_of_prosemirror() {
    let Some(rates) = random_cases("2000", std::env::var("DOCLOCK_SHOW").ok()) else {
        return;
    };
    check_rates(&rates);
    if let Some(page) = std::env::var_os("DOCLOCK_WRITE_TABLE") {
        write_table(Path::new(&page), &rates);
    }
}

/// Rules are compared while text is typed, character by character.
#[test]
fn random_commands_of_input_rules_have_the_results_of_prosemirror_and_tiptap() {
    let commands = "inputRules,input rules,undoInputRule".to_owned();
    if let Some(rates) = random_cases("600", Some(commands)) {
        check_rates(&rates);
    }
}
