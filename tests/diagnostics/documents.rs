//! Versions, the journal, followers, leases and inboxes.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use doclock::diagnostics::{KeptVersions, LogDiagnostics};
use doclock::document::NodeSpec;
use doclock::durable::DurableOptions;
use doclock::events::Filter;
use doclock::inbox::{HandlerResult, Inbox};
use doclock::lock::{AcquireOptions, node::Scope};
use doclock::{DataStore, Editor, OwnerId, TransactionManager, dsl::*};
use serde_json::json;

use super::gated::Gated;
use super::timed_store;

const SECOND: Duration = Duration::from_secs(1);

fn commit(store: &DataStore) {
    let mut transaction = store.begin("setup").unwrap();
    transaction.create(NodeSpec::new("paragraph")).unwrap();
    transaction.commit().unwrap();
}

#[test]
fn a_snapshot_is_listed_from_the_commit_that_replaces_its_version_until_it_is_dropped() {
    let (store, clock) = timed_store();
    commit(&store);
    assert_eq!(store.diagnostics().kept_versions, KeptVersions::default());
    let snapshot = store.snapshot();
    clock.advance(SECOND);
    assert_eq!(store.diagnostics().kept_versions.listed, []);
    commit(&store);
    let again = snapshot.clone();
    clock.advance(3 * SECOND);
    commit(&store);

    let kept = store.diagnostics().kept_versions.listed;
    let found: Vec<_> = kept
        .iter()
        .map(|it| (it.version, it.age, it.handles))
        .collect();
    assert_eq!(found, [(1, 3 * SECOND, 2)]);
    let json = serde_json::to_value(&kept).unwrap();
    assert_eq!(
        json,
        json!([{ "version": 1, "age": 3_000.0, "handles": 2 }])
    );
    drop(snapshot);
    assert_eq!(store.diagnostics().kept_versions.listed[0].handles, 1);
    drop(again);
    assert_eq!(store.diagnostics().kept_versions, KeptVersions::default());
}

/// A change of leases replaces the version too. The snapshot was then missed by the next commit.
#[test]
fn a_snapshot_from_before_a_lease_is_listed() {
    let (store, _clock) = timed_store();
    let snapshot = store.snapshot();
    let lease = store.leases().acquire("p", "teller", SECOND).unwrap();
    commit(&store);
    assert_eq!(store.diagnostics().kept_versions.listed.len(), 1);
    drop((snapshot, lease));
    assert_eq!(store.diagnostics().kept_versions.listed.len(), 0);
}

#[test]
fn an_open_transaction_on_nodes_and_a_large_commit_are_seen() {
    let store = DataStore::new();
    commit(&store);
    let transaction = store.begin_on("ann", Scope::new().write("a")).unwrap();
    thread::scope(|threads| {
        threads.spawn(|| {
            let mut large = store.begin_on("ben", Scope::new().write("b")).unwrap();
            for _ in 0..200 {
                large.create(NodeSpec::new("paragraph")).unwrap();
            }
            large.commit().unwrap();
        });
    });
    let kept = store.diagnostics().kept_versions.listed;
    assert_eq!(kept.iter().map(|it| it.version).collect::<Vec<_>>(), [1]);
    drop(transaction);
    assert_eq!(store.diagnostics().kept_versions.listed, []);
}

#[test]
fn many_kept_versions_are_cut_and_counted_and_their_places_are_used_again() {
    let store = DataStore::new();
    let keep = |count: usize| -> Vec<_> {
        let kept = (0..count).map(|_| {
            let snapshot = store.snapshot();
            commit(&store);
            snapshot
        });
        kept.collect()
    };
    let all = keep(200);
    let kept = store.diagnostics().kept_versions;
    assert_eq!(kept.listed.len(), KeptVersions::LISTED);
    assert_eq!(kept.listed[0].version, 0);
    assert_eq!(kept.unlisted, 200 - KeptVersions::LISTED as u64);
    drop(all);
    let few = keep(3);
    let kept = store.diagnostics().kept_versions;
    assert_eq!(
        kept.listed.last().map(|it| it.version),
        Some(202),
        "{kept:?}"
    );
    drop(few);
}

/// An editor that follows the document, which it does from its first use on.
fn used_editor(store: &DataStore, owner: impl Into<OwnerId>) -> Editor {
    let editor = Editor::new(store.clone(), owner);
    assert_eq!(editor.selection(), None);
    editor
}

#[test]
fn followers_show_how_far_they_are_behind() {
    let store = DataStore::new();
    let [ann, ben] = ["ann", "ben"].map(|owner| used_editor(&store, owner));
    let all = store.subscribe();
    let line = line!() - 1;
    let filtered = store.subscription().matching(Filter::Node("p".into()));
    transaction(&ann, [create(text_node("paragraph", "x").with_id("p"))])
        .commit()
        .unwrap();
    for _ in 0..4 {
        transaction(&ann, [insert_text(0, "x").on("p")])
            .commit()
            .unwrap();
    }
    let log = store.diagnostics().log;
    let sessions = log.sessions.iter();
    let sessions: Vec<_> = sessions
        .map(|it| (it.owner_id.as_str(), it.unread_commits))
        .collect();
    assert_eq!(sessions, [("ben", 5), ("ann", 0)]);
    assert_eq!(
        (log.subscriber_count, log.session_count, log.commits),
        (2, 2, 5)
    );
    let subscriber = log
        .subscribers
        .iter()
        .find(|it| it.filter == Filter::All)
        .unwrap();
    assert_eq!(subscriber.call_site.as_ref().unwrap().line, line);
    assert_eq!(subscriber.unread_commits, 5);
    assert!(subscriber.unread_bytes > 0);
    let json = serde_json::to_value(&log).unwrap();
    assert_eq!(json["subscribers"].as_array().unwrap().len(), 2);

    assert_eq!(all.try_iter().count(), 5);
    assert_eq!(filtered.try_iter().count(), 5);
    transaction(&ben, [insert_text(0, "x").on("p")])
        .commit()
        .unwrap();
    let log = store.diagnostics().log;
    let unread = log.subscribers.iter().map(|it| it.unread_commits);
    assert_eq!(unread.collect::<Vec<_>>(), [1, 1]);
    let sessions = log.sessions.iter();
    let sessions: Vec<_> = sessions
        .map(|it| (it.owner_id.as_str(), it.unread_commits))
        .collect();
    assert_eq!(sessions, [("ann", 1), ("ben", 0)]);
}

/// Commits of the only follower are not in the log, so its cursor is too low.
#[test]
fn the_commits_of_the_only_editor_do_not_count_as_unread() {
    let store = DataStore::new();
    let ann = Editor::new(store.clone(), "ann");
    transaction(&ann, [create(text_node("paragraph", "x").with_id("p"))])
        .commit()
        .unwrap();
    for _ in 0..9 {
        transaction(&ann, [insert_text(0, "x").on("p")])
            .commit()
            .unwrap();
    }
    assert_eq!(store.diagnostics().log.sessions[0].unread_commits, 0);
    let _events = store.subscribe();
    commit(&store);
    assert_eq!(store.diagnostics().log.sessions[0].unread_commits, 1);
}

#[test]
fn the_sessions_that_are_furthest_behind_are_listed() {
    let store = DataStore::new();
    let editors: Vec<_> = (0..200)
        .map(|number: u64| {
            if number.is_multiple_of(2) {
                commit(&store);
            }
            used_editor(&store, format!("editor {number}"))
        })
        .collect();
    let log = store.diagnostics().log;
    assert_eq!(
        (log.sessions.len(), log.session_count),
        (LogDiagnostics::LISTED, 200)
    );
    let unread: Vec<_> = log.sessions.iter().map(|it| it.unread_commits).collect();
    assert!(unread.is_sorted_by(|one, other| one >= other), "{unread:?}");
    assert_eq!((unread[0], unread[63]), (99, 68));
    drop(editors);
}

#[test]
fn a_closed_lock_names_the_subscriber_that_closes_it() {
    let store = DataStore::new();
    assert_eq!(store.diagnostics().lock.closed_by, None);
    let reader = store.subscription().lossless(0).all();
    let line = line!() - 1;
    let _other = store.subscribe();
    commit(&store);
    thread::scope(|threads| {
        for (owner, count) in [("ann", 1), ("ben", 2)] {
            let patient = AcquireOptions::new().no_timeout();
            let store = &store;
            threads.spawn(move || store.request(owner).options(patient).wait().map(drop));
            while store.queue_length() < count {
                thread::yield_now();
            }
        }
        let diagnostics = store.diagnostics();
        let lock = &diagnostics.lock;
        let closed_by = lock.closed_by.as_ref().unwrap();
        assert_eq!(closed_by.owner_id.as_str(), "lossless subscriber");
        assert_eq!(closed_by.call_site.line, line);
        let waiters = lock.waiters.iter();
        let waiters =
            waiters.map(|waiter| (waiter.request.owner_id.as_str(), waiter.blocked_by[0]));
        assert!(waiters.eq(["ann", "ben"].map(|owner| (owner, closed_by.lock_id))));
        assert_eq!((store.current_lock(), store.is_locked()), (None, false));
        assert!(store.release_lock(closed_by.lock_id).is_err());
        assert!(diagnostics.log.lock_closed);
        let closing = diagnostics
            .log
            .subscribers
            .iter()
            .filter(|it| it.closes_lock);
        let closing: Vec<_> = closing.collect();
        assert_eq!(closing.len(), 1);
        assert_eq!(closing[0].call_site.as_ref().unwrap().line, line);
        assert_eq!(closing[0].lossless_limit, Some(0));
        let table = diagnostics.to_string();
        assert!(table.contains("\n                 which has 1 commit unread, "));
        assert!(table.contains(", limit 0 B\n"), "{table}");
        let cause = "CAUSE           2 requests wait for the lock, which the lossless subscriber \
                     closes\n                (…";
        assert!(table.starts_with(cause), "{table}");
        assert!(table.contains(&format!("/documents.rs:{line}:")), "{table}");
        let first = ")\nLOCK            closed, 2 requests wait, the longest for ";
        assert!(table.contains(first), "{table}");
        drop(reader);
    });
    assert_eq!(store.diagnostics().lock.closed_by, None);
    assert!(!store.diagnostics().log.lock_closed);
}

#[test]
fn leases_are_listed_with_their_remaining_time_until_they_end() {
    let (store, clock) = timed_store();
    let targets: Vec<_> = (0..100).map(|number| format!("n{number}")).collect();
    let _wide = store
        .leases()
        .acquire(targets, "importer", 60 * SECOND)
        .unwrap();
    let short = store.leases().acquire("p", "teller", 5 * SECOND).unwrap();
    clock.advance(2 * SECOND);
    let diagnostics = store.diagnostics();
    assert_eq!((diagnostics.leases.len(), diagnostics.lease_count), (2, 2));
    let [wide, lease] = &diagnostics.leases[..] else {
        panic!()
    };
    assert_eq!((wide.lease.targets.len(), wide.target_count), (16, 100));
    assert_eq!((lease.remaining, lease.target_count), (3 * SECOND, 1));
    clock.advance(3 * SECOND);
    assert_eq!(store.diagnostics().lease_count, 1);
    drop(short);
}

#[test]
fn inboxes_of_the_store_are_listed_by_name() {
    let store = DataStore::new();
    for name in ["payments", "mail"] {
        let inbox = Inbox::new(&store, name);
        let message = ("first", ());
        let _ = inbox.process(&message, |_, _| -> HandlerResult { Ok(()) });
    }
    let diagnostics = store.diagnostics();
    let names: Vec<_> = diagnostics
        .inboxes
        .iter()
        .map(|inbox| inbox.name.as_str())
        .collect();
    assert_eq!(
        (names, diagnostics.inbox_count),
        (vec!["mail", "payments"], 2)
    );
    assert_eq!(diagnostics.inboxes[0].stats.done, 1);
}

#[test]
fn a_durable_store_shows_what_its_journal_has_to_write() {
    let (gate, gated) = mpsc::channel();
    // The open writes once.
    gate.send(true).unwrap();
    let store = DataStore::open_journal(Gated(gated), DurableOptions::new()).unwrap();
    let opened = store.diagnostics();
    assert_eq!(opened.durable.as_ref().unwrap().version, opened.version);
    let diagnostics = thread::scope(|threads| {
        for _ in 0..3 {
            let manager = TransactionManager::new(store.clone());
            threads.spawn(move || manager.execute(create(text_node("paragraph", "x"))));
        }
        while store.version() < 3 {
            thread::yield_now();
        }
        let look = || store.diagnostics().durable.unwrap();
        // Two of the calls wait, and one writes or waits for the thread that writes.
        while look().waiting_calls < 2 || !look().writing {
            thread::yield_now();
        }
        let diagnostics = store.diagnostics();
        for _ in 0..8 {
            gate.send(true).unwrap();
        }
        diagnostics
    });
    let journal = diagnostics.durable.as_ref().unwrap();
    assert_eq!((diagnostics.version, journal.version), (3, 0));
    assert_eq!(journal.unwritten_commits, 3);
    let kept = &diagnostics.kept_versions.listed;
    let of_journal = kept.iter().filter(|it| it.journal).map(|it| it.version);
    assert_eq!(of_journal.collect::<Vec<_>>(), [0], "{kept:?}");
    let journal = store.diagnostics().durable.unwrap();
    assert_eq!(
        (
            journal.version,
            journal.unwritten_commits,
            journal.waiting_calls
        ),
        (3, 0, 0)
    );
    assert_eq!(store.snapshot().len(), 3);
    drop(gate);
    store.close().unwrap();
    assert!(store.diagnostics().durable.unwrap().closed);
}
