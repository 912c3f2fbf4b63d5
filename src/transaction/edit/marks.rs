//! Marks over a range, which may span nodes.
use serde_json::{Map, Value};

use super::Edited;
use super::range::Over;
use crate::document::Attributes;
use crate::store::Transaction;

pub(super) fn apply_mark(
    on: &mut Transaction,
    over: &Over,
    kind: &str,
    attributes: &Attributes,
) -> Edited {
    todo!()
}

pub(super) fn remove_mark(on: &mut Transaction, over: &Over, kind: &str) -> Edited {
    todo!()
}

pub(super) fn toggle_mark(
    on: &mut Transaction,
    over: &Over,
    kind: &str,
    attributes: &Attributes,
) -> Edited {
    todo!()
}

pub(super) fn update_mark(
    on: &mut Transaction,
    over: &Over,
    kind: &str,
    attributes: &Map<String, Value>,
) -> Edited {
    todo!()
}

pub(super) fn clear_formatting(on: &mut Transaction, over: &Over) -> Edited {
    todo!()
}
