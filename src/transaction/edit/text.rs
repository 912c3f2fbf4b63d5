//! Text within one node.
use super::Edited;
use crate::id::NodeId;
use crate::store::Transaction;

pub(super) fn replace_pattern(
    on: &mut Transaction,
    id: &NodeId,
    pattern: &str,
    replacement: &str,
) -> Edited {
    todo!()
}

pub(super) fn wrap(
    on: &mut Transaction,
    id: &NodeId,
    before: &str,
    after: &str,
    start: usize,
    end: Option<usize>,
) -> Edited {
    todo!()
}

pub(super) fn unwrap(
    on: &mut Transaction,
    id: &NodeId,
    before: &str,
    after: &str,
    start: usize,
    end: Option<usize>,
) -> Edited {
    todo!()
}

pub(super) fn indent_text(
    on: &mut Transaction,
    id: &NodeId,
    indent: &str,
    start: usize,
    end: Option<usize>,
) -> Edited {
    todo!()
}

pub(super) fn outdent_text(
    on: &mut Transaction,
    id: &NodeId,
    indent: &str,
    start: usize,
    end: Option<usize>,
) -> Edited {
    todo!()
}
