//! The slots of open documents: a limiter with one key.

use std::fmt;

use crate::lock::limiter::{InFlightLimiter, Permit};

/// The key of the limiter, as errors show it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct OpenDocuments;

impl fmt::Debug for OpenDocuments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("open documents")
    }
}

pub(super) type Slots = InFlightLimiter<OpenDocuments>;

/// The slot of one document. Dropping it grants the slot to the next request.
pub(super) type SlotPermit = Permit<OpenDocuments>;
