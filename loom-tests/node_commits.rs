//! Races of transactions on nodes, and of the hold limit with them.

use std::time::Duration;

use doclock::{
    CommitError, DataStore, Draft, NodeId, StoreOptions, Transaction, TransactionManager, View,
    document::NodeSpec,
    dsl::insert_text,
    lock::{LockError, node::Scope},
    time::ManualClock,
};

use loom::thread;

use crate::model::{Actor, Model};
use crate::node_locks::{act, at_rest, spawn, take};
use crate::site::AGES;

/// Creates a store with an empty node of each name, in version 1.
fn store_with<const N: usize>(options: StoreOptions, names: [&str; N]) -> DataStore {
    let store = DataStore::with_options(options.lock_timeout(None));
    let mut transaction = store.begin("setup").unwrap();
    for name in names {
        transaction
            .create(NodeSpec::new("text").with_id(name))
            .unwrap();
    }
    transaction.commit().unwrap();
    store
}

fn node(name: &str) -> NodeId {
    name.into()
}

/// Returns how many letters there are. Each version adds one.
fn look(store: &DataStore) -> usize {
    let snapshot = store.snapshot();
    let letters: usize = snapshot.nodes().map(|node| node.text().len()).sum();
    assert_eq!(
        letters as u64 + 1,
        snapshot.version(),
        "all or nothing of each commit"
    );
    letters
}

fn append(transaction: &mut Draft, to: &str, letter: &str) {
    let len = transaction.node(&node(to)).unwrap().text().len();
    transaction.insert_text(&node(to), len, letter).unwrap();
}

/// Adds a letter to a node. Returns whether that was published; if not, the grant was revoked.
fn write(store: &DataStore, letter: &str, to: &str) -> bool {
    let transaction = store.begin_on(letter, Scope::new().write(to)).unwrap();
    publish(transaction, letter, to)
}

fn write_whole(store: &DataStore, letter: &str, to: &str) -> bool {
    publish(store.begin(letter).unwrap(), letter, to)
}

fn publish(mut transaction: Transaction, letter: &str, to: &str) -> bool {
    append(&mut transaction, to, letter);
    match transaction.commit() {
        Ok(_) => true,
        Err(CommitError::Revoked { .. }) => false,
        Err(other) => panic!("{other}"),
    }
}

fn text(store: &DataStore, of: &str) -> String {
    store.snapshot().text_of(&node(of)).unwrap()
}

/// Returns the letters in any order, each once.
fn letters(text: &str) -> String {
    let mut letters: Vec<char> = text.chars().collect();
    letters.sort_unstable();
    letters.into_iter().collect()
}

#[test]
fn node_commits_are_one_version_each_and_none_is_lost() {
    let model = Model::new("nodes: commits on two nodes", 2)
        .reaches(["found none"])
        .reaches_by("others", "a before c")
        .reaches_by("others", "c before a")
        .reaches_by("others", "found one");
    model.check(|run| {
        let store = store_with(StoreOptions::new(), ["one", "two"]);
        let events = store.subscribe();
        let others = [("b", "two"), ("c", "one")]
            .map(|(letter, to)| act(run, "others", &store, move |store| write(store, letter, to)));
        let found = look(&store);
        assert!(write(&store, "a", "one"));
        assert!(look(&store) > found);
        let others: Vec<_> = others.into_iter().filter_map(Actor::join).collect();
        assert!(others.iter().all(|published| *published));
        let count = 1 + others.len();
        assert_eq!(look(&store), count);
        let versions = events.try_iter().map(|event| event.commit.version);
        assert!(
            versions.eq(2..=1 + count as u64),
            "events come in the order of the commits"
        );
        at_rest(&store, count as u64);
        match (text(&store, "one").as_str(), text(&store, "two").as_str()) {
            ("a", "") => {}
            ("ac", "b") => run.note("a before c"),
            ("ca", "b") => run.note("c before a"),
            other => panic!("{other:?}"),
        }
        match found {
            0 => run.note("found none"),
            1 => run.note("found one"),
            _ => {}
        }
    });
}

#[test]
fn node_commits_beside_one_of_the_document() {
    let model = Model::new("nodes: commits against one of the whole", 2)
        .reaches(["whole first"])
        .reaches_by("others", "whole second")
        .reaches_by("others", "whole last");
    model.check(|run| {
        let store = store_with(StoreOptions::new(), ["one", "two"]);
        let others = [("a", "one"), ("b", "two")]
            .map(|(letter, to)| act(run, "others", &store, move |store| write(store, letter, to)));
        let mut whole = store.begin("c").unwrap();
        let found = look(&store);
        append(&mut whole, "one", "c");
        assert_eq!(look(&store), found, "no transaction publishes beside it");
        whole.commit().unwrap();
        let others: Vec<_> = others.into_iter().filter_map(Actor::join).collect();
        assert!(others.iter().all(|published| *published));
        assert_eq!(look(&store), 1 + others.len());
        let expected = if others.is_empty() { "c" } else { "ac" };
        assert_eq!(letters(&text(&store, "one")), expected);
        at_rest(&store, others.len() as u64);
        run.note(["whole first", "whole second", "whole last"][found]);
    });
}

/// A commit whose wait to publish times out is rolled back, and holds up no other.
#[test]
fn node_commits_that_time_out_before_they_publish_hold_up_no_other() {
    let model = Model::new("nodes: expiry of a commit", 2)
        .reaches(["all published"])
        .reaches_by("timer", "one timed out");
    model.check(|run| {
        let store = store_with(StoreOptions::new(), ["one", "two"]);
        let others = [("b", "two"), ("c", "3rd")].map(|(letter, to)| {
            spawn(&store, move |store| {
                let mut transaction = store.begin_on(letter, Scope::new().write(to)).unwrap();
                match letter {
                    "b" => append(&mut transaction, to, letter),
                    _ => {
                        let created = NodeSpec::new("text").with_id(to).with_text(letter);
                        transaction.create(created).unwrap();
                    }
                }
                transaction.commit()
            })
        });
        let timer = act(run, "timer", &store, |store| store.expire("b"));
        assert!(write(&store, "a", "one"));
        let [b, c] = others.map(|other| other.join().unwrap());
        timer.join();
        assert!(c.is_ok());
        let timed_out = match b {
            Ok(_) => false,
            Err(CommitError::NotLocked(cause)) => {
                assert!(matches!(*cause, LockError::Timeout(_)), "{cause}");
                true
            }
            Err(other) => panic!("{other}"),
        };
        assert_eq!(look(&store), if timed_out { 2 } else { 3 });
        at_rest(&store, 3);
        run.note(if timed_out {
            "one timed out"
        } else {
            "all published"
        });
    });
}

/// Puts a letter before a text, as a batch with one attempt. Returns its version.
fn put(store: &DataStore, letter: &str, before: &str) -> u64 {
    let manager = TransactionManager::for_owner(store.clone(), letter).with_node_locks(1);
    let done = manager.execute([insert_text(0, letter).on(before)]);
    done.unwrap().version
}

/// A batch runs before its nodes are locked. What it wrote then is published only if no other
/// commit came between; otherwise it runs again, and needs no second attempt.
#[test]
fn node_commits_of_batches_lose_no_update() {
    let model = Model::new("nodes: batches on one node", 2)
        .reaches(["a first"])
        .reaches_by("others", "a second")
        .reaches_by("others", "a last");
    model.check(|run| {
        let store = store_with(StoreOptions::new(), ["n"]);
        let batch = |letter: &'static str| {
            let store = store.clone();
            // A batch on nodes takes more than the stack that loom gives to a thread.
            let deep = thread::Builder::new().stack_size(4 * 4096);
            deep.spawn(move || (letter, put(&store, letter, "n")))
                .unwrap()
        };
        let other = run.has("others").then(|| batch("b"));
        let by_hand = act(run, "others", &store, |store| {
            let mut transaction = store.begin_on("c", Scope::new().write("n")).unwrap();
            transaction.insert_text("n", 0, "c").unwrap();
            ("c", transaction.commit().unwrap().version)
        });
        let own = batch("a").join().unwrap();
        let other = other.map(|other| other.join().unwrap());
        let others = other.into_iter().chain(by_hand.join());
        let mut all: Vec<(&str, u64)> = others.chain([own]).collect();
        all.sort_by_key(|(_, version)| std::cmp::Reverse(*version));
        let expected: String = all.iter().map(|(letter, _)| *letter).collect();
        assert_eq!(text(&store, "n"), expected);
        at_rest(&store, all.len() as u64);
        run.note(["a first", "a second", "a last"][own.1 as usize - 2]);
    });
}

/// What a transaction read and wrote: one letter more than it read.
struct Step {
    version: u64,
    read: (&'static str, String),
    written: (&'static str, String),
}

/// Reads one node without a lock and writes its text and one more letter to another. Not repeated
/// when it fails.
fn copy(store: &DataStore, from: &'static str, to: &'static str) -> Option<Step> {
    let mut transaction = store.begin_on(from, Scope::new().write(to)).unwrap();
    let found = transaction.text_of(&node(from)).unwrap();
    let written = format!("{found}{}", &to[..1]);
    transaction.set_text(&node(to), &*written).unwrap();
    match transaction.commit() {
        Ok(committed) => Some(Step {
            version: committed.version,
            read: (from, found),
            written: (to, written),
        }),
        Err(CommitError::Conflict { node: Some(id), .. }) => {
            assert_eq!(id, node(from));
            None
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn node_commits_are_serializable() {
    let model = Model::new("nodes: write skew", 2)
        .reaches_by("others", "all committed")
        .reaches_by("others", "one refused");
    model.check(|run| {
        let names = ["one", "two", "3rd"];
        let store = store_with(StoreOptions::new(), names);
        // Each reads the node that the next writes.
        let others = [("two", "one"), ("3rd", "two")]
            .map(|(from, to)| act(run, "others", &store, move |store| copy(store, from, to)));
        let own = copy(&store, "one", "3rd");
        let others = others.into_iter().filter_map(Actor::join);
        let all: Vec<Option<Step>> = others.chain([own]).collect();
        let count = all.len();
        let mut steps: Vec<Step> = all.into_iter().flatten().collect();
        steps.sort_by_key(|step| step.version);
        assert!(
            steps
                .iter()
                .map(|step| step.version)
                .eq(2..=store.version())
        );
        let mut document = names.map(|name| (name, String::new()));
        for step in &steps {
            let at = |name| document.iter().position(|it| it.0 == name).unwrap();
            let (read, written) = (at(step.read.0), at(step.written.0));
            assert_eq!(document[read], step.read, "read as of its commit");
            document[written].1.clone_from(&step.written.1);
        }
        for (name, expected) in document {
            assert_eq!(text(&store, name), expected);
        }
        at_rest(&store, count as u64);
        match (count, steps.len()) {
            (1, 1) => {}
            (3, 3) => run.note("all committed"),
            (3, 2) => run.note("one refused"),
            // A refused transaction has committed nothing that the one before it could have read.
            _ => panic!("more than one was refused"),
        }
    });
}

fn limited() -> StoreOptions {
    StoreOptions::new().hold_limit(AGES)
}

/// Three write to one node, and one of them may be revoked. Every published letter is there once,
/// and nothing else.
fn revocation(
    name: &'static str,
    a: fn(&DataStore, &str, &str) -> bool,
    b: fn(&DataStore, &str, &str) -> bool,
) {
    let model = Model::new(name, 2)
        .reaches(["all published"])
        .reaches_by("timer", "a revoked")
        .reaches_by("timer", "another revoked");
    model.check(move |run| {
        let store = store_with(limited(), ["n"]);
        let others = [("b", b), ("c", write as fn(&DataStore, &str, &str) -> bool)]
            .map(|(letter, write)| spawn(&store, move |store| write(store, letter, "n")));
        let timer = act(run, "timer", &store, DataStore::expire_hold);
        let a = a(&store, "a", "n");
        let [b, c] = others.map(|other| other.join().unwrap());
        timer.join();
        let published = [("a", a), ("b", b), ("c", c)];
        let expected: String = published.iter().filter(|it| it.1).map(|it| it.0).collect();
        assert_eq!(letters(&text(&store, "n")), expected);
        look(&store);
        let whole = store.lock_stats();
        let revoked = whole.total_revocations + store.node_locks().stats().total_revocations;
        let ended = whole.total_releases + whole.total_revocations;
        assert_eq!(whole.total_acquisitions, ended);
        at_rest(&store, 4 - whole.total_acquisitions);
        assert_eq!(revoked, 3 - expected.len() as u64);
        run.note(match (a, b && c) {
            (true, true) => "all published",
            (false, true) => "a revoked",
            _ => "another revoked",
        });
    });
}

#[test]
fn node_commits_come_before_a_revocation_or_not_at_all() {
    revocation("nodes: revoke against commit", write, write);
}

#[test]
fn node_commits_come_before_a_revocation_for_the_document_lock_or_not_at_all() {
    revocation(
        "nodes: revoke for the whole against commit",
        write,
        write_whole,
    );
}

/// Creates a store on a clock that the model moves, so that the keeper takes its own way through
/// the limit.
fn timed() -> (DataStore, ManualClock) {
    let clock = ManualClock::new();
    let options = StoreOptions::new().clock(clock.clock()).hold_limit(LIMIT);
    (DataStore::with_options(options.lock_timeout(None)), clock)
}

const LIMIT: Duration = Duration::from_millis(1);

fn until(condition: impl Fn() -> bool) {
    while !condition() {
        loom::thread::yield_now();
    }
}

/// The keeper revokes both: after the first revocation, the limit passes for the new
/// holder.
#[test]
fn node_holders_and_the_next_holder_are_revoked_for_the_document_lock() {
    let model =
        Model::new("nodes: a passed hold limit, for the whole", 2).reaches_by("keeper", "revoked");
    model.check(|run| {
        let (store, clock) = timed();
        let keeper = run.spawn("keeper", store.keeper_thread());
        let slow = ["n", "m"].map(|id| take(&store, "slow", Scope::new().write(id)));
        let asking =
            ["b", "c"].map(|owner| spawn(&store, move |store| store.acquire_lock(owner).unwrap()));
        until(|| store.queue_length() == 2);
        if !run.has("keeper") {
            // The next holder is released where it would have been revoked.
            drop(slow);
            store
                .release_lock(store.current_lock().unwrap().lock_id)
                .unwrap();
            for asking in asking {
                asking.join().unwrap();
            }
            return;
        }
        clock.advance(LIMIT);
        until(|| store.queue_length() == 1);
        clock.advance(LIMIT);
        let [b, c] = asking.map(|asking| asking.join().unwrap());
        let released = [b, c].map(|id| store.release_lock(id).is_ok());
        assert!(released[0] != released[1], "one was revoked");
        drop(slow);
        let stats = at_rest(&store, 2);
        assert_eq!(stats.total_revocations, 2);
        drop(store);
        keeper.join();
        run.note("revoked");
    });
}

/// A holder of a node that waits for another cannot be revoked until it has both; the keeper knows
/// when.
#[test]
fn node_holders_are_revoked_after_a_wait_of_their_own() {
    let model =
        Model::new("nodes: a passed hold limit, for a node", 2).reaches_by("keeper", "revoked");
    model.check(|run| {
        let (store, clock) = timed();
        let keeper = run.spawn("keeper", store.keeper_thread());
        let locks = store.node_locks();
        let holder = take(&store, "holder", Scope::new().write("n"));
        let asks =
            |owner, set: Scope| spawn(&store, move |store| store.node_locks().lock(owner, set));
        let slow = asks("slow", Scope::new().write("n").write("m"));
        until(|| locks.stats().waiting == 1);
        let last = asks("last", Scope::new().write("m"));
        until(|| locks.stats().waiting == 2);
        drop(holder);
        let slow = slow.join().unwrap().unwrap();
        clock.advance(LIMIT);
        let slow = run.has("keeper").then_some(slow);
        drop(last.join().unwrap().unwrap());
        drop(slow);
        if at_rest(&store, 3).total_revocations == 1 {
            run.note("revoked");
        }
        drop((locks, store));
        keeper.join();
    });
}
