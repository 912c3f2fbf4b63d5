//! 3: errors.

use doclock::dsl::*;
use doclock::{
    document::EditError,
    transaction::{Operation, OperationError, TransactionError, parse_operations},
};
use proptest::prelude::*;

use crate::common::{
    Action, Aim, RefDoc, aimed, cases, commit, id, image, possible, steps, store, text,
};
use crate::{failed, manager, with_note};

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("no more than {0}")]
struct Limit(u32);

#[test]
fn transaction_03_every_failure_has_index_and_cause_and_changes_nothing() {
    let store = with_note();
    let before = store.snapshot();
    let before_image = image(&before);
    let events = store.subscribe();
    let fail = |last: Operation| {
        let list = (
            set_text("lost").on("note"),
            create(text_node("p", "lost")),
            last,
            delete_node().on("note"),
        );
        let failure = failed(manager(&store).execute(list).unwrap_err());
        assert_eq!(failure.0, 2);
        assert_eq!(image(&store.snapshot()), before_image);
        assert_eq!(store.version(), before.version());
        assert!(events.try_recv().is_err() && !store.is_locked());
        failure
    };
    let (_, name, cause) = fail(set_text("x").on("nowhere"));
    let missing = EditError::NodeNotFound { id: id("nowhere") };
    assert_eq!(name, "setText");
    assert!(matches!(cause, OperationError::Edit(cause) if cause == missing));

    let (_, name, cause) = fail(op(|transaction| {
        transaction.set_text(id("note"), "lost, too").unwrap();
        Err(Limit(3))
    }));
    assert_eq!(
        (name, cause.to_string()),
        ("op", "no more than 3".to_owned())
    );
    let OperationError::Failed(cause) = cause else {
        panic!("{cause:?}")
    };
    assert_eq!(
        cause.downcast_ref(),
        Some(&Limit(3)),
        "the closure's own error"
    );

    let (_, name, cause) = fail(op::<Limit>(|transaction| {
        transaction.delete(id("note")).unwrap();
        panic!("gone {}", "wrong")
    }));
    assert_eq!(
        (name, cause.to_string()),
        ("op", "panicked: gone wrong".to_owned())
    );
    assert!(matches!(cause, OperationError::Panicked(_)));

    // An error that user code handles is none.
    manager(&store)
        .execute([op(|transaction| {
            transaction.delete(id("nowhere")).unwrap_err();
            transaction.set_text(id("note"), "kept")
        })])
        .unwrap();
    assert_eq!(text(&store.snapshot(), "note"), "kept");
}

#[test]
fn transaction_03_an_error_prints_operation_node_and_cause() {
    let store = with_note();
    let source = |error: &TransactionError| std::error::Error::source(error).unwrap().to_string();
    let error = manager(&store)
        .execute([move_node("nowhere", 0).on("note")])
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "operation 0 (moveNode on node note): node nowhere does not exist"
    );
    assert_eq!(source(&error), "node nowhere does not exist");
    let error = manager(&store)
        .execute([op(|_| Err(Limit(1)))])
        .unwrap_err();
    assert_eq!(error.to_string(), "operation 0 (op): no more than 1");
    assert_eq!(source(&error), "no more than 1");
}

#[test]
fn transaction_03_an_unknown_operation_is_an_error_with_its_index() {
    let script = r#"[{"type": "delete", "payload": {"nodeId": "note"}}, {"type": "explode", "payload": {"nodeId": "note"}}]"#;
    let error = parse_operations(script).unwrap_err();
    assert_eq!(error.index, Some(1));
    assert!(error.message.contains("explode"), "{error}");
    assert!(error.to_string().starts_with("operation 1: "), "{error}");
}

/// The result of a batch: the document, or the index of the failing operation.
fn outcome(actions: &[Action], on: &RefDoc) -> Result<RefDoc, usize> {
    let mut after = on.clone();
    let mut index: usize = 0;
    for action in actions {
        let steps = match action {
            Action::Control(_, actions) => actions.as_slice(),
            action => std::slice::from_ref(action),
        };
        for step in steps {
            after.apply(step).map_err(|_| index)?;
            index += 1;
        }
    }
    Ok(after)
}

/// The batch with a comparison after each operation, inside the transaction.
fn compared(actions: &[Action], on: &RefDoc) -> Vec<Operation> {
    let mut on = on.clone();
    let mut list = Vec::new();
    for action in actions {
        list.push(action.operation());
        if on.apply(action).is_err() {
            // The batch ends here; this must not be reached.
            list.push(op::<String>(|_| Err("went on after an error".to_owned())));
            break;
        }
        let expected = on.clone();
        if !expected.has_unknown() {
            list.push(op(move |transaction| expected.compare(transaction)));
        }
    }
    list
}

proptest! {
    #![proptest_config(cases(250))]

    #[test]
    fn transaction_03_random_batches_agree_with_a_plain_reference(
        transactions in prop::collection::vec(
            (steps(1..24), prop::sample::select(vec![Aim::Named, Aim::Unnamed, Aim::Wild])),
            1..6,
        ),
    ) {
        let store = store();
        let mut model = RefDoc::default();
        for (steps, aim) in transactions {
            let actions = aimed(&steps, &model, aim);
            let list = compared(&actions, &model);
            let names: Vec<&str> = list.iter().map(Operation::name).collect();
            let before = store.snapshot();
            match (outcome(&actions, &model), manager(&store).execute(list.clone())) {
                (Ok(mut after), Ok(result)) => {
                    let executed = result.operations.iter();
                    let created: Vec<String> = executed
                        .flat_map(|executed| executed.created.iter().map(ToString::to_string))
                        .collect();
                    prop_assert_eq!(after.learn(&created), Ok(()));
                    model = after;
                    let changed = store.snapshot() != before;
                    prop_assert!(!changed || result.version == before.version() + 1);
                    prop_assert_eq!(result.version, store.version());
                }
                (Err(_), Err(error)) => {
                    let (index, _, cause) = failed(error);
                    // The inserted operations do not fail, so the failing one is the last but one.
                    let counted = |operation: &Operation| match operation {
                        Operation::Control { operations, .. } => operations.len(),
                        _ => 1,
                    };
                    let end: usize = list.iter().map(counted).sum();
                    let last: usize = list[list.len() - 2..].iter().map(counted).sum();
                    prop_assert!((end - last..end - 1).contains(&index), "{} {}", index, cause);
                    prop_assert!(!matches!(cause, OperationError::Panicked(_)));
                    prop_assert_eq!(image(&store.snapshot()), image(&before));
                    prop_assert_eq!(store.version(), before.version());
                }
                (expected, found) => {
                    let expected = expected.map(drop);
                    prop_assert!(false, "{:?}, not {:?}: {:?}", found, expected, names);
                }
            }
            prop_assert_eq!(model.compare(&store.snapshot()), Ok(()));
        }
    }

    #[test]
    fn transaction_03_the_index_is_that_of_the_first_operation_that_fails(
        document in steps(0..20),
        steps in steps(1..30),
    ) {
        let store = store();
        let mut model = RefDoc::default();
        for action in possible(&document, &model) {
            commit(&store, |transaction| action.perform(transaction).unwrap());
            model.apply(&action).unwrap();
        }
        let actions = aimed(&steps, &model, Aim::Wild);
        let list: Vec<Operation> = actions.iter().map(Action::operation).collect();
        match (outcome(&actions, &model), manager(&store).execute(list)) {
            (Ok(_), Ok(_)) => {}
            (Err(expected), Err(error)) => prop_assert_eq!(failed(error).0, expected),
            (expected, found) => {
                prop_assert!(false, "{:?}, not {:?}", found, expected.map(drop));
            }
        }
    }
}
