//! Unit tests of `src/store/durable/writer.rs`.

use std::time::Duration;

use super::*;
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
    let mut lease = store
        .leases()
        .acquire("a", "ann", Duration::from_secs(60))
        .unwrap();
    lease.renew(Duration::from_secs(60)).unwrap();
    let writer = store.0.writer.as_ref().unwrap();
    assert_eq!(writer.shared.state.lock().notes.len(), 0);
}
