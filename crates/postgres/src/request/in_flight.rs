//! The requests that the owner runs now, as its journal knows them.

use std::collections::BTreeMap;

use doclock::durable::WrittenReceipt;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::outcome::SettledOutcome;

/// The requests that run, or whose commits are not appended yet, by their numbers.
///
/// A request is added before it runs, because its commit can be appended before its result is
/// returned. The journal writes the outcomes of those that a block commits.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    running: Mutex<BTreeMap<i64, Running>>,
    /// Notified when requests are answered.
    pub(crate) changed: Notify,
}

/// By what the receipt of a request is recognized.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) key: String,
    pub(super) digest: u128,
    pub(super) owner: String,
}

/// The outcomes that an append writes, in the order of their requests.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    pub(crate) numbers: Vec<i64>,
    pub(crate) outcomes: Vec<Vec<u8>>,
    pub(crate) versions: Vec<i64>,
}

impl InFlight {
    pub(super) fn add(&self, number: i64, running: Running) {
        self.running.lock().insert(number, running);
    }

    pub(super) fn remove(&self, number: i64) {
        let removed = self.running.lock().remove(&number);
        drop(removed);
    }

    pub(super) fn has(&self, number: i64) -> bool {
        self.running.lock().contains_key(&number)
    }

    pub(super) fn len(&self) -> usize {
        self.running.lock().len()
    }

    /// The lowest number in flight.
    pub(super) fn first(&self) -> Option<i64> {
        let running = self.running.lock();
        running.first_key_value().map(|(number, _)| *number)
    }

    /// The outcomes of the requests whose receipts are in a block.
    ///
    /// Another batch under the same key has another digest, and is no outcome of the request. The
    /// same batch of another caller is: the request gets its result as a repetition.
    pub(crate) fn answers(&self, receipts: &[WrittenReceipt]) -> Answers {
        let mut found = BTreeMap::new();
        let running = self.running.lock();
        for receipt in receipts {
            let is_of = |(_, running): &(&i64, &Running)| {
                running.key == *receipt.key && running.digest == receipt.digest
            };
            for (nth, (number, running)) in running.iter().filter(is_of).enumerate() {
                let is_first = nth == 0 && *receipt.result.owner.as_str() == *running.owner;
                found.insert(*number, (receipt, !is_first));
            }
        }
        drop(running);
        let mut answers = Answers::default();
        for (number, (receipt, repeated)) in found {
            let mut result = receipt.result.clone();
            result.repeated = repeated;
            answers.numbers.push(number);
            answers
                .versions
                .push(i64::try_from(result.version).unwrap_or(i64::MAX));
            answers
                .outcomes
                .push(SettledOutcome::Done(Box::new(result)).to_bytes());
        }
        answers
    }

    /// Forgets requests whose outcomes are written.
    pub(crate) fn answered(&self, numbers: &[i64]) {
        if numbers.is_empty() {
            return;
        }
        let mut running = self.running.lock();
        for number in numbers {
            running.remove(number);
        }
        drop(running);
        self.changed.notify_one();
    }
}
