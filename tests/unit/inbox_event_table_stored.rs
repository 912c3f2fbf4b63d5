//! Unit tests of `src/store/inbox/event_table/stored.rs`.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::{ClaimOutcome, Claimant, Delivery};
use super::*;
use crate::id::OwnerId;
use crate::steps::counted;

#[test]
fn a_prune_that_forgets_nothing_stores_nothing() {
    let mut events = EventTable::after(0, Some(InboxChanges::new("payments".into())));
    let epoch = SystemTime::UNIX_EPOCH;
    events.watermark = Some(epoch);
    assert_eq!(events.prune(epoch, 9), (0, true));
    assert!(events.take_changes().is_empty());
}

fn at(second: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(second)
}

/// Claims an event that was sent at this second.
fn claim(events: &mut EventTable, second: u64) {
    let (id, owner) = (second.to_string(), OwnerId::from("ann"));
    let delivery = Delivery {
        id: &id,
        sent_at: Some(at(second)),
        first: true,
    };
    let by = Claimant {
        owner: &owner,
        claim_time: Duration::MAX,
        attempts: 1,
    };
    let claimed = events.claim(&delivery, &by, MonotonicTime::default());
    assert!(matches!(claimed, ClaimOutcome::Claimed { .. }), "{id}");
}

/// The events of an inbox, sent a second apart: by turns claimed, done and dead ones.
fn events(count: u64) -> EventTable {
    let mut events = EventTable::after(0, Some(InboxChanges::new("payments".into())));
    let now = MonotonicTime::default();
    for second in 1..=count {
        claim(&mut events, second);
        let id = second.to_string();
        match second % 3 {
            0 => {}
            1 => events.finish(&id, now),
            _ => drop(events.mark_dead(&id, DeadLetterCause::Poison, String::new(), now)),
        }
    }
    events.take_changes();
    events
}

/// Which events are stored as due after these changes.
fn due(changes: &[NoteChange]) -> BTreeSet<u64> {
    let mut due = BTreeSet::new();
    for change in changes {
        match change {
            NoteChange::Kept(Note::Event(note)) => match note.state {
                StoredState::Due => due.insert(note.id.parse().unwrap()),
                _ => due.remove(&note.id.parse().unwrap()),
            },
            _ => continue,
        };
    }
    due
}

/// Each piece walked all events that are not done.
#[test]
fn a_prune_in_pieces_looks_at_each_event_once() {
    let prune = |count| {
        let mut events = events(count);
        let pieces = || while !events.prune(at(count + 1), 16).1 {};
        let ((), steps) = counted(pieces);
        let claimed = (1..=count).filter(|second| second % 3 == 0);
        assert!(due(&events.take_changes()).into_iter().eq(claimed));
        steps
    };
    let (few, many) = (prune(301), prune(1_201));
    assert!(few >= 200 && many <= 4 * few, "{few} steps, then {many}");
}

/// After a restart it would be too old, although it was never handled.
#[test]
fn inbox_05_an_event_that_is_claimed_between_the_pieces_of_a_prune_is_stored() {
    let mut events = events(5);
    events.prune(at(9), 1);
    let mut changes = events.take_changes();
    for second in 7..=9 {
        claim(&mut events, second);
    }
    events.finish("8", MonotonicTime::default());
    while !events.prune(at(9), 1).1 {}
    changes.extend(events.take_changes());
    assert_eq!(events.watermark, Some(at(8)));
    assert!(due(&changes).is_superset(&BTreeSet::from([3, 7])));
    // A later prune goes on from there.
    claim(&mut events, 10);
    claim(&mut events, 11);
    events.finish("11", MonotonicTime::default());
    events.prune(at(12), 9);
    changes.extend(events.take_changes());
    assert_eq!(due(&changes), BTreeSet::from([3, 7, 9, 10]));
}
