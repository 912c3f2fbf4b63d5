//! Lists in a document: a node for each, whose text has the values with commas between them.

use std::collections::BTreeMap;

use doclock::dsl::element;
use doclock::{NodeId, Transaction, View};

use crate::history::{Key, Value};
use crate::report::Step;

/// How many lists a document has.
pub(crate) const KEYS: Key = 5;

fn node(key: Key) -> NodeId {
    NodeId::from(&*format!("list {key}"))
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
    let Some(list) = view.node(node(key)) else {
        return Vec::new();
    };
    let text = list.text().to_string();
    let values = text.split(',').filter(|value| !value.is_empty());
    values.map(|value| value.parse().unwrap()).collect()
}

pub(crate) fn read_all(view: &impl View) -> BTreeMap<Key, Vec<Value>> {
    (0..KEYS).map(|key| (key, read(view, key))).collect()
}

/// Writes the whole list, so a change that the transaction did not see would show.
fn append(transaction: &mut Transaction, key: Key, value: Value) {
    let mut values = read(transaction, key);
    values.push(value);
    let values: Vec<_> = values.iter().map(Value::to_string).collect();
    transaction.set_text(node(key), values.join(",")).unwrap();
}

pub(crate) fn perform(transaction: &mut Transaction, ops: &mut [Step]) {
    for op in ops {
        match op {
            Step::Append(key, value) => append(transaction, *key, *value),
            Step::Read(key, observed) => *observed = read(transaction, *key),
        }
    }
}
