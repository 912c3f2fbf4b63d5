//! Limits for scripts of untrusted clients: on their size before the lock is requested, and on
//! their effects on the document.

use doclock::dsl::*;
use doclock::schema::{NodeType, Schema};
use doclock::{
    DataStore, Editor, StoreOptions, TransactionManager, View,
    document::{
        Attributes, EditError, Fragment, Limit, LimitExceeded, Limits, Mark, NodeSpec, Position,
    },
    lock::AcquireOptions,
    transaction::{
        Capture, InputEffect, InputRule, InputTarget, Operation, OperationError, Pattern, TextSpan,
        TransactionError,
    },
};
use serde_json::{Value, json};

/// A pattern whose search computes each step anew, and such a text.
fn slow() -> (Pattern, String) {
    let pattern = "(?:[\u{10400}-\u{1F600}]|\u{1F600}[\u{10400}-\u{1F600}]{250})*$";
    let letters = (0..500_u32).map(|nth| match (nth.wrapping_mul(2_654_435_761) >> 13) & 1 {
        0 => '\u{10400}',
        _ => '\u{1F600}',
    });
    (Pattern::new(pattern), letters.collect())
}

/// Far more than any test needs.
const ENOUGH: usize = 1 << 30;

/// Limits only one resource.
fn only(limit: Limit, most: usize) -> Limits {
    let all = Limit::ALL.into_iter();
    let limits = all.fold(Limits::new(), |limits, limit| limits.with(limit, ENOUGH));
    limits.with(limit, most)
}

fn exceeded(error: &TransactionError) -> LimitExceeded {
    match error {
        TransactionError::Operation {
            cause: OperationError::Edit(EditError::Limit(exceeded)),
            ..
        }
        | TransactionError::Limit(exceeded) => *exceeded,
        error => panic!("{error}"),
    }
}

fn paragraph() -> NodeSpec {
    text_node("paragraph", "abc").with_id("p")
}

/// A store with a paragraph below the root.
fn store() -> DataStore {
    let store = DataStore::new();
    let setup = TransactionManager::new(store.clone());
    let root = element("root", [paragraph()]).with_id("root");
    setup.execute([create(root)]).unwrap();
    store
}

fn long(len: usize) -> String {
    "x".repeat(len)
}

fn deep(levels: usize) -> NodeSpec {
    (1..levels).fold(NodeSpec::new("x"), |below, _| {
        NodeSpec::new("x").with_children([below])
    })
}

fn values(count: usize) -> Vec<(String, Value)> {
    (0..count)
        .map(|nth| (format!("k{nth}"), json!(nth)))
        .collect()
}

fn attributes(count: usize) -> Attributes {
    Attributes::from_iter(values(count))
}

fn marks(count: usize) -> Vec<Mark> {
    let kinds = 0..count;
    kinds
        .map(|nth| Mark::new(format!("m{nth}"), 0..1))
        .collect()
}

fn on_p(operation: impl Into<doclock::transaction::NodeOperation>) -> Vec<Operation> {
    vec![operation.into().on("p")]
}

/// Batches that contain this amount of one resource.
type Holding = fn(usize) -> Vec<Operation>;

#[test]
fn transaction_04_a_batch_beyond_a_limit_is_refused_before_its_lock_request() {
    let lists: &[(Limit, Holding)] = &[
        (Limit::Operations, |n| vec![create(NodeSpec::new("x")); n]),
        (Limit::Operations, |n| {
            vec![control("p", vec![insert_text(0, "x"); n])]
        }),
        (Limit::Operations, |n| {
            let named = |nth| create(NodeSpec::new("x")).named(format!("a{nth}"));
            (0..n).map(named).collect()
        }),
        (Limit::Nodes, |n| {
            vec![create(element("x", vec![NodeSpec::new("x"); n - 1]))]
        }),
        (Limit::Nodes, |n| vec![create(NodeSpec::new("x")); n]),
        (Limit::Nodes, |n| {
            on_p(add_child(
                element("x", vec![NodeSpec::new("x"); n - 1]),
                None,
            ))
        }),
        (Limit::Nodes, |n| {
            on_p(wrap_node(element("x", vec![NodeSpec::new("x"); n - 1])))
        }),
        (Limit::Nodes, |n| {
            let nodes = vec![NodeSpec::new("x"); n];
            let fragment = Fragment {
                nodes,
                ..Fragment::default()
            };
            on_p(paste_fragment(0, fragment))
        }),
        (Limit::Depth, |n| vec![create(deep(n))]),
        (Limit::IdBytes, |n| {
            vec![create(NodeSpec::new("x").with_id(long(n)))]
        }),
        (Limit::NameBytes, |n| vec![create(NodeSpec::new(long(n)))]),
        (Limit::NameBytes, |n| on_p(set_attrs([(long(n), json!(1))]))),
        (Limit::NameBytes, |n| {
            on_p(transform_node(long(n), values(0)))
        }),
        (Limit::NameBytes, |n| on_p(apply_mark(long(n), ..))),
        (Limit::NameBytes, |n| {
            vec![create(NodeSpec::new("x")).named(long(n))]
        }),
        (Limit::Attributes, |n| {
            vec![create(NodeSpec::new("x").with_attributes(attributes(n)))]
        }),
        (Limit::Attributes, |n| {
            on_p(apply_mark_with("m", attributes(n), ..))
        }),
        (Limit::Attributes, |n| on_p(set_attrs(values(n)))),
        (Limit::Attributes, |n| {
            on_p(update_node(values(n), None, None))
        }),
        (Limit::Attributes, |n| on_p(transform_node("x", values(n)))),
        (Limit::Marks, |n| on_p(set_marks(marks(n)))),
        (Limit::Marks, |n| {
            vec![create(text_node("x", "abc").with_marks(marks(n)))]
        }),
        (Limit::Text, |n| vec![create(text_node("x", long(n)))]),
        (Limit::Text, |n| on_p(set_text(long(n)))),
        (Limit::Output, |n| on_p(set_text(long(n)))),
        (Limit::Output, |n| {
            let value = json!([[long(n - 4)]]);
            on_p(set_attrs([("k", value)]))
        }),
    ];
    const MOST: usize = 40;
    for (nth, &(limit, list)) in lists.iter().enumerate() {
        let store = store();
        let manager = TransactionManager::new(store.clone()).with_limits(only(limit, MOST));
        let all = manager.execute(list(MOST));
        assert!(all.is_ok(), "list {nth} {limit:?}: {all:?}");

        let held = store.lock("other").unwrap();
        let refused = manager
            .transaction(list(MOST + 1))
            .options(AcquireOptions::new().no_wait())
            .commit()
            .unwrap_err();
        let found = exceeded(&refused);
        assert_eq!((found.limit, found.most), (limit, MOST), "list {nth}");
        assert_eq!(found.found, MOST + 1, "list {nth}");
        drop(held);
    }
    let held = store();
    let guard = held.lock("other").unwrap();
    let manager = TransactionManager::new(held.clone()).with_limits(Limits::new());
    let waits = manager
        .transaction(on_p(insert_text(0, "x")))
        .options(AcquireOptions::new().no_wait())
        .commit();
    let error = waits.unwrap_err();
    assert!(matches!(error, TransactionError::Lock(_)), "{error}");
    drop(guard);
}

/// Small batches with large effects on the document.
#[test]
fn transaction_04_an_effect_beyond_a_limit_is_refused_before_it_is_made() {
    let lists: &[(Limit, Holding)] = &[
        (Limit::Nodes, |n| vec![copy_node().on("p"); n]),
        (Limit::Nodes, |n| vec![split_text_node(0).on("p"); n]),
        // The paragraph is on the second level.
        (Limit::Depth, |n| {
            vec![wrap_node(NodeSpec::new("x")).on("p"); n - 2]
        }),
        (Limit::Depth, |n| {
            let below = create(deep(n - 2).with_id("below"));
            vec![below, move_node("p", None).on("below")]
        }),
        (Limit::Depth, |n| {
            let above = create(deep(n - 2).with_id("above"));
            let child = add_child(NodeSpec::new("x").with_children([NodeSpec::new("x")]), None);
            vec![above, child.on("above"), move_node("p", None).on("above")]
        }),
        (Limit::Attributes, |n| {
            let set = |nth| set_attrs([(format!("k{nth}"), json!(1))]).on("p");
            (0..n).map(set).collect()
        }),
        (Limit::Attributes, |n| {
            let remove = remove_attrs(["k0"]).on("p");
            let two = [("k0", json!(1)), ("last", json!(1))];
            let all = update_node(values(n - 1), None, None).on("p");
            vec![all, remove, set_attrs(two).on("p")]
        }),
        (Limit::Marks, |n| {
            let apply = |nth| apply_mark(format!("m{nth}"), ..).on("p");
            (0..n).map(apply).collect()
        }),
        // There are three characters.
        (Limit::Text, |n| vec![insert_text(0, "x").on("p"); n - 3]),
        (Limit::Text, |n| {
            let other = copy_node().on("p").named("other");
            let all = set_text(long(n - 3)).on("p");
            vec![other, all, merge_text_nodes(alias("other")).on("p")]
        }),
    ];
    const MOST: usize = 40;
    for (nth, &(limit, list)) in lists.iter().enumerate() {
        let store = store();
        let manager = TransactionManager::new(store.clone()).with_limits(only(limit, MOST));
        let error = manager.execute(list(MOST + 1)).unwrap_err();
        let found = exceeded(&error);
        assert_eq!((found.limit, found.most), (limit, MOST), "list {nth}");
        assert_eq!(found.found, MOST + 1, "list {nth}");
        assert_eq!(store.version(), 1, "list {nth}");
        assert!(!store.is_locked());
        let all = manager.execute(list(MOST));
        assert!(all.is_ok(), "list {nth} {limit:?}: {all:?}");
    }
}

fn refused(limits: Limits, list: Vec<Operation>) -> Limit {
    let store = store();
    let manager = TransactionManager::new(store.clone()).with_limits(limits);
    let error = manager.execute(list).unwrap_err();
    assert_eq!(store.version(), 1);
    exceeded(&error).limit
}

/// Forty pairs of operations made a terabyte of text from three characters.
#[test]
fn transaction_04_text_that_doubles_stops_at_the_limit() {
    let twice = [copy_range(..).on("p"), paste(0).on("p")];
    let list: Vec<Operation> = (0..40).flat_map(|_| twice.clone()).collect();
    assert_eq!(refused(Limits::new(), list.clone()), Limit::Text);
    assert_eq!(refused(only(Limit::Output, 1_000), list), Limit::Output);
}

/// Forty operations made a trillion nodes from two.
#[test]
fn transaction_04_subtrees_that_double_stop_at_the_limit() {
    let into_itself = clone_node_with_children_to("root", None).on("root");
    let list = vec![into_itself; 40];
    assert_eq!(refused(Limits::new(), list.clone()), Limit::Nodes);
    assert_eq!(refused(only(Limit::Depth, 20), list.clone()), Limit::Depth);
    assert_eq!(refused(only(Limit::Steps, 1_000), list), Limit::Steps);
}

/// A thousand operations of forty bytes each read a text of 100,000 characters.
#[test]
fn transaction_04_repeated_searches_stop_at_the_limit() {
    let list = |look: doclock::transaction::NodeOperation| {
        let text = insert_text(0, long(100_000)).on("p");
        let look = look.on("p");
        std::iter::once(text)
            .chain(std::iter::repeat_n(look, 1_000))
            .collect::<Vec<_>>()
    };
    let nothing_found = replace_pattern("z", "");
    assert_eq!(refused(Limits::new(), list(nothing_found)), Limit::Steps);
    let no_line = outdent_text("z", ..);
    assert_eq!(refused(Limits::new(), list(no_line)), Limit::Steps);

    let marked = vec![text_node("x", long(20_000)).with_id("m"); 1]
        .into_iter()
        .map(|node| {
            create(node.with_marks((0..5_000).map(|nth| Mark::new("m", 4 * nth..4 * nth + 2))))
        });
    let same = apply_mark("m", 0..1).on("m");
    let list = marked.chain(std::iter::repeat_n(same, 1_000)).collect();
    assert_eq!(refused(Limits::new(), list), Limit::Steps);
}

/// A hundred operations of eighty bytes each visited a block of 100,000 children, changed nothing
/// and held the lock for 1.4 seconds; a chain of a hundred splits held it for 5.3.
#[test]
fn transaction_04_repeated_visits_stop_at_the_limit() {
    const SIZE: usize = 20_000;
    let store = DataStore::new();
    let trusted = TransactionManager::new(store.clone());
    let text = |nth| text_node("text", "abc").with_id(format!("n{nth}"));
    let last = element("text", [NodeSpec::new("text")]).with_id("last");
    let block = element("block", (0..SIZE).map(text).chain([last])).with_id("block");
    let deep = |id: &str| {
        let text = text_node("text", "abc").with_id(id);
        (0..250).fold(text, |below, _| element("block", [below]))
    };
    let value = || ("value", json!((0..SIZE).collect::<Vec<_>>()));
    let mark = |nth: usize| Mark::new("m", 4 * nth..4 * nth + 2);
    let marks = (0..1_000).map(mark).collect::<Vec<_>>();
    let other = text_node("other", "abc").with_id("first");
    let blocks = [
        element("block", [other, text_node("text", "abc").with_id("beside")]),
        block,
        deep("deep"),
        deep("deeper"),
        text_node("text", long(1 << 20)).with_id("long"),
        text_node("text", long(4_000))
            .with_marks(marks)
            .with_id("marked"),
        text_node("text", "abc")
            .with_attributes([value()])
            .with_id("valued"),
        element(
            "block",
            vec![text_node("text", "abc").with_attributes([value()]); 10],
        )
        .with_id("values"),
    ];
    trusted.execute([create(element("root", blocks))]).unwrap();

    type Nth<'a> = &'a dyn Fn(usize) -> Operation;
    let chain = |nth: usize| {
        let split = split_block_node(1);
        let on = match nth {
            0 => split.on("block"),
            nth => split.on(alias(format!("h{}", nth - 1))),
        };
        on.named(format!("h{nth}"))
    };
    let large = || json!(long(40_000));
    let scripts: [(&str, usize, Nth<'_>); 8] = [
        ("children", 100, &|_| {
            delete_range(TextSpan::to(3, "n0", 0)).on("first")
        }),
        ("children that move", 100, &chain),
        ("children by index", 1_000, &|nth| {
            let nth = nth % 2 * (SIZE - 1);
            add_child(format!("n{nth}"), nth).on("block")
        }),
        ("order", 1_000, &|_| {
            move_children(["n1"], "block", 1).on("block")
        }),
        ("ancestors", 10_000, &|_| {
            select_range(TextSpan::to(0, "deeper", 0)).on("deep")
        }),
        ("text", 1_000, &|_| copy_range(1..).on("long")),
        ("marks", 1_000, &|_| copy_range(1..).on("marked")),
        ("values of marks", 1, &|_| {
            update_mark("m", [("k", large())], ..).on("marked")
        }),
    ];
    let base = store.snapshot();
    let client = || {
        let store = StoreOptions::new().document(base.clone()).unwrap();
        TransactionManager::new(store).with_limits(Limits::new())
    };
    for (visited, times, nth) in scripts {
        let client = client();
        let script: Vec<Operation> = (0..times).map(nth).collect();
        let found = exceeded(&client.execute(script).unwrap_err());
        assert_eq!(found.limit, Limit::Steps, "{visited}");
        // One of them is within the limits, except if it copies forty megabytes.
        let alone = client.execute([nth(0)]);
        assert_eq!(alone.is_ok(), times > 1, "{visited}: {alone:?}");
    }
    // Versions share the values that it leaves alone.
    let beside: Vec<Operation> = (0..1_000)
        .map(|nth| set_attrs([("k", json!(nth))]).on("valued"))
        .collect();
    assert!(client().execute(beside).is_ok());
    let compared = vec![auto_merge_text_nodes().on("values"); 1_000];
    let found = exceeded(&client().execute(compared).unwrap_err());
    assert_eq!(found.limit, Limit::Steps);
}

/// An operation of thirty bytes copied and compared three megabytes for 16 steps.
#[test]
fn transaction_04_attributes_that_a_block_keeps_are_counted() {
    let block = |content: &str| NodeType::new().content(content);
    let schema = Schema::builder()
        .node("doc", block("p+"))
        .node("p", block("text*").unknown_attributes(true))
        .node("text", NodeType::new())
        .root("doc")
        .build()
        .unwrap();
    let store = DataStore::with_options(StoreOptions::new().schema(schema));
    let large = json!(long(3_000_000));
    let p = element("p", [text_node("text", "abc")]).with_id("p");
    let p = p.with_attributes([("large", large.clone())]);
    let setup = TransactionManager::new(store.clone());
    let root = element("doc", [p]).with_id("doc");
    setup.execute([create(root), set_root().on("doc")]).unwrap();

    let client = TransactionManager::new(store.clone()).with_limits(only(Limit::Steps, 10_000));
    for attributes in [vec![], vec![("small", json!(1))]] {
        let list = on_p(transform_node("p", attributes));
        let error = client.execute(list).unwrap_err();
        assert_eq!(exceeded(&error).limit, Limit::Steps);
    }
    let client = TransactionManager::new(store.clone()).with_limits(Limits::new());
    client
        .execute(on_p(transform_node("p", [("small", json!(1))])))
        .unwrap();
    let after = store.snapshot();
    let attributes = Attributes::from_iter([("large", large), ("small", json!(1))]);
    assert_eq!(after.node("p").unwrap().attributes(), &attributes);
}

/// Ten thousand indented lines counted the marks around them once.
#[test]
fn transaction_04_many_edits_within_many_marks_stop_at_the_limit() {
    let marks = (0..1_000).map(|nth| Mark::new(format!("m{nth}"), nth..20_000));
    let text = text_node("x", "a\n".repeat(10_000)).with_marks(marks);
    let create = create(text.with_id("m"));
    let places = [
        indent_text(" ", ..),
        outdent_text("a", ..),
        replace_pattern("a", "b"),
    ];
    for change in places {
        let list = vec![create.clone(), change.on("m")];
        assert_eq!(refused(Limits::new(), list), Limit::Steps);
    }
}

/// Each toggle copied all marks that were stored before: 5 s and 3 GB for ten thousand.
#[test]
fn transaction_04_many_stored_marks_stop_at_the_limit() {
    let toggle = |nth: usize| toggle_mark(format!("m{nth}"), 1..1).on("p");
    let caret = set_selection(doclock::document::Selection::caret("p", 1));
    let list: Vec<_> = std::iter::once(caret)
        .chain((0..2_000).map(toggle))
        .collect();
    assert_eq!(refused(Limits::new(), list), Limit::Steps);
}

#[test]
fn transaction_04_code_makes_no_more_than_the_limit() {
    let store = store();
    let limits = only(Limit::Nodes, 10);
    let manager = TransactionManager::new(store.clone()).with_limits(limits);
    let code = op(|transaction| {
        let created = (0..100).filter(|_| transaction.create(NodeSpec::new("x")).is_ok());
        assert_eq!(created.count(), 10);
        Ok::<(), EditError>(())
    });
    manager.execute([code]).unwrap();
    assert_eq!(store.snapshot().len(), 2 + 10);
}

#[test]
fn transaction_04_undo_has_no_limits() {
    let store = store();
    let setup = TransactionManager::new(store.clone());
    let large = element("x", vec![NodeSpec::new("x"); 100]).with_id("large");
    setup.execute([create(large)]).unwrap();
    let editor = Editor::new(store.clone(), "ann").with_limits(only(Limit::Nodes, 10));
    editor.execute([delete_node().on("large")]).unwrap();
    editor.undo().commit().unwrap();
    assert_eq!(store.snapshot().len(), 2 + 101);
    let error = editor
        .execute([clone_node_with_children().on("large")])
        .unwrap_err();
    assert_eq!(exceeded(&error).limit, Limit::Nodes);
}

/// A receipt keeps its key: a thousand keys of ten megabytes took ten gigabytes.
#[test]
fn transaction_07_a_key_that_is_too_long_is_refused() {
    let manager = TransactionManager::new(store()).with_limits(only(Limit::NameBytes, 40));
    let once = |len| {
        manager
            .transaction(on_p(insert_text(0, "x")))
            .idempotent(long(len))
            .commit()
    };
    assert_eq!(
        once(41).unwrap_err().to_string(),
        "a name has 41 bytes: the limit `nameBytes` is 40"
    );
    once(40).unwrap();
}

#[test]
fn transaction_04_a_manual_transaction_has_the_limits_that_are_set() {
    let store = store();
    let mut transaction = store.begin("ann").unwrap();
    transaction.set_limits(only(Limit::Nodes, 2).with(Limit::NameBytes, 20));
    let savepoint = transaction.savepoint();
    transaction.create(NodeSpec::new("x")).unwrap();
    transaction.rollback_to(savepoint).unwrap();
    transaction.create(NodeSpec::new("x")).unwrap();
    let third = transaction.create(NodeSpec::new("x")).unwrap_err();
    assert_eq!(
        third.to_string(),
        "the transaction adds 3 nodes: the limit `nodes` is 2"
    );
    let named = copy_node().on("p").named(long(21));
    let error = transaction.run([named]).unwrap_err();
    assert_eq!(exceeded(&error).limit, Limit::NameBytes);
    transaction.commit().unwrap();
    assert_eq!(store.snapshot().len(), 2 + 1);
}

#[test]
fn transaction_04_batches_on_nodes_and_under_a_lock_have_limits() {
    let store = store();
    let manager = TransactionManager::new(store.clone()).with_limits(only(Limit::Nodes, 2));
    let error = manager
        .clone()
        .with_node_locks(1)
        .execute(vec![copy_node().on("p"); 3])
        .unwrap_err();
    assert_eq!(exceeded(&error).limit, Limit::Nodes);
    let lock = store.acquire_lock("ann").unwrap();
    let error = manager
        .execute_under(lock, vec![copy_node().on("p"); 3])
        .unwrap_err();
    assert_eq!(exceeded(&error).limit, Limit::Nodes);
    store.release_lock(lock).unwrap();
    assert_eq!(store.version(), 1);
}

/// Two thousand rules of sixty bytes held the lock for ten seconds.
#[test]
fn transaction_04_searches_that_look_at_much_of_a_pattern_stop_at_the_limit() {
    let (pattern, text) = slow();
    let text = || create(text_node("x", text.as_str()).with_id("t"));
    let mut rule = InputRule::new(pattern.clone(), InputEffect::Replace("x".into()));
    rule.pattern = Pattern::new(format!("{}z$", pattern.as_str().trim_end_matches('$')));
    let at = Position::new("t", 500);
    let rules = apply_input_rules_at(at, std::iter::repeat_n(rule.clone(), 200));
    assert_eq!(refused(Limits::new(), vec![text(), rules]), Limit::Steps);
    let replace = replace_pattern(rule.pattern, "").on("t");
    let replace = std::iter::repeat_n(replace, 200);
    let list = std::iter::once(text()).chain(replace).collect();
    assert_eq!(refused(Limits::new(), list), Limit::Steps);
}

/// A pattern has a limit of its own, and is no name.
#[test]
fn transaction_04_a_pattern_of_a_rule_may_be_longer_than_a_name() {
    let manager = TransactionManager::new(store()).with_limits(Limits::new());
    let pattern = Pattern::new(format!("{}|abc$", long(300)));
    let rule = InputRule::new(pattern.clone(), InputEffect::Replace("x".into()));
    let rules = apply_input_rules_at(Position::new("p", 3), [rule]);
    for operation in [replace_pattern(pattern, "abc").on("p"), rules] {
        manager.execute([operation]).unwrap();
    }
    assert_eq!(manager.store().snapshot().node("p").unwrap().text(), &"x");
}

/// The attributes of the match passed the limit, and so did their values.
#[test]
fn transaction_04_captured_attributes_of_a_rule_are_counted() {
    let refused = |limits: Limits, text: String, pattern: &str, count: usize| {
        let captured =
            |target: InputTarget, nth| target.captured(format!("k{nth}"), Capture::Text(1));
        let target = (0..count).fold(InputTarget::new("m"), captured);
        let target = target.with_attributes(attributes(1));
        let rule = InputRule::new(pattern, InputEffect::Mark(target));
        let len = text.chars().count();
        let setup = set_text(text).on("p");
        let rules = apply_input_rules_at(Position::new("p", len), vec![rule; 10]);
        refused(limits, vec![setup, rules])
    };
    let text = || "x#".to_owned();
    let all = Limits::new();
    assert_eq!(refused(all.clone(), text(), "(#)$", 257), Limit::Attributes);
    assert_eq!(refused(all, text(), "#$", 257), Limit::Attributes);
    // Each value is a copy of the text. Without a second group, no rule applies.
    let steps = only(Limit::Steps, 100_000);
    assert_eq!(refused(steps, long(500), "(x+)$", 200), Limit::Steps);
}

#[test]
fn transaction_04_an_excess_is_data() {
    let manager = TransactionManager::new(store()).with_limits(only(Limit::Operations, 1));
    let error = manager.execute(vec![copy_node().on("p"); 3]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "operation 1 (copyNode on node p): the transaction has 2 operations: the limit `operations` is 1",
    );
    let exceeded = exceeded(&error);
    let data = serde_json::to_value(exceeded).unwrap();
    assert_eq!(
        data,
        json!({
            "code": "limitExceeded",
            "message": exceeded.to_string(),
            "limit": "operations",
            "most": 1,
            "found": 2,
        })
    );
    assert_eq!(
        serde_json::from_value::<LimitExceeded>(data).unwrap(),
        exceeded
    );
    for limit in Limit::ALL {
        assert_eq!(serde_json::to_value(limit).unwrap(), limit.name());
    }
}
