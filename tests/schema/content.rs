//! The check of an edit has the result of a complete check, and visits only the necessary nodes.

use std::cell::Cell;

use doclock::{
    AsNodeId, DataStore, Draft, NodeId, Snapshot, View,
    document::{Changes, Children, Node, NodeSpec, SplitPoint},
    schema::Schema,
};
use proptest::prelude::*;

use crate::common::{Dice, cases, commit, id};
use crate::expressions::written;
use crate::{letters, parent_of};

/// The changes of an edit, with the versions before and after. There is no schema yet.
fn edited(store: &DataStore, edit: impl FnOnce(&mut Draft)) -> (Snapshot, Snapshot, Changes) {
    let base = store.snapshot();
    let committed = commit(store, edit);
    (base, store.snapshot(), committed.changes)
}

const TYPES: [&str; 4] = ["a", "b", "c", "d"];

/// One of the children of `p`, or a later one if there are too few.
fn child(on: &impl View, dice: &mut Dice) -> Option<NodeId> {
    let children = on.node(id("p"))?.children();
    children.get(dice.below(children.len().max(1))).cloned()
}

/// Changes the children of `p`, in one of all possible ways.
fn edit(on: &mut Draft, dice: &mut Dice) -> Option<()> {
    let p = id("p");
    let len = on.node(&p)?.children().len();
    let kind = TYPES[dice.below(4)];
    match dice.below(12) {
        0..3 => drop(
            on.insert(NodeSpec::new(kind), &p, dice.below(len + 1))
                .ok()?,
        ),
        3 => on.delete(&child(on, dice)?).ok()?,
        4 => on
            .move_node(&child(on, dice)?, &p, dice.below(len.max(1)))
            .ok()?,
        5 => on.remove_child(&p, &child(on, dice)?).ok()?,
        6 => on.set_type(&child(on, dice)?, kind).ok()?,
        7 => {
            let cut = SplitPoint {
                text: 0,
                children: 0,
            };
            drop(
                on.split_node(&child(on, dice)?, cut, Some(kind.into()))
                    .ok()?,
            );
        }
        8 => {
            let left = dice.below(len.max(1));
            let children = on.node(&p)?.children().clone();
            on.join_nodes(children.get(left)?, children.get(left + 1)?)
                .ok()?;
        }
        9 => {
            // The same id at the same position, possibly with another type.
            let (child, at) = (child(on, dice)?, on.node(&p)?.children().clone());
            let at = at.position(&child)?;
            on.delete(&child).ok()?;
            on.insert(NodeSpec::new(kind).with_id(child), &p, at).ok()?;
        }
        10 => {
            // Everything after the split point moves to another node, and may move back.
            let cut = SplitPoint {
                text: 0,
                children: dice.below(len + 1),
            };
            let right = on.split_node(&p, cut, None).ok()?;
            if dice.one_in(2) {
                on.join_nodes(&p, &right).ok()?;
            }
        }
        _ => {
            // A child with another parent for a while.
            let (child, under) = (child(on, dice)?, child(on, dice)?);
            on.move_node(&child, &under, None).ok()?;
            on.move_node(&child, &p, dice.below(len.max(1))).ok()?;
        }
    }
    Some(())
}

/// A store with the children of `p`, which has a parent so that it can be split.
fn store_of(word: &str) -> DataStore {
    let store = DataStore::new();
    commit(&store, |on| {
        on.create(NodeSpec::new("d").with_id("top")).unwrap();
        on.insert(parent_of(word), id("top"), None).unwrap();
    });
    store
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn tree_06_checking_an_edit_agrees_with_checking_the_document(
        written in written(),
        word in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<u64>(), 1..4usize), 1..5),
    ) {
        let schema = letters(&written.expression).unwrap();
        let word: &String = word.get(&written.words);
        let store = store_of(word);
        for (seed, times) in edits {
            let (base, after, changes) = edited(&store, |on| {
                let mut dice = Dice(seed);
                for _ in 0..times {
                    edit(on, &mut dice);
                }
            });
            let whole = schema.check_all(&after);
            let part = schema.check(&base, &after, &changes);
            prop_assert_eq!(part.is_ok(), whole.is_ok(), "{:?} against {:?}", part, whole);
            // If only one list can be invalid, both errors are the same.
            if let (Err(part), Err(whole)) = (&part, &whole) && kinds(&after, "p") < 2 {
                prop_assert_eq!(part, whole);
            }
            if whole.is_err() {
                break;
            }
        }
    }
}

fn kinds(view: &impl View, kind: &str) -> usize {
    view.nodes().filter(|node| node.kind() == kind).count()
}

// --- Visited nodes ---

/// Counts node lookups.
struct Counted<'a, V> {
    view: &'a V,
    looks: Cell<usize>,
}

impl<'a, V> Counted<'a, V> {
    fn new(view: &'a V) -> Self {
        let looks = Cell::new(0);
        Self { view, looks }
    }
}

impl<V: View> View for Counted<'_, V> {
    fn node(&self, id: impl AsNodeId) -> Option<&Node> {
        let id = &*id.as_node_id();
        self.looks.set(self.looks.get() + 1);
        self.view.node(id)
    }

    fn root(&self) -> Option<&NodeId> {
        self.view.root()
    }

    fn nodes(&self) -> Box<dyn Iterator<Item = &Node> + '_> {
        self.view.nodes()
    }
}

const MANY: usize = 100_000;

/// A document whose `p` has many children: `first`, then these types over and over, then `last`.
fn many(first: &str, over_and_over: &str, last: &str) -> DataStore {
    so_many(MANY, first, over_and_over, last)
}

fn so_many(count: usize, first: &str, over_and_over: &str, last: &str) -> DataStore {
    let middle = over_and_over.repeat(count / over_and_over.len());
    store_of(&format!("{first}{middle}{last}"))
}

/// The result of the check of an edit of `p`, and the number of visited nodes.
fn judged(
    schema: &Schema,
    store: &DataStore,
    edit: impl FnOnce(&mut Draft, &Children),
) -> (bool, usize) {
    let mut on = store.begin("test").unwrap();
    let children = on.node(id("p")).unwrap().children().clone();
    edit(&mut on, &children);
    let (before, after) = (Counted::new(on.base()), Counted::new(&on));
    let verdict = schema.check(&before, &after, on.changes());
    if children.len() < 1000 {
        let whole = schema.check_all(&on);
        assert_eq!(verdict.is_ok(), whole.is_ok(), "{verdict:?}, {whole:?}");
    }
    (verdict.is_ok(), before.looks.get() + after.looks.get())
}

fn insert(on: &mut Draft, kind: &str, index: usize) {
    on.insert(NodeSpec::new(kind), id("p"), index).unwrap();
}

const NO_CUT: SplitPoint = SplitPoint {
    text: 0,
    children: 0,
};

#[test]
fn tree_06_an_edit_among_a_hundred_thousand_siblings_checks_a_few() {
    let shapes = [
        ("a*", ["", "a", ""]),
        ("(a|b|c)+", ["", "abc", ""]),
        ("c? a+", ["c", "a", ""]),
        ("c a* d", ["c", "a", "d"]),
        ("(c a*)*", ["c", "aaac", ""]),
        ("c{2} (a b)* d{1,3}", ["cc", "ab", "d"]),
        ("(b a*) | (c a*)", ["c", "a", ""]),
    ];
    // At the smaller size the result is compared with a check of the whole document.
    for (count, (content, [first, over_and_over, last])) in [300, MANY]
        .into_iter()
        .flat_map(|count| shapes.map(|shape| (count, shape)))
    {
        let store = so_many(count, first, over_and_over, last);
        let schema = letters(content).unwrap();
        let middle = count / 2;
        type Edit<'a> = (&'a str, &'a dyn Fn(&mut Draft, &Children));
        let edits: [Edit<'_>; 12] = [
            ("front", &|on, _| insert(on, "a", 0)),
            ("second", &|on, _| insert(on, "a", 1)),
            ("middle", &|on, _| insert(on, "a", middle)),
            ("middle, wrong", &|on, _| insert(on, "d", middle)),
            ("end", &|on, children| insert(on, "a", children.len())),
            ("delete first", &|on, all| {
                on.delete(all.get(0).unwrap()).unwrap()
            }),
            ("delete", &|on, all| {
                on.delete(all.get(middle).unwrap()).unwrap()
            }),
            ("detach last", &|on, all| {
                on.remove_child(id("p"), all.get(all.len() - 1).unwrap())
                    .unwrap();
            }),
            ("move", &|on, all| {
                on.move_node(all.get(middle).unwrap(), id("p"), middle + 3)
                    .unwrap()
            }),
            ("type", &|on, all| {
                on.set_type(all.get(middle).unwrap(), "c").unwrap()
            }),
            ("split", &|on, all| {
                drop(
                    on.split_node(all.get(middle).unwrap(), NO_CUT, None)
                        .unwrap(),
                )
            }),
            ("join", &|on, all| {
                on.join_nodes(all.get(middle).unwrap(), all.get(middle + 1).unwrap())
                    .unwrap()
            }),
        ];
        for (name, edit) in edits {
            let (_, looks) = judged(&schema, &store, edit);
            assert!(looks < 20, "{content}, {name}: {looks} looks");
        }
    }
}

#[test]
fn tree_06_a_first_child_of_another_branch_does_not_check_the_rest() {
    let schema = letters("(b a*) | (c a*)").unwrap();
    let (fits, looks) = judged(&schema, &many("c", "a", ""), |on, all| {
        on.set_type(all.get(0).unwrap(), "b").unwrap();
    });
    assert!(fits && looks < 20, "{looks} looks");
}

#[test]
fn tree_06_many_edits_of_one_list_check_the_children_between_them_once() {
    let schema = letters("c? a+").unwrap();
    let store = many("c", "a", "");
    let (fits, looks) = judged(&schema, &store, |on, all| {
        for index in [40_000, 40_100, 40_050, 40_020] {
            insert(on, "a", index);
            on.set_type(all.get(index + 10).unwrap(), "b").unwrap();
            on.set_type(all.get(index + 10).unwrap(), "a").unwrap();
        }
    });
    assert!(fits && looks < 400, "{looks} looks");
}

#[test]
fn tree_06_content_that_depends_on_every_child_checks_all_of_them() {
    // Whether their number is even is known only at the first.
    let schema = letters("(a a)*").unwrap();
    let store = many("", "a", "");
    let (fits, looks) = judged(&schema, &store, |on, _| insert(on, "a", MANY / 2));
    assert!(!fits && (MANY..3 * MANY).contains(&looks), "{looks} looks");
    let (fits, looks) = judged(&schema, &store, |on, _| {
        insert(on, "a", MANY / 2);
        insert(on, "a", MANY / 2);
    });
    assert!(fits && looks < 2 * MANY, "{looks} looks");
}

#[test]
fn tree_06_an_edit_elsewhere_does_not_check_the_siblings() {
    let schema = letters("(a a)*").unwrap();
    let store = many("", "a", "");
    let (fits, looks) = judged(&schema, &store, |on, all| {
        on.insert(NodeSpec::new("d"), all.get(MANY / 2).unwrap(), 0)
            .unwrap();
        on.set_attrs(id("p"), [("x", serde_json::Value::Null)])
            .unwrap();
    });
    assert!(fits && looks < 10, "{looks} looks");
}

#[test]
fn tree_06_changes_that_do_not_lead_from_one_to_the_other_are_no_reason_to_panic() {
    let schema = letters("c? a+").unwrap();
    let (one, other) = (store_of("caaa"), store_of("b"));
    let changes = {
        let mut on = one.begin("test").unwrap();
        let mut dice = Dice(1);
        for _ in 0..50 {
            edit(&mut on, &mut dice);
        }
        on.changes().to_vec()
    };
    let (one, other) = (one.snapshot(), other.snapshot());
    for changes in [&changes[..], &changes[..1], &[]] {
        for (base, after) in [
            (&one, &other),
            (&other, &one),
            (&Snapshot::default(), &one),
            (&one, &Snapshot::default()),
        ] {
            let _ = schema.check(base, after, changes);
        }
    }
}
