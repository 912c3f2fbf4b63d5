//! Nested savepoints.

use doclock::{
    DataStore, Draft, Savepoint, Transaction, View,
    document::{NodeSpec, Selection},
};

use crate::common::{id, store, text};

/// Types one more letter at the end of `t`.
fn letter(on: &mut Draft, letter: &str) {
    let len = on.node("t").unwrap().text().len();
    on.insert_text("t", len, letter).unwrap();
}

fn begun() -> Transaction {
    let mut transaction = DataStore::new().begin("ann").unwrap();
    let spec = NodeSpec::new("text").with_id("t");
    transaction.create(spec).unwrap();
    transaction
}

/// `abc`, with a savepoint before each letter.
fn three_deep() -> (Transaction, [Savepoint; 3]) {
    let mut transaction = begun();
    let saved = ["a", "b", "c"].map(|next| {
        let savepoint = transaction.savepoint();
        letter(&mut transaction, next);
        savepoint
    });
    (transaction, saved)
}

#[test]
fn overlay_10_the_inner_savepoints_are_returned_to_one_after_the_other() {
    let (mut transaction, saved) = three_deep();
    for (savepoint, expected) in saved.iter().zip(["", "a", "ab"]).rev() {
        transaction.rollback_to(*savepoint).unwrap();
        assert_eq!(text(&transaction, "t"), expected);
    }
    transaction.commit().unwrap();
}

#[test]
fn overlay_10_a_rollback_removes_later_savepoints() {
    let (mut transaction, [first, second, third]) = three_deep();
    transaction.rollback_to(second).unwrap();
    let error = transaction.rollback_to(third).unwrap_err();
    assert_eq!((error.transaction, error.number), (transaction.id(), 3));
    let expected = format!(
        "transaction {} cannot return to savepoint 3",
        transaction.id()
    );
    assert_eq!(error.to_string(), expected);
    assert_eq!(
        text(&transaction, "t"),
        "a",
        "nothing is undone by what is refused"
    );
    transaction.rollback_to(first).unwrap();
    assert!(transaction.rollback_to(second).is_err());
}

#[test]
fn overlay_10_a_savepoint_can_be_returned_to_again_and_again() {
    let (mut transaction, [_, second, _]) = three_deep();
    for next in ["x", "y"] {
        letter(&mut transaction, next);
        transaction.rollback_to(second).unwrap();
        assert_eq!(text(&transaction, "t"), "a");
    }
    let again = transaction.savepoint();
    letter(&mut transaction, "z");
    transaction.rollback_to(again).unwrap();
    let committed = transaction.commit().unwrap();
    assert_eq!(committed.changes.len(), 2, "the node and its first letter");
}

#[test]
fn overlay_10_a_savepoint_in_an_attempt_is_gone_when_that_is_over() {
    let mut transaction = begun();
    let outer = transaction.savepoint();
    let inner = transaction
        .attempt(|on| -> Result<Savepoint, String> {
            letter(on, "a");
            let inner = on.savepoint();
            letter(on, "b");
            Ok(inner)
        })
        .unwrap();
    assert!(transaction.rollback_to(inner).is_err());
    assert_eq!(text(&transaction, "t"), "ab");
    transaction.rollback_to(outer).unwrap();
    assert_eq!(text(&transaction, "t"), "");
}

#[test]
fn overlay_10_attempts_nest_as_savepoints_do() {
    let mut transaction = begun();
    let outcome = transaction.attempt(|on| {
        letter(on, "a");
        let failed: Result<(), &str> = on.attempt(|on| {
            letter(on, "b");
            let done: Result<(), &str> = on.attempt(|on| {
                letter(on, "c");
                Ok(())
            });
            done.unwrap();
            assert_eq!(text(on, "t"), "abc");
            Err("no")
        });
        assert_eq!((failed, text(on, "t").as_str()), (Err("no"), "a"));
        letter(on, "d");
        Ok::<_, String>(())
    });
    outcome.unwrap();
    assert_eq!(text(&transaction, "t"), "ad");
}

#[test]
fn overlay_10_savepoints_of_other_transactions_are_refused() {
    let (mut one, [first, ..]) = three_deep();
    let (mut other, _) = three_deep();
    assert!(other.rollback_to(first).is_err());
    assert_eq!(text(&other, "t"), "abc");
    one.rollback_to(first).unwrap();
}

/// More nodes than a linear search allows, so the last touched ones leave the index, too.
#[test]
fn overlay_10_a_rollback_forgets_nodes_first_touched_after_its_savepoint() {
    for before in [0, 3, 8, 9, 20] {
        for since in [1, 5, 8, 9, 20] {
            let store = store();
            let mut setup = store.begin("ann").unwrap();
            let names = (0..before + since).map(|nth| format!("n{nth}"));
            let names: Vec<String> = names.collect();
            for name in &names {
                setup
                    .create(NodeSpec::new("text").with_id(name.as_str()))
                    .unwrap();
            }
            setup.commit().unwrap();
            let mut transaction = store.begin("ann").unwrap();
            let write = |on: &mut Draft, names: &[String], text: &str| {
                for name in names {
                    on.set_text(id(name), text).unwrap();
                }
            };
            let (first, last) = names.split_at(before);
            write(&mut transaction, first, "first");
            transaction
                .select(names.first().map(|name| Selection::caret(name.as_str(), 0)))
                .unwrap();
            let savepoint = transaction.savepoint();
            for again in ["last", "again"] {
                write(&mut transaction, first, again);
                write(&mut transaction, last, again);
                transaction
                    .create(NodeSpec::new("text").with_id("new"))
                    .unwrap();
                transaction.rollback_to(savepoint).unwrap();
                assert!(first.iter().all(|name| text(&transaction, name) == "first"));
                assert!(last.iter().all(|name| text(&transaction, name).is_empty()));
                assert!(!transaction.contains("new"));
            }
            write(&mut transaction, last, "then");
            transaction.commit().unwrap();
            let document = store.snapshot();
            assert!(first.iter().all(|name| text(&document, name) == "first"));
            assert!(last.iter().all(|name| text(&document, name) == "then"));
        }
    }
}
