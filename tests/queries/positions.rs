//! Positions in order, and the text between them.

use std::cmp::Ordering;

use doclock::{
    View,
    document::{EditError, NodeSpec, Position},
};
use proptest::prelude::*;

use crate::common::{cases, commit, id, store};
use crate::{DEEP, deep_chain, name, trees};

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn positions_are_in_the_order_of_reading(tree in trees()) {
        let store = store();
        commit(&store, |transaction| tree.grow(transaction));
        let view = store.snapshot();
        // Every position of the tree in order, with the number of characters before it.
        let mut positions = Vec::new();
        let mut whole: Vec<char> = Vec::new();
        for node in tree.plain().order {
            let text: Vec<char> = tree.texts[node].chars().collect();
            let offsets = 0..=text.len();
            positions.extend(offsets.map(|at| (Position::new(name(node), at), whole.len() + at)));
            whole.extend(text);
        }
        for (nth, (one, from)) in positions.iter().enumerate() {
            for (mth, (other, to)) in positions.iter().enumerate() {
                prop_assert_eq!(view.compare_positions(one, other).unwrap(), nth.cmp(&mth));
                let between: String = whole[*from.min(to)..*from.max(to)].iter().collect();
                prop_assert_eq!(view.text_between(one, other).unwrap(), between);
            }
        }
        let whole: String = whole.into_iter().collect();
        prop_assert_eq!(view.text_of(id("n0")).unwrap(), whole);
    }
}

#[test]
fn positions_that_do_not_exist_or_do_not_compare_are_errors() {
    let store = store();
    let mut transaction = store.begin("test").unwrap();
    for name in ["a", "b", "gone"] {
        transaction
            .create(NodeSpec::new("text").with_id(name).with_text("xyz"))
            .unwrap();
    }
    transaction.delete(id("gone")).unwrap();
    let at = Position::new;
    let errors = [
        (
            at("b", 0),
            "nodes a and b are in different trees, so neither comes first",
        ),
        (
            at("a", 4),
            "characters 4..4 are out of range: the text of node a has 3",
        ),
        (at("c", 0), "node c does not exist"),
        (
            at("gone", 0),
            "node gone was deleted earlier in this transaction",
        ),
    ];
    for (other, message) in errors {
        let error = transaction
            .compare_positions(&at("a", 0), &other)
            .unwrap_err();
        assert_eq!(error.to_string(), message);
        assert!(transaction.text_between(&other, &at("a", 0)).is_err());
    }
    let missing = transaction.text_of(id("c"));
    assert!(matches!(missing, Err(EditError::NodeNotFound { .. })));
    let deleted = transaction.to_spec(id("gone"));
    assert!(matches!(deleted, Err(EditError::NodeDeleted { .. })));
}

#[test]
fn the_text_between_two_positions_of_one_long_text_is_that_range() {
    let store = store();
    let long: String = ('a'..='z').cycle().take(5_000).collect();
    commit(&store, |transaction| {
        let spec = NodeSpec::new("text")
            .with_id("long")
            .with_text(long.as_str());
        transaction.create(spec).unwrap();
    });
    let view = store.snapshot();
    let between = view.text_between(&Position::new("long", 4_990), &Position::new("long", 7));
    assert_eq!(between.unwrap(), long[7..4_990]);
}

#[test]
fn both_ends_of_a_hundred_thousand_levels_compare() {
    let (store, top, bottom) = deep_chain();
    let view = store.snapshot();
    let (first, last) = (Position::new(top.clone(), 0), Position::new(bottom, 1));
    assert_eq!(
        view.compare_positions(&first, &last).unwrap(),
        Ordering::Less
    );
    assert_eq!(
        view.compare_positions(&last, &first).unwrap(),
        Ordering::Greater
    );
    let whole = view.text_between(&last, &first).unwrap();
    assert_eq!(whole.len(), DEEP);
    assert_eq!(view.text_of(&top).unwrap(), whole);
}
