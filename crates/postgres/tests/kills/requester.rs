//! Machines that are never the owner of a document, and submit requests to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use doclock::codes::CodedError;
use doclock_postgres::{Postgres, RequestError, RequestOptions, Requests};

use crate::dice::Dice;
use crate::lists::{self, KEYS};
use crate::report::{Step, now};

/// A request, and what its machine was told.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// The machine, as the number of a process.
    pub(crate) machine: u64,
    pub(crate) ops: Vec<Step>,
    pub(crate) began: u64,
    pub(crate) ended: u64,
    /// Its number, unless it is not known whether it was inserted.
    pub(crate) number: Option<u64>,
    pub(crate) told: Told,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Done {
        version: u64,
        token: u64,
        epoch: u64,
    },
    /// The batch has changed nothing, and never will.
    Refused(String),
    Unknown,
}

/// How long an outcome may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The machines of a document.
pub(crate) struct Requesters {
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Asked>>>,
}

impl Requesters {
    pub(crate) fn start(server: &Postgres, document: &str, dice: &mut Dice) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let thread = |machine: u64| {
            let requests = server.requests(document, &format!("machine {machine}"));
            let machine = Machine {
                requests: requests.unwrap(),
                machine,
                ends: Arc::clone(&ends),
                dice: Dice(dice.next()),
            };
            thread::spawn(move || machine.run())
        };
        // Above the numbers of the processes.
        let threads = (90..92).map(thread).collect();
        Self { ends, threads }
    }

    /// Waits for the last outcomes, and returns all.
    pub(crate) fn end(self) -> Vec<Asked> {
        self.ends.store(true, Ordering::Relaxed);
        let threads = self.threads.into_iter();
        threads.flat_map(|thread| thread.join().unwrap()).collect()
    }
}

struct Machine {
    requests: Requests,
    machine: u64,
    ends: Arc<AtomicBool>,
    dice: Dice,
}

impl Machine {
    fn run(mut self) -> Vec<Asked> {
        let mut all = Vec::new();
        let mut values = self.machine * 100_000..;
        while !self.ends.load(Ordering::Relaxed) {
            let ops = (0..=self.dice.below(2)).map(|_| {
                let key = self.dice.below(KEYS as usize) as u32;
                Step::Append(key, values.next().unwrap())
            });
            let (ops, began) = (ops.collect::<Vec<_>>(), now());
            let (number, told) = self.ask(&ops, all.len());
            all.push(Asked {
                machine: self.machine,
                ops,
                began,
                ended: now(),
                number,
                told,
            });
            // A load that leaves the machine time for the other documents.
            thread::sleep(Duration::from_micros(self.dice.below(20_000) as u64));
        }
        all
    }

    fn ask(&mut self, ops: &[Step], nth: usize) -> (Option<u64>, Told) {
        let key = format!("machine {} request {nth}", self.machine);
        let mut options = RequestOptions::new("requester").key(key);
        if self.dice.one_in(8) {
            options = options.timeout(Duration::from_millis(1 + self.dice.below(60) as u64));
        }
        let pending = match self.requests.submit(lists::batch(ops), options) {
            Ok(pending) => pending,
            Err(RequestError::Server(_)) => return (None, Told::Unknown),
            Err(error) => panic!("{error}"),
        };
        if self.dice.one_in(6) {
            thread::sleep(Duration::from_micros(self.dice.below(8_000) as u64));
            // It may fail, and the request may have run before.
            let _ = pending.cancel();
        }
        let deadline = Instant::now() + PATIENCE;
        let told = loop {
            match told(pending.wait(Duration::from_secs(5))) {
                Some(told) => break told,
                None if Instant::now() < deadline => {}
                None => panic!("request {} has no outcome", pending.number()),
            }
        };
        (Some(pending.number()), told)
    }
}

/// What a machine is told by the outcome of a request. `None` if there is none yet.
pub(crate) fn told(
    outcome: Result<doclock::transaction::TransactionResult, RequestError>,
) -> Option<Told> {
    match outcome {
        Ok(result) => Some(Told::Done {
            version: result.version,
            token: result.fencing_token.get(),
            epoch: result.fencing_token.epoch(),
        }),
        Err(error @ (RequestError::Expired { .. } | RequestError::Cancelled { .. })) => {
            Some(Told::Refused(error.code().to_owned()))
        }
        Err(RequestError::Timeout { .. } | RequestError::Server(_)) => None,
        Err(error) => panic!("{error}"),
    }
}
