//! The cost of exactly-once effects of events.
//!
//! The effect is a transaction in both cases, and takes most of the time. The peer is the obvious
//! solution: a set of ids behind a mutex. It only rejects duplicates: the effect of an event in the
//! set may not have happened.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use crossbeam_channel::{Receiver, unbounded};
use doclock::{
    DataStore, Draft, NodeId, View,
    document::NodeSpec,
    inbox::{HandlerResult, Inbox, InboxOptions, Message},
};

use super::SUITE;
use crate::Result;
use crate::measure::{interleaved, timed};
use crate::random::SplitMix;
use crate::report::{Report, Unit};

const EVENTS: usize = 250_000;
const ACCOUNTS: usize = 1_000;

const ABOUT: &str = "\
Inbox. 250,000 events, each delivered twice, in random order through a channel, taken by one thread. An event
adds to a number of one of 1,000 nodes, in a transaction of its own. Duplicates count as messages.";

/// An event's id, its time, the account and the amount.
type Event = (String, SystemTime, (usize, u64));

trait Subject {
    fn name(&self) -> &'static str;

    /// The guarantees for its cost.
    fn note(&self) -> &'static str;

    /// Moves all messages of the channel into a new store, and returns the time at the end.
    fn run(&self, accounts: &Accounts, messages: &Receiver<Event>) -> Result<Duration>;
}

struct Accounts {
    store: DataStore,
    ids: Vec<NodeId>,
}

impl Accounts {
    fn new() -> Result<Self> {
        let store = DataStore::new();
        let mut transaction = store.begin("setup")?;
        let ids = (0..ACCOUNTS)
            .map(|_| Ok(transaction.create(NodeSpec::new("account"))?))
            .collect::<Result<Vec<_>>>()?;
        transaction.commit()?;
        Ok(Self { store, ids })
    }

    fn add(&self, transaction: &mut Draft, (account, cents): (usize, u64)) -> HandlerResult {
        let account = &self.ids[account];
        let node = transaction.node(account);
        let before = node.and_then(|node| node.attributes().get("cents")?.as_u64());
        let cents = before.unwrap_or(0) + cents;
        transaction.set_attrs(account, [("cents", cents.into())])?;
        Ok(())
    }

    fn total(&self) -> u64 {
        let snapshot = self.store.snapshot();
        let accounts = snapshot.nodes();
        accounts
            .filter_map(|node| node.attributes().get("cents")?.as_u64())
            .sum()
    }
}

struct Claims;

impl Subject for Claims {
    fn name(&self) -> &'static str {
        "doclock inbox"
    }

    fn note(&self) -> &'static str {
        "mark and effect in one commit; claims, retries, dead letters, metrics"
    }

    fn run(&self, accounts: &Accounts, messages: &Receiver<Event>) -> Result<Duration> {
        let inbox = Inbox::with_options(&accounts.store, "bench", InboxOptions::new());
        timed(|| {
            inbox.run(messages, |transaction, (_, _, event): &Event| {
                accounts.add(transaction, *event)
            })?;
            Ok(())
        })
    }
}

/// Stores the seen ids. An event whose transaction fails is lost.
struct Seen;

impl Subject for Seen {
    fn name(&self) -> &'static str {
        "Mutex<HashSet> + transaction"
    }

    fn note(&self) -> &'static str {
        "the same transactions; mark and effect apart, no claims, no retries, nothing counted"
    }

    fn run(&self, accounts: &Accounts, messages: &Receiver<Event>) -> Result<Duration> {
        let seen = Mutex::new(HashSet::new());
        timed(|| {
            for event in messages {
                let new = seen
                    .lock()
                    .map_err(|_| "a thread panicked")?
                    .insert(event.event_id().to_owned());
                if !new {
                    continue;
                }
                let mut transaction = accounts.store.begin("bench")?;
                accounts
                    .add(&mut transaction, event.2)
                    .map_err(|failure| failure.to_string())?;
                transaction.commit()?;
            }
            Ok(())
        })
    }
}

/// The same messages in each round.
fn deliveries() -> Vec<Event> {
    let mut random = SplitMix(7);
    let mut events: Vec<Event> = (0..2 * EVENTS)
        .map(|nth| {
            let event = nth % EVENTS;
            let sent_at = SystemTime::UNIX_EPOCH + Duration::from_millis(event as u64);
            (format!("evt-{event:09}"), sent_at, (event % ACCOUNTS, 1))
        })
        .collect();
    for last in (1..events.len()).rev() {
        events.swap(last, random.below(last + 1));
    }
    events
}

pub fn run(rounds: usize, report: &Report) -> Result {
    let mut subjects: Vec<Box<dyn Subject>> = vec![Box::new(Claims), Box::new(Seen)];
    let notes: Vec<_> = subjects.iter().map(|s| (s.name(), s.note())).collect();
    report.heading(SUITE, ABOUT, &notes)?;
    let events = deliveries();
    let spreads = interleaved(rounds, &mut subjects, |_, subject| {
        let (sender, receiver) = unbounded();
        for event in &events {
            sender.send(event.clone())?;
        }
        drop(sender);
        let accounts = Accounts::new()?;
        let time = subject.run(&accounts, &receiver)?;
        if accounts.total() != EVENTS as u64 {
            return Err("an effect is missing, or happened twice".into());
        }
        Ok(Some(events.len() as f64 / time.as_secs_f64()))
    })?;
    let names = subjects.iter().map(|subject| subject.name());
    report.case(
        SUITE,
        "half are duplicates",
        Unit::MessagesPerSecond,
        names.zip(spreads),
    )
}
