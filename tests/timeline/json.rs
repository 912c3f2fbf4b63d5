//! The JSON of a timeline.

use std::time::{Duration, SystemTime};

use doclock::LockId;
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// The times that are exact.
const MILLIS: u64 = 1 << 33;

fn times() -> impl Strategy<Value = Duration> {
    let parts = (0..MILLIS, 0..1_000_000u64);
    parts.prop_map(|(millis, nanos)| Duration::from_millis(millis) + Duration::from_nanos(nanos))
}

fn texts() -> impl Strategy<Value = String> {
    proptest::collection::vec(any::<char>(), 0..8).prop_map(String::from_iter)
}

fn outcomes() -> impl Strategy<Value = TimelineOutcome> {
    let all = [
        Waiting, Holding, Released, Revoked, Extended, TimedOut, Cancelled, Deadlock,
    ];
    proptest::sample::select(all.to_vec())
}

fn entries() -> impl Strategy<Value = TimelineEntry> {
    let id = any::<(u64, u32)>().prop_map(|(number, lock)| LockId { number, lock });
    let call_site = (texts(), any::<(u32, u32)>());
    let call_site = call_site.prop_map(|(file, (line, column))| {
        let mut call_site = request(0, 0, Waiting).call_site;
        call_site.file = file.into();
        (call_site.line, call_site.column) = (line, column);
        call_site
    });
    let names = (texts(), proptest::option::of(texts()), call_site);
    let ends = [(); 2].map(|()| proptest::option::of(times()));
    let parts = (id, names, any::<bool>(), times(), ends, outcomes());
    parts.prop_map(|(lock_id, names, nodes, requested_at, ends, outcome)| {
        let (owner, label, call_site) = names;
        let mut entry = request(0, 0, outcome).of(&owner);
        entry.lock_id = lock_id;
        entry.label = label.map(Into::into);
        entry.call_site = call_site;
        entry.nodes = nodes;
        entry.requested_at = requested_at;
        [entry.granted_at, entry.ended_at] = ends;
        entry
    })
}

fn timelines() -> impl Strategy<Value = Timeline> {
    let entries = proptest::collection::vec(entries(), 0..5);
    let parts = (any::<(u32, u64)>(), times(), entries);
    parts.prop_map(|((began_at, forgotten), read_at, entries)| {
        let mut timeline = timeline(0, entries);
        timeline.began_at = SystemTime::UNIX_EPOCH + Duration::from_millis(u64::from(began_at));
        timeline.read_at = read_at;
        timeline.forgotten = forgotten;
        timeline
    })
}

/// A timeline with a request that waits.
fn waiting(read_at: Duration) -> Timeline {
    let mut waiting = timeline(0, [request(1, 0, Waiting)]);
    waiting.read_at = read_at;
    waiting
}

fn read_again(timeline: &Timeline) -> Timeline {
    serde_json::from_slice(&serde_json::to_vec(timeline).unwrap()).unwrap()
}

proptest! {
    #[test]
    fn a_timeline_is_read_again_as_it_was_written(timeline in timelines()) {
        prop_assert_eq!(read_again(&timeline), timeline);
    }

    #[test]
    fn a_time_of_any_length_is_read_again_nearly_as_it_was_written(
        seconds in any::<u64>(),
        nanos in 0..1_000_000_000u32,
    ) {
        let written = Duration::new(seconds, nanos);
        let difference = read_again(&waiting(written)).read_at.abs_diff(written);
        let most = written.mul_f64(f64::EPSILON).max(Duration::from_nanos(1));
        prop_assert!(difference <= most, "{difference:?}");
    }
}

#[test]
fn the_longest_time_is_read_again() {
    let longest = waiting(Duration::MAX);
    assert_eq!(read_again(&longest).read_at.as_secs(), u64::MAX);
}

#[test]
fn what_is_no_timeline_is_refused_with_the_value() {
    let written = serde_json::to_value(waiting(Duration::from_nanos(10))).unwrap();
    let refused = |pointer: &str, value: serde_json::Value| {
        let mut changed = written.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        let read = serde_json::from_value::<Timeline>(changed);
        read.unwrap_err().to_string()
    };
    let cases = [
        ("/readAt", json!(-1), "a duration in milliseconds"),
        ("/beganAt", json!(-1), "u64"),
        ("/entries/0/requestedAt", json!("1 ms"), "f64"),
        ("/entries/0/lockId", json!("lock-1"), "lock-1"),
        (
            "/entries/0/callSite",
            json!("src/main.rs:7"),
            "src/main.rs:7",
        ),
        (
            "/entries/0/callSite",
            json!("src/main.rs:7:x"),
            "src/main.rs:7:x",
        ),
        ("/entries/0/outcome", json!("gone"), "gone"),
    ];
    for (pointer, value, named) in cases {
        let error = refused(pointer, value);
        assert!(error.contains(named), "{pointer}: {error}");
    }
}
