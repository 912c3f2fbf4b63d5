//! Histories keep few entries, and the store forgets what they can no longer undo or redo.

use crate::common::Dice;
use crate::search::{History, Trace, search};
use crate::setting::Setting;
use crate::{text_steps, texts, tree_steps, trees};

/// Some stores record each commit at once.
fn setting<S>(history: &History<S>) -> Setting {
    Setting {
        limit: 1 + (history.end % 4) as usize,
        records: history.end & 8 == 0,
        on_nodes: history.end & 16 == 0,
        ..Setting::PLAIN
    }
}

fn test_texts(name: &str, people: usize, longest: usize) {
    use text_steps::Action;
    let draw = |dice: &mut Dice| {
        let mut history = text_steps::history(dice, people, longest, false);
        for step in &mut history.steps {
            // Whether an edit joined an entry cannot be told if the oldest one goes.
            match &mut step.action {
                action if dice.one_in(8) => *action = Action::Forget,
                Action::Named(edits) | Action::Merged(edits, _) => {
                    step.action = Action::Edit(std::mem::take(edits));
                }
                action @ Action::Group => *action = Action::Undo,
                _ => {}
            }
        }
        history
    };
    let run =
        |history: &History<_>, trace: &mut Trace| texts::run(history, setting(history), trace);
    search(name, draw, run);
}

fn test_trees(name: &str, people: usize, longest: usize) {
    let draw = |dice: &mut Dice| {
        let mut history = tree_steps::history(dice, people, longest, false);
        for step in &mut history.steps {
            if dice.one_in(8) {
                step.action = tree_steps::Action::Forget;
            }
        }
        history
    };
    let run =
        |history: &History<_>, trace: &mut Trace| trees::run(history, setting(history), trace);
    search(name, draw, run);
}

#[test]
fn limited_texts_short_two() {
    test_texts("limited_texts_short_two", 2, 10);
}

#[test]
fn limited_texts_long_three() {
    test_texts("limited_texts_long_three", 3, 40);
}

#[test]
fn limited_texts_long_four() {
    test_texts("limited_texts_long_four", 4, 40);
}

#[test]
fn limited_trees_short_two() {
    test_trees("limited_trees_short_two", 2, 10);
}

#[test]
fn limited_trees_long_three() {
    test_trees("limited_trees_long_three", 3, 30);
}

#[test]
fn limited_trees_long_four() {
    test_trees("limited_trees_long_four", 4, 30);
}
