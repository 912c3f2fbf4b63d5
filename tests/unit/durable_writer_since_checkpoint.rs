//! Unit tests of `src/store/durable/writer/since_checkpoint.rs`.

use serde_json::json;

use super::*;

/// A calendar that was ahead during one checkpoint removed live leases from the file.
#[test]
fn a_checkpoint_keeps_a_lease_that_has_ended_by_the_calendar_alone() {
    let lease = json!({"kept": {"lease": {
        "targets": [{"node": "a"}], "owner": "w", "token": 1, "ends": [0, 0], "lasts": 9,
    }}});
    let mut since = SinceCheckpoint::new(1);
    since.add_block(&[], vec![serde_json::from_value(lease).unwrap()], 1);
    let document = Snapshot::default();
    let (entries, _) = since.checkpoint(&document, 0).unwrap();
    let [(_, Some(_))] = &entries[..] else {
        panic!("the lease is not stored: {entries:?}");
    };
    since.begin_anew(None);
    assert!(since.checkpoint(&document, 0).unwrap().0.is_empty());
}
