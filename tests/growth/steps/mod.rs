//! Ten times the input takes about ten times the steps: no input of a client has quadratic cost.

#[path = "../../common/budget.rs"]
mod budget;
mod cells;
#[allow(
    dead_code,
    reason = "the tests of scripts that were spoilt need the rest"
)]
#[path = "../../common/dice.rs"]
mod common;
mod fitted;
mod fuzz;
mod marks;
mod offsets;
mod places;
#[cfg(feature = "redb")]
mod unloaded;
mod visits;

use std::time::Duration;

use serde_json::Value;

use crate::dsl::*;
use crate::{
    DataStore, Draft, Editor, Snapshot, StoreOptions, TransactionManager,
    document::{EditError, Mark, NodeSpec, Position, Side},
    history::{HistoryMode, HistoryOptions},
    schema::{AttributeSpec, NodeType, Schema, ValueType},
    steps::counted,
    transaction::{NodeOperation, Operation, TextSpan, parse_operations},
};
use budget::{SIZE, grows_evenly, grows_evenly_from};

fn attributes(size: usize) -> Vec<(String, Value)> {
    // Neither ascending nor descending.
    let key = |nth: usize| format!("k{}", nth * 7_919 % size);
    (0..size).map(|nth| (key(nth), nth.into())).collect()
}

fn executes(operations: Vec<Operation>) -> impl FnOnce() {
    let manager = TransactionManager::new(DataStore::new());
    move || drop(manager.execute(operations).unwrap())
}

#[test]
fn a_document_is_saved_and_loaded_node_by_node() {
    type Shape = fn(usize) -> NodeSpec;
    let deep: Shape = |size| {
        (0..size).fold(NodeSpec::new("leaf"), |inner, _| {
            NodeSpec::new("x").with_children([inner])
        })
    };
    let wide: Shape = |size| {
        let items = (0..size).map(|nth| NodeSpec::new("x").with_id(format!("n{nth}")));
        NodeSpec::new("x").with_children(items)
    };
    for shape in [deep, wide] {
        let snapshot = |size| {
            let store = DataStore::new();
            let mut transaction = store.begin("ann").unwrap();
            transaction.create(shape(size)).unwrap();
            transaction.commit().unwrap();
            store.snapshot()
        };
        grows_evenly("saving", |size| {
            let snapshot = snapshot(size);
            move || drop(serde_json::to_string(&snapshot).unwrap())
        });
        grows_evenly("loading", |size| {
            let saved = serde_json::to_string(&snapshot(size)).unwrap();
            move || drop(serde_json::from_str::<Snapshot>(&saved).unwrap())
        });
        grows_evenly("opening", |size| {
            let snapshot = snapshot(size);
            move || {
                let store = StoreOptions::new().schema(any_tree()).document(snapshot);
                drop(store.unwrap());
            }
        });
    }
}

/// A schema with the types of these documents.
fn any_tree() -> Schema {
    let any = || {
        NodeType::new()
            .content("(x | leaf)*")
            .unknown_attributes(true)
    };
    let types = Schema::builder().node("x", any()).node("leaf", any());
    types.build().unwrap()
}

/// All ancestors of the new parent were compared with each child.
#[test]
fn children_that_move_to_a_deep_node_are_moved_one_by_one() {
    for below in [0, 1] {
        grows_evenly("moveChildren", |size| {
            let child = |nth| {
                let below = (0..below).map(|_| NodeSpec::new("leaf"));
                NodeSpec::new("x")
                    .with_id(format!("n{nth}"))
                    .with_children(below)
            };
            let wide = NodeSpec::new("x").with_children((0..size).map(child));
            let deepest = NodeSpec::new("x").with_id("deepest");
            let deep = (0..size).fold(deepest, |inner, _| {
                NodeSpec::new("x").with_children([inner])
            });
            let page = NodeSpec::new("x").with_children([wide.with_id("wide"), deep]);
            let manager = TransactionManager::new(DataStore::new());
            manager.execute([create(page)]).unwrap();
            let moved = (0..size).map(|nth| format!("n{nth}"));
            let operation = move_children(moved, "deepest", None).on("wide");
            move || drop(manager.execute([operation]).unwrap())
        });
    }
}

/// A separate lookup for each attribute made 100,000 of them hold the lock for seven seconds.
#[test]
fn attributes_that_are_set_together_are_merged() {
    grows_evenly("setAttrs", |size| {
        let node = create(NodeSpec::new("x").with_id("n"));
        executes(vec![node, set_attrs(attributes(size)).on("n")])
    });
}

/// A comparison with all earlier aliases made 50,000 of them hold the lock for two seconds.
#[test]
fn aliases_are_found_among_many() {
    grows_evenly("aliases", |size| {
        let named = |nth| create(NodeSpec::new("x")).named(format!("a{nth}"));
        executes((0..size).map(named).collect())
    });
}

/// A copy of the deep child at each level made 30,000 levels take 22 seconds.
#[test]
fn a_leaf_beside_each_level_of_a_deep_tree_copies_no_level_again() {
    for leaf_comes_first in [true, false] {
        grows_evenly("a leaf beside each level", |size| {
            move || {
                let leaf = || NodeSpec::new("leaf");
                let deep = (0..size).fold(leaf(), |deep, _| {
                    let children = match leaf_comes_first {
                        true => [leaf(), deep],
                        false => [deep, leaf()],
                    };
                    NodeSpec::new("x").with_children(children)
                });
                assert_eq!(deep.len(), 2 * size + 1);
            }
        });
    }
}

/// A search from the first sibling for each run of texts is quadratic.
#[test]
fn runs_of_texts_between_others_are_found_from_one_another() {
    grows_evenly_from(SIZE / 5, "autoMergeTextNodes of runs", |size| {
        let manager = TransactionManager::new(DataStore::new());
        let text = |nth| text_node(["x", "x", "y"][nth % 3], "a");
        let texts: Vec<_> = (0..3 * size).map(text).collect();
        let page = create(element("p", texts).with_id("p"));
        manager.execute([page]).unwrap();
        move || drop(manager.execute([auto_merge_text_nodes().on("p")]).unwrap())
    });
}

/// An offset is not searched from the start of its text.
#[test]
fn marks_in_utf16_units_are_converted_one_by_one() {
    grows_evenly("marks in UTF-16 units", |size| {
        let mark = |nth| Mark::new("em", 4 * nth..4 * nth + 3);
        let marks: Vec<Mark> = (0..size).map(mark).collect();
        let text = text_node("x", "🦀b漢".repeat(size)).with_marks(marks.clone());
        executes(utf16([
            create(text.with_id("n")),
            set_marks([]).on("n"),
            set_marks(marks).on("n"),
        ]))
    });
}

/// Each name was compared with all before it.
#[test]
fn transaction_04_duplicate_fields_of_a_payload_are_found_among_many() {
    grows_evenly("fields of a payload", |size| {
        let payload: serde_json::Map<_, _> = attributes(size).into_iter().collect();
        let json = serde_json::json!([{"type": "create", "payload": payload}]).to_string();
        move || assert!(parse_operations(&json).is_err())
    });
}

/// Each line was an edit that changed nothing, and did not count.
#[test]
fn transaction_04_an_empty_indent_visits_no_line() {
    let text = create(text_node("x", "a\n".repeat(SIZE)).with_id("n"));
    let manager = TransactionManager::new(DataStore::new());
    manager.execute([text]).unwrap();
    let visits = |change: NodeOperation| counted(|| manager.execute([change.on("n")]).unwrap()).1;
    let searched = visits(outdent_text("z", ..));
    for change in [indent_text("", ..), outdent_text("", ..)] {
        let visits = visits(change);
        assert!(visits <= searched, "{visits} visits, {searched} to search");
    }
}

/// Only the matches and the bytes searched for them count.
#[test]
fn patterns_read_each_character_once_or_twice() {
    grows_evenly("replacePattern", |size| {
        let text = "longer than nine. ".repeat(size);
        let node = create(text_node("x", text).with_id("n"));
        let replace = replace_pattern("n(i|o)ne|longer", "x$1").on("n");
        executes(vec![node, replace])
    });
}

/// A linear search through the allowed values for each node is quadratic.
#[test]
fn a_node_is_checked_against_any_number_of_allowed_values_at_once() {
    grows_evenly("attributes with allowed values", |size| {
        let values = (0..size).map(Value::from);
        let level = AttributeSpec::new(ValueType::Integer).with_values(values);
        let item = NodeType::new().attribute("level", level);
        let page = NodeType::new().content("item*");
        let schema = Schema::builder().node("page", page).node("item", item);
        let options = StoreOptions::new().schema(schema.build().unwrap());
        let store = DataStore::with_options(options);
        let mut on = store.begin("test").unwrap();
        let item = |nth: usize| NodeSpec::new("item").with_attributes([("level", nth.into())]);
        let items: Vec<_> = (0..size).map(item).collect();
        on.create(NodeSpec::new("page").with_children(items))
            .unwrap();
        move || drop(on.commit().unwrap())
    });
}

/// A search from the first sibling made the deletion of the second half of many siblings quadratic.
#[test]
fn operations_on_many_siblings_find_each_beside_the_one_before() {
    let far = |nth: usize| format!("n{nth}");
    let operations: [(&str, &dyn Fn(usize) -> Operation); 4] = [
        ("deleteRange", &|size| {
            delete_range(TextSpan::to(0, far(2 * size - 1), 0)).on(far(size))
        }),
        ("applyMark", &|size| {
            apply_mark("em", TextSpan::to(0, far(2 * size - 1), 1)).on(far(size))
        }),
        ("autoMergeTextNodes", &|_| auto_merge_text_nodes().on("p")),
        ("wrapInList", &|size| {
            let (list, item) = (NodeSpec::new("list"), NodeSpec::new("item"));
            wrap_in_list_up_to(far(2 * size - 1), list, item).on(far(size))
        }),
    ];
    for (what, operation) in operations {
        grows_evenly_from(SIZE / 5, what, |size| {
            let manager = TransactionManager::new(DataStore::new());
            let kind = |nth| if nth < size { ["x", "y"][nth % 2] } else { "x" };
            let text = |nth| text_node(kind(nth), "a").with_id(far(nth));
            let texts: Vec<_> = (0..2 * size).map(text).collect();
            let page = create(element("page", [element("p", texts).with_id("p")]));
            manager.execute([page]).unwrap();
            let operation = operation(size);
            move || drop(manager.execute([operation]).unwrap())
        });
    }
}

#[test]
fn a_position_follows_undos_of_inverse_code_one_by_one() {
    grows_evenly_from(SIZE / 10, "positions through undos of code", |size| {
        let options = StoreOptions::new().kept_commits(1 << 30);
        let editor = Editor::new(DataStore::with_options(options), "ann");
        let text = text_node("text", "abc").with_id("t");
        editor.execute(create(text)).unwrap();
        let store = editor.store().clone();
        let version = store.version();
        for _ in 0..size {
            let code = |draft: &mut Draft| draft.set_text("t", "abcd");
            let edit = op_with_inverse(code, |_: &mut Draft| Ok::<(), EditError>(()));
            editor.execute(edit).unwrap();
            editor.undo().commit().unwrap();
        }
        let position = Position::new("t", 3);
        let to = store.snapshot();
        move || {
            drop(
                to.map_position(&store, version, &position, Side::After)
                    .unwrap(),
            )
        }
    });
}

/// Each change went through what all before it had left.
#[test]
fn a_position_follows_the_changes_of_one_commit_one_by_one() {
    type Kind = fn(usize) -> Vec<Operation>;
    let kinds: [(&str, Kind); 2] = [
        ("replacements", |_| vec![replace_pattern("b", "cd").on("t")]),
        ("splits", |size| {
            let at = (0..size).map(|nth| 3 * (size - nth) - 1);
            at.map(|at| split_text_node(at).on("t")).collect()
        }),
    ];
    for (what, kind) in kinds {
        let edited = |size| {
            let options = StoreOptions::new().kept_commits(1 << 30);
            let editor = Editor::new(DataStore::with_options(options), "ann");
            let text = text_node("text", "ab ".repeat(size)).with_id("t");
            editor.execute(create(element("page", [text]))).unwrap();
            let version = editor.store().version();
            let changes = editor.execute(kind(size)).unwrap().changes;
            (editor.store().clone(), version, changes)
        };
        for at in [1, 2 * SIZE] {
            let position = Position::new("t", at);
            grows_evenly(&format!("a position through {what}"), |size| {
                let (store, version, _) = edited(size);
                let (to, position) = (store.snapshot(), &position);
                move || {
                    drop(
                        to.map_position(&store, version, position, Side::After)
                            .unwrap(),
                    )
                }
            });
            grows_evenly(
                &format!("a position through the changes of {what}"),
                |size| {
                    let (_, _, changes) = edited(size);
                    let position = &position;
                    move || drop(position.mapped(&changes, Side::After))
                },
            );
        }
    }
}

/// Each letter was looked for in a text that a later change deletes.
#[test]
fn undo_04_the_first_place_is_found_in_one_pass_over_the_changes() {
    grows_evenly_from(SIZE / 5, "the first place of changes", |size| {
        let editor = Editor::new(DataStore::new(), "ann");
        let text = text_node("text", "0123456789").with_id("t");
        editor.execute(create(element("page", [text]))).unwrap();
        let group = editor.group();
        let typed = (0..size).map(|nth| insert_text(5 + nth, "x").on("t"));
        editor.execute(typed.collect::<Vec<_>>()).unwrap();
        let cut = [
            split_text_node(2).on("t").named("r"),
            delete_node().on(alias("r")),
        ];
        editor.execute(cut).unwrap();
        drop(group);
        editor.undo().commit().unwrap();
        let changes = editor.redo().commit().unwrap().changes;
        let now = editor.store().snapshot();
        move || drop(changes.first_place(&now))
    });
}

/// Each of its commits is an entry, and its undo passes those without an effect.
fn editor_of_many_entries() -> Editor {
    let options = HistoryOptions::new().limit(usize::MAX);
    let options = options.group_interval(Duration::ZERO);
    let ann = Editor::new(DataStore::new(), "ann");
    ann.with_history(options.undo_next_effective(true))
}

/// Each one was searched behind all entries of other names.
#[test]
fn undo_06_entries_of_a_name_are_found_among_the_others() {
    grows_evenly_from(SIZE / 5, "entries of a name without an effect", |size| {
        let ann = editor_of_many_entries();
        let texts = ["t", "u", "v"].map(|id| text_node("text", "").with_id(id));
        ann.execute(create(element("page", texts))).unwrap();
        let of_form = |text: &str| {
            let edit = transaction(&ann, [insert_text(0, "x").on(text)]);
            edit.in_history(HistoryMode::Origin("form".into()))
                .commit()
                .unwrap();
        };
        of_form("v");
        (0..size).for_each(|_| of_form("t"));
        for _ in 0..size {
            ann.execute(insert_text(0, "x").on("u")).unwrap();
        }
        let bob = Editor::new(ann.store().clone(), "bob");
        bob.execute(delete_text_range(0, size).on("t")).unwrap();
        move || {
            assert!(ann.undo().of("form").commit().unwrap().changed);
            assert_eq!((ann.undo_depth(), ann.redo_depth()), (size + 1, size + 1));
        }
    });
}

/// Each one was searched from the newest entry, twice.
#[test]
fn undo_03_entries_without_an_effect_are_passed_one_by_one() {
    grows_evenly_from(SIZE / 5, "entries without an effect", |size| {
        let ann = editor_of_many_entries();
        let text = text_node("text", "").with_id("t");
        ann.execute(create(element("page", [text]))).unwrap();
        for _ in 0..size {
            ann.execute(insert_text(0, "x").on("t")).unwrap();
        }
        let bob = Editor::new(ann.store().clone(), "bob");
        bob.execute(delete_text_range(0, size).on("t")).unwrap();
        move || {
            assert!(ann.undo().commit().unwrap().changed);
            assert_eq!((ann.undo_depth(), ann.redo_depth()), (0, size + 1));
        }
    });
}
