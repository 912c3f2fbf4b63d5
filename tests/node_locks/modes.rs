//! Conflicts between modes (NODE LOCKS 1, 2, 5).

use doclock::{
    DataStore,
    document::NodeSpec,
    lock::{LockMode, node::Scope},
};

use super::{ask, blocked, document, node, take};

/// Against every mode on the section: a lock inside it, and one outside it.
#[test]
fn node_locks_01_a_subtree_excludes_locks_on_descendants_and_ancestors() {
    let store = document();
    let section = take(&store, "ann", Scope::new().write_subtree("a"));
    for id in ["a", "a1", "root"] {
        assert!(
            blocked(&store, Scope::new().write(id)) == (id != "root"),
            "{id} alone"
        );
        assert!(
            blocked(&store, Scope::new().read_subtree(id)),
            "{id} and all below"
        );
    }
    assert!(
        !blocked(&store, Scope::new().write_subtree("b")),
        "beside it"
    );
    assert!(
        !blocked(&store, Scope::new().write("root")),
        "the root alone is not in it"
    );
    drop(section);
    let below = take(&store, "ann", Scope::new().write("a1"));
    assert!(blocked(&store, Scope::new().write_subtree("a")));
    assert!(blocked(&store, Scope::new().read_subtree("root")));
    assert!(
        !blocked(&store, Scope::new().write("a")),
        "the section's own list and attributes"
    );
    assert!(!blocked(&store, Scope::new().write("a2")));
    drop(below);
    assert!(!blocked(&store, Scope::new().write_subtree("root")));
}

#[test]
fn node_locks_01_readers_share_and_exclude_a_writer() {
    let store = document();
    let one = take(&store, "ann", Scope::new().read_subtree("a"));
    let other = take(&store, "bob", Scope::new().read("a1"));
    assert!(blocked(&store, Scope::new().write("a1")));
    assert!(
        blocked(&store, Scope::new().write("a2")),
        "it is below what is read"
    );
    drop(one);
    assert!(blocked(&store, Scope::new().write("a1")));
    assert!(!blocked(&store, Scope::new().write("a2")));
    drop(other);
    assert!(!blocked(&store, Scope::new().write_subtree("a")));
}

/// Every pair of modes on one node, against the table that `LockMode` documents.
#[test]
fn node_locks_01_modes_exclude_each_other_as_documented() {
    use LockMode::{
        Exclusive, IntentionExclusive, IntentionShared, NodeExclusive, NodeShared, Shared,
        SharedIntentionExclusive,
    };
    let modes = [
        IntentionShared,
        IntentionExclusive,
        NodeShared,
        NodeExclusive,
        Shared,
        SharedIntentionExclusive,
        Exclusive,
    ];
    let together = [
        "1111110", "1111000", "1110110", "1100000", "1010100", "1010000", "0000000",
    ];
    let store = document();
    for (one, row) in modes.into_iter().zip(together) {
        for (other, together) in modes.into_iter().zip(row.bytes()) {
            let _guard = take(&store, "ann", [("a", one)]);
            let blocked = blocked(&store, [("a", other)]);
            assert_eq!(blocked, together == b'0', "{one} and {other}");
        }
    }
}

#[test]
fn node_locks_01_an_upgrade_waits_for_the_other_readers_and_goes_before_writers() {
    let store = document();
    let mut ann = take(&store, "ann", Scope::new().read("a1"));
    let bob = take(&store, "bob", Scope::new().read("a1"));
    let writer = ask(&store, "carl", Scope::new().write("a1"));
    let locks = store.node_locks();
    let upgrading = std::thread::spawn(move || {
        ann.extend([("a1", LockMode::NodeExclusive)]).unwrap();
        ann
    });
    super::until_waiting(&locks, 2);
    drop(bob);
    let ann = upgrading.join().unwrap();
    assert_eq!(locks.stats().waiting, 1, "Carl waits still");
    drop(ann);
    drop(writer.join().unwrap().unwrap());
}

#[test]
fn node_locks_02_disjoint_nodes_do_not_wait_for_each_other() {
    let store = document();
    let guards: Vec<_> = ["a1", "a2", "b1", "b2"]
        .into_iter()
        .map(|id| take(&store, id, Scope::new().write(id)))
        .collect();
    assert_eq!(store.node_locks().holders().len(), 4);
    drop(guards);
    assert_eq!(store.node_locks().stats().total_releases, 4);
}

/// An owner without a node yet excludes the document lock, so it is listed, too.
#[test]
fn holders_are_listed_with_those_of_an_empty_scope_and_without_that_of_the_document() {
    let store = document();
    let holders = || {
        let holders = store.node_locks().holders();
        assert_eq!(holders.len(), store.node_locks().stats().holders);
        holders.len()
    };
    let one = take(&store, "ann", Scope::new());
    assert_eq!(holders(), 1);
    let other = take(&store, "bob", Scope::new().write("b1"));
    assert_eq!(holders(), 2);
    drop((one, other));
    let id = store.acquire_lock("carl").unwrap();
    assert_eq!(holders(), 0);
    store.release_lock(id).unwrap();
}

/// A lone holder has the whole document until a second one comes.
#[test]
fn node_locks_02_a_lone_holder_is_downgraded_when_a_second_comes() {
    let store = document();
    let one = take(&store, "ann", Scope::new().write("a1"));
    assert_eq!(store.node_locks().stats().entries, 0);
    let other = take(&store, "bob", Scope::new().write("b1"));
    // The document, the root, two sections and two paragraphs.
    assert_eq!(store.node_locks().stats().entries, 6);
    let holders = store.node_locks().holders();
    let has = |owner: &str, id: &str, mode| {
        let mut holders = holders.iter();
        let holder = holders
            .find(|holder| holder.holder.owner_id.as_str() == owner)
            .unwrap();
        assert!(holder.nodes.contains(&(node(id), mode)), "{holder}");
    };
    has("ann", "a1", LockMode::NodeExclusive);
    has("bob", "b1", LockMode::NodeExclusive);
    // Beside the node, the document, the root and a section.
    assert!(holders.iter().all(|holder| holder.node_count == 4));
    drop(one);
    drop(other);
    assert_eq!(store.node_locks().stats().entries, 0);
}

#[test]
fn node_locks_05_a_million_nodes_touched_leave_no_entry() {
    let store = DataStore::new();
    // So no request is alone, and every lock has its entries.
    let _other = take(&store, "other", Scope::new().write("elsewhere"));
    drop(take(&store, "ann", Scope::new()));
    let entries = store.node_locks().stats().entries;
    let rounds = if cfg!(debug_assertions) {
        50_000
    } else {
        1_000_000
    };
    for number in 0..rounds {
        drop(take(
            &store,
            "ann",
            Scope::new().write(format!("9:{number}").as_str()),
        ));
    }
    assert_eq!(store.node_locks().stats().entries, entries);
    let all = (0..rounds).map(|number| (format!("9:{number}"), LockMode::Exclusive));
    let all = all.map(|(id, mode)| (doclock::NodeId::from(id.as_str()), mode));
    let guard = take(&store, "ann", all.collect::<Scope>());
    assert_eq!(store.node_locks().stats().entries, entries + rounds);
    drop(guard);
    assert_eq!(store.node_locks().stats().entries, entries);
}

/// A node moved during a wait for it is locked at its new position.
#[test]
fn node_locks_01_a_waiter_locks_a_moved_node_at_its_new_position() {
    let store = document();
    let mut mover = store
        .begin_on("mover", Scope::new().write_subtree("a1"))
        .unwrap();
    mover.move_node(node("a1"), node("b"), 0).unwrap();
    mover
        .insert(NodeSpec::new("paragraph").with_id("new"), node("a1"), None)
        .unwrap();
    let waiting = ask(&store, "ann", Scope::new().write("a1"));
    mover.commit().unwrap();
    let guard = waiting.join().unwrap().unwrap();
    assert!(
        blocked(&store, Scope::new().write_subtree("b")),
        "it stands in there now"
    );
    drop(guard);
    assert!(!blocked(&store, Scope::new().write_subtree("b")));
}
