//! Races between editors of one store: commits that move the selection and the history of the
//! others.

use std::sync::Arc;
use std::time::Duration;

use doclock::{
    DataStore, Editor, StoreOptions, View, document::Selection, dsl::*, history::HistoryOptions,
};
use loom::thread;

use crate::model::{Actor, Model};

/// Creates a store with a text node `t`, and its editors.
fn editors<const N: usize>(text: &str) -> [Arc<Editor>; N] {
    let store = DataStore::with_options(StoreOptions::new().lock_timeout(None));
    let mut transaction = store.begin("setup").unwrap();
    let node = text_node("text", text).with_id("t");
    transaction.create(node).unwrap();
    transaction.commit().unwrap();
    std::array::from_fn(|nth| Arc::new(Editor::new(store.clone(), format!("{nth}"))))
}

fn type_in(editor: &Editor, at: usize, letter: &'static str) {
    transaction(editor, insert_text(at, letter).on("t"))
        .commit()
        .unwrap();
}

fn text(editor: &Editor) -> String {
    let snapshot = editor.store().snapshot();
    snapshot.node("t").unwrap().text().to_string()
}

#[test]
fn editor_an_undo_reverts_only_its_own_edit_beside_two_other_typists() {
    Model::new("undo against 2 commits", 2)
        .reaches(["undone before both"])
        .reaches_by("typists", "undone between them")
        .reaches_by("typists", "undone after both")
        .check(|run| {
            let [ann, bob, carl] = editors("-");
            type_in(&ann, 1, "a");
            let typists = [(bob, "b"), (carl, "c")]
                .map(|(editor, letter)| run.spawn("typists", move || type_in(&editor, 0, letter)));
            let version = ann.undo().commit().unwrap().version;
            let count = typists.into_iter().filter_map(Actor::join).count();
            let others = match count {
                2 => ["bc", "cb"],
                _ => ["", ""],
            };
            let possible = |end| others.map(|letters| format!("{letters}{end}"));
            assert!(possible("-").contains(&text(&ann)));
            ann.redo().commit().unwrap();
            assert!(possible("-a").contains(&text(&ann)));
            // The undo and the typists follow the node and the letter.
            run.note(match version {
                3 => "undone before both",
                4 => "undone between them",
                _ => "undone after both",
            });
        });
}

#[test]
fn editor_a_selection_follows_the_commits_of_two_others() {
    Model::new("selection against 2 commits", 5)
        .reaches(["before both"])
        .reaches_by("typists", "between them")
        .reaches_by("typists", "after both")
        .check(|run| {
            let [ann, bob, carl] = editors("-");
            ann.select(Selection::caret("t", 1)).unwrap();
            let typists = [(bob, "b"), (carl, "c")]
                .map(|(editor, letter)| run.spawn("typists", move || type_in(&editor, 0, letter)));
            let found = ann.selection();
            let count = typists.into_iter().filter_map(Actor::join).count();
            let possible = [1, 2, 3].map(|offset| Some(Selection::caret("t", offset)));
            assert_eq!(ann.selection(), possible[count]);
            let moved = possible.into_iter().position(|one| one == found).unwrap();
            run.note(["before both", "between them", "after both"][moved]);
        });
}

#[test]
fn editor_only_later_commits_of_two_others_move_a_new_selection() {
    Model::new("select against 2 commits", 3)
        .reaches(["before both"])
        .reaches_by("typists", "between them")
        .reaches_by("typists", "after both")
        .check(|run| {
            let [ann, bob, carl] = editors("-");
            let typists = [(bob, "b"), (carl, "c")]
                .map(|(editor, letter)| run.spawn("typists", move || type_in(&editor, 0, letter)));
            ann.select(Selection::caret("t", 1)).unwrap();
            let count = typists.into_iter().filter_map(Actor::join).count();
            // Each later commit moved the selection by one character.
            let found = ann.selection();
            let is_moved_by = |later| found == Some(Selection::caret("t", 1 + later));
            let later = (0..=count).find(|later| is_moved_by(*later)).unwrap();
            run.note(["before both", "between them", "after both"][count - later]);
        });
}

#[test]
fn editor_one_editor_in_two_threads_undoes_each_entry_once() {
    Model::new("undo against undo", 2)
        .reaches_by("other", "the other undoes the first entry")
        .reaches_by("other", "the other undoes the second entry")
        .check(|run| {
            let [ann, bob] = editors("");
            type_in(&ann, 0, "a");
            let group = ann.group();
            type_in(&ann, 1, "b");
            drop(group);
            let other = {
                let ann = Arc::clone(&ann);
                run.spawn("other", move || ann.undo().commit().unwrap().version)
            };
            let typist = thread::spawn(move || type_in(&bob, 0, "x"));
            let own = ann.undo().commit().unwrap().version;
            let other = other.join();
            typist.join().unwrap();
            let undone = 1 + usize::from(other.is_some());
            assert_eq!(text(&ann), ["xa", "x"][undone - 1]);
            assert_eq!((ann.undo_depth(), ann.redo_depth()), (2 - undone, undone));
            match other {
                None => {}
                // The topmost entry goes first.
                Some(other) if other < own => run.note("the other undoes the second entry"),
                Some(_) => run.note("the other undoes the first entry"),
            }
        });
}

/// An undo of the newest unit needs no record. Another thread records its commit meanwhile, and a
/// third commits: the record and the document have to agree.
#[test]
fn editor_the_newest_edit_is_undone_while_another_thread_records_it() {
    Model::new("undo of a queued edit against its recording", 2)
        .reaches_by("recorder", "recorded before the undo")
        .reaches_by("recorder", "recorded after the undo")
        .check(|run| {
            let [ann, bob, watcher] = editors("-");
            type_in(&ann, 1, "a");
            let recorder = run.spawn("recorder", move || {
                let before = watcher.store().version();
                // With a key it looks for an entry, and finds none.
                watcher.undo().idempotent("k").commit().unwrap_err();
                before
            });
            let typist = run.spawn("typist", move || {
                type_in(&bob, 0, "b");
                bob
            });
            let undone = ann.undo().commit().unwrap().version;
            let before = recorder.join();
            let bob = typist.join();
            let begin = if bob.is_some() { "b-" } else { "-" };
            assert_eq!(text(&ann), begin);
            ann.redo().commit().unwrap();
            assert_eq!(text(&ann), format!("{begin}a"));
            if let Some(bob) = bob {
                bob.undo().commit().unwrap();
            }
            ann.undo().commit().unwrap();
            assert_eq!(text(&ann), "-");
            run.note(match before {
                None => "not recorded",
                Some(before) if before < undone => "recorded before the undo",
                Some(_) => "recorded after the undo",
            });
        });
}

/// The undo tries the stuck entry in vain. Then it takes the entry below, as that is by then.
#[test]
fn editor_an_undo_passes_by_a_stuck_entry_that_another_thread_discards() {
    Model::new("undo below a stuck entry against discard", 3)
        .reaches_by("other", "the undo comes first")
        .reaches_by("other", "the discard comes first")
        .check(|run| {
            let [ann, bob] = editors("");
            let setup = {
                let ann = Arc::clone(&ann);
                run.spawn_deep("setup", move || {
                    type_in(&ann, 0, "a");
                    let set = |value: i32| set_attrs([("key", value.into())]).on("t");
                    transaction(&ann, set(1)).commit().unwrap();
                    transaction(&bob, set(2)).commit().unwrap();
                    assert!(ann.undo().commit().is_err());
                })
            };
            setup.join().unwrap();
            let other = {
                let ann = Arc::clone(&ann);
                run.spawn_deep("other", move || {
                    assert!(ann.discard_undo());
                    ann.undo_depth()
                })
            };
            let undo = {
                let ann = Arc::clone(&ann);
                run.spawn_deep("undo", move || ann.undo().commit().is_ok())
            };
            assert!(undo.join().unwrap());
            assert_eq!(text(&ann), "");
            if let Some(left) = other.join() {
                assert_eq!((ann.undo_depth(), ann.redo_depth()), (0, 1));
                run.note(["the undo comes first", "the discard comes first"][left]);
            }
        });
}

/// Two threads submit to one editor that locks nodes, each for a node of its own, while a third
/// undoes. Replayed in the order of versions, what each of them was told leads to the document.
#[test]
fn editor_a_history_of_node_commits_is_in_the_order_of_versions() {
    Model::new("undo against node commits of its editor", 2)
        .reaches_by("typists", "nothing to undo yet")
        .reaches_by("typists", "undone between them")
        .reaches_by("typists", "undone after both")
        .check(|run| {
            let options = StoreOptions::new().lock_timeout(None);
            let store = DataStore::with_options(options);
            let mut setup = store.begin("setup").unwrap();
            for id in ["t", "u"] {
                setup.create(text_node("text", "").with_id(id)).unwrap();
            }
            setup.commit().unwrap();
            let options = HistoryOptions::new().group_interval(Duration::ZERO);
            let ann = Editor::new(store, "ann").with_history(options);
            let ann = Arc::new(ann.with_node_locks(2));
            let typists = ["t", "u"].map(|id| {
                let ann = Arc::clone(&ann);
                run.spawn_deep("typists", move || {
                    let typed = ann.execute(insert_text(0, id).on(id)).unwrap();
                    (typed.version, Some(id))
                })
            });
            let undo = {
                let ann = Arc::clone(&ann);
                run.spawn_deep("undo", move || ann.undo().commit().ok())
            };
            let undone = undo.join().flatten();
            let typed = typists.into_iter().filter_map(Actor::join);
            let mut made: Vec<_> = typed.collect();
            let count = made.len();
            made.extend(undone.as_ref().map(|undone| (undone.version, None)));
            made.sort_unstable();
            let mut expected = Vec::new();
            for (_, typed) in &made {
                match typed {
                    Some(id) => expected.push(*id),
                    None => assert!(expected.pop().is_some(), "an entry that is not there"),
                }
            }
            let document = ann.store().snapshot();
            for id in ["t", "u"] {
                let is_there = *document.node(id).unwrap().text() == id;
                assert_eq!(is_there, expected.contains(&id));
            }
            assert_eq!(ann.undo_depth(), expected.len());
            let place = made.iter().position(|(_, typed)| typed.is_none());
            if count > 0 {
                run.note(match place {
                    None => "nothing to undo yet",
                    Some(1) => "undone between them",
                    Some(_) => "undone after both",
                });
            }
        });
}
