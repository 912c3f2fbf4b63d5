//! Schemas with nested and repeated expressions, and documents to check against them.

use serde_json::{Map, Value, json};

use super::budget::{FLOOR, SCALE, STEPS, Shares, magnitude, weight};
use super::common::Dice;
use crate::document::schema::ENOUGH;
use crate::steps::counted;
use crate::{
    DataStore, StoreOptions, View,
    document::{Attributes, NodeSpec},
    schema::Schema,
};

fn kind(dice: &mut Dice, kinds: usize) -> String {
    match dice.below(4) {
        0 => format!("g{}", dice.below(4)),
        _ => format!("t{}", dice.below(kinds)),
    }
}

fn expression(dice: &mut Dice, kinds: usize, levels: usize) -> String {
    let count = |dice: &mut Dice| magnitude(dice, 12) - 1;
    let inner = match dice.below(if levels > 0 { 5 } else { 1 }) {
        0 => kind(dice, kinds),
        1 | 2 => {
            let parts = 1 + dice.below(3);
            let parts: Vec<_> = (0..parts)
                .map(|_| expression(dice, kinds, levels - 1))
                .collect();
            format!("({})", parts.join(" "))
        }
        _ => {
            let parts = 1 + dice.below(3);
            let parts: Vec<_> = (0..parts)
                .map(|_| expression(dice, kinds, levels - 1))
                .collect();
            format!("({})", parts.join(" | "))
        }
    };
    match dice.below(8) {
        0 => format!("{inner}?"),
        1 | 2 => format!("{inner}*"),
        3 => format!("{inner}+"),
        4 => format!("{inner}{{{}}}", count(dice)),
        5 => {
            let least = count(dice);
            format!("{inner}{{{least},{}}}", least + count(dice))
        }
        _ => inner,
    }
}

fn schema(dice: &mut Dice) -> String {
    let kinds = magnitude(dice, 20 * SCALE);
    let levels = dice.below(5);
    let mut nodes = Map::new();
    for nth in 0..kinds {
        let groups: Vec<_> = (0..dice.below(4)).map(|nth| format!("g{nth}")).collect();
        let values: Vec<Value> = (1..magnitude(dice, 100)).map(Value::from).collect();
        let mut attributes = Map::new();
        for nth in 0..dice.below(4) {
            let mut attribute = json!({"type": "integer"});
            if !values.is_empty() && dice.one_in(2) {
                attribute["values"] = values.clone().into();
                attribute["default"] = values[values.len() - 1].clone();
            }
            attributes.insert(format!("a{nth}"), attribute);
        }
        let mut node = json!({"group": groups.join(" "), "attributes": attributes, "text": true});
        if nth == 0 {
            node["group"] = "g0 g1 g2 g3".into();
        }
        node["content"] = match dice.below(3) {
            0 => expression(dice, kinds, levels).into(),
            1 => format!(
                "({})*",
                (0..4)
                    .map(|nth| format!("g{nth}"))
                    .collect::<Vec<_>>()
                    .join(" | ")
            )
            .into(),
            _ => "".into(),
        };
        nodes.insert(format!("t{nth}"), node);
    }
    json!({"nodes": nodes, "marks": {"bold": {}}}).to_string()
}

fn document(dice: &mut Dice, kinds: usize) -> NodeSpec {
    let mut nodes: Vec<NodeSpec> = Vec::new();
    for nth in 0..magnitude(dice, 250 * SCALE) {
        let attributes = (0..dice.below(3)).map(|key| (format!("a{key}"), dice.below(50).into()));
        let attributes: Attributes = attributes.collect();
        let node = NodeSpec::new(format!("t{}", dice.below(kinds))).with_attributes(attributes);
        let children = match dice.below(6) {
            0 => nodes.split_off(nodes.len() - dice.below(nodes.len() + 1)),
            1 => nodes.pop().into_iter().collect(),
            _ => Vec::new(),
        };
        nodes.push(node.with_children(children).with_id(format!("n{nth}")));
    }
    NodeSpec::new("t0").with_children(nodes)
}

pub(super) fn run(dice: &mut Dice, shares: &mut Shares) {
    let text = schema(dice);
    let (schema, steps) = counted(|| serde_json::from_str::<Schema>(&text));
    // Some small expressions have large automata, so one limit covers a whole schema of any size.
    let budget = FLOOR + STEPS * text.len() + ENOUGH;
    shares.check("translating a schema", text.len(), steps, budget);
    let Ok(schema) = schema else { return };
    let kinds = 1 + dice.below(30);

    let free = DataStore::new();
    let mut on = free.begin("fuzz").unwrap();
    on.create(document(dice, kinds)).unwrap();
    let size = weight(&on);
    let check = || schema.check_all(&on).is_ok();
    shares.within_budget("checking a document", size, check, |_| 0);

    let bound = DataStore::with_options(StoreOptions::new().schema(schema));
    let mut on = bound.begin("fuzz").unwrap();
    if on.create(document(dice, kinds)).is_err() {
        return;
    }
    let size = weight(&on);
    let commit = || on.commit().is_ok();
    // The schema adds its defaults.
    let with_defaults = |_: &bool| weight(&bound.snapshot());
    shares.within_budget("committing under a schema", size, commit, with_defaults);
    let snapshot = bound.snapshot();
    let mut ids: Vec<_> = snapshot.nodes().map(|node| node.id().clone()).collect();
    ids.sort_unstable();
    for _ in 0..20.min(ids.len()) {
        let mut on = bound.begin("fuzz").unwrap();
        let (id, to) = (&ids[dice.below(ids.len())], &ids[dice.below(ids.len())]);
        let size = weight(&on);
        let edit = || {
            let _ = on.move_node(id, to, None);
            on.commit().is_ok()
        };
        shares.within_budget("an edit under a schema", size, edit, |_| 0);
    }
}
