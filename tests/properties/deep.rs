//! Documents far deeper than a call stack reaches.

use std::collections::HashSet;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use doclock::dsl::*;
use doclock::{
    DataStore, NodeId, View,
    document::{Mark, NodeSpec, check},
    transaction::{IntoOperations, TextSpan},
};
use serde_json::json;
use strum::VariantArray;

use crate::common::{commit, id, image, store};
use crate::generator::{Generator, Kind};
use crate::{redo, undo};

const LEVELS: usize = 100_000;

/// The default stack of a thread.
const STACK: usize = 2 << 20;

/// Longer than any operation that visits each node a few times, shorter than a quadratic one.
const LONG: Duration = Duration::from_secs(if cfg!(debug_assertions) { 60 } else { 6 });

fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new()
        .stack_size(STACK)
        .spawn(test)
        .unwrap();
    if let Err(payload) = thread.join() {
        std::panic::resume_unwind(payload);
    }
}

/// The named positions in the chain.
const AIMS: [(&str, usize); 3] = [("bottom", 1), ("middle", LEVELS / 2), ("top", LEVELS)];

/// A chain of lists in items in lists. The named nodes have siblings on both sides.
fn chain() -> NodeSpec {
    let mut chain: Option<NodeSpec> = None;
    for level in 1..=LEVELS {
        let kind = if level % 2 == 0 { "list" } else { "item" };
        let node = NodeSpec::new(kind)
            .with_text("far down")
            .with_marks([Mark::new("bold", 0..3)]);
        let name = AIMS.iter().find(|(_, at)| *at == level);
        let node = match name {
            Some((name, _)) => node.with_id(*name),
            None => node,
        };
        let node = node.with_children(chain);
        chain = Some(match name {
            Some(_) => {
                let siblings = [text_node(kind, "before"), node, text_node(kind, "after")];
                element("paragraph", siblings)
            }
            None => node,
        });
    }
    element("page", chain).with_id("page")
}

fn deep() -> DataStore {
    let store = store();
    commit(&store, |transaction| {
        let page = transaction.create(chain()).unwrap();
        transaction.set_root(&page).unwrap();
    });
    store
}

#[test]
fn tree_04_a_chain_of_a_hundred_thousand_levels_is_made_compared_deleted_brought_back_and_dropped()
{
    on_a_small_stack(|| {
        let spec = chain();
        assert!(spec.len() > LEVELS);
        assert_eq!(spec.clone(), spec);
        assert!(format!("{spec:?}").contains("bottom"));
        drop(spec);

        let (store, other) = (deep(), deep());
        let before = store.snapshot();
        assert_eq!(before, other.snapshot());
        assert_eq!(check(&before), Ok(()));
        let levels = before.ancestors(&id("bottom")).count();
        assert!(levels > LEVELS && before.descendants(id("page")).count() > levels);
        let image_before = image(&before);

        let deleted = commit(&store, |transaction| transaction.delete(id("top")).unwrap());
        assert_eq!(store.snapshot().len(), 4);
        assert_ne!(store.snapshot(), before);
        commit(&store, |transaction| {
            undo(transaction, &deleted.changes).unwrap()
        });
        assert_eq!(store.snapshot(), before);
        assert_eq!(image(&store.snapshot()), image_before);
        commit(&store, |transaction| {
            redo(transaction, &deleted.changes).unwrap()
        });
        commit(&other, |transaction| {
            redo(transaction, &deleted.changes).unwrap()
        });
        assert_eq!(store.snapshot(), other.snapshot());
    });
}

/// How often each kind is tried on each node.
const ROUNDS: u64 = if cfg!(debug_assertions) { 1 } else { 4 };

/// Runs operations, which must end, as must their undo. Returns whether they succeeded.
fn comes_to_an_end(store: &DataStore, operations: impl IntoOperations) -> bool {
    let operations = operations.into_operations();
    let shown = format!("{operations:?}");
    let began = Instant::now();
    let mut transaction = store.begin("ann").unwrap();
    let outcome = transaction.attempt(|transaction| transaction.run(operations));
    let changes = transaction.changes().to_vec();
    undo(&mut transaction, &changes).unwrap();
    transaction.rollback();
    assert!(began.elapsed() < LONG, "{:?}: {shown}", began.elapsed());
    outcome.is_ok()
}

#[test]
fn tree_04_no_operation_overflows_the_stack_at_a_hundred_thousand_levels() {
    on_a_small_stack(|| {
        let store = deep();
        let before = store.snapshot();
        let mut ids: Vec<NodeId> = before.nodes().map(|node| node.id().clone()).collect();
        ids.sort();
        let ids: Arc<[NodeId]> = ids.into();
        let kinds = Kind::VARIANTS.iter().filter(|kind| kind.is_on_a_node());
        let mut fitted = HashSet::new();
        for (kind, round) in kinds.flat_map(|kind| (0..ROUNDS).map(move |round| (kind, round))) {
            for (aim, _) in AIMS {
                let mut generator = Generator::among(&before, Arc::clone(&ids), round);
                let operation = generator.on(*kind, &id(aim)).on(aim);
                if comes_to_an_end(&store, operation) {
                    fitted.insert(kind.name());
                }
            }
        }
        assert!(fitted.len() > 40, "hardly anything fits: {fitted:?}");
        assert_eq!(store.snapshot(), before);
    });
}

#[test]
fn tree_04_ranges_over_a_hundred_thousand_levels_do_not_overflow_the_stack() {
    on_a_small_stack(|| {
        let store = deep();
        let before = store.snapshot();
        let through = || TextSpan::to(1, "bottom", 3);
        for operation in [
            delete_range(through()),
            apply_mark("em", through()),
            remove_mark("bold", through()),
            toggle_mark("bold", through()),
            update_mark("bold", [("k", json!(1))], through()),
            clear_formatting(through()),
            copy_range(through()),
            cut_range(through()),
            select_range(through()),
        ] {
            assert!(comes_to_an_end(&store, operation.on("top")));
        }
        let pasted = [
            copy_range(through()).on("top"),
            paste(2).on("bottom"),
            paste(2).on("top"),
        ];
        assert!(comes_to_an_end(&store, pasted));
        let bottom_up = (delete_range(TextSpan::to(0, "top", 1)).on("bottom"),);
        assert!(!comes_to_an_end(&store, bottom_up));
        assert_eq!(store.snapshot(), before);
    });
}
