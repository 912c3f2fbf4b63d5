//! 1: versions that are kept while others change, with ids of any numbers.

use std::collections::BTreeMap;

use doclock::{DataStore, Snapshot, View, document::NodeSpec};
use proptest::prelude::*;

use crate::common::{commit, store};

/// What a version contains, by the texts of the ids.
type Texts = BTreeMap<String, String>;

#[derive(Clone, Debug)]
enum Step {
    Set(String, u8),
    Delete(String),
    /// Keeps the latest version, in the place of an older one.
    Keep(usize),
}

/// Ids that neighbour each other, lie at the ends of parts of the table, or far apart.
fn id() -> impl Strategy<Value = String> {
    let ends = [0, 15, 16, 255, 256, 4095, 4096, 65_535, 1 << 32, u64::MAX];
    let number = prop_oneof![
        4 => 0_u64..40,
        2 => proptest::sample::select(ends.to_vec()),
        1 => any::<u64>(),
    ];
    let session = prop_oneof![4 => Just(1_u32), 1 => Just(u32::MAX), 1 => 2_u32..5];
    prop_oneof![
        6 => (session, number).prop_map(|(session, number)| format!("{session}:{number}")),
        1 => (0_u8..40).prop_map(|number| format!("custom-{number}")),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (id(), any::<u8>()).prop_map(|(id, text)| Step::Set(id, text)),
        2 => id().prop_map(Step::Delete),
        2 => (0_usize..4).prop_map(Step::Keep),
    ]
}

fn check(version: &Snapshot, expected: &Texts) {
    assert_eq!(version.len(), expected.len());
    let listed: Texts = version
        .nodes()
        .map(|node| (node.id().to_string(), node.text().to_string()))
        .collect();
    assert_eq!(listed, *expected);
    for (id, text) in expected {
        assert_eq!(version.node(&**id).unwrap().text(), &**text);
    }
}

proptest! {
    #[test]
    fn overlay_01_a_kept_version_has_its_nodes_whatever_later_commits_do(
        steps in proptest::collection::vec(step(), 1..120),
        missing in id(),
    ) {
        let store: DataStore = store();
        let (mut latest, mut kept) = (Texts::new(), BTreeMap::new());
        for step in steps {
            match step {
                Step::Set(id, text) => {
                    let text = text.to_string();
                    commit(&store, |on| match latest.contains_key(&id) {
                        true => on.set_text(&*id, &*text).unwrap(),
                        false => {
                            let node = NodeSpec::new("text").with_id(&*id).with_text(&*text);
                            on.create(node).unwrap();
                        }
                    });
                    latest.insert(id, text);
                }
                Step::Delete(id) => {
                    if latest.remove(&id).is_some() {
                        commit(&store, |on| on.delete(&*id).unwrap());
                    }
                }
                Step::Keep(place) => {
                    kept.insert(place, (store.snapshot(), latest.clone()));
                }
            }
            check(&store.snapshot(), &latest);
            for (version, expected) in kept.values() {
                prop_assert_eq!(version.node(&*missing).is_some(), expected.contains_key(&missing));
            }
        }
        for (version, expected) in kept.values() {
            check(version, expected);
        }
    }
}
