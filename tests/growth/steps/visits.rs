//! Each operation, on documents that are large in one way each: what it visits, it counts as steps.
//!
//! The measure is what the code of documents visits ([`crate::steps`]): nodes that are looked up,
//! siblings, bytes of text, marks and values of attributes that are copied, compared or hashed. It
//! is the same in every run and on every machine, unlike time, and a script with the same count of
//! steps is accepted on all of them. `examples/hostile_scripts.rs` measures the time of a step.

use serde_json::{Value, json};
use strum::VariantArray;

use super::fuzz::generator::Kind;
use crate::dsl::*;
use crate::steps::counted;
use crate::{
    DataStore, Draft, NodeId, StoreOptions, Transaction, View,
    document::{
        Attributes, Fragment, HeaderPart, Limit, Limits, Mark, NodeSpec, Position, Selection,
        TableSide,
    },
    schema::{NodeType, Schema, TableRole},
    transaction::{
        InputEffect, InputRule, InputTarget, NodeOperation, Operation, TextSpan,
        on_node::JoinTarget,
    },
};

/// The size of a document in the way in which it is large.
const SIZE: usize = 600;

/// The most visits for a counted step: an id that is compared is one, and eight of them are a step.
const VISITS: usize = 16;

/// Steps that an operation may take in any document.
const FLOOR: usize = 30;

/// A document, and the nodes that are edited.
struct Large {
    way: &'static str,
    document: NodeSpec,
    nodes: &'static [&'static str],
}

fn text(id: &str) -> NodeSpec {
    text_node("text", "abc").with_id(id)
}

/// A block of these nodes between two short ones.
fn page(block: NodeSpec) -> NodeSpec {
    let short = |id: &str, inner: &str| element("block", [text(inner)]).with_id(id);
    element("page", [short("before", "f"), block, short("after", "k")]).with_id("page")
}

/// An attribute with a value of this size.
fn value(size: usize) -> Value {
    json!((0..size / 2).map(|nth| json!([nth])).collect::<Vec<_>>())
}

fn with_value(node: NodeSpec, size: usize) -> NodeSpec {
    node.with_attributes([("large", value(size))])
}

/// As many marks, one after the other.
fn marks(count: usize) -> Vec<Mark> {
    (0..count)
        .map(|nth| Mark::new("bold", 4 * nth..4 * nth + 2))
        .collect()
}

fn documents() -> Vec<Large> {
    let numbered = |nth: usize| match nth {
        0 => text("first"),
        nth if nth + 1 == SIZE => text("last"),
        nth => text(&format!("n{nth}")),
    };
    let blocks = (0..SIZE).map(|nth| match nth {
        0 => element("block", [text("first")]).with_id("one"),
        nth if nth + 1 == SIZE => element("block", [text("last")]).with_id("other"),
        nth => element("block", [text(&format!("n{nth}"))]),
    });
    let deep = (0..SIZE).fold(text("first"), |below, _| element("block", [below]));
    let long = "abc\n".repeat(SIZE / 4) + &"abc ".repeat(SIZE);
    let one = |first: NodeSpec| element("block", [first, text("last")]).with_id("large");
    let same = text_node("text", "abc").with_marks(vec![
        Mark::whole("bold").with_attributes([("large", value(SIZE))]),
    ]);
    vec![
        Large {
            way: "children",
            document: page(element("block", (0..SIZE).map(numbered)).with_id("large")),
            nodes: &["f", "k", "large", "first", "last", "n300"],
        },
        Large {
            way: "blocks",
            document: element("page", blocks).with_id("page"),
            nodes: &["page", "one", "other", "first", "last", "n300"],
        },
        Large {
            way: "depth",
            document: page(deep.with_id("large")),
            nodes: &["f", "k", "large", "first"],
        },
        Large {
            way: "text",
            document: page(one(text_node("text", long.clone()).with_id("first"))),
            nodes: &["f", "k", "large", "first", "last"],
        },
        Large {
            way: "marks",
            document: page(one(text_node("text", long)
                .with_marks(marks(SIZE))
                .with_id("first"))),
            nodes: &["f", "k", "large", "first", "last"],
        },
        Large {
            way: "attributes",
            document: page(one(
                text("first").with_attributes(Attributes::from_iter(super::attributes(SIZE)))
            )),
            nodes: &["f", "k", "large", "first", "last"],
        },
        Large {
            way: "value",
            document: page(
                one(with_value(text("first"), SIZE))
                    .with_attributes([("large", value(SIZE)), ("small", json!(1))]),
            ),
            nodes: &["f", "k", "large", "first", "last"],
        },
        Large {
            way: "value of a mark",
            document: page(one(same.with_id("first"))),
            nodes: &["f", "k", "large", "first", "last"],
        },
        Large {
            way: "values of many nodes",
            document: page(
                element(
                    "block",
                    (0..20).map(|nth| {
                        let id = match nth {
                            0 => "first".to_owned(),
                            19 => "last".to_owned(),
                            nth => format!("n{nth}"),
                        };
                        with_value(text(&id), SIZE / 10)
                    }),
                )
                .with_id("large"),
            ),
            nodes: &["f", "k", "large", "first", "last"],
        },
    ]
}

/// Operations of a kind on one node, some of them up to another.
fn operations(on: &Draft, kind: Kind, id: &str, other: &str) -> Vec<Operation> {
    let node = on.node(id).unwrap();
    let len = node.text().len();
    let children: Vec<NodeId> = node.children().iter().cloned().collect();
    let first = children.first().cloned().unwrap_or_else(|| other.into());
    let next = || match on.next_sibling(id) {
        Some(next) => next.id().clone(),
        None => other.into(),
    };
    let extents = || {
        let end = on.node(other).unwrap().text().len();
        [
            TextSpan::from(0..1.min(len)),
            TextSpan::from(0..len),
            TextSpan::to(len, other, 0),
            TextSpan::to(0, other, end),
        ]
    };
    let over = |operation: &dyn Fn(TextSpan) -> NodeOperation| extents().map(operation).to_vec();
    let own_place = || node.parent().cloned().zip(on.index_in_parent(id));
    let attributes = || {
        let all = node.attributes().iter();
        all.map(|(key, value)| (key.to_string(), value.clone()))
    };
    let new = || NodeSpec::new("text");
    let operations = match kind {
        Kind::Create => return vec![create(element("block", vec![new(); SIZE]))],
        Kind::Control => return vec![control(id, vec![insert_text(0, "x"); 3])],
        Kind::SetSelection => {
            let selection = Selection::new(Position::new(id, 0), Position::new(other, 0));
            return vec![set_selection(selection)];
        }
        Kind::ClearSelection => return vec![clear_selection()],
        // Without changes there is nothing to join; `what_joining_neighbours_visits` has some.
        Kind::JoinNeighbours => return vec![join_neighbours(["text"])],
        Kind::ApplyInputRules => {
            let target = || InputTarget::new("heading");
            let effects = [
                InputEffect::Replace("x".into()),
                InputEffect::SetType(target()),
                InputEffect::Wrap(target()),
                InputEffect::Insert(target()),
                InputEffect::Mark(target()),
            ];
            let at = || Position::new(id, len);
            let rules = effects.map(|effect| InputRule::new("((.))$", effect));
            return rules.map(|rule| apply_input_rules_at(at(), [rule])).into();
        }
        Kind::IfUnchanged => return vec![if_unchanged(on.base().version())],
        Kind::RequireLease => return vec![require_lease(1)],
        // What code does is not counted.
        Kind::Op => vec![],
        Kind::Delete => vec![delete_node()],
        Kind::AddChild => {
            let existing = [None, Some(0)].map(|index| add_child(other, index));
            let created = [None, Some(0), Some(children.len() / 2)];
            let created = created.map(|index| add_child(new(), index));
            let same = children.last().map(|last| add_child(last.clone(), None));
            existing.into_iter().chain(created).chain(same).collect()
        }
        Kind::RemoveChild => vec![remove_child(first)],
        Kind::RemoveChildren => vec![remove_children([first]), remove_children(children)],
        Kind::MoveNode => {
            let same = own_place().map(|(parent, index)| move_node(parent, Some(index)));
            let moved = [move_node(other, None), move_node("page", 0)];
            moved.into_iter().chain(same).collect()
        }
        Kind::MoveChildren => vec![
            move_children([first.clone()], other, None),
            move_children([first], id, None),
            move_children(children, other, None),
        ],
        Kind::MoveBlockUp => vec![move_block_up()],
        Kind::MoveBlockDown => vec![move_block_down()],
        Kind::ReorderChildren => {
            let backwards: Vec<NodeId> = children.iter().rev().cloned().collect();
            vec![reorder_children(children), reorder_children(backwards)]
        }
        Kind::CopyNode => vec![copy_node(), copy_node_to(other, None)],
        Kind::CloneNodeWithChildren => vec![clone_node_with_children()],
        Kind::WrapNode => vec![wrap_node(NodeSpec::new("block"))],
        Kind::LiftNode => vec![lift_node()],
        Kind::IndentNode => vec![indent_node(), indent_node_in(NodeSpec::new("list"))],
        Kind::OutdentNode => vec![outdent_node()],
        Kind::SetText => vec![set_text("x"), set_text(node.text().to_string())],
        Kind::InsertText => vec![insert_text(0, "x"), insert_text(len, "x")],
        Kind::DeleteTextRange => vec![delete_text_range(0, 1), delete_text_range(0, len)],
        Kind::DeleteRange => over(&delete_range),
        Kind::ReplaceText => vec![replace_text(0, 1, "a"), replace_text(0, len, "x")],
        Kind::ReplacePattern => vec![replace_pattern("z", ""), replace_pattern("b", "x")],
        Kind::Wrap => vec![wrap_text("(", ")", 0..len)],
        Kind::Unwrap => vec![unwrap_text("a", "", 0..len), unwrap_text("b", "", 0..len)],
        Kind::IndentText => vec![indent_text(" ", ..)],
        Kind::OutdentText => vec![outdent_text("z", ..), outdent_text("a", ..)],
        Kind::SplitTextNode => vec![split_text_node(1), split_text_node(len)],
        Kind::MergeTextNodes => vec![merge_text_nodes(next())],
        Kind::SplitBlockNode => vec![split_block_node(1), split_block_node(children.len())],
        Kind::MergeBlockNodes => vec![merge_block_nodes(next())],
        Kind::AutoMergeTextNodes => vec![auto_merge_text_nodes()],
        Kind::InsertParagraph => vec![insert_paragraph(1)],
        Kind::JoinBlock => [JoinTarget::Any, JoinTarget::Around]
            .map(|target| join_block(target, target == JoinTarget::Any))
            .to_vec(),
        Kind::LiftEmptyBlock => vec![lift_empty_block()],
        Kind::SplitListItem => vec![split_list_item(1, "block"), split_list_item(1, "page")],
        Kind::WrapInList => vec![
            wrap_in_list(NodeSpec::new("list"), NodeSpec::new("item")),
            wrap_in_list_up_to(other, NodeSpec::new("list"), NodeSpec::new("item")),
        ],
        Kind::ApplyMark => over(&|extent| apply_mark("bold", extent)),
        Kind::RemoveMark => over(&|extent| remove_mark("bold", extent)),
        Kind::ToggleMark => over(&|extent| toggle_mark("bold", extent)),
        Kind::UpdateMark => over(&|extent| update_mark("bold", [("a", json!(1))], extent)),
        Kind::SetMarks => vec![set_marks(node.marks().iter().cloned()), set_marks([])],
        Kind::ClearFormatting => over(&clear_formatting),
        Kind::SetAttrs => vec![set_attrs(attributes()), set_attrs([("small", json!(2))])],
        Kind::RemoveAttrs => vec![
            remove_attrs(["small"]),
            remove_attrs(["large"]),
            remove_attrs(attributes().map(|(key, _)| key)),
        ],
        Kind::Update => vec![
            update_node([("small", json!(3))], None, None),
            update_node(attributes(), Some("x".into()), Some(vec![])),
        ],
        Kind::TransformNode => vec![transform_node("x", [("small", json!(3))])],
        Kind::SetRoot => vec![set_root()],
        Kind::AddTableRow => vec![add_table_row(TableSide::After)],
        Kind::AddTableColumn => vec![add_table_column(TableSide::Before)],
        Kind::DeleteTableRows => vec![delete_table_rows(), delete_table_rows_up_to(other)],
        Kind::DeleteTableColumns => vec![delete_table_columns_up_to(other)],
        Kind::MergeCells => vec![merge_cells(other)],
        Kind::SplitCell => vec![split_cell()],
        Kind::ToggleHeader => [HeaderPart::Cells, HeaderPart::Rows, HeaderPart::FirstColumn]
            .map(|part| toggle_header_up_to(part, other))
            .to_vec(),
        Kind::ClearCells => vec![clear_cells(), clear_cells_up_to(other)],
        Kind::MoveTableRow => vec![move_table_row(other)],
        Kind::MoveTableColumn => vec![move_table_column(other)],
        Kind::FixTable => vec![fix_table()],
        Kind::Copy => over(&copy_range),
        Kind::Cut => over(&cut_range),
        Kind::Paste => {
            let pasted = |extent: TextSpan| control(id, [copy_range(extent), paste(0)]);
            return extents().map(pasted).to_vec();
        }
        Kind::SelectNode => vec![select_node()],
        Kind::SelectRange => over(&select_range),
    };
    operations
        .into_iter()
        .map(|operation| operation.on(id))
        .collect()
}

pub(super) fn limited(store: &DataStore) -> Transaction {
    let all = Limit::ALL.into_iter();
    let unlimited = all.fold(Limits::new(), |limits, limit| {
        limits.with(limit, usize::MAX)
    });
    let mut on = store.begin("client").unwrap();
    on.set_limits(unlimited);
    on
}

#[test]
fn transaction_04_what_an_operation_visits_counts_as_steps() {
    let mut uncounted = Vec::new();
    let mut largest = 0;
    for Large {
        way,
        document,
        nodes,
    } in documents()
    {
        let store = DataStore::new();
        let mut on = store.begin("setup").unwrap();
        on.create(document).unwrap();
        on.commit().unwrap();
        let mut check = |operation: Operation| {
            let mut on = limited(&store);
            let (outcome, visits) = counted(|| on.run([operation.clone()]));
            let steps = on.steps_taken();
            let percent = 100 * visits / (VISITS * (FLOOR + steps));
            largest = largest.max(percent);
            if percent > 100 {
                let done = outcome.is_ok();
                let name: String = format!("{operation:?}").chars().take(160).collect();
                uncounted.push(format!(
                    "{way}: {visits} visits, {steps} steps, done {done}: {name}"
                ));
            }
        };
        for kind in Kind::VARIANTS {
            for (nth, id) in nodes.iter().enumerate() {
                if nth > 0 && !kind.is_on_a_node() {
                    break;
                }
                let count = nodes.len();
                for other in [1, count - 1].map(|from| nodes[(nth + from) % count]) {
                    let on = store.begin("client").unwrap();
                    let operations = operations(&on, *kind, id, other);
                    drop(on);
                    operations.into_iter().for_each(&mut check);
                }
            }
        }
    }
    println!("at most {largest} % of the visits that are allowed");
    let (count, list) = (uncounted.len(), uncounted.join("\n"));
    assert!(
        uncounted.is_empty(),
        "{count} visit what they do not count:\n{list}"
    );
}

/// A store with a table of as many rows and columns, whose first cell spans all but the last ones.
fn store_with_table(rows: usize, columns: usize, spanned: bool) -> DataStore {
    let of = |content: &str, role| NodeType::new().content(content).table_role(role);
    let cell = |role| of("text*", role).unknown_attributes(true);
    let schema = Schema::builder()
        .node("table", of("row*", TableRole::Table))
        .node("row", of("(cell | head)*", TableRole::Row))
        .node("cell", cell(TableRole::Cell))
        .node("head", cell(TableRole::HeaderCell))
        .node("text", NodeType::new());
    let options = StoreOptions::new().schema(schema.build().unwrap());
    let store = DataStore::with_options(options);
    let spans = [
        ("colspan", json!(columns - 1)),
        ("rowspan", json!(rows - 1)),
    ];
    let cell = |row: usize, column: usize| {
        let cell = element("cell", []).with_id(format!("{row}-{column}"));
        match (row, column) {
            (0, 0) if spanned => Some(cell.with_attributes(spans.clone())),
            _ if spanned && row + 1 < rows && column + 1 < columns => None,
            _ => Some(cell),
        }
    };
    let row = |row| element("row", (0..columns).filter_map(|column| cell(row, column)));
    let table = element("table", (0..rows).map(row)).with_id("table");
    let mut on = store.begin("setup").unwrap();
    on.create(table).unwrap();
    on.commit().unwrap();
    store
}

#[test]
fn transaction_04_what_an_operation_on_a_table_visits_counts_as_steps() {
    for (rows, columns, spanned) in [
        (SIZE / 2, 2, false),
        (2, SIZE / 2, false),
        (24, 24, false),
        (150, 150, true),
    ] {
        let store = store_with_table(rows, columns, spanned);
        let last = format!("{}-{}", rows - 1, columns - 1);
        for kind in Kind::VARIANTS.iter().filter(|kind| kind.is_on_a_table()) {
            for (id, other) in [("0-0", last.as_str()), (&last, "0-0"), ("0-0", "0-0")] {
                let on = store.begin("client").unwrap();
                let operations = operations(&on, *kind, id, other);
                drop(on);
                for operation in operations {
                    let mut on = limited(&store);
                    let (_, visits) = counted(|| on.run([operation.clone()]));
                    let steps = on.steps_taken();
                    let shown = format!("{rows} x {columns}: {visits} visits, {steps} steps");
                    assert!(visits <= VISITS * (FLOOR + steps), "{shown}: {operation:?}");
                    assert!(visits * 8 >= rows * columns, "{shown}: {operation:?}");
                }
            }
        }
    }
}

#[test]
fn transaction_04_what_copying_and_pasting_cells_visits_counts_as_steps() {
    let cells = |count| (0..count).map(|_| element("cell", [NodeSpec::new("text")]));
    let rows = |count| (0..count).map(move |_| element("row", cells(count)));
    let fragment = |count| Fragment {
        nodes: vec![element("table", rows(count))],
        ..Fragment::default()
    };
    let text = Fragment {
        nodes: vec![text_node("text", "x".repeat(SIZE))],
        ..Fragment::default()
    };
    for (rows, columns, spanned) in [(SIZE / 2, 2, false), (24, 24, false), (150, 150, true)] {
        let store = store_with_table(rows, columns, spanned);
        let last = format!("{}-{}", rows - 1, columns - 1);
        let over = || TextSpan::to(0, last.as_str(), 0);
        for operation in [
            copy_range(over()),
            cut_range(over()),
            paste_fragment(0, fragment(1)),
            paste_fragment(0, fragment(12)),
            paste_over(over(), fragment(2)),
            paste_over(over(), text.clone()),
        ] {
            let mut on = limited(&store);
            let operation = operation.on("0-0");
            let (_, visits) = counted(|| on.run([operation.clone()]));
            let steps = on.steps_taken();
            let shown = format!("{rows} x {columns}: {visits} visits, {steps} steps");
            assert!(visits <= VISITS * (FLOOR + steps), "{shown}: {operation:?}");
            assert!(visits * 8 >= rows * columns, "{shown}: {operation:?}");
        }
    }
}

#[test]
fn transaction_04_what_joining_neighbours_visits_counts_as_steps() {
    let options = StoreOptions::new();
    let store = DataStore::with_options(options);
    let numbered =
        |nth: usize| element("list", [text(&format!("n{nth}"))]).with_id(format!("l{nth}"));
    let mut on = store.begin("setup").unwrap();
    on.create(page(
        element("block", (0..SIZE).map(numbered)).with_id("large"),
    ))
    .unwrap();
    on.commit().unwrap();
    for first in [delete_node().on("l300"), move_node("large", 0).on("l300")] {
        let mut on = limited(&store);
        on.run([first]).unwrap();
        let before = on.steps_taken();
        let (_, visits) = counted(|| on.run([join_neighbours(["list"])]).unwrap());
        let steps = on.steps_taken() - before;
        let shown = format!("{visits} visits, {steps} steps");
        assert!(visits <= VISITS * (FLOOR + steps), "{shown}");
        assert!(visits >= SIZE, "{shown}");
    }
}

/// The check of a schema at the commit, which holds the lock as well.
#[test]
fn transaction_04_what_a_commit_checks_counts_as_steps() {
    let any = || {
        NodeType::new()
            .content("(block | text | other)*")
            .text(true)
    };
    let schema = Schema::builder()
        .node("page", any())
        .node("block", any())
        .node("other", any())
        .node("text", any());
    let new = || NodeSpec::new("text");
    let last = SIZE - 1;
    let scripts = [
        vec![add_child(new(), 0), add_child(new(), None)],
        vec![
            add_child(new(), None),
            add_child(new(), SIZE / 2),
            add_child(new(), 0),
        ],
        vec![remove_child("first"), remove_child("last")],
        vec![add_child("first", last), add_child("n300", 0)],
        vec![split_block_node(SIZE / 2)],
        vec![transform_node("other", Vec::<(String, Value)>::new())],
    ];
    let options = StoreOptions::new().schema(schema.build().unwrap());
    let store = DataStore::with_options(options);
    let numbered = |nth: usize| match nth {
        0 => text("first"),
        nth if nth == last => text("last"),
        nth => text(&format!("n{nth}")),
    };
    let document = page(element("block", (0..SIZE).map(numbered)).with_id("large"));
    let mut on = store.begin("setup").unwrap();
    on.create(document).unwrap();
    on.commit().unwrap();
    let base = store.snapshot();
    for script in scripts {
        let options = StoreOptions::new().schema(store.schema().unwrap().clone());
        let store = options.document(base.clone()).unwrap();
        let mut on = limited(&store);
        let shown = format!("{script:?}");
        let script: Vec<_> = script.into_iter().map(|edit| edit.on("large")).collect();
        on.run(script).unwrap();
        let steps = on.steps_taken();
        let ((), visits) = counted(|| drop(on.commit().unwrap()));
        assert!(
            visits <= VISITS * (FLOOR + steps),
            "{visits} visits, {steps} steps: {shown}"
        );
        assert!(visits >= SIZE, "{visits} visits: {shown}");
    }
}
