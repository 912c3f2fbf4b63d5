//! The schemas of names, and several node types of ProseMirror for one type of the document.

use std::process::Command;

use doclock::codes::CodedError as _;
use doclock::document::{Attributes, HeaderPart, NodeSpec, TableSide, View};
use doclock::dsl::{add_table_row, toggle_header};
use doclock::schema::Schema;
use doclock::{DataStore, Editor, StoreOptions};
use doclock_formats::markdown::{from_markdown, to_markdown};
use doclock_formats::prosemirror::ProseMirrorContent::{Blocks, Break, Code, Inline, Leaf, Text};
use doclock_formats::prosemirror::{
    ProseMirrorNames, ProseMirrorNamesError, ProseMirrorOptions, ProseMirrorStep, from_prosemirror,
    to_prosemirror,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::{cases, seed};
use crate::{basic_schema, scripts, tiptap_schema};

fn options(names: ProseMirrorNames) -> ProseMirrorOptions {
    let schema = names.schema().unwrap();
    ProseMirrorOptions::new(names).schema(schema)
}

/// Whether a document is read completely, and follows the schema.
fn is_valid(doc: &Value, options: &ProseMirrorOptions) -> Option<NodeSpec> {
    let (document, dropped) = from_prosemirror(&doc.to_string(), options).ok()?;
    dropped.is_empty().then_some(document)
}

/// The JSON of a document that was in a store with the schema.
fn stored(document: NodeSpec, options: &ProseMirrorOptions, schema: &Schema) -> Value {
    let store = DataStore::with_options(StoreOptions::new().schema(schema.clone()));
    let mut transaction = store.begin("import").unwrap();
    let page = transaction.create(document).unwrap();
    transaction.set_root(&page).unwrap();
    transaction.commit().unwrap();
    let (json, dropped) = to_prosemirror(&store.snapshot(), &page, options).unwrap();
    assert_eq!(dropped, []);
    serde_json::from_str(&json).unwrap()
}

/// Without attributes that are absent in the document, and contents that are empty.
fn bare(mut node: Value) -> Value {
    if let Some(fields) = node.as_object_mut() {
        if let Some(attributes) = fields.get_mut("attrs").and_then(Value::as_object_mut) {
            attributes.retain(|_, value| !value.is_null());
        }
        fields.retain(|name, value| name != "attrs" || value != &json!({}));
        for name in ["content", "marks"] {
            if let Some(parts) = fields.get_mut(name).and_then(Value::as_array_mut) {
                parts.iter_mut().for_each(|part| *part = bare(part.take()));
            }
        }
    }
    node
}

/// Returns how many documents are valid and how many are not.
fn compared(lines: &str) -> (usize, usize) {
    let names = ProseMirrorNames::tiptap();
    let (schema, options) = (names.schema().unwrap(), options(names));
    let (mut valid, mut broken) = (0, 0);
    for line in lines.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        match (is_valid(&case["doc"], &options), &case["valid"]) {
            (Some(document), Value::Bool(true)) => {
                valid += 1;
                let written = stored(document, &options, &schema);
                assert_eq!(bare(written), bare(case["doc"].clone()), "{line}");
            }
            (None, Value::Bool(false)) => broken += 1,
            (found, _) => panic!("doclock accepts: {}: {line}", found.is_some()),
        }
    }
    (valid, broken)
}

#[test]
fn recorded_documents_of_tiptap_have_the_same_verdict_and_come_back() {
    let (valid, broken) = compared(include_str!("verdicts.jsonl"));
    assert!(valid > 50 && broken > 50, "{valid} valid, {broken} broken");
}

/// With the packages installed (`npm ci` in `crates/formats/tests/prosemirror`), the documents are
/// new each time.
#[test]
fn random_documents_of_tiptap_have_the_same_verdict_and_come_back() {
    let Some(folder) = scripts() else { return };
    let count = std::env::var("DOCLOCK_STEPS").unwrap_or_else(|_| "1000".to_owned());
    let mut script = Command::new("node");
    let script = script
        .current_dir(folder)
        .args(["verdicts.mjs", &seed().to_string(), &count]);
    let output = script.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let (valid, broken) = compared(&String::from_utf8(output.stdout).unwrap());
    println!("{valid} valid, {broken} broken");
    assert!(valid > 0 && broken > 0);
}

#[test]
fn the_schemas_of_the_names_are_those_of_the_comparisons() {
    let json = |schema: &Schema| serde_json::to_value(schema).unwrap();
    let found = ProseMirrorNames::basic().schema().unwrap();
    assert_eq!(json(&found), json(&basic_schema()));

    let (found, kit) = (
        json(&ProseMirrorNames::tiptap().schema().unwrap()),
        json(&tiptap_schema()),
    );
    for part in ["nodes", "marks"] {
        for (name, mut expected) in kit[part].as_object().unwrap().clone() {
            // What task lists add.
            let more = match &*name {
                "list" => json!({"kind": {"values": ["task"], "type": "string"}}),
                "list-item" => json!({"checked": {"type": "boolean"}}),
                _ => json!({}),
            };
            for (attribute, rule) in more.as_object().unwrap() {
                expected["attributes"][attribute] = rule.clone();
            }
            assert_eq!(found[part][&name], expected, "{name}");
        }
    }
    assert_eq!(found["root"], kit["root"]);
}

fn tasks(list: &str, item: &str) -> Value {
    json!({"type": "doc", "content": [{"type": list, "content": [
        {"type": item, "attrs": {"checked": true}, "content": [
            {"type": "paragraph", "content": [{"type": "text", "text": "Io"}]},
        ]},
    ]}]})
}

#[test]
fn a_list_of_tasks_is_a_list_and_is_written_as_markdown() {
    let options = options(ProseMirrorNames::tiptap());
    let document = is_valid(&tasks("taskList", "taskItem"), &options).unwrap();
    let list = &document.clone().into_children()[0];
    assert_eq!(list.kind(), "list");
    assert_eq!(list.attributes().get("kind"), Some(&"task".into()));
    let mut transaction = DataStore::new().begin("export").unwrap();
    let page = transaction.create(document).unwrap();
    assert_eq!(to_markdown(&transaction, &page).unwrap(), "- [x] Io\n");
}

#[test]
fn an_item_of_another_list_is_reported_and_written_as_the_item_of_its_list() {
    let options = ProseMirrorOptions::new(ProseMirrorNames::tiptap());
    for (list, item, expected) in [
        ("taskList", "listItem", "taskItem"),
        ("bulletList", "taskItem", "listItem"),
        ("taskList", "taskItem", "taskItem"),
        ("bulletList", "listItem", "listItem"),
    ] {
        let json = tasks(list, item).to_string();
        let (document, dropped) = from_prosemirror(&json, &options).unwrap();
        let types: Vec<_> = dropped.iter().map(|dropped| &*dropped.first).collect();
        let reported = if item == expected {
            &[][..]
        } else {
            &["content[0].content[0]"]
        };
        assert_eq!(types, reported);
        let mut transaction = DataStore::new().begin("export").unwrap();
        let page = transaction.create(document).unwrap();
        let (written, _) = to_prosemirror(&transaction, &page, &options).unwrap();
        let written: Value = serde_json::from_str(&written).unwrap();
        assert_eq!(written, tasks(list, expected));
    }
}

fn cell_names() -> ProseMirrorNames {
    let names = ProseMirrorNames::basic().node("cell", "cell", Blocks);
    names
        .node_where("head_cell", "cell", Blocks, [("header", true.into())])
        .unwrap()
}

#[test]
fn the_value_of_an_attribute_tells_the_types_apart_in_both_directions() {
    let options = options(cell_names());
    let cell = |kind: &str| json!({"type": kind, "content": [{"type": "paragraph"}]});
    let doc = json!({"type": "doc", "content": [cell("head_cell"), cell("cell")]});
    let document = is_valid(&doc, &options).unwrap();
    let cells = document.clone().into_children();
    assert_eq!([cells[0].kind(), cells[1].kind()], ["cell", "cell"]);
    assert_eq!(cells[0].attributes().get("header"), Some(&true.into()));
    assert!(cells[1].attributes().is_empty());
    assert_eq!(
        stored(document, &options, &cell_names().schema().unwrap()),
        doc
    );
}

#[test]
fn the_type_with_the_most_attributes_is_written() {
    let name = |value: &str| json!({"kind": value});
    let names = cell_names();
    let names = names.node_where(
        "sum",
        "cell",
        Blocks,
        [("header", true.into()), ("sum", 1.into())],
    );
    let options = ProseMirrorOptions::new(names.unwrap());
    for (attributes, expected) in [
        (json!({}), "cell"),
        (json!({"header": false, "sum": 1}), "cell"),
        (json!({"header": true}), "head_cell"),
        (json!({"header": true, "sum": 2}), "head_cell"),
        (json!({"header": true, "sum": 1}), "sum"),
        (name("x"), "cell"),
    ] {
        let attributes = attributes.as_object().unwrap().clone();
        let spec =
            NodeSpec::new("cell").with_attributes(attributes.into_iter().collect::<Attributes>());
        let mut transaction = DataStore::new().begin("export").unwrap();
        let cell = transaction.create(spec).unwrap();
        let (written, _) = to_prosemirror(&transaction, &cell, &options).unwrap();
        let written: Value = serde_json::from_str(&written).unwrap();
        assert_eq!(written["type"], expected, "{written}");
    }
}

#[test]
fn an_ambiguous_definition_is_an_error_with_both_names() {
    let error = |names: Result<ProseMirrorNames, ProseMirrorNamesError>| {
        let error = names.unwrap_err();
        (error.code(), error.to_string())
    };
    let header = || [("header", true.into())];
    assert_eq!(
        error(cell_names().node_where("title", "cell", Blocks, header())),
        (
            "proseMirrorNamesAmbiguous",
            "title and head_cell are both cell where header is true".to_owned()
        ),
    );
    assert_eq!(
        error(cell_names().node_where("plain", "cell", Blocks, [("header", Value::Null)])),
        (
            "proseMirrorNamesAmbiguous",
            "plain and cell are both cell".to_owned()
        ),
    );
    assert_eq!(
        error(cell_names().node_where("sum", "cell", Blocks, [("sum", 1.into())])),
        (
            "proseMirrorNamesAmbiguous",
            "sum and head_cell are both cell where header is true and sum is 1".to_owned()
        ),
    );
    let names = ProseMirrorNames::tiptap();
    assert_eq!(
        error(names.node_within("check", "list-item", Blocks, "taskList")),
        (
            "proseMirrorNamesAmbiguous",
            "check and taskItem are both list-item in taskList".to_owned()
        ),
    );
}

#[test]
fn a_type_without_a_rule_for_a_value_is_an_error_with_both_names() {
    let error = |error: ProseMirrorNamesError| (error.code(), error.to_string());
    let names = ProseMirrorNames::basic();
    let header = names
        .clone()
        .node_where("head_cell", "cell", Blocks, [("header", true.into())]);
    let expected = "head_cell is cell only where header is true, and no type is cell elsewhere";
    assert_eq!(
        error(header.unwrap_err()),
        ("proseMirrorNamesIncomplete", expected.to_owned()),
    );
    let item = names.node_within("step", "step", Blocks, "ordered_list");
    let expected = "step is step only in ordered_list, and no type is step elsewhere";
    assert_eq!(
        error(item.unwrap_err()),
        ("proseMirrorNamesIncomplete", expected.to_owned())
    );

    // A later definition has taken a type away.
    let names = ProseMirrorNames::basic().node("ordered_list", "steps", Blocks);
    let expected = "bullet_list is list only where ordered is false, and no type is list elsewhere";
    assert_eq!(
        error(names.schema().unwrap_err()),
        ("proseMirrorNamesIncomplete", expected.to_owned()),
    );
}

#[test]
fn a_schema_has_the_names_of_the_program() {
    let names = ProseMirrorNames::tiptap()
        .node("paragraph", "p", Text)
        .node("listItem", "entry", Blocks)
        .node("taskItem", "task", Blocks)
        .node("image", "picture", Inline)
        .node("callout", "note", Blocks)
        .attribute("heading", "level", "depth")
        .mark("comment", "comment")
        .excludes("comment", "")
        .marks("heading", "italic")
        .text("text");
    let schema = serde_json::to_value(names.schema().unwrap()).unwrap();
    let of = |pointer: &str| schema.pointer(pointer).cloned().unwrap_or_default();
    assert_eq!(
        of("/nodes/p"),
        json!({"group": "block", "content": "text*"})
    );
    assert_eq!(of("/nodes/entry/content"), "p block*");
    assert_eq!(of("/nodes/list/content"), "(task+) | (entry+)");
    assert_eq!(of("/nodes/heading/marks"), "em picture");
    assert_eq!(of("/nodes/heading/attributes/depth/type"), "integer");
    assert_eq!(of("/nodes/picture"), Value::Null);
    assert_eq!(of("/marks/picture/leaf"), true);
    assert_eq!(
        of("/marks/comment"),
        json!({"unknownAttributes": true, "inclusive": true, "excludes": ""})
    );
    assert_eq!(
        of("/nodes/note"),
        json!({"group": "block", "content": "block+", "unknownAttributes": true}),
    );
    assert_eq!(of("/root"), "document");
    let unnamed = ProseMirrorNames::tiptap()
        .text("block")
        .schema()
        .unwrap_err();
    assert_eq!(unnamed.code(), "proseMirrorNamesSchema");
}

/// A list that is read from Markdown has no attribute `kind`.
#[test]
fn a_list_of_markdown_is_no_list_of_tasks() {
    let options = options(ProseMirrorNames::tiptap());
    let mut transaction = DataStore::new().begin("export").unwrap();
    let page = transaction.create(from_markdown("- [x] Io\n")).unwrap();
    let (json, _) = to_prosemirror(&transaction, &page, &options).unwrap();
    assert!(json.contains("bulletList") && transaction.contains(&page));
}

#[test]
fn steps_turn_a_list_into_tasks_and_check_one() {
    let names = ProseMirrorNames::tiptap();
    let (schema, options) = (names.schema().unwrap(), options(names));
    let mut list = tasks("bulletList", "listItem");
    list["content"][0]["content"][0]
        .as_object_mut()
        .unwrap()
        .remove("attrs");
    let store = DataStore::with_options(StoreOptions::new().schema(schema));
    let mut transaction = store.begin("ann").unwrap();
    let page = transaction
        .create(is_valid(&list, &options).unwrap())
        .unwrap();
    transaction.set_root(&page).unwrap();
    for step in [
        json!({"stepType": "replaceAround", "from": 0, "to": 8, "gapFrom": 2, "gapTo": 6, "insert": 2,
        "structure": true, "slice": {"content": [
            {"type": "taskList", "content": [{"type": "taskItem", "attrs": {"checked": false}}]},
        ]}}),
        json!({"stepType": "attr", "pos": 1, "attr": "checked", "value": true}),
    ] {
        let step = ProseMirrorStep::from_json(&step.to_string(), &options).unwrap();
        step.apply(&mut transaction, &page, &options).unwrap();
    }
    transaction.commit().unwrap();
    let (written, dropped) = to_prosemirror(&store.snapshot(), &page, &options).unwrap();
    assert_eq!(dropped, []);
    let written: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(written, tasks("taskList", "taskItem"));
}

/// A value of an attribute; `null` for none.
fn value() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        Value::Null,
        false.into(),
        true.into(),
        "x".into(),
        1.into(),
    ])
}

/// Absent attributes count as `false`.
fn without_false(attributes: &Attributes) -> Vec<(String, Value)> {
    let given = attributes
        .iter()
        .filter(|(_, value)| **value != Value::Bool(false));
    given
        .map(|(name, value)| (name.to_string(), value.clone()))
        .collect()
}

proptest! {
    #![proptest_config(cases(512))]

    /// Definitions that are accepted determine one type for each node, in both directions.
    #[test]
    fn any_accepted_definitions_keep_the_attributes(
        definitions in prop::collection::vec([value(), value()], 0..6),
        attributes in [value(), value()],
    ) {
        let pairs = |[a, b]: [Value; 2]| [("a", a), ("b", b)];
        let mut names = ProseMirrorNames::new().node("other", "cell", Blocks);
        let mut accepted: Vec<Attributes> = Vec::new();
        for (nth, values) in definitions.into_iter().enumerate() {
            let fixed: Attributes = pairs(values).into();
            match names.clone().node_where(format!("of{nth}"), "cell", Blocks, fixed.clone()) {
                Ok(more) => {
                    names = more;
                    accepted.push(fixed);
                }
                Err(error) => prop_assert_eq!(error.code(), "proseMirrorNamesAmbiguous"),
            }
        }
        let options = ProseMirrorOptions::new(names);
        let cell = NodeSpec::new("cell").with_attributes(pairs(attributes));
        let expected = without_false(cell.attributes());
        let mut transaction = DataStore::new().begin("export").unwrap();
        let cell = transaction.create(cell).unwrap();
        let (json, dropped) = to_prosemirror(&transaction, &cell, &options).unwrap();
        prop_assert_eq!(dropped, []);
        let written: Value = serde_json::from_str(&json).unwrap();
        let (read, _) = from_prosemirror(&json, &options).unwrap();
        prop_assert_eq!(read.kind(), "cell");
        prop_assert_eq!(without_false(read.attributes()), expected.clone(), "{}", json);
        // The type is the most precise one.
        let holds = |fixed: &&Attributes| {
            let of_node = |name: &str| expected.iter().find(|(of, _)| of == name);
            fixed.iter().all(|(name, value)| match of_node(name) {
                Some((_, of_node)) => of_node == value,
                None => value == &Value::Bool(false),
            })
        };
        let most = accepted.iter().filter(holds).map(Attributes::len).max().unwrap_or(0);
        let in_type = read.attributes().len() - written["attrs"].as_object().map_or(0, |all| all.len());
        prop_assert_eq!(in_type, most, "{}", json);
    }
}

/// A table of Markdown has a first row of another type, text in its cells, and empty cells.
#[test]
fn a_table_of_markdown_is_one_for_tiptap() {
    let mut transaction = DataStore::new().begin("export").unwrap();
    let markdown = "| a | b |\n|---|:-:|\n| c |\n";
    let page = transaction.create(from_markdown(markdown)).unwrap();
    let options = options(ProseMirrorNames::tiptap());
    let (json, dropped) = to_prosemirror(&transaction, &page, &options).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    let cell = |kind: &str, text: &str| {
        let paragraph = match text {
            "" => json!({"type": "paragraph"}),
            _ => json!({"type": "paragraph", "content": [{"type": "text", "text": text}]}),
        };
        json!({"type": kind, "content": [paragraph]})
    };
    let row = |cells: [Value; 2]| json!({"type": "tableRow", "content": cells});
    let expected = json!({"type": "doc", "content": [{"type": "table", "content": [
        row([cell("tableHeader", "a"), cell("tableHeader", "b")]),
        row([cell("tableCell", "c"), cell("tableCell", "")]),
    ]}]});
    assert_eq!(json, expected);
    assert!(is_valid(&json, &options).is_some());
    let lost: Vec<Value> = dropped.iter().map(|part| json!(part)).collect();
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!(lost[0]["attribute"], "align");
}

/// The cells have their roles, so the operations on tables find them.
#[test]
fn the_schema_of_tiptap_knows_tables() {
    let options = options(ProseMirrorNames::tiptap());
    let cell = |text: &str| json!({"type": "tableCell", "attrs": {"colspan": 1, "rowspan": 1}, "content": [{"type": "paragraph", "content": [{"type": "text", "text": text}]}]});
    let doc = json!({"type": "doc", "content": [{"type": "table", "content": [{"type": "tableRow", "content": [cell("a"), cell("b")]}]}]});
    let (page, _) = from_prosemirror(&doc.to_string(), &options).unwrap();
    let schema = ProseMirrorNames::tiptap().schema().unwrap();
    let store = DataStore::with_options(StoreOptions::new().schema(schema));
    let editor = Editor::new(store, "ann");
    let mut transaction = editor.store().begin("import").unwrap();
    let page = transaction.create(page).unwrap();
    transaction.set_root(&page).unwrap();
    transaction.commit().unwrap();
    let view = editor.store().snapshot();
    let first = view.nodes().find(|node| node.kind() == "table-cell");
    let first = first.unwrap().id().clone();
    editor
        .execute([
            add_table_row(TableSide::After).on(&first),
            toggle_header(HeaderPart::FirstRow).on(&first),
        ])
        .unwrap();
    let (json, _) = to_prosemirror(&editor.store().snapshot(), &page, &options).unwrap();
    let kinds = |name: &str| json.matches(&format!("\"{name}\"")).count();
    assert_eq!(
        (kinds("tableHeader"), kinds("tableCell"), kinds("tableRow")),
        (2, 2, 2)
    );
}

/// The nodes of the schema of names, as JSON.
fn nodes_of(names: &ProseMirrorNames) -> Value {
    serde_json::to_value(names.schema().unwrap()).unwrap()["nodes"].take()
}

#[test]
fn a_value_that_defines_a_type_is_not_the_only_value() {
    let names = ProseMirrorNames::basic()
        .node_where("title", "heading", Text, [("level", 1.into())])
        .unwrap()
        .node("cell", "cell", Blocks)
        .node_where("sum", "cell", Blocks, [("kind", "sum".into())])
        .unwrap();
    let nodes = nodes_of(&names);
    let level = json!({"type": "integer", "default": 1});
    assert_eq!(nodes["heading"]["attributes"]["level"], level);
    assert_eq!(nodes["cell"]["attributes"]["kind"], json!({"type": "any"}));
    let list = &nodes_of(&ProseMirrorNames::tiptap())["list"];
    assert_eq!(list["attributes"]["kind"]["values"], json!(["task"]));
}

#[test]
fn a_list_is_not_ordered_by_default() {
    for names in [ProseMirrorNames::basic(), ProseMirrorNames::tiptap()] {
        let list = &nodes_of(&names)["list"];
        assert_eq!(list["attributes"]["ordered"]["default"], false);
    }
}

#[test]
fn a_type_of_several_types_is_in_the_groups_of_all() {
    // An item is in no group, and a paragraph is a block.
    let names = ProseMirrorNames::basic()
        .node("list_item", "paragraph", Text)
        .node_where("paragraph", "paragraph", Text, [("free", true.into())])
        .unwrap();
    assert_eq!(nodes_of(&names)["paragraph"]["group"], "block");
    let names = ProseMirrorNames::basic()
        .node_where("list_item", "paragraph", Text, [("item", true.into())])
        .unwrap();
    assert_eq!(nodes_of(&names)["paragraph"]["group"], "block");
}

#[test]
fn a_type_that_is_empty_or_not_has_a_schema() {
    let names = ProseMirrorNames::basic()
        .node("box", "box", Blocks)
        .node_where("line", "box", Leaf, [("line", true.into())])
        .unwrap();
    assert_eq!(nodes_of(&names)["box"]["content"], "(block+)?");
    let names = names
        .node_where(
            "note",
            "box",
            Text,
            [("note", true.into()), ("line", false.into())],
        )
        .unwrap();
    assert_eq!(
        nodes_of(&names)["box"]["content"],
        "((inline-text*) | (block+))?"
    );
}

#[test]
fn a_definition_that_cannot_be_is_an_error_with_the_reason() {
    let error = |names: Result<ProseMirrorNames, ProseMirrorNamesError>| {
        let error = names.unwrap_err();
        assert_eq!(error.code(), "proseMirrorNamesDefinition", "{error}");
        error.to_string()
    };
    let names = ProseMirrorNames::tiptap;
    for content in [Inline, Break] {
        let value = [("kind", "x".into())];
        let found = error(names().node_where("mention", "mention", content, value));
        assert_eq!(found, "mention cannot be mention: it is within a text");
        error(names().node_within("mention", "mention", content, "paragraph"));
    }
    let found = error(names().node_within("summary", "paragraph", Code, "details"));
    let other = "summary cannot be paragraph: its content differs from that in other parents";
    assert_eq!(found, other);
    let within = names().node_within("check", "list-item", Blocks, "checkList");
    let found = error(within.unwrap().schema().map(|_| names()));
    let missing = "check cannot be list-item: its parent is not defined";
    assert_eq!(found, missing);
}

#[test]
fn a_precise_type_is_not_the_one_for_text_without_a_type() {
    let names = ProseMirrorNames::new()
        .node("doc", "document", Blocks)
        .node("paragraph", "paragraph", Text)
        .node_where("lead", "paragraph", Text, [("lead", true.into())])
        .unwrap();
    let mut transaction = DataStore::new().begin("export").unwrap();
    let text = NodeSpec::new("inline-text").with_text("Io");
    let page = transaction
        .create(NodeSpec::new("document").with_children([text]))
        .unwrap();
    let (json, _) = to_prosemirror(&transaction, &page, &ProseMirrorOptions::new(names)).unwrap();
    assert!(
        json.contains("paragraph") && !json.contains("lead"),
        "{json}"
    );
}

#[test]
fn a_definition_that_takes_a_needed_type_from_another_is_an_error() {
    let taken = ProseMirrorNames::basic()
        .node("cell", "cell", Blocks)
        .node_where("ordered_list", "cell", Blocks, [("list", true.into())]);
    let error = taken.unwrap_err().to_string();
    let expected = "bullet_list is list only where ordered is false, and no type is list elsewhere";
    assert_eq!(error, expected);
}

#[test]
fn an_unknown_attribute_does_not_change_the_type() {
    let options = ProseMirrorOptions::new(ProseMirrorNames::tiptap());
    let mut doc = tasks("bulletList", "listItem");
    doc["content"][0]["attrs"] = json!({"kind": "task"});
    let (document, dropped) = from_prosemirror(&doc.to_string(), &options).unwrap();
    assert_eq!(json!(dropped)[0]["attribute"], "kind");
    assert_eq!(
        document.clone().into_children()[0].attributes().get("kind"),
        None
    );

    // A step ignores it.
    let mut transaction = DataStore::new().begin("ann").unwrap();
    let page = transaction.create(document).unwrap();
    let step = json!({"stepType": "attr", "pos": 0, "attr": "kind", "value": "task"});
    let step = ProseMirrorStep::from_json(&step.to_string(), &options).unwrap();
    step.apply(&mut transaction, &page, &options).unwrap();
    let (json, _) = to_prosemirror(&transaction, &page, &options).unwrap();
    assert!(json.contains("bulletList"), "{json}");

    // An attribute that the type has is kept.
    let title = ProseMirrorNames::tiptap();
    let title = title.node_where("title", "heading", Text, [("level", 1.into())]);
    let options = ProseMirrorOptions::new(title.unwrap());
    let heading = json!({"type": "doc", "content": [{"type": "heading", "attrs": {"level": 2}}]});
    assert!(is_valid(&heading, &options).is_some());
}
