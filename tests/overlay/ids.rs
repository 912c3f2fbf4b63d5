//! 13: ids.

use std::collections::HashSet;
use std::thread;

use doclock::dsl::*;
use doclock::{NodeId, Transaction, TransactionManager, View, document::NodeSpec};

use crate::common::{PATIENCE, commit, id, store};
use crate::paragraph;

#[test]
fn overlay_13_ids_are_never_reused_not_even_across_rollbacks() {
    let store = store();
    let mut seen = HashSet::new();
    let mut fresh = |id: NodeId| {
        assert!(id.is_generated(), "{id}");
        assert!(seen.insert(id.clone()), "{id} came twice");
        id
    };
    for turn in 0..20 {
        let mut transaction = store.begin("ann").unwrap();
        let list =
            NodeSpec::new("list").with_children([NodeSpec::new("item"), NodeSpec::new("item")]);
        let list = fresh(transaction.create(list).unwrap());
        for item in transaction
            .children(&list)
            .map(|item| item.id().clone())
            .collect::<Vec<_>>()
        {
            fresh(item);
        }
        fresh(transaction.insert(NodeSpec::new("item"), &list, 0).unwrap());
        transaction
            .insert(NodeSpec::new("item"), id("nowhere"), 0)
            .unwrap_err();
        fresh(store.generate_id().unwrap());
        match turn % 4 {
            0 => drop(transaction.commit().unwrap()),
            1 => transaction.rollback(),
            2 => drop(transaction),
            _ => {
                transaction.delete(&list).unwrap();
                fresh(transaction.create(NodeSpec::new("item")).unwrap());
                transaction.commit().unwrap();
            }
        }
        let manager = TransactionManager::new(store.clone());
        let error = manager.execute([create(NodeSpec::new("item")), delete_node().on("nowhere")]);
        error.unwrap_err();
    }
}

#[test]
fn overlay_13_threads_never_get_the_same_id() {
    let store = store();
    store.set_lock_timeout(PATIENCE);
    let generate = || -> Vec<NodeId> {
        let both = |_| {
            let mut transaction = store.begin("ann").unwrap();
            let created = transaction.create(NodeSpec::new("item")).unwrap();
            let end = if created.to_string().ends_with('3') {
                Transaction::rollback
            } else {
                |transaction: Transaction| drop(transaction.commit().unwrap())
            };
            end(transaction);
            [created, store.generate_id().unwrap()]
        };
        (0..200).flat_map(both).collect()
    };
    let ids: Vec<NodeId> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(generate)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
}

#[test]
fn overlay_13_an_id_that_was_given_is_not_generated_later() {
    let store = store();
    let given = ["7:2", "7:10", "7:3", "8:11", "07:12"];
    commit(&store, |transaction| {
        for given in given {
            transaction.create(paragraph(given)).unwrap();
        }
    });
    let mut transaction = store.begin("ann").unwrap();
    transaction.create(paragraph("7:500")).unwrap();
    transaction.rollback();
    commit(&store, |transaction| {
        for given in given {
            transaction.delete(id(given)).unwrap();
        }
        let nodes: Vec<NodeId> = (0..600)
            .map(|_| transaction.create(NodeSpec::new("item")).unwrap())
            .collect();
        assert!(
            given.iter().all(|given| !nodes.contains(&id(given))),
            "one was reused"
        );
        assert!(
            !nodes.contains(&id("7:500")),
            "one was reused after its rollback"
        );
    });
    // The same holds for ids in changes.
    let other = crate::common::store();
    let made = commit(&other, |transaction| {
        transaction
            .create(paragraph("7:9000").with_children([paragraph("7:9001")]))
            .unwrap();
    });
    commit(&store, |transaction| {
        made.changes
            .into_iter()
            .for_each(|change| transaction.apply(change).unwrap());
        transaction.delete("7:9000").unwrap();
        for _ in 0..10 {
            let new = transaction.create(NodeSpec::new("item")).unwrap();
            assert!(
                new != id("7:9000") && new != id("7:9001"),
                "{new} was reused"
            );
        }
    });
}

#[test]
fn overlay_13_an_id_given_beside_nodes_without_one_is_not_generated_for_them() {
    let store = store();
    let list = element(
        "list",
        [NodeSpec::new("item"), paragraph("7:1"), paragraph("7:2")],
    );
    let mut transaction = store.begin("ann").unwrap();
    let list = transaction
        .create(list)
        .expect("no node has had one of these ids");
    assert_eq!(transaction.descendants(&list).count(), 4);
}
