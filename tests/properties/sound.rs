//! After any operation the document is valid, and the selection is in it.

use std::collections::HashMap;

use doclock::{
    Draft, NodeId, View,
    document::{Position, Selection, TextSelection, check},
};
use proptest::prelude::*;

use crate::common::{cases, commit};
use crate::furnished;
use crate::generator::{Kind, steps};

fn is_there(view: &impl View, selection: &Selection) -> bool {
    let place = |Position { node_id, offset }: &Position| {
        let node = view.node(node_id);
        node.is_some_and(|node| *offset <= node.text().len())
    };
    match selection {
        Selection::Text(TextSelection { anchor, focus, .. }) => place(anchor) && place(focus),
        Selection::Node(selected) => view.contains(&selected.node_id),
    }
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn tree_02_any_operation_leaves_a_sound_document(
        transactions in prop::collection::vec(steps(1..16), 1..5),
    ) {
        let store = furnished();
        for steps in transactions {
            let committed = commit(&store, |transaction| {
                for step in steps {
                    // Failing steps are part of the test.
                    let _ = step.run(transaction);
                    assert_eq!(check(transaction), Ok(()), "{step:?}");
                }
            });
            prop_assert_eq!(check(&store.snapshot()), Ok(()), "{:#?}", committed);
        }
    }

    #[test]
    fn tree_05_no_operation_but_transform_node_gives_a_node_another_type(steps in steps(1..40)) {
        let store = furnished();
        let mut transaction = store.begin("ann").unwrap();
        let kinds = |view: &Draft| -> HashMap<NodeId, String> {
            view.nodes().map(|node| (node.id().clone(), node.kind().to_string())).collect()
        };
        for step in steps {
            let before = kinds(&transaction);
            let _ = step.run(&mut transaction);
            // Operations that run others may run that one.
            if matches!(step.kind, Kind::TransformNode | Kind::Control | Kind::Op) {
                continue;
            }
            for (id, kind) in kinds(&transaction) {
                let same = before.get(&id).is_none_or(|before| *before == kind);
                prop_assert!(same, "{} {:?}", id, step);
            }
        }
    }

    #[test]
    fn transaction_06_the_selection_is_valid_after_any_operations(
        selected in any::<prop::sample::Index>(),
        steps in steps(1..40),
    ) {
        let store = furnished();
        let mut transaction = store.begin("ann").unwrap();
        let texts: Vec<Selection> = store
            .snapshot()
            .descendants("page")
            .map(|node| Selection::caret(node.id(), node.text().len()))
            .collect();
        for step in steps {
            if transaction.selection().is_none() {
                // It may no longer exist.
                let _ = transaction.select(selected.get(&texts).clone());
            }
            let _ = step.run(&mut transaction);
            if let Some(selection) = transaction.selection() {
                prop_assert!(is_there(&transaction, selection), "{:?} {:?}", step, selection);
            }
        }
    }
}
