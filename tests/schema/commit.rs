//! Every write path is checked: which changes fail at once, which at the commit, and that a failure
//! leaves no trace.

use doclock::{
    CommitError, DataStore, Draft, Editor, NodeId, View,
    document::{Change, ChildPosition, EditError, Mark, NodeSpec, RightHalf, SplitPoint, check},
    dsl,
    schema::{NodeType, Schema, SchemaViolation},
    transaction::TransactionError,
};
use serde_json::json;

use crate::common::{children, commit, id, image};
use crate::{refused, schema, store_with};

fn documents() -> Schema {
    schema(
        r#"{
            "nodes": {
                "page": {"content": "heading? block+"},
                "heading": {"content": "inline+", "attributes": {"level": {"type": "integer"}}},
                "paragraph": {"group": "block", "content": "inline*"},
                "list": {"group": "block", "content": "item+"},
                "item": {"content": "block+"},
                "inline-text": {"group": "inline"},
                "code": {"group": "inline", "marks": ""},
                "image": {"group": "inline", "content": ""}
            },
            "marks": {"bold": {}, "link": {}},
            "root": "page"
        }"#,
    )
}

fn node(kind: &str, id: &str) -> NodeSpec {
    NodeSpec::new(kind).with_id(id)
}

/// A page `page` of a heading `h` with the text `ht`, and the paragraphs `p` with the text `pt` and
/// `q`.
fn store() -> DataStore {
    let store = store_with(documents());
    let text = |id: &str| {
        node("inline-text", id)
            .with_text("text")
            .with_marks([Mark::new("bold", 0..2)])
    };
    commit(&store, |on| {
        let heading = node("heading", "h").with_children([text("ht")]);
        let first = node("paragraph", "p").with_children([text("pt")]);
        let page = node("page", "page").with_children([heading, first, node("paragraph", "q")]);
        on.create(page).unwrap();
        on.set_root(&id("page")).unwrap();
    });
    store
}

fn apply(on: &mut Draft, change: Change) {
    on.apply(change).unwrap();
}

const TOO_FEW: &str =
    "node page of type page has 0 children; its content `heading? block+` requires more";

// --- At once ---

#[test]
fn tree_06_an_unknown_type_or_mark_is_refused_by_the_edit_that_brings_it_in() {
    let store = store();
    let mut on = store.begin("test").unwrap();
    let unknown_type = |id: &str| {
        EditError::from(SchemaViolation::UnknownType {
            id: id.into(),
            kind: "blok".into(),
        })
    };
    let unknown_mark = |id: &str| {
        EditError::from(SchemaViolation::UnknownMark {
            id: id.into(),
            mark: "blink".into(),
        })
    };
    let blink = || [Mark::whole("blink")];
    let before = image(&on);
    let errors = [
        (on.create(node("blok", "n")).map(drop), unknown_type("n")),
        (
            on.create(node("paragraph", "m").with_children([node("blok", "n")]))
                .map(drop),
            unknown_type("n"),
        ),
        (
            on.insert(node("blok", "n"), id("page"), 0).map(drop),
            unknown_type("n"),
        ),
        (on.set_type(id("q"), "blok"), unknown_type("q")),
        (
            on.create(node("inline-text", "n").with_text("x").with_marks(blink()))
                .map(drop),
            unknown_mark("n"),
        ),
        (on.set_marks(id("pt"), blink()), unknown_mark("pt")),
    ];
    for (error, expected) in errors {
        assert_eq!(error, Err(expected));
    }
    let cut = SplitPoint {
        text: 0,
        children: 0,
    };
    let error = on
        .split_node(id("p"), cut, Some("blok".into()))
        .unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("is of type blok, which the schema does not have"),
        "{error}"
    );
    assert_eq!(image(&on), before);
    assert_eq!(on.commit().unwrap().version, 1, "nothing was changed");
}

#[test]
fn tree_06_the_error_names_the_operation() {
    let editor = Editor::new(store(), "ann");
    let operations = [
        dsl::delete_node().on("q"),
        dsl::add_child(NodeSpec::new("blok").with_id("n"), None).on("page"),
    ];
    assert_eq!(
        dsl::transaction(&editor, operations)
            .commit()
            .unwrap_err()
            .to_string(),
        "operation 1 (addChild on node page): node n is of type blok, which the schema does not have",
    );
    let error = dsl::transaction(&editor, [dsl::delete_node().on("ht")])
        .commit()
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "node h of type heading has 0 children; its content `inline+` requires more",
    );
    let TransactionError::Commit(CommitError::Schema(violation)) = error else {
        panic!("{error}")
    };
    assert_eq!(violation.node_id(), &id("h"));
    assert_eq!(editor.store().version(), 1);
    assert!(!editor.store().is_locked());
}

#[test]
fn tree_06_a_violation_that_later_edits_repair_is_accepted() {
    let store = store();
    commit(&store, |on| {
        // Without a block, with two headings, with text in it, without a page.
        on.delete(id("p")).unwrap();
        on.delete(id("q")).unwrap();
        on.insert(node("heading", "h2"), id("page"), 1).unwrap();
        on.set_text(id("page"), "no").unwrap();
        on.set_text(id("page"), "").unwrap();
        on.set_type(id("h2"), "paragraph").unwrap();
        on.insert(node("list", "l"), id("page"), 1).unwrap();
        on.insert(node("item", "i"), id("l"), 0).unwrap();
        on.move_node(id("h2"), id("i"), 0).unwrap();
    });
    assert_eq!(children(&store.snapshot(), "page"), ["h", "l"]);
    assert_eq!(documents().check_all(&store.snapshot()), Ok(()));
}

// --- At the commit, by each primitive ---

#[test]
fn tree_06_inserted_subtrees_and_their_parents_are_checked() {
    let store = store();
    assert_eq!(
        refused(&store, |on| drop(
            on.insert(node("heading", "n"), id("page"), 0).unwrap()
        )),
        "node n of type heading has 0 children; its content `inline+` requires more",
    );
    assert_eq!(
        refused(&store, |on| drop(
            on.insert(node("inline-text", "n"), id("page"), 1).unwrap()
        )),
        "node page of type page has a child of type inline-text at index 1, \
         where its content `heading? block+` does not allow it",
    );
    assert_eq!(
        refused(&store, |on| {
            let item = node("item", "i").with_children([node("inline-text", "n")]);
            on.create(node("list", "l").with_children([item])).unwrap();
        }),
        "node i of type item has a child of type inline-text at index 0, where its content `block+` does not allow it",
    );
    assert_eq!(
        refused(&store, |on| drop(
            on.insert(node("image", "n").with_text("x"), id("q"), 0)
                .unwrap()
        )),
        "node n has text, which its type image does not allow",
    );
}

#[test]
fn tree_06_the_parent_of_a_removed_subtree_is_checked() {
    let store = store();
    commit(&store, |on| on.delete(id("q")).unwrap());
    assert_eq!(
        refused(&store, |on| on.delete(id("p")).unwrap()),
        "node page of type page has 1 children; its content `heading? block+` requires more",
    );
    assert_eq!(
        refused(&store, |on| {
            on.delete(id("p")).unwrap();
            on.delete(id("h")).unwrap();
        }),
        TOO_FEW,
    );
}

#[test]
fn tree_06_both_parents_of_a_moved_node_are_checked() {
    let store = store();
    assert_eq!(
        refused(&store, |on| on.move_node(id("ht"), id("q"), 0).unwrap()),
        "node h of type heading has 0 children; its content `inline+` requires more",
    );
    assert_eq!(
        refused(&store, |on| on.move_node(id("h"), id("page"), 1).unwrap()),
        "node page of type page has a child of type heading at index 1, \
         where its content `heading? block+` does not allow it",
    );
    assert_eq!(
        refused(&store, |on| on.move_node(id("q"), id("p"), 0).unwrap()),
        "node p of type paragraph has a child of type paragraph at index 0, \
         where its content `inline*` does not allow it",
    );
    commit(&store, |on| on.move_node(id("pt"), id("h"), 0).unwrap());
    assert_eq!(children(&store.snapshot(), "h"), ["pt", "ht"]);
}

#[test]
fn tree_06_text_is_checked() {
    let store = store();
    commit(&store, |on| {
        drop(on.insert(node("image", "i"), id("q"), 0).unwrap())
    });
    assert_eq!(
        refused(&store, |on| on.insert_text(id("i"), 0, "x").unwrap()),
        "node i has text, which its type image does not allow",
    );
    assert_eq!(
        refused(&store, |on| on.set_text(id("p"), "x").unwrap()),
        "node p has text, which its type paragraph does not allow",
    );
    commit(&store, |on| on.replace_text(id("pt"), 0..1, "T").unwrap());
}

#[test]
fn tree_06_marks_are_checked() {
    let store = store();
    commit(&store, |on| {
        drop(
            on.insert(node("code", "c").with_text("x"), id("q"), 0)
                .unwrap(),
        )
    });
    let violation = "node c has the mark bold, which its type code does not allow";
    assert_eq!(
        refused(&store, |on| on
            .set_marks(id("c"), [Mark::whole("bold")])
            .unwrap()),
        violation,
    );
    commit(&store, |on| {
        on.set_marks(id("pt"), [Mark::whole("link")]).unwrap()
    });
}

/// Only the marks that a transaction adds are checked, wherever they come from.
#[test]
fn tree_06_added_marks_are_checked_as_far_as_they_stay() {
    let store = store_with(schema(
        r#"{
            "nodes": {
                "line": {"content": "(text | plain)*"},
                "text": {},
                "plain": {"marks": ""}
            },
            "marks": {"bold": {}}
        }"#,
    ));
    let bold = || [Mark::whole("bold")];
    commit(&store, |on| {
        let plain = node("plain", "p").with_text("plain");
        let text = node("text", "t").with_text("text").with_marks(bold());
        on.create(node("line", "l").with_children([plain, text]))
            .unwrap();
    });
    let violation = "node p has the mark bold, which its type plain does not allow";
    let edits: [fn(&mut Draft); 3] = [
        |on| on.join_nodes(id("p"), id("t")).unwrap(),
        |on| {
            on.set_marks(id("p"), [Mark::whole("bold")]).unwrap();
            on.set_marks(id("p"), [Mark::new("bold", 1..2)]).unwrap();
        },
        |on| {
            on.set_marks(id("p"), [Mark::new("bold", 0..4)]).unwrap();
            on.delete_text(id("p"), 2..5).unwrap();
        },
    ];
    for edit in edits {
        assert_eq!(refused(&store, edit), violation);
    }
    commit(&store, |on| {
        on.set_marks(id("p"), bold()).unwrap();
        on.set_text(id("p"), "other").unwrap();
        on.insert_text(id("t"), 1, "x").unwrap();
    });
}

/// A type allows marks for the texts of its children as well, however they come there.
#[test]
fn tree_06_marks_of_a_child_are_checked() {
    let store = store_with(schema(
        r#"{
            "nodes": {
                "page": {"content": "(line | title)*"},
                "line": {"content": "text*"},
                "title": {"content": "text*", "marks": ""},
                "text": {}
            },
            "marks": {"bold": {}}
        }"#,
    ));
    let text = |id: &str| node("text", id).with_text("text");
    commit(&store, |on| {
        let line = node("line", "l").with_children([text("b").with_marks([Mark::whole("bold")])]);
        let title = node("title", "t").with_children([text("c")]);
        on.create(node("page", "page").with_children([title, line]))
            .unwrap();
    });
    let violation = "node t has the mark bold, which its type title does not allow";
    let bold = || [Mark::whole("bold")];
    let edits: [fn(&mut Draft); 4] = [
        |on| on.move_node(id("b"), id("t"), 1).unwrap(),
        |on| on.join_nodes(id("t"), id("l")).unwrap(),
        |on| on.set_marks(id("c"), [Mark::whole("bold")]).unwrap(),
        |on| {
            let text = node("text", "new")
                .with_text("x")
                .with_marks([Mark::whole("bold")]);
            drop(on.insert(text, id("t"), 0).unwrap());
        },
    ];
    for edit in edits {
        assert_eq!(refused(&store, edit), violation);
    }
    assert_eq!(
        refused(&store, |on| on.set_type(id("l"), "title").unwrap()),
        "node l has the mark bold, which its type title does not allow"
    );
    commit(&store, |on| on.set_marks(id("b"), bold()).unwrap());
}

#[test]
fn tree_06_attributes_are_checked() {
    let store = store();
    commit(&store, |on| {
        on.set_attrs(id("h"), [("level", json!(2))]).unwrap()
    });
    assert_eq!(
        refused(&store, |on| on
            .set_attrs(id("h"), [("level", json!("2"))])
            .unwrap()),
        "node h of type heading: the attribute level has a value of type string instead of integer",
    );
    assert_eq!(
        refused(&store, |on| on
            .set_attrs(id("p"), [("level", json!(2))])
            .unwrap()),
        "node p of type paragraph: there is no attribute level",
    );
}

#[test]
fn tree_06_a_changed_type_is_checked_in_the_node_and_its_parent() {
    let store = store();
    assert_eq!(
        refused(&store, |on| on.set_type(id("q"), "heading").unwrap()),
        "node q of type heading has 0 children; its content `inline+` requires more",
    );
    assert_eq!(
        refused(&store, |on| on.set_type(id("p"), "heading").unwrap()),
        "node page of type page has a child of type heading at index 1, \
         where its content `heading? block+` does not allow it",
    );
    assert_eq!(
        refused(&store, |on| on.set_type(id("pt"), "code").unwrap()),
        "node pt has the mark bold, which its type code does not allow",
    );
    commit(&store, |on| {
        on.set_attrs(id("h"), [("level", json!(2))]).unwrap()
    });
    assert_eq!(
        refused(&store, |on| on.set_type(id("h"), "paragraph").unwrap()),
        "node h of type paragraph: there is no attribute level",
    );
    commit(&store, |on| {
        on.set_type(id("h"), "paragraph").unwrap();
        on.set_attrs(id("h"), [("level", json!(null))]).unwrap();
    });
    // A type changed and changed back is no change.
    commit(&store, |on| {
        on.set_type(id("h"), "list").unwrap();
        on.set_type(id("h"), "paragraph").unwrap();
        on.insert_text(id("ht"), 0, "x").unwrap();
    });
}

#[test]
fn tree_06_both_halves_of_a_split_node_and_its_siblings_are_checked() {
    let store = store();
    let cut = |children| SplitPoint { text: 0, children };
    assert_eq!(
        refused(&store, |on| drop(
            on.split_node(id("h"), cut(0), Some("paragraph".into()))
                .unwrap()
        )),
        "node h of type heading has 0 children; its content `inline+` requires more",
    );
    assert_eq!(
        refused(&store, |on| drop(
            on.split_node(id("p"), cut(1), Some("list".into())).unwrap()
        )),
        "node 7:1 of type list has 0 children; its content `item+` requires more"
            .replace("7:1", "7:2"),
    );
    assert_eq!(
        refused(&store, |on| {
            let right = on.split_node(id("h"), cut(1), None).unwrap();
            on.insert(node("image", "i"), &right, 0).unwrap();
        }),
        "node page of type page has a child of type heading at index 1, \
         where its content `heading? block+` does not allow it",
    );
    assert_eq!(
        refused(&store, |on| {
            on.set_attrs(id("h"), [("level", json!(1))]).unwrap();
            on.split_node(id("h"), cut(1), Some("paragraph".into()))
                .unwrap();
        }),
        "node 7:4 of type paragraph: there is no attribute level",
    );
    commit(&store, |on| {
        drop(
            on.split_node(id("h"), cut(1), Some("paragraph".into()))
                .unwrap(),
        )
    });
    commit(&store, |on| {
        on.split_node(
            id("pt"),
            SplitPoint {
                text: 2,
                children: 0,
            },
            Some("code".into()),
        )
        .unwrap();
    });
    assert_eq!(documents().check_all(&store.snapshot()), Ok(()));
}

#[test]
fn tree_06_a_joined_node_and_its_siblings_are_checked() {
    let store = store();
    commit(&store, |on| {
        drop(
            on.insert(node("code", "c").with_text("x"), id("p"), 0)
                .unwrap(),
        )
    });
    assert_eq!(
        refused(&store, |on| on.join_nodes(id("c"), id("pt")).unwrap()),
        "node c has the mark bold, which its type code does not allow",
    );
    commit(&store, |on| on.join_nodes(id("p"), id("q")).unwrap());
    assert_eq!(
        refused(&store, |on| on.join_nodes(id("h"), id("p")).unwrap()),
        "node page of type page has 1 children; its content `heading? block+` requires more",
    );
    commit(&store, |on| {
        let list = node("list", "l")
            .with_children([node("item", "i").with_children([node("paragraph", "r")])]);
        on.insert(list, id("page"), None).unwrap();
    });
    assert_eq!(
        refused(&store, |on| on.join_nodes(id("p"), id("l")).unwrap()),
        "node p of type paragraph has a child of type item at index 2, where its content `inline*` does not allow it",
    );
}

#[test]
fn tree_06_the_root_has_its_type() {
    let store = store();
    let violation = "node n is the root and of type paragraph; the root must be of type page";
    assert_eq!(
        refused(&store, |on| {
            on.create(node("paragraph", "n")).unwrap();
            on.set_root(&id("n")).unwrap();
        }),
        violation,
    );
    commit(&store, |on| {
        on.create(node("page", "n").with_children([node("paragraph", "below")]))
            .unwrap();
        on.set_root(&id("n")).unwrap();
    });
    assert_eq!(
        refused(&store, |on| {
            on.delete(id("below")).unwrap();
            on.set_type(id("n"), "paragraph").unwrap();
        }),
        violation,
    );
    commit(&store, |on| on.set_root(None).unwrap());
}

#[test]
fn tree_06_primitive_changes_are_checked_like_operations() {
    let store = store();
    let place = |parent: &str, index| {
        Some(ChildPosition {
            parent: parent.into(),
            index,
        })
    };
    let shown = store_with(
        Schema::builder()
            .node("blok", NodeType::new())
            .build()
            .unwrap(),
    );
    commit(&shown, |on| drop(on.create(node("blok", "n")).unwrap()));
    let foreign = {
        let mut on = shown.begin("test").unwrap();
        on.delete(id("n")).unwrap();
        on.changes()[0].inverse()
    };
    assert_eq!(
        refused(&store, |on| apply(on, foreign)),
        "node n is of type blok, which the schema does not have",
    );
    assert_eq!(
        refused(&store, |on| apply(
            on,
            Change::SetType {
                id: id("q"),
                before: "paragraph".into(),
                after: "blok".into(),
            }
        )),
        "node q is of type blok, which the schema does not have",
    );
    assert_eq!(
        refused(&store, |on| {
            let (id, from, to) = (id("ht"), place("h", 0), place("page", 3));
            apply(on, Change::MoveNode { id, from, to });
        }),
        "node h of type heading has 0 children; its content `inline+` requires more",
    );
    assert_eq!(
        refused(&store, |on| apply(
            on,
            Change::SplitNode {
                id: id("p"),
                at: SplitPoint {
                    text: 0,
                    children: 0
                },
                right: Box::new(RightHalf {
                    id: id("n"),
                    kind: "blok".into(),
                    attributes: Default::default()
                }),
                place: place("page", 2).unwrap(),
            }
        )),
        "node n is of type blok, which the schema does not have",
    );
}

#[test]
fn tree_06_detached_nodes_are_checked_without_a_parent() {
    let store = store();
    commit(&store, |on| on.remove_child(id("page"), id("q")).unwrap());
    commit(&store, |on| {
        drop(
            on.create(node("item", "i").with_children([node("paragraph", "r")]))
                .unwrap(),
        )
    });
    assert_eq!(
        refused(&store, |on| drop(on.create(node("item", "j")).unwrap())),
        "node j of type item has 0 children; its content `block+` requires more",
    );
    assert_eq!(
        refused(&store, |on| on.remove_child(id("i"), id("r")).unwrap()),
        "node i of type item has 0 children; its content `block+` requires more",
    );
    assert_eq!(
        refused(&store, |on| on.set_text(id("q"), "x").unwrap()),
        "node q has text, which its type paragraph does not allow",
    );
}

// --- Surroundings ---

#[test]
fn tree_06_a_node_that_was_deleted_and_created_again_is_checked_as_new() {
    let store = store();
    let again = |on: &mut Draft, kind: &str| {
        on.delete(id("q")).unwrap();
        on.insert(node(kind, "q"), id("page"), 2).unwrap();
    };
    assert_eq!(
        refused(&store, |on| again(on, "image")),
        "node page of type page has a child of type image at index 2, \
         where its content `heading? block+` does not allow it",
    );
    assert_eq!(
        refused(&store, |on| {
            // The split makes no difference to the result.
            on.split_node(
                id("p"),
                SplitPoint {
                    text: 0,
                    children: 1,
                },
                None,
            )
            .unwrap();
            on.delete(id("q")).unwrap();
            on.insert(node("image", "q"), id("page"), None).unwrap();
        }),
        "node page of type page has a child of type image at index 3, \
         where its content `heading? block+` does not allow it",
    );
    commit(&store, |on| again(on, "paragraph"));
}

#[test]
fn tree_06_a_lock_that_was_joined_stays_held_when_a_commit_is_refused() {
    let store = store();
    let lock = store.acquire_lock("front end").unwrap();
    let mut on = store.begin_under(lock).unwrap();
    on.delete(id("ht")).unwrap();
    assert!(on.commit().is_err());
    assert_eq!(store.current_lock().map(|held| held.lock_id), Some(lock));
    commit_under(&store, lock);
    store.release_lock(lock).unwrap();
}

fn commit_under(store: &DataStore, lock: doclock::LockId) {
    let mut on = store.begin_under(lock).unwrap();
    on.insert_text(id("ht"), 0, "x").unwrap();
    on.commit().unwrap();
}

#[test]
fn tree_06_a_store_without_a_schema_takes_anything() {
    let store = crate::common::store();
    assert!(store.schema().is_none());
    commit(&store, |on| {
        let child = node("x", "n")
            .with_text("t")
            .with_marks([Mark::whole("blink")]);
        on.create(node("blok", "m").with_children([child])).unwrap();
        on.set_attrs(id("m"), [("a", json!(1))]).unwrap();
        on.set_root(&id("m")).unwrap();
    });
    assert_eq!(check(&store.snapshot()), Ok(()));
    let with = store_with(documents());
    assert_eq!(
        serde_json::to_value(with.schema().unwrap()).unwrap(),
        serde_json::to_value(documents()).unwrap(),
    );
}

#[test]
fn tree_06_depth_is_no_limit() {
    let schema = Schema::builder()
        .node("n", NodeType::new().content("n?"))
        .build()
        .unwrap();
    let store = store_with(schema);
    let deep = (1..100_000).fold(NodeSpec::new("n"), |inner, _| {
        NodeSpec::new("n").with_children([inner])
    });
    commit(&store, |on| drop(on.create(deep.with_id("top")).unwrap()));
    let lowest: NodeId = {
        let snapshot = store.snapshot();
        let last = snapshot
            .nodes()
            .find(|node| node.children().is_empty())
            .unwrap();
        last.id().clone()
    };
    assert_eq!(
        refused(&store, |on| {
            on.insert(NodeSpec::new("n"), &lowest, 0).unwrap();
            on.insert(NodeSpec::new("n"), &lowest, 0).unwrap();
        }),
        format!(
            "node {lowest} of type n has a child of type n at index 1, where its content `n?` does not allow it"
        ),
    );
}
