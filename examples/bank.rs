//! A bank with ten accounts, many tellers, and leases between them.
//!
//! ```text
//! cargo run --release --example bank -- [--transfers N] [--tellers N] [--seed N]
//! ```
//!
//! Each transfer leases both accounts, reads both balances and pauses, like a call to another
//! service. Then it writes both balances in one transaction that requires the lease. If an account
//! is leased already, the error reports the owner and the remaining time, and the teller retries.
//! Some requests are repeated and get their first answer. Some tellers die in the middle: their
//! leases expire, other tellers take over, and late writes of the dead ones fail.
//!
//! Exits with 0 if the sum is unchanged, with 1 if it is not, and with 2 if the input was invalid.

mod common;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use common::{Given, number, print_line, wanted};
use doclock::dsl::*;
use doclock::{
    CommitError, DataStore, TransactionManager, View,
    lease::{Lease, LeaseError, LeaseHolder},
    transaction::{IdempotencyKey, OperationError, TransactionError, TransactionResult},
};
use lexopt::prelude::*;

const HELP: &str = "\
Concurrent transfers between ten accounts, each under a lease on both.

usage: bank [--transfers N] [--tellers N] [--seed N]

  --transfers N   how many transfers; 1000 unless given, 1 to 100000
  --tellers N     how many threads; 8 unless given, 1 to 64
  --seed N        which transfers; 1 unless given
  -h, --help      prints this

exit code: 0 if no money was made or lost, 1 if some was, or 2 if the input was bad
";

const NAMES: [&str; 10] = [
    "ann", "bob", "cem", "dan", "eva", "fay", "gus", "hal", "ida", "joe",
];
const OPENING: i64 = 1_000;
/// Long enough for a live teller, short enough to wait for a dead one.
const LEASE: Duration = Duration::from_millis(200);
/// In every so many-th transfer the teller dies in the middle.
const DEATHS: usize = 250;
/// Every so many-th request is repeated.
const REPETITIONS: usize = 10;

struct Options {
    transfers: usize,
    tellers: usize,
    seed: u64,
}

fn main() -> ExitCode {
    let options = match wanted(parse(lexopt::Parser::from_env()), HELP) {
        Ok(options) => options,
        Err(exit) => return exit,
    };
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            common::complain(format_args!("{error}"));
            ExitCode::FAILURE
        }
    }
}

fn parse(mut words: lexopt::Parser) -> Result<Option<Options>, String> {
    let mut options = Options {
        transfers: 1_000,
        tellers: 8,
        seed: 1,
    };
    let told = |error: lexopt::Error| error.to_string();
    let mut given = Given::default();
    while let Some(word) = words.next().map_err(told)? {
        given.once(&word)?;
        match word {
            Long("help") | Short('h') => return Ok(None),
            Long("transfers") => {
                options.transfers = number("--transfers", &mut words, 1..=100_000)? as usize;
            }
            Long("tellers") => options.tellers = number("--tellers", &mut words, 1..=64)? as usize,
            Long("seed") => options.seed = number("--seed", &mut words, 0..=u64::MAX)?,
            other => return Err(told(other.unexpected())),
        }
    }
    Ok(Some(options))
}

/// One request of a customer.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    number: usize,
    from: &'static str,
    to: &'static str,
    amount: i64,
}

impl Transfer {
    /// A random transfer, the same for the same seed.
    fn draw(number: usize, seed: u64) -> Self {
        // SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
        let mut state = seed.wrapping_add((number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let dice = (state ^ (state >> 31)) as usize;
        let from = dice % NAMES.len();
        let to = (from + 1 + dice / 100 % (NAMES.len() - 1)) % NAMES.len();
        Self {
            number,
            from: NAMES[from],
            to: NAMES[to],
            amount: 1 + (dice / 10_000 % 50) as i64,
        }
    }

    /// The customer's name for the request, the same in a repetition.
    fn key(&self) -> String {
        format!("transfer {}", self.number)
    }

    fn dies(&self) -> bool {
        self.number % DEATHS == DEATHS / 2
    }

    fn comes_twice(&self) -> bool {
        self.number.is_multiple_of(REPETITIONS)
    }
}

/// Counters for the table.
#[derive(Default)]
struct Tally {
    done: AtomicUsize,
    locked: AtomicUsize,
    repeated: AtomicUsize,
    died: AtomicUsize,
    /// Late writes of dead tellers.
    refused: AtomicUsize,
    /// One message of each kind, to be printed.
    samples: Mutex<BTreeMap<&'static str, String>>,
}

impl Tally {
    fn count(&self, counter: &AtomicUsize, kind: &'static str, sample: impl FnOnce() -> String) {
        counter.fetch_add(1, Ordering::Relaxed);
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        samples.entry(kind).or_insert_with(sample);
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct Bank {
    store: DataStore,
    tally: Tally,
}

impl Bank {
    fn open() -> Result<Self, Failure> {
        let store = DataStore::new();
        let accounts = NAMES.map(|name| {
            let account = element("account", []).with_id(name);
            create(account.with_attributes([("balance", OPENING.into())]))
        });
        TransactionManager::for_owner(store.clone(), "bank").execute(accounts)?;
        Ok(Self {
            store,
            tally: Tally::default(),
        })
    }

    fn balance(&self, account: &str) -> i64 {
        let snapshot = self.store.snapshot();
        let node = snapshot.node(account);
        let balance = node.and_then(|node| node.attributes().get("balance"));
        balance.and_then(|balance| balance.as_i64()).unwrap_or(0)
    }

    /// Leases both accounts, and retries while another teller has a lease on one.
    fn lease(&self, teller: &str, transfer: &Transfer) -> Result<Lease, LeaseError> {
        loop {
            match self
                .store
                .leases()
                .acquire([transfer.from, transfer.to], teller, LEASE)
            {
                Err(LeaseError::Conflict(holder)) => self.stand_back(&holder),
                outcome => return outcome,
            }
        }
    }

    fn stand_back(&self, holder: &LeaseHolder) {
        let told = || format!("locked: {holder}");
        self.tally.count(&self.tally.locked, "locked", told);
        // The holder usually releases it much sooner.
        thread::sleep((holder.remaining / 64).min(Duration::from_micros(100)));
    }

    /// The balances are valid until the lease ends, although no lock is held.
    fn ask_somebody(&self, transfer: &Transfer) -> [i64; 2] {
        let balances = [transfer.from, transfer.to].map(|account| self.balance(account));
        thread::sleep(Duration::from_micros(50));
        balances
    }

    fn write(
        &self,
        lease: &Lease,
        transfer: &Transfer,
        [debtor, creditor]: [i64; 2],
    ) -> Result<TransactionResult, TransactionError> {
        let list = (
            require_lease(lease),
            set_attrs([("balance", (debtor - transfer.amount).into())]).on(transfer.from),
            set_attrs([("balance", (creditor + transfer.amount).into())]).on(transfer.to),
        );
        let manager = TransactionManager::for_owner(self.store.clone(), lease.owner());
        // In a repetition the balances differ.
        let key = IdempotencyKey::new(transfer.key()).accept_other_operations();
        manager.transaction(list).idempotent(key).commit()
    }

    fn serve(&self, teller: &str, transfer: &Transfer) -> Result<(), Failure> {
        if transfer.dies() {
            return self.die_in_the_middle(teller, transfer);
        }
        let first = self.carry_out(teller, transfer)?;
        if transfer.comes_twice() {
            let again = self.carry_out(teller, transfer)?;
            if !again.repeated || again.transaction_id != first.transaction_id {
                return Err(format!("{} was carried out twice", transfer.key()).into());
            }
            let told = || {
                let (key, version) = (transfer.key(), again.version);
                format!("repeated: {key} was done in version {version}, and is not done again")
            };
            self.tally.count(&self.tally.repeated, "repeated", told);
        }
        Ok(())
    }

    /// Completes the transfer exactly once. A teller whose lease ended early starts again.
    fn carry_out(&self, teller: &str, transfer: &Transfer) -> Result<TransactionResult, Failure> {
        loop {
            let lease = self.lease(teller, transfer)?;
            let balances = self.ask_somebody(transfer);
            let outcome = self.write(&lease, transfer, balances);
            // An expired lease needs no release.
            let _ = lease.release();
            match outcome {
                Err(error) if is_lost(&error) => {}
                Err(error) => return Err(error.into()),
                Ok(result) => {
                    let done = usize::from(!result.repeated);
                    self.tally.done.fetch_add(done, Ordering::Relaxed);
                    return Ok(result);
                }
            }
        }
    }

    /// The teller is silent until its leases have expired. Then another teller takes over and
    /// completes the transfer, and the first one, which was only slow, tries to write what it read.
    fn die_in_the_middle(&self, teller: &str, transfer: &Transfer) -> Result<(), Failure> {
        let old = self.lease(&format!("{teller} (dead)"), transfer)?;
        let stale = self.ask_somebody(transfer);
        self.tally.died.fetch_add(1, Ordering::Relaxed);
        self.carry_out(&format!("{teller} (heir)"), transfer)?;
        let mut late = self.store.begin(old.owner())?;
        for (account, balance) in [transfer.from, transfer.to].into_iter().zip(stale) {
            late.set_attrs(account, [("balance", balance.into())])?;
        }
        let outcome = late.require(&old).map_err(Failure::from);
        match outcome.and_then(|()| Ok(late.commit()?)) {
            Err(error) => {
                let told = || format!("refused: {error}");
                self.tally.count(&self.tally.refused, "refused", told);
                Ok(())
            }
            Ok(_) => Err(format!("{teller} wrote after its lease had ended").into()),
        }
    }
}

fn is_lost(error: &TransactionError) -> bool {
    match error {
        TransactionError::Commit(CommitError::LeaseLost(_)) => true,
        TransactionError::Operation { cause, .. } => matches!(cause, OperationError::Lease(_)),
        _ => false,
    }
}

fn run(options: &Options) -> Result<bool, Failure> {
    let bank = Bank::open()?;
    let next = AtomicUsize::new(0);
    let began = Instant::now();
    let outcomes: Vec<Result<(), Failure>> = thread::scope(|scope| {
        let tellers = (1..=options.tellers).map(|teller| {
            let (bank, next) = (&bank, &next);
            scope.spawn(move || {
                let teller = format!("teller-{teller}");
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= options.transfers {
                        return Ok(());
                    }
                    bank.serve(&teller, &Transfer::draw(number, options.seed))?;
                }
            })
        });
        let tellers: Vec<_> = tellers.collect();
        let join = |teller: thread::ScopedJoinHandle<'_, _>| {
            teller
                .join()
                .unwrap_or_else(|_| Err("a teller panicked".into()))
        };
        tellers.into_iter().map(join).collect()
    });
    outcomes.into_iter().collect::<Result<(), Failure>>()?;
    Ok(show(options, &bank, began.elapsed()))
}

fn show(options: &Options, bank: &Bank, took: Duration) -> bool {
    let Options {
        transfers, tellers, ..
    } = options;
    print_line!(
        "{transfers} transfers between {} accounts, {tellers} tellers, leases of {LEASE:?}: {took:.1?}\n",
        NAMES.len()
    );
    print_line!("{:<10}{:>9}{:>9}", "account", "before", "after");
    for name in NAMES {
        print_line!("{name:<10}{OPENING:>9}{:>9}", bank.balance(name));
    }
    let before = NAMES.len() as i64 * OPENING;
    let after: i64 = NAMES.iter().map(|name| bank.balance(name)).sum();
    print_line!("{:<10}{before:>9}{after:>9}\n", "sum");

    let Tally {
        done,
        locked,
        repeated,
        died,
        refused,
        samples,
    } = &bank.tally;
    let rows = [
        (done, "transfers done, each once"),
        (
            locked,
            "times that an account was locked, and the transfer tried again",
        ),
        (
            repeated,
            "requests that came twice and got their first answer",
        ),
        (
            died,
            "tellers that died in the middle, with their accounts leased",
        ),
        (
            refused,
            "writes that the dead sent after others had taken over: refused",
        ),
    ];
    for (count, what) in rows {
        print_line!("{:>7}  {what}", count.load(Ordering::Relaxed));
    }
    print_line!("");
    let samples = samples.lock().unwrap_or_else(PoisonError::into_inner);
    for sample in samples.values() {
        print_line!("{sample}");
    }
    let right = before == after && done.load(Ordering::Relaxed) == *transfers;
    print_line!(
        "\n{}",
        match right {
            true => "No money was made, and none was lost.",
            false => "The books are wrong.",
        }
    );
    right
}
