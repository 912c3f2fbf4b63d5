use std::time::Duration;

use crate::dsl::*;
use crate::store::{DataStore, StoreOptions};
use crate::time::ManualClock;
use crate::transaction::{Editor, HistoryOptions};

/// Continuous typing became two entries, because the pause was measured by the processor's counter.
#[test]
fn the_interval_of_a_group_is_monotonic_time_and_not_the_counter() {
    let clock = ManualClock::new();
    let store = DataStore::with_options(StoreOptions::new().clock(clock.skewed(2)));
    let options = HistoryOptions::new().group_interval(Duration::from_millis(500));
    let editor = Editor::new(store, "ann").with_history(options);
    let run = |operation| transaction(&editor, [operation]).commit().unwrap();
    run(create(text_node("paragraph", "").with_id("p")));
    run(insert_text(0, "a").on("p"));
    clock.advance(Duration::from_millis(300));
    run(insert_text(1, "b").on("p"));
    clock.advance(Duration::from_millis(500));
    run(insert_text(2, "c").on("p"));
    assert_eq!(editor.undo_depth(), 3);
}
