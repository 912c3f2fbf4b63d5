//! Documents that are saved, damaged, loaded and edited again.

use std::collections::{HashMap, HashSet};

use doclock::prelude::RunOperations;
use doclock::{
    DataStore, Snapshot, StoreOptions, View,
    document::{Node, NodeSpec, check},
    transaction::{TransactionError, TransactionResult},
};
use proptest::prelude::*;
use serde_json::Value;

use crate::common::{Dice, SESSION, cases, commit, image, spoil};
use crate::furnished;
use crate::generator::{Step, steps};

fn saved(snapshot: &Snapshot) -> Vec<u8> {
    let mut file = Vec::new();
    serde_json::to_writer(&mut file, snapshot).unwrap();
    file
}

fn loaded(file: &[u8]) -> serde_json::Result<Snapshot> {
    serde_json::from_reader(file)
}

/// One transaction for each step. Failing steps are part of the test.
fn run(store: &DataStore, steps: &[Step]) -> Vec<Result<TransactionResult, TransactionError>> {
    let outcomes = steps.iter().map(|step| {
        let mut transaction = store.begin("ann").unwrap();
        let operation = step.draw(&transaction);
        match transaction.run(operation) {
            Ok(()) => Ok(transaction.commit()?),
            Err(error) => Err(error),
        }
    });
    outcomes.collect()
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn feed_05_a_document_that_any_operations_made_is_loaded_as_it_was_saved(
        steps in steps(0..40),
    ) {
        let store = furnished();
        run(&store, &steps);
        let before = store.snapshot();
        let file = saved(&before);
        let after = loaded(&file).unwrap();
        prop_assert_eq!(&after, &before);
        prop_assert_eq!(image(&after), image(&before));
        prop_assert_eq!((after.version(), after.root()), (before.version(), before.root()));
        prop_assert_eq!(check(&after), Ok(()));
        // The file has the numberings too.
        prop_assert_eq!(String::from_utf8(saved(&after)), String::from_utf8(file));
    }

    /// Versions, ids, tokens and errors are those that the first process would have had.
    #[test]
    fn feed_05_any_operations_do_the_same_after_a_restart(
        (before, after) in (steps(0..20), steps(1..20)),
    ) {
        let old = furnished();
        run(&old, &before);
        // The snapshot knows the numbers until the last commit.
        commit(&old, |transaction| drop(transaction.create(NodeSpec::new("x")).unwrap()));
        let snapshot = loaded(&saved(&old.snapshot())).unwrap();
        let new = StoreOptions::new().session(SESSION).document(snapshot).unwrap();
        // The lease ends with the process.
        old.leases().by_token(1.into()).unwrap().release().unwrap();
        let [one, other] = [&old, &new].map(|store| {
            let told = |outcome: &Result<TransactionResult, TransactionError>| match outcome {
                Ok(result) => serde_json::to_string(result).unwrap(),
                // The new store does not know whose it was.
                Err(error) if error.to_string().contains("lease") => "lease".to_owned(),
                Err(error) => error.to_string(),
            };
            let outcomes = run(store, &after);
            let told: Vec<String> = outcomes.iter().map(told).collect();
            (told, image(&store.snapshot()))
        });
        prop_assert_eq!(one, other);
        prop_assert_eq!(new.version(), old.version());
        prop_assert_eq!(check(&new.snapshot()), Ok(()));
    }
}

/// What a document must be, checked in another way than by the crate.
fn is_sound(document: &Snapshot) -> bool {
    let nodes: HashMap<_, &Node> = document.nodes().map(|node| (node.id(), node)).collect();
    let lists = document.nodes().all(|node| {
        let children: HashSet<_> = node.children().iter().collect();
        children.len() == node.children().len()
            && children.iter().all(|child| {
                nodes
                    .get(*child)
                    .is_some_and(|child| child.parent() == Some(node.id()))
            })
    });
    let parents = document.nodes().all(|node| {
        let mut up = node;
        for _ in 0..=nodes.len() {
            let Some(parent) = up.parent() else {
                return true;
            };
            match nodes.get(parent) {
                Some(parent) if parent.children().iter().any(|id| id == up.id()) => up = parent,
                _ => return false,
            }
        }
        false
    });
    let marks = document.nodes().all(|node| {
        let len = node.text().chars().count();
        node.marks().iter().all(|mark| {
            mark.range
                .as_ref()
                .is_some_and(|range| range.start < range.end && range.end <= len)
        })
    });
    let root = document
        .root()
        .is_none_or(|root| nodes.get(root).is_some_and(|root| root.parent().is_none()));
    nodes.len() == document.len() && lists && parents && marks && root
}

/// Replaces one id by another, or a node's parent or children by those of another.
fn rewire(form: &mut Value, dice: &mut Dice) {
    let nodes = form.get_mut("nodes").and_then(Value::as_array_mut);
    let Some(nodes) = nodes.filter(|nodes| !nodes.is_empty()) else {
        return;
    };
    let from = nodes[dice.below(nodes.len())].clone();
    let at = dice.below(nodes.len());
    let Some(node) = nodes[at].as_object_mut() else {
        return;
    };
    match dice.below(5) {
        0 => drop(node.insert("id".into(), from["id"].clone())),
        1 => drop(node.insert("parent".into(), from["id"].clone())),
        2 => drop(node.insert("parent".into(), from["parent"].clone())),
        3 => drop(node.insert("children".into(), from["children"].clone())),
        _ => match node.get_mut("children").and_then(Value::as_array_mut) {
            Some(children) => children.push(from["id"].clone()),
            None => drop(node.insert("children".into(), Value::from(vec![from["id"].clone()]))),
        },
    }
}

/// A damaged file.
fn damaged(file: &[u8], dice: &mut Dice) -> Vec<u8> {
    if dice.one_in(3) {
        let mut file = file.to_vec();
        for _ in 0..=dice.below(3) {
            let at = dice.below(file.len());
            match dice.below(4) {
                0 => file[at] = dice.next() as u8,
                1 => file[at] ^= 1 << dice.below(8),
                2 => drop(file.remove(at)),
                _ => {
                    let other = file[dice.below(file.len())];
                    file.insert(at, other);
                }
            }
        }
        return file;
    }
    let mut form: Value = serde_json::from_slice(file).unwrap();
    for _ in 0..=dice.below(2) {
        match dice.one_in(2) {
            true => rewire(&mut form, dice),
            false => spoil(&mut form, dice),
        }
    }
    if let (Some(nodes), false) = (
        form.get("nodes").and_then(Value::as_array).map(Vec::len),
        dice.one_in(8),
    ) {
        form["len"] = nodes.into();
    }
    form.to_string().into_bytes()
}

proptest! {
    #![proptest_config(cases(60))]

    /// A damaged file is refused, or is the file of another sound document.
    #[test]
    fn feed_05_no_damaged_file_is_loaded_as_an_invalid_document(
        (steps, seed) in (steps(0..12), any::<u64>()),
    ) {
        let store = furnished();
        run(&store, &steps);
        let file = saved(&store.snapshot());
        let dice = &mut Dice(seed);
        for _ in 0..50 {
            let file = damaged(&file, dice);
            let text = String::from_utf8_lossy(&file);
            let Ok(found) = loaded(&file) else {
                continue;
            };
            prop_assert!(is_sound(&found), "{}", text);
            prop_assert_eq!(check(&found), Ok(()), "{}", text);
            let again = loaded(&saved(&found)).unwrap();
            prop_assert_eq!(&again, &found);
            let store = StoreOptions::new().session(SESSION).document(found).unwrap();
            let version = store.version();
            let mut transaction = store.begin("ann").unwrap();
            if transaction.create(NodeSpec::new("x")).is_ok() {
                prop_assert_eq!(transaction.commit().unwrap().version, version + 1);
                loaded(&saved(&store.snapshot())).unwrap();
            }
        }
    }
}
