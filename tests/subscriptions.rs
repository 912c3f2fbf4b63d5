//! Subscriptions with a filter: which commits each subscription receives.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use common::{Dice, cases, commit, id, store};
use doclock::dsl::*;
use doclock::{
    DataStore, NodeId, Transaction, View,
    document::{Change, NodeSpec, SplitPoint},
    events::{Filter, RecvError, RecvTimeoutError, Subscription, TryRecvError},
};
use proptest::prelude::*;
use serde_json::Value;

fn versions(subscription: &Subscription) -> Vec<u64> {
    let events = subscription.receiver().try_iter();
    events.map(|event| event.commit.version).collect()
}

fn subtree(store: &DataStore, top: &str) -> Subscription {
    store.subscribe_to(1000, Filter::Subtree(id(top)))
}

fn node(store: &DataStore, of: &str) -> Subscription {
    store.subscribe_to(1000, Filter::Node(id(of)))
}

fn item(name: &str) -> NodeSpec {
    element("item", []).with_id(name)
}

/// An edit, and whether it touches the subscribed nodes.
type Edit = (bool, fn(&mut Transaction));

/// A store with `top` (`left` (`leaf`), `right`) and `other`, at version 1.
fn with_tree() -> DataStore {
    let store = store();
    commit(&store, |transaction| {
        let left = element("item", [item("leaf")]).with_id("left");
        let top = element("item", [left, item("right")]).with_id("top");
        transaction.create(top).unwrap();
        transaction.create(item("other")).unwrap();
    });
    store
}

/// A clone of a receiver never ended after its subscription was dropped, and the channel kept its
/// memory until the next commit.
#[test]
fn overlay_12_a_subscription_that_is_dropped_ends_its_clones_and_frees_its_channel() {
    let store = store();
    let [dropped, kept] = [(), ()].map(|()| store.subscribe(4));
    let filtered = node(&store, "nowhere");
    commit(&store, |on| drop(on.create(item("top")).unwrap()));
    let event = kept.receiver().recv().unwrap();
    assert_eq!(std::sync::Arc::strong_count(&event.commit), 2);
    let clone = dropped.receiver().clone();
    drop((dropped, filtered));
    // Events in the channel can still be received.
    assert_eq!(clone.recv().unwrap().commit.version, 1);
    assert!(clone.recv().is_err(), "it has ended");
    assert_eq!(std::sync::Arc::strong_count(&event.commit), 1);
    commit(&store, |on| on.set_text(id("top"), "x").unwrap());
    assert_eq!(versions(&kept), [2]);
}

#[test]
fn overlay_12_a_subscription_is_received_from_itself() {
    let store = with_tree();
    let events = store.subscribe(8);
    assert_eq!(events.try_recv(), Err(TryRecvError::Empty));
    let nothing = events.recv_timeout(Duration::ZERO);
    assert_eq!(nothing, Err(RecvTimeoutError::Timeout));
    for text in ["a", "b", "c", "d"] {
        commit(&store, |transaction| {
            transaction.set_text(id("leaf"), text).unwrap();
        });
    }
    assert_eq!(events.recv().unwrap().commit.version, 2);
    assert_eq!(events.try_recv().unwrap().commit.version, 3);
    let third = events.recv_timeout(Duration::ZERO).unwrap();
    assert_eq!(third.commit.version, 4);
    drop(store);
    let rest: Vec<u64> = (&events)
        .into_iter()
        .map(|event| event.commit.version)
        .collect();
    assert_eq!(rest, [5]);
    assert_eq!(events.recv(), Err(RecvError));
}

#[test]
fn overlay_12_an_event_is_data_with_the_commit_and_how_many_were_missed() {
    let store = store();
    let events = store.subscribe(1);
    for name in ["a", "b", "c"] {
        commit(&store, |on| drop(on.create(item(name)).unwrap()));
        if name == "b" {
            events.receiver().recv().unwrap();
        }
    }
    let event = events.receiver().recv().unwrap();
    let transaction = event.commit.transaction_id.to_string();
    assert_eq!(
        serde_json::to_value(&event).unwrap(),
        serde_json::json!({
            "missed": 1,
            "commit": {
                "version": 3,
                "transactionId": transaction,
                "owner": event.commit.owner.as_str(),
                "fencingToken": 3,
                "operations": event.commit.operations,
                "changes": event.commit.changes,
            },
        })
    );
    let changes = serde_json::to_value(&event.commit.changes).unwrap();
    assert_eq!(changes[0]["type"], "insertSubtree");
}

#[test]
fn overlay_12_an_unread_event_goes_with_its_subscription() {
    let store = store();
    let [unread, read] = [(), ()].map(|()| store.subscribe(4));
    commit(&store, |on| drop(on.create(item("top")).unwrap()));
    let event = read.receiver().recv().unwrap();
    assert_eq!(std::sync::Arc::strong_count(&event.commit), 2);
    drop(unread);
    assert_eq!(std::sync::Arc::strong_count(&event.commit), 1);
}

#[test]
fn overlay_12_a_subscriber_to_a_node_receives_only_its_changes() {
    let store = store();
    let (heard, all) = (node(&store, "left"), store.subscribe(100));
    let edits: [Edit; 10] = [
        (false, |on| drop(on.create(item("top")).unwrap())),
        (true, |on| {
            drop(on.insert(item("left"), id("top"), None).unwrap())
        }),
        (true, |on| on.set_text(id("left"), "ab").unwrap()),
        (false, |on| on.set_text(id("top"), "x").unwrap()),
        (true, |on| {
            drop(on.insert(item("leaf"), id("left"), None).unwrap())
        }),
        (false, |on| on.set_text(id("leaf"), "x").unwrap()),
        (true, |on| on.remove_child(id("left"), id("leaf")).unwrap()),
        (true, |on| {
            let cut = SplitPoint {
                text: 1,
                children: 0,
            };
            on.split_node(id("left"), cut, None).unwrap();
        }),
        (false, |on| on.delete(id("leaf")).unwrap()),
        (true, |on| on.delete(id("top")).unwrap()),
    ];
    for (touches, edit) in edits {
        let version = commit(&store, edit).version;
        let expected: Vec<u64> = touches.then_some(version).into_iter().collect();
        assert_eq!(versions(&heard), expected, "version {version}");
    }
    assert_eq!(versions(&all).len(), edits.len());
}

#[test]
fn overlay_12_a_subscriber_to_a_subtree_receives_changes_in_it_and_moves() {
    let store = with_tree();
    let heard = subtree(&store, "top");
    let edits: [Edit; 12] = [
        (true, |on| on.set_text(id("leaf"), "x").unwrap()),
        (false, |on| on.set_text(id("other"), "x").unwrap()),
        (true, |on| {
            on.move_node(id("other"), id("leaf"), None).unwrap()
        }),
        (true, |on| on.set_text(id("other"), "y").unwrap()),
        (true, |on| on.remove_child(id("leaf"), id("other")).unwrap()),
        (false, |on| on.set_text(id("other"), "z").unwrap()),
        (true, |on| on.delete(id("left")).unwrap()),
        (true, |on| on.set_root(&id("top")).unwrap()),
        (true, |on| {
            on.set_text(id("right"), "x").unwrap();
            on.move_node(id("right"), id("other"), None).unwrap();
        }),
        (false, |on| on.set_text(id("right"), "y").unwrap()),
        (true, |on| {
            on.set_root(None).unwrap();
            on.move_node(id("top"), id("other"), None).unwrap();
        }),
        (true, |on| on.delete(id("other")).unwrap()),
    ];
    for (touches, edit) in edits {
        let version = commit(&store, edit).version;
        let expected: Vec<u64> = touches.then_some(version).into_iter().collect();
        assert_eq!(versions(&heard), expected, "version {version}");
    }
}

#[test]
fn overlay_12_a_subtree_subscriber_receives_changes_to_nodes_deleted_in_pieces() {
    let store = with_tree();
    let heard = subtree(&store, "top");
    // The leaf is changed, moved with its parent, detached from it, and both are deleted.
    commit(&store, |on| {
        on.set_text(id("leaf"), "x").unwrap();
        on.move_node(id("left"), id("other"), None).unwrap();
        on.remove_child(id("left"), id("leaf")).unwrap();
        on.delete(id("left")).unwrap();
        on.delete(id("leaf")).unwrap();
    });
    assert_eq!(versions(&heard), [2]);
}

#[test]
fn overlay_12_a_filtered_subscriber_counts_only_matching_missed_events() {
    let store = with_tree();
    let slow = store.subscribe_to(1, Filter::Subtree(id("left")));
    let write = |of: &str, text: &str| {
        commit(&store, |on| on.set_text(id(of), text).unwrap());
    };
    for n in 0..3 {
        write("leaf", &format!("{n}"));
        write("right", &format!("{n}"));
    }
    assert_eq!(slow.missed(), 2);
    let first = slow.receiver().try_recv().unwrap();
    assert_eq!((first.commit.version, first.missed), (2, 0));
    write("right", "!");
    assert_eq!(slow.missed(), 2);
    write("leaf", "!");
    let second = slow.receiver().try_recv().unwrap();
    assert_eq!((second.commit.version, second.missed), (9, 2));
}

#[test]
fn overlay_12_a_subtree_may_be_a_hundred_thousand_levels_deep() {
    const LEVELS: usize = 100_000;
    let store = store();
    commit(&store, |on| {
        on.create(item("0")).unwrap();
        for level in 1..LEVELS {
            let parent = id(&(level - 1).to_string());
            on.insert(item(&level.to_string()), &parent, None).unwrap();
        }
    });
    let (top, middle, only) = (
        subtree(&store, "0"),
        subtree(&store, "50000"),
        node(&store, "0"),
    );
    commit(&store, |on| on.set_text(id("99999"), "x").unwrap());
    commit(&store, |on| on.set_text(id("49999"), "x").unwrap());
    assert_eq!(versions(&top), [2, 3]);
    assert_eq!(versions(&middle), [2]);
    assert_eq!(versions(&only), [0u64; 0]);
}

// --- Against a plain definition ---

/// A document as a map from ids to nodes in JSON.
type Plain = BTreeMap<NodeId, Value>;

fn plain(view: &impl View) -> Plain {
    let nodes = view.nodes();
    nodes
        .map(|node| (node.id().clone(), serde_json::to_value(node).unwrap()))
        .collect()
}

/// The subtree of the node.
fn below(document: &Plain, top: &NodeId) -> BTreeSet<NodeId> {
    let mut found = BTreeSet::new();
    let mut ahead = vec![top.clone()];
    while let Some(id) = ahead.pop() {
        let Some(node) = document.get(&id) else {
            continue;
        };
        let children = node["children"].as_array().into_iter().flatten();
        ahead.extend(children.map(|child| NodeId::from(child.as_str().unwrap())));
        found.insert(id);
    }
    found
}

/// The nodes that differ before and after one change, and those that it moves, splits or joins,
/// even if they look the same.
fn differ(change: &Change, before: &Plain, after: &Plain) -> BTreeSet<NodeId> {
    let hands_over = matches!(change, Change::SplitNode { .. } | Change::JoinNodes { .. });
    let image = |document: &Plain, id: &NodeId| {
        let mut node = document.get(id).cloned();
        if let Some(fields) = node
            .as_mut()
            .and_then(Value::as_object_mut)
            .filter(|_| hands_over)
        {
            fields.remove("parent");
        }
        node
    };
    let ids = before.keys().chain(after.keys());
    let mut differ: BTreeSet<NodeId> = ids
        .filter(|id| image(before, id) != image(after, id))
        .cloned()
        .collect();
    match change {
        Change::MoveNode { id, .. }
        | Change::SplitNode { id, .. }
        | Change::JoinNodes { id, .. } => differ.extend([id.clone()]),
        Change::SetRoot { before, after } => differ.extend(before.iter().chain(after).cloned()),
        _ => {}
    }
    differ
}

/// Whether a commit matches the filter, from its changes with the documents before and after each.
fn heard(filter: &Filter, changes: &[(Change, Plain, Plain)]) -> bool {
    changes.iter().any(|(change, before, after)| {
        let differ = differ(change, before, after);
        match filter {
            Filter::All => true,
            Filter::Node(id) => differ.contains(id),
            Filter::Subtree(top) => {
                let within = &below(before, top) | &below(after, top);
                !differ.is_disjoint(&within)
            }
            _ => unreachable!("there are three"),
        }
    })
}

const NAMES: [&str; 12] = [
    "a", "b", "c", "d", "e", "f", "7:1", "7:2", "7:3", "7:4", "7:5", "7:6",
];

/// One edit or none: an impossible edit is omitted.
fn edit(on: &mut Transaction, seed: u64) {
    let mut dice = Dice(seed);
    let mut name = || id(NAMES[dice.below(NAMES.len())]);
    let (one, other, third) = (name(), name(), name());
    let index = dice.below(2);
    let _ = match dice.below(14) {
        0 => on
            .create(NodeSpec::new("item").with_id(one).with_text("abc"))
            .map(drop),
        1..=3 => {
            let below = NodeSpec::new("item").with_id(third);
            let spec = NodeSpec::new("item")
                .with_id(one)
                .with_text("abc")
                .with_children([below]);
            on.insert(spec, &other, None).map(drop)
        }
        4 | 5 => on.move_node(&one, &other, index),
        6 => on.delete(&one),
        7 => {
            let parent = on.parent(&one).cloned().unwrap_or(other);
            on.remove_child(&parent, &one)
        }
        8 => on.set_text(&one, format!("{seed}")),
        9 => on.set_attrs(&one, [("n", seed.into())]),
        10 => on.set_root((index == 0).then_some(&one)),
        11 | 12 => {
            let cut = SplitPoint {
                text: 0,
                children: index,
            };
            on.split_node(&one, cut, None).map(drop)
        }
        _ => {
            let parent = on.parent(&one).cloned().unwrap_or(other);
            let siblings: Vec<_> = on.children(&parent).map(|node| node.id().clone()).collect();
            match siblings.windows(2).find(|pair| pair[0] == one) {
                Some(pair) => on.join_nodes(&pair[0], &pair[1]),
                None => on.set_type(&one, "paragraph"),
            }
        }
    };
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn overlay_12_filters_agree_with_a_plain_comparison_of_documents(
        commits in prop::collection::vec(prop::collection::vec(any::<u64>(), 1..7), 1..25),
    ) {
        let store = store();
        let all = store.subscribe(1000);
        let filters: Vec<Filter> = NAMES
            .iter()
            .flat_map(|name| [Filter::Node(id(name)), Filter::Subtree(id(name))])
            .collect();
        let subscriptions: Vec<Subscription> =
            filters.iter().map(|filter| store.subscribe_to(1000, filter.clone())).collect();
        for seeds in &commits {
            commit(&store, |on| seeds.iter().for_each(|seed| edit(on, *seed)));
        }

        let copy = DataStore::new();
        let mut expected = vec![Vec::new(); filters.len()];
        for event in all.receiver().try_iter() {
            let mut changes = Vec::new();
            commit(&copy, |on| {
                for change in &event.commit.changes {
                    let before = plain(on);
                    on.apply(change.clone()).unwrap();
                    changes.push((change.clone(), before, plain(on)));
                }
            });
            for (filter, expected) in filters.iter().zip(&mut expected) {
                if heard(filter, &changes) {
                    expected.push(event.commit.version);
                }
            }
        }
        for ((filter, subscription), expected) in filters.iter().zip(&subscriptions).zip(&expected) {
            prop_assert_eq!(&versions(subscription), expected, "{:?}", filter);
        }
    }
}
