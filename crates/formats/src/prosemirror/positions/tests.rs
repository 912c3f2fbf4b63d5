//! Positions by the sizes that a document keeps are those that a count of all nodes finds.

use doclock::document::{Attributes, Mark, NodeSpec, SplitPoint};
use doclock::{DataStore, Draft, Savepoint, Transaction};

use super::*;
use crate::growth::common::Dice;

/// More children than a leaf of their list has.
const MANY: usize = 80;

/// Types with each content, text, and two that the names do not have.
const KINDS: [&str; 9] = [
    "block-quote",
    "list-item",
    "document",
    "paragraph",
    "heading",
    "code-block",
    "thematic-break",
    "inline-text",
    "unknown",
];

fn text(dice: &mut Dice) -> NodeSpec {
    let text: String = (0..dice.below(6))
        .map(|_| ['a', '🦀', '漢', '\n', OBJECT][dice.below(5)])
        .collect();
    let len = text.chars().count();
    let spec = NodeSpec::new("inline-text").with_text(text);
    match len > 0 && dice.one_in(3) {
        true => {
            let kind = ["image", "bold"][dice.below(2)];
            let start = dice.below(len);
            spec.with_marks([Mark::new(kind, start..start + 1)])
        }
        false => spec,
    }
}

pub(in crate::prosemirror) fn block(dice: &mut Dice) -> NodeSpec {
    match dice.below(8) {
        0 => NodeSpec::new("thematic-break"),
        1 => NodeSpec::new("code-block").with_children([text(dice)]),
        2 => NodeSpec::new("block-quote").with_children((0..dice.below(3)).map(|_| block(dice))),
        _ => NodeSpec::new("paragraph").with_children((0..dice.below(3)).map(|_| text(dice))),
    }
}

/// A random edit, most of which lead to a document that ProseMirror has.
pub(in crate::prosemirror) fn edit(draft: &mut Draft, root: &NodeId, dice: &mut Dice) {
    let all: Vec<NodeId> = draft
        .descendants(root)
        .map(|node| node.id().clone())
        .collect();
    let any = |dice: &mut Dice| all[dice.below(all.len())].clone();
    let (node, other) = (any(dice), any(dice));
    let kind = |draft: &Draft, id: &NodeId| draft.node(id).unwrap().kind().to_owned();
    let len = draft.node(&node).unwrap().text().len();
    let children = draft.node(&node).unwrap().children().len();
    let index = dice.below(children + 1);
    let holds_blocks = ["block-quote", "document"].contains(&&*kind(draft, &node));
    match dice.below(40) {
        0..12 if kind(draft, &node) == "inline-text" => {
            let at = dice.below(len + 1);
            drop(draft.insert_text(&node, at, ["a", "🦀", "\n"][dice.below(3)]));
        }
        12..16 if len > 0 => {
            let at = dice.below(len);
            drop(draft.delete_text(&node, at..at + 1));
        }
        16..20 if holds_blocks => drop(draft.insert(block(dice), &node, index)),
        20 if holds_blocks => {
            for nth in 0..MANY {
                let at = [index + nth, index][dice.below(2)];
                drop(draft.insert(block(dice), &node, at));
            }
        }
        21..24 if kind(draft, &node) == "paragraph" => {
            drop(draft.insert(text(dice), &node, index));
        }
        24..27 if node != *root => drop(draft.delete(&node)),
        27..30 if node != *root && kind(draft, &node) != "inline-text" => {
            let to = ["block-quote", "document"].contains(&&*kind(draft, &other));
            let to = if to { other } else { root.clone() };
            let at = dice.below(draft.node(&to).unwrap().children().len() + 1);
            drop(draft.move_node(&node, &to, at));
        }
        30 => {
            // A subtree leaves the document, and comes back later.
            let parent = draft.node(&node).unwrap().parent().cloned();
            if let Some(parent) = parent {
                drop(draft.remove_child(&parent, &node));
                if dice.one_in(2) {
                    let inner = any(dice);
                    drop(draft.insert(text(dice), &inner, 0));
                    drop(draft.insert(block(dice), &inner, 0));
                }
                if !dice.one_in(4) {
                    drop(draft.move_node(&node, &parent, 0));
                }
            }
        }
        31..34 if node != *root => {
            let at = SplitPoint {
                text: dice.below(len + 1),
                children: index,
            };
            drop(draft.split_node(&node, at, None));
        }
        34..37 => {
            let next = draft.next_sibling(&node).map(|next| next.id().clone());
            if let Some(next) = next {
                drop(draft.join_nodes(&node, &next));
            }
        }
        37 if dice.one_in(6) => drop(draft.set_type(&node, KINDS[dice.below(KINDS.len())])),
        38 if len > 0 => {
            let start = dice.below(len);
            drop(draft.set_marks(&node, [Mark::new("image", start..len)]));
        }
        39 if dice.one_in(6) => drop(draft.insert(text(dice), &node, 0)),
        _ => {}
    }
}

/// Compares both ways at random positions.
fn compare(draft: &mut Draft, root: &NodeId, names: &ProseMirrorNames, dice: &mut Dice) -> usize {
    let sizes = draft.sizes(root, names);
    assert!(sizes.is_some());
    let fast = Positions::new(&*draft, names, root, sizes).unwrap();
    let slow = Positions::new(&*draft, names, root, None).unwrap();
    let size = match slow.resolve(usize::MAX) {
        Err(StepError::OutOfRange { size, .. }) => size,
        _ => 200,
    };
    let mut found = 0;
    for _ in 0..6 {
        let (one, other) = (dice.below(size + 2), dice.below(size + 2));
        let (from, to) = (one.min(other), one.max(other));
        let shown = |of: Result<ResolvedPosition, StepError>| format!("{of:?}");
        for position in [from, to] {
            let [fast, slow] = [fast.resolve(position), slow.resolve(position)];
            found += usize::from(slow.is_ok());
            assert_eq!(shown(fast), shown(slow), "position {position}");
        }
        if slow.resolve(from).is_ok() && slow.resolve(to).is_ok() {
            let [fast, slow] = [fast.texts(from, to), slow.texts(from, to)];
            assert_eq!(format!("{fast:?}"), format!("{slow:?}"), "{from}..{to}");
        }
    }
    found
}

/// Compares the index of nodes with that of a search, and their common ancestors with the first
/// ancestor of one that is around the other.
fn compare_indexes(view: &impl View, root: &NodeId, dice: &mut Dice) {
    let mut last = root;
    for node in view.descendants(root).filter(|_| dice.one_in(20)) {
        let around = |id: &NodeId| {
            let own = std::iter::once(id.clone());
            let above = view.ancestors(id).map(|node| node.id().clone());
            own.chain(above).collect::<Vec<_>>()
        };
        let (one, other) = (around(last), around(node.id()));
        let common = one.iter().find(|id| other.contains(id));
        assert_eq!(view.common_ancestor(last, node.id()).map(Node::id), common);
        last = node.id();
        let parent = node.parent().and_then(|parent| view.node(parent));
        let Some(parent) = parent else { continue };
        let index = parent.children().iter().position(|id| id == node.id());
        assert_eq!(view.index_in_parent(node.id()), index, "{:?}", node.id());
    }
}

fn run(seed: u64) -> usize {
    let dice = &mut Dice(seed);
    let store = DataStore::new();
    let names = [ProseMirrorNames::basic(), ProseMirrorNames::tiptap()];
    let mut on = store.begin("setup").unwrap();
    let blocks = (0..dice.below(2 * MANY)).map(|_| block(dice));
    let document = NodeSpec::new("document").with_children(blocks);
    let root = on.create(document).unwrap();
    on.commit().unwrap();
    let (mut found, mut snapshots) = (0, Vec::new());
    for _ in 0..12 {
        let mut on: Transaction = store.begin("ann").unwrap();
        let mut saved: Option<Savepoint> = None;
        for _ in 0..dice.below(12) {
            edit(&mut on, &root, dice);
            match dice.below(8) {
                0 => saved = Some(on.savepoint()),
                1 => drop(saved.take().map(|saved| on.rollback_to(saved))),
                2 => {
                    let failed: Result<(), ()> = on.attempt(|on| {
                        edit(on, &root, dice);
                        compare(on, &root, &names[0], dice);
                        edit(on, &root, dice);
                        Err(())
                    });
                    assert_eq!(failed, Err(()));
                }
                3 | 4 => {
                    let names = &names[usize::from(dice.one_in(5))];
                    found += compare(&mut on, &root, names, dice);
                    compare_indexes(&*on, &root, dice);
                }
                _ => {}
            }
        }
        match dice.one_in(5) {
            true => drop(on),
            false => drop(on.commit().unwrap()),
        }
        snapshots.push(store.snapshot());
        for snapshot in &snapshots {
            compare_indexes(snapshot, &root, dice);
        }
    }
    found
}

#[test]
fn positions_by_size_are_those_of_a_count() {
    let mut found = 0;
    for seed in 0..25 {
        println!("seed {seed}");
        found += run(seed);
    }
    assert!(found > 2_000, "{found} positions");
}

/// The sizes are kept with each version, but not after so many changes that a new count is cheaper.
#[test]
fn positions_are_right_after_any_number_of_other_changes() {
    let store = DataStore::new();
    let names = ProseMirrorNames::basic();
    let text = || NodeSpec::new("inline-text").with_text("ab");
    let paragraph = |_| NodeSpec::new("paragraph").with_children([text()]);
    let document = NodeSpec::new("document").with_attributes(Attributes::default());
    let mut on = store.begin("ann").unwrap();
    let root = on
        .create(document.with_children((0..MANY).map(paragraph)))
        .unwrap();
    on.commit().unwrap();
    let dice = &mut Dice(1);
    for round in [1, 10, 2_000] {
        let mut on = store.begin("ann").unwrap();
        assert!(compare(&mut on, &root, &names, dice) > 0);
        on.insert(paragraph(0), &root, 0).unwrap();
        on.commit().unwrap();
        for nth in 0..round {
            let mut on = store.begin("bob").unwrap();
            let block = on
                .children(&root)
                .nth(nth % MANY)
                .unwrap()
                .children()
                .get(0)
                .cloned();
            on.insert_text(block.unwrap(), 1, "xy").unwrap();
            on.commit().unwrap();
        }
        let mut on = store.begin("ann").unwrap();
        assert!(compare(&mut on, &root, &names, dice) > 0);
    }
}
