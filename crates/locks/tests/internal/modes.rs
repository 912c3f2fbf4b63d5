//! Modes and priorities: which modes exclude each other, and the names in JSON.

use doclock_locks::LockMode::{
    self, Exclusive as X, IntentionExclusive as IX, IntentionShared as IS, NodeExclusive as NX,
    NodeShared as NS, Shared as S, SharedIntentionExclusive as SIX,
};
use doclock_locks::Priority;
use doclock_locks::internal::Rights;

const ALL: [LockMode; 7] = [IS, IX, NS, NX, S, SIX, X];

/// The matrix that the documentation of `LockMode` shows.
#[test]
fn modes_exclude_each_other_as_documented() {
    let compatible: [(LockMode, &[LockMode]); 7] = [
        (IS, &[IS, IX, NS, NX, S, SIX]),
        (IX, &[IS, IX, NS, NX]),
        (NS, &[IS, IX, NS, S, SIX]),
        (NX, &[IS, IX]),
        (S, &[IS, NS, S]),
        (SIX, &[IS, NS]),
        (X, &[]),
    ];
    for (one, with) in compatible {
        for other in ALL {
            let exclude = Rights::from(one).exclude(other.into());
            assert_eq!(exclude, !with.contains(&other), "{one} and {other}");
            assert_eq!(exclude, Rights::from(other).exclude(one.into()));
        }
    }
}

#[test]
fn a_set_of_rights_is_named_by_its_strongest_mode() {
    for mode in ALL {
        assert_eq!(Rights::from(mode).mode(), mode);
    }
    assert_eq!(Rights::from(S).and(IX.into()).mode(), SIX);
}

/// A right to read or write requires its intention on the ancestors, and no more than that.
#[test]
fn reads_and_writes_require_their_intention_on_ancestors() {
    for mode in [IS, NS, S] {
        assert_eq!(Rights::from(mode).intention(), IS.into());
    }
    for mode in [IX, NX, SIX, X] {
        assert_eq!(Rights::from(mode).intention(), IX.into());
    }
}

#[test]
fn priorities_have_stable_names_in_json() {
    let text = serde_json::to_string(&Priority::ALL).unwrap();
    assert_eq!(text, r#"["low","normal","high"]"#);
    let read: Vec<Priority> = serde_json::from_str(&text).unwrap();
    assert_eq!(read, Priority::ALL);
}
