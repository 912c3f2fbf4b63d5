//! Members of a document in one process: followers, takeovers and hand-overs.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use doclock::durable::{Durability, DurableOptions};
use doclock::{DataStore, Snapshot, StoreOptions, TransactionManager, dsl::*};
use doclock_postgres::{
    Member, MemberError, MemberEvent, MemberOptions, OwnerEvent, Postgres, RequestOptions,
    RunnerEnded, TermOptions,
};

use crate::proxy::Proxy;
use crate::server::pooler;
use crate::support::{connect, name, parameters, short, sql, until};

const LIMIT: Duration = Duration::from_secs(20);

/// Options with a term of 600 ms and a poll of 20 to 200 ms.
pub(crate) fn brief(owner: &str) -> MemberOptions {
    MemberOptions::new(short(owner)).poll(Duration::from_millis(20)..=Duration::from_millis(200))
}

/// Options with a term that no busy machine lets end, and a poll of 20 to 200 ms.
fn member(owner: &str) -> MemberOptions {
    let poll = Duration::from_millis(20)..=Duration::from_millis(200);
    MemberOptions::new(TermOptions::new(owner).term(LIMIT)).poll(poll)
}

/// Options of a member that learns of nothing by polling in the time of a test.
fn unpolled(owner: &str) -> MemberOptions {
    let minute = Duration::from_secs(60);
    member(owner).poll(minute..=minute)
}

fn join(server: &Postgres, document: &str, options: MemberOptions) -> Member {
    Member::join(server, document, options).unwrap()
}

/// Joins, and becomes the owner.
fn own(server: &Postgres, document: &str, owner: &str) -> (Member, DataStore) {
    own_with(server, document, member(owner))
}

fn own_with(server: &Postgres, document: &str, options: MemberOptions) -> (Member, DataStore) {
    let member = join(server, document, options);
    let store = member.wait_store(LIMIT).unwrap();
    (member, store)
}

fn write(store: &DataStore) -> u64 {
    let manager = TransactionManager::new(store.clone());
    let batch = create(text_node("paragraph", "text"));
    manager.execute(batch).unwrap().version
}

fn has(member: &Member, version: u64) -> impl FnMut() -> bool {
    move || member.snapshot().version() >= version
}

/// Prints the middle and the worst of some times.
fn print(what: &str, mut times: Vec<Duration>) -> Duration {
    times.sort();
    let at = |part: usize| times[(times.len() * part / 100).min(times.len() - 1)];
    let (middle, late, worst) = (at(50), at(99), at(100));
    println!(
        "{what}: p50 {middle:?}, p99 {late:?}, worst {worst:?} of {}",
        times.len()
    );
    middle
}

/// Writes random batches, and returns all versions of the owner by their numbers. Calls `settle`
/// with a durable version now and then.
fn write_randomly(
    store: &DataStore,
    seed: u64,
    count: u32,
    mut settle: impl FnMut(u64),
) -> BTreeMap<u64, Snapshot> {
    let manager = TransactionManager::new(store.clone());
    let mut random = seed;
    let mut next = |below: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % below
    };
    let mut versions = BTreeMap::from([(store.version(), store.snapshot())]);
    for nth in 0..count {
        let id = |nth: u64| format!("node-{seed}-{nth}");
        let batch = match next(3) {
            0 => set_text(format!("text {nth}")).on(id(next(u64::from(nth) + 1))),
            _ => create(text_node("paragraph", "new").with_id(id(u64::from(nth)))),
        };
        // A node that does not exist makes no commit.
        if manager.execute(batch).is_ok() {
            versions.insert(store.version(), store.snapshot());
        }
        if next(30) == 0 {
            settle(
                store
                    .wait_durable(store.version())
                    .timeout(LIMIT)
                    .wait()
                    .unwrap(),
            );
        }
    }
    store
        .wait_durable(store.version())
        .timeout(LIMIT)
        .wait()
        .unwrap();
    versions
}

/// Ends the threads of a test, also when it fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn cluster_04_each_snapshot_of_a_follower_is_a_version_of_the_owner() {
    let Some(parameters) = parameters() else {
        return;
    };
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let document = name("history");
    let (server, other) = (connect(&parameters), connect(&parameters));
    let durable = DurableOptions::new().durability(Durability::Later);
    let durable = durable.checkpoint_after(4_000);
    let owner = join(&server, &document, member("ann").durable(durable.clone()));
    let store = owner.wait_store(LIMIT).unwrap();
    let follower = member("bob").durable(durable).follow_only();
    let follower = join(&other, &document, follower);
    let (ends, seen) = (AtomicBool::new(false), Mutex::new(BTreeMap::new()));
    let versions = thread::scope(|scope| {
        for member in [&owner, &follower] {
            let (ends, seen) = (&ends, &seen);
            scope.spawn(move || {
                let mut last = 0;
                while !ends.load(Ordering::SeqCst) {
                    let shown = member.snapshot();
                    let version = shown.version();
                    assert!(version >= last, "{version} after {last}");
                    let durable = member
                        .store()
                        .and_then(|store| store.durable_snapshot().map(|it| it.version()));
                    assert!(durable.is_none_or(|durable| durable >= version));
                    if version > last {
                        seen.lock()
                            .unwrap()
                            .insert((version, member.store().is_some()), shown);
                    }
                    last = version;
                }
            });
        }
        let _end = End(&ends);
        // A commit makes the follower look, so it must have seen the last one before the next.
        let settle = |version| {
            let has_seen = || seen.lock().unwrap().contains_key(&(version, false));
            until("the follower has shown a version", has_seen);
        };
        let versions = write_randomly(&store, seed, 400, settle);
        until("the follower has all", has(&follower, store.version()));
        versions
    });
    let seen = seen.into_inner().unwrap();
    let of_follower = seen.keys().filter(|(_, is_owner)| !is_owner).count();
    assert!(of_follower > 5, "{of_follower} versions were seen");
    for ((version, is_owner), shown) in &seen {
        let expected = versions.get(version);
        assert_eq!(
            expected,
            Some(&shown.snapshot),
            "{version} of the owner: {is_owner}"
        );
    }
    assert_eq!(follower.snapshot().snapshot, store.snapshot());
    let seen = follower.snapshot();
    let owner = seen.owner.unwrap();
    assert_eq!((owner.owner.as_str(), owner.address), ("ann", None));
}

/// Writes durable commits one after the other, and returns when the follower showed each.
fn lags(store: &DataStore, follower: &Member, pause: Duration) -> Vec<Duration> {
    let count = 60;
    let first = store.version();
    thread::scope(|scope| {
        let shown = scope.spawn(|| {
            let mut shown = Vec::new();
            let deadline = Instant::now() + 2 * LIMIT;
            while shown.len() < count && Instant::now() < deadline {
                let version = follower.snapshot().version();
                let new = usize::try_from(version - first).unwrap() - shown.len();
                shown.extend(std::iter::repeat_n(Instant::now(), new));
                thread::sleep(Duration::from_micros(200));
            }
            shown
        });
        let mut written = Vec::new();
        for _ in 0..count {
            write(store);
            written.push(Instant::now());
            // Only so that commits come at different times between polls.
            thread::sleep(pause);
        }
        let shown = shown.join().unwrap();
        assert_eq!(shown.len(), count, "the others were never shown");
        let lag = |(shown, written): (Instant, Instant)| shown.saturating_duration_since(written);
        shown.into_iter().zip(written).map(lag).collect()
    })
}

#[test]
fn cluster_04_a_ring_brings_each_commit_without_a_poll() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("rung");
    let (server, other) = (connect(&parameters), connect(&parameters));
    let (owner, store) = own(&server, &document, "ann");
    let follower = join(&other, &document, unpolled("bob").follow_only());
    until("both listen", || {
        owner.has_doorbell() && follower.has_doorbell()
    });
    let middle = print(
        "lag with the doorbell",
        lags(&store, &follower, Duration::from_millis(7)),
    );
    assert!(middle < Duration::from_millis(30), "{middle:?}");
}

#[test]
fn cluster_04_a_follower_without_a_doorbell_polls() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("polled");
    let (server, other) = (connect(&parameters), connect(&parameters));
    let (_owner, store) = own(&server, &document, "ann");
    let follower = member("bob").follow_only().doorbell(false);
    let follower = join(&other, &document, follower);
    let middle = print(
        "lag with polls of 20 ms",
        lags(&store, &follower, Duration::from_millis(7)),
    );
    assert!(middle < Duration::from_millis(50), "{middle:?}");
    assert!(!follower.has_doorbell());
    until("it polls on", || {
        follower.snapshot().lag < Duration::from_millis(100)
    });
}

#[test]
fn cluster_05_a_doorbell_that_is_lost_is_set_up_again() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("lost-bell");
    let (proxy, proxied) = Proxy::start(&parameters);
    let (server, other) = (connect(&parameters), connect(&proxied));
    let (_owner, store) = own(&server, &document, "ann");
    let follower = join(&other, &document, unpolled("bob").follow_only());
    for _ in 0..3 {
        until("it listens", || follower.has_doorbell());
        let version = write(&store);
        until("it has the commit", has(&follower, version));
        proxy.set_down(true);
        until("it listens no more", || !follower.has_doorbell());
        // What is written meanwhile is seen when it listens again.
        let version = write(&store);
        proxy.set_down(false);
        until("it has the commit of meanwhile", has(&follower, version));
    }
}

#[test]
fn cluster_05_members_behind_a_pooler_poll() {
    let Some(parameters) = parameters() else {
        return;
    };
    let Some((_pooler, pooled)) = pooler(&parameters) else {
        return;
    };
    let document = name("pooled");
    let (server, other) = (connect(&pooled), connect(&pooled));
    let (owner, store) = own(&server, &document, "ann");
    let follower = join(&other, &document, member("bob"));
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(3) {
        let version = write(&store);
        until("it has the commit", has(&follower, version));
        assert!(!owner.has_doorbell() && !follower.has_doorbell());
    }
    owner.hand_over().unwrap();
    assert!(follower.wait_store(LIMIT).is_some());
}

#[test]
fn cluster_01_a_document_that_is_handed_over_continues_within_50_ms() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("handed-over");
    let servers = [connect(&parameters), connect(&parameters)];
    // Only the ring brings the takeover.
    let ann = join(&servers[0], &document, unpolled("ann"));
    ann.wait_store(LIMIT).unwrap();
    let bob = join(&servers[1], &document, unpolled("bob"));
    until("both listen", || ann.has_doorbell() && bob.has_doorbell());
    let (mut owner, mut next) = (&ann, &bob);
    let (mut closing, mut times) = (Vec::new(), Vec::new());
    for _ in 0..6 {
        let store = owner.store().unwrap();
        let version = write(&store);
        let written = Instant::now();
        // So the ring of the hand-over is not one that is held back.
        until("no ring is due", || {
            written.elapsed() > Duration::from_millis(60)
        });
        let began = Instant::now();
        thread::scope(|scope| {
            let taken = scope.spawn(|| {
                let store = next.wait_store(LIMIT).unwrap();
                (store.version(), Instant::now())
            });
            owner.hand_over().unwrap();
            let handed_over = Instant::now();
            let (seen, at) = taken.join().unwrap();
            assert_eq!(seen, version);
            closing.push(handed_over - began);
            times.push(at.saturating_duration_since(handed_over));
        });
        let refused = TransactionManager::new(store).execute(create(element("paragraph", [])));
        assert!(refused.is_err());
        (owner, next) = (next, owner);
    }
    print("the call that hands over", closing);
    let middle = print("takeover after a hand-over", times);
    assert!(middle < Duration::from_millis(50), "{middle:?}");
    let events: Vec<_> = bob.events().try_iter().collect();
    let acquired =
        |event: &&MemberEvent| matches!(event, MemberEvent::Owner(OwnerEvent::Acquired { .. }));
    assert_eq!(events.iter().filter(acquired).count(), 3, "{events:?}");
    let handed =
        |event: &&MemberEvent| matches!(event, MemberEvent::Owner(OwnerEvent::HandedOver { .. }));
    assert_eq!(events.iter().filter(handed).count(), 3, "{events:?}");
    let reloaded = |event: &MemberEvent| matches!(event, MemberEvent::Reloaded { .. });
    assert!(!events.iter().any(reloaded), "{events:?}");
}

#[test]
fn cluster_01_of_many_members_one_is_the_owner() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("candidates");
    let members: Vec<Member> = (0..5)
        .map(|nth| {
            join(
                &connect(&parameters),
                &document,
                member(&format!("member {nth}")),
            )
        })
        .collect();
    for round in 1..=6 {
        let owner = || members.iter().position(|member| member.store().is_some());
        until("there is an owner", || owner().is_some());
        let owner = owner().unwrap();
        let version = write(&members[owner].store().unwrap());
        assert_eq!(version, round);
        for member in &members {
            until("all have the version", has(member, version));
            let seen = || member.snapshot().owner.map(|owner| owner.owner);
            until("all see the owner", || {
                seen() == Some(format!("member {owner}"))
            });
        }
        let owners = members.iter().filter(|member| member.store().is_some());
        assert_eq!(owners.count(), 1);
        let follower = (owner + 1) % members.len();
        let refused = members[follower].hand_over();
        assert!(
            matches!(refused, Err(MemberError::NotOwner { .. })),
            "{refused:?}"
        );
        members[owner].hand_over().unwrap();
    }
}

#[test]
fn cluster_01_a_member_that_only_follows_never_owns() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("only-follows");
    let server = connect(&parameters);
    let follower = join(&server, &document, brief("bob").follow_only());
    let (owner, store) = own(&server, &document, "ann");
    let version = write(&store);
    until("it follows", has(&follower, version));
    owner.leave().unwrap();
    until("it sees no owner", || follower.snapshot().owner.is_none());
    // Several of its looks, each of which would be a takeover.
    assert!(follower.wait_store(Duration::from_millis(600)).is_none());
    let (_owner, store) = own(&server, &document, "ann");
    until("it follows", has(&follower, write(&store)));
}

#[test]
fn cluster_05_a_follower_behind_the_cut_loads_the_document_again() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("behind");
    let server = connect(&parameters);
    let durable = DurableOptions::new().checkpoint_after(200);
    let owner = join(&server, &document, member("ann").durable(durable.clone()));
    let store = owner.wait_store(LIMIT).unwrap();
    write(&store);
    let (proxy, proxied) = Proxy::start(&parameters);
    let follower = member("bob").durable(durable).follow_only();
    let follower = join(&connect(&proxied), &document, follower);
    let cursor = "SELECT 1 FROM doclock.doclock_follower WHERE document = $1";
    let mut database = sql(&parameters);
    let mut has_cursor = || database.query_opt(cursor, &[&document]).unwrap().is_some();
    until("the log is kept for it", &mut has_cursor);
    proxy.set_down(true);
    let down = Instant::now();
    let mut events = Vec::new();
    let mut is_told = |is: fn(&MemberEvent) -> bool| {
        until("the event", || {
            events.extend(follower.events().try_iter());
            events.iter().any(is)
        });
    };
    is_told(|event| matches!(event, MemberEvent::ServerUnreachable { .. }));
    // As if it had been away for a minute.
    let away = "DELETE FROM doclock.doclock_follower WHERE document = $1";
    assert_eq!(sql(&parameters).execute(away, &[&document]).unwrap(), 1);
    for _ in 0..40 {
        write(&store);
    }
    let first = "SELECT min(number) FROM doclock.doclock_log WHERE document = $1";
    let mut database = sql(&parameters);
    until("the log is cut", || {
        write(&store);
        let row = database.query_one(first, &[&document]).unwrap();
        row.get::<_, Option<i64>>(0).is_none_or(|first| first > 10)
    });
    let (lag, shown) = (down.elapsed(), follower.snapshot());
    assert_eq!(shown.version(), 1);
    assert!(shown.lag >= lag, "{:?} after {lag:?}", shown.lag);
    proxy.set_down(false);
    is_told(|event| matches!(event, MemberEvent::ServerReachable { .. }));
    is_told(|event| matches!(event, MemberEvent::Reloaded { from: 1, .. }));
    until("it has all", has(&follower, store.version()));
    assert_eq!(follower.snapshot().snapshot, store.snapshot());
}

#[test]
fn cluster_05_an_owner_without_its_server_steps_down_and_follows_again() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("cut-off");
    let (proxy, proxied) = Proxy::start(&parameters);
    let (cut_off, store) = own_with(&connect(&proxied), &document, brief("ann"));
    write(&store);
    let other = join(&connect(&parameters), &document, brief("bob"));
    proxy.set_down(true);
    let next = other.wait_store(LIMIT).unwrap();
    // Without a commit that fails.
    until("it has no store", || cut_off.store().is_none());
    let refused = TransactionManager::new(store.clone()).execute(create(element("p", [])));
    assert!(refused.is_err());
    let version = write(&next);
    assert_eq!((version, cut_off.snapshot().version()), (2, 1));
    proxy.set_down(false);
    until("it follows again", has(&cut_off, version));
    assert_eq!(cut_off.snapshot().snapshot, next.snapshot());
    let events: Vec<_> = cut_off.events().try_iter().collect();
    let position = |is: fn(&MemberEvent) -> bool| events.iter().position(is);
    let lost = position(|event| matches!(event, MemberEvent::Owner(OwnerEvent::Lost { .. })));
    let follows = events
        .iter()
        .rposition(|event| matches!(event, MemberEvent::Following { .. }));
    assert!(lost.is_some() && lost < follows, "{events:?}");
    other.hand_over().unwrap();
    let store = cut_off.wait_store(LIMIT).unwrap();
    assert_eq!(write(&store), 3);
}

#[test]
fn cluster_05_a_member_leaves_with_its_last_handle() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("dropped");
    let server = connect(&parameters);
    let (owner, store) = own(&server, &document, "ann");
    let next = join(&server, &document, member("bob"));
    let version = write(&store);
    let events = owner.events().clone();
    drop(owner.clone());
    assert!(owner.store().is_some());
    let began = Instant::now();
    drop(owner);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    let store = next.wait_store(LIMIT).unwrap();
    assert_eq!(store.version(), version);
    let left = MemberEvent::Left {
        document: document.clone(),
    };
    assert_eq!(events.iter().last(), Some(left));
    next.leave().unwrap();
    next.leave().unwrap();
    assert!(matches!(next.hand_over(), Err(MemberError::Left { .. })));
    assert_eq!(next.snapshot().version(), version);
    let followers = "SELECT count(*) FROM doclock.doclock_follower WHERE document = $1";
    let count = sql(&parameters).query_one(followers, &[&document]).unwrap();
    assert_eq!(count.get::<_, i64>(0), 0);
}

#[test]
fn cluster_05_a_store_that_the_program_closes_is_given_back() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("closed");
    let server = connect(&parameters);
    let (owner, store) = own(&server, &document, "ann");
    let next = join(&server, &document, member("bob"));
    write(&store);
    store.close().unwrap();
    assert_eq!(write(&next.wait_store(LIMIT).unwrap()), 2);
    let events: Vec<_> = owner.events().try_iter().collect();
    let ended = MemberEvent::StoreEnded {
        document: document.clone(),
        cause: None,
    };
    assert!(events.contains(&ended), "{events:?}");
    let json = serde_json::to_value(&ended).unwrap();
    let expected = serde_json::json!({ "type": "storeEnded", "document": document, "cause": null });
    assert_eq!(json, expected);
    let acquired = serde_json::to_value(&events).unwrap();
    let is_acquired = |event: &serde_json::Value| event["type"] == "acquired";
    assert!(
        acquired.as_array().unwrap().iter().any(is_acquired),
        "{acquired}"
    );
}

#[test]
fn cluster_05_members_of_a_process_share_its_connections() {
    let Some(parameters) = parameters() else {
        return;
    };
    let program = name("shared");
    let server = connect(&format!("{parameters} application_name={program}"));
    let documents: Vec<_> = (0..30).map(|_| name("shared")).collect();
    let members: Vec<_> = documents
        .iter()
        .map(|document| join(&server, document, member("ann")))
        .collect();
    for member in &members {
        write(&member.wait_store(LIMIT).unwrap());
    }
    until("it listens", || members[0].has_doorbell());
    let mut database = sql(&parameters);
    let mut connections = || {
        let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE $1";
        let row = database
            .query_one(count, &[&format!("{program}%")])
            .unwrap();
        row.get::<_, i64>(0)
    };
    // Those of loads end with them.
    until("there are four connections", || connections() == 4);
}

#[test]
fn cluster_05_members_work_in_a_thread_of_a_runtime() {
    let Some(parameters) = parameters() else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let server = connect(&parameters);
        let (owner, store) = own_with(&server, &name("async"), brief("ann"));
        assert_eq!(write(&store), 1);
        owner.hand_over().unwrap();
        assert_eq!(owner.snapshot().version(), 1);
        // With no other candidate it continues, after a term that it leaves to others.
        assert!(owner.wait_store(Duration::from_millis(300)).is_none());
        assert_eq!(write(&owner.wait_store(LIMIT).unwrap()), 2);
        drop(owner);
        let refused = Member::join(&server, "", member("ann")).unwrap_err();
        assert_eq!(serde_json::to_value(&refused).unwrap()["code"], "name");
        let options = MemberOptions::new(short("ann").margin(Duration::from_secs(9)));
        assert!(Member::join(&server, "notes", options).is_err());
    });
}

#[test]
fn cluster_02_a_store_that_keeps_no_results_runs_no_request_twice() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("keeps-nothing");
    let server = connect(&parameters);
    let store = StoreOptions::new().remembered_keys(0);
    let durable = DurableOptions::new().store(store);
    let options = MemberOptions::new(short("ann").term(Duration::from_secs(3)));
    let (owner, store) = own_with(&server, &document, options.durable(durable));
    let requests = server.requests(&document, "other").unwrap();
    let batch = create(text_node("paragraph", "text"));
    let pending = requests.submit(batch, RequestOptions::new("cem")).unwrap();
    let mut causes = Vec::new();
    let mut told = || {
        for event in owner.events().try_iter() {
            if let MemberEvent::RequestsFailed { cause, .. } = event {
                causes.push(cause);
            }
        }
        causes.clone()
    };
    until("it is reported", || !told().is_empty());
    // With each renewal, a runner that has ended for another reason starts again.
    let mut database = sql(&parameters);
    let mut expires = || {
        let expires = "SELECT expires_at::text FROM doclock.doclock_lease WHERE document = $1";
        let row = database.query_one(expires, &[&document]).unwrap();
        row.get::<_, String>(0)
    };
    for _ in 0..2 {
        let before = expires();
        until("a renewal", || expires() != before);
    }
    let causes = told();
    assert!(
        matches!(causes[..], [RunnerEnded::Store { .. }]),
        "{causes:?}"
    );
    assert_eq!((store.version(), pending.poll()), (1, Ok(None)));
}
