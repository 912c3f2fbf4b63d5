//! Undo in lists of children that others change, too.

use std::time::Duration;

use doclock::{
    DataStore, Draft, Editor, TransactionManager,
    document::SplitPoint,
    dsl::*,
    history::HistoryOptions,
    transaction::{Operation, TextSpan},
};

use super::{editor_of, run};
use crate::common::{self, forget, record, store};

/// Ann and Bob, and two lists under one parent.
fn two(lists: [&[&'static str]; 2]) -> [Editor; 2] {
    let ann = editor_of(&store(), "");
    let bob = Editor::new(ann.store().clone(), "bob");
    let mut names = ["list", "next"].into_iter();
    let lists = lists.map(|items| {
        let items = items.iter().map(|id| item(id));
        element("list", items).with_id(names.next().unwrap())
    });
    run(&bob, create(element("page", lists).with_id("page")));
    [ann, bob]
}

fn item(id: &'static str) -> doclock::document::NodeSpec {
    element("item", []).with_id(id)
}

fn put(editor: &Editor, id: &'static str, list: &str, at: usize) {
    run(editor, add_child(item(id), at).on(list));
}

fn children(editor: &Editor, list: &str) -> String {
    common::children(&editor.store().snapshot(), list).concat()
}

#[test]
fn undo_03_positions_in_a_list_ignore_undone_edits() {
    let [ann, bob] = two([&["a", "b", "c"], &[]]);
    run(&ann, delete_node().on("c"));
    put(&ann, "x", "list", 0);
    put(&ann, "y", "list", 0);
    put(&bob, "n", "list", 3);
    assert_eq!(children(&ann, "list"), "yxanb");
    for _ in 0..3 {
        ann.undo().commit().unwrap();
    }
    assert_eq!(children(&ann, "list"), "anbc");
}

#[test]
fn undo_03_a_node_moves_back_to_an_index_that_does_not_count_it() {
    let [ann, bob] = two([&["a", "b", "c", "d"], &[]]);
    run(&ann, move_node("list", 0).on("c"));
    put(&bob, "n", "list", 2);
    assert_eq!(children(&ann, "list"), "canbd");
    ann.undo().commit().unwrap();
    assert_eq!(children(&ann, "list"), "anbcd");
}

#[test]
fn undo_03_insertions_by_others_into_joined_lists_survive_the_split() {
    let [ann, bob] = two([&["a", "b"], &["c", "x", "d"]]);
    run(&ann, delete_node().on("x"));
    let join = |on: &mut Draft| on.join_nodes("list", "next");
    run(&ann, op(join));
    put(&bob, "n", "list", 2);
    ann.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!(children(&ann, "list"), "abn");
    assert_eq!(children(&ann, "next"), "cxd");
}

#[test]
fn undo_03_insertions_by_others_into_a_split_half_survive_the_join() {
    let [ann, bob] = two([&["a", "b", "c", "x"], &[]]);
    run(&ann, delete_node().on("x"));
    let cut = |on: &mut Draft| {
        let at = SplitPoint {
            text: 0,
            children: 2,
        };
        on.split_node("list", at, None).map(drop)
    };
    run(&ann, op(cut));
    let snapshot = ann.store().snapshot();
    let half = doclock::View::node(&snapshot, "c").unwrap();
    let half = half.parent().unwrap().to_string();
    put(&bob, "n", &half, 0);
    ann.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!(children(&ann, "list"), "abncx");
}

/// What stays in the wrapper of another editor has its place before `b`.
fn wrapped() -> [Editor; 2] {
    let [ann, bob] = two([&["a", "b", "c"], &[]]);
    run(&ann, wrap_node(element("box", []).with_id("box")).on("b"));
    put(&bob, "x", "box", 0);
    [ann, bob]
}

/// `y` was behind `b`, and `x` before it: `b` cannot be outside of the wrapper of both.
#[test]
fn undo_03_a_node_stays_in_a_wrapper_with_content_of_others_on_both_sides() {
    let [ann, bob] = wrapped();
    put(&bob, "y", "box", 2);
    assert!(ann.undo().commit().is_err());
    bob.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    let both = || [children(&ann, "list"), children(&ann, "box")];
    assert_eq!(both(), ["aboxbc", "x"]);
    bob.redo().commit().unwrap();
    assert_eq!(both(), ["aboxc", "xby"]);
    ann.redo().commit().unwrap();
    assert_eq!(both(), ["aboxc", "xby"]);
    bob.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!(both(), ["aboxbc", "x"]);
    bob.undo().commit().unwrap();
    assert_eq!(children(&ann, "list"), "abc");
}

#[test]
fn undo_03_what_is_put_into_a_wrapper_before_its_node_is_before_it_when_the_wrapper_returns() {
    let [ann, bob] = wrapped();
    ann.undo().commit().unwrap();
    put(&bob, "z", "box", 1);
    let both = || [children(&ann, "list"), children(&ann, "box")];
    assert_eq!(both(), ["aboxbc", "xz"]);
    ann.redo().commit().unwrap();
    assert_eq!(both(), ["aboxc", "xzb"]);
    ann.undo().commit().unwrap();
    assert_eq!(both(), ["aboxbc", "xz"]);
}

/// Ann joins `b` to `a`, Bob `a` to `b`. The later join counts, whichever is redone first.
#[test]
fn undo_03_of_two_joins_in_opposite_directions_the_later_one_counts() {
    for is_first_last in [false, true] {
        let [ann, bob] = two([&[], &[]]);
        let texts = [("a", "1"), ("b", "2")].map(|(id, text)| text_node("item", text).with_id(id));
        for text in texts {
            run(&bob, add_child(text, None).on("list"));
        }
        let join = |one: &'static str, other: &'static str| {
            op(move |on: &mut Draft| on.join_nodes(one, other))
        };
        let all = || {
            let document = ann.store().snapshot();
            let texts = common::children(&document, "list").into_iter();
            let texts = texts.map(|id| format!("{id}{}", common::text(&document, &id)));
            texts.collect::<String>()
        };
        run(&ann, join("a", "b"));
        ann.undo().commit().unwrap();
        run(&bob, move_node("list", 0).on("b"));
        run(&bob, join("b", "a"));
        assert_eq!(all(), "b21");
        if is_first_last {
            ann.redo().commit().unwrap();
            assert_eq!(all(), "b21");
            bob.undo().commit().unwrap();
            assert_eq!(all(), "a12");
        } else {
            bob.undo().commit().unwrap();
            ann.redo().commit().unwrap();
            assert_eq!(all(), "a12");
        }
        bob.redo().commit().unwrap();
        assert_eq!(all(), "b21");
        ann.undo().commit().unwrap();
        assert_eq!(all(), "b21");
        bob.undo().commit().unwrap();
        assert_eq!(all(), "b2a1");
    }
}

/// The wrapper of Bob is ordered again when `b` leaves another wrapper, that of Ann.
#[test]
fn undo_03_a_wrapper_with_content_of_others_is_behind_a_node_that_leaves_another_wrapper() {
    let [ann, bob] = two([&["a", "b", "c"], &[]]);
    let carl = Editor::new(ann.store().clone(), "carl");
    let wrap = |id: &'static str| wrap_node(element("box", []).with_id(id)).on("b");
    run(&ann, wrap("q"));
    ann.undo().commit().unwrap();
    run(&bob, wrap("w"));
    put(&carl, "x", "w", 1);
    ann.redo().commit().unwrap();
    bob.undo().commit().unwrap();
    assert_eq!(children(&ann, "list"), "aqwc");
    ann.undo().commit().unwrap();
    assert_eq!(children(&ann, "list"), "abwc");
}

/// The old place of `m`, which is in the left half now, is behind `q`.
#[test]
fn undo_03_a_deleted_node_behind_a_split_one_returns_behind_both_halves() {
    let [ann, bob] = two([&["u", "q", "m"], &[]]);
    run(&ann, move_node("u", 0).on("m"));
    run(&bob, delete_node().on("q"));
    let cut = |on: &mut Draft| {
        let at = SplitPoint {
            text: 0,
            children: 1,
        };
        on.split_node("u", at, None).map(drop)
    };
    run(&ann, op(cut));
    let half = common::children(&ann.store().snapshot(), "list")[1].clone();
    bob.undo().commit().unwrap();
    assert_eq!(children(&ann, "list"), format!("u{half}q"));
}

/// The half that Cat undid can no longer come back, so the list goes behind the item that it
/// wrapped, whether the half is recorded or not.
#[test]
fn undo_03_a_wrapper_goes_past_what_never_comes_back() {
    for is_recorded in [false, true] {
        let ([ann, cat], store) = editors_of(["ann", "cat"], &["a", "b", "c"]);
        let act = |editor: &Editor, operation: Operation| {
            run(editor, operation);
            if is_recorded {
                record(&store);
            }
        };
        let wrapper = (
            element("list", []).with_id("u"),
            element("entry", []).with_id("v"),
        );
        act(&ann, wrap_in_list(wrapper.0, wrapper.1).on("b"));
        act(&ann, split_text_node(0).on("b"));
        let half = common::children(&store.snapshot(), "v")[1].clone();
        act(
            &ann,
            add_child(text_node("item", "n").with_id("n"), 0).on("u"),
        );
        act(&cat, insert_paragraph(0).on("n"));
        cat.undo().commit().unwrap();
        act(&cat, wrap_node(element("quote", []).with_id("q")).on(half));
        ann.undo().commit().unwrap();
        cat.undo().commit().unwrap();
        ann.undo().commit().unwrap();
        ann.undo().commit().unwrap();
        assert_eq!(children(&ann, "list"), "abc");
        cat.redo().commit().unwrap();
        assert_eq!(children(&ann, "list"), "abuc", "recorded: {is_recorded}");
    }
}

/// Cat has undone a split and a join of its halves when Ann splits the item in the same place. Then
/// Cat redoes the split, so the half of Cat is between those of Ann. Returns the two right halves.
fn split_twice(cat: &Editor, ann: &Editor, is_recorded: bool) -> [String; 2] {
    let store = cat.store();
    let act = |editor: &Editor, operation: Operation| {
        run(editor, operation);
        if is_recorded {
            record(store);
        }
    };
    let second = || common::children(&store.snapshot(), "list")[1].to_string();
    act(cat, splits("def", 1));
    let half = second();
    act(cat, joins("def", &half));
    cat.undo().commit().unwrap();
    cat.undo().commit().unwrap();
    act(ann, splits("def", 1));
    let other = second();
    cat.redo().commit().unwrap();
    [half, other]
}

#[test]
fn undo_03_the_undo_of_a_join_leaves_the_text_in_the_half_of_another_split() {
    for is_recorded in [false, true] {
        let ([cat, ann], store) = editors_of(["cat", "ann"], &["def"]);
        let [half, other] = split_twice(&cat, &ann, is_recorded);
        let apart = format!("def=d {half}= {other}=ef");
        assert_eq!(shown(&store), apart, "recorded: {is_recorded}");
        cat.redo().commit().unwrap();
        let joined = format!("def=d {other}=ef");
        assert_eq!(shown(&store), joined, "recorded: {is_recorded}");
        cat.undo().commit().unwrap();
        assert_eq!(shown(&store), apart, "recorded: {is_recorded}");
    }
}

#[test]
fn undo_03_a_redone_join_leaves_its_text_before_the_half_of_another_split() {
    for is_recorded in [false, true] {
        let ([cat, ann], store) = editors_of(["cat", "ann"], &["def"]);
        let [half, other] = split_twice(&cat, &ann, is_recorded);
        run(&ann, insert_text(0, "x").on(half.as_str()));
        let apart = format!("def=d {half}=x {other}=ef");
        assert_eq!(shown(&store), apart, "recorded: {is_recorded}");
        cat.redo().commit().unwrap();
        let joined = format!("def=dx {other}=ef");
        assert_eq!(shown(&store), joined, "recorded: {is_recorded}");
        cat.undo().commit().unwrap();
        assert_eq!(shown(&store), apart, "recorded: {is_recorded}");
    }
}

/// The items of the first list with their texts.
fn shown(store: &DataStore) -> String {
    shown_in(store, "list")
}

fn shown_in(store: &DataStore, list: &str) -> String {
    let view = store.snapshot();
    let ids = common::children(&view, list);
    let items = ids
        .iter()
        .map(|id| format!("{id}={}", common::text(&view, id)));
    items.collect::<Vec<_>>().join(" ")
}

/// Editors of a list of items, each with its id as its text, and the store.
fn editors_of<const N: usize>(names: [&str; N], ids: &[&'static str]) -> ([Editor; N], DataStore) {
    let store = store();
    let editors = names.map(|name| Editor::new(store.clone(), name));
    let items = ids.iter().map(|id| text_node("item", *id).with_id(*id));
    let setup = Editor::new(store.clone(), "setup");
    run(&setup, create(element("list", items).with_id("list")));
    (editors, store)
}

fn splits(id: &str, text: usize) -> Operation {
    let (id, at) = (id.to_owned(), SplitPoint { text, children: 0 });
    op(move |on: &mut Draft| on.split_node(&*id, at, None).map(drop))
}

fn joins(one: &str, other: &str) -> Operation {
    let [one, other] = [one, other].map(str::to_owned);
    op(move |on: &mut Draft| on.join_nodes(&*one, &*other))
}

/// Divides the first list before the child at an index.
fn divides(children: usize) -> Operation {
    let at = SplitPoint { text: 0, children };
    op(move |on: &mut Draft| on.split_node("list", at, None).map(drop))
}

/// Ann joins `b` to `a`, and Bob `c` to both. Without the first join, `c` follows `b`.
#[test]
fn undo_03_a_node_that_was_joined_to_a_joined_one_stays_with_it() {
    let ([ann, bob], store) = editors_of(["ann", "bob"], &["a", "b", "c"]);
    let shown = || shown(&store);
    run(&ann, joins("a", "b"));
    run(&bob, joins("a", "c"));
    assert_eq!(shown(), "a=abc");
    ann.undo().commit().unwrap();
    assert_eq!(shown(), "a=a b=bc");
    bob.undo().commit().unwrap();
    assert_eq!(shown(), "a=a b=b c=c");
    ann.redo().commit().unwrap();
    assert_eq!(shown(), "a=ab c=c");
    bob.redo().commit().unwrap();
    assert_eq!(shown(), "a=abc");
    bob.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    bob.redo().commit().unwrap();
    assert_eq!(shown(), "a=a b=bc");
}

/// Ann joins `b` to `a` and undoes that, Cat deletes `b`, and Bob joins `c` to `a`. When all of
/// them are in effect but the deletion, `c` is behind `b`. Once it was before it.
#[test]
fn undo_03_joined_nodes_keep_their_order_when_an_earlier_join_returns() {
    let ([ann, bob, cat], store) = editors_of(["ann", "bob", "cat"], &["a", "b", "c"]);
    let shown = || shown(&store);
    run(&ann, joins("a", "b"));
    ann.undo().commit().unwrap();
    run(&cat, delete_node().on("b"));
    run(&bob, joins("a", "c"));
    assert_eq!(shown(), "a=ac");
    bob.undo().commit().unwrap();
    cat.undo().commit().unwrap();
    assert_eq!(shown(), "a=a b=b c=c");
    ann.redo().commit().unwrap();
    assert_eq!(shown(), "a=ab c=c");
    bob.redo().commit().unwrap();
    assert_eq!(shown(), "a=abc");
    ann.undo().commit().unwrap();
    bob.undo().commit().unwrap();
    assert_eq!(shown(), "a=a b=b c=c");
}

/// Ann joins `bc` to `a`, Bob splits that within `bc`, and Cat joins `d` to the half. The three are
/// undone and redone in any order.
#[test]
fn undo_03_a_node_that_was_joined_to_a_half_of_a_joined_one_stays_with_that_half() {
    for [first, second, third] in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        let (editors, store) = editors_of(["ann", "bob", "cat"], &["a", "bc", "d"]);
        let [ann, bob, cat] = &editors;
        let first_document = shown(&store);
        run(ann, joins("a", "bc"));
        run(bob, splits("a", 2));
        let half = common::children(&store.snapshot(), "list")[1].clone();
        let left = half.clone();
        run(cat, op(move |on: &mut Draft| on.join_nodes(&*left, "d")));
        let all = format!("a=ab {half}=cd");
        assert_eq!(shown(&store), all);
        for editor in [cat, bob, ann] {
            editor.undo().commit().unwrap();
        }
        assert_eq!(shown(&store), first_document);
        for nth in [first, second, third] {
            editors[nth].redo().commit().unwrap();
        }
        assert_eq!(shown(&store), all, "{first} {second} {third}");
        for editor in [cat, ann, bob] {
            editor.undo().commit().unwrap();
        }
        assert_eq!(shown(&store), first_document);
    }
}

/// A split keeps the node, which stayed only for the letter that the split moves to the half.
#[test]
fn undo_03_a_node_that_is_split_while_it_stays_for_others_stays_with_the_split() {
    let ([ann, bob], store) = editors_of(["ann", "bob"], &["a", "b"]);
    let shown = || shown(&store);
    run(&ann, insert_text(0, "x").on("a"));
    ann.undo().commit().unwrap();
    run(&bob, delete_node().on("a"));
    ann.redo().commit().unwrap();
    assert_eq!(shown(), "a=x b=b");
    run(&bob, splits("a", 0));
    let all = shown();
    bob.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!(shown(), "b=b");
    bob.redo().commit().unwrap();
    ann.redo().commit().unwrap();
    assert_eq!(shown(), all);
}

/// Ann splits `a` and deletes the letter of the half, and Cat joins `b` to `a` by a deletion over
/// both. Of these only the deletion is redone.
#[test]
fn undo_03_text_of_a_deleted_half_returns_before_a_node_that_was_joined_over_it() {
    let ([ann, cat], store) = editors_of(["ann", "cat"], &["a", "b"]);
    let shown = || shown(&store);
    run(&ann, splits("a", 0));
    let half = common::children(&store.snapshot(), "list")[1].clone();
    let letter = half.clone();
    run(
        &ann,
        op(move |on: &mut Draft| on.replace_text(&*letter, 0..1, "")),
    );
    run(
        &cat,
        delete_range(doclock::transaction::TextSpan::to(0, "b", 0)).on("a"),
    );
    assert_eq!(shown(), "a=b");
    cat.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!(shown(), "a=a b=b");
    cat.redo().commit().unwrap();
    assert_eq!(shown(), "a=ab");
    ann.redo().commit().unwrap();
    ann.redo().commit().unwrap();
    assert_eq!(shown(), "a=b");
}

/// Ann wraps `a` in `q` and splits it in one entry, which is forgotten. When the wrapping in `r` is
/// undone, the half stays in `q`, although it was once outside, beside the place of `a` there.
#[test]
fn undo_03_a_half_stays_with_its_left_half_when_an_earlier_place_is_forgotten() {
    let store = store();
    let options = HistoryOptions::new()
        .limit(1)
        .group_interval(Duration::ZERO);
    let bob = Editor::new(store.clone(), "bob").with_history(options);
    let ann = Editor::new(store.clone(), "ann");
    let item = text_node("item", "a").with_id("a");
    let list = element("list", [item]).with_id("list");
    let setup = Editor::new(store.clone(), "setup");
    run(&setup, create(list));
    drop(setup);
    let entry = [
        wrap_node(element("quote", []).with_id("q")).on("a"),
        splits("a", 0),
    ];
    transaction(&bob, entry).commit().unwrap();
    record(&store);
    let half = common::children(&store.snapshot(), "q")[1].clone();
    run(&ann, set_attrs([("x", 1.into())]).on("list"));
    bob.undo().commit().unwrap();
    bob.redo().commit().unwrap();
    run(&bob, set_attrs([("y", 1.into())]).on("list"));
    run(&ann, wrap_node(element("quote", []).with_id("r")).on("a"));
    forget(&store);
    ann.undo().commit().unwrap();
    assert_eq!(children(&ann, "q"), format!("a{half}"));
    ann.redo().commit().unwrap();
    assert_eq!(children(&ann, "q"), format!("r{half}"));
}

/// Bob splits `h` a second time after he has undone the first split, and Ann joins `h` to its new
/// half. Without that split, the half stays for `h`: the one of the first split does not return.
#[test]
fn undo_03_a_half_of_an_undone_split_does_not_return_for_a_join_to_a_later_half() {
    let ([ann, bob], store) = editors_of(["ann", "bob"], &["g", "h"]);
    let shown = || shown(&store);
    run(&bob, splits("h", 0));
    put(&ann, "m", "list", 3);
    bob.undo().commit().unwrap();
    run(&bob, splits("h", 0));
    let half = common::children(&store.snapshot(), "list")[2].clone();
    run(&ann, move_node("list", 3).on("h"));
    let to_h = doclock::transaction::TextSpan::to(0, "h", 0);
    run(&ann, delete_range(to_h).on(half.as_str()));
    bob.undo().commit().unwrap();
    assert_eq!(shown(), format!("g=g {half}="));
    for _ in 0..3 {
        ann.undo().commit().unwrap();
    }
    assert_eq!(shown(), "g=g h=h");
    for _ in 0..3 {
        ann.redo().commit().unwrap();
    }
    assert_eq!(shown(), format!("g=g {half}="));
}

/// Ann joins a node to its right half, and Bob undoes the split: the half has both texts as long as
/// the node is joined to it. Before or after the join, `other` splits one of the two once more, and
/// undoes that.
fn half_with_both_texts(other: impl Fn(&Editor, &str), is_before: bool) {
    let ([ann, bob, cat], store) = editors_of(["ann", "bob", "cat"], &["hijk"]);
    run(&bob, splits("hijk", 3));
    let half = common::children(&store.snapshot(), "list")[1].clone();
    if is_before {
        other(&cat, "hijk");
    }
    run(&ann, move_node("list", 1).on("hijk"));
    let (left, right) = (half.clone(), "hijk");
    run(&ann, op(move |on: &mut Draft| on.join_nodes(&*left, right)));
    assert_eq!(shown(&store), format!("{half}=khij"));
    if !is_before {
        other(&cat, &half);
    }
    bob.undo().commit().unwrap();
    assert_eq!(shown(&store), format!("{half}=khij"));
    ann.undo().commit().unwrap();
    assert_eq!(shown(&store), "hijk=hijk");
    ann.redo().commit().unwrap();
    assert_eq!(shown(&store), format!("{half}=khij"));
}

#[test]
fn undo_03_a_half_that_its_own_left_half_was_joined_to_stays_with_both_texts() {
    let split = |at: usize| {
        move |cat: &Editor, id: &str| {
            run(cat, splits(id, at));
            cat.undo().commit().unwrap();
        }
    };
    half_with_both_texts(split(1), true);
    half_with_both_texts(split(2), false);
}

/// Ann splits `xy` twice, Bob moves the second half behind the first one, and Cat joins it to that.
/// The first half goes with its split only when the join is undone: until then, its own edge is in
/// it.
#[test]
fn undo_03_a_half_to_which_its_own_edge_was_joined_goes_when_that_is_joined_elsewhere() {
    let ([ann, bob, cat], store) = editors_of(["ann", "bob", "cat"], &["xy", "z"]);
    let half = || common::children(&store.snapshot(), "list")[1].clone();
    run(&ann, splits("xy", 0));
    let first = half();
    run(&ann, splits("xy", 0));
    let second = half();
    run(&bob, move_node("list", 2).on(second.as_str()));
    let left = first.clone();
    run(
        &cat,
        op(move |on: &mut Draft| on.join_nodes(&*left, &*second)),
    );
    assert_eq!(shown(&store), format!("xy= {first}=xy z=z"));
    for editor in [&ann, &bob, &ann, &cat] {
        editor.undo().commit().unwrap();
    }
    assert_eq!(shown(&store), "xy=xy z=z");
    for editor in [&ann, &ann, &bob, &cat] {
        editor.redo().commit().unwrap();
    }
    assert_eq!(shown(&store), format!("xy= {first}=xy z=z"));
}

/// Ann divides the list at the start of `abc` and undoes that, Bob divides it within `abc`, and Cat
/// splits what is left of `abc`. The half of Cat is in the list of Ann when that returns.
#[test]
fn undo_03_the_half_of_an_undone_split_stays_in_the_list_with_the_text_that_it_had() {
    let [ann, bob] = two([&[], &[]]);
    let cat = Editor::new(ann.store().clone(), "cat");
    for text in ["d", "abc"] {
        run(
            &bob,
            add_child(text_node("item", text).with_id(text), 0).on("list"),
        );
    }
    let texts = || {
        let view = ann.store().snapshot();
        let lists = common::children(&view, "page").into_iter();
        let lists = lists.map(|list| {
            let items = common::children(&view, &list).into_iter();
            items
                .map(|id| common::text(&view, &id))
                .collect::<Vec<_>>()
                .join(" ")
        });
        lists.collect::<Vec<_>>()
    };
    run(&ann, insert_paragraph(0).on("abc"));
    ann.undo().commit().unwrap();
    run(&bob, insert_paragraph(2).on("abc"));
    run(&cat, splits("abc", 1));
    assert_eq!(texts(), ["a b", "c d", ""]);
    ann.redo().commit().unwrap();
    assert_eq!(texts(), ["", "a b", "c d", ""]);
    ann.undo().commit().unwrap();
    assert_eq!(texts(), ["a b", "c d", ""]);
    bob.undo().commit().unwrap();
    ann.redo().commit().unwrap();
    assert_eq!(texts(), ["", "a bc d", ""]);
}

/// Cat wraps `a` and begins a paragraph in it, and Ann splits `a` and wraps the paragraph. Without
/// its creation, the wrapper has only the paragraph: it is behind both halves of `a`.
#[test]
fn undo_03_a_wrapper_that_stays_for_others_is_behind_the_halves_of_the_node_that_has_left_it() {
    let ([ann, cat], store) = editors_of(["ann", "cat"], &["a"]);
    let ids = |list: &str| common::children(&store.snapshot(), list);
    run(&cat, wrap_node(element("quote", []).with_id("q")).on("a"));
    run(&cat, insert_paragraph(0).on("a"));
    let wrapper = ids("list")[1].clone();
    let paragraph = ids(&wrapper)[0].clone();
    let entry = [
        wrap_node(element("quote", []).with_id("r")).on(paragraph.as_str()),
        splits("a", 0),
    ];
    transaction(&ann, entry).commit().unwrap();
    let half = ids("q")[1].clone();
    let with_the_paragraph = ["a", &half, &wrapper].map(str::to_owned);
    // The paragraph was moved, so its entry is passed by.
    cat.undo().commit().unwrap_err();
    cat.undo().commit().unwrap();
    assert_eq!(ids("list"), with_the_paragraph);
    ann.undo().commit().unwrap();
    cat.undo().commit().unwrap();
    assert_eq!(shown(&store), "a=a");
    ann.redo().commit().unwrap();
    cat.redo().commit().unwrap();
    assert_eq!(ids("list"), with_the_paragraph);
}

/// Ann moves `xyz` to the end, and Bob splits it and then its half. Both halves follow `xyz` back.
#[test]
fn undo_03_a_half_of_a_half_follows_the_move_of_the_first_node_back() {
    let ([ann, bob], store) = editors_of(["ann", "bob"], &["xyz", "b", "c"]);
    let half = || common::children(&store.snapshot(), "list")[3].clone();
    run(&ann, move_node("list", 2).on("xyz"));
    run(&bob, splits("xyz", 1));
    let first = half();
    run(&bob, splits(&first, 1));
    let second = common::children(&store.snapshot(), "list")[4].clone();
    ann.undo().commit().unwrap();
    assert_eq!(shown(&store), format!("xyz=x {first}=y {second}=z b=b c=c"));
}

/// Cat wraps `a`, Ann moves `d` and `e` into the wrapper, and Bob lifts `d` out of it. When the
/// wrapping is undone, the wrapper goes: its half with `e` stays behind `d`. So it does when Dan
/// moves the wrapper away and back.
#[test]
fn undo_03_a_half_of_a_wrapper_stays_behind_the_node_that_was_lifted_out_between() {
    let [ann, bob] = two([&["a", "b"], &["d", "e"]]);
    let [cat, dan] = ["cat", "dan"].map(|name| Editor::new(ann.store().clone(), name));
    run(&cat, wrap_node(element("quote", []).with_id("q")).on("a"));
    run(&ann, move_node("q", 1).on("d"));
    run(&ann, move_node("q", 2).on("e"));
    run(&dan, move_node("next", 0).on("q"));
    dan.undo().commit().unwrap();
    run(&bob, lift_node().on("d"));
    let half = common::children(&bob.store().snapshot(), "list")[2].clone();
    assert_eq!(children(&bob, "list"), format!("qd{half}b"));
    bob.undo().commit().unwrap();
    cat.undo().commit().unwrap();
    assert_eq!(children(&bob, "list"), "aqb");
    bob.redo().commit().unwrap();
    assert_eq!(children(&bob, "list"), format!("ad{half}b"));
    dan.redo().commit().unwrap();
    let moved = ["list", "next"].map(|list| children(&bob, list));
    assert_eq!(moved, ["adb".to_owned(), format!("q{half}")]);
    dan.undo().commit().unwrap();
    assert_eq!(children(&bob, "list"), format!("ad{half}b"));
}

/// Cat wraps `b` in `v` and that in `u`, in one entry, and Bob moves `d` into `v`. Cat undoes: `u`
/// stays for `d`, behind `b`.
fn with_a_wrapper_behind() -> [Editor; 3] {
    let [ann, bob] = two([&["a", "b"], &["d"]]);
    let cat = Editor::new(ann.store().clone(), "cat");
    wraps_twice(&cat, "b");
    run(&bob, move_node("v", 1).on("d"));
    [ann, bob, cat]
}

/// Wraps a node in `v` and that in `u`, in one entry.
fn wraps_twice(editor: &Editor, id: &'static str) {
    let entry = [
        wrap_node(element("entry", []).with_id("v")).on(id),
        wrap_node(element("quote", []).with_id("u")).on("v"),
    ];
    transaction(editor, entry).commit().unwrap();
}

fn children_of<const N: usize>(editor: &Editor, lists: [&str; N]) -> [String; N] {
    lists.map(|list| children(editor, list))
}

/// Ann puts `n` into the wrapper, before the inner one, in which `b` had its place.
#[test]
fn undo_03_what_was_put_into_a_wrapper_behind_a_node_that_had_left_it_stays_behind_that_node() {
    let [ann, bob, cat] = with_a_wrapper_behind();
    cat.undo().commit().unwrap();
    put(&ann, "n", "u", 0);
    let all = ["abu", "nv", "d"];
    assert_eq!(children_of(&ann, ["list", "u", "v"]), all);
    bob.undo().commit().unwrap();
    assert_eq!(children_of(&ann, ["list", "u"]), ["abu", "n"]);
    ann.undo().commit().unwrap();
    assert_eq!(children(&ann, "list"), "ab");
    bob.redo().commit().unwrap();
    ann.redo().commit().unwrap();
    assert_eq!(children_of(&ann, ["list", "u", "v"]), all);
}

#[test]
fn undo_03_a_half_of_what_was_put_into_a_wrapper_stays_behind_the_node_that_had_left_it() {
    let [ann, bob, cat] = with_a_wrapper_behind();
    cat.undo().commit().unwrap();
    put(&ann, "n", "u", 0);
    run(&ann, splits("n", 0));
    let half = common::children(&ann.store().snapshot(), "u")[1].clone();
    bob.undo().commit().unwrap();
    let expected = ["abu".to_owned(), format!("n{half}")];
    assert_eq!(children_of(&ann, ["list", "u"]), expected);
}

#[test]
fn undo_03_what_was_put_into_a_wrapper_stays_behind_the_halves_of_the_node_that_had_left_it() {
    let [ann, bob, cat] = with_a_wrapper_behind();
    bob.undo().commit().unwrap();
    run(&ann, splits("b", 0));
    let half = common::children(&ann.store().snapshot(), "v")[1].clone();
    run(&bob, move_node("v", 2).on("d"));
    cat.undo().commit().unwrap();
    put(&ann, "n", "u", 0);
    let all = [format!("ab{half}u"), "nv".to_owned(), "d".to_owned()];
    assert_eq!(children_of(&ann, ["list", "u", "v"]), all);
    bob.undo().commit().unwrap();
    let expected = [format!("ab{half}u"), "n".to_owned()];
    assert_eq!(children_of(&ann, ["list", "u"]), expected);
    bob.redo().commit().unwrap();
    assert_eq!(children_of(&ann, ["list", "u", "v"]), all);
}

#[test]
fn undo_03_a_wrapper_does_not_follow_a_node_that_had_left_it_and_was_moved_then() {
    let [ann, bob, cat] = with_a_wrapper_behind();
    cat.undo().commit().unwrap();
    put(&ann, "n", "u", 0);
    bob.undo().commit().unwrap();
    run(&ann, move_node("list", 2).on("b"));
    assert_eq!(children_of(&ann, ["list", "u"]), ["aub", "n"]);
    bob.redo().commit().unwrap();
    assert_eq!(children_of(&ann, ["list", "u", "v"]), ["aub", "nv", "d"]);
}

/// Cat wraps `b` in `v` and that in `u`, in one entry. Ann puts `n` into `u`, which stays for that,
/// before `b`. So is what Bob puts behind `n`.
#[test]
fn undo_03_what_is_put_into_a_wrapper_of_a_wrapper_is_before_the_node_behind_both() {
    let [ann, bob] = two([&["a", "b"], &[]]);
    let cat = Editor::new(ann.store().clone(), "cat");
    wraps_twice(&cat, "b");
    put(&ann, "n", "u", 0);
    cat.undo().commit().unwrap();
    put(&bob, "m", "u", 1);
    assert_eq!(children_of(&ann, ["list", "u"]), ["aub", "nm"]);
    ann.undo().commit().unwrap();
    assert_eq!(children_of(&ann, ["list", "u"]), ["aub", "m"]);
    cat.redo().commit().unwrap();
    assert_eq!(children_of(&ann, ["list", "u", "v"]), ["au", "mv", "b"]);
    ann.redo().commit().unwrap();
    assert_eq!(children_of(&ann, ["list", "u", "v"]), ["au", "nmv", "b"]);
}

/// Ann moves `b` before `a` and wraps it, and Bob wraps `a`. What Bob has put behind `b` in the
/// wrapper returns while both edits of Ann are undone: `b` stays where it was before them.
#[test]
fn undo_03_a_wrapper_does_not_hold_a_node_whose_earlier_move_is_undone() {
    let [ann, bob] = two([&["a", "b"], &[]]);
    run(&ann, move_node("list", 0).on("b"));
    run(&bob, wrap_node(element("quote", []).with_id("q")).on("a"));
    run(&ann, wrap_node(element("box", []).with_id("box")).on("b"));
    put(&bob, "x", "box", 1);
    bob.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!(children_of(&ann, ["list", "q"]), ["qb", "a"]);
    bob.redo().commit().unwrap();
    assert_eq!(children_of(&ann, ["list", "box", "q"]), ["boxqb", "x", "a"]);
    ann.redo().commit().unwrap();
    ann.redo().commit().unwrap();
    assert_eq!(children_of(&ann, ["list", "box"]), ["boxq", "bx"]);
}

/// Ann wraps `b`. Bob puts `y` behind it, and Carl `x` before it. While the edits of Ann and Carl
/// are undone, Bob divides the list behind `b`.
#[test]
fn undo_03_a_wrapper_does_not_hold_a_node_whose_place_is_in_another_list() {
    let [ann, bob] = two([&["a", "b"], &[]]);
    let carl = Editor::new(ann.store().clone(), "carl");
    run(&ann, wrap_node(element("box", []).with_id("box")).on("b"));
    put(&bob, "y", "box", 1);
    put(&carl, "x", "box", 0);
    carl.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!(children_of(&ann, ["list", "box"]), ["abbox", "y"]);
    run(&bob, divides(2));
    carl.redo().commit().unwrap();
    assert_eq!(children_of(&ann, ["list", "box"]), ["ab", "xy"]);
    bob.undo().commit().unwrap();
    assert_eq!(children_of(&ann, ["list", "box"]), ["abox", "xby"]);
}

/// Bob lifts `a` out of its list, which goes as it is empty, while Ann's split of `a` is undone. He
/// can no longer undo that.
#[test]
fn undo_03_a_half_whose_list_is_gone_for_good_has_its_place_behind_its_left_half() {
    let store = store();
    let setup = Editor::new(store.clone(), "setup");
    let list = element("list", [text_node("item", "ab").with_id("a"), item("d")]).with_id("list");
    let other = element("list", [item("b"), item("c")]).with_id("next");
    run(
        &setup,
        create(element("page", [list, other]).with_id("page")),
    );
    let options = HistoryOptions::new()
        .limit(1)
        .group_interval(std::time::Duration::ZERO);
    let editor = |name| Editor::new(store.clone(), name).with_history(options.clone());
    let [ann, bob] = [editor("ann"), editor("bob")];
    run(&ann, lift_node().on("d"));
    run(&ann, splits("a", 0));
    run(&bob, lift_node().on("b"));
    ann.undo().commit().unwrap();
    run(&bob, lift_node().on("a"));
    assert_eq!(children(&ann, "page"), "adbnext");
    run(&bob, insert_text(0, "j").on("a"));
    ann.redo().commit().unwrap();
    assert_eq!(children(&ann, "page"), "a7:1dbnext");
    ann.undo().commit().unwrap();
    bob.undo().commit().unwrap();
}

/// Bob splits `a` before the split that Ann has undone, and can no longer undo that.
#[test]
fn undo_03_a_half_returns_behind_the_half_of_a_split_that_is_never_undone() {
    let store = store();
    let setup = Editor::new(store.clone(), "setup");
    let list = element("list", [text_node("item", "abc").with_id("a"), item("d")]);
    run(&setup, create(list.with_id("list")));
    let ann = Editor::new(store.clone(), "ann");
    run(&ann, splits("a", 1));
    ann.undo().commit().unwrap();
    TransactionManager::new(store.clone())
        .execute([splits("a", 0)])
        .unwrap();
    assert!(shown(&store).ends_with("=abc d="));
    ann.redo().commit().unwrap();
    assert!(shown(&store).ends_with("=a 7:1=bc d="));
}

/// Carl moves `c` into the wrapper of Ann and takes that back, and Bob moves `c` elsewhere. The
/// wrapper is there again when only Carl's move counts, although its creation cannot be redone.
#[test]
fn undo_03_a_wrapper_that_is_undone_for_good_is_kept_for_what_can_return_to_it() {
    let [ann, bob] = two([&["a", "b", "c"], &[]]);
    let carl = Editor::new(ann.store().clone(), "carl");
    run(&ann, wrap_node(element("box", []).with_id("box")).on("b"));
    run(&carl, move_node("box", 0).on("c"));
    carl.undo().commit().unwrap();
    run(&bob, move_node("list", 0).on("c"));
    ann.undo().commit().unwrap();
    // So many commits that the record of what can no longer be redone is forgotten.
    let options = HistoryOptions::new()
        .limit(1)
        .group_interval(Duration::ZERO);
    let dan = Editor::new(ann.store().clone(), "dan").with_history(options);
    run(&ann, set_attrs([("x", 0.into())]).on("next"));
    for nth in 0..450 {
        run(&dan, set_attrs([("y", nth.into())]).on("next"));
    }
    carl.redo().commit().unwrap();
    assert_eq!(children(&ann, "list"), "cab");
    bob.undo().commit().unwrap();
    assert_eq!(children_of(&ann, ["list", "box"]), ["aboxb", "c"]);
}

/// Bob joins `b` and then `c` to `a`, and takes the second back. Ann moves `c` before `a` and joins
/// `a` to it. That counts, and the join of `b` is in no circle, when Bob redoes his own.
#[test]
fn undo_03_a_join_beside_two_joins_in_opposite_directions_stays() {
    let ([ann, bob], store) = editors_of(["ann", "bob"], &["a", "b", "c"]);
    run(&bob, joins("a", "b"));
    run(&bob, joins("a", "c"));
    bob.undo().commit().unwrap();
    run(&ann, move_node("list", 0).on("c"));
    run(&ann, joins("c", "a"));
    assert_eq!(shown(&store), "c=cab");
    bob.redo().commit().unwrap();
    assert_eq!(shown(&store), "c=cab");
    ann.undo().commit().unwrap();
    assert_eq!(shown(&store), "a=abc");
    bob.undo().commit().unwrap();
    assert_eq!(shown(&store), "c=c a=ab");
}

/// Bob takes his deletion of `b` back, and a program without a history wraps `b`. So `b` stays when
/// the deletion returns, each time.
#[test]
fn undo_03_a_node_stays_for_a_later_move_that_is_never_undone() {
    let [_, bob] = two([&["a", "b"], &[]]);
    run(&bob, delete_node().on("b"));
    bob.undo().commit().unwrap();
    let program = TransactionManager::new(bob.store().clone());
    program
        .execute([wrap_node(element("box", []).with_id("box")).on("b")])
        .unwrap();
    for _ in 0..2 {
        bob.redo().commit().unwrap();
        assert_eq!(children_of(&bob, ["list", "box"]), ["abox", "b"]);
        bob.undo().commit().unwrap();
    }
}

/// Bob creates `b`, Ann splits it, and Carl joins the halves again. All is undone, the join last.
#[test]
fn undo_03_a_node_goes_when_the_last_join_to_it_is_undone() {
    let ([ann, bob], store) = editors_of(["ann", "bob"], &["a"]);
    let carl = Editor::new(store.clone(), "carl");
    run(&bob, add_child(item("b"), 1).on("list"));
    run(&ann, splits("b", 0));
    let half = common::children(&store.snapshot(), "list")[2].clone();
    run(&carl, joins("b", &half));
    bob.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!(shown(&store), "a=a");
    carl.undo().commit().unwrap();
    assert_eq!(shown(&store), "a=a");
    bob.redo().commit().unwrap();
    assert_eq!(shown(&store), "a=a b=");
}

/// Ann splits `b`, Bob puts `n` between the halves, and Carl joins the right one to `n`. Bob's edit
/// is undone, so `n` is there only for that half.
#[test]
fn undo_03_a_node_returns_with_the_node_that_is_joined_to_it() {
    let ([ann, bob], store) = editors_of(["ann", "bob"], &["a", "bc"]);
    let carl = Editor::new(store.clone(), "carl");
    run(&ann, splits("bc", 2));
    let half = common::children(&store.snapshot(), "list")[2].clone();
    run(&bob, add_child(item("n"), 2).on("list"));
    run(&carl, joins("n", &half));
    bob.undo().commit().unwrap();
    assert_eq!(shown(&store), "a=a bc=bc n=");
    carl.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!(shown(&store), "a=a bc=bc");
    carl.redo().commit().unwrap();
    ann.redo().commit().unwrap();
    assert_eq!(shown(&store), "a=a bc=bc n=");
}

/// Ann splits `ab`. Bob splits off a half before hers, and a half of that, which he moves away. Ann
/// moves the other one away, and joins hers to `ab`. When her half returns first, the end of that
/// of Bob stays before what she joined.
#[test]
fn undo_03_text_that_is_joined_behind_a_half_stays_behind_it_when_an_earlier_half_returns() {
    let ([ann, bob], store) = editors_of(["ann", "bob"], &["ab", "n"]);
    run(&ann, splits("ab", 0));
    run(&bob, splits("ab", 0));
    run(&bob, splits("7:2", 0));
    run(&bob, move_node("list", 4).on("7:3"));
    run(&ann, move_node("list", 0).on("7:2"));
    run(&ann, joins("ab", "7:1"));
    let last = shown(&store);
    assert_eq!(last, "7:2= ab=ab n=n 7:3=");
    for editor in [&ann, &ann, &bob, &bob, &ann, &bob] {
        editor.undo().commit().unwrap();
    }
    assert_eq!(shown(&store), "ab=ab n=n");
    for editor in [&ann, &bob, &ann, &bob, &bob, &ann] {
        editor.redo().commit().unwrap();
    }
    assert_eq!(shown(&store), last);
}

/// Cat splits `a`, Bob splits the half, and Cat joins both halves. Ann deletes them and joins `c`.
/// When Bob's half returns first, it has nothing of what is behind the half of Cat.
#[test]
fn undo_03_a_half_of_a_half_has_no_text_that_was_joined_behind_both() {
    let names = ["ann", "bob", "cat"];
    let ([ann, bob, cat], store) = editors_of_two(names, [&["a"], &["b", "c"]]);
    run(&cat, splits("a", 0));
    run(&bob, delete_node().on("b"));
    run(&bob, splits("7:1", 0));
    run(&cat, joins("7:1", "7:2"));
    run(&ann, deletes("a", "c", 0));
    assert_eq!(shown_lists(&store), "a=c");
    for editor in [&ann, &cat, &bob, &bob, &cat] {
        editor.undo().commit().unwrap();
    }
    assert_eq!(shown_lists(&store), "a=a | b=b c=c");
    for (editor, then) in [
        (&ann, "a=c | b=b"),
        (&bob, "a=c"),
        (&bob, "a=c"),
        (&cat, "a=c"),
        (&cat, "a=c"),
    ] {
        editor.redo().commit().unwrap();
        assert_eq!(shown_lists(&store), then);
    }
}

/// Bob divides the list at the start of `b`, and Dan closes that up again and joins `cd` to the
/// left half. Ann splits that within `cd`. Without the edits of Bob and Dan, the text of `b` is in
/// the half of Ann, and it does not follow that into `cd`.
#[test]
fn undo_03_text_behind_a_joined_node_does_not_follow_a_half_into_that() {
    let names = ["ann", "bob", "dan"];
    let ([ann, bob, dan], store) = editors_of_two(names, [&["b"], &["cd", "e"]]);
    let first = shown_lists(&store);
    run(&bob, insert_paragraph(0).on("b"));
    run(&bob, move_node("7:2", 0).on("cd"));
    run(&dan, deletes("b", "cd", 0));
    assert_eq!(shown_lists(&store), "b=cd 7:1=b | e=e");
    run(&ann, splits("b", 1));
    assert_eq!(shown_lists(&store), "b=c 7:3=d 7:1=b | e=e");
    for editor in [&bob, &bob, &dan] {
        editor.undo().commit().unwrap();
    }
    assert_eq!(shown_lists(&store), "b= 7:3=db | cd=c e=e");
    ann.undo().commit().unwrap();
    assert_eq!(shown_lists(&store), first);
    for editor in [&dan, &bob, &bob, &ann] {
        editor.redo().commit().unwrap();
    }
    assert_eq!(shown_lists(&store), "b=c 7:3=d 7:1=b | e=e");
}

/// Ann splits `ab`. Bob splits off a half of her half, and moves it before `ab`, which Dan joins to
/// it. Without both splits, the half of Ann has the text of `ab`: it was there before that of Bob.
#[test]
fn undo_03_of_two_halves_with_their_own_left_half_that_of_the_earlier_split_stays() {
    let ([ann, bob, dan], store) = editors_of(["ann", "bob", "dan"], &["ab"]);
    run(&ann, splits("ab", 0));
    let entry = [splits("7:1", 2), move_node("list", 0).on("7:2")];
    transaction(&bob, entry).commit().unwrap();
    run(&dan, joins("7:2", "ab"));
    assert_eq!(shown(&store), "7:2= 7:1=ab");
    bob.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!(shown(&store), "7:1=ab");
    dan.undo().commit().unwrap();
    assert_eq!(shown(&store), "ab=ab");
    dan.redo().commit().unwrap();
    assert_eq!(shown(&store), "7:1=ab");
    dan.undo().commit().unwrap();
    bob.redo().commit().unwrap();
    dan.redo().commit().unwrap();
    assert_eq!(shown(&store), "7:2=ab");
    bob.undo().commit().unwrap();
    assert_eq!(shown(&store), "7:1=ab");
}

/// Bob inserts `n`, Dan splits it, and Ann joins the halves. `n` stays for the half as long as that
/// exists, although it is undone.
#[test]
fn undo_03_a_node_stays_for_a_joined_half_as_long_as_that_exists() {
    let ([ann, bob, dan], store) = editors_of(["ann", "bob", "dan"], &["a"]);
    let n = text_node("item", "").with_id("n");
    run(&bob, add_child(n, 0).on("list"));
    run(&dan, splits("n", 0));
    run(&ann, joins("n", "7:1"));
    bob.undo().commit().unwrap();
    assert_eq!(shown(&store), "n= a=a");
    dan.undo().commit().unwrap();
    assert_eq!(shown(&store), "a=a");
    dan.redo().commit().unwrap();
    assert_eq!(shown(&store), "n= a=a");
    dan.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!(shown(&store), "a=a");
}

/// The items with their texts, each list by itself.
fn shown_lists(store: &DataStore) -> String {
    let view = store.snapshot();
    let lists = common::children(&view, "page");
    let lists = lists.iter().map(|list| shown_in(store, list));
    lists.collect::<Vec<_>>().join(" | ")
}

/// Editors of two lists of items, each with its id as its text, and the store.
fn editors_of_two<const N: usize>(
    names: [&str; N],
    lists: [&[&'static str]; 2],
) -> ([Editor; N], DataStore) {
    let store = store();
    let editors = names.map(|name| Editor::new(store.clone(), name));
    let setup = Editor::new(store.clone(), "setup");
    let mut ids = ["list", "next"].into_iter();
    let lists = lists.map(|texts| {
        let items = texts.iter().map(|id| text_node("item", *id).with_id(*id));
        element("list", items).with_id(ids.next().unwrap())
    });
    run(&setup, create(element("page", lists).with_id("page")));
    (editors, store)
}

fn deletes(one: &str, other: &str, end: usize) -> Operation {
    delete_range(TextSpan::to(0, other, end)).on(one)
}

/// Ann lifts the left half of `bc`, and Cat deletes from `n` to the end of the right half, which
/// joins that. Without its creation `n` stays for the half, in whichever order both return.
#[test]
fn undo_03_a_node_returns_with_the_joined_half_for_which_it_stays() {
    let ([ann, bob, cat], store) = editors_of_two(["ann", "bob", "cat"], [&["a", "bc"], &[]]);
    let first = shown_lists(&store);
    run(&bob, splits("bc", 0));
    run(&ann, lift_node().on("bc"));
    let n = text_node("item", "").with_id("n");
    run(&bob, add_child(n, 1).on("list"));
    run(&cat, deletes("n", "7:1", 2));
    bob.undo().commit().unwrap();
    assert_eq!(shown_lists(&store), "a=a n= | ");
    for editor in [&cat, &ann, &bob] {
        editor.undo().commit().unwrap();
    }
    assert_eq!(shown_lists(&store), first);
    for editor in [&cat, &ann, &bob] {
        editor.redo().commit().unwrap();
    }
    assert_eq!(shown_lists(&store), "a=a n= | ");
}

/// Bob wraps `a`, and Ann moves `b` into the wrapper, behind `a`. While the wrapping is undone, she
/// splits `a` and divides the list there. The wrapper is behind both halves, in the second list.
#[test]
fn undo_03_a_wrapper_that_stays_for_others_is_in_the_half_of_the_list_where_its_nodes_end() {
    let [ann, bob] = two([&["a", "b", "c"], &[]]);
    run(&bob, wrap_node(element("box", []).with_id("box")).on("a"));
    run(&ann, move_node("box", 1).on("b"));
    bob.undo().commit().unwrap();
    transaction(&ann, [splits("a", 0), divides(1)])
        .commit()
        .unwrap();
    let half = common::children(&ann.store().snapshot(), "page")[1].clone();
    let first = common::children(&ann.store().snapshot(), &half)[0].clone();
    let all = || children_of(&ann, ["list", &half, "box"]);
    let divided = ["a".to_owned(), format!("{first}boxc"), "b".to_owned()];
    assert_eq!(all(), divided);
    bob.redo().commit().unwrap();
    let wrapped = ["box".to_owned(), "c".to_owned(), format!("a{first}b")];
    assert_eq!(all(), wrapped);
    bob.undo().commit().unwrap();
    assert_eq!(all(), divided);
    bob.redo().commit().unwrap();
    assert_eq!(all(), wrapped);
    ann.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    bob.undo().commit().unwrap();
    assert_eq!(children(&ann, "list"), "abc");
    ann.redo().commit().unwrap();
    ann.redo().commit().unwrap();
    assert_eq!(all(), divided);
}

/// Ann moves `xyz`, and Bob splits it twice, each time the left half. All follow it back in order.
#[test]
fn undo_03_two_halves_follow_a_move_back_in_their_order() {
    let ([ann, bob], store) = editors_of(["ann", "bob"], &["xyz", "b", "c"]);
    let half = || common::children(&store.snapshot(), "list")[3].clone();
    run(&ann, move_node("list", 2).on("xyz"));
    run(&bob, splits("xyz", 2));
    let last = half();
    run(&bob, splits("xyz", 1));
    let middle = half();
    ann.undo().commit().unwrap();
    let back = format!("xyz=x {middle}=y {last}=z b=b c=c");
    assert_eq!(shown(&store), back);
    ann.redo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!(shown(&store), back);
}

/// Ann puts `n` into one list and moves it to the other, in one entry, and Bob splits it. Without
/// its creation `n` goes, and the half is where the creation left `n`.
#[test]
fn undo_03_a_half_is_where_the_creation_that_is_undone_left_its_left_half() {
    let [ann, bob] = two([&["a", "b"], &["d"]]);
    let entry = [
        add_child(item("n"), 0).on("next"),
        move_node("list", 2).on("n"),
    ];
    transaction(&ann, entry).commit().unwrap();
    run(&bob, splits("n", 0));
    let half = common::children(&ann.store().snapshot(), "list")[3].clone();
    let lists = || children_of(&ann, ["list", "next"]);
    let without = [format!("ab{half}"), "d".to_owned()];
    ann.undo().commit().unwrap();
    assert_eq!(lists(), without);
    bob.undo().commit().unwrap();
    assert_eq!(lists(), ["ab", "d"]);
    bob.redo().commit().unwrap();
    assert_eq!(lists(), without);
    ann.redo().commit().unwrap();
    assert_eq!(lists(), [format!("abn{half}"), "d".to_owned()]);
}

/// Bob splits `ab`, and Cat splits the half. While that is undone, Ann deletes the half of Bob and
/// joins `cd` to the rest. What was split off from the deleted half has nothing of `cd`.
#[test]
fn undo_03_a_half_of_a_deleted_half_has_no_text_of_a_node_that_was_joined_over_it() {
    let ([ann, bob, cat], store) = editors_of(["ann", "bob", "cat"], &["ab", "cd"]);
    let second = || common::children(&store.snapshot(), "list")[1].clone();
    run(&bob, splits("ab", 0));
    let half = second();
    run(&cat, splits(&half, 0));
    let last = common::children(&store.snapshot(), "list")[2].clone();
    cat.undo().commit().unwrap();
    let entry = [delete_node().on(half.as_str()), joins("ab", "cd")];
    transaction(&ann, entry).commit().unwrap();
    cat.redo().commit().unwrap();
    let all = format!("ab=cd {last}=");
    assert_eq!(shown(&store), all);
    ann.undo().commit().unwrap();
    cat.undo().commit().unwrap();
    bob.undo().commit().unwrap();
    ann.redo().commit().unwrap();
    assert_eq!(shown(&store), "ab=cd");
    cat.redo().commit().unwrap();
    assert_eq!(shown(&store), all);
    bob.redo().commit().unwrap();
    assert_eq!(shown(&store), all);
}

fn wraps_in_list(id: &str) -> Operation {
    let [list, entry] = [("list", "u"), ("entry", "v")];
    let of = |(kind, id): (&'static str, &'static str)| element(kind, []).with_id(id);
    wrap_in_list(of(list), of(entry)).on(id)
}

/// Ann wraps `a`, Bob begins a paragraph in it, and Cat puts `n` before it. While the last and the
/// first are undone, Ann lifts a node, which divides the list, and `n` returns.
fn with_a_lifted_node(id: &str) -> [Editor; 3] {
    let ([ann, bob, cat], _) = editors_of_two(["ann", "bob", "cat"], [&["b", "a", "c"], &["d"]]);
    run(&ann, wraps_in_list("a"));
    run(&bob, insert_paragraph(0).on("a"));
    put(&cat, "n", "u", 0);
    cat.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    run(&ann, lift_node().on(id));
    cat.redo().commit().unwrap();
    [ann, bob, cat]
}

#[test]
fn undo_03_a_half_follows_when_a_wrapper_no_longer_holds_its_left_half() {
    let [ann, ..] = with_a_lifted_node("a");
    let all = || children_of(&ann, ["list", "7:3", "u", "7:2"]);
    let lifted = ["b", "7:1uc", "n7:2", ""];
    assert_eq!(all(), lifted);
    ann.undo().commit().unwrap();
    assert_eq!(all(), ["buc", "", "nv7:2", "7:1"]);
    ann.redo().commit().unwrap();
    assert_eq!(all(), lifted);
}

/// The half of `a` returns last: until then, it is no reason for the wrapper to be before it.
#[test]
fn undo_03_a_wrapper_is_not_before_a_half_whose_split_is_undone() {
    wrapper_stays_in_the_second_list("a", ["b", "7:1uc", "n7:2"]);
}

/// Without its second entry, the wrapper is before `a`, in the first list.
#[test]
fn undo_03_a_wrapper_returns_to_the_list_in_which_it_was_when_that_was_divided() {
    wrapper_stays_in_the_second_list("7:1", ["ba", "uc", "n7:2"]);
}

fn wrapper_stays_in_the_second_list(lifted: &str, expected: [&str; 3]) {
    let [ann, bob, cat] = with_a_lifted_node(lifted);
    let all = || children_of(&ann, ["list", "7:3", "u"]);
    assert_eq!(all(), expected);
    for editor in [&cat, &ann, &bob] {
        editor.undo().commit().unwrap();
    }
    assert_eq!(children(&ann, "list"), "bac");
    for editor in [&ann, &cat, &bob] {
        editor.redo().commit().unwrap();
    }
    assert_eq!(all(), expected);
}

/// Bob wraps `a`. Ann splits it, wraps it once more and deletes it. While Bob's edit is undone, Cat
/// puts `n` into his wrapper, which is before the half. It stays there when Ann's edits return.
#[test]
fn undo_03_what_was_put_into_a_wrapper_before_a_half_that_had_left_it_stays_before_that() {
    let ([ann, bob, cat], _) = editors_of(["ann", "bob", "cat"], &["a", "c"]);
    run(&bob, wraps_in_list("a"));
    run(&ann, splits("a", 0));
    run(&ann, wrap_node(element("quote", []).with_id("q")).on("a"));
    run(&ann, delete_node().on("a"));
    bob.undo().commit().unwrap();
    put(&cat, "n", "u", 1);
    let all = || children_of(&ann, ["list", "u", "v", "q"]);
    let wrapped = ["u7:1c", "vn", "q", ""];
    assert_eq!(all(), wrapped);
    ann.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!(children_of(&ann, ["list", "u"]), ["au7:1c", "n"]);
    ann.redo().commit().unwrap();
    ann.redo().commit().unwrap();
    assert_eq!(all(), wrapped);
}

/// Ann divides the list within `ef`, and undoes that. Bob puts `n` behind `ef`, and splits it at
/// another place. When Ann redoes her edit, the text keeps its order, and `n` is behind all of it.
#[test]
fn undo_03_a_node_behind_a_text_stays_behind_what_a_division_of_the_list_takes_of_it() {
    let ([ann, bob], store) = editors_of_two(["ann", "bob"], [&["ef"], &[]]);
    run(&ann, insert_paragraph(0).on("ef"));
    ann.undo().commit().unwrap();
    let n = text_node("item", "n").with_id("n");
    run(&bob, add_child(n, 1).on("list"));
    ann.redo().commit().unwrap();
    assert_eq!(shown_lists(&store), "ef= | 7:1=ef n=n | ");
    ann.undo().commit().unwrap();
    run(&bob, splits("ef", 1));
    let split = shown_lists(&store);
    assert_eq!(split, "ef=e 7:3=f n=n | ");
    ann.redo().commit().unwrap();
    assert_eq!(shown_lists(&store), "ef= | 7:1=e 7:3=f n=n | ");
    ann.undo().commit().unwrap();
    assert_eq!(shown_lists(&store), split);
}

/// Dan splits `a`, and Cat splits the empty left half. Ann's deletion over Cat's half joins Dan's
/// to the node. Bob writes in Cat's half, which is before Dan's, with both splits undone, too.
#[test]
fn undo_03_text_of_a_deleted_half_stays_before_its_own_half_that_is_joined_over_it() {
    let names = ["ann", "bob", "cat", "dan"];
    let ([ann, bob, cat, dan], store) = editors_of(names, &["a"]);
    run(&dan, splits("a", 0));
    run(&cat, splits("a", 0));
    run(&ann, deletes("a", "7:1", 0));
    assert_eq!(shown(&store), "a=a");
    ann.undo().commit().unwrap();
    run(&bob, insert_text(0, "b").on("7:2"));
    let all = shown(&store);
    assert_eq!(all, "a= 7:2=b 7:1=a");
    dan.undo().commit().unwrap();
    cat.undo().commit().unwrap();
    assert_eq!(shown(&store), "a=ba");
    ann.redo().commit().unwrap();
    assert_eq!(shown(&store), "a=ba");
    for editor in [&ann, &bob] {
        editor.undo().commit().unwrap();
    }
    assert_eq!(shown(&store), "a=a");
}

/// Ann splits `abc`. Bob splits her half, and moves his before `a`, which Dan joins to it. What is
/// between the two halves is behind `a` without the first split only, and otherwise before it.
#[test]
fn undo_03_a_half_of_a_half_has_the_text_of_the_first_node_that_was_joined_to_it() {
    let ([ann, bob, dan], store) = editors_of(["ann", "bob", "dan"], &["abc"]);
    run(&ann, splits("abc", 1));
    let entry = [splits("7:1", 1), move_node("list", 0).on("7:2")];
    transaction(&bob, entry).commit().unwrap();
    run(&dan, joins("7:2", "abc"));
    assert_eq!(shown(&store), "7:2=ca 7:1=b");
    ann.undo().commit().unwrap();
    assert_eq!(shown(&store), "7:2=cab");
    bob.undo().commit().unwrap();
    assert_eq!(shown(&store), "7:1=bca");
    ann.redo().commit().unwrap();
    assert_eq!(shown(&store), "7:1=bca");
    dan.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!(shown(&store), "abc=abc");
}

/// Carl wraps a half that Ann made, and Bob deletes it. That is forgotten, but not that it was
/// later than the wrapping: the half does not return with the split, for the sake of the wrapping.
#[test]
fn undo_03_a_half_that_is_deleted_for_good_does_not_stay_for_an_earlier_move() {
    let ([ann, carl], store) = editors_of(["ann", "carl"], &["ab", "d"]);
    run(&ann, splits("ab", 1));
    run(
        &carl,
        wrap_node(element("box", []).with_id("box")).on("7:1"),
    );
    let options = HistoryOptions::new()
        .limit(1)
        .group_interval(Duration::ZERO);
    let bob = Editor::new(store.clone(), "bob").with_history(options);
    run(&bob, delete_node().on("7:1"));
    record(&store);
    run(&bob, set_attrs([("y", 1.into())]).on("d"));
    forget(&store);
    let all = || (shown(&store), children(&ann, "box"));
    let deleted = ("ab=a box= d=d".to_owned(), String::new());
    assert_eq!(all(), deleted);
    for editor in [&carl, &ann] {
        editor.undo().commit().unwrap();
    }
    for editor in [&carl, &ann] {
        editor.redo().commit().unwrap();
    }
    assert_eq!(all(), deleted);
}

/// Cat creates `n`, and Ann splits it. Without its creation only the half is there. Once that is
/// forgotten, the half still goes and returns with the split.
#[test]
fn undo_03_a_half_of_a_node_that_is_never_created_again_returns_with_its_split() {
    let ([ann, cat], store) = editors_of(["ann", "cat"], &["a"]);
    let n = text_node("item", "").with_id("n");
    run(&cat, add_child(n, 1).on("list"));
    run(&ann, splits("n", 0));
    cat.undo().commit().unwrap();
    let half = shown(&store);
    assert_eq!(half, "a=a 7:1=");
    run(&cat, set_attrs([("x", 1.into())]).on("a"));
    ann.undo().commit().unwrap();
    assert_eq!(shown(&store), "a=a");
    forget(&store);
    ann.redo().commit().unwrap();
    assert_eq!(shown(&store), half);
}

/// Bob wraps `a`, and Ann puts nodes on both sides of it, so that it stays in the wrapper when the
/// wrapping is undone. Then Bob takes the first of them out.
fn holds_a_node_beside_what_is_taken_out(takes_out: Operation, taken_out: [&str; 2]) {
    let ([ann, bob], _) = editors_of(["ann", "bob"], &["a", "b"]);
    let all = || children_of(&ann, ["list", "u"]);
    let entry = [wraps_in_list("a"), insert_text(0, "x").on("a")];
    transaction(&bob, entry).commit().unwrap();
    run(&ann, move_node("u", 1).on("b"));
    put(&ann, "n", "u", 0);
    bob.undo().commit().unwrap();
    assert_eq!(all(), ["u", "nvb"]);
    run(&bob, takes_out);
    assert_eq!(all(), taken_out);
    for editor in [&bob, &ann, &ann] {
        editor.undo().commit().unwrap();
    }
    assert_eq!(children(&ann, "list"), "ab");
    for editor in [&ann, &bob, &ann] {
        editor.redo().commit().unwrap();
    }
    assert_eq!(all(), taken_out);
    assert_eq!(children(&ann, "v"), "a");
}

#[test]
fn undo_03_a_node_stays_in_a_wrapper_out_of_which_another_editor_lifted_a_node() {
    holds_a_node_beside_what_is_taken_out(lift_node().on("n"), ["nu", "vb"]);
}

#[test]
fn undo_03_a_node_stays_in_a_wrapper_in_which_another_editor_deleted_a_node() {
    holds_a_node_beside_what_is_taken_out(delete_node().on("n"), ["u", "vb"]);
}
