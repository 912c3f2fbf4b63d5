//! The editors: each a thread that plans, runs its plan as one transaction, and looks at what became of it.

use doclock::dsl::transaction;
use doclock::{
    DataStore, EditError, Editor, OperationError, TransactionError, TransactionResult, View,
};
use indicatif::ProgressBar;

use crate::doom::{self, Doom};
use crate::plan::{Plan, Planner};
use crate::random::Random;
use crate::session::{Tally, Worker};

/// So many editors, who share the transactions, on a document of so many nodes.
pub fn workers(
    editors: usize,
    transactions: usize,
    seed: u64,
    nodes: usize,
) -> Vec<Worker<'static>> {
    doom::silence_planned_panics();
    let mut random = Random::new(seed);
    let worker = |nth: usize| -> Worker<'static> {
        let name = format!("editor-{}", nth + 1);
        let share = transactions / editors + usize::from(nth < transactions % editors);
        let mut planner = Planner::new(name.clone(), random.split(), nodes);
        Box::new(move |store, progress| edit(store, &name, share, &mut planner, progress))
    };
    (0..editors).map(worker).collect()
}

fn edit(
    store: &DataStore,
    name: &str,
    transactions: usize,
    planner: &mut Planner,
    progress: &ProgressBar,
) -> Tally {
    let editor = Editor::new(store.clone(), name);
    let mut tally = Tally::default();
    for _ in 0..transactions {
        let Plan { operations, doom } = planner.next(&store.snapshot());
        let result = transaction(&editor, operations).commit();
        judge(result, doom.as_ref(), store, &mut tally);
        progress.inc(1);
    }
    tally
}

fn judge(
    result: Result<TransactionResult, TransactionError>,
    doom: Option<&Doom>,
    store: &DataStore,
    tally: &mut Tally,
) {
    match (result, doom) {
        (Ok(_), None) => tally.committed += 1,
        (Ok(_), Some(doom)) => tally.surprise(format_args!("{doom:?} was committed")),
        (Err(_), Some(doom)) if store.snapshot().contains(&doom.scratch) => {
            tally.surprise(format_args!("{doom:?} was not rolled back"));
        }
        (Err(error), Some(doom)) if doom.is_met_by(&error) => tally.rolled_back += 1,
        (Err(error), doom)
            if doom.is_none_or(|doom| doom.is_ahead_of(&error)) && is_stale(&error) =>
        {
            tally.stale += 1;
        }
        (Err(error), _) => tally.surprise(error),
    }
}

/// Whether a plan can have failed in this way because another editor was faster.
fn is_stale(error: &TransactionError) -> bool {
    use EditError::*;
    let TransactionError::Operation { cause, .. } = error else {
        return false;
    };
    matches!(
        cause,
        OperationError::Edit(
            NodeNotFound { .. }
                | TextOutOfRange { .. }
                | IndexOutOfRange { .. }
                | NotAChild { .. }
                | Cycle { .. }
        )
    )
}
