//! Copying out of a document and pasting into it.
use super::Edited;
use super::range::Over;
use crate::document::Fragment;
use crate::id::NodeId;
use crate::store::Transaction;

pub(super) fn copy(on: &mut Transaction, over: &Over) -> Edited {
    todo!()
}

pub(super) fn paste(
    on: &mut Transaction,
    id: &NodeId,
    offset: usize,
    fragment: Option<Fragment>,
) -> Edited {
    todo!()
}
