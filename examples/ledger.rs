//! A ledger fed by a broker that delivers some messages several times, while workers crash.
//!
//! ```text
//! cargo run --release --example ledger -- [--events N] [--workers N] [--seed N] [--json]
//! ```
//!
//! Each event of the day moves money from the till to an account: two writes in one transaction.
//! Some handlers crash between the two writes, some fail because a service is unavailable, and some
//! messages are malformed. One worker claims three events and hangs. At the end the ledger has each
//! well-formed event exactly once. Then the whole day is delivered again.
//!
//! Exits with 0, with 1 if the ledger is wrong, and with 2 if the input was invalid.

mod common;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::error::Error;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use common::{Given, number, print_line, wanted};
use crossbeam_channel::{Receiver, unbounded};
use doclock::{
    CommitError, DataStore, Draft, View,
    document::NodeSpec,
    inbox::{
        Claim, DeadLetter, Feed, HandlerError, HandlerResult, Inbox, InboxOptions, InboxStats,
        Message,
    },
};
use lexopt::prelude::*;

const HELP: &str = "\
A ledger fed with duplicates, crashes in the middle, poison, a worker that hangs, and a replay of the whole day.

usage: ledger [--events N] [--workers N] [--seed N] [--json]

  --events N    how many events the day has; 2000 unless given, 10 to 1000000
  --workers N   how many threads take them in; 2 unless given, 1 to 64
  --seed N      which day it is; 1 unless given
  --json        prints one JSON object instead of tables
  -h, --help    prints this

exit code: 0; 1 if the ledger is wrong; 2 if the input was bad
";

const ACCOUNTS: [&str; 4] = ["ann", "ben", "cem", "dora"];
const TILL: &str = "till";
/// The duration of a claim; the events of the hung worker wait for so long.
const CLAIM: Duration = Duration::from_millis(100);
/// How many events the hung worker has claimed.
const HUNG: usize = 3;
const CRASH: &str = "crashed in the middle";

/// `OrderPaid`, as a broker delivers it.
#[derive(Clone)]
struct OrderPaid {
    event_id: String,
    occurred_at: SystemTime,
    /// As received; it may not be a number.
    cents: String,
    user: &'static str,
    /// The failure of its first attempt.
    mishap: Option<Mishap>,
}

#[derive(Clone, Copy, PartialEq)]
enum Mishap {
    Crash,
    ServiceAway,
}

impl Message for OrderPaid {
    fn event_id(&self) -> &str {
        &self.event_id
    }

    fn sent_at(&self) -> Option<SystemTime> {
        Some(self.occurred_at)
    }
}

struct Options {
    events: u64,
    workers: u64,
    seed: u64,
    json: bool,
}

fn main() -> ExitCode {
    let options = match wanted(parse(lexopt::Parser::from_env()), HELP) {
        Ok(options) => options,
        Err(exit) => return exit,
    };
    be_quiet_about_crashes();
    let report = match Report::of(&options) {
        Ok(report) => report,
        Err(error) => {
            common::complain(format_args!("the day could not be run: {error}"));
            return ExitCode::FAILURE;
        }
    };
    match options.json {
        true => print_line!("{}", report.json()),
        false => report.show(&options),
    }
    match report.is_right() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn parse(mut words: lexopt::Parser) -> Result<Option<Options>, String> {
    let mut options = Options {
        events: 2_000,
        workers: 2,
        seed: 1,
        json: false,
    };
    let told = |error: lexopt::Error| error.to_string();
    let mut given = Given::default();
    while let Some(word) = words.next().map_err(told)? {
        given.once(&word)?;
        match word {
            Long("help") | Short('h') => return Ok(None),
            Long("json") => options.json = true,
            Long("events") => options.events = number("--events", &mut words, 10..=1_000_000)?,
            Long("workers") => options.workers = number("--workers", &mut words, 1..=64)?,
            Long("seed") => options.seed = number("--seed", &mut words, 0..=u64::MAX)?,
            other => return Err(told(other.unexpected())),
        }
    }
    Ok(Some(options))
}

/// Suppresses the reports of planned panics; others are still reported.
fn be_quiet_about_crashes() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload_as_str() != Some(CRASH) {
            report(panic);
        }
    }));
}

// --- The day ---

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

/// All deliveries in order: each event one to four times.
fn deliveries(options: &Options) -> Vec<OrderPaid> {
    let mut dice = Dice(options.seed);
    let mut deliveries = Vec::new();
    for nth in 0..options.events {
        let cents = match dice.below(100) {
            0 => "twelve".to_owned(),
            _ => (1 + dice.below(10_000)).to_string(),
        };
        let event = OrderPaid {
            event_id: format!("evt-{nth:06}"),
            occurred_at: SystemTime::UNIX_EPOCH + Duration::from_secs(nth),
            cents,
            user: ACCOUNTS[dice.below(ACCOUNTS.len() as u64) as usize],
            mishap: match dice.below(20) {
                0 => Some(Mishap::Crash),
                1 => Some(Mishap::ServiceAway),
                _ => None,
            },
        };
        let times = 1 + dice.below(4) as usize;
        deliveries.extend(std::iter::repeat_n(event, times));
    }
    for last in (1..deliveries.len()).rev() {
        deliveries.swap(last, dice.below(last as u64 + 1) as usize);
    }
    deliveries
}

/// The expected balances, from the events alone.
fn expected(deliveries: &[OrderPaid]) -> BTreeMap<&'static str, i64> {
    let events: HashMap<&str, &OrderPaid> = deliveries
        .iter()
        .map(|event| (event.event_id(), event))
        .collect();
    let mut balances = BTreeMap::from(ACCOUNTS.map(|account| (account, 0)));
    for event in events.values() {
        let cents: i64 = event.cents.parse().unwrap_or(0);
        *balances.entry(event.user).or_default() += cents;
        *balances.entry(TILL).or_default() -= cents;
    }
    balances
}

// --- The ledger ---

fn ledger() -> Result<DataStore, Box<dyn Error>> {
    let store = DataStore::new();
    let mut transaction = store.begin("opening")?;
    for account in ACCOUNTS.iter().chain([&TILL]) {
        transaction.create(NodeSpec::new("account").with_id(*account).with_text("0"))?;
    }
    transaction.commit()?;
    Ok(store)
}

fn add(transaction: &mut Draft, account: &str, cents: i64) -> HandlerResult {
    let balance: i64 = transaction.text_of(account)?.parse()?;
    transaction.set_text(account, (balance + cents).to_string())?;
    Ok(())
}

/// The handler, with the failures of first attempts.
fn pay(
    transaction: &mut Draft,
    event: &OrderPaid,
    tried: &Mutex<HashSet<String>>,
) -> HandlerResult {
    let cents: i64 = event.cents.parse().map_err(HandlerError::poison)?;
    let first = {
        let mut tried = tried.lock().unwrap_or_else(PoisonError::into_inner);
        tried.insert(event.event_id.clone())
    };
    let mishap = event.mishap.filter(|_| first);
    if mishap == Some(Mishap::ServiceAway) {
        return Err(HandlerError::transient("the exchange rates are away"));
    }
    add(transaction, TILL, -cents)?;
    if mishap == Some(Mishap::Crash) {
        panic!("{CRASH}");
    }
    add(transaction, event.user, cents)
}

/// Runs workers on all deliveries, and returns how long that took.
fn feed(inbox: &Inbox, deliveries: &[OrderPaid], workers: u64) -> Result<Duration, Box<dyn Error>> {
    let (sender, receiver) = unbounded();
    for delivery in deliveries {
        sender.send(delivery.clone())?;
    }
    drop(sender);
    let tried = Mutex::new(HashSet::new());
    let began = Instant::now();
    let work = |worker: u64, receiver: &Receiver<OrderPaid>| {
        let feed = Feed::from(receiver).worker(format!("worker {worker}"));
        inbox.run(feed, |transaction, event| pay(transaction, event, &tried))
    };
    thread::scope(|scope| {
        let (work, receiver) = (&work, &receiver);
        let workers: Vec<_> = (1..=workers)
            .map(|worker| scope.spawn(move || work(worker, receiver)))
            .collect();
        for worker in workers {
            let ended = worker.join().map_err(|_| "a worker was lost")?;
            ended.map_err(|interrupted| interrupted.to_string())?;
        }
        Ok::<(), String>(())
    })?;
    Ok(began.elapsed())
}

/// Claims some well-formed events of the day, each a different one.
fn hang(inbox: &Inbox, deliveries: &[OrderPaid]) -> Vec<Claim> {
    let readable = deliveries
        .iter()
        .filter(|event| event.cents.parse::<i64>().is_ok());
    readable
        .filter_map(|event| inbox.claim(event).ok())
        .take(HUNG)
        .collect()
}

/// The hung worker continues, and its claims have been taken over.
fn wake_up(store: &DataStore, claims: Vec<Claim>) -> Result<Vec<String>, Box<dyn Error>> {
    let mut refused = Vec::new();
    for claim in claims {
        let mut transaction = store.begin("the worker that hung")?;
        transaction.set_text(TILL, "all of it")?;
        match claim.commit(transaction) {
            Err(error @ CommitError::Superseded { .. }) => refused.push(error.to_string()),
            Err(error) => return Err(error.into()),
            Ok(_) => return Err("the worker that hung could commit".into()),
        }
    }
    Ok(refused)
}

// --- Results ---

/// The state of a ledger.
#[derive(PartialEq)]
struct State {
    version: u64,
    balances: BTreeMap<&'static str, i64>,
    document: String,
}

impl State {
    fn of(store: &DataStore) -> Result<Self, Box<dyn Error>> {
        let snapshot = store.snapshot();
        let mut balances = BTreeMap::new();
        for account in ACCOUNTS.iter().copied().chain([TILL]) {
            balances.insert(account, snapshot.text_of(account)?.parse()?);
        }
        let mut nodes: Vec<_> = snapshot.nodes().collect();
        nodes.sort_by_key(|node| node.id().to_string());
        Ok(Self {
            version: snapshot.version(),
            balances,
            document: serde_json::to_string(&nodes)?,
        })
    }
}

struct Report {
    deliveries: usize,
    expected: BTreeMap<&'static str, i64>,
    day: State,
    took: Duration,
    stats: InboxStats,
    dead: Vec<DeadLetter>,
    refused: Vec<String>,
    replayed: State,
    replay_took: Duration,
    replay_stats: InboxStats,
}

impl Report {
    fn of(options: &Options) -> Result<Self, Box<dyn Error>> {
        let deliveries = deliveries(options);
        let store = ledger()?;
        let settings = InboxOptions::new()
            .claim_time(CLAIM)
            .attempts(4)
            .backoff(Duration::from_millis(2), Duration::from_millis(20))
            .jitter(options.seed);
        let inbox = Inbox::with_options(&store, "payments", settings);

        let claims = hang(&inbox, &deliveries);
        let took = feed(&inbox, &deliveries, options.workers)?;
        let refused = wake_up(&store, claims)?;
        let (day, stats) = (State::of(&store)?, inbox.stats());

        let replay_took = feed(&inbox, &deliveries, options.workers)?;
        Ok(Self {
            deliveries: deliveries.len(),
            expected: expected(&deliveries),
            day,
            took,
            stats,
            dead: inbox.dead_letters(),
            refused,
            replayed: State::of(&store)?,
            replay_took,
            replay_stats: inbox.stats(),
        })
    }

    fn replay_changed_nothing(&self) -> bool {
        self.replayed == self.day
    }

    fn is_right(&self) -> bool {
        self.day.balances == self.expected && self.replay_changed_nothing()
    }

    fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "deliveries": self.deliveries,
            "expected": self.expected,
            "balances": self.day.balances,
            "version": self.day.version,
            "stats": self.stats,
            "deadLetters": self.dead,
            "refused": self.refused,
            "replayChangedNothing": self.replay_changed_nothing(),
            "right": self.is_right(),
        })
    }

    fn show(&self, options: &Options) {
        let stats = &self.stats;
        print_line!(
            "{} events, delivered {} times to {} workers in {:.0?}\n",
            options.events,
            self.deliveries,
            options.workers,
            self.took
        );
        let rows = [
            (stats.done, "took effect, each once"),
            (
                stats.duplicates,
                "deliveries were duplicates and changed nothing",
            ),
            (
                stats.panics,
                "handlers crashed between the two writes; nothing of that is seen",
            ),
            (
                stats.retried,
                "attempts failed in passing and were made again, the crashes among them",
            ),
            (stats.poison + stats.exhausted, "events are dead letters"),
            (
                stats.taken_over,
                "claims of a worker that hangs went stale and were taken over",
            ),
            (
                stats.superseded,
                "times that worker tried to finish afterwards, and was refused",
            ),
        ];
        for (count, what) in rows {
            print_line!("{count:>8}  {what}");
        }
        print_line!("\naccount       expected      in the ledger");
        for (account, expected) in &self.expected {
            let found = self.day.balances.get(account).copied().unwrap_or(0);
            let verdict = if found == *expected { "" } else { "   WRONG" };
            print_line!(
                "{account:<8}{:>14}{:>19}{verdict}",
                euros(*expected),
                euros(found)
            );
        }
        let sum: i64 = self.day.balances.values().sum();
        print_line!("{:<8}{:>14}{:>19}", "sum", euros(0), euros(sum));

        print_line!("\ndead letters:");
        self.dead
            .iter()
            .take(3)
            .for_each(|letter| print_line!("  {letter}"));
        if self.dead.len() > 3 {
            print_line!("  and {} more", self.dead.len() - 3);
        }
        print_line!("\nwhat the worker that hung was told:");
        self.refused
            .iter()
            .for_each(|error| print_line!("  {error}"));

        let replay = &self.replay_stats;
        print_line!(
            "\nThe whole day again, in {:.0?}: {} more duplicates, {} more effects; version {} before, {} after; the document {}.",
            self.replay_took,
            replay.duplicates - stats.duplicates,
            replay.done - stats.done,
            self.day.version,
            self.replayed.version,
            match self.replay_changed_nothing() {
                true => "is the same",
                false => "IS ANOTHER",
            }
        );
    }
}

fn euros(cents: i64) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    let cents = cents.unsigned_abs();
    format!("{sign}{}.{:02} €", cents / 100, cents % 100)
}
