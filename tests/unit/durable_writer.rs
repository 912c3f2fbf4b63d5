//! Unit tests of `src/store/durable/writer.rs`.

use super::*;
use crate::inbox::Inbox;
use crate::store::durable::{DurableOptions, Forgetful};

/// An open that fails between the two drops such a writer.
#[test]
fn a_writer_that_was_never_begun_is_dropped_without_a_wait() {
    let writer = Writer::new(Durability::Durable, 0, Snapshot::default(), Clock::system());
    assert!(writer.shared.close().is_err());
    drop(writer);
}

#[test]
fn a_closed_store_keeps_no_notes() {
    let store = DataStore::open_journal(Forgetful, DurableOptions::new()).unwrap();
    store.close().unwrap();
    // It has a dead letter then.
    let inbox = Inbox::new(&store, "inbox");
    inbox.process(&("", 1), |_, _| Ok(())).unwrap();
    assert_eq!(inbox.dead_letters().len(), 1);
    let writer = store.0.writer.as_ref().unwrap();
    assert_eq!(writer.shared.state.lock().notes.len(), 0);
}
