//! Removing, moving, copying, wrapping, lifting and indenting. Also helpers for the neighbouring
//! files.

use doclock::{
    Editor, View,
    document::{Attributes, EditError, Mark, NodeSpec, Selection, check},
    dsl::*,
    transaction::{
        IntoOperations, OperationError, TransactionError, TransactionResult, parse_operations,
    },
};
use proptest::prelude::*;
use serde_json::json;

use crate::common::{cases, children, id, image, marks, store, text};

// --- Helpers ---

/// An editor of a document with this root.
pub(super) fn editor(root: NodeSpec) -> Editor {
    let editor = Editor::new(store(), "ann");
    let root = create(root).named("root");
    let operations = (root, control(alias("root"), [set_root()]));
    editor.execute(operations).unwrap();
    editor
}

/// The outline of a subtree, as `list[item"text" <item>]`: by id, or by type in angle brackets for
/// a generated id.
pub(super) fn outline(view: &impl View, of: &str) -> String {
    let node = view.node(id(of)).unwrap();
    let mut outline = match of.contains(':') {
        true => format!("<{}>", node.kind()),
        false => of.to_owned(),
    };
    if !node.text().is_empty() {
        outline += &format!("{:?}", node.text().to_string());
    }
    let below = children(view, of);
    if !below.is_empty() {
        let below: Vec<String> = below
            .iter()
            .map(|child| self::outline(view, child))
            .collect();
        outline += &format!("[{}]", below.join(" "));
    }
    outline
}

pub(super) fn page(editor: &Editor) -> String {
    outline(&editor.store().snapshot(), "page")
}

/// Runs operations and checks that the document is valid, that the inverses restore it, and that
/// the created nodes exist.
pub(super) fn done(editor: &Editor, operations: impl IntoOperations) -> TransactionResult {
    let store = editor.store();
    let before = image(&store.snapshot());
    let commits = store.subscribe();
    let result = editor.execute(operations).unwrap();
    let event = commits.try_recv().ok();
    let after = store.snapshot();
    assert_eq!(check(&after), Ok(()));
    assert_eq!(result.changed, event.is_some());
    for created in result.operations.iter().flat_map(|done| &done.created) {
        assert!(after.contains(created), "{created} is not there");
    }

    let mut undone = store.begin("undo").unwrap();
    for change in result.changes.iter().rev() {
        undone.apply(change.inverse()).unwrap();
    }
    assert_eq!(image(&undone), before);
    for change in &result.changes {
        undone.apply(change.clone()).unwrap();
    }
    assert_eq!(image(&undone), image(&after));
    result
}

/// Runs operations that make no change.
pub(super) fn idle(editor: &Editor, operations: impl IntoOperations) {
    let mut transaction = editor.store().begin("idle").unwrap();
    transaction.run(operations).unwrap();
    assert_eq!(transaction.changes(), []);
}

/// The error of an operation. Nothing is changed then.
pub(super) fn refused(editor: &Editor, operations: impl IntoOperations) -> OperationError {
    let before = image(&editor.store().snapshot());
    let (version, selection) = (editor.store().version(), editor.selection());
    let error = editor.execute(operations).unwrap_err();
    assert_eq!(image(&editor.store().snapshot()), before);
    assert_eq!(editor.store().version(), version);
    assert_eq!(editor.selection(), selection);
    match error {
        TransactionError::Operation { cause, .. } => cause,
        other => panic!("{other}"),
    }
}

/// The only node that the last operation created.
pub(super) fn created(result: &TransactionResult) -> String {
    match result.operations.last().unwrap().created.as_slice() {
        [one] => one.to_string(),
        other => panic!("{other:?} were created"),
    }
}

/// The selection after operations that start with this one.
pub(super) fn selected_after(
    editor: &Editor,
    before: Selection,
    operations: impl IntoOperations,
) -> Option<Selection> {
    editor.select(before.clone()).unwrap();
    let result = done(editor, operations);
    assert_eq!(result.selection_before, Some(before));
    assert_eq!(result.selection_after, editor.selection());
    result.selection_after
}

pub(super) fn leaf(id: &str) -> NodeSpec {
    text_node("leaf", id).with_id(id)
}

pub(super) fn block(id: &str, children: impl IntoIterator<Item = NodeSpec>) -> NodeSpec {
    element("block", children).with_id(id)
}

pub(super) fn item(id: &str, children: impl IntoIterator<Item = NodeSpec>) -> NodeSpec {
    element("item", children).with_id(id)
}

pub(super) fn list(id: &str, children: impl IntoIterator<Item = NodeSpec>) -> NodeSpec {
    element("list", children).with_id(id)
}

/// A document `page[x[a b c d] y[e]]`.
fn two_blocks() -> Editor {
    let first = block("x", ["a", "b", "c", "d"].map(|id| block(id, [])));
    editor(block("page", [first, block("y", [block("e", [])])]))
}

// --- Removing ---

#[test]
fn remove_children_detaches_them_and_keeps_them() {
    let editor = two_blocks();
    let result = done(&editor, remove_children(["c", "a"]).on("x"));
    assert_eq!(page(&editor), "page[x[b d] y[e]]");
    assert!(result.operations[0].created.is_empty());
    let snapshot = editor.store().snapshot();
    for removed in ["a", "c"] {
        assert!(snapshot.contains(id(removed)));
        assert_eq!(snapshot.parent(id(removed)), None);
    }
}

#[test]
fn remove_children_leaves_the_selection_in_the_children() {
    let editor = editor(block("page", [leaf("a"), leaf("b")]));
    let caret = Selection::caret("a", 1);
    let after = selected_after(&editor, caret.clone(), remove_children(["a"]).on("page"));
    assert_eq!(after, Some(caret));
}

#[test]
fn tree_03_remove_children_names_the_id_that_is_foreign_missing_or_twice_there() {
    let editor = two_blocks();
    let why = |children: &[&str], on: &str| {
        refused(&editor, remove_children(children.to_vec()).on(on)).to_string()
    };
    assert_eq!(why(&["a", "e"], "x"), "node e is not a child of x");
    assert_eq!(why(&["a", "x"], "x"), "node x is not a child of x");
    assert_eq!(why(&["a", "missing"], "x"), "node missing does not exist");
    assert_eq!(why(&["a", "b", "a"], "x"), "node a is named twice");
    assert_eq!(why(&[], "missing"), "node missing does not exist");
    idle(&editor, remove_children::<&str>([]).on("x"));
}

// --- Moving ---

#[test]
fn move_children_keeps_the_given_order() {
    let editor = two_blocks();
    done(&editor, move_children(["d", "b"], "y", 0).on("x"));
    assert_eq!(page(&editor), "page[x[a c] y[d b e]]");
    done(&editor, move_children(["a"], "y", None).on("x"));
    assert_eq!(page(&editor), "page[x[c] y[d b e a]]");
    done(&editor, move_children(["c"], "y", 2).on("x"));
    assert_eq!(page(&editor), "page[x y[d b c e a]]");
}

#[test]
fn move_children_within_a_parent_does_not_count_them() {
    for (moved, index, expected) in [
        (&["a", "b"][..], Some(2), "c d a b"),
        (&["a", "b"], Some(1), "c a b d"),
        (&["d", "a"], Some(0), "d a b c"),
        (&["c", "a"], None, "b d c a"),
        (&["d", "c", "b", "a"], Some(0), "d c b a"),
    ] {
        let editor = two_blocks();
        done(&editor, move_children(moved.to_vec(), "x", index).on("x"));
        assert_eq!(page(&editor), format!("page[x[{expected}] y[e]]"));
    }
}

#[test]
fn move_children_refuses_invalid_children_and_positions() {
    let editor = two_blocks();
    let why = |children: &[&str], to: &str, index: Option<usize>| {
        refused(&editor, move_children(children.to_vec(), to, index).on("x")).to_string()
    };
    let twice = "node b is named twice";
    assert_eq!(why(&["a", "e"], "y", None), "node e is not a child of x");
    assert_eq!(why(&["b", "b"], "y", None), twice);
    assert_eq!(why(&["b", "b"], "x", None), twice);
    assert_eq!(why(&["q"], "y", None), "node q does not exist");
    assert_eq!(why(&["a"], "q", None), "node q does not exist");
    assert_eq!(why(&[], "q", None), "node q does not exist");
    let far = "index 2 is out of range: node y has 1 children";
    assert_eq!(why(&["a", "b"], "y", Some(2)), far);
    assert_eq!(why(&[], "y", Some(2)), far);
    let far = "index 3 is out of range: node x has 2 children";
    assert_eq!(why(&["a", "b"], "x", Some(3)), far);
    let cycle = "node b cannot move under node b, which is in its subtree";
    assert_eq!(why(&["a", "b"], "b", None), cycle);
    idle(&editor, move_children(["b", "c"], "x", 1).on("x"));
    idle(&editor, move_children::<&str>([], "y", 1).on("x"));
}

#[test]
fn move_block_swaps_the_block_with_its_neighbour() {
    let editor = two_blocks();
    done(&editor, move_block_up().on("b"));
    assert_eq!(page(&editor), "page[x[b a c d] y[e]]");
    done(&editor, move_block_down().on("a"));
    assert_eq!(page(&editor), "page[x[b c a d] y[e]]");
    done(&editor, move_block_down().on("a"));
    assert_eq!(page(&editor), "page[x[b c d a] y[e]]");
    idle(&editor, move_block_down().on("a"));
    idle(&editor, move_block_up().on("b"));
}

#[test]
fn move_block_needs_a_parent() {
    let editor = two_blocks();
    let alone = "node page has no parent, so nothing can be put beside it";
    for operation in [move_block_up(), move_block_down()] {
        let why = refused(&editor, operation.clone().on("page")).to_string();
        assert_eq!(why, alone);
        let why = refused(&editor, operation.on("q")).to_string();
        assert_eq!(why, "node q does not exist");
    }
}

#[test]
fn a_selection_goes_along_with_the_block() {
    let editor = editor(block("page", [leaf("a"), leaf("b")]));
    let caret = Selection::caret("a", 1);
    let after = selected_after(&editor, caret.clone(), move_block_down().on("a"));
    assert_eq!(after, Some(caret));
}

// --- Reordering ---

#[test]
fn reorder_children_moves_only_misplaced_children() {
    for (order, moves) in [
        (["a", "b", "c", "d"], 0),
        (["b", "c", "d", "a"], 1),
        (["d", "a", "b", "c"], 1),
        (["b", "a", "d", "c"], 2),
        (["d", "c", "b", "a"], 3),
    ] {
        let editor = two_blocks();
        let mut transaction = editor.store().begin("ann").unwrap();
        transaction.run(reorder_children(order).on("x")).unwrap();
        assert_eq!(children(&transaction, "x"), order);
        assert_eq!(transaction.changes().len(), moves, "{order:?}");
        drop(transaction);
        done(&editor, reorder_children(order).on("x"));
    }
}

#[test]
fn tree_03_reorder_children_names_the_id_that_is_foreign_missing_or_twice_there() {
    let editor = two_blocks();
    let why = |order: &[&str]| refused(&editor, reorder_children(order.to_vec()).on("x"));
    let text = |order: &[&str]| why(order).to_string();
    assert_eq!(
        text(&["a", "b", "c", "d", "e"]),
        "node e is not a child of x"
    );
    assert_eq!(text(&["a", "b", "c", "q"]), "node q does not exist");
    assert_eq!(text(&["a", "b", "c", "a"]), "node a is named twice");
    let left_out = "node c is a child of x, but the new order leaves it out";
    assert_eq!(text(&["d", "b", "a"]), left_out);
    assert!(matches!(why(&["a"]), OperationError::LeftOut { child, .. } if child == id("b")));
    assert!(matches!(why(&[]), OperationError::LeftOut { child, .. } if child == id("a")));
    let why = refused(&editor, reorder_children::<&str>([]).on("q"));
    assert_eq!(why.to_string(), "node q does not exist");
    idle(&editor, reorder_children::<&str>([]).on("a"));
}

#[test]
fn thousands_of_children_are_reversed_moved_and_removed_in_the_order_given() {
    let ids: Vec<String> = (0..2_000).map(|nth| format!("n{nth}")).collect();
    let nodes = ids.iter().map(|id| block(id, []));
    let editor = editor(block("page", [block("x", nodes), block("y", [])]));
    let reversed: Vec<&str> = ids.iter().rev().map(String::as_str).collect();
    let operations = [
        reorder_children(reversed.clone()).on("x"),
        move_children(reversed.clone(), "y", 0).on("x"),
        remove_children(reversed.clone()).on("y"),
    ];
    let mut transaction = editor.store().begin("ann").unwrap();
    let [reorder, move_all, remove] = operations;
    transaction.run(reorder).unwrap();
    assert_eq!(children(&transaction, "x"), reversed);
    transaction.run(move_all).unwrap();
    assert_eq!(children(&transaction, "y"), reversed);
    transaction.run(remove).unwrap();
    assert!(children(&transaction, "y").is_empty());
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn any_order_is_reached_and_any_part_of_it_moved(
        order in Just((0..12).collect::<Vec<usize>>()).prop_shuffle(),
        moved in 0..=12_usize,
    ) {
        let ids: Vec<String> = (0..12).map(|nth| format!("n{nth}")).collect();
        let editor = editor(block("page", ids.iter().map(|id| block(id, []))));
        let order: Vec<&str> = order.iter().map(|&nth| ids[nth].as_str()).collect();
        done(&editor, reorder_children(order.clone()).on("page"));
        prop_assert_eq!(children(&editor.store().snapshot(), "page"), order.clone());

        let mut moved = order[..moved].to_vec();
        moved.reverse();
        let operations = (create(block("y", [])), move_children(moved.clone(), "y", 0).on("page"));
        done(&editor, operations);
        prop_assert_eq!(children(&editor.store().snapshot(), "y"), moved.clone());
        let rest = &order[moved.len()..];
        prop_assert_eq!(children(&editor.store().snapshot(), "page"), rest);
    }
}

// --- Copying ---

/// `page[p[t"Hello" u] q]`, where `t` has a mark and `p` attributes.
fn rich() -> Editor {
    let text = text_node("text", "Hello").with_id("t");
    let text = text.with_marks([Mark::new("bold", 1..3)]);
    let p = block("p", [text, block("u", [])]).with_attributes([("level", json!(2))]);
    editor(block("page", [p, block("q", [])]))
}

#[test]
fn copy_node_inserts_a_copy_without_children_after_the_node() {
    let editor = rich();
    let copy = created(&done(&editor, copy_node().on("t")));
    assert_eq!(page(&editor), r#"page[p[t"Hello" <text>"Hello" u] q]"#);
    let snapshot = editor.store().snapshot();
    assert_eq!(marks(&snapshot, &copy), [(1, 3, "bold".into())]);
    let copy = created(&done(&editor, copy_node().on("p")));
    let snapshot = editor.store().snapshot();
    let copy = snapshot.node(id(&copy)).unwrap();
    assert_eq!(copy.attributes(), &Attributes::from([("level", json!(2))]));
    assert!(copy.children().is_empty());
    assert_eq!(children(&snapshot, "page")[1], copy.id().to_string());
}

#[test]
fn copy_node_to_inserts_the_copy_at_the_given_position() {
    let editor = rich();
    done(&editor, copy_node_to("p", 0).on("q"));
    assert_eq!(page(&editor), r#"page[p[<block> t"Hello" u] q]"#);
    done(&editor, copy_node_to("q", None).on("t"));
    let expected = r#"page[p[<block> t"Hello" u] q[<text>"Hello"]]"#;
    assert_eq!(page(&editor), expected);
    done(&editor, copy_node_to("u", None).on("u"));
    let expected = r#"page[p[<block> t"Hello" u[<block>]] q[<text>"Hello"]]"#;
    assert_eq!(page(&editor), expected);
}

#[test]
fn the_copy_of_a_node_without_a_parent_has_none() {
    let editor = rich();
    for (operation, outlined) in [
        (copy_node(), "<block>"),
        (
            clone_node_with_children(),
            r#"<block>[<block>[<text>"Hello" <block>] <block>]"#,
        ),
    ] {
        let result = done(&editor, operation.on("page"));
        let copy = result.operations[0].created[0].to_string();
        let snapshot = editor.store().snapshot();
        assert_eq!(snapshot.parent(id(&copy)), None);
        assert_eq!(snapshot.root(), Some(&id("page")));
        assert_eq!(outline(&snapshot, &copy), outlined);
    }
}

#[test]
fn clone_node_with_children_copies_the_subtree() {
    let editor = rich();
    let result = done(&editor, clone_node_with_children().on("p"));
    let expected = r#"page[p[t"Hello" u] <block>[<text>"Hello" <block>] q]"#;
    assert_eq!(page(&editor), expected);
    let created = &result.operations[0].created;
    let snapshot = editor.store().snapshot();
    let below: Vec<_> = snapshot.descendants(&created[0]).collect();
    assert!(
        below.iter().map(|node| node.id()).eq(created),
        "in document order"
    );
    assert_eq!(
        marks(&snapshot, &created[1].to_string()),
        [(1, 3, "bold".into())]
    );
    assert_eq!(below[0].attributes().get("level"), Some(&json!(2)));
}

#[test]
fn a_clone_can_be_inserted_into_its_original() {
    let editor = rich();
    done(&editor, clone_node_with_children_to("u", None).on("p"));
    let expected = r#"page[p[t"Hello" u[<block>[<text>"Hello" <block>]]] q]"#;
    assert_eq!(page(&editor), expected);
    done(&editor, clone_node_with_children_to("q", 0).on("q"));
    assert!(page(&editor).ends_with(" q[<block>]]"));
}

#[test]
fn a_copy_leaves_the_selection_with_the_original() {
    let editor = rich();
    let caret = Selection::caret("t", 2);
    let after = selected_after(&editor, caret.clone(), clone_node_with_children().on("p"));
    assert_eq!(after, Some(caret));
}

#[test]
fn a_copy_of_nothing_or_to_nowhere_is_refused() {
    let editor = rich();
    let copies = [copy_node(), clone_node_with_children()];
    for operation in copies {
        let why = refused(&editor, operation.on("missing")).to_string();
        assert_eq!(why, "node missing does not exist");
    }
    let copies = [
        (copy_node_to("missing", None), "node missing does not exist"),
        (
            clone_node_with_children_to("missing", None),
            "node missing does not exist",
        ),
        (
            copy_node_to("q", 1),
            "index 1 is out of range: node q has 0 children",
        ),
        (
            clone_node_with_children_to("q", 1),
            "index 1 is out of range: node q has 0 children",
        ),
    ];
    for (operation, expected) in copies {
        assert_eq!(refused(&editor, operation.on("t")).to_string(), expected);
    }
}

// --- Wrapping ---

#[test]
fn wrap_node_replaces_the_node_with_its_wrapper() {
    let editor = two_blocks();
    let result = done(&editor, wrap_node(element("quote", [])).on("b"));
    assert_eq!(page(&editor), "page[x[a <quote>[b] c d] y[e]]");
    let quote = created(&result);
    assert_eq!(editor.store().snapshot().parent(id("b")), Some(&id(&quote)));
}

#[test]
fn a_wrapper_may_bring_text_and_children_which_come_first() {
    let editor = two_blocks();
    let quote = block("quote", [leaf("by"), leaf("in")]).with_text("Said");
    let result = done(&editor, wrap_node(quote).on("y"));
    let expected = r#"page[x[a b c d] quote"Said"[by"by" in"in" y[e]]]"#;
    assert_eq!(page(&editor), expected);
    let created = &result.operations[0].created;
    assert_eq!(created, &["quote", "by", "in"].map(id));
}

#[test]
fn the_wrapper_of_a_node_without_a_parent_has_none() {
    let editor = two_blocks();
    done(&editor, remove_child("y").on("page"));
    done(&editor, wrap_node(block("quote", [])).on("y"));
    let snapshot = editor.store().snapshot();
    assert_eq!(outline(&snapshot, "quote"), "quote[y[e]]");
    assert_eq!(snapshot.parent(id("quote")), None);
}

#[test]
fn wrap_node_is_refused_for_the_root_and_for_taken_ids() {
    let editor = two_blocks();
    let why = refused(&editor, wrap_node(block("quote", [])).on("page"));
    assert!(matches!(why, OperationError::RootWrapped { .. }));
    let expected = "node page is the root of the document and cannot be wrapped";
    assert_eq!(why.to_string(), expected);
    let why = |node| refused(&editor, wrap_node(node).on("b")).to_string();
    assert_eq!(why(block("c", [])), "node c exists already");
    assert_eq!(why(block("b", [])), "node b exists already");
    assert_eq!(why(block("n", [block("n", [])])), "node n exists already");
    let why = refused(&editor, wrap_node(block("quote", [])).on("missing"));
    assert_eq!(why.to_string(), "node missing does not exist");
}

// --- Lifting ---

#[test]
fn lift_node_splits_the_parent_around_the_node() {
    for (node, expected) in [
        ("a", "page[a x[b c d] y[e]]"),
        ("b", "page[x[a] b <block>[c d] y[e]]"),
        ("c", "page[x[a b] c <block>[d] y[e]]"),
        ("d", "page[x[a b c] d y[e]]"),
        ("e", "page[x[a b c d] e]"),
    ] {
        let editor = two_blocks();
        done(&editor, lift_node().on(node));
        assert_eq!(page(&editor), expected, "{node}");
    }
}

#[test]
fn a_parent_with_text_keeps_it_and_stays() {
    let line = |children| {
        let item = item("i", children).with_text("ab");
        item.with_attributes([("done", json!(true))])
    };
    let only = editor(block("page", [line(vec![leaf("x")])]));
    done(&only, lift_node().on("x"));
    assert_eq!(page(&only), r#"page[i"ab" x"x"]"#);

    let amidst = editor(block("page", [line(vec![leaf("x"), leaf("y"), leaf("z")])]));
    let rest = created(&done(&amidst, lift_node().on("y")));
    let expected = r#"page[i"ab"[x"x"] y"y" <item>[z"z"]]"#;
    assert_eq!(page(&amidst), expected);
    let snapshot = amidst.store().snapshot();
    let rest = snapshot.node(id(&rest)).unwrap();
    assert_eq!(rest.attributes().get("done"), Some(&json!(true)));
}

#[test]
fn lift_node_needs_a_grandparent() {
    let editor = two_blocks();
    for node in ["page", "x"] {
        let why = refused(&editor, lift_node().on(node));
        assert!(matches!(&why, OperationError::NoGrandparent { id: of } if *of == id(node)));
    }
    let why = refused(&editor, lift_node().on("x")).to_string();
    let expected = "node x has no grandparent, so nothing can be put beside its parent";
    assert_eq!(why, expected);
    let why = refused(&editor, lift_node().on("missing")).to_string();
    assert_eq!(why, "node missing does not exist");
}

#[test]
fn the_selection_follows_a_lifted_node_and_goes_with_a_parent_that_goes() {
    let nested = || editor(block("page", [block("p", [leaf("t")])]));
    let caret = Selection::caret("t", 1);
    let after = selected_after(&nested(), caret.clone(), lift_node().on("t"));
    assert_eq!(after, Some(caret));
    let after = selected_after(&nested(), Selection::node("p"), lift_node().on("t"));
    assert_eq!(after, None);
}

// --- Indenting ---

/// `page[l[a b c]]`, a list of items.
fn flat_list() -> Editor {
    let items = ["a", "b", "c"].map(|id| item(id, []));
    editor(block("page", [list("l", items)]))
}

#[test]
fn indent_node_without_a_container_goes_into_the_previous_sibling() {
    let editor = two_blocks();
    done(&editor, indent_node().on("b"));
    assert_eq!(page(&editor), "page[x[a[b] c d] y[e]]");
    done(&editor, indent_node().on("c"));
    assert_eq!(page(&editor), "page[x[a[b c] d] y[e]]");
    done(&editor, indent_node().on("y"));
    assert_eq!(page(&editor), "page[x[a[b c] d y[e]]]");
    idle(&editor, indent_node().on("x"));
    idle(&editor, indent_node_in(list("n", [])).on("a"));
}

#[test]
fn indent_node_appends_to_an_existing_nested_list() {
    let editor = flat_list();
    let result = done(&editor, indent_node_in(list("n", [])).on("b"));
    assert_eq!(created(&result), "n");
    assert_eq!(page(&editor), "page[l[a[n[b]] c]]");
    let result = done(&editor, indent_node_in(list("m", [])).on("c"));
    assert!(result.operations[0].created.is_empty());
    assert_eq!(page(&editor), "page[l[a[n[b c]]]]");
    done(&editor, indent_node_in(list("m", [leaf("t")])).on("c"));
    assert_eq!(page(&editor), r#"page[l[a[n[b[m[t"t" c]]]]]]"#);

    let editor = flat_list();
    done(&editor, indent_node_in(list("n", [])).on("b"));
    done(&editor, indent_node().on("c"));
    assert_eq!(page(&editor), "page[l[a[n[b c]]]]");
}

#[test]
fn nested_lists_may_be_of_another_type_than_the_outermost() {
    let editor = flat_list();
    let numbered = |id: &str| element("numbered", []).with_id(id);
    done(&editor, indent_node_in(numbered("n")).on("b"));
    done(&editor, indent_node_in(numbered("m")).on("c"));
    assert_eq!(page(&editor), "page[l[a[n[b c]]]]");
}

#[test]
fn indent_node_is_refused_without_a_parent_and_for_taken_ids() {
    let editor = flat_list();
    let why = |operation| refused(&editor, operation).to_string();
    let alone = "node page has no parent, so nothing can be put beside it";
    assert_eq!(why(indent_node().on("page")), alone);
    assert_eq!(
        why(indent_node().on("missing")),
        "node missing does not exist"
    );
    let taken = indent_node_in(list("c", []));
    assert_eq!(why(taken.on("b")), "node c exists already");
}

#[test]
fn outdent_node_reverses_indent_node() {
    let editor = two_blocks();
    let before = page(&editor);
    for node in ["b", "c", "y"] {
        done(&editor, indent_node().on(node));
    }
    for node in ["y", "c", "b"] {
        done(&editor, outdent_node().on(node));
    }
    assert_eq!(page(&editor), before);

    let editor = flat_list();
    for node in ["b", "c", "c"] {
        done(&editor, indent_node_in(element("list", [])).on(node));
    }
    assert_eq!(page(&editor), "page[l[a[<list>[b[<list>[c]]]]]]");
    for node in ["c", "c", "b"] {
        done(&editor, outdent_node().on(node));
    }
    assert_eq!(page(&editor), "page[l[a b c]]");
}

#[test]
fn outdent_node_takes_its_later_siblings_along() {
    let editor = two_blocks();
    done(&editor, outdent_node().on("b"));
    assert_eq!(page(&editor), "page[x[a] b[c d] y[e]]");

    let nested = ["b", "c", "d"].map(|id| item(id, []));
    let numbered = list("n", nested).with_attributes([("start", json!(3))]);
    let editor = self::editor(block(
        "page",
        [list("l", [item("a", [numbered]), item("e", [])])],
    ));
    let rest = created(&done(&editor, outdent_node().on("c")));
    assert_eq!(page(&editor), "page[l[a[n[b]] c[<list>[d]] e]]");
    let snapshot = editor.store().snapshot();
    let rest = snapshot.node(id(&rest)).unwrap();
    assert_eq!(rest.attributes().get("start"), Some(&json!(3)));
    done(&editor, outdent_node().on("b"));
    assert_eq!(page(&editor), "page[l[a b c[<list>[d]] e]]");
}

#[test]
fn outdent_node_appends_later_siblings_to_its_last_nested_list() {
    let b = item("b", [list("m", [item("c", [])])]);
    let n = list("n", [b, item("d", []), item("e", [])]);
    let editor = editor(block("page", [list("l", [item("a", [n])])]));
    let result = done(&editor, outdent_node().on("b"));
    assert!(result.operations[0].created.is_empty());
    assert_eq!(page(&editor), "page[l[a b[m[c d e]]]]");
}

#[test]
fn a_nested_list_with_text_stays_after_its_last_item_leaves() {
    let n = list("n", [item("b", [])]).with_text("title");
    let editor = editor(block("page", [list("l", [item("a", [n])])]));
    done(&editor, outdent_node().on("b"));
    assert_eq!(page(&editor), r#"page[l[a[n"title"] b]]"#);
}

#[test]
fn outdent_node_is_refused_without_a_grandparent() {
    let editor = two_blocks();
    let why = refused(&editor, outdent_node().on("x"));
    assert!(matches!(why, OperationError::NoGrandparent { .. }));
    let why = refused(&editor, outdent_node().on("missing")).to_string();
    assert_eq!(why, "node missing does not exist");

    let editor = self::editor(item("page", [list("l", [item("a", [])])]));
    let why = refused(&editor, outdent_node().on("a"));
    assert!(matches!(
        why,
        OperationError::Edit(EditError::NoParent { .. })
    ));
}

#[test]
fn a_caret_stays_in_an_item_that_is_indented_and_outdented() {
    let items = ["a", "b"].map(|id| item(id, []).with_text("text"));
    let editor = editor(block("page", [list("l", items)]));
    let caret = Selection::caret("b", 2);
    let nested = indent_node_in(list("n", [])).on("b");
    let after = selected_after(&editor, caret.clone(), nested);
    assert_eq!(after.as_ref(), Some(&caret));
    let after = selected_after(&editor, Selection::node("n"), outdent_node().on("b"));
    assert_eq!(after, None, "the list went");
}

// --- Depth, and the JSON form ---

#[test]
fn a_hundred_thousand_levels_are_copied_wrapped_and_lifted() {
    let mut deep = leaf("t");
    for _ in 0..100_000 {
        deep = element("level", [deep]);
    }
    let editor = editor(block("page", [block("x", [deep])]));
    let operations = [
        clone_node_with_children().on("x"),
        wrap_node(element("quote", [])).on("t"),
        lift_node().on("t"),
        outdent_node().on("t"),
        move_block_up().on("t"),
    ];
    editor.execute(operations).unwrap();
    assert_eq!(editor.store().snapshot().len(), 200_005);
}

#[test]
fn transaction_04_the_operations_on_the_tree_run_from_json() {
    let editor = two_blocks();
    let script = r#"[
        {"type": "removeChildren", "payload": {"nodeId": "x", "childIds": ["d"]}},
        {"type": "moveChildren", "payload": {"nodeId": "y", "childIds": ["e"], "parentId": "x", "index": 1}},
        {"type": "moveBlockUp", "payload": {"nodeId": "c"}},
        {"type": "moveBlockDown", "payload": {"nodeId": "a"}},
        {"type": "reorderChildren", "payload": {"nodeId": "x", "childIds": ["c", "b", "e", "a"]}},
        {"type": "copyNode", "payload": {"nodeId": "b", "parentId": "y"}},
        {"type": "copyNode", "payload": {"nodeId": "b", "index": 0}, "alias": "copy"},
        {"type": "moveBlockDown", "payload": {"nodeId": {"alias": "copy"}}},
        {"type": "cloneNodeWithChildren", "payload": {"nodeId": "y"}},
        {"type": "wrapNode", "payload": {"nodeId": "b", "node": {"type": "quote", "id": "q"}}},
        {"type": "liftNode", "payload": {"nodeId": "q"}},
        {"type": "indentNode", "payload": {"nodeId": "a", "container": {"type": "list", "id": "l"}}},
        {"type": "indentNode", "payload": {"nodeId": "y"}},
        {"type": "outdentNode", "payload": {"nodeId": "y"}}
    ]"#;
    done(&editor, parse_operations(script).unwrap());
    let expected = "page[x[c <block>] q[b] <block>[e[l[a]]] y[<block>] <block>[<block>]]";
    assert_eq!(page(&editor), expected);
    assert_eq!(text(&editor.store().snapshot(), "d"), "");

    let lone = r#"{"type": "copyNode", "payload": {"nodeId": "page", "index": 0}}"#;
    let why = refused(&editor, parse_operations(lone).unwrap());
    assert!(matches!(
        why,
        OperationError::Edit(EditError::NoParent { .. })
    ));
}
