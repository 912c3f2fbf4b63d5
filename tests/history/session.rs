//! Four editors edit one document of many blocks at random and undo: few undos are refused.

use std::collections::BTreeMap;
use std::time::Duration;

use doclock::{
    DataStore, Draft, Editor, NodeId, View,
    document::{Mark, SplitPoint, check},
    dsl::*,
    history::{HistoryOptions, UndoError},
};

use crate::common::{Dice, store};

const STEPS: usize = 2_000;

/// One random edit of a block of the page.
pub(crate) fn edit(dice: &mut Dice, editor: &Editor) {
    let document = editor.store().snapshot();
    let blocks: Vec<NodeId> = document
        .children("page")
        .map(|node| node.id().clone())
        .collect();
    let nth = dice.below(blocks.len());
    let (id, what) = (blocks[nth].clone(), dice.below(100));
    let (start, length, place) = (dice.below(1_000), dice.below(6), dice.below(blocks.len()));
    let len = document.node(&id).unwrap().text().len();
    let start = start % (len + 1);
    let range = start..(start + length).min(len);
    let next = blocks.get(nth + 1).cloned();
    let run = move |on: &mut Draft| match what {
        0..45 => on.insert_text(&id, start, "abcdef"[..=length.min(5)].to_owned()),
        45..58 => on.delete_text(&id, range.clone()),
        58..74 => {
            let at = SplitPoint {
                text: start,
                children: 0,
            };
            on.split_node(&id, at, None).map(drop)
        }
        74..88 => match &next {
            Some(next) => on.join_nodes(&id, next),
            None => Ok(()),
        },
        88..96 => on.set_marks(&id, [Mark::new("bold", range.clone())]),
        96..98 => on.move_node(&id, "page", place),
        98 if place > 0 => on.delete(&id),
        _ => on
            .insert(text_node("item", "new block"), "page", place)
            .map(drop),
    };
    editor.execute(op(run)).unwrap();
}

/// Four editors of a page of four blocks, whose typing forms no groups.
pub(crate) fn four_editors(store: &DataStore) -> [Editor; 4] {
    let blocks = (0..4).map(|_| text_node("item", "The quick brown fox jumps over the lazy dog"));
    let page = element("page", blocks).with_id("page");
    Editor::new(store.clone(), "setup")
        .execute(create(page))
        .unwrap();
    let options = HistoryOptions::new().group_interval(Duration::ZERO);
    ["ann", "ben", "carl", "dora"]
        .map(|name| Editor::new(store.clone(), name).with_history(options.clone()))
}

/// Returns how many undos there were, and how many were refused, by the code of the conflict.
fn session(seed: u64) -> (usize, BTreeMap<String, usize>) {
    let dice = &mut Dice(seed);
    let store = store();
    let editors = four_editors(&store);
    let (mut undos, mut refused) = (0, BTreeMap::new());
    for _ in 0..STEPS {
        let editor = &editors[dice.below(4)];
        let outcome = match dice.below(20) {
            0..8 => editor.undo().commit(),
            8..10 => editor.redo().commit(),
            _ => {
                edit(dice, editor);
                continue;
            }
        };
        match outcome {
            Err(UndoError::NothingToUndo | UndoError::NothingToRedo) => continue,
            Err(UndoError::Conflict { conflict, .. }) => {
                *refused.entry(conflict.code().to_owned()).or_default() += 1;
            }
            outcome => drop(outcome.unwrap()),
        }
        undos += 1;
    }
    assert_eq!(check(&store.snapshot()), Ok(()));
    (undos, refused)
}

/// Once a split, a join or a mark by another editor refused the undo of the text around it: 14.6 %
/// of the undos in this session. Later 2.5 % were refused, mostly because nothing was left to undo.
/// Now 0.5 % are, as in a hundred of these sessions.
#[test]
fn undo_03_few_undos_in_a_shared_document_are_refused() {
    let (mut undos, mut refused) = (0, BTreeMap::new());
    for seed in 0..10 {
        let (more, refusals) = session(seed);
        undos += more;
        for (code, count) in refusals {
            *refused.entry(code).or_insert(0) += count;
        }
    }
    let total: usize = refused.values().sum();
    println!("{undos} undos and redos, {total} refused: {refused:?}");
    assert!(
        total * 1_000 <= 5 * undos,
        "{total} of {undos} refused: {refused:?}"
    );
}
