//! Unit tests of `src/store/log/subscribers.rs`.

use super::*;

/// A write can end between the publication of a commit and its announcement.
#[test]
fn a_durable_subscriber_is_notified_of_a_commit_that_was_durable_before_its_announcement() {
    let mut subscribers = Subscribers::default();
    subscribers.add_journal(0, 0);
    let (id, ready) = subscribers.add(Filter::All, 0, None);
    subscribers.read_durable(id);
    let notified = || ready.try_iter().count();
    assert_eq!(notified(), 1);
    subscribers.note_durable(1).notify();
    assert_eq!(notified(), 1);
    drop(subscribers.announce(1, None));
    assert_eq!(notified(), 1);
    drop(subscribers.announce(2, None));
    assert_eq!(notified(), 0);
}
