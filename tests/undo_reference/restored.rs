//! Editors that end and are followed by others, which restore their histories.

use crate::common::Dice;
use crate::search::{History, Trace, search};
use crate::setting::Setting;
use crate::{text_steps, texts, tree_steps, trees};

/// Some stores compose all commits that every editor has read.
fn setting<S>(history: &History<S>) -> Setting {
    Setting {
        kept: 1 << 20,
        log_limit: if history.end.is_multiple_of(2) {
            1 << 20
        } else {
            0
        },
        on_nodes: history.end & 16 == 0,
        ..Setting::PLAIN
    }
}

fn test_texts(name: &str, people: usize, longest: usize) {
    let draw = |dice: &mut Dice| text_steps::history(dice, people, longest, true);
    let run =
        |history: &History<_>, trace: &mut Trace| texts::run(history, setting(history), trace);
    search(name, draw, run);
}

fn test_trees(name: &str, people: usize, longest: usize) {
    let draw = |dice: &mut Dice| tree_steps::history(dice, people, longest, true);
    let run =
        |history: &History<_>, trace: &mut Trace| trees::run(history, setting(history), trace);
    search(name, draw, run);
}

#[test]
fn restored_texts_long_one() {
    test_texts("restored_texts_long_one", 1, 40);
}

#[test]
fn restored_texts_short_two() {
    test_texts("restored_texts_short_two", 2, 8);
}

#[test]
fn restored_texts_long_three() {
    test_texts("restored_texts_long_three", 3, 40);
}

#[test]
fn restored_trees_long_one() {
    test_trees("restored_trees_long_one", 1, 30);
}

#[test]
fn restored_trees_short_two() {
    test_trees("restored_trees_short_two", 2, 8);
}

#[test]
fn restored_trees_long_three() {
    test_trees("restored_trees_long_three", 3, 30);
}
