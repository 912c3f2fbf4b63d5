//! Stores that record their commits late, and have forgotten some of them, undo as those that
//! record each commit at once.

use crate::common::Dice;
use crate::search::{History, Trace, search};
use crate::setting::{Setting, run_alike};
use crate::{text_steps, texts, tree_steps, trees};

/// Editors that seldom undo leave more to be forgotten.
fn later<A>(dice: &mut Dice, mut history: History<A>, is_undo: impl Fn(&A) -> bool) -> History<A> {
    if dice.one_in(2) {
        let mut left = 6;
        history.steps.retain(|step| {
            left -= usize::from(left > 0 && is_undo(&step.action));
            left > 0 || !is_undo(&step.action)
        });
    }
    history
}

fn test_texts(name: &str, people: usize, longest: usize) {
    let draw = |dice: &mut Dice| {
        let history = text_steps::history(dice, people, longest, false);
        later(dice, history, |it| matches!(it, text_steps::Action::Undo))
    };
    let run = |history: &_, trace: &mut Trace| {
        let others = [Setting::PLAIN];
        run_alike(
            "recorded",
            history,
            Setting::RECORDED,
            &others,
            trace,
            texts::run,
        )
    };
    search(name, draw, run);
}

fn test_trees(name: &str, people: usize, longest: usize) {
    let draw = |dice: &mut Dice| {
        let history = tree_steps::history(dice, people, longest, false);
        later(dice, history, |it| matches!(it, tree_steps::Action::Undo))
    };
    let run = |history: &_, trace: &mut Trace| {
        let others = [Setting::PLAIN];
        run_alike(
            "recorded",
            history,
            Setting::RECORDED,
            &others,
            trace,
            trees::run,
        )
    };
    search(name, draw, run);
}

#[test]
fn recorded_texts_short_two() {
    test_texts("recorded_texts_short_two", 2, 10);
}

#[test]
fn recorded_texts_long_three() {
    test_texts("recorded_texts_long_three", 3, 40);
}

#[test]
fn recorded_trees_short_two() {
    test_trees("recorded_trees_short_two", 2, 12);
}

#[test]
fn recorded_trees_long_three() {
    test_trees("recorded_trees_long_three", 3, 30);
}
