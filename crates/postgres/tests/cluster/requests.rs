//! Requests of other machines: their order, outcomes and errors.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use doclock::codes::CodedError;
use doclock::transaction::TransactionResult;
use doclock::{View, dsl::*};
use doclock_postgres::{PendingRequest, RequestError};

use crate::proxy::{Fault, Proxy};
use crate::request_support::{Owner, ann, node, row};
use crate::support::{connect, name, parameters, sql, until};

const PATIENCE: Duration = Duration::from_secs(20);

fn done(pending: &PendingRequest) -> TransactionResult {
    pending.wait(PATIENCE).unwrap()
}

#[test]
fn cluster_03_requests_of_two_machines_run_in_the_order_of_their_numbers_between_local_batches() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("order");
    let owner = Owner::begin(&connect(&parameters), &document, "owner").run();
    let ends = AtomicBool::new(false);
    let mut outcomes = thread::scope(|scope| {
        let local = scope.spawn(|| {
            let mut batches = 0;
            while !ends.load(Ordering::Relaxed) {
                owner.manager.execute(create(element("local", []))).unwrap();
                batches += 1;
            }
            batches
        });
        let machines = ["one", "two"].map(|machine| {
            let requests = connect(&parameters).requests(&document, machine).unwrap();
            scope.spawn(move || {
                let submit = |_| {
                    requests
                        .submit(create(element("remote", [])), ann())
                        .unwrap()
                };
                let pending: Vec<_> = (0..60).map(submit).collect();
                let outcome = |pending: &PendingRequest| (pending.number(), done(pending).version);
                pending.iter().map(outcome).collect::<Vec<_>>()
            })
        });
        let outcomes = machines.map(|machine| machine.join().unwrap()).concat();
        ends.store(true, Ordering::Relaxed);
        assert!(local.join().unwrap() > 0);
        outcomes
    });
    outcomes.sort_unstable();
    assert_eq!(outcomes.len(), 120);
    let is_ordered = |pair: &[(u64, u64)]| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1;
    assert!(outcomes.windows(2).all(is_ordered), "{outcomes:?}");
}

#[test]
fn cluster_03_a_number_becomes_visible_with_all_before_it() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("visible");
    let server = connect(&parameters);
    let requests = server.requests(&document, "two").unwrap();
    let first = requests.submit(node("first"), ann()).unwrap();
    let mut other = sql(&parameters);
    let mut slow = other.transaction().unwrap();
    // The insert of another machine, as it is written, which stops before it is visible.
    let insert = "WITH n AS (INSERT INTO doclock.doclock_request_number AS n VALUES ($1, 1)
            ON CONFLICT (document) DO UPDATE SET number = n.number + 1 RETURNING number)
        INSERT INTO doclock.doclock_request (document, number, machine, ticket, owner, key, batch,
            inserted_at)
        SELECT $1, number, 'one', 1, 'ann', 'slow', $2, clock_timestamp() FROM n";
    let batch = serde_json::to_vec(&[node("slow")]).unwrap();
    slow.execute(insert, &[&document, &batch]).unwrap();
    thread::scope(|scope| {
        let later = scope.spawn(|| requests.submit(node("later"), ann()).unwrap());
        let mut watcher = sql(&parameters);
        let waits = "SELECT 1 FROM pg_stat_activity
            WHERE wait_event_type = 'Lock' AND query LIKE '%doclock_insert_request%'";
        until("the later insert waits", || {
            assert!(!later.is_finished());
            !watcher.query(waits, &[]).unwrap().is_empty()
        });
        slow.commit().unwrap();
        let later = later.join().unwrap();
        assert_eq!((first.number(), later.number()), (1, 3));
        let _owner = Owner::begin(&server, &document, "owner").run();
        let versions = [&first, &requests.request(2), &later].map(|pending| done(pending).version);
        assert_eq!(versions, [1, 2, 3]);
    });
}

#[test]
fn cluster_03_a_request_and_a_local_batch_overtake_each_other_as_far_as_stated() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("bounds");
    let server = connect(&parameters);
    let mut owner = Owner::begin(&server, &document, "owner");
    let requests = server.requests(&document, "other").unwrap();
    let pending = ["r1", "r2"].map(|id| requests.submit(node(id), ann()).unwrap());
    let held = owner.store.begin("holder").unwrap();
    owner_queue(&mut owner, held, &parameters, &document, &pending);
}

fn owner_queue(
    owner: &mut Owner,
    held: doclock::Transaction,
    parameters: &str,
    document: &str,
    pending: &[PendingRequest; 2],
) {
    let (manager, store) = (owner.manager.clone(), owner.store.clone());
    let local = |id: &'static str| {
        let before = store.queue_length();
        let manager = manager.clone();
        let batch = thread::spawn(move || manager.execute(node(id)).unwrap().version);
        until("a local batch waits", || store.queue_length() == before + 1);
        batch
    };
    let before = ["a", "b", "c"].map(local);
    owner.run_with(doclock_postgres::RunnerOptions::new());
    // Both are taken, and only one of them waits in the queue.
    until("the request waits", || store.queue_length() == 4);
    let is_taken = |pending: &PendingRequest| row(parameters, document, pending.number()).2;
    assert!(pending.iter().all(is_taken));
    let after = ["d", "e", "f"].map(local);
    assert_eq!(store.queue_length(), 7);
    drop(held);
    let before = before.map(|batch| batch.join().unwrap());
    let after = after.map(|batch| batch.join().unwrap());
    let remote = pending.each_ref().map(|pending| done(pending).version);
    assert_eq!((before, remote[0]), ([1, 2, 3], 4));
    // The second is submitted when the first has run, behind the local batches that wait by then.
    assert_eq!((after, remote[1]), ([5, 6, 7], 8));
}

#[test]
fn cluster_02_a_cancelled_request_that_has_not_begun_never_runs() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("cancel");
    let server = connect(&parameters);
    let requests = server.requests(&document, "other").unwrap();
    // No owner has taken it.
    let untaken = requests.submit(node("untaken"), ann()).unwrap();
    assert!(untaken.cancel().unwrap());
    assert!(untaken.cancel().unwrap(), "a repetition");
    let owner = Owner::begin(&server, &document, "owner").run();
    // It waits in the queue of the owner, and another one behind it.
    let held = owner.store.begin("holder").unwrap();
    let queued = requests.submit(node("queued"), ann()).unwrap();
    until("the request waits", || owner.store.queue_length() == 1);
    assert!(!queued.cancel().unwrap(), "the owner decides");
    let refused = queued.wait(PATIENCE).unwrap_err();
    drop(held);
    let RequestError::Cancelled {
        error: Some(error),
        machine,
        epoch,
        ..
    } = &refused
    else {
        panic!("{refused:?}");
    };
    assert_eq!(error["code"], "lockCancelled");
    assert_eq!((&**machine, *epoch), ("owner", Some(owner.term.epoch())));
    // It has run.
    let run = requests.submit(node("run"), ann()).unwrap();
    assert_eq!(done(&run).version, 1);
    assert!(!run.cancel().unwrap());
    assert_eq!(done(&run).version, 1);
    let first = untaken.wait(PATIENCE).unwrap_err();
    assert!(
        matches!(&first, RequestError::Cancelled { machine, epoch: None, .. } if machine == "other"),
        "{first:?}"
    );
    assert_eq!(owner.store.snapshot().len(), 1);
}

#[test]
fn cluster_02_a_race_of_cancel_and_run_has_one_outcome() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("race");
    let server = connect(&parameters);
    let requests = server.requests(&document, "other").unwrap();
    let owner = Owner::begin(&server, &document, "owner").run();
    let (mut ran, mut cancelled) = (0, 0);
    for round in 0..300_u64 {
        let id = format!("n{round}");
        let pending = requests.submit(node(&id), ann()).unwrap();
        // The owner is sometimes before, sometimes behind.
        let pause = Duration::from_micros(round % 30 * 200);
        let until = std::time::Instant::now() + pause;
        while std::time::Instant::now() < until {
            std::hint::spin_loop();
        }
        let says = pending.cancel().unwrap();
        let outcome = pending.wait(PATIENCE);
        let exists = owner.store.snapshot().contains(id.as_str());
        match &outcome {
            Ok(_) => ran += 1,
            Err(RequestError::Cancelled { .. }) => cancelled += 1,
            Err(error) => panic!("{error:?}"),
        }
        assert_eq!(exists, outcome.is_ok(), "{outcome:?}");
        assert!(!(says && outcome.is_ok()), "it was said to be cancelled");
        assert_eq!(pending.wait(PATIENCE), outcome);
        if round >= 30 && ran > 0 && cancelled > 0 {
            break;
        }
    }
    assert!(ran > 0 && cancelled > 0, "{ran} ran, {cancelled} cancelled");
    assert!(owner.term.is_owner());
}

#[test]
fn cluster_02_a_request_that_has_not_begun_in_time_never_runs() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("late");
    let server = connect(&parameters);
    let requests = server.requests(&document, "other").unwrap();
    let soon = || ann().timeout(Duration::from_millis(60));
    // There is no owner, so the requester settles it.
    let alone = requests.submit(node("alone"), soon()).unwrap();
    let refused = alone.wait(PATIENCE).unwrap_err();
    assert!(
        matches!(&refused, RequestError::Expired { machine, epoch: None, .. } if machine == "other"),
        "{refused:?}"
    );
    // By the clock of the server its time is over, and no requester settles it.
    let far = ann().timeout(Duration::from_secs(3600));
    let passed = requests.submit(node("passed"), far).unwrap();
    let back = "UPDATE doclock.doclock_request SET deadline = clock_timestamp() - interval '1 s'
        WHERE document = $1 AND number = $2";
    let number = passed.number().cast_signed();
    sql(&parameters)
        .execute(back, &[&document, &number])
        .unwrap();
    let owner = Owner::begin(&server, &document, "owner").run();
    let epoch = owner.term.epoch();
    until("the owner settles it", || {
        row(&parameters, &document, passed.number()).0.is_some()
    });
    let refused = passed.wait(PATIENCE).unwrap_err();
    assert!(
        matches!(&refused, RequestError::Expired { error: None, epoch: Some(of), .. } if *of == epoch),
        "{refused:?}"
    );
    // In the queue of the owner, with the evidence of the queue. It has to get there in time.
    let held = owner.store.begin("holder").unwrap();
    let reaches_it = ann().timeout(Duration::from_secs(3));
    let queued = requests.submit(node("queued"), reaches_it).unwrap();
    let refused = queued.wait(PATIENCE).unwrap_err();
    drop(held);
    let json = serde_json::to_value(&refused).unwrap();
    assert_eq!(json["code"], "requestExpired");
    assert_eq!(
        (&json["machine"], &json["epoch"]),
        (&"owner".into(), &epoch.into())
    );
    assert_eq!(json["error"]["code"], "lockTimeout", "{json}");
    assert_eq!(json["error"]["holder"]["ownerId"], "holder", "{json}");
    // Without a runner it stays pending.
    drop(owner.runner);
    let pending = requests.submit(node("pending"), ann()).unwrap();
    let refused = pending.wait(Duration::from_millis(60)).unwrap_err();
    let json = serde_json::to_value(&refused).unwrap();
    assert_eq!(
        (&json["code"], &json["machine"]),
        (&"requestTimeout".into(), &"owner".into())
    );
    assert_eq!((&json["ahead"], &json["epoch"]), (&0.into(), &epoch.into()));
    assert!(!refused.is_outcome() && owner.store.snapshot().is_empty());
}

#[test]
fn cluster_02_an_idempotency_key_has_one_effect_on_all_machines() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("key");
    let server = connect(&parameters);
    let owner = Owner::begin(&server, &document, "owner");
    let [one, two] = ["one", "two"].map(|machine| server.requests(&document, machine).unwrap());
    let pay = || create(text_node("payment", "100"));
    let options = || ann().key("invoice 7");
    let pending = [one.submit(pay(), options()), two.submit(pay(), options())];
    let other = two.submit(node("other"), options()).unwrap();
    // A local batch with the key of a request that waits is not its outcome.
    let held = owner.store.begin("holder").unwrap();
    let manager = owner.manager.clone();
    let local = thread::spawn(move || {
        manager
            .transaction([node("local")])
            .idempotent("local")
            .commit()
    });
    until("the local batch waits", || owner.store.queue_length() == 1);
    let mismatch = one.submit(node("remote"), ann().key("local")).unwrap();
    let same = one.submit(node("local"), ann().key("local")).unwrap();
    let owner = owner.run();
    until("the first request waits", || {
        owner.store.queue_length() == 2
    });
    drop(held);
    let local = local.join().unwrap().unwrap();
    let [first, again] = pending.map(|pending| done(&pending.unwrap()));
    assert!(!first.repeated && again.repeated);
    assert_eq!(first.transaction_id, again.transaction_id);
    for (pending, version) in [(other, first.version), (mismatch, local.version)] {
        let refused = serde_json::to_value(pending.wait(PATIENCE).unwrap_err()).unwrap();
        assert_eq!(refused["code"], "idempotencyMismatch", "{refused}");
        assert_eq!(refused["version"], version, "{refused}");
    }
    let same = done(&same);
    assert_eq!(
        (same.transaction_id, same.repeated),
        (local.transaction_id, true)
    );
    assert_eq!(owner.store.version(), 2);
}

#[test]
fn cluster_02_a_local_batch_under_the_key_of_a_request_is_not_its_outcome() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("local-key");
    let server = connect(&parameters);
    let owner = Owner::begin(&server, &document, "owner");
    let requests = server.requests(&document, "other").unwrap();
    let held = owner.store.begin("holder").unwrap();
    let manager = owner.manager.clone();
    let local = thread::spawn(move || {
        manager
            .transaction([node("local")])
            .idempotent("k")
            .commit()
    });
    until("the local batch waits", || owner.store.queue_length() == 1);
    let (release, released) = mpsc::channel::<()>();
    let store = owner.store.clone();
    let holder = thread::spawn(move || {
        let held = store.begin("holder").unwrap();
        let _ = released.recv();
        drop(held);
    });
    until("the holder waits", || owner.store.queue_length() == 2);
    let pending = requests.submit(node("remote"), ann().key("k")).unwrap();
    let owner = owner.run();
    until("the request waits", || owner.store.queue_length() == 3);
    drop(held);
    // The local batch is appended while the request waits under the same key.
    local.join().unwrap().unwrap();
    assert_eq!(pending.poll(), Ok(None));
    drop(release);
    holder.join().unwrap();
    let refused = pending.wait(PATIENCE).unwrap_err();
    assert_eq!(refused.code(), "idempotencyMismatch");
    assert!(!owner.store.snapshot().contains("remote"));
}

#[test]
fn cluster_02_a_failed_request_has_the_evidence_of_the_error_with_machine_and_epoch() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("evidence");
    let server = connect(&parameters);
    let requests = server.requests(&document, "other").unwrap();
    let owner = Owner::begin(&server, &document, "owner").run();
    let batches = || {
        [
            vec![node("ok"), insert_text(9, "!").on("nowhere")],
            vec![node("t"), insert_text(9, "!").on("t")],
            vec![if_unchanged(7)],
        ]
    };
    for (local, remote) in batches().into_iter().zip(batches()) {
        let expected = owner.manager.execute(local).unwrap_err();
        let (retry, status) = (expected.retry(), expected.http_status());
        let mut expected = serde_json::to_value(&expected).unwrap();
        let pending = requests.submit(remote, ann()).unwrap();
        let error = pending.wait(PATIENCE).unwrap_err();
        expected["request"] = pending.number().into();
        expected["machine"] = "owner".into();
        expected["epoch"] = owner.term.epoch().into();
        expected["retry"] = serde_json::to_value(retry).unwrap();
        expected["httpStatus"] = status.into();
        assert_eq!(serde_json::to_value(&error).unwrap(), expected);
        assert_eq!(error.code(), expected["code"]);
        assert_eq!((error.retry(), error.http_status()), (retry, status));
        let message = expected["message"].as_str().unwrap();
        assert!(error.to_string().contains(message), "{error}");
    }
    assert_eq!(owner.store.version(), 0);
}

#[test]
fn cluster_02_requests_without_a_commit_and_with_any_text_have_outcomes() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("plain");
    let server = connect(&parameters);
    let requests = server.requests(&document, "other").unwrap();
    let unreadable = requests.submit(node("x"), ann()).unwrap();
    let overwrite = "UPDATE doclock.doclock_request SET batch = $2 WHERE document = $1";
    let batch: &[u8] = b"[{\"type\": \"no\xff";
    sql(&parameters)
        .execute(overwrite, &[&document, &batch])
        .unwrap();
    let owner = Owner::begin(&server, &document, "owner").run();
    assert_eq!(
        unreadable.wait(PATIENCE).unwrap_err().code(),
        "requestUnreadable"
    );

    // The result is that of the commit, apart from the changes.
    let events = owner.store.subscribe();
    let text = create(text_node("paragraph", "a\0b \u{10ffff}").with_id("t"));
    let created = done(&requests.submit(text, ann()).unwrap());
    let mut expected = (*events.recv().unwrap().commit).clone();
    expected.changes = doclock::document::Changes::default();
    assert_eq!(created, expected);
    assert_eq!((created.version, created.owner.as_str()), (1, "ann"));
    let found = owner.store.snapshot();
    assert_eq!(found.text_of("t").unwrap(), "a\0b \u{10ffff}");

    let unchanged = done(&requests.submit(if_unchanged(1), ann()).unwrap());
    assert_eq!((unchanged.version, unchanged.changed), (1, false));
    let empty: [doclock::transaction::Operation; 0] = [];
    let empty = done(&requests.submit(empty, ann()).unwrap());
    assert_eq!((empty.version, empty.changed), (1, false));
    let failed = requests
        .submit(insert_text(0, "\0").on("a\0b"), ann())
        .unwrap();
    let message = failed.wait(PATIENCE).unwrap_err().to_string();
    assert!(message.contains("does not exist"), "{message}");
    assert_eq!(
        owner.runner.unwrap().stop(),
        Some(doclock_postgres::RunnerEnded::Stopped)
    );
}

#[test]
fn cluster_02_a_batch_that_is_too_large_or_runs_code_is_not_inserted() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("large");
    let server = connect(&parameters);
    let requests = server.requests(&document, "other").unwrap();
    let small = requests.clone().largest_batch(100);
    let batch = node(&"x".repeat(40));
    let bytes = serde_json::to_vec(&[&batch]).unwrap().len();
    let refused = small.submit(batch.clone(), ann()).unwrap_err();
    assert_eq!(refused, RequestError::TooLarge { bytes, most: 100 });
    let large = node(&"x".repeat(1 << 20));
    let refused = requests.submit(large, ann()).unwrap_err();
    assert!(matches!(
        refused,
        RequestError::TooLarge {
            most: 1_048_576,
            ..
        }
    ));
    let code = op(|_: &mut doclock::Draft| -> Result<(), doclock::document::EditError> { Ok(()) });
    let refused = requests.submit(code, ann()).unwrap_err();
    assert!(
        matches!(refused, RequestError::NotData { .. }),
        "{refused:?}"
    );
    let refused = requests.submit(node("x"), ann().key("a\0b")).unwrap_err();
    assert_eq!(refused.code(), "requestServer");
    let exact = requests.clone().largest_batch(bytes);
    assert_eq!(exact.submit(batch, ann()).unwrap().number(), 1);
}

#[test]
fn cluster_02_a_requester_that_restarts_finds_its_outcome() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("restart");
    let submit = || {
        let server = connect(&parameters);
        let requests = server.requests(&document, "other").unwrap();
        requests
            .submit(node("n"), ann().key("mine"))
            .unwrap()
            .number()
    };
    let number = submit();
    let server = connect(&parameters);
    let mut owner = Owner::begin(&server, &document, "owner").run();
    let requests = server.requests(&document, "other").unwrap();
    let found = requests.find("mine").unwrap().unwrap();
    assert_eq!(found.number(), number);
    assert_eq!(done(&found), done(&requests.request(number)));
    assert!(requests.find("other").unwrap().is_none());
    let elsewhere = server.requests(&document, "third").unwrap();
    assert!(elsewhere.find("mine").unwrap().is_none());
    // Outcomes are kept for a time.
    owner.runner.take().unwrap().stop();
    let options = doclock_postgres::RunnerOptions::new();
    owner.run_with(options.keep_outcomes(Duration::ZERO));
    until("the outcome is removed", || {
        requests.find("mine").unwrap().is_none()
    });
    let missing = requests.request(number).poll().unwrap_err();
    assert_eq!(missing, RequestError::NotFound { document, number });
}

#[test]
fn cluster_02_an_insert_whose_statement_or_answer_is_lost_is_inserted_once() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("lost-insert");
    let (proxy, proxied) = Proxy::start(&parameters);
    let requests = connect(&proxied).requests(&document, "other").unwrap();
    for fault in [Fault::LosesAnswer, Fault::LosesStatement] {
        proxy.next(fault, "doclock_insert_request_1(");
        requests.submit(node(&format!("{fault:?}")), ann()).unwrap();
    }
    assert_eq!(proxy.met(), 2);
    let count = "SELECT number FROM doclock.doclock_request WHERE document = $1 ORDER BY number";
    let rows = sql(&parameters).query(count, &[&document]).unwrap();
    let numbers: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(numbers, [1, 2]);
}

/// Once a call got the outcome of the request that had its number after a failover.
#[test]
fn cluster_02_a_request_with_the_number_of_a_lost_one_is_another_request() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("number");
    let requests = connect(&parameters).requests(&document, "one").unwrap();
    let lost = requests.submit(node("a"), ann().key("k")).unwrap();
    let found = requests.find("k").unwrap().unwrap();
    let other = "UPDATE doclock.doclock_request SET ticket = ticket + 1 WHERE document = $1";
    sql(&parameters).execute(other, &[&document]).unwrap();
    for handle in [&lost, &found] {
        let polled = handle.poll().unwrap_err();
        assert!(
            matches!(polled, RequestError::Lost { number: 1, .. }),
            "{polled}"
        );
        assert!(handle.cancel().is_err());
    }
    // By its number alone, it is whatever has the number.
    assert_eq!(requests.request(1).poll().unwrap(), None);
}

/// Once a runner that was stopped waited for the holder of the lock, even if that one stopped it.
#[test]
fn cluster_02_a_runner_stops_while_its_request_waits_for_the_lock() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("stops");
    let server = connect(&parameters);
    let mut owner = Owner::begin(&server, &document, "owner").run();
    let requests = server.requests(&document, "one").unwrap();
    let held = owner.store.begin("holder").unwrap();
    let pending = requests.submit(node("a"), ann()).unwrap();
    until("the request waits", || owner.store.queue_length() == 1);
    let ended = owner.runner.take().unwrap().stop();
    assert_eq!(ended, Some(doclock_postgres::RunnerEnded::Stopped));
    assert_eq!(owner.store.queue_length(), 0);
    assert_eq!(pending.poll().unwrap(), None);
    drop(held);
    // The next runner takes it again.
    owner = owner.run();
    done(&pending);
    assert!(owner.store.snapshot().contains("a"));
}

#[test]
fn cluster_05_a_wait_of_no_time_leaves_the_connection_of_all_requests() {
    let Some(parameters) = parameters() else {
        return;
    };
    let (program, document) = (name("no-time"), name("no-time"));
    let server = connect(&format!("{parameters} application_name={program}"));
    let requests = server.requests(&document, "other").unwrap();
    let pending = requests.submit(node("n"), ann()).unwrap();
    let mut database = sql(&parameters);
    let mut connections = || -> Vec<i32> {
        let pids = "SELECT pid FROM pg_stat_activity WHERE application_name = $1 ORDER BY pid";
        let rows = database.query(pids, &[&program]).unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    };
    let before = connections();
    assert_eq!(
        before.len(),
        2,
        "that of the terms, and that of the requests"
    );
    for timeout in [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::from_micros(50),
    ] {
        for _ in 0..10 {
            let refused = pending.wait(timeout).unwrap_err();
            assert!(matches!(refused, RequestError::Timeout { .. }), "{refused}");
        }
    }
    // A lost connection would be made again.
    assert_eq!(pending.poll(), Ok(None));
    assert_eq!(connections(), before);
}
