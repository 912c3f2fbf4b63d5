//! Histories of editors that are restored from kept commits.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use doclock::document::{EditError, Mark, Selection, SplitPoint, check};
use doclock::durable::DurableOptions;
use doclock::history::{HistoryMode, HistoryOptions, UndoError};
use doclock::schema::{NodeType, Schema};
use doclock::transaction::TransactionResult;
use doclock::{DataStore, Draft, Editor, NodeId, StoreOptions, View, dsl::*};

use crate::common::{Dice, image, seed};
use crate::later;
use crate::memory::Memory;

fn kept(bytes: usize) -> DurableOptions {
    let store = StoreOptions::new().kept_commits(bytes);
    later().keep_log(usize::MAX).store(store)
}

/// A store with what the journal has now, as after the end of the process.
fn reopened(memory: &Memory, store: &DataStore, options: DurableOptions) -> DataStore {
    store.wait_durable(store.version()).wait().unwrap();
    memory.copy().open(options)
}

/// A page of four texts, which is in no history.
pub(crate) fn page(store: &DataStore) {
    let blocks = (0..4).map(|_| text_node("item", "The quick brown fox"));
    let mut transaction = store.begin("setup").unwrap();
    let page = element("page", blocks).with_id("page");
    transaction.create(page).unwrap();
    transaction.commit().unwrap();
}

/// A random edit of the page. Returns whether it changed anything.
pub(crate) fn edit(
    dice: &mut Dice,
    store: &DataStore,
    run: impl FnOnce(doclock::transaction::Operation),
) {
    let document = store.snapshot();
    let blocks = document.children("page").map(|node| node.id().clone());
    let blocks: Vec<NodeId> = blocks.collect();
    let nth = dice.below(blocks.len());
    let (id, what) = (blocks[nth].clone(), dice.below(100));
    let (length, place) = (dice.below(6), dice.below(blocks.len()));
    let len = document.node(&id).unwrap().text().len();
    let start = dice.below(len + 1);
    let range = start..(start + length).min(len);
    let next = blocks.get(nth + 1).cloned();
    let edit = move |on: &mut Draft| match what {
        0..40 => on.insert_text(&id, start, "abcdef"[..=length.min(5)].to_owned()),
        40..55 => on.delete_text(&id, range.clone()),
        55..66 => {
            let at = SplitPoint {
                text: start,
                children: 0,
            };
            on.split_node(&id, at, None).map(drop)
        }
        66..76 => match &next {
            Some(next) => on.join_nodes(&id, next),
            None => Ok(()),
        },
        76..86 => on.set_marks(&id, [Mark::new("bold", range.clone())]),
        86..90 => on.move_node(&id, "page", place),
        90..93 => on.set_attrs(&id, [("level", length.into())]),
        93..96 if place > 0 => on.delete(&id),
        _ => on
            .insert(text_node("item", "new block"), "page", place)
            .map(drop),
    };
    run(op(edit));
}

/// Undoes or redoes what can be undone or redone. An editor that has met a stuck entry before
/// passes it by at once; another one first reports it.
fn step(editor: &Editor, undo: bool) -> Option<TransactionResult> {
    let depth = match undo {
        true => editor.undo_depth(),
        false => editor.redo_depth(),
    };
    let go = || match undo {
        true => editor.undo(),
        false => editor.redo(),
    };
    (0..=depth).find_map(|_| match go().commit() {
        Ok(result) => Some(result),
        Err(UndoError::Conflict { .. } | UndoError::NothingToUndo | UndoError::NothingToRedo) => {
            None
        }
        Err(error) => panic!("{error}"),
    })
}

const OWNERS: [&str; 3] = ["ann", "ben", "carl"];

fn editors(store: &DataStore, options: &HistoryOptions) -> [Editor; 3] {
    OWNERS.map(|owner| Editor::new(store.clone(), owner).with_history(options.clone()))
}

/// Without groups, because these are not stored.
#[test]
fn undo_04_a_restored_history_undoes_and_redoes_as_the_editor_would_have_done() {
    let seed = seed();
    let (mut undone, mut entries) = (0, 0);
    'rounds: for round in 0..300 {
        let dice = &mut Dice(seed.wrapping_add(round));
        let memory = Memory::default();
        let options = kept(1 << 24).checkpoint_after([0, 3000, usize::MAX][dice.below(3)]);
        let live = memory.open(options.clone());
        page(&live);
        let history = HistoryOptions::new().group_interval(Duration::ZERO);
        let before = editors(&live, &history);
        for _ in 0..dice.below(80) {
            let editor = &before[dice.below(3)];
            match dice.below(12) {
                turn @ 0..5 => {
                    let result = if turn < 3 {
                        editor.undo().commit()
                    } else {
                        editor.redo().commit()
                    };
                    if result.is_ok_and(|result| !result.changed) {
                        // It is not in the log.
                        continue 'rounds;
                    }
                }
                5 => edit(dice, &live, |edit| {
                    let skipped = transaction(editor, edit).in_history(HistoryMode::Skipped);
                    skipped.commit().unwrap();
                }),
                6 => edit(dice, &live, |edit| {
                    let manager = doclock::TransactionManager::for_owner(live.clone(), "ann");
                    manager.execute(edit).unwrap();
                }),
                7 => {
                    // The selections of entries are stored.
                    let at = live
                        .snapshot()
                        .children("page")
                        .next()
                        .unwrap()
                        .id()
                        .clone();
                    editor.select(Selection::caret(at, 0)).unwrap();
                }
                _ => edit(dice, &live, |edit| drop(editor.execute(edit).unwrap())),
            }
        }
        let store = reopened(&memory, &live, options);
        let after = editors(&store, &history).map(Editor::with_restored_history);
        for (before, after) in before.iter().zip(&after) {
            let depths = |editor: &Editor| (editor.undo_depth(), editor.redo_depth());
            assert_eq!(depths(after), depths(before), "round {round}: {after:?}");
            entries += before.undo_depth();
        }
        let mut left = [true; 3];
        while left.contains(&true) {
            let (nth, undo) = (dice.below(3), !dice.one_in(4));
            let [expected, found] = [&before, &after].map(|all| step(&all[nth], undo));
            assert_eq!(
                image(&store.snapshot()),
                image(&live.snapshot()),
                "round {round}: {expected:?}, {found:?}"
            );
            assert_eq!(found.is_some(), expected.is_some(), "round {round}");
            undone += usize::from(undo && found.is_some());
            if undo {
                left[nth] = found.is_some();
            }
        }
        assert_eq!(check(&store.snapshot()), Ok(()));
    }
    println!("{undone} undos of {entries} entries");
    assert!(entries > 1_000, "{entries} entries");
    assert!(
        undone * 3 > entries * 2,
        "{undone} undos of {entries} entries"
    );
}

/// A single editor returns to documents that it has seen. Groups that were not undone are restored
/// as single commits. A part of a log begins in the middle of a group.
#[test]
fn undo_04_a_restored_history_leads_through_earlier_documents_also_from_a_part_of_the_log() {
    let seed = seed();
    let mut parts = 0;
    'rounds: for round in 0..150 {
        let dice = &mut Dice(seed.wrapping_add(round));
        let memory = Memory::default();
        let live = memory.open(kept(1 << 24));
        page(&live);
        let before = Editor::new(live.clone(), "ann");
        let mut seen = HashSet::from([image(&live.snapshot())]);
        let mut group = None;
        for _ in 0..10 + dice.below(60) {
            match dice.below(12) {
                turn @ 0..5 => {
                    let result = if turn < 3 {
                        before.undo().commit()
                    } else {
                        before.redo().commit()
                    };
                    if result.is_ok_and(|result| !result.changed) {
                        // It is not in the log.
                        continue 'rounds;
                    }
                }
                5 => group = group.is_none().then(|| before.group()),
                _ => edit(dice, &live, |edit| drop(before.execute(edit).unwrap())),
            }
            seen.insert(image(&live.snapshot()));
        }
        drop(group);
        let whole = dice.one_in(2);
        let room = if whole { 1 << 24 } else { 500 << dice.below(5) };
        let store = reopened(&memory, &live, kept(room));
        parts += u64::from(store.commits_since(0).is_err());
        let after = Editor::new(store.clone(), "ann").with_restored_history();
        let mut reached = HashSet::new();
        // Forward, back, and forward again.
        for undo in [false, true, false] {
            while step(&after, undo).is_some() {
                let document = image(&store.snapshot());
                assert!(seen.contains(&document), "round {round}");
                reached.insert(document);
            }
        }
        if whole {
            for undo in [false, true] {
                while step(&before, undo).is_some() {
                    assert!(reached.contains(&image(&live.snapshot())), "round {round}");
                }
            }
            assert_eq!(before.undo_depth(), 0);
        }
    }
    assert!(parts > 20, "{parts} parts");
}

fn text(store: &DataStore) -> String {
    store.snapshot().node("t").unwrap().text().to_string()
}

/// A store with a text that is in no history, and an editor.
fn begin(memory: &Memory) -> (DataStore, Editor) {
    let store = memory.open(kept(1 << 24));
    let mut transaction = store.begin("setup").unwrap();
    let node = text_node("inline-text", "").with_id("t");
    transaction.create(node).unwrap();
    transaction.commit().unwrap();
    let editor = Editor::new(store.clone(), "ann");
    (store, editor)
}

fn type_in(editor: &Editor, text: &str) {
    for letter in text.chars() {
        let len = editor.store().snapshot().node("t").unwrap().text().len();
        let typed = insert_text(len, letter.to_string()).on("t");
        editor.execute(typed).unwrap();
    }
}

fn restored(store: &DataStore, owner: &str) -> Editor {
    Editor::new(store.clone(), owner).with_restored_history()
}

#[test]
fn undo_04_commits_that_were_undone_together_are_restored_together() {
    let memory = Memory::default();
    let (store, ann) = begin(&memory);
    let group = ann.group();
    type_in(&ann, "abc");
    drop(group);
    type_in(&ann, "de");
    ann.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    let store = reopened(&memory, &store, kept(1 << 24));
    let ann = restored(&store, "ann");
    assert_eq!((ann.undo_depth(), ann.redo_depth()), (0, 2));
    ann.redo().commit().unwrap();
    assert_eq!(text(&store), "abc");
    ann.redo().commit().unwrap();
    assert_eq!(text(&store), "abcde");
}

#[test]
fn undo_04_typing_after_a_restart_is_an_entry_of_its_own() {
    let memory = Memory::default();
    let (store, ann) = begin(&memory);
    type_in(&ann, "a");
    let store = reopened(&memory, &store, kept(1 << 24));
    let ann = restored(&store, "ann");
    type_in(&ann, "b");
    assert_eq!(ann.undo_depth(), 2);
}

/// Once restored by two, a deletion would be undone twice, and its text be there twice.
#[test]
fn undo_04_an_edit_is_restored_in_one_history_only() {
    let memory = Memory::default();
    let (store, ann) = begin(&memory);
    type_in(&ann, "abc");
    ann.execute(delete_text_range(0, 3).on("t")).unwrap();
    // The editor that made them still exists.
    assert_eq!(restored(&store, "ann").undo_depth(), 0);
    let store = reopened(&memory, &store, kept(1 << 24));
    let [one, two] = [restored(&store, "ann"), restored(&store, "ann")];
    assert_eq!((one.undo_depth(), two.undo_depth()), (4, 0));
    assert_eq!(restored(&store, "bob").undo_depth(), 0);
    one.undo().commit().unwrap();
    assert_eq!(text(&store), "abc");
    // Its successor goes on, without a restart.
    drop(one);
    let three = two.with_restored_history();
    assert_eq!((three.undo_depth(), three.redo_depth()), (3, 1));
    three.undo().commit().unwrap();
    assert_eq!(text(&store), "ab");
}

/// Ann's commits are older than what is recorded for Bob, so they are recorded during his undo, and
/// the record gets other keys.
#[test]
fn undo_04_a_history_that_is_restored_during_an_undo_knows_of_this_undo() {
    let memory = Memory::default();
    let (store, ann) = begin(&memory);
    ann.execute(insert_text(0, "abc").on("t")).unwrap();
    ann.execute(delete_text_range(1, 2).on("t")).unwrap();
    let store = reopened(&memory, &store, kept(1 << 24));
    let bob = Editor::new(store.clone(), "bob");
    let later: Arc<Mutex<Option<Editor>>> = Arc::default();
    let (weak, of) = (Arc::downgrade(&later), store.clone());
    let restoring = op_with_inverse(
        |_| Ok::<_, EditError>(()),
        move |on| {
            let ann = restored(&of, "ann");
            weak.upgrade().unwrap().lock().unwrap().replace(ann);
            on.insert_text("t", 2, "!")
        },
    );
    let edit = [insert_text(1, "xy").on("t"), restoring];
    transaction(&bob, edit).commit().unwrap();
    assert_eq!(text(&store), "axyc");
    bob.undo().commit().unwrap();
    assert_eq!(text(&store), "ac!");
    let ann = later.lock().unwrap().take().unwrap();
    assert_eq!((ann.undo_depth(), ann.redo_depth()), (2, 0));
    ann.undo().commit().unwrap();
    assert_eq!(text(&store), "abc!");
    bob.redo().commit().unwrap();
    assert_eq!(text(&store), "abxyc");
    ann.undo().commit().unwrap();
    assert_eq!(text(&store), "xy");
    ann.redo().commit().unwrap();
    ann.redo().commit().unwrap();
    assert_eq!(text(&store), "axyc");
}

/// Bob's undo has no effect when he makes it, because his letters are deleted.
#[test]
fn undo_04_kept_commits_are_recorded_with_the_undos_that_changed_nothing() {
    let memory = Memory::default();
    let (store, ann) = begin(&memory);
    type_in(&ann, "ab");
    let store = reopened(&memory, &store, kept(1 << 24));
    let [bob, carl] = ["bob", "carl"].map(|owner| Editor::new(store.clone(), owner));
    bob.execute(insert_text(1, "xy").on("t")).unwrap();
    carl.execute(delete_text_range(1, 3).on("t")).unwrap();
    assert!(!bob.undo().commit().unwrap().changed);
    let ann = restored(&store, "ann");
    carl.undo().commit().unwrap();
    assert_eq!(text(&store), "ab");
    bob.redo().commit().unwrap();
    assert_eq!(text(&store), "axyb");
    ann.undo().commit().unwrap();
    assert_eq!(text(&store), "axy");
}

/// Bob's entry has inverse code, so the versions of its commits do not tell what its undo did.
#[test]
fn undo_04_kept_commits_are_recorded_with_the_undos_that_ran_code() {
    let memory = Memory::default();
    let (store, ann) = begin(&memory);
    type_in(&ann, "ab");
    let store = reopened(&memory, &store, kept(1 << 24));
    let bob = Editor::new(store.clone(), "bob");
    let code = |on: &mut Draft| on.insert_text("t", 1, "xy");
    let inverse = |on: &mut Draft| on.insert_text("t", 0, "!");
    bob.execute(op_with_inverse(code, inverse)).unwrap();
    bob.undo().commit().unwrap();
    assert_eq!(text(&store), "!ab");
    let ann = restored(&store, "ann");
    bob.redo().commit().unwrap();
    assert_eq!(text(&store), "axyb");
    bob.undo().commit().unwrap();
    assert_eq!(text(&store), "!ab");
    ann.undo().commit().unwrap();
    assert_eq!(text(&store), "!a");
    drop(ann);
    let ann = restored(&store, "ann");
    bob.redo().commit().unwrap();
    assert_eq!(text(&store), "axy");
    ann.redo().commit().unwrap();
    assert_eq!(text(&store), "axyb");
}

/// Of an entry of so many commits, not all versions are kept.
#[test]
fn undo_04_kept_commits_are_recorded_with_the_undos_of_long_entries() {
    let memory = Memory::default();
    let (store, ann) = begin(&memory);
    type_in(&ann, "ab");
    let store = reopened(&memory, &store, kept(1 << 24));
    let bob = Editor::new(store.clone(), "bob");
    let group = bob.group();
    for _ in 0..300 {
        bob.execute(insert_text(1, "x").on("t")).unwrap();
    }
    drop(group);
    bob.undo().commit().unwrap();
    assert_eq!(text(&store), "ab");
    let ann = restored(&store, "ann");
    bob.redo().commit().unwrap();
    assert_eq!(text(&store), format!("a{}b", "x".repeat(300)));
    ann.undo().commit().unwrap();
    bob.undo().commit().unwrap();
    assert_eq!(text(&store), "a");
}

#[test]
fn undo_04_code_skipped_edits_and_other_ways_to_commit_are_not_restored() {
    let memory = Memory::default();
    let (store, ann) = begin(&memory);
    type_in(&ann, "a");
    ann.undo().commit().unwrap();
    let code = |on: &mut Draft| on.insert_text("t", 0, "b");
    ann.execute(op_with_inverse(code, |_| Ok::<_, EditError>(())))
        .unwrap();
    let skipped = transaction(&ann, insert_text(1, "c").on("t"));
    skipped.in_history(HistoryMode::Skipped).commit().unwrap();
    let mut by_hand = store.begin("ann").unwrap();
    by_hand.insert_text("t", 2, "d").unwrap();
    by_hand.commit().unwrap();
    let reopen = || restored(&reopened(&memory, &store, kept(1 << 24)), "ann");
    // The edit with code ended what could be redone.
    assert_eq!((reopen().undo_depth(), reopen().redo_depth()), (0, 0));
    ann.undo().commit().unwrap();
    assert_eq!(text(&store), "cd");
    assert_eq!((reopen().undo_depth(), reopen().redo_depth()), (0, 0));
    ann.redo().commit().unwrap();
    type_in(&ann, "e");
    let after = reopen();
    assert_eq!((after.undo_depth(), after.redo_depth()), (1, 0));
    after.undo().commit().unwrap();
    assert_eq!(text(after.store()), "bcd");
}

/// The undo moves the entries to the other stack in the opposite order.
#[test]
fn undo_04_several_entries_that_were_undone_are_redone_after_a_restart() {
    let memory = Memory::default();
    let (store, ann) = begin(&memory);
    let apart = HistoryOptions::new().group_interval(Duration::ZERO);
    let ann = ann.with_history(apart);
    type_in(&ann, "abcd");
    for _ in 0..4 {
        ann.undo().commit().unwrap();
    }
    let store = reopened(&memory, &store, kept(1 << 24));
    let ann = restored(&store, "ann");
    assert_eq!((ann.undo_depth(), ann.redo_depth()), (0, 4));
    for redone in 1..=4 {
        ann.redo().commit().unwrap();
        assert_eq!((ann.undo_depth(), ann.redo_depth()), (redone, 4 - redone));
    }
    assert_eq!(text(&store), "abcd");
}

#[test]
fn undo_04_the_limit_of_the_options_applies() {
    let memory = Memory::default();
    let (store, ann) = begin(&memory);
    type_in(&ann, "abcdef");
    let store = reopened(&memory, &store, kept(1 << 24));
    let options = HistoryOptions::new().limit(2);
    let ann = Editor::new(store.clone(), "ann").with_history(options);
    let ann = ann.with_restored_history();
    assert_eq!(ann.undo_depth(), 2);
    ann.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!(text(&store), "abcd");
    assert!(matches!(ann.undo().commit(), Err(UndoError::NothingToUndo)));
}

#[test]
fn undo_04_without_kept_commits_the_history_is_empty() {
    let memory = Memory::default();
    let (store, ann) = begin(&memory);
    type_in(&ann, "a");
    let options = later().keep_log(usize::MAX);
    let ann = restored(&reopened(&memory, &store, options), "ann");
    assert!(!ann.can_undo());
    let ann = Editor::new(DataStore::new(), "ann").with_restored_history();
    assert!(!ann.can_undo());
}

/// The commit of the undone late edit is that of an entry which a rebuilt history does not know.
/// The living store has forgotten Ann's split, which can no longer be redone. The one that records
/// the kept commits again knows it.
#[test]
fn undo_04_hidden_text_returns_in_a_restored_history_to_the_place_that_it_has_in_the_live_one() {
    let memory = Memory::default();
    let live = memory.open(kept(1 << 24));
    let mut setup = live.begin("setup").unwrap();
    let node = text_node("item", "xy").with_id("t");
    setup
        .create(element("page", [node]).with_id("page"))
        .unwrap();
    setup.commit().unwrap();
    let [ann, bob] = ["ann", "bob"].map(|owner| Editor::new(live.clone(), owner));
    let start = SplitPoint {
        text: 0,
        children: 0,
    };
    let split = move |on: &mut Draft| on.split_node("t", start, None).map(drop);
    ann.execute(op(split)).unwrap();
    ann.undo().commit().unwrap();
    ann.execute(delete_text_range(0, 2).on("t")).unwrap();
    bob.execute(insert_text(0, "b").on("t")).unwrap();
    let store = reopened(&memory, &live, kept(1 << 24));
    let after = restored(&store, "ann");
    for (editor, store) in [(&ann, &live), (&after, &store)] {
        editor.undo().commit().unwrap();
        assert_eq!(text(store), "xyb");
    }
}

#[test]
fn undo_04_the_history_begins_after_an_undo_that_cannot_be_repeated() {
    let memory = Memory::default();
    let (store, ann) = begin(&memory);
    type_in(&ann, "x");
    let run = |operation, how| {
        let edit = transaction(&ann, operation).in_history(how);
        edit.commit().unwrap();
    };
    run(
        create(text_node("image", "").with_id("image")),
        HistoryMode::Named("upload".into()),
    );
    type_in(&ann, "y");
    let source = set_attrs([("source", "cat.png".into())]).on("image");
    run(source, HistoryMode::MergedInto("upload".into()));
    ann.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert!(!store.snapshot().contains("image"));
    type_in(&ann, "z");
    let store = reopened(&memory, &store, kept(1 << 24));
    let ann = restored(&store, "ann");
    assert_eq!((ann.undo_depth(), ann.redo_depth()), (1, 0));
    ann.undo().commit().unwrap();
    assert_eq!(text(&store), "x");
}

/// The edit in between had code, so its undo is not known. A redo would insert only "a".
#[test]
fn undo_04_an_undo_that_would_be_another_when_repeated_is_not_restored() {
    let memory = Memory::default();
    let (store, ann) = begin(&memory);
    type_in(&ann, "x");
    ann.execute(insert_text(0, "ab").on("t")).unwrap();
    let code = |on: &mut Draft| on.delete_text("t", 1..2);
    let code = op_with_inverse(code, |_| Ok::<_, EditError>(()));
    ann.execute(code).unwrap();
    ann.undo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!(text(&store), "x");
    let after = restored(&reopened(&memory, &store, kept(1 << 24)), "ann");
    assert_eq!((after.undo_depth(), after.redo_depth()), (0, 0));
}

#[test]
fn undo_04_a_restored_undo_selects_what_its_entry_had_selected() {
    let memory = Memory::default();
    let (store, ann) = begin(&memory);
    type_in(&ann, "abc");
    ann.select(Selection::caret("t", 1)).unwrap();
    ann.execute(insert_text(3, "d").on("t")).unwrap();
    let store = reopened(&memory, &store, kept(1 << 24));
    let ann = restored(&store, "ann");
    assert_eq!(ann.selection(), None);
    ann.undo().commit().unwrap();
    assert_eq!(ann.selection(), Some(Selection::caret("t", 1)));
}

#[test]
fn undo_04_a_restored_undo_stores_the_marks_of_its_caret() {
    let memory = Memory::default();
    let (store, ann) = begin(&memory);
    type_in(&ann, "abc");
    let caret = Selection::caret("t", 1).with_marks([Mark::whole("bold")]);
    ann.select(caret.clone()).unwrap();
    ann.execute(insert_text(1, "d").on("t")).unwrap();
    let store = reopened(&memory, &store, kept(1 << 24));
    let ann = restored(&store, "ann");
    ann.undo().commit().unwrap();
    assert_eq!(ann.selection(), Some(caret));
}

#[test]
fn undo_04_a_conflict_of_a_restored_undo_names_the_other_editor() {
    let memory = Memory::default();
    let (store, ann) = begin(&memory);
    let bob = Editor::new(store.clone(), "bob");
    let level = |level: usize| set_attrs([("level", level.into())]).on("t");
    ann.execute(level(1)).unwrap();
    bob.execute(level(2)).unwrap();
    type_in(&ann, "a");
    let store = reopened(&memory, &store, kept(1 << 24));
    let ann = restored(&store, "ann");
    ann.undo().commit().unwrap();
    let Err(UndoError::Conflict { by, .. }) = ann.undo().commit() else {
        panic!("no conflict");
    };
    assert_eq!(by, Some(("bob".into(), 3)));
}

/// The new child has an id that a repetition of the undo would not give it.
#[test]
fn undo_04_after_a_restart_a_history_begins_after_an_undo_that_added_a_child() {
    let types = Schema::builder().node("list", NodeType::new().content("item+"));
    let schema = types.node("item", NodeType::new().text(true));
    let schema = Arc::new(schema.build().unwrap());
    let options = || {
        let store = StoreOptions::new().kept_commits(1 << 20);
        later()
            .keep_log(usize::MAX)
            .store(store.schema(Arc::clone(&schema)))
    };
    let memory = Memory::default();
    let live = memory.open(options());
    let [ann, bob] = ["ann", "bob"].map(|owner| Editor::new(live.clone(), owner));
    let item = |id: &str| text_node("item", "").with_id(id);
    let list = element("list", [item("one")]).with_id("list");
    bob.execute(create(list)).unwrap();
    ann.execute(add_child(item("two"), 1).on("list")).unwrap();
    bob.execute(delete_node().on("one")).unwrap();
    ann.undo().commit().unwrap();
    let added = image(&live.snapshot());
    ann.execute(add_child(item("three"), 1).on("list")).unwrap();

    let store = reopened(&memory, &live, options());
    let ann = Editor::new(store.clone(), "ann").with_restored_history();
    assert_eq!((ann.undo_depth(), ann.redo_depth()), (1, 0));
    ann.undo().commit().unwrap();
    assert_eq!(image(&store.snapshot()), added);
    ann.redo().commit().unwrap();
    assert_eq!(image(&store.snapshot()), image(&live.snapshot()));
}
