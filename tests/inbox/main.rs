//! The guarantees of the inbox, by number.

#[path = "../common/mod.rs"]
mod common;

mod effects;
mod failures;
mod forgetting;
mod metrics;
mod random;
mod removal;
mod replay;
mod takeover;
mod workers;

use std::time::{Duration, SystemTime};

use doclock::{
    DataStore, Draft, StoreOptions,
    document::NodeSpec,
    inbox::{Claim, HandlerResult, Inbox, InboxOptions, Message, Outcome},
    time::ManualClock,
};

use common::{SESSION, commit, id, text};

const MS: Duration = Duration::from_millis(1);

/// The duration of claims in these tests.
const CLAIM: Duration = Duration::from_secs(30);

/// A ledger on a clock that the test moves, and the inbox that feeds it.
struct Bank {
    store: DataStore,
    inbox: Inbox,
    clock: ManualClock,
}

impl Bank {
    fn new(options: InboxOptions) -> Self {
        Self::with_store(StoreOptions::new(), options)
    }

    fn with_store(settings: StoreOptions, options: InboxOptions) -> Self {
        let clock = ManualClock::new();
        let settings = settings.session(SESSION).clock(clock.clock());
        let store = DataStore::with_options(settings);
        commit(&store, |on| {
            on.create(NodeSpec::new("ledger").with_id("ledger"))
                .unwrap();
        });
        let inbox = Inbox::with_options(&store, "payments", options.claim_time(CLAIM));
        Self {
            store,
            inbox,
            clock,
        }
    }

    /// All credits, in order.
    fn ledger(&self) -> Vec<String> {
        let ledger = text(&self.store.snapshot(), "ledger");
        ledger.split_terminator(' ').map(str::to_owned).collect()
    }

    fn process<M: Message>(
        &self,
        message: &M,
        handler: impl FnOnce(&mut Draft, &M) -> HandlerResult,
    ) -> Outcome {
        self.inbox.process(message, handler).unwrap()
    }

    /// Credits what is claimed.
    fn finish(
        &self,
        claim: Claim,
    ) -> Result<doclock::transaction::TransactionResult, doclock::CommitError> {
        let mut transaction = self.store.begin("by hand").unwrap();
        let event = (claim.event_id().to_owned(), ());
        credit(&mut transaction, &event).unwrap();
        claim.commit(transaction)
    }

    /// Claims an event and never finishes it.
    fn die_with(&self, message: &impl Message) {
        std::mem::forget(self.inbox.claim(message).unwrap());
    }
}

/// Writes the event's id into the ledger.
fn credit(transaction: &mut Draft, message: &impl Message) -> HandlerResult {
    let ledger = id("ledger");
    let end = common::text(&*transaction, "ledger").chars().count();
    transaction.insert_text(&ledger, end, format!("{} ", message.event_id()))?;
    Ok(())
}

fn done(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Done { .. })
}

/// So many seconds into the day.
fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}
