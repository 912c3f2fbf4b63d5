//! A process that owns a document whenever it can, with the parts of which a member consists.

use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use doclock::durable::{DurabilityError, DurableOptions, Replica};
use doclock::{CommitError, DataStore, Transaction, TransactionManager};
use doclock_postgres::{
    Postgres, PostgresJournal, RequestRunner, RunnerOptions, Term, TermOptions,
};

use crate::dice::Dice;
use crate::lists::{self, KEYS};
use crate::report::{End, Report, Step, now, report};
use crate::support;

pub(crate) const ARGUMENT: &str = "process-of-a-document";

/// With what a process takes part in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum With {
    /// A `Term`, a store in its journal, a `RequestRunner` and a `Replica`.
    Parts,
    /// A `Member`.
    Member,
}

/// How long a term lasts.
pub(crate) const TERM: Duration = Duration::from_millis(300);

/// How many threads of an owner run transactions.
pub(crate) const THREADS: usize = 3;

/// Small checkpoints, so that many faults meet one.
pub(crate) fn durable_options() -> DurableOptions {
    DurableOptions::new().checkpoint_after(6_000)
}

/// The arguments: with what, the connection parameters, the document, the number of the process.
pub(crate) fn run() {
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    let [with, parameters, document, number] = &arguments[..] else {
        panic!("{arguments:?}")
    };
    let number: u64 = number.parse().unwrap();
    static ENDS: AtomicBool = AtomicBool::new(false);
    thread::spawn(|| {
        // It ends with the parent, or when that closes the pipe.
        let _ = std::io::stdin().read(&mut [0]);
        ENDS.store(true, Ordering::Relaxed);
    });
    let child = Child {
        document: document.clone(),
        number,
        values: AtomicU64::new(number * 100_000),
        nth: AtomicU64::new(0),
        ends: &ENDS,
    };
    let server = loop {
        match Postgres::connect(support::options(parameters)) {
            Ok(server) => break server,
            Err(_) if child.ends() => return,
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    };
    match *with == format!("{:?}", With::Member) {
        true => child.take_part(&server),
        false => child.live(&server),
    }
}

pub(crate) struct Child {
    pub(crate) document: String,
    pub(crate) number: u64,
    values: AtomicU64,
    nth: AtomicU64,
    ends: &'static AtomicBool,
}

impl Child {
    pub(crate) fn ends(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    /// The number of the next transaction.
    pub(crate) fn next(&self) -> u64 {
        self.nth.fetch_add(1, Ordering::Relaxed)
    }

    /// A value that no other transaction appends.
    pub(crate) fn value(&self) -> u64 {
        self.values.fetch_add(1, Ordering::Relaxed)
    }

    /// Follows the document until it has no owner, owns it until the term is lost, and again.
    fn live(&self, server: &Postgres) {
        let mut dice = Dice(self.number);
        let mut follower: Option<Replica> = None;
        let mut reader = server.reader(&self.document).unwrap();
        while !self.ends() {
            let options = TermOptions::new(format!("process {}", self.number))
                .term(TERM)
                .poll(Duration::from_millis(20))
                .timeout(Duration::from_millis(100));
            match server.acquire(&self.document, options) {
                Ok((term, journal)) => {
                    // Half of the owners load the document.
                    let follower = follower.take().filter(|_| dice.one_in(2));
                    self.own(&term, journal, follower);
                }
                Err(_) => match &mut follower {
                    Some(known) => {
                        if known.catch_up(&mut reader, |_| {}).is_err() {
                            follower = None;
                        }
                    }
                    None => follower = Replica::load(&mut reader, &durable_options()).ok(),
                },
            }
        }
    }

    fn own(&self, term: &Term, journal: PostgresJournal, follower: Option<Replica>) {
        let (epoch, followed) = (term.epoch(), follower.is_some());
        let opened = match follower {
            Some(follower) => follower
                .into_store(journal, durable_options())
                .map_err(|error| error.to_string()),
            None => DataStore::open_journal(journal, durable_options())
                .map_err(|error| error.to_string()),
        };
        let store = match opened {
            Ok(store) => store,
            Err(_) if term.lost().is_some() => return,
            // The server may be away. The log is read by the judge too, so nothing is hidden.
            Err(reason) => return report(&Report::Lost { epoch, reason }),
        };
        report(&Report::Owns {
            epoch,
            version: Some(store.version()),
            followed,
        });
        if !lists::exist(&store.snapshot()) {
            let transaction = store.begin("setup");
            let created = transaction.ok().and_then(|mut transaction| {
                lists::create(&mut transaction);
                transaction.commit().ok()
            });
            if created.is_none() {
                return;
            }
        }
        let of_requests = store.clone();
        let options = RunnerOptions::new().longest_poll(Duration::from_millis(10));
        let runner = RequestRunner::start(term, options, move |owner| {
            TransactionManager::for_owner(of_requests.clone(), owner)
        });
        let runner = runner.unwrap();
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (store, mut dice) = (store.clone(), Dice(epoch * 8 + thread as u64));
                scope.spawn(move || {
                    while term.is_owner() && !self.ends() {
                        let end = self.transaction(term, &store, &mut dice, thread);
                        if end == End::Refused {
                            break;
                        }
                        // A load that leaves the machine time for the other documents.
                        thread::sleep(Duration::from_micros(dice.below(8_000) as u64));
                    }
                });
            }
        });
        runner.stop();
        // The next owner repeats the log of some owners, and has the checkpoint of others.
        if self.ends() && store.close().is_ok() {
            let _ = term.hand_over();
        }
        if let Some(reason) = term.lost() {
            let reason = reason.to_string();
            report(&Report::Lost { epoch, reason });
        }
    }

    fn transaction(&self, term: &Term, store: &DataStore, dice: &mut Dice, thread: usize) -> End {
        let nth = self.next();
        // For a third of the time an owner only reads. Otherwise a refused commit would tell it at
        // once that another owner has begun, and no stale read could show.
        let is_calm = (now() / 60_000_000).is_multiple_of(3);
        let only_reads = is_calm || dice.one_in(4);
        let mut ops: Vec<Step> = (0..=dice.below(3))
            .map(|_| {
                let key = dice.below(KEYS as usize) as u32;
                match only_reads || dice.one_in(2) {
                    true => Step::Read(key, Vec::new()),
                    false => Step::Append(key, self.value()),
                }
            })
            .collect();
        let only_reads = ops.iter().all(|op| matches!(op, Step::Read(..)));
        report(&Report::Began {
            nth,
            epoch: term.epoch(),
            at: now(),
            ops: ops.clone(),
        });
        let end = match only_reads {
            true if dice.one_in(2) => read_durable(term, store, &mut ops),
            _ => match store.begin(format!("thread {thread}")) {
                Ok(mut transaction) => {
                    lists::perform(&mut transaction, &mut ops);
                    match only_reads {
                        true => read(term, store, transaction),
                        false => commit(transaction),
                    }
                }
                Err(_) => End::Refused,
            },
        };
        report(&Report::Ended {
            nth,
            at: now(),
            ops,
            end: end.clone(),
        });
        end
    }
}

/// Answers from the durable snapshot.
fn read_durable(term: &Term, store: &DataStore, ops: &mut [Step]) -> End {
    let at = now();
    let snapshot = store.durable_snapshot().unwrap();
    // After the term it is as old as it is.
    let lag = if term.is_owner() { 0 } else { u64::MAX };
    lists::observe(&snapshot, ops);
    End::Showed {
        version: snapshot.version(),
        epoch: Some(term.epoch()),
        at,
        lag,
    }
}

/// Answers from a transaction, if what it has seen is durable and the term lasts.
fn read(term: &Term, store: &DataStore, transaction: Transaction) -> End {
    let seen = store.version();
    transaction.rollback();
    match store
        .wait_durable(seen)
        .timeout(Duration::from_secs(30))
        .wait()
    {
        Ok(_) if term.is_owner() => End::Read,
        _ => End::Unknown,
    }
}

fn commit(transaction: Transaction) -> End {
    match transaction.commit() {
        Ok(result) => End::Committed {
            version: result.version,
            token: result.fencing_token.get(),
            token_epoch: result.fencing_token.epoch(),
        },
        Err(CommitError::Fenced { cause, .. }) => {
            if !matches!(*cause, DurabilityError::Fenced { .. }) {
                let what = format!("fenced because of {cause}");
                report(&Report::Wrong { what });
            }
            End::Fenced
        }
        Err(CommitError::Unknown { .. }) => End::Unknown,
        Err(CommitError::NotStored { .. }) => End::Refused,
        Err(CommitError::ReadOnly { .. }) => End::Refused,
        Err(error) => {
            let what = error.to_string();
            report(&Report::Wrong { what });
            End::Unknown
        }
    }
}
