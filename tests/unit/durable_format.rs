//! Unit tests of `src/store/durable/format.rs`.

use super::*;
use crate::document::{NodeSpec, View};
use crate::store::DataStore;

#[test]
fn each_key_of_a_note_is_another() {
    let event = |inbox: &str, id: &str| NoteKey::Event(inbox.into(), id.into());
    let keys = [
        NoteKey::Receipt("a".into()),
        NoteKey::Receipt("a/b".into()),
        event("a", "b"),
        event("a/b", ""),
        event("", "a/b"),
        event("a\",\"b", ""),
        NoteKey::Watermark("a".into()),
    ];
    let stored = keys.iter().map(|key| note_key(key).unwrap());
    let different: std::collections::HashSet<_> = stored.collect();
    assert_eq!(different.len(), keys.len());
    assert!(
        different
            .iter()
            .all(|key| EntryKind::of(key) == Some(EntryKind::Note))
    );
}

#[test]
fn any_flipped_bit_of_stored_bytes_is_found() {
    let node = NodeSpec::new("p").with_text("some text").with_id("some");
    let store = DataStore::new();
    let mut transaction = store.begin("ann").unwrap();
    transaction.create(node).unwrap();
    transaction.commit().unwrap();
    let document = store.snapshot();
    let node = document.node("some").unwrap();
    let bytes = encode(node).unwrap();
    assert_eq!(decode::<Node>(&bytes).unwrap(), *node);
    for bit in 0..8 * bytes.len() {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(decode::<Node>(&damaged).is_err(), "bit {bit}");
    }
    for len in 0..bytes.len() {
        assert!(decode::<Node>(&bytes[..len]).is_err(), "{len} bytes");
    }
}
