//! Subscriptions with a filter: which commits each subscription receives.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use common::{Dice, cases, commit, id, store, store_with_log};
use doclock::dsl::*;
use doclock::{
    DataStore, Draft, Editor, NodeId, StoreOptions, View,
    document::{Change, NodeSpec, SplitPoint},
    events::{Filter, MissingCommits, RecvError, RecvTimeoutError, Subscription, TryRecvError},
};
use proptest::prelude::*;
use serde_json::Value;

fn versions(subscription: &Subscription) -> Vec<u64> {
    let events = subscription.try_iter();
    events.map(|event| event.commit.version).collect()
}

fn subtree(store: &DataStore, top: &str) -> Subscription {
    store.subscription().matching(Filter::Subtree(id(top)))
}

fn node(store: &DataStore, of: &str) -> Subscription {
    store.subscription().matching(Filter::Node(id(of)))
}

fn item(name: &str) -> NodeSpec {
    element("item", []).with_id(name)
}

/// An edit, and whether it touches the subscribed nodes.
type Edit = (bool, fn(&mut Draft));

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

/// A clone of a channel never ended after its subscription was dropped.
#[test]
fn overlay_12_a_subscription_that_is_dropped_ends_its_clones_and_frees_its_events() {
    let store = store();
    let [dropped, kept] = [(), ()].map(|()| store.subscribe());
    let filtered = node(&store, "nowhere");
    commit(&store, |on| drop(on.create(item("top")).unwrap()));
    let event = kept.recv().unwrap();
    let clone = dropped.ready().clone();
    drop((dropped, filtered));
    assert_eq!(clone.recv(), Ok(()), "it was ready");
    assert_eq!(clone.recv(), Err(RecvError), "it has ended");
    commit(&store, |on| on.set_text(id("top"), "x").unwrap());
    assert_eq!(Arc::strong_count(&event.commit), 1);
    assert_eq!(versions(&kept), [2]);
}

/// A loop around `select!` receives one event for each message, or all of them.
#[test]
fn overlay_12_a_channel_is_ready_while_events_are_left() {
    let store = with_tree();
    let (all, left) = (store.subscribe(), node(&store, "left"));
    let is_ready = |events: &Subscription| events.ready().try_recv().is_ok();
    let write = |of: &str| drop(commit(&store, |on| on.insert_text(id(of), 0, "x").unwrap()));
    for round in 0..3 {
        assert!(!is_ready(&all) && !is_ready(&left), "round {round}");
        ["leaf", "left", "right"].into_iter().for_each(write);
        for _ in 0..3 {
            assert!(is_ready(&all));
            all.try_recv().unwrap();
        }
        assert!(!is_ready(&all), "it has received all");
        assert!(is_ready(&left));
        left.try_recv().unwrap();
        // Ready for a commit that the filter excludes, as it cannot know before it looks.
        assert!(is_ready(&left));
        assert_eq!(left.try_recv(), Err(TryRecvError::Empty));
        write("right");
        assert!(!is_ready(&left), "its filter excludes the commit");
        all.try_recv().unwrap();
        is_ready(&all);
    }
}

#[test]
fn feed_01_the_commits_since_a_version_are_all_there_or_an_error() {
    const KEPT: usize = 4_000;
    let options = StoreOptions::new().kept_commits(KEPT).log_limit(1_000);
    let store = DataStore::with_options(options);
    let editor = Editor::new(store.clone(), "ann");
    let mut results = Vec::new();
    let mut earliest = 0;
    for nth in 0..100 {
        let node = create(item(&nth.to_string()));
        results.push(Arc::new(editor.execute(node).unwrap()));
        let latest = store.version();
        for since in 0..=latest {
            let found = store.commits_since(since);
            match found {
                Ok(commits) => {
                    assert_eq!(commits, results[since as usize..]);
                    let feed = store.subscription().after(since).unwrap();
                    let fed = feed.try_iter().map(|event| (event.missed, event.commit));
                    assert!(fed.eq(commits.into_iter().map(|commit| (0, commit))));
                }
                Err(error) => {
                    assert_eq!(store.subscription().after(since).unwrap_err(), error);
                    earliest = store.version() - 1;
                    while store.commits_since(earliest - 1).is_ok() {
                        earliest -= 1;
                    }
                    let version = since;
                    let expected = MissingCommits::Removed {
                        version,
                        earliest,
                        latest,
                    };
                    assert_eq!(error, expected);
                    assert!(since < earliest);
                }
            }
        }
        let version = latest + 1;
        let not_reached = MissingCommits::NotReached { version, latest };
        assert_eq!(store.commits_since(version), Err(not_reached));
        assert_eq!(
            store.subscription().after(version).unwrap_err(),
            not_reached
        );
    }
    let kept = store.version() - earliest;
    assert!(earliest > 0 && kept >= 4, "{kept} are kept");
}

#[test]
fn feed_01_a_store_that_keeps_no_commits_has_none_since_a_version() {
    let store = with_tree();
    assert_eq!(store.commits_since(1), Ok(Vec::new()));
    let removed = MissingCommits::Removed {
        version: 0,
        earliest: 1,
        latest: 1,
    };
    assert_eq!(store.commits_since(0), Err(removed));
    // The commits of the only editor are not in the log.
    let editor = Editor::new(store.clone(), "ann");
    let events = store.subscribe();
    editor.execute(set_text("x").on("leaf")).unwrap();
    assert_eq!(store.commits_since(1).unwrap().len(), 1);
    drop(events);
    editor.execute(set_text("y").on("leaf")).unwrap();
    let removed = MissingCommits::Removed {
        version: 1,
        earliest: 3,
        latest: 3,
    };
    assert_eq!(store.commits_since(1), Err(removed));
}

#[test]
fn overlay_12_two_threads_share_the_events_of_a_subscription() {
    const COMMITS: u64 = 500;
    let store = store();
    let events = store.subscribe();
    let mut versions = std::thread::scope(|scope| {
        let readers = [(), ()].map(|()| {
            let read = || -> Vec<u64> { events.iter().map(|event| event.commit.version).collect() };
            scope.spawn(read)
        });
        for nth in 0..COMMITS {
            commit(&store, |on| {
                drop(on.create(item(&nth.to_string())).unwrap())
            });
        }
        drop(store);
        readers.map(|reader| reader.join().unwrap()).concat()
    });
    versions.sort_unstable();
    assert_eq!(versions, Vec::from_iter(1..=COMMITS));
}

#[test]
fn overlay_12_a_subscription_is_received_from_itself() {
    let store = with_tree();
    let events = store.subscribe();
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
    let store = store_with_log(0);
    let events = store.subscribe();
    for name in ["a", "b", "c"] {
        commit(&store, |on| drop(on.create(item(name)).unwrap()));
        if name == "a" {
            events.recv().unwrap();
        }
    }
    let event = events.recv().unwrap();
    let transaction = event.commit.transaction_id.to_string();
    assert_eq!(
        serde_json::to_value(&event).unwrap(),
        serde_json::json!({
            "missed": 1,
            "commit": {
                "version": 3, "changed": true,
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
fn overlay_12_a_subscriber_to_a_node_receives_only_its_changes() {
    let store = store();
    let (heard, all) = (node(&store, "left"), store.subscribe());
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
    let store = store_with_log(0);
    let top = element("item", [item("leaf"), item("right")]).with_id("top");
    commit(&store, |on| drop(on.create(top).unwrap()));
    let slow = subtree(&store, "leaf");
    let write = |of: &str| drop(commit(&store, |on| on.insert_text(id(of), 0, "x").unwrap()));
    for _ in 0..3 {
        write("leaf");
        write("right");
    }
    write("leaf");
    let event = slow.try_recv().unwrap();
    assert_eq!((event.commit.version, event.missed), (8, 3));
    // No commit that passes follows, so it receives the newest of those that were removed.
    ["leaf", "leaf", "right", "right"]
        .into_iter()
        .for_each(write);
    let event = slow.try_recv().unwrap();
    assert_eq!((event.commit.version, event.missed), (10, 1));
    assert_eq!(slow.try_recv(), Err(TryRecvError::Empty));
    write("leaf");
    let event = slow.try_recv().unwrap();
    assert_eq!((event.commit.version, event.missed), (13, 0));
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
fn edit(on: &mut Draft, seed: u64) {
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
        let all = store.subscribe();
        let filters: Vec<Filter> = NAMES
            .iter()
            .flat_map(|name| [Filter::Node(id(name)), Filter::Subtree(id(name))])
            .collect();
        let subscriptions: Vec<Subscription> =
            filters.iter().map(|filter| store.subscription().matching(filter.clone())).collect();
        for seeds in &commits {
            commit(&store, |on| seeds.iter().for_each(|seed| edit(on, *seed)));
        }

        let copy = DataStore::new();
        let mut expected = vec![Vec::new(); filters.len()];
        for event in all.try_iter() {
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
