//! Ids of nodes: whichever form an id has, it compares and prints as its text.

use std::collections::HashSet;
use std::hash::BuildHasher;

use doclock_common::hashing::Secret;
use doclock_common::id::NodeId;

/// Texts of each length around the longest that is stored in place, and those that differ only at
/// their ends, in zeros, or in letters of several bytes.
fn texts() -> Vec<String> {
    let mut texts: Vec<String> = (0..40).map(|len| "x".repeat(len)).collect();
    for text in ["x", "xxxxxxxxxxxxx", "xxxxxxxxxxxxxx"] {
        texts.extend(["\0", "\0\0", "é", "\u{1F600}", ":"].map(|end| format!("{text}{end}")));
    }
    texts.extend(
        [
            "\0",
            "é",
            "ééééééé",
            "éééééééé",
            "1:",
            ":1",
            "01:2",
            "1:2:3",
            "a:1",
        ]
        .map(String::from),
    );
    texts.push(format!("1:{}0", u64::MAX));
    texts
}

#[test]
fn custom_ids_compare_print_and_hash_as_their_texts() {
    let texts = texts();
    for one in &texts {
        let id = NodeId::from(one.as_str());
        assert!(!id.is_generated(), "{one:?}");
        assert_eq!(id.to_string(), *one);
        assert_eq!(id.is_empty(), one.is_empty());
        assert_eq!(id.bytes(), one.len());
        for other in &texts {
            let other_id = NodeId::from(other.as_str());
            assert_eq!(id.cmp(&other_id), one.cmp(other), "{one:?}, {other:?}");
            assert_eq!(id == other_id, one == other, "{one:?}, {other:?}");
        }
    }
    let hashes: HashSet<u64> = texts
        .iter()
        .map(|text| Secret.hash_one(NodeId::from(text.as_str())))
        .collect();
    assert_eq!(hashes.len(), texts.len(), "no two of these texts collide");
}

#[test]
fn generated_ids_come_first_and_by_their_numbers() {
    let sorted = [
        "0:0",
        "0:18446744073709551615",
        "7:9",
        "7:10",
        "4294967295:0",
        "",
        "0",
        "7:",
    ];
    let ids = sorted.map(NodeId::from);
    assert!(ids.is_sorted(), "{ids:?}");
    assert!(ids[..5].iter().all(NodeId::is_generated));
    assert!(!ids[5..].iter().any(NodeId::is_generated));
    assert_eq!(ids.map(|id| id.to_string()), sorted);
}

#[test]
fn an_id_takes_sixteen_bytes_also_if_it_may_be_missing() {
    assert_eq!(size_of::<NodeId>(), 16);
    assert_eq!(size_of::<Option<NodeId>>(), 16);
}
