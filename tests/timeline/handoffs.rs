use super::*;

/// Returns for each entry the position of the entry that handed it the lock.
fn handoffs(timeline: &Timeline) -> Vec<Option<usize>> {
    TimelineLayout::new(timeline).givers
}

#[test]
fn a_release_hands_the_lock_to_the_request_that_is_granted_in_its_moment() {
    let entries = [
        released(1, "ann", 0, 0, 10),
        released(2, "ben", 5, 10, 20),
        // It did not wait: the lock was free.
        released(3, "cem", 20, 20, 30),
        request(4, 25, Holding).of("dora").granted(30),
    ];
    let givers = handoffs(&timeline(40, entries));
    assert_eq!(givers, [None, Some(0), None, Some(2)]);
}

#[test]
fn holds_without_a_length_hand_the_lock_on_in_their_order() {
    let entries = [
        released(1, "ann", 0, 5, 10),
        released(2, "ben", 5, 10, 10),
        released(3, "cem", 6, 10, 10),
        released(4, "dora", 7, 10, 20),
    ];
    let givers = handoffs(&timeline(40, entries));
    assert_eq!(givers, [None, Some(0), Some(1), Some(2)]);
}

/// The recorder has forgotten the holder before it.
#[test]
fn no_request_hands_the_lock_to_itself() {
    let entries = [released(2, "ben", 5, 10, 10), released(3, "cem", 6, 10, 20)];
    assert_eq!(handoffs(&timeline(40, entries)), [None, Some(0)]);
}

#[test]
fn a_revoked_holder_hands_on_and_a_request_that_times_out_does_not() {
    let entries = [
        request(2, 2, TimedOut).of("ben").ended(10),
        request(1, 0, Revoked).granted(0).ended(10),
        released(3, "cem", 5, 10, 20),
    ];
    assert_eq!(handoffs(&timeline(40, entries)), [None, None, Some(1)]);
}

#[test]
fn one_release_can_make_several_requests_the_holders_of_nodes() {
    let entries = [
        released(1, "ann", 0, 0, 10),
        request(4, 6, Extended).granted(10).ended(10).on_nodes(),
        released(2, "ben", 5, 10, 20).on_nodes(),
        released(3, "cem", 5, 10, 30).on_nodes(),
    ];
    assert_eq!(
        handoffs(&timeline(40, entries)),
        [None, Some(0), Some(0), Some(0)]
    );
}

#[test]
fn in_a_simulation_each_request_that_waited_is_handed_the_lock_once() {
    for seed in 0..50 {
        let timeline = simulated(seed, 300);
        let mut used = vec![false; timeline.entries.len()];
        for (entry, giver) in timeline.entries.iter().zip(handoffs(&timeline)) {
            let waited = entry.granted_at.is_some_and(|at| at > entry.requested_at);
            assert_eq!(giver.is_some(), waited, "seed {seed}, {entry:?}");
            if let Some(giver) = giver {
                assert!(!used[giver], "seed {seed}, {entry:?}");
                assert_eq!(timeline.entries[giver].ended_at, entry.granted_at);
                used[giver] = true;
            }
        }
    }
}
