//! One effect for each event, together with its mark (INBOX 1, 2).

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use doclock::{
    CommitError, StoreOptions,
    document::NodeSpec,
    inbox::{EventState, HandlerError, Inbox, InboxOptions, Outcome},
    schema::{NodeType, Schema},
};

use crate::common::{image, store};
use crate::{Bank, credit, done};

#[test]
fn inbox_01_ten_deliveries_have_one_effect() {
    let bank = Bank::new(InboxOptions::new());
    let message = ("evt-1", ());
    let outcomes: Vec<_> = (0..10).map(|_| bank.process(&message, credit)).collect();
    assert!(done(&outcomes[0]));
    assert_eq!(outcomes[1..], vec![Outcome::Duplicate; 9]);
    assert_eq!(bank.ledger(), ["evt-1"]);
}

#[test]
fn inbox_01_ten_deliveries_at_once_have_one_effect() {
    for _ in 0..50 {
        let bank = Bank::new(InboxOptions::new());
        let start = Barrier::new(10);
        let (ran, dones) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| {
                    start.wait();
                    let outcome = bank.process(&("evt-1", ()), |transaction, message| {
                        ran.fetch_add(1, Ordering::Relaxed);
                        credit(transaction, message)
                    });
                    match outcome {
                        Outcome::Done { .. } => drop(dones.fetch_add(1, Ordering::Relaxed)),
                        Outcome::Duplicate | Outcome::Taken { .. } => {}
                        other => panic!("{other:?}"),
                    }
                });
            }
        });
        assert_eq!((ran.into_inner(), dones.into_inner()), (1, 1));
        assert_eq!(bank.ledger(), ["evt-1"]);
    }
}

#[test]
fn inbox_01_inboxes_of_one_name_are_one_and_of_two_names_are_two() {
    let bank = Bank::new(InboxOptions::new());
    let again = Inbox::new(&bank.store, "payments");
    let other = Inbox::new(&bank.store, "audit");
    let elsewhere = Inbox::new(&store(), "payments");
    let message = ("evt-1", ());
    assert!(done(&bank.process(&message, credit)));
    assert_eq!(again.process(&message, credit).unwrap(), Outcome::Duplicate);
    assert!(done(&other.process(&message, |_, _| Ok(())).unwrap()));
    assert!(done(&elsewhere.process(&message, |_, _| Ok(())).unwrap()));
}

#[test]
fn inbox_02_the_mark_is_there_when_the_effect_is() {
    let bank = Bank::new(InboxOptions::new());
    let events = bank.store.subscribe();
    bank.process(&("evt-1", ()), |transaction, message| {
        credit(transaction, message)?;
        let claimed = matches!(bank.inbox.event("evt-1"), Some(EventState::Claimed { .. }));
        assert!(claimed, "no mark before the effect");
        assert!(bank.ledger().is_empty(), "no effect before the mark");
        Ok(())
    });
    let commit = events.recv().unwrap().commit;
    assert_eq!((commit.version, commit.owner.as_str()), (2, "payments"));
    assert!(matches!(
        bank.inbox.event("evt-1"),
        Some(EventState::Done { attempts: 1, .. })
    ));
}

#[test]
fn inbox_02_an_effect_is_never_visible_without_its_mark() {
    let bank = Bank::new(InboxOptions::new());
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            for event in 0..2_000 {
                bank.process(&(event.to_string(), ()), credit);
            }
        });
        while !worker.is_finished() {
            // An effect in the ledger was marked in the same commit, so its mark is visible.
            if let Some(last) = bank.ledger().last() {
                assert!(matches!(
                    bank.inbox.event(last),
                    Some(EventState::Done { .. })
                ));
            }
        }
    });
    assert_eq!(bank.ledger().len(), 2_000);
}

#[test]
fn inbox_02_an_attempt_that_fails_leaves_neither_effect_nor_mark() {
    let bank = Bank::new(InboxOptions::new());
    let before = image(&bank.store.snapshot());
    let events = bank.store.subscribe();
    let message = ("evt-1", ());
    let failures: [fn() -> doclock::inbox::HandlerResult; 2] = [
        || Err(HandlerError::transient("no network")),
        || panic!("crashed in the middle"),
    ];
    for failure in failures {
        let outcome = bank.process(&message, |transaction, message| {
            credit(transaction, message)?;
            transaction.create(NodeSpec::new("half"))?;
            failure()
        });
        assert!(matches!(outcome, Outcome::Retry { .. }), "{outcome:?}");
        assert_eq!(image(&bank.store.snapshot()), before);
        assert!(matches!(
            bank.inbox.event("evt-1"),
            Some(EventState::Waiting { .. })
        ));
        assert!(!bank.store.is_locked());
        bank.clock.advance(crate::CLAIM);
    }
    assert!(events.try_recv().is_err());
    assert!(done(&bank.process(&message, credit)));
    assert_eq!(bank.ledger(), ["evt-1"]);
}

#[test]
fn inbox_02_a_commit_that_is_refused_leaves_neither_effect_nor_mark() {
    let schema = Schema::builder()
        .node("ledger", NodeType::new().text(true))
        .node("page", NodeType::new().content("ledger+"))
        .build();
    let settings = StoreOptions::new().schema(schema.unwrap());
    let bank = Bank::with_store(settings, InboxOptions::new());
    let outcome = bank.process(&("evt-1", ()), |transaction, message| {
        credit(transaction, message)?;
        transaction.create(NodeSpec::new("page"))?;
        Ok(())
    });
    let Outcome::Dead(letter) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(letter.error.contains("content `ledger+`"), "{letter}");
    assert!(bank.ledger().is_empty());
    assert!(matches!(
        bank.inbox.event("evt-1"),
        Some(EventState::Dead(_))
    ));
}

#[test]
fn inbox_02_a_handler_that_changes_nothing_is_marked_as_well() {
    let bank = Bank::new(InboxOptions::new());
    let outcome = bank.process(&("evt-1", ()), |_, _| Ok(()));
    let (version, changed) = (1, false);
    assert_eq!(outcome, Outcome::Done { version, changed });
    assert_eq!(bank.process(&("evt-1", ()), credit), Outcome::Duplicate);
    assert_eq!(bank.store.version(), 1);
}

#[test]
fn inbox_02_a_claim_commits_to_its_own_store_alone() {
    let bank = Bank::new(InboxOptions::new());
    let other = store();
    // For an inbox of the same number, with the same event and token.
    let there = Inbox::new(&other, "payments");
    let twin = there.claim(&("evt-1", ())).unwrap();
    let claim = bank.inbox.claim(&("evt-1", ())).unwrap();
    assert_eq!(claim.token(), twin.token());
    let refused = claim.commit(other.begin("test").unwrap()).unwrap_err();
    assert!(matches!(refused, CommitError::OtherStore { .. }));
    drop(twin);
    assert!(done(&bank.process(&("evt-1", ()), credit)));
    assert!(done(&there.process(&("evt-1", ()), |_, _| Ok(())).unwrap()));
}
