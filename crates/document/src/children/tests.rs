//! A list of children behaves like a vector, and keeps its invariants.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Edit {
    /// So many ids, one after the other at one place.
    Insert(usize, usize),
    Remove(usize, usize),
    /// Split and joined again, or the other way round.
    Turn(usize),
    /// The part after the index is removed.
    Cut(usize),
    /// The list, and as many others as there are after the index.
    Append(usize),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    // Often at the beginning, where a full list gets a new leaf.
    let place = || prop_oneof![2 => any::<usize>(), 1 => Just(0)];
    let edit = prop_oneof![
        6 => (place(), 1..MOST).prop_map(|(at, many)| Edit::Insert(at, many)),
        2 => (place(), 1..MOST).prop_map(|(at, many)| Edit::Remove(at, many)),
        1 => any::<usize>().prop_map(Edit::Turn),
        1 => any::<usize>().prop_map(Edit::Cut),
        1 => any::<usize>().prop_map(Edit::Append),
    ];
    prop::collection::vec(edit, 0..40)
}

fn assert_well_formed(children: &Children) {
    let Some(list) = children.0.as_deref() else {
        return;
    };
    match list {
        List::Few(ids) => assert!(!ids.is_empty() && ids.len() <= MOST),
        List::Many { tree, .. } => {
            assert!(tree.leaves() > 1);
            tree.assert_well_formed();
        }
    }
}

proptest! {
    #[test]
    fn edits_as_a_vector_would(edits in edits()) {
        let mut expected: Vec<NodeId> = Vec::new();
        let mut children = Children::default();
        let mut versions = Vec::new();
        let mut given = 0;
        for (nth, edit) in edits.iter().enumerate() {
            let place = |at: usize| at % (expected.len() + 1);
            match *edit {
                Edit::Insert(at, many) => {
                    let at = place(at);
                    for _ in 0..many {
                        let id = NodeId::generated(1, given);
                        given += 1;
                        expected.insert(at, id.clone());
                        children.insert(at, id);
                    }
                }
                Edit::Remove(at, many) => {
                    for _ in 0..many.min(expected.len()) {
                        let at = at % expected.len();
                        expected.remove(at);
                        children.remove(at);
                    }
                }
                Edit::Turn(at) => {
                    let at = place(at);
                    expected.rotate_left(at);
                    let mut behind = children.split_off(at);
                    assert_well_formed(&children);
                    assert_well_formed(&behind);
                    behind.append(&children);
                    children = behind;
                }
                Edit::Cut(at) => {
                    let at = place(at);
                    expected.truncate(at);
                    children.split_off(at);
                }
                Edit::Append(at) if expected.len() < 10 * MOST => {
                    let at = place(at);
                    // No child is in a list twice.
                    let other = |id| NodeId::generated(2 + nth as u32, id);
                    let others: Vec<_> = (at..expected.len()).map(|id| other(id as u64)).collect();
                    children.append(&others.iter().cloned().collect());
                    expected.extend(others);
                }
                Edit::Append(_) => {}
            }
            assert_well_formed(&children);
            prop_assert_eq!(children.len(), expected.len());
            // The next edit begins at the place that this one remembers.
            if nth % 3 > 0 && nth + 1 < edits.len() {
                continue;
            }
            prop_assert!(children.iter().eq(&expected));
            prop_assert!(children.iter().rev().eq(expected.iter().rev()));
            for (at, id) in expected.iter().enumerate() {
                prop_assert_eq!(children.get(at), Some(id));
            }
            prop_assert_eq!(children.get(expected.len()), None);
            let first = |id| expected.iter().position(|one| one == id);
            for id in expected.iter().step_by(1 + expected.len() / 20) {
                prop_assert_eq!(children.position(id), first(id));
            }
            let collected: Children = expected.iter().cloned().collect();
            prop_assert_eq!(&children, &collected);
            versions.push((children.clone(), expected.clone()));
        }
        for pair in versions.windows(2) {
            let [(before, listed), (after, of_after)] = pair else { continue };
            let (one, other) = (listed.iter(), of_after.iter());
            let start = one.clone().zip(other.clone()).take_while(|(one, other)| one == other);
            let start = start.count();
            let behind = one.skip(start).rev().zip(other.skip(start).rev());
            let end = behind.take_while(|(one, other)| one == other).count();
            prop_assert_eq!(before.common_ends(after), (start, end));
        }
        // Later changes do not affect an earlier version.
        for (children, expected) in versions {
            prop_assert!(children.iter().eq(&expected));
        }
    }
}

#[test]
fn lists_of_the_same_length_with_other_ids_are_different() {
    let list =
        |ids: &[u64]| -> Children { ids.iter().map(|id| NodeId::generated(1, *id)).collect() };
    assert_ne!(list(&[1, 2]), list(&[1, 3]));
    assert_ne!(list(&[1, 2]), list(&[1]));
    assert_eq!(list(&[1, 2, 3, 4, 5, 6]), list(&[1, 2, 3, 4, 5, 6]));
}

#[test]
fn the_rest_of_many_children_takes_few_leaves() {
    let mut children: Children = (0..3_200).map(|id| NodeId::generated(1, id)).collect();
    for nth in 0..2_400 {
        let at = nth * 7 % children.len();
        children.remove(at);
        assert_well_formed(&children);
    }
    if let Some(tree) = children.tree() {
        let (leaves, len) = (tree.leaves(), tree.len);
        assert!(leaves * MOST / 8 <= len, "{leaves} leaves for {len} ids");
    }
}
