//! One call on every member: the owner runs a batch, and another member requests it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use doclock::codes::CodedError;
use doclock::document::{Limit, Limits};
use doclock::durable::DurableOptions;
use doclock::lock::CancelToken;
use doclock::transaction::Hooks;
use doclock::{StoreOptions, TransactionManager, View, dsl::*};
use doclock_postgres::{
    Member, MemberOptions, Postgres, RequestError, RequestOptions, RunnerOptions, TermOptions,
};

use crate::proxy::{Fault, Proxy};
use crate::request_support::Cancels;
use crate::support::{APPEND, TAKE, connect, name, parameters, short, sql, steal, until};

const LIMIT: Duration = Duration::from_secs(20);

/// Options with a term that no busy machine lets end.
fn long(owner: &str) -> MemberOptions {
    let poll = Duration::from_millis(20)..=Duration::from_millis(200);
    MemberOptions::new(TermOptions::new(owner).term(LIMIT)).poll(poll)
}

/// An owner and a follower.
fn pair(server: &Postgres, document: &str, options: fn(&str) -> MemberOptions) -> (Member, Member) {
    let owner = Member::join(server, document, options("ann")).unwrap();
    owner.wait_store(LIMIT).unwrap();
    let follower = Member::join(server, document, options("bob")).unwrap();
    (owner, follower)
}

/// The requests of a document, read beside doclock.
fn requests(parameters: &str, document: &str) -> i64 {
    let count = "SELECT count(*) FROM doclock.doclock_request WHERE document = $1";
    let row = sql(parameters).query_one(count, &[&document]).unwrap();
    row.get(0)
}

#[test]
fn cluster_03_one_call_runs_on_the_owner_and_on_another_member() {
    let Some(parameters) = parameters() else {
        return;
    };
    let (server, document) = (connect(&parameters), name("call"));
    let (owner, follower) = pair(&server, &document, long);
    let node = create(text_node("paragraph", "a").with_id("p"));
    let first = owner.execute(node).unwrap();
    assert_eq!(requests(&parameters, &document), 0);
    let second = follower.execute(insert_text(1, "b").on("p")).unwrap();
    assert_eq!(requests(&parameters, &document), 1);
    let third = owner.execute(insert_text(2, "c").on("p")).unwrap();
    assert_eq!((first.version, second.version, third.version), (1, 2, 3));
    assert_eq!(
        (first.owner.as_str(), second.owner.as_str()),
        ("ann", "bob")
    );
    assert!(!first.repeated && !second.repeated && second.changed);
    until("the follower has it", || follower.snapshot().version() == 3);
    let text = follower.snapshot().snapshot.text_of("p").unwrap();
    assert_eq!(text.to_string(), "abc");
    // A key has one effect on all members.
    let pay = || RequestOptions::new("cem").key("invoice 7");
    let paid = follower.execute_with(create(text_node("payment", "1")), pay());
    let again = owner.execute_with(create(text_node("payment", "1")), pay());
    let (paid, again) = (paid.unwrap(), again.unwrap());
    assert_eq!((paid.version, again.version), (4, 4));
    assert!(!paid.repeated && again.repeated);
}

/// An error without what names the request and the transaction.
fn evidence(error: &RequestError) -> serde_json::Value {
    let mut evidence = serde_json::to_value(error).unwrap();
    let parts = evidence.as_object_mut().unwrap();
    parts.remove("request");
    evidence
}

#[test]
fn cluster_03_a_batch_that_fails_has_the_same_error_on_each_member() {
    let Some(parameters) = parameters() else {
        return;
    };
    let (server, document) = (connect(&parameters), name("same"));
    let (owner, follower) = pair(&server, &document, |owner| {
        // What the program sets holds for the batches of each member.
        long(owner).managers(|store, owner| {
            let limits = Limits::new().with(Limit::Operations, 2);
            TransactionManager::for_owner(store, owner).with_limits(limits)
        })
    });
    let missing = || set_text("a").on("missing");
    let many = || vec![create(text_node("p", "a")); 3];
    for (code, batch) in [("operation", vec![missing()]), ("operationLimit", many())] {
        let here = owner.execute(batch.clone()).unwrap_err();
        let there = follower.execute(batch).unwrap_err();
        println!("{here}\n{there}");
        assert_eq!(evidence(&here), evidence(&there), "{code}");
        let RequestError::Failed {
            number,
            machine,
            epoch,
            ..
        } = &here
        else {
            panic!("{here:?}");
        };
        let of = owner.snapshot().owner.unwrap();
        assert_eq!((*number, machine.as_str(), *epoch), (None, "ann", of.epoch));
    }
    assert_eq!(owner.snapshot().version(), 0);
    let code = || [op(|_| Ok::<(), std::fmt::Error>(()))];
    for member in [&owner, &follower] {
        let refused = member.execute(code()).unwrap_err();
        assert!(matches!(refused, RequestError::NotData { .. }), "{refused}");
    }
    // A batch that waits for the lock of the owner gives up on each member.
    let store = owner.store().unwrap();
    let (holds, held) = crossbeam_channel::bounded::<()>(0);
    let (ends, end) = crossbeam_channel::bounded::<()>(0);
    let holder = thread::spawn(move || {
        let transaction = store.begin("holder").unwrap();
        holds.send(()).unwrap();
        let _ = end.recv();
        drop(transaction);
    });
    held.recv().unwrap();
    for member in [&owner, &follower] {
        let options = RequestOptions::new("dan").timeout(Duration::from_millis(300));
        let late = member.execute_with(create(text_node("p", "late")), options);
        let late = late.unwrap_err();
        assert!(matches!(late, RequestError::Expired { .. }), "{late}");
    }
    drop(ends);
    holder.join().unwrap();
    assert_eq!(owner.snapshot().version(), 0);
}

#[test]
fn cluster_02_each_call_has_one_effect_when_the_owner_changes_in_the_middle() {
    let Some(parameters) = parameters() else {
        return;
    };
    let (server, other) = (connect(&parameters), connect(&parameters));
    let document = name("changes");
    let brief = |owner: &str| {
        let poll = Duration::from_millis(10)..=Duration::from_millis(50);
        MemberOptions::new(short(owner)).poll(poll)
    };
    let members = [(&server, "ann"), (&other, "bob")]
        .map(|(server, owner)| Member::join(server, &document, brief(owner)).unwrap());
    let counts = ["ann", "bob"].map(|id| create(text_node("count", "").with_id(id)));
    members[0].execute(counts).unwrap();
    let ends = AtomicBool::new(false);
    let acknowledged = thread::scope(|scope| {
        let writers: Vec<_> = members
            .iter()
            .zip(["ann", "bob"])
            .map(|(member, id)| {
                let ends = &ends;
                scope.spawn(move || {
                    let (mut versions, mut owned) = (Vec::new(), 0);
                    while !ends.load(Ordering::SeqCst) {
                        owned += usize::from(member.store().is_some());
                        // A second effect would be a second character.
                        let result = member.execute(insert_text(0, "x").on(id)).unwrap();
                        assert!(!result.repeated, "{result:?}");
                        versions.push(result.version);
                    }
                    (versions, owned)
                })
            })
            .collect();
        struct End<'a>(&'a AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let end = End(&ends);
        for round in 0..8 {
            let version = members[0].snapshot().version();
            until("both write", || {
                members[0].snapshot().version() > version + 20
            });
            match round % 2 {
                // The commits that wait for the server are fenced or unknown.
                0 => steal(&parameters, &document),
                _ => members.iter().for_each(|member| {
                    let _ = member.hand_over();
                }),
            }
        }
        drop(end);
        let ended = writers.into_iter().map(|writer| writer.join().unwrap());
        ended.collect::<Vec<_>>()
    });
    let mut versions = Vec::new();
    for ((acknowledged, owned), id) in acknowledged.into_iter().zip(["ann", "bob"]) {
        println!(
            "{id}: {} calls, {owned} of them as the owner",
            acknowledged.len()
        );
        assert!(owned > 0 && owned < acknowledged.len(), "{id}: {owned}");
        assert!(acknowledged.is_sorted(), "{acknowledged:?}");
        for member in &members {
            let last = *acknowledged.last().unwrap();
            until("it has all", || member.snapshot().version() >= last);
            let text = member.snapshot().snapshot.text_of(id).unwrap();
            assert_eq!(text.to_string().len(), acknowledged.len(), "{id}");
        }
        versions.extend(acknowledged);
    }
    versions.sort_unstable();
    // Each version is the effect of one call.
    assert!(versions.iter().copied().eq(2..2 + versions.len() as u64));
}

#[test]
fn cluster_03_a_request_rings_the_owner() {
    let Some(parameters) = parameters() else {
        return;
    };
    let (server, other) = (connect(&parameters), connect(&parameters));
    let document = name("rings");
    let rarely = |owner: &str| {
        let minute = Duration::from_secs(60);
        let requests = RunnerOptions::new().longest_poll(minute);
        long(owner).poll(minute..=minute).requests(requests)
    };
    let owner = Member::join(&server, &document, rarely("ann")).unwrap();
    owner.wait_store(LIMIT).unwrap();
    let follower = Member::join(&other, &document, rarely("bob")).unwrap();
    until("the doorbells are heard", || {
        owner.has_doorbell() && follower.has_doorbell()
    });
    for _ in 0..3 {
        let idle = Instant::now();
        // The owner looks after 1, 2, 4 ... 512 ms, and then after a second more.
        until("the owner polls rarely", || {
            idle.elapsed() > Duration::from_millis(1_100)
        });
        let began = Instant::now();
        follower.execute(create(text_node("p", "a"))).unwrap();
        let took = began.elapsed();
        println!("a request took {took:?}");
        assert!(took < Duration::from_millis(500), "{took:?}");
    }
}

#[test]
fn cluster_05_an_idle_owner_with_a_doorbell_looks_for_requests_once_a_second() {
    let Some(parameters) = parameters() else {
        return;
    };
    for listens in [true, false] {
        let (proxy, proxied) = Proxy::start(&parameters);
        let options = long("ann").doorbell(listens);
        let owner = Member::join(&connect(&proxied), &name("idle"), options).unwrap();
        owner.wait_store(LIMIT).unwrap();
        until("it listens", || owner.has_doorbell() == listens);
        let passed = |millis| {
            let began = Instant::now();
            until("time has passed", || {
                began.elapsed() > Duration::from_millis(millis)
            });
        };
        // Its first pauses are 1, 2, 4 ... 512 ms.
        passed(1_100);
        proxy.count(TAKE);
        match listens {
            true => {
                passed(2_000);
                let looks = proxy.counted();
                assert!(looks <= 3, "{looks} looks");
            }
            false => until("it looks often", || proxy.counted() > 20),
        }
    }
}

/// Lets a call end when a test fails.
struct Up<'a>(&'a Proxy);

impl Drop for Up<'_> {
    fn drop(&mut self) {
        self.0.set_down(false);
    }
}

#[test]
fn cluster_02_a_cancelled_call_whose_commit_is_unknown_has_at_most_one_effect() {
    let Some(parameters) = parameters() else {
        return;
    };
    for is_stored in [true, false] {
        let (proxy, proxied) = Proxy::start(&parameters);
        let document = name("unknown-call");
        let brief = |owner: &str| MemberOptions::new(short(owner)).doorbell(false);
        let owner = Member::join(&connect(&proxied), &document, brief("ann")).unwrap();
        let store = owner.wait_store(LIMIT).unwrap();
        let node = create(text_node("count", "").with_id("p"));
        owner.execute(node).unwrap();
        let follower = Member::join(&connect(&parameters), &document, brief("bob")).unwrap();
        proxy.next(Fault::HoldsStatement, APPEND);
        let result = thread::scope(|scope| {
            let token = CancelToken::new();
            let options = RequestOptions::new("ann").cancel_token(&token);
            let call = scope.spawn(|| owner.execute_with(insert_text(0, "x").on("p"), options));
            until("the append is held", || proxy.met() == 1);
            // It has begun.
            token.cancel();
            // The client would look it up after a third of its term.
            if is_stored {
                proxy.release();
            }
            proxy.set_down(true);
            let up = Up(&proxy);
            let last = "SELECT max(last_version) FROM doclock.doclock_log WHERE document = $1";
            let row = sql(&parameters).query_one(last, &[&document]).unwrap();
            let version: i64 = row.get(0);
            assert_eq!(version, 1 + i64::from(is_stored));
            until("the other one is the owner", || follower.store().is_some());
            // The commit of the call is unknown to the store.
            until("the store has ended", || {
                store
                    .wait_durable(2)
                    .timeout(Duration::ZERO)
                    .wait()
                    .is_err()
            });
            drop(up);
            call.join().unwrap()
        });
        println!("stored: {is_stored}: {result:?}");
        match result {
            Ok(result) if is_stored => assert_eq!((result.version, result.repeated), (2, false)),
            Err(RequestError::Cancelled { .. }) if !is_stored => {}
            // The other one was the owner too late.
            Err(RequestError::Unknown { version: 2, .. }) => {}
            ended => panic!("stored: {is_stored}: {ended:?}"),
        }
        let text = follower.snapshot().snapshot.text_of("p").unwrap();
        assert_eq!(text.to_string(), if is_stored { "x" } else { "" });
    }
}

/// Once the owner returned a failure because of a commit that was then lost with its term.
#[test]
fn cluster_02_a_call_on_the_owner_fails_when_what_it_has_seen_is_durable() {
    let Some(parameters) = parameters() else {
        return;
    };
    for is_stored in [true, false] {
        let (proxy, proxied) = Proxy::start(&parameters);
        let document = name("seen");
        let has_begun = Arc::new(AtomicBool::new(false));
        let hooks = Hooks::new();
        let begins = Arc::clone(&has_begun);
        hooks.before(move |_, operations| {
            begins.store(true, Ordering::SeqCst);
            Ok(operations)
        });
        let brief = |owner: &str| MemberOptions::new(short(owner)).doorbell(false);
        let hooked = brief("ann").managers(move |store, owner| {
            TransactionManager::for_owner(store, owner).with_hooks(hooks.clone())
        });
        let owner = Member::join(&connect(&proxied), &document, hooked).unwrap();
        let store = owner.wait_store(LIMIT).unwrap();
        let follower = Member::join(&connect(&parameters), &document, brief("bob")).unwrap();
        let node = || create(text_node("p", "a").with_id("p"));
        proxy.next(Fault::HoldsStatement, APPEND);
        let (local, call) = thread::scope(|scope| {
            let manager = TransactionManager::new(store.clone());
            let local = scope.spawn(move || manager.execute(node()).map(drop));
            until("the append is held", || proxy.met() == 1);
            assert_eq!(store.version(), 1);
            let call = scope.spawn(|| owner.execute(node()));
            until("the call has begun", || has_begun.load(Ordering::SeqCst));
            if is_stored {
                proxy.release();
            }
            proxy.set_down(true);
            let up = Up(&proxy);
            until("the other one is the owner", || follower.store().is_some());
            drop(up);
            (local.join().unwrap(), call.join().unwrap())
        });
        assert!(local.is_err());
        match call {
            Ok(result) if !is_stored => assert_eq!((result.version, result.repeated), (1, false)),
            // The next owner has it too.
            Err(error) if is_stored => assert_eq!(error.code(), "operationFailed"),
            ended => panic!("stored: {is_stored}: {ended:?}"),
        }
        until("it has the node", || follower.snapshot().version() == 1);
        follower.leave().unwrap();
    }
}

/// Once an owner returned a failure because of a document that another owner had changed.
#[test]
fn cluster_02_a_call_on_the_owner_fails_in_its_term_only() {
    let Some(parameters) = parameters() else {
        return;
    };
    let (server, document) = (connect(&parameters), name("term"));
    let (begins, has_begun) = crossbeam_channel::unbounded();
    let (goes_on, may_go_on) = crossbeam_channel::bounded::<()>(0);
    let hooks = Hooks::new();
    hooks.before(move |context, operations| {
        if context.owner().as_str() == "dan" {
            let _ = (begins.send(()), may_go_on.recv());
        }
        Ok(operations)
    });
    let hooked = MemberOptions::new(short("ann")).managers(move |store, owner| {
        TransactionManager::for_owner(store, owner).with_hooks(hooks.clone())
    });
    let owner = Member::join(&server, &document, hooked).unwrap();
    owner.wait_store(LIMIT).unwrap();
    let follower = Member::join(&server, &document, long("bob").follow_only()).unwrap();
    let node = || create(text_node("p", "a").with_id("p"));
    owner.execute(node()).unwrap();
    let result = thread::scope(|scope| {
        let call = scope.spawn(|| owner.execute_with(node(), RequestOptions::new("dan")));
        has_begun.recv_timeout(LIMIT).unwrap();
        steal(&parameters, &document);
        // The batch has the lock, so this runs in another term.
        follower.execute(delete_node().on("p")).unwrap();
        drop(goes_on);
        call.join().unwrap()
    });
    let result = result.unwrap();
    assert_eq!((result.version, result.repeated), (3, false));
}

/// Once the batch ran again, because an outcome that was removed passed for one that was lost.
#[test]
fn cluster_02_a_call_whose_outcome_is_no_longer_kept_does_not_run_again() {
    let Some(parameters) = parameters() else {
        return;
    };
    let (proxy, proxied) = Proxy::start(&parameters);
    let (server, document) = (connect(&parameters), name("removed"));
    let forgets = |owner: &str| {
        let store = StoreOptions::new().remembered_keys(1);
        let requests = RunnerOptions::new().keep_outcomes(Duration::ZERO);
        let durable = DurableOptions::new().store(store);
        long(owner).requests(requests).durable(durable)
    };
    let follower = long("bob").follow_only().doorbell(false);
    let follower = Member::join(&connect(&proxied), &document, follower).unwrap();
    let (result, version) = thread::scope(|scope| {
        let cancels = Cancels(CancelToken::new());
        let options = RequestOptions::new("bob").cancel_token(&cancels.0);
        let call = || follower.execute_with(create(text_node("p", "a")), options);
        proxy.count("doclock_look_at_request_1(");
        let call = scope.spawn(call);
        // The answer to its insert has come.
        until("it looks for its outcome", || proxy.counted() > 0);
        proxy.set_down(true);
        let up = Up(&proxy);
        let first = Member::join(&server, &document, forgets("ann")).unwrap();
        until("it has run", || first.snapshot().version() == 1);
        first.execute(create(text_node("p", "b"))).unwrap();
        first.leave().unwrap();
        // A runner removes old outcomes when it begins.
        let second = Member::join(&server, &document, forgets("cem")).unwrap();
        until("its outcome is removed", || {
            requests(&parameters, &document) == 0
        });
        drop(up);
        let result = call.join().unwrap();
        (
            result,
            second.execute(create(text_node("p", "c"))).unwrap().version,
        )
    });
    assert_eq!(version, 3, "{result:?}");
    let number = 1;
    assert_eq!(result, Err(RequestError::NotFound { document, number }));
}

#[test]
fn cluster_04_an_outcome_is_known_elsewhere_before_the_owner_shows_its_commit() {
    let Some(parameters) = parameters() else {
        return;
    };
    let (proxy, proxied) = Proxy::start(&parameters);
    let document = name("known-elsewhere");
    let owner = Member::join(&connect(&proxied), &document, long("ann")).unwrap();
    let store = owner.wait_store(LIMIT).unwrap();
    let node = create(text_node("paragraph", "").with_id("p"));
    owner.execute(node).unwrap();
    let follower = long("bob").follow_only();
    let follower = Member::join(&connect(&parameters), &document, follower).unwrap();
    // The outcome that the append writes has the owner of the transaction.
    proxy.next(Fault::HoldsAnswer, "cem elsewhere");
    let batch = insert_text(0, "x").on("p");
    let elsewhere = follower.execute_with(batch, RequestOptions::new("cem elsewhere"));
    let elsewhere = elsewhere.unwrap();
    assert_eq!((elsewhere.version, proxy.met()), (2, 1));
    until("a follower shows it", || follower.snapshot().version() == 2);
    // The owner has no answer yet, and its term lasts.
    let shown = owner.snapshot();
    assert_eq!((shown.version(), shown.lag), (1, Duration::ZERO));
    assert_eq!(
        (
            store.version(),
            store.durable_snapshot().map(|it| it.version())
        ),
        (2, Some(1))
    );
    // A commit that this process acknowledges itself is in its next snapshot.
    thread::scope(|scope| {
        let here = scope.spawn(|| owner.execute(insert_text(0, "y").on("p")).unwrap());
        until("the batch has run", || store.version() == 3);
        assert!(!here.is_finished());
        assert_eq!(owner.snapshot().version(), 1);
        proxy.release();
        assert_eq!(here.join().unwrap().version, 3);
        let text = owner.snapshot().snapshot.text_of("p").unwrap();
        assert_eq!(text.to_string(), "yx");
    });
    assert_eq!(owner.snapshot().lag, Duration::ZERO);
}

/// Once the batch ran again as a request, because the next owner had forgotten its key.
#[test]
fn cluster_02_a_call_whose_key_is_forgotten_has_one_effect() {
    let Some(parameters) = parameters() else {
        return;
    };
    // The append lands before the next owner begins, or never.
    for (is_stored, is_cut) in [(true, false), (true, true), (false, false), (false, true)] {
        let (proxy, proxied) = Proxy::start(&parameters);
        let document = name("forgotten-key");
        let forgets = |owner: &str| {
            let store = StoreOptions::new().remembered_keys(1);
            let durable = DurableOptions::new().store(store);
            MemberOptions::new(short(owner))
                .doorbell(false)
                .durable(durable)
        };
        let owner = Member::join(&connect(&proxied), &document, forgets("ann")).unwrap();
        let store = owner.wait_store(LIMIT).unwrap();
        let node = create(text_node("count", "").with_id("p"));
        owner.execute(node).unwrap();
        let server = connect(&parameters);
        let follower = Member::join(&server, &document, forgets("bob")).unwrap();
        proxy.next(Fault::HoldsStatement, APPEND);
        let result = thread::scope(|scope| {
            let call = scope.spawn(|| owner.execute(insert_text(0, "x").on("p")));
            until("the append is held", || proxy.met() == 1);
            if is_stored {
                proxy.release();
            }
            proxy.set_down(true);
            let up = Up(&proxy);
            until("the other one is the owner", || follower.store().is_some());
            until("the store has ended", || {
                store
                    .wait_durable(2)
                    .timeout(Duration::ZERO)
                    .wait()
                    .is_err()
            });
            for _ in 0..3 {
                follower.execute(insert_text(0, "y").on("p")).unwrap();
            }
            if is_cut {
                let forget = "DELETE FROM doclock.doclock_follower WHERE document = $1";
                sql(&parameters).execute(forget, &[&document]).unwrap();
                // The close of a store leaves no log.
                follower.leave().unwrap();
                let count = "SELECT count(*) FROM doclock.doclock_log WHERE document = $1";
                let row = sql(&parameters).query_one(count, &[&document]).unwrap();
                assert_eq!(row.get::<_, i64>(0), 0);
            }
            drop(up);
            call.join().unwrap()
        });
        let result = result.unwrap();
        let version = if is_stored { 2 } else { 5 };
        assert_eq!((result.version, result.repeated), (version, false));
        until("it has all", || owner.snapshot().version() == 5);
        let text = owner.snapshot().snapshot.text_of("p").unwrap().to_string();
        let count = text.chars().filter(|of| *of == 'x').count();
        assert_eq!(count, 1, "stored: {is_stored}, cut: {is_cut}: {text}");
    }
}

/// The log says that a commit is stored, also if the next owner has written nothing.
#[test]
fn cluster_02_a_commit_without_an_answer_is_looked_up_in_the_log() {
    let Some(parameters) = parameters() else {
        return;
    };
    let (proxy, proxied) = Proxy::start(&parameters);
    let document = name("looked-up");
    let options = MemberOptions::new(short("ann")).doorbell(false);
    let owner = Member::join(&connect(&proxied), &document, options).unwrap();
    let store = owner.wait_store(LIMIT).unwrap();
    owner.execute(create(text_node("p", "a"))).unwrap();
    proxy.next(Fault::HoldsStatement, APPEND);
    let result = thread::scope(|scope| {
        let options = RequestOptions::new("ann").timeout(LIMIT);
        let call = scope.spawn(|| owner.execute_with(create(text_node("p", "b")), options));
        until("the append is held", || proxy.met() == 1);
        proxy.release();
        proxy.set_down(true);
        let up = Up(&proxy);
        let long = short("bob").term(LIMIT);
        let _next = connect(&parameters).acquire(&document, long).unwrap();
        until("the store has ended", || {
            store
                .wait_durable(2)
                .timeout(Duration::ZERO)
                .wait()
                .is_err()
        });
        drop(up);
        call.join().unwrap()
    });
    assert_eq!(result.unwrap().version, 2);
}

/// Once the request was inserted again, although its outcome had been removed, and ran twice.
#[test]
fn cluster_02_an_insert_without_an_answer_is_repeated_only_while_its_outcome_is_kept() {
    let Some(parameters) = parameters() else {
        return;
    };
    let (proxy, proxied) = Proxy::start(&parameters);
    let (server, document) = (connect(&parameters), name("inserted-again"));
    let forgets = |owner: &str| {
        let store = StoreOptions::new().remembered_keys(1);
        let requests = RunnerOptions::new().keep_outcomes(Duration::ZERO);
        let durable = DurableOptions::new().store(store);
        long(owner).requests(requests).durable(durable)
    };
    let follower = forgets("bob").follow_only().doorbell(false);
    let follower = Member::join(&connect(&proxied), &document, follower).unwrap();
    let first = Member::join(&server, &document, forgets("ann")).unwrap();
    first.wait_store(LIMIT).unwrap();
    let result = thread::scope(|scope| {
        proxy.next(Fault::HoldsAnswer, "doclock_insert_request_1(");
        let cancels = Cancels(CancelToken::new());
        let options = RequestOptions::new("bob").cancel_token(&cancels.0);
        let call = scope.spawn(|| follower.execute_with(create(text_node("p", "a")), options));
        until("it has run", || first.snapshot().version() == 1);
        proxy.set_down(true);
        let up = Up(&proxy);
        first.execute(create(text_node("p", "b"))).unwrap();
        first.leave().unwrap();
        // A runner removes old outcomes when it begins.
        let second = Member::join(&server, &document, forgets("cem")).unwrap();
        until("its outcome is removed", || {
            requests(&parameters, &document) == 0
        });
        second.wait_store(LIMIT).unwrap();
        until("the call gives up", || call.is_finished());
        drop(up);
        assert_eq!(
            second.execute(create(text_node("p", "c"))).unwrap().version,
            3
        );
        call.join().unwrap()
    });
    assert!(matches!(result, Err(RequestError::Server(_))), "{result:?}");
}
