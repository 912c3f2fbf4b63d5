//! Editors that lock nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use doclock::document::{EditError, Selection};
use doclock::dsl::*;
use doclock::history::{HistoryOptions, UndoError};
use doclock::lock::{LockError, node::Scope};
use doclock::transaction::{IntoOperations, TransactionResult};
use doclock::{DataStore, Draft, Editor, TransactionManager, View};

use crate::common::Dice;
use crate::{document, patient, until_waiting};

fn editor(store: &DataStore, name: &str) -> Editor {
    let options = HistoryOptions::new().group_interval(Duration::ZERO);
    let editor = Editor::new(store.clone(), name).with_history(options);
    editor.with_node_locks(3)
}

fn text(store: &DataStore, id: &str) -> String {
    store.snapshot().node(id).unwrap().text().to_string()
}

fn write(id: &str) -> Scope {
    Scope::new().write(id)
}

#[test]
fn node_locks_07_an_editor_edits_and_undoes_beside_a_job_on_other_nodes() {
    let store = document();
    let ann = editor(&store, "ann");
    let job = store.begin_on("job", Scope::new().write_subtree("b"));
    let job = job.unwrap();
    thread::scope(|threads| {
        threads.spawn(|| {
            let typing = ann.transaction(insert_text(0, "x").on("a1"));
            typing.timeout(Duration::ZERO).commit().unwrap();
            assert_eq!(text(&store, "a1"), "xa1");
            ann.undo().timeout(Duration::ZERO).commit().unwrap();
            assert_eq!(text(&store, "a1"), "a1");
            ann.redo().timeout(Duration::ZERO).commit().unwrap();
            assert_eq!(text(&store, "a1"), "xa1");
        });
    });
    job.commit().unwrap();
}

#[test]
fn node_locks_07_tasks_edit_and_undo_beside_a_job_on_other_nodes() {
    let store = document();
    let ann = editor(&store, "ann");
    let job = store.begin_on("job", Scope::new().write_subtree("b"));
    let job = job.unwrap();
    thread::scope(|threads| {
        threads.spawn(|| {
            pollster::block_on(async {
                let typing = ann.transaction(insert_text(0, "x").on("a1"));
                typing.timeout(Duration::ZERO).await.unwrap();
                ann.undo().timeout(Duration::ZERO).await.unwrap();
                assert_eq!(text(&store, "a1"), "a1");
                ann.redo().timeout(Duration::ZERO).await.unwrap();
                assert_eq!(text(&store, "a1"), "xa1");
            });
        });
    });
    job.commit().unwrap();
}

#[test]
fn node_locks_07_an_undo_waits_for_its_nodes_alone() {
    let store = document();
    let ann = editor(&store, "ann");
    ann.execute(insert_text(2, "x").on("a1")).unwrap();
    let mut job = store.begin_on("job", write("a1")).unwrap();
    job.insert_text("a1", 0, "job ").unwrap();
    thread::scope(|threads| {
        let refused = threads.spawn(|| ann.undo().timeout(Duration::ZERO).commit());
        let refused = refused.join().unwrap();
        assert!(
            matches!(refused, Err(UndoError::Lock(LockError::WouldBlock { .. }))),
            "{refused:?}"
        );
        let waiting = threads.spawn(|| ann.undo().commit().unwrap());
        until_waiting(&store.node_locks(), 1);
        job.commit().unwrap();
        waiting.join().unwrap();
    });
    assert_eq!(text(&store, "a1"), "job a1");
    assert_eq!((ann.undo_depth(), ann.redo_depth()), (0, 1));
}

/// The entry without an effect was undone, though the call failed.
#[test]
fn undo_02_an_undo_on_nodes_that_goes_on_and_fails_leaves_the_history() {
    let store = document();
    let options = HistoryOptions::new().undo_next_effective(true);
    let ann = editor(&store, "ann").with_history(options.group_interval(Duration::ZERO));
    let bob = editor(&store, "bob");
    ann.execute(insert_text(2, "x").on("a1")).unwrap();
    for letter in ["y", "z"] {
        ann.execute(insert_text(2, letter).on("b1")).unwrap();
    }
    bob.execute(delete_text_range(2, 4).on("b1")).unwrap();
    let events = ann.history_events();
    let job = store.begin_on("job", write("a1")).unwrap();
    thread::scope(|threads| {
        let refused = threads.spawn(|| ann.undo().timeout(Duration::ZERO).commit());
        let refused = refused.join().unwrap();
        let is_refused = matches!(refused, Err(UndoError::Lock(LockError::WouldBlock { .. })));
        assert!(is_refused, "{refused:?}");
    });
    job.commit().unwrap();
    assert_eq!((ann.undo_depth(), ann.redo_depth()), (3, 0));
    assert_eq!(events.try_iter().count(), 0);

    // The letters return, so their entries are in effect.
    bob.undo().commit().unwrap();
    assert_eq!(text(&store, "b1"), "b1zy");
    bob.redo().commit().unwrap();
    assert!(ann.undo().commit().unwrap().changed);
    assert_eq!((ann.undo_depth(), ann.redo_depth()), (0, 3));
    assert_eq!(events.try_iter().count(), 3);
    bob.undo().commit().unwrap();
    let both = || (text(&store, "a1"), text(&store, "b1"));
    assert_eq!(both(), ("a1".to_owned(), "b1".to_owned()));
    for (a1, b1) in [("a1x", "b1"), ("a1x", "b1y"), ("a1x", "b1zy")] {
        ann.redo().commit().unwrap();
        assert_eq!(both(), (a1.to_owned(), b1.to_owned()));
    }
}

#[test]
fn node_locks_07_a_task_that_drops_its_undo_while_that_waits_has_undone_nothing() {
    let store = document();
    let ann = editor(&store, "ann");
    ann.execute(insert_text(2, "x").on("a1")).unwrap();
    let job = store.begin_on("job", write("a1")).unwrap();
    thread::scope(|threads| {
        threads.spawn(|| {
            let mut undo = pin!(ann.undo().into_future());
            let mut context = Context::from_waker(Waker::noop());
            assert!(undo.as_mut().poll(&mut context).is_pending());
            assert_eq!(store.node_locks().stats().waiting, 1);
        });
    });
    assert_eq!(store.node_locks().stats().waiting, 0);
    job.commit().unwrap();
    assert_eq!((ann.undo_depth(), ann.redo_depth()), (1, 0));
    ann.undo().commit().unwrap();
    assert_eq!(text(&store, "a1"), "a1");
}

#[test]
fn node_locks_07_an_undo_that_runs_code_holds_the_document() {
    let store = document();
    let ann = editor(&store, "ann");
    let code = op_with_inverse(
        |draft: &mut Draft| draft.insert_text("a1", 0, "x"),
        |draft: &mut Draft| draft.insert_text("a1", 0, "undone "),
    );
    ann.execute(code).unwrap();
    let job = store.begin_on("job", write("b1")).unwrap();
    thread::scope(|threads| {
        let refused = threads.spawn(|| ann.undo().timeout(Duration::ZERO).commit());
        let refused = refused.join().unwrap();
        assert!(matches!(refused, Err(UndoError::Lock(_))), "{refused:?}");
    });
    drop(job);
    ann.undo().commit().unwrap();
    assert_eq!(text(&store, "a1"), "undone a1");
}

/// Both wait for the nodes of the same entry.
#[test]
fn node_locks_07_of_two_undos_with_one_key_one_undoes() {
    let store = document();
    let ann = editor(&store, "ann");
    for letter in ["x", "y"] {
        ann.execute(insert_text(0, letter).on("a1")).unwrap();
    }
    let job = store.begin_on("job", write("a1")).unwrap();
    let versions = thread::scope(|threads| {
        let undo = |waiting| {
            let undo = threads.spawn(|| ann.undo().idempotent("key").commit().unwrap().version);
            until_waiting(&store.node_locks(), waiting);
            undo
        };
        let undos = [1, 2].map(undo);
        job.commit().unwrap();
        undos.map(|undo| undo.join().unwrap())
    });
    assert_eq!(versions[0], versions[1]);
    assert_eq!(text(&store, "a1"), "xa1");
    assert_eq!((ann.undo_depth(), ann.redo_depth()), (1, 1));
}

#[test]
fn node_locks_07_a_repeated_undo_with_a_key_undoes_once() {
    let store = document();
    let ann = editor(&store, "ann");
    for letter in ["x", "y"] {
        ann.execute(insert_text(0, letter).on("a1")).unwrap();
    }
    let first = ann.undo().idempotent("key").commit().unwrap();
    let again = ann.undo().idempotent("key").commit().unwrap();
    assert_eq!((again.version, again.repeated), (first.version, true));
    assert_eq!(text(&store, "a1"), "xa1");
}

type Code = fn(&mut Draft) -> Result<(), EditError>;

/// Runs a batch of code, which has to wait for `a1`: a job holds that, inserts a text, and commits
/// after what happens `meanwhile`. Returns the result, and the selection that the code had in the
/// end.
fn run_late(
    editor: &Editor,
    code: Code,
    meanwhile: impl FnOnce(),
) -> (TransactionResult, Option<Selection>) {
    let store = editor.store();
    let job = store.request_transaction("job").on(write("a1"));
    // This thread may take other nodes meanwhile.
    let mut job = job.options(patient().unbound()).wait().unwrap();
    job.insert_text("a1", 0, "job ").unwrap();
    let (told, tells) = mpsc::channel();
    let batch = op(move |draft: &mut Draft| {
        code(draft)?;
        told.send(draft.selection().cloned()).unwrap();
        Ok::<(), EditError>(())
    });
    thread::scope(|threads| {
        let running = threads.spawn(|| editor.execute(batch).unwrap());
        until_waiting(&store.node_locks(), 1);
        meanwhile();
        job.commit().unwrap();
        (running.join().unwrap(), tells.recv().unwrap())
    })
}

/// Edits `b2`, then `a1`.
fn edit_both(draft: &mut Draft) -> Result<(), EditError> {
    draft.insert_text("b2", 0, "-")?;
    draft.insert_text("a1", 0, "x")?;
    Ok(())
}

fn caret(id: &str, offset: usize) -> Option<Selection> {
    Some(Selection::caret(id, offset))
}

/// Another user, who commits beside them.
fn beside(store: &DataStore, operation: impl IntoOperations) {
    let manager = TransactionManager::for_owner(store.clone(), "bob").with_node_locks(3);
    manager.execute(operation).unwrap();
}

#[test]
fn node_locks_07_the_selection_moves_with_commits_that_a_batch_waits_for() {
    let ann = editor(&document(), "ann");
    ann.select(caret("a1", 1)).unwrap();
    let (result, selection) = run_late(&ann, edit_both, || ());
    // Behind "job ", then behind "x" too.
    let [before, after] = [5, 6].map(|offset| caret("a1", offset));
    assert_eq!(selection, after);
    assert_eq!(result.selection_before, before);
    assert_eq!(result.selection_after, after);
    assert_eq!(ann.selection(), after);
}

/// Otherwise the edit would be at a place of an older version.
#[test]
fn node_locks_07_code_that_has_read_a_selection_that_moved_runs_again() {
    let store = document();
    let ann = editor(&store, "ann");
    ann.select(caret("a1", 1)).unwrap();
    let typing: Code = |draft| {
        let Some(Selection::Text(caret)) = draft.selection().cloned() else {
            panic!("there is a caret");
        };
        draft.insert_text("b2", 0, "-")?;
        draft.insert_text(&caret.focus.node_id, caret.focus.offset, "x")?;
        Ok(())
    };
    run_late(&ann, typing, || ());
    assert_eq!(text(&store, "a1"), "job ax1");
    assert_eq!(text(&store, "b2"), "-b2");
}

#[test]
fn node_locks_07_a_selection_of_a_savepoint_moves_with_commits_since() {
    let ann = editor(&document(), "ann");
    ann.select(caret("a1", 1)).unwrap();
    let code: Code = |draft| {
        let savepoint = draft.savepoint();
        let failed = draft.attempt(|draft| {
            draft.insert_text("a1", 0, "lost")?;
            draft.delete("nowhere")
        });
        failed.unwrap_err();
        draft.insert_text("b2", 0, "-")?;
        draft.rollback_to(savepoint).unwrap();
        draft.insert_text("b1", 0, "-")?;
        Ok(())
    };
    let (_, selection) = run_late(&ann, code, || ());
    assert_eq!(selection, caret("a1", 5));
    assert_eq!(ann.selection(), caret("a1", 5));
}

#[test]
fn node_locks_07_a_selection_that_a_batch_sets_moves_with_commits_of_others() {
    for before in [None, caret("b1", 0)] {
        let store = document();
        let ann = editor(&store, "ann");
        ann.select(before).unwrap();
        let code: Code = |draft| {
            draft.select(Selection::caret("a2", 2))?;
            edit_both(draft)
        };
        let (result, _) = run_late(&ann, code, || {
            beside(&store, insert_text(0, "bob").on("a2"))
        });
        assert_eq!(result.selection_after, caret("a2", 5));
        assert_eq!(ann.selection(), caret("a2", 5));
    }
}

#[test]
fn node_locks_07_a_selection_whose_node_is_deleted_meanwhile_is_gone() {
    let store = document();
    let ann = editor(&store, "ann");
    ann.select(caret("a2", 1)).unwrap();
    let (result, _) = run_late(&ann, edit_both, || beside(&store, delete_node().on("a2")));
    assert_eq!(
        (result.selection_before, result.selection_after),
        (None, None)
    );
}

/// One in a node that is there, and one in a node that is newer than what the batch has read.
#[test]
fn node_locks_07_a_selection_that_is_set_while_a_batch_runs_is_kept() {
    for before in [None, caret("a1", 1)] {
        for (id, offset, then) in [("b2", 1, 2), ("new", 3, 3)] {
            let store = document();
            let ann = editor(&store, "ann");
            ann.select(before.clone()).unwrap();
            let set = || {
                let new = text_node("paragraph", "new").with_id("new");
                beside(&store, add_child(new, None).on("b"));
                ann.select(caret(id, offset)).unwrap();
            };
            let code: Code = |draft| {
                draft.select(Selection::caret("a2", 0))?;
                edit_both(draft)
            };
            let (result, _) = run_late(&ann, code, set);
            // Behind the "-" of the batch.
            assert_eq!(result.selection_after, caret(id, then));
            assert_eq!(ann.selection(), caret(id, then));
        }
    }
}

/// As if the batches had run one after the other, in the order of their versions.
#[test]
fn node_locks_07_of_two_batches_of_an_editor_the_later_one_selects() {
    let other = |ann: &Editor| {
        let select = set_selection(Selection::caret("a2", 1));
        let edit = insert_text(2, "!").on("a2");
        ann.execute(vec![edit, select]).unwrap();
    };
    let ann = editor(&document(), "ann");
    run_late(&ann, edit_both, || other(&ann));
    assert_eq!(ann.selection(), caret("a2", 1));
    let code: Code = |draft| {
        edit_both(draft)?;
        draft.select(Selection::caret("b2", 0)).map(drop)
    };
    run_late(&ann, code, || other(&ann));
    assert_eq!(ann.selection(), caret("b2", 0));
}

#[test]
fn node_locks_07_a_batch_that_copies_nothing_keeps_a_clipboard_that_is_set_meanwhile() {
    let store = document();
    let ann = editor(&store, "ann");
    let [first, second] = ["a2", "b1"].map(|id| {
        let other = Editor::new(store.clone(), "other");
        other.execute(copy_range(..).on(id)).unwrap();
        other.clipboard()
    });
    ann.set_clipboard(first);
    run_late(&ann, edit_both, || ann.set_clipboard(second.clone()));
    assert_eq!(ann.clipboard(), second);
}

/// What a transaction of an editor did.
enum Deed {
    Typed(char),
    Undone,
    Redone,
}

const NODES: [&str; 4] = ["a1", "a2", "b1", "b2"];

/// Does one random thing, with a letter of its own. Returns what it was, if that changed anything.
fn act(editor: &Editor, dice: &mut Dice, letter: char) -> Option<(u64, Deed)> {
    let (id, text) = (NODES[dice.below(4)], letter.to_string());
    let (outcome, deed) = match dice.below(8) {
        0 | 1 => (done(editor.undo().commit()), Deed::Undone),
        2 => (done(editor.redo().commit()), Deed::Redone),
        3 => {
            editor.select(Selection::caret(id, 0)).unwrap();
            return None;
        }
        // By code, which locks while it runs.
        4 => {
            let code = op(move |on: &mut Draft| on.insert_text(id, 0, text.as_str()));
            (Some(editor.execute(code).unwrap()), Deed::Typed(letter))
        }
        _ => {
            let typed = insert_text(0, text).on(id);
            (Some(editor.execute(typed).unwrap()), Deed::Typed(letter))
        }
    };
    Some((outcome?.version, deed))
}

/// The result, unless there was nothing to undo or redo.
fn done(outcome: Result<TransactionResult, UndoError>) -> Option<TransactionResult> {
    match outcome {
        Err(UndoError::NothingToUndo | UndoError::NothingToRedo) => None,
        outcome => Some(outcome.unwrap()),
    }
}

/// Takes nodes and the document, and edits beside the editors.
fn disturb(store: &DataStore, dice: &mut Dice) {
    let id = NODES[dice.below(4)];
    match dice.below(3) {
        0 => drop(store.begin_on("job", write(id)).unwrap()),
        1 => drop(store.lock("job").unwrap()),
        _ => {
            let note = create(text_node("note", "beside"));
            let manager = TransactionManager::new(store.clone());
            manager.execute(note).unwrap();
        }
    }
}

/// Two threads for each of three editors type letters that are all different, undo and redo.
/// Replayed in the order of versions, with two stacks for each editor, the results tell which
/// letters are there.
#[test]
fn node_locks_07_a_history_is_in_the_order_of_versions_whichever_threads_submit() {
    const STEPS: u32 = 30;
    let variable = |name, or| std::env::var(name).map_or(or, |it| it.parse().unwrap());
    let (first, count) = (variable("SEED", 1), variable("DOCLOCK_HISTORIES", 20));
    for seed in first..first + count {
        println!("SEED={seed}");
        let store = document();
        let editors = ["ann", "bob", "cat"].map(|name| editor(&store, name));
        let type_letters = |nth: u32| {
            let who = nth as usize % 3;
            let mut dice = Dice(seed * 100 + u64::from(nth));
            let letters = (0..STEPS).map(|step| 0x1000 + nth * STEPS + step);
            let letters = letters.filter_map(char::from_u32);
            let deeds = letters.filter_map(|letter| act(&editors[who], &mut dice, letter));
            let deeds = deeds.map(|(version, deed)| (version, (who, deed)));
            deeds.collect::<Vec<_>>()
        };
        let deeds: BTreeMap<u64, (usize, Deed)> = thread::scope(|threads| {
            let type_letters = &type_letters;
            let typing = [0, 1, 2, 3, 4, 5].map(|nth| threads.spawn(move || type_letters(nth)));
            let mut dice = Dice(seed);
            (0..20).for_each(|_| disturb(&store, &mut dice));
            let deeds = typing.into_iter().flat_map(|typing| typing.join().unwrap());
            deeds.collect()
        });
        let mut stacks: [[Vec<char>; 2]; 3] = Default::default();
        for (who, deed) in deeds.into_values() {
            let [undo, redo] = &mut stacks[who];
            match deed {
                Deed::Typed(letter) => {
                    undo.push(letter);
                    redo.clear();
                }
                Deed::Undone => redo.push(undo.pop().expect("an entry to undo")),
                Deed::Redone => undo.push(redo.pop().expect("an entry to redo")),
            }
        }
        let in_effect: BTreeSet<char> = stacks.iter().flat_map(|[undo, _]| undo.clone()).collect();
        let texts = NODES.map(|id| text(&store, id)).concat();
        let letters: BTreeSet<char> = texts.chars().filter(|it| *it >= '\u{1000}').collect();
        assert_eq!(letters, in_effect, "seed {seed}");
        for (editor, [undo, redo]) in editors.iter().zip(&stacks) {
            let depths = (editor.undo_depth(), editor.redo_depth());
            assert_eq!(depths, (undo.len(), redo.len()), "seed {seed}");
        }
        assert!(store.node_locks().holders().is_empty());
    }
}
