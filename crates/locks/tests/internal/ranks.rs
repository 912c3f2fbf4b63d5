//! A debug build reports a mutex that is locked against the order of ranks.

use doclock_common::sync::{Mutex, assert_unlocked, rank};

#[test]
#[should_panic(expected = "a mutex of rank 2 is locked while the ranks 0b1000000 are held")]
fn a_mutex_that_is_locked_against_the_order_of_ranks_is_reported() {
    let outer = Mutex::<{ rank::LOCK }, ()>::default();
    let inner = Mutex::<{ rank::PUBLISHED }, ()>::default();
    drop((inner.lock(), outer.lock()));
}

#[test]
#[should_panic(expected = "a mutex of rank 1 is locked while the ranks 0b10 are held")]
fn two_mutexes_of_one_rank_that_are_locked_at_a_time_are_reported() {
    let [one, other] = [(), ()].map(Mutex::<{ rank::SESSION }, ()>::new);
    drop((one.lock(), other.lock()));
}

#[test]
#[should_panic(expected = "code of a user is called under mutexes of the ranks 0b100")]
fn code_of_a_user_under_a_mutex_is_reported() {
    let mutex = Mutex::<{ rank::LOCK }, ()>::default();
    let _guard = mutex.lock();
    assert_unlocked("code of a user is called");
}

#[test]
fn mutexes_may_be_locked_in_the_order_of_ranks_and_unlocked_in_any() {
    let outer = Mutex::<{ rank::LOCK }, ()>::default();
    let inner = Mutex::<{ rank::PUBLISHED }, ()>::default();
    for _ in 0..2 {
        let guard = outer.lock();
        let inside = inner.lock();
        drop(guard);
        drop(inside);
    }
    assert_unlocked("nothing");
}
