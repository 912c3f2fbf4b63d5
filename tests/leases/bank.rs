//! LEASE 4: transfers between two accounts keep the sum; the loser gets an error about the lease.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use doclock::dsl::*;
use doclock::{
    CommitError, DataStore, TransactionManager, View,
    lease::{Lease, LeaseError},
    lock::AcquireOptions,
    transaction::{TransactionError, TransactionResult},
};

use crate::common::{Dice, store};
use crate::{SECOND, conflict, timed};

const ACCOUNTS: usize = 10;
const OPENING: i64 = 1000;

fn account(nth: usize) -> String {
    format!("account-{nth}")
}

fn open_accounts(store: &DataStore) {
    let accounts = (0..ACCOUNTS).map(|nth| {
        create(
            element("account", [])
                .with_id(account(nth))
                .with_attributes([("balance", OPENING.into())]),
        )
    });
    let accounts: Vec<_> = accounts.collect();
    TransactionManager::new(store.clone())
        .execute(accounts)
        .unwrap();
}

fn balance(store: &DataStore, account: &str) -> i64 {
    let snapshot = store.snapshot();
    let node = snapshot.node(account).unwrap();
    node.attributes().get("balance").unwrap().as_i64().unwrap()
}

fn sum(store: &DataStore) -> i64 {
    let snapshot = store.snapshot();
    let balances = snapshot.nodes().map(|node| {
        let balance = node.attributes().get("balance").unwrap();
        balance.as_i64().unwrap()
    });
    balances.sum()
}

/// Reads both balances outside a transaction, and writes the new ones. Correct only without
/// concurrent changes.
fn transfer(
    store: &DataStore,
    lease: &Lease,
    [from, to]: [&str; 2],
    amount: i64,
    key: &str,
    meanwhile: impl FnOnce(),
) -> Result<TransactionResult, TransactionError> {
    let (debtor, creditor) = (balance(store, from), balance(store, to));
    meanwhile();
    let list = (
        require_lease(lease),
        set_attrs([("balance", (debtor - amount).into())]).on(from),
        set_attrs([("balance", (creditor + amount).into())]).on(to),
    );
    let manager = TransactionManager::for_owner(store.clone(), lease.owner());
    // In a repetition the balances differ.
    let key = doclock::transaction::IdempotencyKey::new(key).accept_other_operations();
    manager
        .transaction(list)
        .idempotent(key)
        .options(AcquireOptions::new().no_timeout())
        .commit()
}

/// Two different accounts.
fn pair(dice: &mut Dice) -> [String; 2] {
    let from = dice.below(ACCOUNTS);
    let to = (from + 1 + dice.below(ACCOUNTS - 1)) % ACCOUNTS;
    [account(from), account(to)]
}

#[test]
fn lease_04_the_loser_of_two_transfers_gets_a_lease_conflict() {
    let (store, clock) = timed();
    open_accounts(&store);
    let (begun, told) = (Barrier::new(2), Barrier::new(2));
    let pair = [&*account(1), &*account(2)];
    thread::scope(|scope| {
        scope.spawn(|| {
            let lease = store
                .leases()
                .acquire(pair, "request 1", 60 * SECOND)
                .unwrap();
            let wait = || {
                begun.wait();
                told.wait();
            };
            transfer(&store, &lease, pair, 1, "key 1", wait).unwrap();
            lease.release().unwrap();
        });
        begun.wait();
        clock.advance(SECOND);
        let holder = conflict(store.leases().acquire(pair, "request 2", 60 * SECOND));
        assert_eq!(
            holder.to_string(),
            "node account-1 is leased by request 1 for another 59.0s (fencing token 1)"
        );
        told.wait();
    });
    assert_eq!(balance(&store, pair[0]), OPENING - 1);
    assert_eq!(balance(&store, pair[1]), OPENING + 1);
}

#[test]
fn lease_04_a_thousand_concurrent_transfers_between_ten_accounts_keep_the_sum() {
    const TELLERS: usize = 8;
    const EACH: usize = 1000 / TELLERS;
    let store = store();
    open_accounts(&store);
    let (locked, start) = (AtomicU64::new(0), Barrier::new(TELLERS + 1));
    let done = AtomicUsize::new(0);
    thread::scope(|scope| {
        for teller in 0..TELLERS {
            let (store, locked, start, done) = (&store, &locked, &start, &done);
            scope.spawn(move || {
                let mut dice = Dice(teller as u64);
                start.wait();
                for nth in 0..EACH {
                    let pair = pair(&mut dice);
                    let pair = [&*pair[0], &*pair[1]];
                    let amount = 1 + dice.below(99) as i64;
                    let lease = loop {
                        match store
                            .leases()
                            .acquire(pair, format!("teller-{teller}"), 600 * SECOND)
                        {
                            Ok(lease) => break lease,
                            Err(LeaseError::Conflict(_)) => locked.fetch_add(1, Ordering::Relaxed),
                            Err(other) => panic!("{other}"),
                        };
                        thread::yield_now();
                    };
                    let key = format!("{teller}/{nth}");
                    // So other threads can run in between.
                    transfer(store, &lease, pair, amount, &key, thread::yield_now).unwrap();
                    lease.release().unwrap();
                }
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        start.wait();
        while done.load(Ordering::Relaxed) < TELLERS && !thread::panicking() {
            assert_eq!(sum(&store), ACCOUNTS as i64 * OPENING, "at any time");
            thread::yield_now();
        }
    });
    assert_eq!(store.version(), 1 + 1000);
    assert_eq!(sum(&store), ACCOUNTS as i64 * OPENING);
    assert!(store.leases().list().is_empty());
    assert!(locked.into_inner() > 0, "no transfer met another one");
}

#[test]
fn lease_04_owners_that_die_in_the_middle_are_taken_over_and_keep_the_sum() {
    let (store, clock) = timed();
    open_accounts(&store);
    let mut dice = Dice(7);
    let mut ghosts = Vec::new();
    let (mut deaths, mut refused, mut taken_over) = (0, 0, 0);
    for nth in 0..500 {
        let pair = pair(&mut dice);
        let pair = [&*pair[0], &*pair[1]];
        let lease = loop {
            match store
                .leases()
                .acquire(pair, format!("teller-{nth}"), 5 * SECOND)
            {
                Ok(lease) => break lease,
                Err(LeaseError::Conflict(holder)) => {
                    taken_over += 1;
                    clock.advance(holder.remaining);
                }
                Err(other) => panic!("{other}"),
            }
        };
        let amount = 1 + dice.below(99) as i64;
        if dice.one_in(5) {
            // It has read, and pauses for long.
            let read = pair.map(|account| (account.to_owned(), balance(&store, account)));
            ghosts.push((lease, read, amount));
            deaths += 1;
            continue;
        }
        transfer(&store, &lease, pair, amount, &nth.to_string(), || ()).unwrap();
        lease.release().unwrap();
        // Sometimes one resumes.
        if dice.one_in(4) && !ghosts.is_empty() {
            let (lease, [from, to], amount) = ghosts.swap_remove(dice.below(ghosts.len()));
            let lasts = !lease.remaining().is_zero();
            let list = (
                require_lease(&lease),
                set_attrs([("balance", (from.1 - amount).into())]).on(&*from.0),
                set_attrs([("balance", (to.1 + amount).into())]).on(&*to.0),
            );
            let outcome = TransactionManager::new(store.clone()).execute(list);
            assert_eq!(outcome.is_ok(), lasts, "{outcome:?}");
            refused += usize::from(!lasts);
        }
        assert_eq!(sum(&store), ACCOUNTS as i64 * OPENING);
    }
    assert!(
        deaths > 50 && refused > 5 && taken_over > 50,
        "{deaths}, {refused}, {taken_over}"
    );
}

#[test]
fn lease_04_a_repeated_request_gets_its_first_answer() {
    let store = store();
    open_accounts(&store);
    let pair = [&*account(1), &*account(2)];
    let lease = store
        .leases()
        .acquire(pair, "teller-1", 60 * SECOND)
        .unwrap();
    let first = transfer(&store, &lease, pair, 5, "request", || ()).unwrap();
    lease.release().unwrap();
    // The answer was lost, so the request is repeated, many times at once.
    let start = Barrier::new(8);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                start.wait();
                let lease = loop {
                    match store.leases().acquire(pair, "teller-2", 60 * SECOND) {
                        Ok(lease) => break lease,
                        Err(_) => thread::yield_now(),
                    }
                };
                let again = transfer(&store, &lease, pair, 5, "request", || ()).unwrap();
                lease.release().unwrap();
                assert!(again.repeated);
                assert_eq!(again.transaction_id, first.transaction_id);
            });
        }
    });
    assert_eq!(
        (store.version(), balance(&store, pair[0])),
        (2, OPENING - 5)
    );
}

#[test]
fn lease_04_an_owner_that_is_overtaken_between_its_reading_and_its_writing_is_refused() {
    let (store, clock) = timed();
    open_accounts(&store);
    let pair = [&*account(1), &*account(2)];
    let slow = store.leases().acquire(pair, "slow", 5 * SECOND).unwrap();
    let overtake = || {
        clock.advance(5 * SECOND);
        let fast = store.leases().acquire(pair, "fast", 5 * SECOND).unwrap();
        transfer(&store, &fast, pair, 7, "fast", || ()).unwrap();
    };
    let error = transfer(&store, &slow, pair, 9, "slow", overtake).unwrap_err();
    // The error comes before anything is done; for a commit in progress, from the commit.
    assert!(
        matches!(error, TransactionError::Operation { index: 0, .. })
            || matches!(error, TransactionError::Commit(CommitError::LeaseLost(_))),
        "{error}"
    );
    assert_eq!(balance(&store, pair[0]), OPENING - 7);
    assert_eq!(sum(&store), ACCOUNTS as i64 * OPENING);
}
