//! An operation reads the document as it is when its nodes are locked (NODE LOCKS 6).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use doclock::document::{Attributes, Fragment, Limit, Limits, TextUnit};
use doclock::lock::node::Scope;
use doclock::schema::{MarkType, NodeType, Schema};
use doclock::transaction::on_node::JoinTarget;
use doclock::transaction::{Operation, RunOperations, TextSpan, TransactionError};
use doclock::{
    CommitError, DataStore, Draft, StoreOptions, Transaction, View, codes::CodedError, dsl::*,
};

use super::common::{Dice, seed};
use super::patient;

/// A page with two paragraphs, a list of two items and an empty paragraph, under a schema or not.
/// The id of each text is its text.
fn page(with_schema: bool) -> DataStore {
    let types = Schema::builder()
        .node("page", NodeType::new().content("block+"))
        .node("p", NodeType::new().group("block").content("text*"))
        .node("quote", NodeType::new().group("block").content("block+"))
        .node("heading", NodeType::new().group("block").content("text*"))
        .node("list", NodeType::new().group("block").content("item+"))
        .node("item", NodeType::new().content("p block*"))
        .node("text", NodeType::new().unknown_attributes(true))
        .mark(
            "em",
            MarkType::new().inclusive(true).unknown_attributes(true),
        );
    let schema = types.root("page").build().unwrap();
    let options = match with_schema {
        true => StoreOptions::new().schema(schema),
        false => StoreOptions::new(),
    };
    let store = DataStore::with_options(options);
    let line = |id: &str| {
        let text = text_node("text", id).with_id(id);
        element("p", [text]).with_id(format!("p-{id}"))
    };
    let item = |id: &str| element("item", [line(id)]).with_id(format!("item-{id}"));
    let list = element("list", [item("three"), item("four")]).with_id("list");
    let blank = element("p", [text_node("text", "").with_id("blank")]).with_id("p-blank");
    let blocks = [line("one"), line("two"), list, blank];
    let mut setup = store.begin("setup").unwrap();
    setup
        .run([
            create(element("page", blocks).with_id("page")),
            set_root().on("page"),
        ])
        .unwrap();
    setup.run([apply_mark("em", ..).on("one")]).unwrap();
    setup.commit().unwrap();
    store
}

/// The types, attributes, texts and marks of all nodes.
fn shape(store: &DataStore) -> String {
    let view = store.snapshot();
    let nodes = view.descendants("page").map(|node| {
        let depth = view.ancestors(node.id()).count();
        let marks: Vec<_> = node.marks().iter().map(|mark| mark.range.clone()).collect();
        let (kind, text, attributes) = (node.kind(), node.text(), node.attributes());
        format!("{depth} {kind} {text:?} {attributes:?} {marks:?}\n")
    });
    nodes.collect()
}

/// Changes every text of the page.
fn change_texts(store: &DataStore) {
    let mut bob = begin(store, "bob");
    for id in ["one", "two", "three", "four"] {
        bob.insert_text(id, 1, "bob").unwrap();
    }
    bob.commit().unwrap();
}

/// A transaction on nodes that locks what it needs.
fn begin(store: &DataStore, owner: &str) -> Transaction {
    let request = store.request_transaction(owner).on(Scope::new());
    request.options(patient().unbound()).wait().unwrap()
}

/// Operations of every kind that reads what it changes. A blank block at the end of the page is not
/// lifted under a schema.
fn operations() -> Vec<Operation> {
    let spec = |kind: &str| element(kind, []);
    let over = || TextSpan::to(2, "two", 1);
    let line = element("p", [text_node("text", "new")]);
    let fragment = Fragment {
        nodes: vec![line],
        ..Fragment::default()
    };
    let attributes = || [("x", 1.into())].into_iter().collect::<Attributes>();
    vec![
        insert_text(6, "!").on("one"),
        insert_text(0, "!").on("blank"),
        insert_text(4, "!").on("one").in_unit(TextUnit::Utf16),
        set_text("!").on("one"),
        delete_text_range(1, 3).on("one"),
        delete_range(over()).on("one"),
        replace_text(1, 5, "!").on("one"),
        type_over(1, "two", 4, "!").on("one"),
        replace_pattern("bob", "ann").on("one"),
        wrap_text("(", ")", ..).on("one"),
        unwrap_text("o", "e", ..).on("one"),
        indent_text("  ", ..).on("one"),
        outdent_text("o", ..).on("one"),
        split_text_node(4).on("one"),
        merge_block_nodes("p-two").on("p-one"),
        insert_paragraph(6).on("one"),
        insert_paragraph(0).on("three"),
        join_block(JoinTarget::Any, false).on("two"),
        join_block(JoinTarget::Text, true).on("one"),
        lift_empty_block().on("blank"),
        split_list_item(5, "item").on("three"),
        wrap_in_list(spec("list"), spec("item")).on("p-two"),
        wrap_node(spec("quote")).on("p-one"),
        indent_node().on("item-four"),
        outdent_node().on("item-three"),
        transform_node("heading", [("x", serde_json::Value::Null)]).on("p-one"),
        apply_mark("em", 2..).on("two"),
        apply_mark_with("em", attributes(), over()).on("one"),
        remove_mark("em", over()).on("one"),
        toggle_mark("em", ..).on("one"),
        update_mark("em", [("x", 1.into())], ..).on("one"),
        clear_formatting(over()).on("one"),
        update_node([("x", 1.into())], Some("!".into()), None).on("one"),
        cut_range(over()).on("one"),
        paste_fragment(6, fragment).on("one"),
        delete_block().on("p-two"),
        delete_node().on("p-two"),
        add_child(spec("p"), None).on("page"),
        move_block_down().on("p-one"),
        clone_node_with_children().on("p-one"),
        copy_node().on("one"),
    ]
}

#[test]
fn node_locks_06_an_operation_edits_what_it_finds_when_its_nodes_are_locked() {
    for (with_schema, valid) in [(true, 40), (false, 41)] {
        let mut compared = 0;
        for operation in operations() {
            let expected = page(with_schema);
            change_texts(&expected);
            let mut alone = expected.begin("ann").unwrap();
            let what = format!("{operation:?}, schema: {with_schema}");
            if alone.run([operation.clone()]).is_err() || alone.commit().is_err() {
                continue;
            }
            let store = page(with_schema);
            let mut ann = begin(&store, "ann");
            change_texts(&store);
            ann.run([operation])
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            ann.commit()
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(shape(&store), shape(&expected), "{what}");
            compared += 1;
        }
        assert_eq!(compared, valid);
    }
}

/// What was computed from the earlier read would be wrong.
#[test]
fn node_locks_06_a_read_before_the_operation_is_not_forgotten() {
    for id in ["one", "two"] {
        let store = page(true);
        let mut ann = begin(&store, "ann");
        assert_eq!(ann.text_of(id).unwrap(), id);
        change_texts(&store);
        let error = match ann.run([insert_text(0, "!").on("one")]) {
            Err(TransactionError::Operation { cause, .. }) => cause.code(),
            Err(other) => panic!("{other}"),
            Ok(()) => panic!("{id}: the operation ran again"),
        };
        assert_eq!(error, "nodeOutdated");
    }
}

/// It may have effects that no savepoint reverts.
#[test]
fn node_locks_06_code_runs_once_within_its_transaction() {
    let store = page(true);
    let mut ann = begin(&store, "ann");
    change_texts(&store);
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let code = op(move |draft: &mut Draft| {
        counted.fetch_add(1, Ordering::Relaxed);
        let len = draft.text_of("one")?.chars().count();
        draft.insert_text("one", len, "!")
    });
    ann.run([code]).unwrap_err();
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    let refused = ann.commit();
    assert!(
        matches!(refused, Err(CommitError::Conflict { .. })),
        "{refused:?}"
    );
}

/// Its first run makes a node, too.
#[test]
fn node_locks_06_an_operation_that_runs_again_counts_once() {
    let store = page(true);
    let mut ann = begin(&store, "ann");
    ann.set_limits(Limits::new().with(Limit::Nodes, 1));
    change_texts(&store);
    ann.run([wrap_node(element("quote", [])).on("p-one")])
        .unwrap();
    ann.commit().unwrap();
}

/// Three owners run random operations side by side, each transaction on the nodes that it locks on
/// its way. The operations one after the other, in the order of versions, have the same result.
#[test]
fn node_locks_06_operations_beside_others_are_those_of_the_order_of_versions() {
    let seed = seed();
    let (mut committed, mut refused) = (0, 0);
    for round in 0..60 {
        let store = page(true);
        let transactions = |owner: u64| {
            let mut dice = Dice(seed.wrapping_add(3 * round + owner));
            let mut done = Vec::new();
            for _ in 0..4 {
                let mut chosen = operations();
                let chosen = [(); 2].map(|()| chosen.swap_remove(dice.below(chosen.len())));
                let mut open = begin(&store, ["ann", "bob", "cat"][owner as usize]);
                let outcome = chosen.iter().try_for_each(|it| open.run([it.clone()]));
                // One without a change has the version that it has read.
                let changes = !open.changes().is_empty();
                let outcome = outcome.map(|()| open.commit().map(|commit| commit.version));
                let outcome = outcome.map(|it| it.map(|version| (version, !changes)));
                done.extend(outcome.ok().and_then(Result::ok).map(|it| (it, chosen)));
            }
            done
        };
        let transactions = &transactions;
        let mut all: Vec<_> = thread::scope(|scope| {
            let owners = [0, 1, 2].map(|owner| scope.spawn(move || transactions(owner)));
            owners
                .into_iter()
                .flat_map(|owner| owner.join().unwrap())
                .collect()
        });
        all.sort_by_key(|(version, _)| *version);
        (committed, refused) = (committed + all.len(), refused + 12 - all.len());
        let replayed = page(true);
        for (version, operations) in all {
            let mut alone = replayed.begin("replay").unwrap();
            let outcome = alone.run(operations.clone());
            outcome.unwrap_or_else(|error| panic!("{version:?}, {operations:?}: {error}"));
            alone.commit().unwrap();
        }
        assert_eq!(shape(&store), shape(&replayed), "round {round}");
    }
    println!("{committed} committed, {refused} refused");
    assert!(committed > refused / 4, "{committed} of {refused}");
}
