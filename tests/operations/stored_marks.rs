//! Stored marks: those that the next text at a caret gets.
//! `crates/formats/tests/prosemirror/operations.rs` compares them with those of ProseMirror.

use std::sync::Arc;

use doclock::document::{Change, EditError, Mark, NodeSpec, Position, Selection, TextSelection};
use doclock::lock::node::Scope;
use doclock::schema::{AttributeSpec, MarkType, NodeType, Schema, ValueType};
use doclock::transaction::{Operation, OperationError, TransactionError, parse_operations};
use doclock::{DataStore, Draft, Editor, StoreOptions, View, dsl::*};
use serde_json::json;

fn schema() -> Schema {
    let line = || NodeType::new().group("block").content("text*");
    let mark = MarkType::new;
    Schema::builder()
        .node("page", NodeType::new().content("block+"))
        .node("p", line())
        .node("code", line().marks("").code(true))
        .node("text", NodeType::new())
        .mark("em", mark().inclusive(true))
        .mark("link", mark().inclusive(false))
        .mark("raw", mark().inclusive(true).excludes("_"))
        .root("page")
        .build()
        .unwrap()
}

/// An editor of a page with these blocks.
pub(super) fn opened(options: StoreOptions, blocks: impl IntoIterator<Item = NodeSpec>) -> Editor {
    let store = DataStore::with_options(options.session(7));
    let editor = Editor::new(store, "ann");
    let page = element("page", blocks).with_id("page");
    editor
        .execute([create(page), set_root().on("page")])
        .unwrap();
    editor
}

fn line(kind: &str, id: &str, text: &str) -> NodeSpec {
    element(kind, [text_node("text", text).with_id(id)]).with_id(format!("{kind}-{id}"))
}

fn under_schema() -> Editor {
    let empty = element("p", []).with_id("empty");
    let blocks = [line("p", "t", "ab"), line("code", "c", "x"), empty];
    opened(StoreOptions::new().schema(schema()), blocks)
}

fn without_schema() -> Editor {
    opened(StoreOptions::new(), [line("p", "t", "ab")])
}

/// Types at the caret.
fn typed(editor: &Editor, text: &str) {
    let Some(Selection::Text(caret)) = editor.selection() else {
        panic!("there is no caret");
    };
    let Position { node_id, offset } = caret.focus;
    editor
        .execute([insert_text(offset, text).on(node_id)])
        .unwrap();
}

fn toggled(editor: &Editor, kind: &str) {
    let Some(Selection::Text(caret)) = editor.selection() else {
        panic!("there is no caret");
    };
    let Position { node_id, offset } = caret.focus;
    let toggle = toggle_mark(kind, offset..offset).on(node_id);
    editor.execute([toggle]).unwrap();
}

fn stored(editor: &Editor) -> Option<Vec<String>> {
    let selection = editor.selection()?;
    let marks = selection.marks()?.iter();
    Some(marks.map(|mark| mark.kind.to_string()).collect())
}

/// The text of a node with its marks: `ab [em 1..2]`.
fn shown(editor: &Editor, id: &str) -> String {
    let view = editor.store().snapshot();
    let node = view.node(id).unwrap();
    let mut shown = node.text().to_string();
    for mark in node.marks() {
        let range = mark.range.clone().unwrap();
        shown += &format!(" [{} {}..{}]", mark.kind, range.start, range.end);
    }
    shown
}

#[test]
fn typed_text_gets_the_stored_marks() {
    for editor in [under_schema(), under_schema().with_node_locks(1)] {
        editor.select(Selection::caret("t", 1)).unwrap();
        toggled(&editor, "em");
        toggled(&editor, "link");
        assert_eq!(stored(&editor).unwrap(), ["em", "link"]);
        let version = editor.store().snapshot().version();
        typed(&editor, "xy");
        assert_eq!(editor.store().snapshot().version(), version + 1);
        assert_eq!(stored(&editor), None);
        // Later text has the marks that go on.
        typed(&editor, "z");
        assert_eq!(shown(&editor, "t"), "axyzb [link 1..3] [em 1..4]");
    }
}

#[test]
fn a_mark_around_the_caret_is_toggled_off() {
    let editor = under_schema();
    editor.execute([apply_mark("em", 0..2).on("t")]).unwrap();
    for (at, expected) in [
        (1, "axb [em 0..1] [em 2..3]"),
        (2, "abx [em 0..2]"),
        (0, "xab [em 1..3]"),
    ] {
        editor.select(Selection::caret("t", at)).unwrap();
        toggled(&editor, "em");
        assert_eq!(stored(&editor).unwrap(), [""; 0]);
        typed(&editor, "x");
        assert_eq!(shown(&editor, "t"), expected);
        editor.undo().commit().unwrap();
        // And on again.
        toggled(&editor, "em");
        assert_eq!(stored(&editor).unwrap(), ["em"]);
    }
}

#[test]
fn stored_marks_follow_the_schema() {
    let editor = under_schema();
    editor.select(Selection::caret("t", 2)).unwrap();
    toggled(&editor, "em");
    toggled(&editor, "raw");
    assert_eq!(stored(&editor).unwrap(), ["raw"]);
    // The one that excludes all others stays.
    toggled(&editor, "link");
    assert_eq!(stored(&editor).unwrap(), ["raw"]);
    // In code there are no marks.
    editor.select(Selection::caret("c", 1)).unwrap();
    toggled(&editor, "em");
    assert_eq!(stored(&editor), None);
    let bold = Selection::caret("c", 1).with_marks([Mark::whole("em")]);
    editor.select(bold).unwrap();
    typed(&editor, "y");
    assert_eq!(shown(&editor, "c"), "xy");
    // An empty block gets a text with the marks.
    editor.select(Selection::caret("empty", 0)).unwrap();
    toggled(&editor, "em");
    typed(&editor, "new");
    let view = editor.store().snapshot();
    let text = view.children("empty").next().unwrap().id().to_string();
    assert_eq!(shown(&editor, &text), "new [em 0..3]");
}

#[test]
fn without_a_schema_marks_stay_stored_while_text_is_typed() {
    let editor = without_schema();
    editor.select(Selection::caret("t", 2)).unwrap();
    toggled(&editor, "bold");
    typed(&editor, "c");
    typed(&editor, "d");
    assert_eq!(shown(&editor, "t"), "abcd [bold 2..4]");
    toggled(&editor, "bold");
    typed(&editor, "e");
    assert_eq!(shown(&editor, "t"), "abcde [bold 2..4]");
}

#[test]
fn stored_marks_belong_to_their_caret() {
    let editor = without_schema();
    let bob = Editor::new(editor.store().clone(), "bob");
    editor.select(Selection::caret("t", 2)).unwrap();
    // A toggle elsewhere stores nothing, and neither does one of an editor without a caret.
    editor.execute([toggle_mark("bold", 1..1).on("t")]).unwrap();
    assert_eq!(stored(&editor), None);
    bob.execute([toggle_mark("bold", 2..2).on("t")]).unwrap();
    assert_eq!(bob.selection(), None);

    toggled(&editor, "bold");
    // Text that is typed elsewhere has none of them, and edits of others move them along.
    bob.execute([insert_text(0, "__").on("t")]).unwrap();
    assert_eq!(stored(&editor).unwrap(), ["bold"]);
    typed(&editor, "c");
    assert_eq!(shown(&editor, "t"), "__abc [bold 4..5]");

    let caret = || Selection::caret("t", 5).with_marks([Mark::whole("em")]);
    editor.select(caret()).unwrap();
    editor.select(Selection::caret("t", 5)).unwrap();
    assert_eq!(stored(&editor), None);
    // An edit of the same editor.
    for on_nodes in [false, true] {
        let editor = match on_nodes {
            true => Editor::new(editor.store().clone(), "cat").with_node_locks(1),
            false => Editor::new(editor.store().clone(), "cat"),
        };
        editor.select(caret()).unwrap();
        editor
            .execute([set_attrs([("a", json!(1))]).on("p-t")])
            .unwrap();
        assert_eq!(stored(&editor), None);
        editor.execute([remove_attrs(["a"]).on("p-t")]).unwrap();
    }
}

#[test]
fn undo_04_an_undo_restores_the_stored_marks() {
    let editor = under_schema();
    editor.select(Selection::caret("t", 2)).unwrap();
    toggled(&editor, "em");
    // What is typed in a row is one entry.
    typed(&editor, "c");
    typed(&editor, "d");
    editor.undo().commit().unwrap();
    assert_eq!(shown(&editor, "t"), "ab");
    assert_eq!(stored(&editor).unwrap(), ["em"]);
    editor.redo().commit().unwrap();
    assert_eq!(shown(&editor, "t"), "abcd [em 2..4]");
    assert_eq!(stored(&editor), None);
    // Among the edits of others, too.
    let bob = Editor::new(editor.store().clone(), "bob");
    bob.execute([insert_text(0, "__").on("t")]).unwrap();
    editor.undo().commit().unwrap();
    let caret = Selection::caret("t", 4).with_marks([Mark::whole("em")]);
    assert_eq!(editor.selection(), Some(caret));
}

#[test]
fn stored_marks_are_a_part_of_the_json_of_a_caret() {
    let link = Mark::new("link", 3..4).with_attributes([("href", "x".into())]);
    let caret = Selection::caret("t", 2).with_marks([link]);
    let at = json!({"nodeId": "t", "offset": 2});
    let marks = json!([{"type": "link", "attributes": {"href": "x"}}]);
    let written = json!({"anchor": at, "focus": at, "marks": marks});
    assert_eq!(serde_json::to_value(&caret).unwrap(), written);
    assert_eq!(
        serde_json::from_value::<Selection>(written.clone()).unwrap(),
        caret
    );
    let script = json!({"type": "setSelection", "payload": {"selection": written}});
    let editor = without_schema();
    editor
        .execute(parse_operations(&script.to_string()).unwrap())
        .unwrap();
    assert_eq!(editor.selection(), Some(caret.clone()));
    let utf16 = caret.to_utf16(&editor.store().snapshot()).unwrap();
    assert_eq!(utf16, caret);

    let range = Selection::new(Position::new("t", 0), Position::new("t", 1));
    assert_eq!(range.clone().with_marks([Mark::whole("em")]), range);
    for invalid in [
        json!({"nodeId": "t", "marks": []}),
        json!({"anchor": at, "focus": {"nodeId": "t", "offset": 1}, "marks": []}),
    ] {
        let error = serde_json::from_value::<Selection>(invalid).unwrap_err();
        assert_eq!(error.to_string(), "only a caret has `marks`");
    }
}

#[test]
fn a_stored_mark_with_a_value_that_no_mark_may_have_is_refused() {
    let editor = without_schema();
    let mut deep = json!(1);
    for _ in 0..150 {
        deep = json!([deep]);
    }
    let mark = Mark::whole("em").with_attributes([("a", deep)]);
    let caret = Selection::caret("t", 2).with_marks([mark]);
    let select: Operation = set_selection(caret.clone());
    let error = editor.execute([select]).unwrap_err();
    let TransactionError::Operation {
        cause: OperationError::Edit(error),
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(
        error.to_string(),
        editor.select(caret).unwrap_err().to_string()
    );
    assert!(matches!(error, EditError::TooDeep { .. }), "{error}");
    assert_eq!(editor.selection(), None);
}

#[test]
fn white_space_counts_for_a_toggle_only_if_there_is_nothing_else() {
    let editor = without_schema();
    editor.execute([set_text("a b  ").on("t")]).unwrap();
    let words = [
        apply_mark("em", 0..1).on("t"),
        apply_mark("em", 2..3).on("t"),
    ];
    editor.execute(words).unwrap();
    let toggle = |range| editor.execute([toggle_mark("em", range).on("t")]).unwrap();
    toggle(3..5);
    assert_eq!(shown(&editor, "t"), "a b   [em 0..1] [em 2..5]");
    toggle(0..4);
    assert_eq!(shown(&editor, "t"), "a b   [em 4..5]");
    toggle(0..5);
    assert_eq!(shown(&editor, "t"), "a b   [em 0..5]");
    // A hard break is no white space.
    editor.execute([set_text("a\n").on("t")]).unwrap();
    toggle(0..1);
    toggle(0..2);
    assert_eq!(shown(&editor, "t"), "a\n [em 0..2]");
}

/// They were stored, and no text could be typed any more.
#[test]
fn a_stored_mark_that_the_schema_refuses_is_left_out_of_typed_text() {
    let href = AttributeSpec::new(ValueType::String).required();
    let schema = Schema::builder()
        .node("page", NodeType::new().content("p+"))
        .node("p", NodeType::new().content("text*"))
        .node("text", NodeType::new())
        .mark("em", MarkType::new().inclusive(true))
        .mark("link", MarkType::new().attribute("href", href))
        .root("page")
        .build()
        .unwrap();
    let options = || StoreOptions::new().schema(schema.clone());
    for nodes in [false, true] {
        let editor = opened(options(), [line("p", "t", "ab")]);
        let editor = match nodes {
            true => editor.with_node_locks(1),
            false => editor,
        };
        editor.select(Selection::caret("t", 1)).unwrap();
        for kind in ["link", "unknown"] {
            let refused = |range| {
                let toggle = toggle_mark(kind, range).on("t");
                editor.execute([toggle]).unwrap_err().to_string()
            };
            let of_text = refused(0..1);
            let violation = of_text.rsplit_once("mark ").unwrap().1;
            assert!(refused(1..1).ends_with(violation), "{of_text}");
            assert_eq!(stored(&editor), None);
        }
        let with_href = toggle_mark_with("link", [("href", json!("x"))], 1..1).on("t");
        editor.execute([with_href]).unwrap();
        assert_eq!(stored(&editor).unwrap(), ["link"]);
        toggled(&editor, "link");
        assert_eq!(stored(&editor).unwrap(), [""; 0]);

        let invalid = Mark::whole("em").with_attributes([("unknown", json!(1))]);
        let marks = [Mark::whole("link"), invalid, Mark::whole("unknown")];
        let link = Mark::whole("link").with_attributes([("href", json!("x"))]);
        let caret = Selection::caret("t", 1).with_marks(marks.into_iter().chain([link]));
        editor.select(caret).unwrap();
        typed(&editor, "x");
        assert_eq!(shown(&editor, "t"), "axb [link 1..2]");
    }
}

#[test]
fn a_transaction_that_edits_nothing_keeps_the_stored_marks_of_a_caret_that_is_set_meanwhile() {
    let editor = Arc::new(without_schema().with_node_locks(1));
    let caret = Selection::caret("t", 1).with_marks([Mark::whole("em")]);
    let (other, meanwhile) = (Arc::clone(&editor), caret.clone());
    let select = op(move |_| other.select(meanwhile.clone()));
    let at_start = set_selection(Selection::caret("t", 0));
    editor.execute([at_start, select]).unwrap();
    assert_eq!(editor.selection(), Some(caret));
}

#[test]
fn a_selection_that_is_no_caret_has_no_stored_marks() {
    let [start, end] = [0, 1].map(|offset| Position::new("t", offset));
    let text = TextSelection {
        anchor: start.clone(),
        focus: end.clone(),
        marks: Some(vec![Mark::whole("em")].into()),
    };
    let (given, range) = (Selection::Text(text), Selection::new(start, end));
    let written = serde_json::to_value(&given).unwrap();
    assert_eq!(serde_json::from_value::<Selection>(written).unwrap(), range);
    let editor = without_schema();
    assert_eq!(given.to_utf16(&editor.store().snapshot()).unwrap(), range);
    for nodes in [false, true] {
        let editor = match nodes {
            true => without_schema().with_node_locks(1),
            false => without_schema(),
        };
        editor.select(given.clone()).unwrap();
        assert_eq!(editor.selection(), Some(range.clone()));
        editor.select(None).unwrap();
        editor.execute([set_selection(given.clone())]).unwrap();
        assert_eq!(editor.selection(), Some(range.clone()));
    }
}

/// Beside a commit of others, the letter before the text got the marks, and not the text.
#[test]
fn marks_that_are_stored_when_a_batch_waits_for_nodes_go_to_its_text_or_to_none() {
    let ann = without_schema().with_node_locks(3);
    let store = ann.store();
    ann.select(Selection::caret("t", 1).with_marks([Mark::whole("bold")]))
        .unwrap();
    let mut bob = store.begin_on("bob", Scope::new().write("t")).unwrap();
    std::thread::scope(|threads| {
        let code = op(|_: &mut Draft| Ok::<(), EditError>(()));
        let batch = [code, insert_text(1, "X").on("t")];
        let typing = threads.spawn(|| ann.execute(batch));
        while store.node_locks().waiters().is_empty() {
            std::thread::yield_now();
        }
        bob.insert_text("t", 0, "__").unwrap();
        bob.commit().unwrap();
        typing.join().unwrap().unwrap();
    });
    let document = store.snapshot();
    let node = document.node("t").unwrap();
    assert_eq!(node.text(), &"_X_ab");
    assert_eq!(node.marks().iter().count(), 0);
}

#[test]
fn a_selection_that_is_replaced_has_readable_marks() {
    let deep = (0..101).fold(json!(1), |value, _| json!([value]));
    let marks = [Mark::whole("bold").with_attributes([("a", deep)])];
    let caret = Selection::caret("t", 1).with_marks(marks);
    let editor = without_schema();
    let version = editor.store().version();
    let mut transaction = editor.store().begin("ann").unwrap();
    for (before, after) in [(Some(caret.clone()), None), (None, Some(caret))] {
        let refused = transaction.apply(Change::SetSelection { before, after });
        assert!(
            matches!(refused, Err(EditError::TooDeep { .. })),
            "{refused:?}"
        );
    }
    drop(transaction);
    assert_eq!(editor.store().version(), version);
}
