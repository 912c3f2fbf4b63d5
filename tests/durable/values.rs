//! Whatever a store accepts, it reads again: names, ids, keys, texts and times of programs that
//! mean no good or know no better.

use std::time::{Duration, SystemTime};

use doclock::inbox::{DeadLetter, HandlerError, Inbox};
use doclock::lease::{LeaseError, LeaseTarget};
use doclock::{DataStore, TransactionManager, dsl::*, transaction::IdempotencyKey};

use crate::common::Dice;
use crate::{Folder, add, later};

const HOUR: Duration = Duration::from_secs(3600);

/// A lease on a node with an empty id was accepted and stored, and no open read the file again.
#[test]
fn durable_01_a_lease_on_an_empty_id_is_refused_and_the_file_opens_again() {
    let folder = Folder::new();
    let store = folder.open();
    add(&store, "before");
    for targets in [vec![""], vec!["a", ""]] {
        assert_eq!(
            store.leases().acquire(targets, "w", HOUR).unwrap_err(),
            LeaseError::EmptyTarget
        );
    }
    add(&store, "after");
    store.close().unwrap();
    drop(store);
    assert_eq!(folder.open().version(), 2);
}

/// A message without an id was settled as dead, but its letter was gone after a restart.
#[test]
fn durable_04_the_dead_letter_of_a_message_without_an_id_survives() {
    let folder = Folder::new();
    let store = folder.open_with(later());
    let inbox = Inbox::new(&store, "bills");
    let late = SystemTime::UNIX_EPOCH + HOUR;
    for sent_at in [None, Some(late), Some(SystemTime::UNIX_EPOCH)] {
        let outcome = match sent_at {
            None => inbox.process(&("", 1), |_, _| Ok(())).unwrap(),
            Some(at) => inbox.process(&("", at, 1), |_, _| Ok(())).unwrap(),
        };
        assert!(outcome.is_settled());
    }
    assert_eq!(inbox.prune(late), 1, "the one that was sent first");
    let before: Vec<_> = inbox.dead_letters().into_iter().map(known).collect();
    store.close().unwrap();
    drop((inbox, store));
    let store = folder.open_with(later());
    let inbox = Inbox::new(&store, "bills");
    let after: Vec<_> = inbox.dead_letters().into_iter().map(known).collect();
    assert_eq!((before.len(), &after), (2, &before));
    // Later letters push out the stored ones.
    for _ in 0..DeadLetter::KEPT_WITHOUT_ID {
        inbox.process(&("", 1), |_, _| Ok(())).unwrap();
    }
    store.close().unwrap();
    drop((inbox, store));
    let store = folder.open();
    let letters = Inbox::new(&store, "bills").dead_letters();
    assert_eq!(letters.len(), DeadLetter::KEPT_WITHOUT_ID);
    assert!(letters.iter().all(|letter| letter.sent_at.is_none()));
}

/// What a letter says, apart from its age.
fn known(letter: DeadLetter) -> (String, String, u32, Option<SystemTime>) {
    let DeadLetter {
        event_id,
        error,
        attempts,
        sent_at,
        ..
    } = letter;
    (event_id.into(), error, attempts, sent_at)
}

/// A text as others may send it.
fn text(dice: &mut Dice) -> String {
    match dice.below(12) {
        0 => String::new(),
        1 => "\0".into(),
        2 => "\u{feff}".into(),
        3 => "\u{d7ff}\u{e000}\u{ffff}\u{10ffff}".into(),
        4 => u64::MAX.to_string(),
        5 => format!("{}:{}", u32::MAX, u64::MAX),
        6 => "/\"\\\n{}[]'".into(),
        7 => "x".repeat(1 << dice.below(18)),
        8 => " ".into(),
        _ => format!("n{}", dice.below(4)),
    }
}

fn moment(dice: &mut Dice) -> SystemTime {
    let epoch = SystemTime::UNIX_EPOCH;
    let far = Duration::new(1 << 62, 999_999_999);
    let one = Duration::from_nanos(1);
    let found = match dice.below(6) {
        0 => epoch.checked_sub(far),
        1 => epoch.checked_add(far),
        2 => epoch.checked_sub(one),
        3 => epoch.checked_sub(Duration::new(i64::MAX as u64, 0)),
        4 => epoch.checked_add(Duration::new(i64::MAX as u64, 999_999_999)),
        _ => Some(epoch + Duration::from_secs(dice.below(100) as u64)),
    };
    found.unwrap_or(epoch)
}

fn duration(dice: &mut Dice) -> Duration {
    match dice.below(5) {
        0 => Duration::MAX,
        1 => Duration::from_nanos(u64::MAX / 2),
        2 => Duration::ZERO,
        _ => HOUR,
    }
}

fn target(dice: &mut Dice) -> LeaseTarget {
    match dice.one_in(8) {
        true => LeaseTarget::Document,
        false => text(dice).as_str().into(),
    }
}

/// One call with values that others chose. Whether it succeeds makes no difference.
fn call(dice: &mut Dice, store: &DataStore) {
    let name = text(dice);
    let inbox = Inbox::new(store, name.as_str());
    let manager = TransactionManager::for_owner(store.clone(), text(dice).as_str());
    match dice.below(8) {
        0 => {
            let targets: Vec<LeaseTarget> = (0..dice.below(4)).map(|_| target(dice)).collect();
            if let Ok(mut lease) =
                store
                    .leases()
                    .acquire(targets, text(dice).as_str(), duration(dice))
            {
                match dice.below(4) {
                    0 => drop(lease.release()),
                    1 => drop(lease.renew(duration(dice))),
                    _ => {}
                }
            }
        }
        1 | 2 => {
            let (id, said, how) = (text(dice), text(dice), dice.below(3));
            let handler = |_: &mut doclock::Draft| match how {
                0 => Ok(()),
                1 => Err(HandlerError::poison(said.clone())),
                _ => Err(HandlerError::transient(said.clone())),
            };
            let outcome = match dice.one_in(2) {
                true => inbox.process(&(id, moment(dice), ()), |on, _| handler(on)),
                false => inbox.process(&(id, ()), |on, _| handler(on)),
            };
            outcome.unwrap();
        }
        3 => drop(inbox.prune(moment(dice))),
        4 => drop(inbox.revive(&text(dice))),
        5 | 6 => {
            let key = IdempotencyKey::new(text(dice).as_str()).accept_other_operations();
            let node = text_node(text(dice).as_str(), text(dice)).with_id(text(dice).as_str());
            let node = node.with_attributes([(text(dice), u64::MAX.into())]);
            let _ = manager.transaction(create(node)).idempotent(key).commit();
        }
        _ => {
            let operation = set_text(text(dice)).on(text(dice).as_str());
            let _ = manager.execute(operation);
        }
    }
}

/// What a store has beside its document.
fn kept(store: &DataStore, inboxes: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = store
        .leases()
        .list()
        .into_iter()
        .map(|lease| {
            format!(
                "{:?} {:?} {:?}",
                lease.targets, lease.owner_id, lease.fencing_token
            )
        })
        .collect();
    for name in inboxes {
        let letters = Inbox::new(store, *name).dead_letters();
        all.extend(
            letters
                .into_iter()
                .map(|letter| format!("{name:?} {:?}", known(letter))),
        );
    }
    all
}

#[test]
fn durable_01_a_store_reads_again_whatever_it_has_accepted() {
    let first: u64 = std::env::var("SEED").map_or(1, |seed| seed.parse().unwrap());
    let runs = if cfg!(debug_assertions) { 12 } else { 400 };
    for seed in first..first + runs {
        println!("SEED={seed}");
        let dice = &mut Dice(seed);
        let folder = Folder::new();
        let options = || later().checkpoint_after(1 << 12);
        let options = match seed % 2 {
            0 => options(),
            _ => options().keep_log(1 << 20),
        };
        let (mut before, mut kept_before) = (None, Vec::new());
        let inboxes: Vec<String> = (0..12).map(|_| text(dice)).collect();
        let names: Vec<&str> = inboxes.iter().map(String::as_str).collect();
        for _ in 0..3 {
            let store = folder.open_with(options.clone());
            if let Some(before) = &before {
                assert_eq!(&store.snapshot(), before);
                assert_eq!(kept(&store, &names), kept_before);
            }
            for _ in 0..20 {
                call(dice, &store);
            }
            before = Some(store.snapshot());
            kept_before = kept(&store, &names);
            let copy = folder.0.path().join("copy.doclock");
            assert_eq!(store.backup(&copy).unwrap(), store.version());
            let opened = DataStore::open(&copy).unwrap();
            assert_eq!(Some(opened.snapshot()), before);
            assert_eq!(kept(&opened, &names), kept_before);
            drop(opened);
            std::fs::remove_file(copy).unwrap();
            store.close().unwrap();
        }
    }
}

#[test]
fn durable_01_ten_megabytes_in_each_name_are_read_again() {
    let folder = Folder::new();
    let store = folder.open();
    let large = "y".repeat(10 << 20);
    let inbox = Inbox::new(&store, large.as_str());
    let lease = store
        .leases()
        .acquire(large.as_str(), large.as_str(), HOUR)
        .unwrap();
    let poison = |_: &mut doclock::Draft, _: &_| Err(HandlerError::poison(large.clone()));
    assert!(
        inbox
            .process(&(large.as_str(), 1), poison)
            .unwrap()
            .is_settled()
    );
    let manager = TransactionManager::new(store.clone());
    let key = IdempotencyKey::new(large.as_str());
    manager
        .transaction(create(text_node("p", "x")))
        .idempotent(key)
        .commit()
        .unwrap();
    let before = kept(&store, &[&large]);
    drop(lease);
    store.close().unwrap();
    drop((inbox, manager, store));
    let store = folder.open();
    assert_eq!(store.snapshot().len(), 1);
    assert!(kept(&store, &[&large]) == before, "too long to be printed");
}
