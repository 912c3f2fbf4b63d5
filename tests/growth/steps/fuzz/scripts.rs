//! Scripts: operations of every kind one by one, on large documents of many shapes, and long
//! batches.

use serde_json::{Map, Value, json};
use strum::VariantArray;

use super::budget::{FLOOR, SCALE, STEPS, Shares, magnitude, weight};
use super::common::Dice;
use super::generator::{Generator, Kind};
use crate::dsl::*;
use crate::steps::counted;
use crate::{
    DataStore, Draft, NodeId, TransactionManager, View,
    document::{Attributes, Change, Mark, NodeSpec},
    transaction::{Operation, Pattern, parse_operations},
};

/// The most nodes of a document.
const LARGEST: usize = 500 * SCALE;
/// The number of operations for one document.
const OPERATIONS: usize = 24;

const TYPES: [&str; 5] = ["text", "paragraph", "item", "list", "heading"];

fn leaf(dice: &mut Dice) -> NodeSpec {
    let kind = TYPES[dice.below(3)];
    let text = ["ab c\n", "ß ", "x"][dice.below(3)].repeat(dice.below(4));
    let len = text.chars().count();
    let node = NodeSpec::new(kind).with_text(text);
    match dice.below(4) {
        0 if len > 0 => node.with_marks([Mark::new("bold", 0..1 + dice.below(len))]),
        1 => node.with_attributes([("level", json!(1))]),
        _ => node,
    }
}

/// A document that is wide, deep, both, or of few large nodes.
fn document(dice: &mut Dice) -> NodeSpec {
    let nodes = magnitude(dice, LARGEST);
    let alike = leaf(dice);
    let next = |dice: &mut Dice| match dice.one_in(4) {
        true => leaf(dice),
        false => alike.clone(),
    };
    let page = NodeSpec::new("page");
    match dice.below(5) {
        0 => page.with_children((0..nodes).map(|_| next(dice)).collect::<Vec<_>>()),
        1 => (0..nodes).fold(leaf(dice), |below, nth| {
            let around = NodeSpec::new(TYPES[1 + nth % 3]);
            match dice.one_in(2) {
                true => around.with_children([below]),
                false => around.with_children([next(dice), below]),
            }
        }),
        2 => {
            let blocks = 1 + nodes / 20;
            let block = |dice: &mut Dice| {
                let inner: Vec<_> = (0..dice.below(20)).map(|_| next(dice)).collect();
                NodeSpec::new(TYPES[1 + dice.below(4)]).with_children(inner)
            };
            page.with_children((0..blocks).map(|_| block(dice)).collect::<Vec<_>>())
        }
        3 => {
            let mut ahead: Vec<NodeSpec> = Vec::new();
            for _ in 0..nodes {
                let children = match dice.below(5) {
                    0 => ahead.split_off(ahead.len() - dice.below(ahead.len().min(30) + 1)),
                    1 => ahead.pop().into_iter().collect(),
                    _ => Vec::new(),
                };
                ahead.push(leaf(dice).with_children(children));
            }
            page.with_children(ahead)
        }
        _ => {
            let large = |dice: &mut Dice| {
                let text = "some words\n  and ß more. ".repeat(1 + nodes / 8);
                let len = text.chars().count();
                NodeSpec::new("text")
                    .with_text(text)
                    .with_marks(marks(dice, len, nodes / 4))
                    .with_attributes(
                        attributes(dice, nodes / 4)
                            .into_iter()
                            .collect::<Attributes>(),
                    )
            };
            let (one, other) = (large(dice), large(dice));
            page.with_children([NodeSpec::new("paragraph").with_children([one, other])])
        }
    }
}

fn marks(dice: &mut Dice, len: usize, count: usize) -> Vec<Mark> {
    let nested = dice.one_in(3);
    let mark = |nth: usize| {
        let kind = ["bold", "em", "link"][nth % 3];
        let start = match nested {
            true => nth.min(len / 2),
            false => dice.below(len + 1),
        };
        let end = match nested {
            true => len - start,
            false => (start + dice.below(20)).min(len),
        };
        let mark = Mark::new(kind, start..end);
        match kind {
            "link" => mark.with_attributes([("href", json!(nth))]),
            _ => mark,
        }
    };
    (0..count).map(mark).collect()
}

fn attributes(dice: &mut Dice, count: usize) -> Map<String, Value> {
    let key = |_| format!("k{}", dice.below(2 * count + 1));
    (0..count).map(key).map(|key| (key, json!(1))).collect()
}

/// An operation with large fields, which the generator of small ones does not draw.
fn large(dice: &mut Dice, on: &Draft, ids: &[NodeId]) -> Operation {
    let any = |dice: &mut Dice| ids[dice.below(ids.len())].clone();
    let id = any(dice);
    let node = on.node(&id);
    let len = node.map_or(0, |node| node.text().len());
    let parent = node.and_then(|node| node.parent()).cloned();
    let siblings = |id: Option<&NodeId>| -> Vec<NodeId> {
        let node = id.and_then(|id| on.node(id));
        let children = node.into_iter().flat_map(|node| node.children().iter());
        children.cloned().collect()
    };
    let shuffled = |dice: &mut Dice, mut ids: Vec<NodeId>| {
        (1..ids.len()).for_each(|at| ids.swap(at, dice.below(at + 1)));
        ids
    };
    let size = magnitude(dice, LARGEST);
    let above = parent.clone().unwrap_or_else(|| id.clone());
    match dice.below(20) {
        0 => set_attrs(attributes(dice, size)).on(id),
        1 => set_marks(marks(dice, len, size)).on(id),
        2 => set_text("word\n".repeat(size)).on(id),
        3 => insert_text(len, "漢 ".repeat(size)).on(id),
        4 => indent_text("    ", ..).on(id),
        5 => outdent_text("  ", ..).on(id),
        6 => replace_pattern(["o", "\\w+", ".*", "(a|b)*c", "$"][dice.below(5)], "<$0>").on(id),
        7 => {
            let children = siblings(Some(&above));
            reorder_children(shuffled(dice, children)).on(above)
        }
        8 => {
            let children = siblings(Some(&above));
            let some = children.len() - dice.below(children.len() + 1);
            remove_children(shuffled(dice, children).split_off(some)).on(above)
        }
        9 => {
            let children = siblings(Some(&above));
            let some = children.len() - dice.below(children.len() + 1);
            let moved = shuffled(dice, children).split_off(some);
            move_children(moved, any(dice), None).on(above)
        }
        10 => clone_node_with_children().on(above),
        11 => auto_merge_text_nodes().on(above),
        12 | 13 => {
            // From one node to one of the last ones.
            let last = siblings(Some(&above)).pop().unwrap_or_else(|| any(dice));
            let end = on.node(&last).map_or(0, |node| node.text().len());
            let extent = crate::transaction::TextSpan::to(0, &last, end);
            match dice.below(5) {
                0 => delete_range(extent).on(id),
                1 => cut_range(extent).on(id),
                2 => apply_mark("bold", extent).on(id),
                3 => toggle_mark("em", extent).on(id),
                _ => clear_formatting(extent).on(id),
            }
        }
        14 => {
            let last = siblings(Some(&above)).pop().unwrap_or_else(|| any(dice));
            let (list, item) = (NodeSpec::new("list"), NodeSpec::new("item"));
            wrap_in_list_up_to(last, list, item).on(id)
        }
        15 => {
            let last = siblings(Some(&above)).pop().unwrap_or_else(|| any(dice));
            copy_range(crate::transaction::TextSpan::to(0, &last, 0)).on(id)
        }
        16 => paste(0).on(id),
        17 => create(document(dice)),
        18 => outdent_node().on(id),
        _ => split_block_node(dice.below(siblings(Some(&id)).len() + 1)).on(id),
    }
}

/// Runs an operation from a script, and checks its cost.
fn one(dice: &mut Dice, shares: &mut Shares, on: &mut Draft) {
    let mut ids: Vec<NodeId> = on.nodes().map(|node| node.id().clone()).collect();
    ids.sort_unstable();
    if ids.is_empty() {
        return;
    }
    let operation = match dice.one_in(2) {
        true => large(dice, on, &ids),
        false => {
            let kind = Kind::VARIANTS[dice.below(Kind::VARIANTS.len())];
            match kind {
                // Code cannot be in a script.
                Kind::Op => return,
                _ => Generator::among(on, ids.into(), dice.next()).operation(kind),
            }
        }
    };
    let name = operation.name().to_owned();
    // A node may be nested too deeply for JSON.
    let Ok(script) = serde_json::to_string(&[operation]) else {
        return;
    };
    let read = || parse_operations(&script);
    let read = shares.within_budget("reading a script", script.len(), read, |_| 0);
    // A pattern may be invalid.
    let Ok(operations) = read else { return };
    let before = weight(on);
    let changes = on.changes().len();
    // A failing script counts as well.
    let (_, steps) = crate::steps::counted(|| on.run(operations).is_ok());
    // Nodes may be nested too deeply for serde.
    let copied = on
        .clipboard()
        .into_iter()
        .flat_map(|clipboard| &clipboard.nodes);
    let clipboard: usize = copied.map(|node| node.to_json().len()).sum();
    let after = weight(on);
    let size = script.len() + before + after + clipboard;
    // The pattern search has a limit of its own.
    let search = match &*name {
        "replacePattern" | "control" => Pattern::MAX_SEARCH,
        _ => 0,
    };
    let marks = marks_looked_at(on, changes);
    let budget = FLOOR + STEPS * (size + marks) + search;
    shares.check(&name, size, steps, budget);
}

/// A change of a text may read all its marks. An operation may change one text at many positions.
fn marks_looked_at(on: &Draft, from: usize) -> usize {
    let changes = on.changes().iter().skip(from);
    let marks = changes.filter_map(|change| match change {
        Change::SpliceText { id, .. } => Some(on.node(id)?.marks().len()),
        _ => None,
    });
    marks.sum()
}

pub(super) fn run(dice: &mut Dice, shares: &mut Shares) {
    if dice.one_in(3) {
        return list(dice, shares);
    }
    let store = DataStore::new();
    let spec = document(dice);
    let mut on = store.begin("fuzz").unwrap();
    let (root, steps) = counted(|| on.create(spec).unwrap());
    // With the letters: it can be of few nodes with long texts.
    let size = weight(&on);
    shares.check("creating a document", size, steps, FLOOR + STEPS * size);
    on.set_root(&root).unwrap();
    if dice.one_in(2) {
        on.commit().unwrap();
        on = store.begin("fuzz").unwrap();
    }
    for _ in 0..OPERATIONS {
        one(dice, shares, &mut on);
        if weight(&on) > 40 * LARGEST {
            break;
        }
    }
    let changes = json!(on.changes()).to_string().len();
    let commit = || on.commit().unwrap();
    shares.within_budget("committing", changes, commit, |_| 0);
}

/// A long batch of small operations.
fn list(dice: &mut Dice, shares: &mut Shares) {
    let count = magnitude(dice, 2 * LARGEST);
    let kinds: Vec<usize> = (0..=dice.below(3)).map(|_| dice.below(12)).collect();
    let text = |nth: usize| format!("t{}", nth % 16);
    let operation = |dice: &mut Dice, nth: usize| -> Operation {
        match kinds[dice.below(kinds.len())] {
            0 => insert_text(0, "a").on(text(nth)),
            1 => set_attrs([("k", json!(nth))]).on(text(nth)),
            2 => create(NodeSpec::new("x")).named(format!("a{nth}")),
            3 => create(NodeSpec::new("x").with_id(format!("n{nth}"))),
            4 => add_child(NodeSpec::new("x"), None).on("p"),
            5 => add_child(NodeSpec::new("x"), 0).on("p"),
            6 => set_text("abc").on(text(nth)),
            7 => apply_mark("bold", 0..1).on(text(nth)),
            8 => control(text(nth), [insert_text(0, "b"), delete_text_range(0, 1)]),
            9 => delete_text_range(0, 1).on(text(nth)),
            10 => set_selection(crate::document::Selection::node(NodeId::from(
                text(nth).as_str(),
            ))),
            _ => replace_text(0, 1, "ab").on(text(nth)),
        }
    };
    let store = DataStore::new();
    let manager = TransactionManager::new(store.clone());
    let texts = (0..16).map(|nth| text_node("text", "some text").with_id(text(nth)));
    let texts: Vec<_> = texts.collect();
    manager
        .execute([create(element("page", texts).with_id("p"))])
        .unwrap();
    let operations: Vec<Operation> = (0..count).map(|nth| operation(dice, nth)).collect();
    let mut script = json!(operations).to_string();
    if dice.one_in(4) {
        let levels = magnitude(dice, 100);
        script = format!("{}{script}{}", "[".repeat(levels), "]".repeat(levels));
    }
    let read = || parse_operations(&script);
    let read = shares.within_budget("reading a list of operations", script.len(), read, |_| 0);
    let Ok(operations) = read else { return };
    let execute = || drop(manager.execute(operations));
    let size = script.len();
    let snapshot = || weight(&store.snapshot());
    shares.within_budget("a list of operations", size, execute, |()| snapshot());
}
