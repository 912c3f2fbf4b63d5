//! A failing operation leaves no trace.

use doclock::dsl::*;
use doclock::{
    AliasError, Draft, Editor, NodeId, Savepoint,
    document::{Change, Fragment, Mark, Selection},
    transaction::{IntoOperations, OperationError, TransactionError},
};

use super::common::{id, image};
use super::range::editor;

/// A page `page[list[item[t"one two" u"!"] item[v"three"]]]` and a detached second list.
fn lists() -> Editor {
    let text = |name: &str, text: &str| text_node("text", text).with_id(name);
    let items = [
        element("item", [text("t", "one two"), text("u", "!")]).with_id("i"),
        element("item", [text("v", "three")]).with_id("j"),
    ];
    let loose = element("p", [text("w", "four")]).with_id("loose");
    editor([
        element("page", [element("list", items).with_id("list")]).with_id("page"),
        element("item", [loose]).with_id("top"),
    ])
}

/// The observable state of an open transaction.
#[derive(Debug, PartialEq)]
struct Seen {
    image: String,
    changes: Vec<Change>,
    selection: Option<Selection>,
    clipboard: Option<Fragment>,
    names: [Option<NodeId>; 2],
}

fn seen(transaction: &Draft) -> Seen {
    Seen {
        image: image(transaction),
        changes: transaction.changes().to_vec(),
        selection: transaction.selection().cloned(),
        clipboard: transaction.clipboard().cloned(),
        names: ["n", "m"].map(|name| transaction.named(name).ok().cloned()),
    }
}

/// Runs operations of which the last fails, in a transaction with changes, a selection, a name and
/// a copy. The last one leaves no trace, not even in the commit.
fn fails(operation: impl IntoOperations) -> OperationError {
    let editor = lists();
    let mut transaction = editor.store().begin("ann").unwrap();
    transaction.select(Selection::caret("t", 5)).unwrap();
    let before = [
        create(text_node("text", "new").with_id("new")).named("n"),
        copy_range(1..3).on("v"),
        insert_text(0, ">").on("t"),
    ];
    transaction.run(before).unwrap();
    let before = seen(&transaction);
    let error = transaction.run(operation).unwrap_err();
    assert_eq!(seen(&transaction), before, "{error}");
    let committed = transaction.commit().unwrap();
    let names: Vec<&str> = committed
        .operations
        .iter()
        .map(|done| done.name.as_str())
        .collect();
    assert_eq!(names, ["create", "copy", "insertText"]);
    assert_eq!(committed.changes[..], before.changes);
    match error {
        TransactionError::Operation { cause, .. } => cause,
        other => panic!("not an operation failed: {other}"),
    }
}

#[test]
fn overlay_10_a_refused_split_of_an_item_does_not_split_its_text() {
    let error = fails(split_list_item(2, "item").on("w"));
    assert_eq!(
        error.to_string(),
        "node top has no parent, so nothing can be put beside it"
    );
}

#[test]
fn overlay_10_a_name_that_cannot_be_given_leaves_nothing_to_be_named() {
    let nothing = fails(delete_node().on("u").named("m"));
    assert!(matches!(
        nothing,
        OperationError::Alias(AliasError::NothingCreated { .. })
    ));
    let taken = fails(split_text_node(2).on("t").named("n"));
    assert!(matches!(
        taken,
        OperationError::Alias(AliasError::Taken { .. })
    ));
    let twice = fails(create(element("p", [])).named("m").named("m"));
    assert!(matches!(
        twice,
        OperationError::Alias(AliasError::Taken { .. })
    ));
    let all = fails(control("t", [insert_text(0, "x"), select_node(), cut_range(0..2)]).named("m"));
    assert!(matches!(
        all,
        OperationError::Alias(AliasError::NothingCreated { .. })
    ));
}

#[test]
fn overlay_10_operations_of_several_steps_are_refused_before_the_first() {
    fails(
        update_node(
            [("a", 1.into())],
            Some("x".into()),
            Some(vec![Mark::new("bold", 0..2)]),
        )
        .on("t"),
    );
    let marked = text_node("text", "x").with_marks([Mark::new("bold", 0..9)]);
    let fragment = |nodes| Fragment {
        nodes,
        open_start: true,
        open_end: true,
        ..Fragment::default()
    };
    fails(paste_fragment(2, fragment(vec![element("item", [marked.clone()])])).on("t"));
    fails(paste_fragment(2, fragment(vec![marked])).on("t"));
    fails(wrap_in_list(element("list", []), element("item", []).with_id("i")).on("u"));
    fails(insert_paragraph(1).on("new"));
}

#[test]
fn overlay_10_a_control_that_fails_in_the_middle_changes_nothing() {
    let error = fails(control(
        "t",
        [
            insert_text(0, "x"),
            select_range(0..1),
            insert_text(99, "y"),
        ],
    ));
    assert!(error.to_string().contains("characters 99..99"), "{error}");
}

/// Makes changes of every kind.
fn busy(on: &mut Draft) {
    on.run([
        create(text_node("text", "x")).named("m"),
        delete_text_range(0, 3).on("t"),
        delete_node().on("i"),
        cut_range(0..2).on("v"),
        select_node().on("j"),
    ])
    .unwrap();
    on.set_root(&id("top")).unwrap();
}

#[test]
fn overlay_10_code_that_fails_leaves_no_changes() {
    let error = fails(op(|on: &mut Draft| {
        busy(on);
        Err::<(), _>("no")
    }));
    assert_eq!(error.to_string(), "no");
    let nested = fails(op(|on: &mut Draft| {
        busy(on);
        on.run([delete_node().on("nowhere")])
    }));
    assert!(nested.to_string().contains("nowhere"), "{nested}");
}

#[test]
fn overlay_10_code_that_panics_leaves_no_changes() {
    let error = fails(op(|on: &mut Draft| -> Result<(), String> {
        busy(on);
        std::panic::resume_unwind(Box::new("torn"))
    }));
    assert_eq!(error.to_string(), "panicked: torn");
}

/// Code that returned to a savepoint from before it could not be rolled back.
#[test]
fn overlay_10_code_cannot_return_to_a_savepoint_from_before_it() {
    let editor = lists();
    let mut transaction = editor.store().begin("ann").unwrap();
    let outer: Savepoint = transaction.savepoint();
    transaction.run(insert_text(0, "x").on("t")).unwrap();
    let before = seen(&transaction);
    let back = op(move |on: &mut Draft| on.rollback_to(outer));
    assert!(transaction.run(back).is_err());
    assert_eq!(seen(&transaction), before);
    let back = transaction.attempt(|on| {
        let inner = on.savepoint();
        on.run(insert_text(0, "y").on("t")).unwrap();
        on.rollback_to(inner).unwrap();
        on.rollback_to(outer)
    });
    assert!(back.is_err());
    assert_eq!(seen(&transaction), before);
    transaction.rollback_to(outer).unwrap();
    assert!(transaction.changes().is_empty());
}

#[test]
fn overlay_10_an_attempt_that_panics_leaves_no_changes() {
    let editor = lists();
    let mut transaction = editor.store().begin("ann").unwrap();
    transaction.run(insert_text(0, "x").on("t")).unwrap();
    let before = seen(&transaction);
    let torn = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        transaction.attempt(|on| -> Result<(), String> {
            busy(on);
            std::panic::resume_unwind(Box::new("torn"))
        })
    }));
    assert_eq!(torn.unwrap_err().downcast_ref(), Some(&"torn"));
    assert_eq!(seen(&transaction), before);
    let outer = transaction.savepoint();
    transaction.rollback_to(outer).unwrap();
}

#[test]
fn overlay_10_changes_before_a_failing_operation_are_kept() {
    let editor = lists();
    let mut transaction = editor.store().begin("ann").unwrap();
    let list = [
        insert_text(0, "x").on("t"),
        split_list_item(2, "item").on("w"),
    ];
    let error = transaction.run(list).unwrap_err();
    assert!(matches!(
        error,
        TransactionError::Operation { index: 1, .. }
    ));
    assert_eq!(super::common::text(&transaction, "t"), "xone two");
    assert_eq!(super::common::text(&transaction, "w"), "four");
    assert_eq!(transaction.commit().unwrap().changes.len(), 1);
}

/// A node that was created and rolled back does not exist, and does not count as deleted.
#[test]
fn overlay_10_a_node_that_an_operation_rolled_back_never_existed() {
    let editor = lists();
    let mut transaction = editor.store().begin("ann").unwrap();
    let made = op(|on: &mut Draft| {
        on.run(create(element("p", []).with_id("made")))?;
        on.run(delete_node().on("nowhere"))
    });
    transaction.run(made).unwrap_err();
    let error = transaction.run(delete_node().on("made")).unwrap_err();
    assert!(
        error.to_string().ends_with("node made does not exist"),
        "{error}"
    );
    transaction
        .run(create(element("p", []).with_id("made")))
        .unwrap();
}
