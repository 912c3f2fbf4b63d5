//! Full disks: the error says so, and no acknowledged commit is lost.

use doclock::durable::{DurabilityError, JournalErrorKind, OpenError};
use doclock::{TransactionManager, View, codes::CodedError, dsl::*};

use super::disk::{Disk, Found, found};

/// Opens, commits and closes until the disk is full. Returns the acknowledged nodes, and whether
/// the disk became full.
fn use_until_full(disk: &Disk) -> (Vec<String>, bool) {
    let is_full = |kind: JournalErrorKind| assert_eq!(kind, JournalErrorKind::Full);
    let mut acknowledged = Vec::new();
    let store = match disk.open() {
        Ok(store) => store,
        Err(OpenError::Journal(error)) => {
            is_full(error.kind);
            return (acknowledged, true);
        }
        Err(error) => panic!("{error}"),
    };
    let manager = TransactionManager::new(store.clone());
    for nth in 0..3 {
        let id = format!("new {nth}");
        let text = "some text ".repeat(2_000);
        let node = create(text_node("paragraph", text).with_id(&*id));
        match manager.execute(node) {
            Ok(_) => acknowledged.push(id),
            Err(error) => {
                assert_eq!(error.code(), "commitUnknown");
                break;
            }
        }
    }
    let is_closed = match store.close() {
        Ok(_) => true,
        Err(DurabilityError::Failed { cause, .. }) => {
            is_full(cause.kind);
            false
        }
        Err(error) => panic!("{error}"),
    };
    (acknowledged, !is_closed)
}

/// The disk becomes full at each change in turn, also during a repair.
#[test]
fn durable_06_a_disk_that_gets_full_at_any_moment_loses_no_acknowledged_commit() {
    for Found {
        bytes, document, ..
    } in found()
    {
        let mut without = 0;
        for room in 0.. {
            let disk = Disk::with(bytes.clone());
            disk.set_room(Some(room));
            let (acknowledged, was_full) = use_until_full(&disk);
            disk.set_room(None);
            let store = disk
                .open()
                .unwrap_or_else(|error| panic!("room {room}: {error}"));
            let snapshot = store.snapshot();
            let lost = acknowledged
                .iter()
                .find(|id| !snapshot.contains(id.as_str()));
            assert_eq!(lost, None, "room {room}");
            let nodes = document
                .nodes()
                .all(|node| snapshot.node(node.id()) == Some(node));
            assert!(nodes, "room {room}");
            if acknowledged.is_empty() {
                without += 1;
                let unknown = snapshot.version() - document.version();
                assert!(unknown <= 1, "room {room}: {unknown} more commits");
            }
            if !was_full {
                break;
            }
        }
        assert!(without > 5, "{without}");
    }
}
