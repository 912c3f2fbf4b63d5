//! The editors: each is a thread that makes a plan, runs it as one transaction, and checks the
//! result.

use doclock::dsl::transaction;
use doclock::{
    DataStore, Editor, View,
    document::EditError,
    history::UndoError,
    transaction::{OperationError, TransactionError, TransactionResult},
};
use indicatif::ProgressBar;

use crate::doom::{self, Doom};
use crate::plan::{Mood, Plan, Planner};
use crate::random::Random;
use crate::session::{Tally, Worker};

/// The editors, which share the transactions, on a document of so many nodes.
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
        let alone = editors == 1;
        let share = transactions / editors + usize::from(nth < transactions % editors);
        let mut planner = Planner::new(name.clone(), random.split(), nodes);
        Box::new(move |store, progress| edit(store, &name, share, &mut planner, alone, progress))
    };
    (0..editors).map(worker).collect()
}

fn edit(
    store: &DataStore,
    name: &str,
    transactions: usize,
    planner: &mut Planner,
    alone: bool,
    progress: &ProgressBar,
) -> Tally {
    let editor = Editor::new(store.clone(), name);
    let mut tally = Tally::default();
    for _ in 0..transactions {
        if take_back(&editor, planner.mood(), &mut tally) {
            progress.inc(1);
            continue;
        }
        let Plan { operations, doom } = planner.next(&store.snapshot());
        let result = transaction(&editor, operations).commit();
        judge(result, doom.as_ref(), store, alone, &mut tally);
        progress.inc(1);
    }
    tally
}

/// Undoes or redoes an entry, if the mood is right and there is an entry.
fn take_back(editor: &Editor, mood: Mood, tally: &mut Tally) -> bool {
    let (result, stuck): (_, fn(&Editor) -> bool) = match mood {
        Mood::Undo if editor.can_undo() => (editor.undo(), Editor::discard_undo),
        Mood::Redo if editor.can_redo() => (editor.redo(), Editor::discard_redo),
        _ => return false,
    };
    match result {
        Ok(result) if result.changed => {
            tally.committed += 1;
            tally.undone += 1;
        }
        Ok(_) => tally.surprise("an undo changed nothing"),
        Err(UndoError::Conflict { .. }) => {
            tally.conflicts += 1;
            // An editor that cannot undo the last entry undoes the one before it.
            stuck(editor);
        }
        Err(error) => tally.surprise(error),
    }
    true
}

fn judge(
    result: Result<TransactionResult, TransactionError>,
    doom: Option<&Doom>,
    store: &DataStore,
    alone: bool,
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
            // A single editor's plans are never stale.
            if !alone
                && doom.is_none_or(|doom| doom.is_ahead_of(&error))
                && is_stale(&error) =>
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
                | NoParent { .. }
                | NotAdjacent { .. }
                | DifferentTrees { .. }
        ) | OperationError::RangeReversed { .. }
            | OperationError::LeftOut { .. }
            | OperationError::NoGrandparent { .. }
            | OperationError::NoItem { .. }
            | OperationError::NotWrapped { .. }
            | OperationError::MarkNotFound { .. }
            | OperationError::VersionConflict { .. }
    )
}
