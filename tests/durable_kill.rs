//! Kills a process that edits a durable document, again and again, and checks what the next open
//! finds. The child edits with eight threads and reports each acknowledgement through a pipe. Now
//! and then it closes and reopens the document, so it is killed in these too.
//!
//! `DOCLOCK_KILLS` sets the number of kills, `SEED` their moments.

fn main() {
    #[cfg(feature = "redb")]
    match std::env::args().nth(1).as_deref() {
        Some(kill::CHILD) => kill::child(),
        _ => kill::parent(),
    }
}

#[cfg(feature = "redb")]
mod kill {
    use std::collections::HashSet;
    use std::io::{BufRead, BufReader, Write, stdout};
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::thread;
    use std::time::Duration;

    use doclock::document::{Change, check};
    use doclock::durable::DurableOptions;
    use doclock::inbox::{Inbox, Outcome};

    use doclock::transaction::TransactionResult;
    use doclock::{DataStore, TransactionManager, View, dsl::*};

    pub(crate) const CHILD: &str = "child-that-is-killed";
    const THREADS: usize = 8;

    /// Checkpoints are frequent, so that many kills meet one.
    fn options() -> DurableOptions {
        DurableOptions::new().checkpoint_after(4_000)
    }

    /// Reports in one write, so that no line is half a line.
    fn report(line: &str) {
        let mut out = stdout().lock();
        // The parent is gone if this fails.
        if out
            .write_all(line.as_bytes())
            .and_then(|()| out.flush())
            .is_err()
        {
            std::process::exit(1);
        }
    }

    /// Edits until it is killed: each commit adds two nodes, named by the commit's thread and
    /// number, to those that the thread has added before.
    pub(crate) fn child() {
        let path = std::env::args().nth(2).unwrap();
        for round in 0.. {
            let store = DataStore::open_with(&path, options()).unwrap();
            report(&format!("open {}\n", store.version()));
            thread::scope(|scope| {
                for thread in 0..THREADS {
                    let store = store.clone();
                    scope.spawn(move || {
                        let snapshot = store.snapshot();
                        let next =
                            (0..).find(|nth| !snapshot.contains(format!("{thread}-{nth}-a")));
                        drop(snapshot);
                        edit(&store, thread, next.unwrap_or(0), 20 + 15 * round);
                    });
                }
            });
            store.close().unwrap();
            report("closed\n");
        }
    }

    fn edit(store: &DataStore, thread: usize, first: usize, count: usize) {
        let manager = TransactionManager::for_owner(store.clone(), format!("thread {thread}"));
        for nth in first..first + count {
            if nth % 7 == 0 {
                // A grant that no commit records.
                let id = store.acquire_lock("window").unwrap();
                store.release_lock(id).unwrap();
                report(&format!("lock {}\n", id.number()));
            }
            let result = deliver(&manager, thread, nth).expect("it was not delivered before");
            let created = result.changes.iter().rev().find_map(|change| match change {
                Change::InsertSubtree { nodes, .. } => nodes.first(),
                _ => None,
            });
            report(&format!(
                "ack {} {thread} {nth} {} {} {}\n",
                result.version,
                result.fencing_token,
                result.transaction_id,
                created.unwrap().id(),
            ));
        }
    }

    /// Commits a thread's commit of this number, unless it was committed before: `None` then. Each
    /// second commit is the effect of a message, the others have an idempotency key.
    fn deliver(
        manager: &TransactionManager,
        thread: usize,
        nth: usize,
    ) -> Option<TransactionResult> {
        let id = |half: &str| format!("{thread}-{nth}-{half}");
        let node = |half: &str| text_node("paragraph", "some text").with_id(id(half));
        if nth.is_multiple_of(2) {
            let batch = [
                create(node("a")),
                create(node("b")),
                create(element("x", [])),
            ];
            let result = manager.transaction(batch).idempotent(id("key")).commit();
            return Some(result.unwrap()).filter(|result| !result.repeated);
        }
        let claim = match Inbox::new(manager.store(), "messages").claim(&(id("event"), ())) {
            Ok(claim) => claim,
            Err(Outcome::Duplicate) => return None,
            Err(outcome) => panic!("{outcome:?}"),
        };
        let mut transaction = manager.store().begin("messages").unwrap();
        for node in [node("a"), node("b"), element("x", [])] {
            transaction.create(node).unwrap();
        }
        Some(claim.commit(transaction).unwrap())
    }

    pub(crate) fn parent() {
        let number = |name: &str, default: u64| {
            std::env::var(name)
                .ok()
                .and_then(|value| value.parse().ok())
                .unwrap_or(default)
        };
        let kills = number("DOCLOCK_KILLS", 12);
        let seed = number("SEED", u64::from(std::process::id()));
        println!("running {kills} kills, SEED={seed}");
        let mut random = seed | 1;
        let mut below = move |bound: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % bound
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("killed.doclock");
        let mut seen = HashSet::new();
        let mut acknowledged = HashSet::new();
        let (mut at_open, mut acks) = (0, 0);
        for kill in 0..kills {
            let lines = run_and_kill(&path, Duration::from_micros(300 + below(90_000)));
            let mut last = 0;
            at_open += usize::from(lines.last().is_none_or(|last| last == "closed"));
            for line in &lines {
                let words: Vec<&str> = line.split(' ').collect();
                match words[..] {
                    ["ack", version, thread, nth, token, transaction, node] => {
                        last = last.max(version.parse::<u64>().unwrap());
                        acknowledged.insert((thread.to_owned(), nth.to_owned()));
                        for (kind, number) in [
                            ("token", token),
                            ("transaction", transaction),
                            ("node", node),
                        ] {
                            let is_new = seen.insert(format!("{kind} {number}"));
                            assert!(is_new, "kill {kill}: {kind} {number} returned");
                        }
                        acks += 1;
                    }
                    ["lock", number] => {
                        let is_new = seen.insert(format!("lock {number}"));
                        assert!(is_new, "kill {kill}: lock {number} returned");
                    }
                    _ => {}
                }
            }
            let store = DataStore::open_with(&path, options()).unwrap();
            check_document(&store, &acknowledged, last, kill);
            drop(store);
        }
        assert!(acks > 0, "no commit was acknowledged");
        println!("{acks} commits acknowledged, {at_open} of the kills before an open was complete");
        println!("test result: ok. {kills} passed; 0 failed");
    }

    /// The lines that the child reported until it was killed.
    fn run_and_kill(path: &Path, after: Duration) -> Vec<String> {
        let program = std::env::current_exe().unwrap();
        let mut child = Command::new(program)
            .arg(CHILD)
            .arg(path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let reader = thread::spawn(move || out.lines().map_while(Result::ok).collect());
        // Not to get an order, but for a random moment.
        thread::sleep(after);
        child.kill().unwrap();
        child.wait().unwrap();
        reader.join().unwrap()
    }

    fn check_document(
        store: &DataStore,
        acknowledged: &HashSet<(String, String)>,
        last: u64,
        kill: u64,
    ) {
        let snapshot = store.snapshot();
        assert_eq!(check(&snapshot), Ok(()), "kill {kill}");
        assert!(
            snapshot.version() >= last,
            "kill {kill}: version {last} was acknowledged"
        );
        for (thread, nth) in acknowledged {
            for half in ["a", "b"] {
                let id = format!("{thread}-{nth}-{half}");
                assert!(
                    snapshot.contains(&*id),
                    "kill {kill}: {id} was acknowledged"
                );
            }
        }
        // Each commit adds three nodes, the next of its thread: so the numbers of all threads
        // determine the document, and a commit that is half there or there twice changes the sum.
        assert_eq!(snapshot.len() as u64, 3 * snapshot.version(), "kill {kill}");
        let of = |thread: usize| {
            let has = |nth: &u64| snapshot.contains(format!("{thread}-{nth}-b"));
            (0..).take_while(has).count() as u64
        };
        assert_eq!(
            (0..THREADS).map(of).sum::<u64>(),
            snapshot.version(),
            "kill {kill}"
        );
        // What was committed is not committed again, acknowledged or not.
        let manager = TransactionManager::new(store.clone());
        for thread in 0..THREADS {
            let committed = of(thread) as usize;
            for nth in committed.saturating_sub(8)..committed {
                let again = deliver(&manager, thread, nth);
                assert!(again.is_none(), "kill {kill}: {thread}-{nth} ran again");
            }
        }
        assert_eq!(store.version(), snapshot.version());
        assert!(
            snapshot
                .node("0-0-a")
                .is_none_or(|node| *node.text() == "some text")
        );
    }
}
