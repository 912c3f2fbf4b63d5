//! The editors: each is a thread that makes a plan, runs it as one transaction, and checks the
//! result.

use doclock::dsl::transaction;
use doclock::{
    DataStore, Editor, View,
    document::EditError,
    history::UndoError,
    transaction::{OperationError, TransactionError, TransactionResult},
};

use crate::doom::{self, Doom};
use crate::plan::{Mood, Plan, Planner};
use crate::random::Random;
use crate::session::{Ended, Tally, Worker};

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
        let random = random.split();
        Box::new(move |store, ended| {
            // A session that created nodes has ended with a later version than it began with.
            let unique = format!("{name}-{}", store.version());
            let mut planner = Planner::new(unique, random, nodes);
            edit(store, &name, share, &mut planner, alone, ended)
        })
    };
    (0..editors).map(worker).collect()
}

/// Edits until an unexpected failure, at most so many transactions.
fn edit(
    store: &DataStore,
    name: &str,
    transactions: usize,
    planner: &mut Planner,
    alone: bool,
    ended: &Ended<'_>,
) -> Tally {
    let editor = Editor::new(store.clone(), name);
    let mut tally = Tally::default();
    for _ in 0..transactions {
        let version = match take_back(&editor, planner.mood(), &mut tally) {
            Some(version) => version,
            None => {
                let Plan { operations, doom } = planner.next(&store.snapshot());
                let result = transaction(&editor, operations).commit();
                judge(result, doom.as_ref(), store, alone, &mut tally)
            }
        };
        ended(version);
        if tally.unexpected > 0 {
            break;
        }
    }
    tally
}

/// Undoes or redoes an entry, if the mood is right and there is an entry. Returns the version of
/// the commit, if it was committed.
fn take_back(editor: &Editor, mood: Mood, tally: &mut Tally) -> Option<Option<u64>> {
    let (result, stuck): (_, fn(&Editor) -> bool) = match mood {
        Mood::Undo if editor.can_undo() => (editor.undo().commit(), Editor::discard_undo),
        Mood::Redo if editor.can_redo() => (editor.redo().commit(), Editor::discard_redo),
        _ => return None,
    };
    match result {
        Ok(result) if result.changed => {
            tally.committed += 1;
            tally.undone += 1;
            return Some(Some(result.version));
        }
        // A transaction that moved a node away and back again has no effect either.
        Ok(_) => tally.without_effect += 1,
        Err(UndoError::Conflict { .. }) => {
            tally.conflicts += 1;
            // An editor that cannot undo the last entry undoes the one before it.
            stuck(editor);
        }
        Err(error) => tally.surprise(error),
    }
    Some(None)
}

/// Counts a transaction. Returns the version of the commit, if it was committed.
fn judge(
    result: Result<TransactionResult, TransactionError>,
    doom: Option<&Doom>,
    store: &DataStore,
    alone: bool,
    tally: &mut Tally,
) -> Option<u64> {
    match (result, doom) {
        (Ok(result), None) => {
            tally.committed += 1;
            return Some(result.version);
        }
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
    None
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
