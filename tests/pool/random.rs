//! Threads and tasks that get, edit and close random documents, compared with a list of what was
//! acknowledged.
//!
//! `DOCLOCK_POOL_STEPS` sets the steps of each thread and task, `SEED` the cases.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use doclock::codes::CodedError;
use doclock::durable::DurableOptions;
use doclock::pool::{Document, Documents, PoolError, PoolOptions};
use doclock::{CommitError, DataStore, View};

use crate::dice::Dice;
use crate::{Count, Counted, add};

const SLOTS: usize = 3;
const NAMES: usize = 8;

fn setting(name: &str, default: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.map_or(default, |text| text.parse().expect("a number"))
}

/// Beside each store: it counts until its store is closed, by the pool or by a test.
struct Beside(Mutex<Option<Counted>>);

/// What is known of one document, independent of the pool.
#[derive(Default)]
struct Known {
    acknowledged: Vec<String>,
    /// Edits whose error leaves open whether they are stored.
    possible: Vec<String>,
}

/// What all threads and tasks share.
#[derive(Clone)]
struct Subject {
    documents: Documents<Beside>,
    known: Arc<Mutex<BTreeMap<String, Known>>>,
    next: Arc<AtomicU64>,
    refused: Arc<AtomicBool>,
}

impl Subject {
    fn new(folder: &Path, count: &Count) -> Self {
        let (folder, count) = (folder.to_owned(), count.clone());
        let options = PoolOptions::new(SLOTS)
            .timeout(Duration::from_secs(60))
            .idle_after(Duration::from_millis(3));
        let opens = AtomicU64::new(0);
        let documents = Documents::new(options, move |opening| {
            if opens.fetch_add(1, Ordering::Relaxed) % 16 == 7 {
                Err("the opener fails now and then")?;
            }
            let store = opening.open_in(&folder, DurableOptions::new())?;
            Ok((store, Beside(Mutex::new(Some(count.open())))))
        });
        Self {
            documents,
            known: Arc::default(),
            next: Arc::default(),
            refused: Arc::default(),
        }
    }

    /// Edits a document, and notes what was answered.
    fn edit(&self, document: &Document<Beside>) {
        let id = format!("n{}", self.next.fetch_add(1, Ordering::Relaxed));
        let end = add(document, &id);
        let mut known = self.known.lock().unwrap();
        let known = known.entry(document.name().to_owned()).or_default();
        match end {
            Ok(()) => known.acknowledged.push(id),
            // A test has closed the store.
            Err(CommitError::ReadOnly { .. }) => {}
            Err(CommitError::Unknown { .. }) => known.possible.push(id),
            Err(other) => panic!("{other:?}"),
        }
    }

    /// Uses a document that was granted.
    fn work(&self, dice: &mut Dice, document: Document<Beside>) {
        assert!(self.documents.snapshot().open <= SLOTS);
        let copy = dice.one_in(4).then(|| document.clone());
        for _ in 0..dice.below(3) {
            self.edit(&document);
        }
        if dice.one_in(12) {
            // From now on it counts no more, although it has its slot until it is replaced.
            document.data().0.lock().unwrap().take();
            document.store().close().unwrap();
        }
        drop(copy);
    }

    /// Checks the error of a request.
    fn failed(&self, error: &PoolError) {
        self.refused.store(true, Ordering::Relaxed);
        let expected = ["poolFull", "documentBusy", "documentInUse", "openerFailed"];
        assert!(expected.contains(&error.code()), "{error:?}");
    }

    fn step_of_thread(&self, dice: &mut Dice) {
        let name = format!("doc-{}", dice.below(NAMES));
        let request = self.documents.get(&name);
        let request = match dice.below(6) {
            0 => request.no_wait(),
            1 => request.timeout(Duration::from_micros(dice.next() % 2_000)),
            _ => request,
        };
        match dice.below(12) {
            0 => match self.documents.close(&name).wait() {
                Ok(closed) => drop(closed),
                Err(error) => self.failed(&error),
            },
            1 => {
                self.documents.close_idle(Duration::ZERO).wait().unwrap();
            }
            _ => match request.wait() {
                Ok(document) => self.work(dice, document),
                Err(error) => self.failed(&error),
            },
        }
    }

    async fn step_of_task(&self, dice: &mut Dice) {
        let name = format!("doc-{}", dice.below(NAMES));
        let polls = if dice.one_in(3) {
            dice.below(4)
        } else {
            usize::MAX
        };
        let request = self.documents.get(&name).into_future();
        match maybe(polls, request).await {
            None => {}
            Some(Ok(document)) => self.work(dice, document),
            Some(Err(error)) => self.failed(&error),
        }
        if dice.one_in(12) {
            match maybe(polls, self.documents.close(&name).into_future()).await {
                None | Some(Ok(_)) => {}
                Some(Err(error)) => self.failed(&error),
            }
        }
    }
}

/// Polls a future so many times at most.
async fn maybe<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut left) = (pin!(future), polls);
    let poll = poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            if polls != usize::MAX {
                context.waker().wake_by_ref();
            }
            Poll::Pending
        }
    });
    poll.await
}

#[test]
fn pool_01_pool_03_random_uses_keep_the_bound_and_lose_nothing() {
    let (steps, seed) = (
        setting("DOCLOCK_POOL_STEPS", 60),
        setting("SEED", u64::from(std::process::id())),
    );
    println!("SEED={seed}");
    let (folder, count) = (tempfile::tempdir().unwrap(), Count::default());
    let subject = Subject::new(folder.path(), &count);
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(2).build().unwrap();
    let tasks: Vec<_> = (0..4)
        .map(|nth| {
            let subject = subject.clone();
            runtime.spawn(async move {
                let mut dice = Dice(seed ^ (100 + nth));
                for _ in 0..steps {
                    subject.step_of_task(&mut dice).await;
                }
            })
        })
        .collect();
    thread::scope(|threads| {
        for nth in 0..4 {
            let subject = &subject;
            threads.spawn(move || {
                let mut dice = Dice(seed ^ nth);
                (0..steps).for_each(|_| subject.step_of_thread(&mut dice));
            });
        }
    });
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    drop(runtime);
    let Subject {
        documents,
        known,
        refused,
        ..
    } = subject;
    assert!(refused.load(Ordering::Relaxed), "no request was refused");
    drop(documents);
    assert_eq!(count.now(), 0, "all documents are closed");
    assert!(
        count.most() <= SLOTS,
        "{} documents were open",
        count.most()
    );
    assert!(count.opens() > NAMES, "documents took turns");
    for (name, known) in known.lock().unwrap().iter() {
        let store = DataStore::open(folder.path().join(format!("{name}.doclock"))).unwrap();
        let document = store.snapshot();
        for id in &known.acknowledged {
            assert!(document.contains(id.as_str()), "{name} has lost {id}");
        }
        let most = known.acknowledged.len() + known.possible.len();
        assert!(
            document.len() <= most,
            "{name} has an edit that was refused"
        );
    }
}
