//! The last revocations in the statistics.

use std::thread;

use doclock::{
    DataStore, LockId,
    lock::{AcquireOptions, Revocation},
    time::ManualClock,
};

use crate::revoked::{LIMIT, limited};
use crate::until_waiting;

/// Passes the hold limit of the holder while a request waits. Returns the id of that request, which
/// holds the lock then.
fn revoke(store: &DataStore, clock: &ManualClock) -> LockId {
    let theirs = store.clone();
    let next = thread::spawn(move || theirs.acquire_lock("next").unwrap());
    until_waiting(store, 1);
    clock.advance(LIMIT);
    next.join().unwrap()
}

#[test]
fn lock_10_a_revoked_holder_that_never_returns_is_named_in_the_statistics() {
    let (store, clock) = limited();
    let options = AcquireOptions::new().label("import").hold_limit(LIMIT);
    let request = store.request("ann").options(options);
    let line = line!() - 1;
    let stuck = request.wait().unwrap().into_id();
    assert!(store.lock_stats().last_revocations.is_empty());
    revoke(&store, &clock);
    clock.advance(LIMIT / 10);

    let stats = store.lock_stats();
    let [
        Revocation {
            holder,
            hold_limit,
            revoked_for,
            waiter: Some(waiter),
            ..
        },
    ] = &stats.last_revocations[..]
    else {
        panic!("{:?}", stats.last_revocations);
    };
    assert_eq!((holder.lock_id, holder.owner_id.as_str()), (stuck, "ann"));
    assert_eq!(holder.label.as_deref(), Some("import"));
    assert_eq!(
        (holder.call_site.file.as_str(), holder.call_site.line),
        (file!(), line)
    );
    assert_eq!((holder.held_for, *hold_limit), (LIMIT, LIMIT));
    assert_eq!(*revoked_for, LIMIT / 10);
    let text = stats.to_string();
    let column = holder.call_site.column;
    let expected = format!(
        "revoked       {stuck} of ann (import) from {}:{line}:{column}, held for 100ms, \
         hold limit 100ms, revoked 10ms ago for {} of next from {}, which had waited for 100ms",
        file!(),
        waiter.lock_id,
        waiter.call_site,
    );
    assert_eq!(text.lines().last(), Some(&*expected));
    let json = serde_json::to_value(&stats).unwrap();
    let last = &json["lastRevocations"][0];
    assert_eq!(last["lockId"], stuck.to_string());
    assert_eq!(last["label"], "import");
    assert_eq!(
        (&last["heldFor"], &last["holdLimit"]),
        (&100.0.into(), &100.0.into())
    );
    assert_eq!(last["revokedFor"], 10.0);
    assert_eq!(last["waiter"]["ownerId"], "next");

    store.reset_lock_stats();
    assert!(store.lock_stats().last_revocations.is_empty());
}

#[test]
fn lock_10_of_many_revocations_the_last_are_listed_in_order() {
    let (store, clock) = limited();
    let mut held = vec![store.acquire_lock("first").unwrap()];
    for _ in 0..=Revocation::LISTED {
        held.push(revoke(&store, &clock));
    }
    let stats = store.lock_stats();
    let listed = stats.last_revocations.iter();
    let listed: Vec<_> = listed.map(|last| last.holder.lock_id).collect();
    assert_eq!(listed, held[1..=Revocation::LISTED]);
    assert_eq!(stats.total_revocations, held.len() as u64 - 1);
}
