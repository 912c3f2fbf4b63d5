//! Requests whose owner dies, is cut off or is too late.

use std::thread;
use std::time::Duration;

use crossbeam_channel::Receiver;
use doclock::View;
use doclock::codes::CodedError;
use doclock_postgres::{LostReason, PendingRequest, RunnerEnded, RunnerOptions};

use crate::proxy::{Fault, Proxy};
use crate::request_support::{Mode, Owner, ann, node, row};
use crate::support::{APPEND, TAKE, connect, log_versions, name, parameters, sql, until};

const PATIENCE: Duration = Duration::from_secs(20);

fn version(pending: &PendingRequest) -> u64 {
    pending.wait(PATIENCE).unwrap().version
}

#[test]
fn cluster_02_requests_have_one_outcome_when_their_owner_dies_before_the_append() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("before");
    let server = connect(&parameters);
    let requests = server.requests(&document, "other").unwrap();
    let first = Owner::begin(&server, &document, "first").run();
    let done = requests.submit(node("done"), ann()).unwrap();
    assert_eq!(version(&done), 1);
    let epoch = first.term.epoch();
    first.set(Mode::FailsBefore);
    let pending = ["a", "b", "c"].map(|id| requests.submit(node(id), ann()).unwrap());
    until("the first has run", || first.store.version() > 1);
    first.die(&parameters);
    for pending in &pending {
        assert_eq!(pending.poll(), Ok(None));
    }
    let second = Owner::begin(&server, &document, "second");
    assert_eq!(second.store.version(), 1, "nothing of them is in the log");
    let second = second.run();
    // In their order, each once.
    assert_eq!(pending.each_ref().map(version), [2, 3, 4]);
    assert_eq!(second.store.snapshot().len(), 4);
    assert_eq!(log_versions(&parameters, &document), [1, 2, 3, 4]);
    let by = |pending: &PendingRequest| {
        let (machine, epoch, _) = row(&parameters, &document, pending.number());
        (machine.unwrap(), epoch.unwrap().cast_unsigned())
    };
    assert_eq!(by(&done), ("first".into(), epoch));
    assert_eq!(by(&pending[0]), ("second".into(), second.term.epoch()));
}

#[test]
fn cluster_02_a_request_has_one_outcome_when_its_owner_dies_after_the_append() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("after");
    let server = connect(&parameters);
    let requests = server.requests(&document, "other").unwrap();
    let first = Owner::begin(&server, &document, "first").run();
    let epoch = first.term.epoch();
    first.set(Mode::FailsAfter);
    let pending = requests.submit(node("n"), ann()).unwrap();
    until("the store has failed", || {
        first.store.wait_durable(1).wait().is_err()
    });
    // The outcome came with the commit, and its owner does not know of it.
    let outcome = pending.poll().unwrap().unwrap();
    assert_eq!(outcome.version, 1);
    first.die(&parameters);
    let second = Owner::begin(&server, &document, "second").run();
    let later = requests.submit(node("later"), ann()).unwrap();
    assert_eq!(version(&later), 2);
    assert_eq!(pending.poll().unwrap().unwrap(), outcome);
    let by = row(&parameters, &document, pending.number());
    assert_eq!(by, (Some("first".into()), Some(epoch.cast_signed()), true));
    assert_eq!(second.store.snapshot().len(), 2);
}

#[test]
fn cluster_02_an_append_whose_statement_or_answer_is_lost_writes_one_outcome() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("lost-append");
    let (proxy, proxied) = Proxy::start(&parameters);
    let requests = connect(&parameters).requests(&document, "other").unwrap();
    let mut owner = Owner::begin(&connect(&proxied), &document, "owner").run();
    let faults = [Fault::LosesAnswer, Fault::LosesStatement];
    for (met, fault) in (1..).zip(faults) {
        proxy.next(fault, APPEND);
        let pending = requests.submit(node(&format!("n{met}")), ann()).unwrap();
        assert_eq!(version(&pending), met);
        until("the fault is met", || u64::from(proxy.met()) == met);
    }
    // The first look of a runner finds the request.
    for (met, fault) in (3..).zip(faults) {
        owner.runner.take().unwrap().stop();
        let pending = requests.submit(node(&format!("n{met}")), ann()).unwrap();
        proxy.next(fault, TAKE);
        owner = owner.run();
        assert_eq!(version(&pending), met);
        assert_eq!(u64::from(proxy.met()), met);
    }
    assert_eq!(log_versions(&parameters, &document), [1, 2, 3, 4]);
    assert_eq!(owner.store.snapshot().len(), 4);
    assert!(owner.term.is_owner());
    // The same for an outcome without a commit.
    for fault in [Fault::LosesAnswer, Fault::LosesStatement] {
        proxy.next(fault, "q.number = r.number AND a.number");
        let pending = requests.submit(node("n1"), ann()).unwrap();
        let refused = pending.wait(PATIENCE).unwrap_err();
        assert_eq!(refused.code(), "operationFailed");
    }
    assert_eq!(proxy.met(), 6);
}

#[test]
fn cluster_02_a_failure_is_told_when_what_it_has_seen_is_durable() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("durable");
    let server = connect(&parameters);
    let requests = server.requests(&document, "other").unwrap();
    let first = Owner::begin(&server, &document, "first").run();
    first.set(Mode::Holds);
    let manager = first.manager.clone();
    let local = thread::spawn(move || manager.execute(node("n")).map(drop));
    until("the local batch has run", || first.store.version() == 1);
    // It fails because of a commit that may be lost, and is: then it does not fail.
    let pending = requests.submit(node("n"), ann()).unwrap();
    let behind = requests.submit(node("behind"), ann()).unwrap();
    until("the request behind it has run", || {
        first.store.version() == 2
    });
    assert_eq!(pending.poll(), Ok(None));
    first.set(Mode::FailsBefore);
    assert!(local.join().unwrap().is_err());
    first.die(&parameters);
    assert_eq!(pending.poll(), Ok(None));
    let _second = Owner::begin(&server, &document, "second").run();
    assert_eq!((version(&pending), version(&behind)), (1, 2));
}

#[test]
fn cluster_02_an_owner_that_ran_a_settled_request_appends_nothing() {
    let Some(parameters) = parameters() else {
        return;
    };
    for mode in [Mode::Passes, Mode::WithEntry] {
        ran_a_settled_request(&parameters, mode);
    }
}

fn ran_a_settled_request(parameters: &str, mode: Mode) {
    let document = name("settled");
    let server = connect(parameters);
    let requests = server.requests(&document, "other").unwrap();
    let first = Owner::begin(&server, &document, "first").run();
    first.set(Mode::Holds);
    let manager = first.manager.clone();
    let local = thread::spawn(move || manager.execute(node("local")).map(drop));
    until("the local batch has run", || first.store.version() == 1);
    // Both are in the block after that of the local batch.
    let [pending, other] = ["n", "other"].map(|id| requests.submit(node(id), ann()).unwrap());
    until("both have run", || first.store.version() == 3);
    // While the owner lives, only the owner settles it.
    assert!(!pending.cancel().unwrap());
    // A crash of the server can lose that it was taken.
    let forget = "UPDATE doclock.doclock_request SET taken = NULL WHERE document = $1";
    sql(parameters).execute(forget, &[&document]).unwrap();
    assert!(pending.cancel().unwrap());
    first.set(mode);
    until("the term is lost", || !first.term.is_owner());
    let number = pending.number();
    assert_eq!(
        first.term.lost(),
        Some(LostReason::RequestSettled { number })
    );
    let refused = first.store.wait_durable(3).wait().unwrap_err();
    assert_eq!(refused.code(), "journalFenced");
    local.join().unwrap().unwrap();
    first.die(parameters);
    assert_eq!(log_versions(parameters, &document), [1]);
    assert_eq!(other.poll(), Ok(None), "it is for the next owner");
    let second = Owner::begin(&server, &document, "second").run();
    let next = requests.submit(node("next"), ann()).unwrap();
    assert_eq!([version(&other), version(&next)], [2, 3]);
    assert_eq!(
        pending.wait(PATIENCE).unwrap_err().code(),
        "requestCancelled"
    );
    assert!(!second.store.snapshot().contains("n"));
}

#[test]
fn cluster_02_a_request_of_a_dead_owner_is_cancelled_by_its_machine() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("dead");
    let server = connect(&parameters);
    let requests = server.requests(&document, "other").unwrap();
    let first = Owner::begin(&server, &document, "first").run();
    first.set(Mode::FailsBefore);
    let [expired, marked] = ["a", "b"].map(|id| requests.submit(node(id), ann()).unwrap());
    until("it has run", || first.store.version() > 0);
    until("both are taken", || {
        row(&parameters, &document, marked.number()).2
    });
    assert!(!marked.cancel().unwrap(), "its owner has the lease");
    first.die(&parameters);
    assert!(expired.cancel().unwrap(), "its owner has lost the lease");
    let second = Owner::begin(&server, &document, "second").run();
    let refused = marked.wait(PATIENCE).unwrap_err();
    assert_eq!(refused.code(), "requestCancelled");
    let next = requests.submit(node("next"), ann()).unwrap();
    assert_eq!(version(&next), 1);
    assert_eq!(second.store.snapshot().len(), 1);
}

#[test]
fn cluster_02_a_checkpoint_with_a_commit_writes_its_outcome_too() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("checkpoint");
    let (proxy, proxied) = Proxy::start(&parameters);
    let requests = connect(&parameters).requests(&document, "other").unwrap();
    let owner = Owner::begin(&connect(&proxied), &document, "owner").run();
    owner.set(Mode::WithEntry);
    let statement = "FOR NO KEY UPDATE),";
    for (met, fault) in (1..).zip([Fault::LosesAnswer, Fault::LosesStatement]) {
        proxy.next(fault, statement);
        let pending = requests.submit(node(&format!("n{met}")), ann()).unwrap();
        assert_eq!(version(&pending), met);
        until("the fault is met", || u64::from(proxy.met()) == met);
    }
    assert_eq!(log_versions(&parameters, &document), [1, 2]);
    // In the other order of the end: first the store.
    owner.set(Mode::Passes);
    owner.store.close().unwrap();
    let ended = owner.runner.as_ref().unwrap().stop();
    assert_eq!(ended, Some(RunnerEnded::Stopped));
}

#[test]
fn cluster_02_a_runner_that_stops_leaves_the_rest_to_the_next_owner() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("stop");
    let server = connect(&parameters);
    let requests = server.requests(&document, "other").unwrap();
    let mut owner = Owner::begin(&server, &document, "first");
    let held = owner.store.begin("holder").unwrap();
    let pending = ["a", "b", "c"].map(|id| requests.submit(node(id), ann()).unwrap());
    owner.run_with(RunnerOptions::new());
    until("the first waits", || owner.store.queue_length() == 1);
    drop(owner.runner.take());
    until("the first is left too", || owner.store.queue_length() == 0);
    drop(held);
    owner.store.close().unwrap();
    owner.term.hand_over().unwrap();
    assert_eq!(owner.store.version(), 0);
    let second = Owner::begin(&server, &document, "second").run();
    assert_eq!(pending.each_ref().map(version), [1, 2, 3]);
    assert_eq!(second.store.snapshot().len(), 3);
}

#[test]
fn cluster_02_outcomes_are_written_in_order() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("in-order");
    let server = connect(&parameters);
    let requests = server.requests(&document, "other").unwrap();
    let mut first = Owner::begin(&server, &document, "first");
    first.set(Mode::Holds);
    // Neither makes a version, and the second has the result of the first.
    let submit = |_| {
        let batch = doclock::dsl::if_unchanged(0);
        requests.submit(batch, ann().key("k")).unwrap()
    };
    let [one, again] = [1, 2].map(submit);
    let behind = requests.submit(node("behind"), ann()).unwrap();
    first.run_with(RunnerOptions::new());
    until("the request behind has run", || first.store.version() == 1);
    assert_eq!(again.poll(), Ok(None), "the first is not durable");
    first.set(Mode::Passes);
    let [one, again] = [one, again].map(|pending| pending.wait(PATIENCE).unwrap());
    assert_eq!(one.transaction_id, again.transaction_id);
    assert!(!one.repeated && again.repeated);
    assert_eq!(version(&behind), 1);
}

#[test]
fn cluster_02_an_owner_leaves_an_outcome_that_is_there() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("there");
    let server = connect(&parameters);
    let requests = server.requests(&document, "other").unwrap();
    let owner = Owner::begin(&server, &document, "owner").run();
    let held = owner.store.begin("holder").unwrap();
    let pending = requests.submit(node("n"), ann()).unwrap();
    until("it waits", || owner.store.queue_length() == 1);
    let forget = "UPDATE doclock.doclock_request SET taken = NULL WHERE document = $1";
    sql(&parameters).execute(forget, &[&document]).unwrap();
    assert!(pending.cancel().unwrap());
    until("it leaves the queue", || owner.store.queue_length() == 0);
    drop(held);
    let next = requests.submit(node("next"), ann()).unwrap();
    assert_eq!(version(&next), 1);
    let by = row(&parameters, &document, pending.number());
    assert_eq!((by.0, by.1), (Some("other".into()), None));
}

#[test]
fn cluster_02_a_runner_that_starts_again_settles_nothing_that_may_have_run() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("again");
    let server = connect(&parameters);
    let requests = server.requests(&document, "other").unwrap();
    let mut owner = Owner::begin(&server, &document, "owner").run();
    owner.set(Mode::Holds);
    let [cancelled, late] = ["a", "b"].map(|id| requests.submit(node(id), ann()).unwrap());
    until("both have run", || owner.store.version() == 2);
    drop(owner.runner.take());
    assert!(!cancelled.cancel().unwrap(), "its owner has the lease");
    let past = "UPDATE doclock.doclock_request
        SET deadline = clock_timestamp() - interval '1 second' WHERE document = $1 AND number = $2";
    let number = late.number().cast_signed();
    let updated = sql(&parameters).execute(past, &[&document, &number]);
    assert_eq!(updated.unwrap(), 1);
    owner.run_with(RunnerOptions::new());
    // It looks at the others first.
    let behind = requests.submit(node("behind"), ann()).unwrap();
    until("the next one has run", || owner.store.version() == 3);
    assert_eq!((cancelled.poll(), late.poll()), (Ok(None), Ok(None)));
    owner.set(Mode::Passes);
    assert_eq!([cancelled, late, behind].each_ref().map(version), [1, 2, 3]);
    assert_eq!(owner.store.snapshot().len(), 3);
}

/// The versions for which the after-hooks of an owner run.
fn hooked(owner: &Owner) -> Receiver<u64> {
    let (runs, ran) = crossbeam_channel::unbounded();
    owner.hooks.after(move |result| {
        let _ = runs.send(result.version);
    });
    ran
}

/// Once an after-hook of a request ran before its commit was in the log.
#[test]
fn cluster_02_after_hooks_of_a_request_run_once_when_its_commit_is_durable() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("hooks");
    let server = connect(&parameters);
    let requests = server.requests(&document, "other").unwrap();
    let owner = Owner::begin(&server, &document, "owner").run();
    let ran = hooked(&owner);
    owner.set(Mode::Holds);
    let first = requests.submit(node("a"), ann().key("a")).unwrap();
    // The second one runs behind the first, and the third has no effect of its own.
    let second = requests.submit(node("b"), ann()).unwrap();
    let repeated = requests.submit(node("a"), ann().key("a")).unwrap();
    let refused = requests.submit(node("b"), ann()).unwrap();
    until("both have run", || owner.store.version() == 2);
    assert_eq!(ran.try_recv(), Err(crossbeam_channel::TryRecvError::Empty));
    owner.set(Mode::Passes);
    assert_eq!((version(&first), version(&second)), (1, 2));
    assert!(repeated.wait(PATIENCE).unwrap().repeated);
    assert!(refused.wait(PATIENCE).is_err());
    for version in [1, 2] {
        assert_eq!(ran.recv_timeout(PATIENCE), Ok(version));
    }
    // Those of a batch whose commit is on the way when the runner is stopped.
    owner.set(Mode::Holds);
    let last = requests.submit(node("c"), ann()).unwrap();
    until("it has run", || owner.store.version() == 3);
    let runner = owner.runner.as_ref().unwrap();
    thread::scope(|scope| {
        let stopped = scope.spawn(|| runner.stop());
        assert_eq!(ran.try_recv(), Err(crossbeam_channel::TryRecvError::Empty));
        owner.set(Mode::Passes);
        assert_eq!(stopped.join().unwrap(), Some(RunnerEnded::Stopped));
    });
    assert_eq!(version(&last), 3);
    assert_eq!(ran.try_iter().collect::<Vec<_>>(), [3]);
}

/// Once after-hooks ran under each owner that had the request.
#[test]
fn cluster_02_after_hooks_of_a_request_run_on_the_owner_that_stored_its_commit() {
    let Some(parameters) = parameters() else {
        return;
    };
    // The owner dies before the append, or after it and before it has the answer.
    for (mode, expected) in [(Mode::FailsBefore, vec![1]), (Mode::FailsAfter, vec![])] {
        let document = name("hooks-of-two");
        let server = connect(&parameters);
        let requests = server.requests(&document, "other").unwrap();
        let first = Owner::begin(&server, &document, "first");
        let of_first = hooked(&first);
        first.set(mode);
        let first = first.run();
        let pending = requests.submit(node("a"), ann()).unwrap();
        until("it has run", || first.store.version() == 1);
        first.die(&parameters);
        let second = Owner::begin(&server, &document, "second");
        let of_second = hooked(&second);
        let second = second.run();
        assert_eq!(version(&pending), 1, "{mode:?}");
        second.runner.as_ref().unwrap().stop();
        assert_eq!(of_first.try_iter().count(), 0, "{mode:?}");
        assert_eq!(
            of_second.try_iter().collect::<Vec<_>>(),
            expected,
            "{mode:?}"
        );
    }
}
