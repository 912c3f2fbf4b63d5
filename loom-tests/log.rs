//! Races on the commit log: commits that append to it, editors that read it, and the thread that
//! composes its oldest records.

use std::sync::Arc;
use std::time::Duration;

use doclock::{
    DataStore, Editor, StoreOptions, TransactionManager, View,
    document::Selection,
    dsl::*,
    lock::{AcquireOptions, LockError},
};

use crate::model::{Actor, Model};

/// Creates a store with the text node `t`, whose log composes all records that are more than
/// `log_limit` bytes.
fn store(log_limit: usize) -> DataStore {
    let options = StoreOptions::new().lock_timeout(None).log_limit(log_limit);
    let store = DataStore::with_options(options);
    let mut transaction = store.begin("setup").unwrap();
    let node = text_node("text", "-").with_id("t");
    transaction.create(node).unwrap();
    transaction.commit().unwrap();
    store
}

/// Inserts a letter before all others.
fn type_in(store: &DataStore, letter: &'static str) {
    let manager = TransactionManager::new(store.clone());
    manager.execute(insert_text(0, letter).on("t")).unwrap();
}

fn len(store: &DataStore) -> usize {
    store.snapshot().node("t").unwrap().text().len()
}

fn caret(editor: &Editor) -> usize {
    match editor.selection() {
        Some(Selection::Text(text)) => text.focus.offset,
        other => panic!("{other:?}"),
    }
}

/// Each commit is either in the version from which a new editor starts, or in the log for it.
#[test]
fn log_a_new_editor_misses_no_commit_beside_two_writers() {
    Model::new("new editor against 2 commits", 3)
        .reaches(["before both"])
        .reaches_by("writers", "between them")
        .reaches_by("writers", "after both")
        .check(|run| {
            let store = store(1 << 20);
            let writers = ["b", "c"].map(|letter| {
                let store = store.clone();
                run.spawn("writers", move || type_in(&store, letter))
            });
            let ann = Editor::new(store.clone(), "ann");
            let earliest = len(&store) - 1;
            ann.select(Selection::caret("t", 1)).unwrap();
            let latest = len(&store) - 1;
            let count = writers.into_iter().filter_map(Actor::join).count();
            // Ann selected the position after the first letter; each later letter moved it.
            let later = caret(&ann) - 1;
            assert!((count - latest..=count - earliest).contains(&later));
            let outcomes = ["after both", "between them", "before both"];
            match count {
                2 => run.note(outcomes[later]),
                _ => run.note("before both"),
            }
        });
}

/// Two writers compose the log after each commit, while an editor that has read nothing reads it.
#[test]
fn log_an_editor_reads_each_commit_once_while_two_writers_compose_them() {
    Model::new("composition against a late reader", 3)
        .reaches(["before both"])
        .reaches_by("writers", "between them")
        .reaches_by("writers", "after both")
        .check(|run| {
            let store = store(0);
            let ann = Editor::new(store.clone(), "ann");
            ann.select(Selection::caret("t", 1)).unwrap();
            let idle = Editor::new(store.clone(), "idle");
            // It follows the document from its first use on.
            assert_eq!(idle.selection(), None);
            let writers = ["b", "c"].map(|letter| {
                let store = store.clone();
                run.spawn("writers", move || type_in(&store, letter))
            });
            let seen = caret(&ann) - 1;
            let count = writers.into_iter().filter_map(Actor::join).count();
            assert_eq!(caret(&ann), 1 + count);
            assert_eq!(len(&store), 1 + count);
            drop(idle);
            run.note(["before both", "between them", "after both"][seen]);
        });
}

/// An undo reads the log under the store's lock, while the writer before it composes its record.
#[test]
fn log_an_undo_beside_two_writers_follows_composed_commits() {
    Model::new("composition against an undo", 3)
        .reaches(["before both"])
        .reaches_by("writers", "between them")
        .reaches_by("writers", "after both")
        .check(|run| {
            let store = store(0);
            let ann = Arc::new(Editor::new(store.clone(), "ann"));
            ann.execute(insert_text(1, "a").on("t")).unwrap();
            let writers = ["b", "c"].map(|letter| {
                let store = store.clone();
                run.spawn("writers", move || type_in(&store, letter))
            });
            let version = ann.undo().commit().unwrap().version;
            let count = writers.into_iter().filter_map(Actor::join).count();
            let text = store.snapshot().node("t").unwrap().text().to_string();
            assert!(text.ends_with('-') && text.len() == 1 + count, "{text}");
            run.note(match version {
                3 => "before both",
                4 => "between them",
                _ => "after both",
            });
        });
}

/// The last editor closes while a commit appends to the log, and a new one opens.
#[test]
fn log_an_editor_that_closes_beside_a_writer_leaves_a_usable_log() {
    Model::new("closed editor against a commit", 3)
        .reaches(["before the commit"])
        .reaches_by("writer", "after the commit")
        .check(|run| {
            let store = store(0);
            let gone = Editor::new(store.clone(), "gone");
            // It follows the document from its first use on.
            assert_eq!(gone.selection(), None);
            let writer = {
                let store = store.clone();
                run.spawn("writer", move || type_in(&store, "b"))
            };
            let closing = loom::thread::spawn(move || drop(gone));
            let ann = Editor::new(store.clone(), "ann");
            ann.select(Selection::caret("t", 1)).unwrap();
            let was_written = len(&store) > 1;
            closing.join().unwrap();
            let is_written = writer.join().is_some();
            let moved = caret(&ann) - 1;
            assert_eq!(was_written || moved == 1, is_written);
            run.note(match (is_written, moved) {
                (true, 0) => "after the commit",
                _ => "before the commit",
            });
        });
}

/// A subscriber that has read everything is woken by the next commit, which it then finds.
#[test]
fn log_a_subscriber_is_woken_and_reads_each_commit_once_beside_two_writers() {
    Model::new("subscriber against 2 commits", 3)
        .reaches(["before both"])
        .reaches_by("writers", "between them")
        .reaches_by("writers", "after both")
        .check(|run| {
            let store = store(0);
            let events = store.subscribe();
            let writers = ["b", "c"].map(|letter| {
                let store = store.clone();
                run.spawn("writers", move || type_in(&store, letter))
            });
            let mut read = events.try_iter().map(|event| event.missed + 1).sum::<u64>();
            let outcome = ["before both", "between them", "after both"][read as usize];
            let count = writers.into_iter().filter_map(Actor::join).count() as u64;
            // It has read everything, so only a commit after that makes the channel ready.
            let is_ready = events.ready().try_iter().count() > 0;
            assert!(is_ready || read == count, "{count} commits, {read} read");
            read += events.try_iter().map(|event| event.missed + 1).sum::<u64>();
            assert_eq!(read, count);
            run.note(outcome);
        });
}

/// A feed from a version has the kept commits and the later ones, each of them once.
#[test]
fn log_a_feed_from_a_version_has_each_commit_once_beside_two_writers() {
    Model::new("feed from a version against 2 commits", 3)
        .reaches(["before both"])
        .reaches_by("writers", "between them")
        .reaches_by("writers", "after both")
        .check(|run| {
            let options = StoreOptions::new().lock_timeout(None);
            let store = DataStore::with_options(options.kept_commits(1 << 20));
            let mut transaction = store.begin("setup").unwrap();
            let node = text_node("text", "-").with_id("t");
            transaction.create(node).unwrap();
            transaction.commit().unwrap();
            let writers = ["b", "c"].map(|letter| {
                let store = store.clone();
                run.spawn("writers", move || type_in(&store, letter))
            });
            let version = store.version();
            let feed = store.subscription().after(0).unwrap();
            let read = || feed.try_iter().map(|event| event.commit.version);
            let mut versions: Vec<u64> = read().collect();
            let count = writers.into_iter().filter_map(Actor::join).count() as u64;
            let newest = versions.last().copied();
            assert!(
                newest >= Some(version),
                "{versions:?} without version {version}"
            );
            // It has read everything, so only a commit after that makes the channel ready.
            let is_ready = feed.ready().try_iter().count() > 0;
            assert!(is_ready || newest == Some(count + 1));
            versions.extend(read());
            assert!(versions.into_iter().eq(1..=count + 1));
            run.note(["before both", "between them", "after both"][version as usize - 1]);
        });
}

/// One subscription ends while commits wake it and compose the log; another goes on.
#[test]
fn log_a_subscription_that_is_dropped_beside_two_writers_leaves_the_other_one_whole() {
    Model::new("dropped subscription against 2 commits", 3)
        .reaches(["before both"])
        .reaches_by("writers", "between them")
        .reaches_by("writers", "after both")
        .check(|run| {
            let store = store(0);
            let [dropped, kept] = [(), ()].map(|()| store.subscribe());
            let writers = ["b", "c"].map(|letter| {
                let store = store.clone();
                run.spawn("writers", move || type_in(&store, letter))
            });
            let ready = dropped.ready().clone();
            let before = len(&store) - 1;
            drop(dropped);
            let count = writers.into_iter().filter_map(Actor::join).count();
            let messages = ready.try_iter().count();
            assert!(messages <= 1);
            let ended = crossbeam_channel::TryRecvError::Disconnected;
            assert_eq!(
                ready.try_recv(),
                Err(ended),
                "a clone ends with its subscription"
            );
            let read = kept.try_iter().map(|event| event.missed + 1).sum::<u64>();
            assert_eq!(read as usize, count);
            run.note(["before both", "between them", "after both"][before]);
        });
}

/// Each writer closes the lock by its commit, and the reader opens it, once or at its end.
#[test]
fn log_a_lossless_subscriber_lets_two_writers_go_on_and_reads_each_commit_once() {
    Model::new("lossless subscriber against 2 requests", 3)
        .reaches(["none", "one"])
        .reaches_by("writers", "both")
        .check(|run| {
            let store = store(0);
            let events = store.subscription().lossless(0).all();
            type_in(&store, "a");
            let writers = ["b", "c"].map(|letter| {
                let store = store.clone();
                run.spawn("writers", move || type_in(&store, letter))
            });
            let mut versions = vec![];
            for _ in 0..2 {
                loom::thread::yield_now();
                let read = events
                    .try_iter()
                    .map(|event| (event.commit.version, event.missed));
                versions.extend(read);
            }
            drop(events);
            let count = writers.into_iter().filter_map(Actor::join).count();
            assert_eq!(len(&store), 2 + count);
            assert_eq!(store.diagnostics().lock.closed_by, None);
            let expected = (2..).map(|version| (version, 0));
            assert!(
                versions.iter().copied().eq(expected.take(versions.len())),
                "{versions:?}"
            );
            run.note(match versions.len() {
                1 => "none",
                2 => "one",
                _ => "both",
            });
        });
}

/// One request at the closed lock times out while the reader opens it, and another follows.
#[test]
fn log_a_request_that_times_out_before_a_lossless_subscriber_holds_up_no_other() {
    Model::new("lossless subscriber against an expiry", 2)
        .reaches(["at once", "after a wait"])
        .reaches_by("timer", "timed out at the closed lock")
        .reaches_by("timer", "timed out behind the other request")
        .check(|run| {
            let store = store(0);
            let events = store.subscription().lossless(0).all();
            type_in(&store, "a");
            let brief = {
                let store = store.clone();
                let timeout = AcquireOptions::new().timeout(Duration::from_secs(1));
                loom::thread::spawn(move || {
                    store.request("brief").options(timeout).wait().map(drop)
                })
            };
            let patient = {
                let store = store.clone();
                loom::thread::spawn(move || drop(store.lock("patient").unwrap()))
            };
            let timer = {
                let store = store.clone();
                run.spawn("timer", move || store.expire("brief"))
            };
            // Requests see a closed gate by an atomic that loom does not know.
            loom::thread::yield_now();
            assert_eq!(events.try_iter().count(), 1);
            timer.join();
            let brief = brief.join().unwrap();
            patient.join().unwrap();
            assert!(!store.is_locked());
            assert_eq!(store.diagnostics().lock.closed_by, None);
            let has_waited = store.has_waited();
            run.note(match brief {
                Ok(()) if has_waited => "after a wait",
                Ok(()) => "at once",
                Err(LockError::Timeout(timeout)) => match timeout.holder.owner_id.as_str() {
                    "lossless subscriber" => "timed out at the closed lock",
                    _ => "timed out behind the other request",
                },
                Err(other) => panic!("{other}"),
            });
        });
}
