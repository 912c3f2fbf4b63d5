//! Ids print and parse as one string.

use doclock_common::id::{LockId, NodeId};

#[test]
fn every_id_reads_back_as_it_prints() {
    for lock in [0, 1, 35, 36, u32::MAX] {
        let id = LockId {
            number: u64::MAX,
            lock,
        };
        assert_eq!(id.to_string().parse(), Ok(id));
    }
    for text in [
        "1:2",
        "01:2",
        "1:02",
        "+1:2",
        "1:",
        ":",
        "a",
        "1:99999999999999999999",
    ] {
        assert_eq!(NodeId::from(text).to_string(), text);
    }
}

#[test]
fn only_the_canonical_spelling_is_an_id() {
    for text in [
        "",
        "lock-1",
        "lock-01-a",
        "lock-1-A",
        "lock-+1-a",
        "lock-1-0a",
        "Lock-1-a",
    ] {
        assert!(text.parse::<LockId>().is_err(), "{text}");
    }
    assert!(NodeId::from("4294967296:1").to_string() == "4294967296:1");
    assert!(!NodeId::from("4294967296:1").is_generated());
    assert!("".parse::<NodeId>().is_err());
}

#[test]
fn a_node_id_is_sixteen_bytes_even_when_optional() {
    assert_eq!(size_of::<NodeId>(), 16);
    assert_eq!(size_of::<Option<NodeId>>(), 16);
}
