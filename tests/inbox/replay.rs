//! Repeated deliveries change nothing (INBOX 5).

use crossbeam_channel::unbounded;
use doclock::{View, document::NodeSpec, inbox::InboxOptions};

use crate::common::{commit, id, image};
use crate::{Bank, at};

const EVENTS: usize = 10_000;
const ACCOUNTS: usize = 100;

/// One event of the day: its account and amount.
fn day() -> impl Iterator<Item = (String, std::time::SystemTime, usize)> {
    (0..EVENTS).map(|event| (format!("evt-{event}"), at(event as u64), event * 7_919))
}

#[test]
fn inbox_05_replaying_a_whole_day_changes_nothing() {
    let bank = Bank::new(InboxOptions::new());
    commit(&bank.store, |on| {
        for account in 0..ACCOUNTS {
            let spec = NodeSpec::new("account").with_id(format!("account {account}"));
            on.create(spec).unwrap();
        }
    });
    let feed = || {
        let (sender, messages) = unbounded();
        day().for_each(|message| sender.send(message).unwrap());
        drop(sender);
        bank.inbox
            .run(&messages, |transaction, (_, _, cents)| {
                let account = id(&format!("account {}", cents % ACCOUNTS));
                let node = transaction
                    .node(&account)
                    .ok_or_else(|| transaction.missing(&account))?;
                let before = node
                    .attributes()
                    .get("cents")
                    .and_then(|cents| cents.as_u64());
                transaction.set_attrs(
                    &account,
                    [("cents", (before.unwrap_or(0) + *cents as u64).into())],
                )?;
                Ok(())
            })
            .unwrap();
        (image(&bank.store.snapshot()), bank.store.version())
    };
    let once = feed();
    let events = bank.store.subscribe();
    assert_eq!(once.1, 2 + EVENTS as u64);
    assert!(
        feed() == once,
        "the document is as it was, and so is its version"
    );
    assert!(events.try_recv().is_err());
    let stats = bank.inbox.stats();
    assert_eq!(
        (stats.done, stats.duplicates),
        (EVENTS as u64, EVENTS as u64)
    );

    // The same after half of the day is forgotten.
    assert_eq!(bank.inbox.prune(at(EVENTS as u64 / 2)), EVENTS / 2);
    assert!(feed() == once);
    let stats = bank.inbox.stats();
    assert_eq!(stats.too_old, EVENTS as u64 / 2);
    assert_eq!((stats.remembered, stats.done), (EVENTS / 2, EVENTS as u64));
}
