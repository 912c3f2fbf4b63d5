//! Epochs of requests: which requests a wait for all waits for, and their memory.

use super::*;

#[test]
fn epochs_take_memory_in_proportion_to_present_requests() {
    let mut there = Epochs::default();
    let stays = there.arrive();
    let first = there.close();
    // Requests come and go, and each time another waits for all of them.
    for _ in 0..1_000 {
        let comes = there.arrive();
        let last = there.close().unwrap();
        assert_eq!(last, comes);
        assert!(!there.leave(comes));
        assert_eq!((there.left(last), there.close()), (1, first));
    }
    assert_eq!((there.len(), there.past().count()), (1, 1));
    assert!(there.leave(stays));
    assert!(there.oldest() > 1_000 && there.past().next().is_none());
}

#[test]
fn an_epoch_does_not_wait_for_later_requests() {
    let mut there = Epochs::default();
    assert_eq!(there.close(), None);
    let (a, b) = (there.arrive(), there.arrive());
    let first = there.close().unwrap();
    assert_eq!(there.close(), Some(first), "no request came in between");
    let c = there.arrive();
    assert!(c > first && a == first);
    let second = there.close().unwrap();
    assert_eq!(
        (there.left(first), there.left(second), there.len()),
        (2, 3, 3)
    );

    // The later epoch may end first.
    assert!(!there.leave(c));
    assert_eq!((there.left(first), there.left(second)), (2, 2));
    let d = there.arrive();
    assert!(!there.leave(a));
    assert!(there.leave(b));
    assert_eq!(
        (there.left(first), there.left(second), there.len()),
        (0, 0, 1)
    );
    assert!(there.oldest() > second && there.oldest() == d);
    assert!(!there.leave(d));
    assert_eq!(
        (there.len(), there.past.unwrap().capacity() < 64),
        (0, true)
    );
}
