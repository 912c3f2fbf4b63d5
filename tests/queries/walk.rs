//! From one node to its neighbours.

use doclock::{
    View,
    document::{Node, NodeSpec},
};
use proptest::prelude::*;

use crate::common::{cases, commit, id, store};
use crate::{DEEP, Plain, deep_chain, name, trees};

fn names<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Vec<String> {
    let nodes = nodes.into_iter();
    nodes.map(|node| node.id().to_string()).collect()
}

fn named(nodes: impl IntoIterator<Item = usize>) -> Vec<String> {
    nodes.into_iter().map(name).collect()
}

fn compare(view: &impl View, plain: &Plain) -> Result<(), TestCaseError> {
    for (place, &node) in plain.order.iter().enumerate() {
        let here = id(&name(node));
        let siblings = plain.parent[node].map_or(&[][..], |parent| &plain.children[parent]);
        let index = siblings.iter().position(|&sibling| sibling == node);
        let beside = |step: isize| {
            let at = index?.checked_add_signed(step)?;
            siblings.get(at).copied()
        };
        let in_order = |step: isize| {
            let at = place.checked_add_signed(step)?;
            plain.order.get(at).copied()
        };
        let others = siblings.iter().copied().filter(|&sibling| sibling != node);
        prop_assert_eq!(names(view.siblings(&here)), named(others));
        prop_assert_eq!(view.index_in_parent(&here), index);
        prop_assert_eq!(names(view.next_sibling(&here)), named(beside(1)));
        prop_assert_eq!(names(view.previous_sibling(&here)), named(beside(-1)));
        prop_assert_eq!(names(view.next(&here)), named(in_order(1)));
        prop_assert_eq!(names(view.previous(&here)), named(in_order(-1)));
        let last = plain.below(node).pop();
        prop_assert_eq!(names(view.last_descendant(&here)), named(last));
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn neighbours_agree_with_a_plain_tree(tree in trees()) {
        let store = store();
        let plain = tree.plain();
        let mut transaction = store.begin("test").unwrap();
        tree.grow(&mut transaction);
        compare(&transaction, &plain)?;
        transaction.commit().unwrap();
        compare(&store.snapshot(), &plain)?;
    }

    #[test]
    fn ancestors_agree_with_a_plain_tree(tree in trees()) {
        let store = store();
        let plain = tree.plain();
        commit(&store, |transaction| tree.grow(transaction));
        let view = store.snapshot();
        for &one in &plain.order {
            let above_one = plain.ancestors(one);
            for &other in &plain.order {
                let above_other = plain.ancestors(other);
                let ids = (id(&name(one)), id(&name(other)));
                prop_assert_eq!(view.is_ancestor(&ids.0, &ids.1), above_other.contains(&one));
                let mut ways = std::iter::once(one).chain(above_one.iter().copied());
                let common = ways.find(|above| *above == other || above_other.contains(above));
                prop_assert_eq!(names(view.common_ancestor(&ids.0, &ids.1)), named(common));
            }
        }
    }
}

#[test]
fn neighbours_in_a_transaction_include_its_own_changes() {
    let store = store();
    commit(&store, |transaction| {
        let children = ["a", "b", "c"].map(|name| NodeSpec::new("item").with_id(name));
        let list = NodeSpec::new("list")
            .with_id("list")
            .with_children(children);
        transaction.create(list).unwrap();
    });
    let mut transaction = store.begin("test").unwrap();
    transaction.delete(id("b")).unwrap();
    let new = NodeSpec::new("item").with_id("new");
    transaction.insert(new, id("list"), Some(0)).unwrap();
    assert_eq!(names(transaction.next_sibling(id("a"))), ["c"]);
    assert_eq!(names(transaction.previous(id("a"))), ["new"]);
    assert_eq!(names(transaction.siblings(&id("c"))), ["new", "a"]);
    assert_eq!(transaction.index_in_parent(id("b")), None);
    assert_eq!(names(store.snapshot().next_sibling(id("a"))), ["b"]);
}

#[test]
fn a_missing_node_has_no_neighbours() {
    let store = store();
    commit(&store, |transaction| {
        transaction
            .create(NodeSpec::new("item").with_id("a"))
            .unwrap();
        transaction
            .create(NodeSpec::new("item").with_id("b"))
            .unwrap();
    });
    let (view, missing) = (store.snapshot(), id("missing"));
    assert_eq!(view.siblings(&missing).count(), 0);
    assert_eq!(
        view.siblings(&id("a")).count(),
        0,
        "detached nodes are no siblings"
    );
    assert_eq!(view.next(&missing), None);
    assert_eq!(view.previous(&missing), None);
    assert_eq!(view.last_descendant(&missing), None);
    assert_eq!(view.common_ancestor(&missing, id("a")), None);
    assert_eq!(view.common_ancestor(id("a"), id("b")), None, "two trees");
    assert!(!view.is_ancestor(&missing, &missing));
    assert!(!view.is_ancestor(id("a"), id("a")));
}

#[test]
fn a_hundred_thousand_levels_are_walked_down_and_up() {
    let (store, top, bottom) = deep_chain();
    let view = store.snapshot();
    let down = std::iter::successors(view.node(&top), |node| view.next(node.id()));
    assert_eq!(down.count(), DEEP);
    let up = std::iter::successors(view.node(&bottom), |node| view.previous(node.id()));
    assert_eq!(up.count(), DEEP);
    assert_eq!(view.last_descendant(&top).map(Node::id), Some(&bottom));
    assert!(view.is_ancestor(&top, &bottom));
    assert_eq!(
        view.common_ancestor(&top, &bottom).map(Node::id),
        Some(&top)
    );
}
