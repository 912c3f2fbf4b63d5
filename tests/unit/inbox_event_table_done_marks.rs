//! Unit tests of `src/store/inbox/event_table/done_marks.rs`.

use super::*;
use crate::time::MonotonicTime;

#[test]
fn marks_grow_in_small_steps_and_give_their_room_back() {
    let mut marks = DoneMarks::default();
    let id = |number: u32| SmolStr::from(format!("event {number}"));
    const EVENTS: u32 = 100_000;
    for number in 0..EVENTS {
        let done = DoneEvent {
            attempts: number,
            at: MonotonicTime::default(),
        };
        marks.insert(id(number), done);
    }
    let largest = |marks: &DoneMarks| marks.parts.iter().map(HashTable::capacity).max();
    assert!(largest(&marks) < Some(EVENTS as usize / 64));
    assert_eq!(marks.len(), EVENTS as usize);
    for number in 0..EVENTS {
        assert_eq!(
            marks.get(&id(number)).map(|done| done.attempts),
            Some(number)
        );
        assert!(marks.remove(&id(number)) && !marks.remove(&id(number)));
    }
    assert_eq!((marks.len(), marks.contains("event 7")), (0, false));
    assert_eq!((largest(&marks) <= Some(64), marks.parts.len()), (true, 1));
}
