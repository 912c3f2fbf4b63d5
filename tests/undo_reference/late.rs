//! Editors that read the commits of others late, some of them composed, undo as those that read
//! each commit at once.

use crate::common::Dice;
use crate::search::{History, Outcome, Trace, search};
use crate::setting::{Setting, run_alike};
use crate::{text_steps, texts, tree_steps, trees};

/// Lets few editors act for a while, so the others fall behind.
fn idle<A>(dice: &mut Dice, mut history: History<A>) -> History<A> {
    let (mut left, mut active) = (0, [0, 0]);
    for step in &mut history.steps {
        if left == 0 {
            left = 1 + dice.below(8);
            active = [0, 0].map(|_| dice.below(history.people));
        }
        left -= 1;
        step.who = active[dice.below(2)];
    }
    history
}

/// Runs a history with each of these limits of the log, and compares what happened.
fn compare<A>(
    history: &History<A>,
    trace: &mut Trace,
    run: impl Fn(&History<A>, Setting, &mut Trace) -> Outcome,
) -> Outcome {
    let early = Setting {
        reads: true,
        ..Setting::PLAIN
    };
    let late = [1 << 20, 0, 100, 1_000].map(|log_limit| Setting {
        log_limit,
        ..Setting::PLAIN
    });
    run_alike("late", history, early, &late, trace, run)
}

fn test_texts(name: &str, people: usize, longest: usize) {
    let draw = |dice: &mut Dice| {
        let history = text_steps::history(dice, people, longest, false);
        idle(dice, history)
    };
    let run = |history: &_, trace: &mut Trace| compare(history, trace, texts::run);
    search(name, draw, run);
}

fn test_trees(name: &str, people: usize, longest: usize) {
    let draw = |dice: &mut Dice| {
        let history = tree_steps::history(dice, people, longest, false);
        idle(dice, history)
    };
    let run = |history: &_, trace: &mut Trace| compare(history, trace, trees::run);
    search(name, draw, run);
}

#[test]
fn late_texts_short_three() {
    test_texts("late_texts_short_three", 3, 10);
}

#[test]
fn late_texts_long_four() {
    test_texts("late_texts_long_four", 4, 40);
}

#[test]
fn late_trees_short_three() {
    test_trees("late_trees_short_three", 3, 10);
}

#[test]
fn late_trees_long_four() {
    test_trees("late_trees_long_four", 4, 40);
}
