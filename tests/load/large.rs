//! Deep and wide documents.

use std::thread;

use doclock::{
    Snapshot, View,
    document::{NodeSpec, check},
};

use crate::common::{commit, store};
use crate::{restarted, saved};

/// The default stack of a thread.
const STACK: usize = 2 << 20;

fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new()
        .stack_size(STACK)
        .spawn(test)
        .unwrap();
    if let Err(payload) = thread.join() {
        std::panic::resume_unwind(payload);
    }
}

fn made_of(spec: NodeSpec) -> Snapshot {
    let store = store();
    commit(&store, |transaction| {
        let top = transaction.create(spec).unwrap();
        transaction.set_root(&top).unwrap();
    });
    store.snapshot()
}

#[test]
fn feed_05_a_hundred_thousand_levels_are_saved_and_loaded() {
    on_a_small_stack(|| {
        let spec = (0..100_000).fold(NodeSpec::new("leaf").with_text("Io"), |inner, _| {
            NodeSpec::new("x").with_children([inner])
        });
        let before = made_of(spec);
        let after = restarted(&before);
        assert_eq!(after, before);
        assert_eq!(
            after
                .ancestors(after.last_descendant(after.root().unwrap()).unwrap().id())
                .count(),
            100_000
        );
        assert_eq!(check(&after), Ok(()));
    });
}

#[test]
fn feed_05_two_hundred_thousand_siblings_are_saved_and_loaded() {
    let items = (0..200_000).map(|nth| match nth % 2 {
        0 => NodeSpec::new("item"),
        _ => NodeSpec::new("item").with_id(format!("item {nth}")),
    });
    let before = made_of(NodeSpec::new("list").with_children(items));
    let after = restarted(&before);
    assert_eq!(after, before);
    assert_eq!(after.children(after.root().unwrap()).count(), 200_000);
}

/// Four hundred kilobytes in one node, with a mark on each second character.
#[test]
fn feed_05_a_long_text_is_saved_and_loaded() {
    let text = "a漢".repeat(100_000);
    let marks = (0..100_000).map(|nth| doclock::document::Mark::new("b", 2 * nth..2 * nth + 1));
    let before = made_of(
        NodeSpec::new("text")
            .with_text(text.as_str())
            .with_marks(marks),
    );
    let after = restarted(&before);
    assert_eq!(after, before);
    assert_eq!(saved(&after), saved(&before));
}
