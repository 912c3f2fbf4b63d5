//! Lists in a document: a node for each, with a child for each value, whose id has the value.

use std::collections::BTreeMap;

use doclock::document::NodeSpec;
use doclock::dsl::{add_child, element};
use doclock::transaction::Operation;
use doclock::{NodeId, Transaction, View};

use crate::history::{Key, Value};
use crate::report::Step;

/// How many lists a document has.
pub(crate) const KEYS: Key = 5;

fn node(key: Key) -> NodeId {
    NodeId::from(&*format!("list {key}"))
}

fn child(value: Value) -> NodeSpec {
    element("value", []).with_id(&*format!("value {value}"))
}

/// Whether the document has its lists.
pub(crate) fn exist(view: &impl View) -> bool {
    view.node(node(0)).is_some()
}

pub(crate) fn create(transaction: &mut Transaction) {
    let lists = (0..KEYS).map(|key| element("list", []).with_id(node(key)));
    let root = transaction.create(element("lists", lists)).unwrap();
    transaction.set_root(&root).unwrap();
}

pub(crate) fn read(view: &impl View, key: Key) -> Vec<Value> {
    let list = node(key);
    let children = view.children(&list).map(|child| child.id().to_string());
    let value = |id: String| id["value ".len()..].parse().unwrap();
    children.map(value).collect()
}

pub(crate) fn read_all(view: &impl View) -> BTreeMap<Key, Vec<Value>> {
    (0..KEYS).map(|key| (key, read(view, key))).collect()
}

/// Answers reads.
pub(crate) fn observe(view: &impl View, ops: &mut [Step]) {
    for op in ops {
        if let Step::Read(key, observed) = op {
            *observed = read(view, *key);
        }
    }
}

pub(crate) fn perform(transaction: &mut Transaction, ops: &mut [Step]) {
    for op in ops {
        match op {
            Step::Append(key, value) => {
                transaction.insert(child(*value), node(*key), None).unwrap();
            }
            Step::Read(key, observed) => *observed = read(transaction, *key),
        }
    }
}

/// The appends as a batch that another machine can run.
pub(crate) fn batch(ops: &[Step]) -> Vec<Operation> {
    let append = |op: &Step| match op {
        Step::Append(key, value) => Some(add_child(child(*value), None).on(node(*key))),
        Step::Read(..) => None,
    };
    ops.iter().filter_map(append).collect()
}
