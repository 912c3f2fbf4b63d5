//! Accounts, the messages that change them, and the threads that book the messages.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use doclock::lock::{
    LockError,
    keyed::{KeyedLock, Reservation},
};

use crate::args::Options;

pub const ACCOUNTS: [&str; 5] = ["ann", "bob", "cid", "dan", "eve"];

/// The key is an account; the result of a task is the new balance.
pub type Accounts = KeyedLock<&'static str, i64>;

#[derive(Clone, Copy)]
pub struct Message {
    /// Counted from one, in the order of arrival.
    pub number: u32,
    pub account: &'static str,
    pub amount: i64,
    /// How long it occupies a worker.
    pub work: Duration,
}

/// The accounts of the messages, repeated: some have more messages than others.
const ARRIVALS: [&str; 12] = [
    "ann", "bob", "ann", "cid", "dan", "bob", "ann", "eve", "cid", "ann", "bob", "dan",
];

/// The same batch each time.
pub fn batch(options: Options) -> Vec<Message> {
    let message = |(number, account)| Message {
        number,
        account,
        amount: if u32::is_multiple_of(number, 4) {
            -5
        } else {
            10
        },
        work: options.work * (1 + number % 3),
    };
    let accounts = ARRIVALS.into_iter().cycle();
    (1..=options.messages).zip(accounts).map(message).collect()
}

/// A booked message, with its worker and times.
pub struct Booked {
    pub message: Message,
    pub worker: u32,
    pub from: Instant,
    pub until: Instant,
}

/// The balances, and the booked messages.
#[derive(Default)]
pub struct Ledger {
    pub balances: BTreeMap<&'static str, i64>,
    pub booked: Vec<Booked>,
}

impl Ledger {
    pub fn balance(&self, account: &str) -> i64 {
        self.balances.get(account).copied().unwrap_or_default()
    }
}

/// A message for the workers, with its reservation if accounts have locks.
type Job = (Message, Option<Reservation<&'static str, i64>>);

pub struct Bank {
    ledger: Mutex<Ledger>,
    jobs: Mutex<Receiver<Job>>,
    pub accounts: Accounts,
}

/// Accepts messages. When it is dropped, the workers end once no message is left.
pub struct Intake<'a> {
    accounts: &'a Accounts,
    jobs: Sender<Job>,
}

impl Bank {
    /// Runs a bank with its workers until `with` has returned and all messages are booked.
    pub fn open<T>(workers: u32, with: impl FnOnce(&Self, Intake<'_>) -> T) -> (T, Ledger) {
        let (sender, receiver) = channel();
        let bank = Self {
            ledger: Mutex::default(),
            jobs: Mutex::new(receiver),
            accounts: Accounts::new(),
        };
        let result = thread::scope(|scope| {
            bank.hire(scope, workers);
            let intake = Intake {
                accounts: &bank.accounts,
                jobs: sender,
            };
            with(&bank, intake)
        });
        let ledger = bank.ledger.into_inner();
        (result, ledger.unwrap_or_else(|torn| torn.into_inner()))
    }

    fn hire<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, workers: u32) {
        for worker in 1..=workers {
            scope.spawn(move || {
                while let Some((message, turn)) = self.next() {
                    let book = || self.book(message, worker);
                    match turn {
                        None => drop(book()),
                        // No task of this bank is limited or cancelled, so every turn comes.
                        Some(turn) => drop(turn.execute(book)),
                    }
                }
            });
        }
    }

    fn next(&self) -> Option<Job> {
        let jobs = self.jobs.lock().unwrap_or_else(|torn| torn.into_inner());
        jobs.recv().ok()
    }

    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(|torn| torn.into_inner())
    }

    /// Reads the balance, works for a while, and writes the new one. Concurrent bookings of the
    /// same account are lost.
    fn book(&self, message: Message, worker: u32) -> i64 {
        let from = Instant::now();
        let Message {
            account, amount, ..
        } = message;
        let before = self.ledger().balance(account);
        thread::sleep(message.work);
        let balance = before + amount;
        let mut ledger = self.ledger();
        ledger.balances.insert(account, balance);
        ledger.booked.push(Booked {
            message,
            worker,
            from,
            until: Instant::now(),
        });
        balance
    }
}

impl Intake<'_> {
    /// Accepts a message without a reservation.
    pub fn take(&self, message: Message) {
        // The workers receive as long as the intake exists.
        let _ = self.jobs.send((message, None));
    }

    /// Accepts a message and reserves its turn: it comes after all earlier messages of its account,
    /// in any worker.
    pub fn take_in_turn(&self, message: Message) -> Result<(), LockError> {
        let owner = format!("message {}", message.number);
        let request = self.accounts.request(&message.account, owner);
        let turn = request.label(message.account).reserve()?;
        let _ = self.jobs.send((message, Some(turn)));
        Ok(())
    }
}
