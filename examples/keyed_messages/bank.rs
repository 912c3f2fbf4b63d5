//! Accounts, the messages that change them, and the threads that book these.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use doclock::lock::{
    AcquireOptions, LockError,
    keyed::{KeyedLock, Turn},
};

use crate::args::Options;

pub const ACCOUNTS: [&str; 5] = ["ann", "bob", "cid", "dan", "eve"];

/// A key is an account, a task tells the balance after it.
pub type Accounts = KeyedLock<&'static str, i64>;

#[derive(Clone, Copy)]
pub struct Message {
    /// Counted from one, in the order of arrival.
    pub number: u32,
    pub account: &'static str,
    pub amount: i64,
    /// For how long it keeps a worker.
    pub work: Duration,
}

/// For which accounts messages come in, over and over: for some more often than for others.
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

/// A message that was booked, by whom and when.
pub struct Booked {
    pub message: Message,
    pub worker: u32,
    pub from: Instant,
    pub until: Instant,
}

/// What there is, and what was done.
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

/// A message on its way to the workers, with its turn at the account if accounts have locks.
type Job = (Message, Option<Turn<&'static str, i64>>);

pub struct Bank {
    ledger: Mutex<Ledger>,
    jobs: Mutex<Receiver<Job>>,
    pub accounts: Accounts,
}

/// Where messages come in. When this is dropped, the workers go home as soon as nothing is left.
pub struct Intake<'a> {
    accounts: &'a Accounts,
    jobs: Sender<Job>,
}

impl Bank {
    /// Runs a bank with its workers until `with` has returned and all that came in is booked.
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
                        // Nobody limits or cancels the turns of this bank, so they come.
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

    /// Reads the balance, is at work for a while, and writes the new one. Whoever books for the
    /// same account meanwhile is lost.
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
    /// Takes a message in as it is.
    pub fn take(&self, message: Message) {
        // The workers listen for as long as there is an intake.
        let _ = self.jobs.send((message, None));
    }

    /// Takes a message in with its turn: from here on it comes after all that came before for its
    /// account, whichever worker gets it.
    pub fn take_in_turn(&self, message: Message) -> Result<(), LockError> {
        let owner = format!("message {}", message.number);
        let options = AcquireOptions::new().label(message.account);
        let turn = self
            .accounts
            .reserve_with(&message.account, owner, options)?;
        let _ = self.jobs.send((message, Some(turn)));
        Ok(())
    }
}
