//! Ten times the input takes about ten times the memory, for each input of a script. The unit tests
//! in `steps` count steps; these count allocations, including those of other crates. A separate
//! binary, because all allocations of the process count.

use std::alloc::System;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use doclock::dsl::*;
use doclock::{
    DataStore, Editor, NodeId, View,
    document::{Attributes, Fragment, Mark, NodeSpec},
    history::{HistoryMode, HistoryOptions},
    transaction::{Operation, parse_operations},
};
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Allocations of concurrent tests would count.
static ALONE: Mutex<()> = Mutex::new(());

/// The smaller size of an input.
const SIZE: usize = 400;

/// The allowed factor for ten times the input. A logarithm fits; quadratic cost is a hundred.
const MOST: usize = 20;

/// The number and the bytes of the allocations of a call.
fn allocated<R>(call: impl FnOnce() -> R) -> [usize; 2] {
    let before = ALLOCATOR.stats();
    let result = call();
    let after = ALLOCATOR.stats();
    drop(result);
    [
        after.allocations - before.allocations + after.reallocations - before.reallocations,
        after.bytes_allocated - before.bytes_allocated,
    ]
}

/// Checks the allocations of `work`, which first builds its input.
fn grows_evenly<W: FnOnce() -> R, R>(what: &str, work: impl Fn(usize) -> W) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let [small, large] = [SIZE, 10 * SIZE].map(|size| allocated(work(size)));
    println!("{what}: {small:?} allocations and bytes, {large:?} for ten times the input");
    for (small, large) in small.into_iter().zip(large) {
        // The part that does not depend on the input may dominate.
        let small = small.max(SIZE);
        assert!(large <= MOST * small, "{what}: {small}, then {large}");
    }
}

fn paragraph(text: &str) -> Operation {
    create(element("root", [text_node("x", text).with_id("t")]).with_id("p"))
}

fn values(count: usize) -> Vec<(String, Value)> {
    (0..count)
        .map(|nth| (format!("k{}", nth * 7_919 % count), json!(nth)))
        .collect()
}

fn marks(count: usize) -> Vec<Mark> {
    (0..count)
        .map(|nth| Mark::new("m", 3 * nth..3 * nth + 2))
        .collect()
}

/// A text among so many siblings that a few more make no difference: insertion there costs a
/// logarithm of their number.
fn among_others(id: &str) -> Operation {
    let other = || NodeSpec::new("other");
    let before = std::iter::repeat_with(other).take(4_000);
    let behind = std::iter::repeat_with(other).take(4_000);
    let text = text_node("x", "abc").with_id(id);
    create(element("others", before.chain([text]).chain(behind)).with_id("others"))
}

/// A script of a size.
type Script = fn(usize) -> Vec<Operation>;

/// Scripts, each with one large input.
fn scripts() -> Vec<(&'static str, Script)> {
    vec![
        ("operations", |n| vec![insert_text(0, "x").on("t"); n]),
        ("operations at the end", |n| {
            (0..n).map(|at| insert_text(at, "x").on("t")).collect()
        }),
        ("operations of a control", |n| {
            vec![control("t", vec![insert_text(0, "x"); n])]
        }),
        ("nodes", |n| {
            vec![create(element("x", vec![NodeSpec::new("x"); n]))]
        }),
        ("nodes one by one", |n| {
            vec![add_child(NodeSpec::new("x"), 0).on("p"); n]
        }),
        ("nodes that are deleted", |n| {
            let child = |nth| NodeSpec::new("x").with_id(format!("n{nth}"));
            let all = add_child(element("x", (0..n).map(child)), None).on("p");
            let delete = |nth| delete_node().on(format!("n{nth}").as_str());
            std::iter::once(all).chain((0..n).map(delete)).collect()
        }),
        ("depth", |n| {
            (0..n)
                .map(|_| wrap_node(NodeSpec::new("x")).on("t"))
                .collect()
        }),
        ("ids", |n| {
            vec![create(NodeSpec::new("x").with_id("i".repeat(n)))]
        }),
        ("attributes", |n| vec![set_attrs(values(n)).on("t")]),
        ("removed attributes", |n| {
            let keys = values(n).into_iter().map(|(key, _)| key);
            vec![set_attrs(values(n)).on("t"), remove_attrs(keys).on("t")]
        }),
        ("attributes of a mark", |n| {
            vec![apply_mark_with("m", Attributes::from_iter(values(n)), ..).on("t")]
        }),
        ("names", |n| {
            vec![transform_node("k".repeat(n), values(0)).on("t")]
        }),
        ("text", |n| vec![set_text("x".repeat(100 * n)).on("t")]),
        ("lines", |n| {
            let text = set_text("x\n".repeat(n)).on("t");
            vec![
                text,
                indent_text("  ", ..).on("t"),
                outdent_text("  ", ..).on("t"),
            ]
        }),
        ("marks", |n| {
            let text = set_text("x".repeat(3 * n)).on("t");
            vec![
                text,
                set_marks(marks(n)).on("t"),
                clear_formatting(..).on("t"),
            ]
        }),
        ("marks one by one", |n| {
            let text = set_text("x".repeat(3 * 40)).on("t");
            let mark = |nth| apply_mark("m", 3 * (nth % 40)..3 * (nth % 40) + 2).on("t");
            std::iter::once(text).chain((0..n).map(mark)).collect()
        }),
        ("pattern", |n| {
            let text = set_text("longer than nine. ".repeat(n)).on("t");
            vec![text, replace_pattern("n(i|o)ne|longer", "x$1").on("t")]
        }),
        ("output", |n| {
            let text = set_text("x".repeat(100 * n)).on("t");
            vec![
                text,
                copy_range(..).on("t"),
                paste(0).on("t"),
                copy_node().on("t"),
            ]
        }),
        ("fragment", |n| {
            let fragment = Fragment {
                nodes: vec![text_node("x", "abc"); n],
                ..Fragment::default()
            };
            vec![among_others("at"), paste_fragment(1, fragment).on("at")]
        }),
        ("aliases", |n| {
            let named = |nth| create(NodeSpec::new("x")).named(format!("a{nth}"));
            (0..n).map(named).collect()
        }),
        ("splits and joins", |n| {
            let text = insert_text(0, "x".repeat(n)).on("at");
            let split = (1..n).rev().map(|at| split_text_node(at).on("at"));
            let join = auto_merge_text_nodes().on("others");
            [among_others("at"), text]
                .into_iter()
                .chain(split)
                .chain([join])
                .collect()
        }),
        ("items of a list", |n| {
            let item = |nth| text_node("x", "a").with_id(format!("n{nth}"));
            let all = add_child(element("x", (0..n).map(item)), None).on("p");
            let last = format!("n{}", n - 1);
            let list = wrap_in_list_up_to(last, element("list", []), element("item", []));
            vec![all, list.on("n0")]
        }),
        ("reordered children", |n| {
            let item = |nth| text_node("x", "a").with_id(format!("n{nth}"));
            let all = create(element("x", (0..n).map(item)).with_id("all"));
            let order = (0..n).rev().map(|nth| format!("n{nth}"));
            let order: Vec<String> = order.collect();
            vec![
                all,
                reorder_children(order.iter().map(String::as_str)).on("all"),
            ]
        }),
    ]
}

#[test]
fn scripts_allocate_as_much_as_they_are_large() {
    for (what, script) in scripts() {
        grows_evenly(what, |size| {
            let store = DataStore::new();
            let [editor, other] = ["ann", "bob"].map(|name| Editor::new(store.clone(), name));
            editor.execute([paragraph("abc")]).unwrap();
            let json = serde_json::to_string(&script(size)).unwrap();
            move || {
                editor.execute(parse_operations(&json).unwrap()).unwrap();
                // The newest edit would be undone without a record.
                other.execute([create(NodeSpec::new("x"))]).unwrap();
                editor.undo().commit().unwrap();
                (editor, other)
            }
        });
    }
}

/// A commit in a document of a size, whose cost may not follow that size.
type Edit = fn(usize) -> (Operation, Operation);

/// Documents that grow, each with an edit that touches a small part.
fn small_edits() -> Vec<(&'static str, Edit)> {
    vec![
        ("one attribute of many", |n| {
            let all = set_attrs(values(n)).on("t");
            (all, set_attrs([("k7", json!("x"))]).on("t"))
        }),
        ("a new attribute beside many", |n| {
            let all = set_attrs(values(n)).on("t");
            (all, set_attrs([("other", json!("x"))]).on("t"))
        }),
        ("an attribute beside a large one", |n| {
            let large = set_attrs([("large", json!("x".repeat(100 * n)))]).on("t");
            (large, set_attrs([("other", json!(1))]).on("t"))
        }),
        ("a letter in a long text", |n| {
            let text = set_text("x".repeat(100 * n)).on("t");
            (text, insert_text(50 * n, "y").on("t"))
        }),
        ("a letter between many marks", |n| {
            let text = set_text("x".repeat(3 * n));
            // The first edit makes the tree of the marks.
            let edited = vec![text, set_marks(marks(n)), insert_text(0, "z")];
            let all = control("t", edited);
            (all, insert_text(n, "y").on("t"))
        }),
        ("a child among many", |n| {
            let children = (0..n).map(|_| NodeSpec::new("x"));
            let all = create(element("all", children).with_id("all"));
            (all, add_child(NodeSpec::new("x"), n / 2).on("all"))
        }),
        ("a letter beside many nodes", |n| {
            let others = create(element("all", vec![NodeSpec::new("x"); n]));
            (others, insert_text(0, "y").on("t"))
        }),
    ]
}

/// Measured at three sizes, alone and beside a snapshot of the version before.
#[test]
fn a_commit_allocates_what_it_touches() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (what, edit) in small_edits() {
        for beside_snapshot in [false, true] {
            let bytes = [SIZE, 10 * SIZE, 100 * SIZE].map(|size| {
                let editor = Editor::new(DataStore::new(), "ann");
                editor.execute([paragraph("abc")]).unwrap();
                let (all, edit) = edit(size);
                editor.execute([all]).unwrap();
                let kept = beside_snapshot.then(|| editor.store().snapshot());
                let [_, bytes] = allocated(|| editor.execute([edit]).unwrap());
                drop(kept);
                bytes
            });
            println!("{what}: {bytes:?} bytes beside a snapshot: {beside_snapshot}");
            // A tree has at most two levels more, each with up to 64 entries to copy.
            let [small, .., large] = bytes;
            assert!(large <= 3 * small.max(16_000), "{what}: {bytes:?}");
        }
    }
}

/// Each attempt and each savepoint copied all nodes of the transaction.
#[test]
fn attempts_and_savepoints_do_not_copy_the_nodes_of_a_transaction() {
    grows_evenly("attempts", |size| {
        let store = DataStore::new();
        move || {
            let mut transaction = store.begin("ann").unwrap();
            for _ in 0..size {
                transaction
                    .attempt(|transaction| transaction.create(NodeSpec::new("x")).map(drop))
                    .unwrap();
            }
            transaction.commit().unwrap();
        }
    });
    grows_evenly("savepoints", |size| {
        let store = DataStore::new();
        move || {
            let mut transaction = store.begin("ann").unwrap();
            let mut first = None;
            for _ in 0..size {
                first.get_or_insert(transaction.savepoint());
                transaction.create(NodeSpec::new("x")).unwrap();
            }
            transaction.rollback_to(first.unwrap()).unwrap();
            transaction.commit().unwrap();
        }
    });
}

/// Each keystroke kept all marks of its text.
#[test]
fn undo_03_late_merges_into_an_older_entry_cost_what_they_change() {
    grows_evenly("late merges", |size| {
        let store = DataStore::new();
        let [ann, bob] = ["ann", "bob"].map(|name| Editor::new(store.clone(), name));
        ann.execute([paragraph("abc")]).unwrap();
        move || {
            let merge = || {
                let letter = insert_text(0, "x").on("t");
                let merged = HistoryMode::MergedInto("upload".into());
                let edit = transaction(&ann, letter).in_history(merged);
                edit.commit().unwrap();
            };
            merge();
            ann.execute([insert_text(0, "y").on("t")]).unwrap();
            for nth in 0..size {
                merge();
                // Merges that follow each other, and merges after an edit of another editor.
                if nth % 2 == 0 {
                    bob.execute([insert_text(0, "z").on("t")]).unwrap();
                }
            }
            ann.undo().commit().unwrap();
            ann.undo().commit().unwrap();
            ann.redo().commit().unwrap();
        }
    });
}

#[test]
fn undo_03_an_undo_costs_the_same_after_any_number_of_commits_by_others() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let of_undos = |others: usize| {
        let store = DataStore::new();
        let [ann, bob] = ["ann", "bob"].map(|name| {
            let options = HistoryOptions::new().group_interval(Duration::ZERO);
            Editor::new(store.clone(), name).with_history(options)
        });
        ann.execute([paragraph("abc")]).unwrap();
        (0..10).for_each(|_| drop(ann.execute([insert_text(0, "x").on("t")]).unwrap()));
        for nth in 0..others {
            let letter = insert_text(nth % 10, "z").on("t");
            bob.execute([letter, delete_text_range(0, 1).on("t")])
                .unwrap();
        }
        // The first one records what is left of the queue.
        ann.undo().commit().unwrap();
        allocated(|| (0..9).for_each(|_| drop(ann.undo().commit().unwrap())))
    };
    let [few, many] = [2_000, 20_000].map(of_undos);
    println!("nine undos: {few:?} allocations and bytes, {many:?} after ten times the commits");
    assert!(many[0] <= 2 * few[0] && many[1] <= 2 * few[1], "{many:?}");
}

/// The time would follow the square of the number if the place of each edit were looked for from
/// the start of its text or list, if each moved all items behind it, or if an undo looked at all
/// neighbours of each child that it brings back.
#[test]
fn undo_03_many_edits_of_one_node_are_recorded_and_undone_in_time_that_follows_their_number() {
    const TIMES: usize = 8;
    type Edits = fn(usize) -> Vec<Operation>;
    let cases: [(&str, Edits); 6] = [
        ("letters from the start", |size| {
            let letter = |nth| insert_text(3 * nth, "x").on("t");
            (0..size).map(letter).collect()
        }),
        ("letters from the end", |size| {
            let letter = |nth| insert_text(2 * nth, "x").on("t");
            (0..size).rev().map(letter).collect()
        }),
        ("deleted letters", |size| {
            let delete = |nth| delete_text_range(nth, nth + 1).on("t");
            (0..size).rev().map(delete).collect()
        }),
        ("new children", |size| {
            let child = |_| add_child(NodeSpec::new("x"), None).on("list");
            (0..size).map(child).collect()
        }),
        ("deleted children", |size| {
            let delete = |nth| delete_node().on(format!("c{nth}"));
            (0..size).rev().map(delete).collect()
        }),
        ("every second child deleted", |size| {
            let delete = |nth| delete_node().on(format!("c{nth}"));
            (0..size).step_by(2).map(delete).collect()
        }),
    ];
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (what, edits) in cases {
        let time = |size: usize| {
            let store = DataStore::new();
            let [ann, bob] = ["ann", "bob"].map(|name| Editor::new(store.clone(), name));
            let text = NodeSpec::new("x").with_text("ab".repeat(size)).with_id("t");
            let children = (0..size).map(|nth| NodeSpec::new("x").with_id(format!("c{nth}")));
            let list = element("list", children).with_id("list");
            ann.execute([create(text), create(list)]).unwrap();
            let edits = edits(size);
            let document = || {
                let document = store.snapshot();
                let [text, list] = ["t", "list"].map(|id| document.node(id).unwrap());
                let children: Vec<NodeId> = list.children().iter().cloned().collect();
                (text.text().to_string(), children)
            };
            let before = document();
            let began = Instant::now();
            ann.execute(edits).unwrap();
            let mut took = began.elapsed();
            let after = document();
            // The newest edit would be undone without a record.
            bob.execute([create(NodeSpec::new("x"))]).unwrap();
            for (turn, expected) in [(ann.undo(), before), (ann.redo(), after)] {
                let began = Instant::now();
                turn.commit().unwrap();
                took += began.elapsed();
                assert!(document() == expected, "{what}: {size}");
            }
            took
        };
        let best = |size| (0..3).map(|_| time(size)).min().unwrap_or_default();
        let [few, many] = [1_000, 1_000 * TIMES].map(best);
        println!("{what}: {few:?}, and {many:?} for {TIMES} times as many");
        // Quadratic cost is 64 times as much.
        assert!(
            many < 4 * TIMES as u32 * few,
            "{what}: {few:?}, then {many:?}"
        );
    }
}

#[test]
fn a_keystroke_beside_marks_copies_them_once() {
    grows_evenly("marks around a keystroke", |size| {
        let editor = Editor::new(DataStore::new(), "ann");
        let text = text_node("x", "x".repeat(3 * size)).with_marks(marks(size));
        editor.execute([create(text.with_id("t"))]).unwrap();
        move || {
            editor.execute([insert_text(1, "x").on("t")]).unwrap();
            editor.undo().commit().unwrap();
            editor
        }
    });
}

/// A page that repeats one construct.
#[test]
fn markdown_allocates_as_much_as_it_is_long() {
    let constructs = [
        "word ",
        "**bold** ",
        "[^note]<http://a.b> ",
        "[a](b) ",
        "![a](b) ",
        "`code` ",
        "> quote\n",
        "- item\n",
        "# title\n\n",
        "<b>html</b> ",
        "| a | b |\n",
        "[",
        "](",
        "**",
        "*a ",
        "`",
        "&amp; ",
        "[^note] ",
        "\\*",
    ];
    for construct in constructs {
        grows_evenly(construct, |size| {
            let page = format!("{}\n\n[^note]: text\n", construct.repeat(size));
            move || doclock_formats::markdown::from_markdown(&page)
        });
    }
}
