//! Reports of long holds and long waits.

use std::time::{Duration, Instant};

use doclock::events::Receiver;
use doclock::lock::node::Scope;
use doclock::lock::{FifoLock, LockOptions, SlowReport, SlowRequest};

use super::*;

// Guards are acquired in the scope of the threads, so that a failed assertion releases them.

const SECOND: Duration = Duration::from_secs(1);

/// Long enough for any machine. A test that passes never waits for so long.
const PATIENCE: Duration = Duration::from_secs(60);

fn reporting(options: StoreOptions) -> (DataStore, ManualClock, Receiver<SlowReport>) {
    let clock = ManualClock::new();
    let store = DataStore::with_options(options.clock(clock.clock()));
    let reports = store.lock_reports().unwrap();
    (store, clock, reports)
}

fn next(reports: &Receiver<SlowReport>) -> SlowReport {
    reports.recv_timeout(PATIENCE).expect("a report")
}

#[test]
fn a_long_wait_is_reported_once_while_it_lasts_with_the_line_of_the_holder() {
    let (store, clock, reports) = reporting(StoreOptions::new().report_waits(SECOND));
    thread::scope(|scope| {
        let import = AcquireOptions::new().label("import");
        let line = line!() + 1;
        let held = store.request("ann").options(import).wait().unwrap();
        let ben = scope.spawn(|| drop(store.request("ben").options(patient()).wait().unwrap()));
        until_waiting(&store, 1);
        clock.advance(SECOND);
        let report = next(&reports);
        let holder = report.holder.as_ref().unwrap();
        assert_eq!(
            (holder.call_site.file.as_str(), holder.call_site.line),
            (file!(), line)
        );
        assert_eq!(holder.label.as_deref(), Some("import"));
        let SlowRequest::Wait { request, ended } = &report.slow else {
            panic!("{report}");
        };
        assert_eq!((request.owner_id.as_str(), *ended), ("ben", false));
        assert_eq!(
            (report.threshold, report.waiting, report.number),
            (SECOND, 1, 1)
        );

        // Neither a second look nor the end of the wait reports it again, nor does another long
        // wait for the same holder.
        let cem = scope.spawn(|| drop(store.request("cem").options(patient()).wait().unwrap()));
        until_waiting(&store, 2);
        let dan = store.request("dan").timeout(2 * SECOND).into_future();
        let dan = scope.spawn(|| pollster::block_on(dan).map(drop).unwrap_err());
        until_waiting(&store, 3);
        clock.advance(2 * SECOND);
        // The keeper ends the wait of a task, so it has looked.
        dan.join().unwrap();
        assert!(reports.try_recv().is_err());
        drop(held);
        ben.join().unwrap();
        cem.join().unwrap();
    });
    assert!(reports.try_recv().is_err());
}

#[test]
fn a_long_wait_for_another_holder_is_reported_at_its_own_time() {
    let (store, clock, reports) = reporting(StoreOptions::new().report_waits(SECOND));
    thread::scope(|scope| {
        let held = store.lock("ann").unwrap();
        let request = |owner: &'static str| {
            let store = &store;
            scope.spawn(move || store.request(owner).options(patient()).wait().unwrap())
        };
        let names = |report: SlowReport| match report.slow {
            SlowRequest::Wait { request, .. } => {
                [request.owner_id, report.holder.unwrap().owner_id].map(|name| name.to_string())
            }
            SlowRequest::Hold { .. } => panic!("{report}"),
            _ => unreachable!(),
        };
        let ben = request("ben");
        until_waiting(&store, 1);
        clock.advance(SECOND / 2);
        let cem = request("cem");
        until_waiting(&store, 2);
        clock.advance(SECOND / 2);
        assert_eq!(names(next(&reports)), ["ben", "ann"]);
        // Also cem has waited for long, and the first report was for both.
        clock.advance(SECOND);
        drop(held);
        let held = ben.join().unwrap();
        let eve = store.request("eve").timeout(SECOND / 2).into_future();
        let eve = scope.spawn(|| pollster::block_on(eve).map(drop).unwrap_err());
        until_waiting(&store, 2);
        clock.advance(SECOND / 2);
        // The keeper ends the wait of a task, so it has looked.
        eve.join().unwrap();
        assert!(reports.try_recv().is_err(), "not long for this holder");
        clock.advance(SECOND / 2);
        assert_eq!(names(next(&reports)), ["cem", "ben"]);
        drop(held);
        drop(cem.join().unwrap());
    });
    assert!(reports.try_recv().is_err());
}

/// Each of ten windows holds a paragraph and waits for the next one; the last is held by the
/// culprit, which came last.
#[test]
fn of_many_long_waits_with_one_cause_one_is_reported_and_names_it() {
    const WINDOWS: usize = 10;
    let options = StoreOptions::new().lock_timeout(None);
    let (store, clock, reports) = reporting(options.report_waits(SECOND).report_holds(SECOND));
    let locks = store.node_locks();
    let lock = |owner: &str, nth: usize| {
        let request = locks.request(owner, Scope::new().write(format!("p{nth}")));
        request
            .options(AcquireOptions::new().unbound())
            .wait()
            .unwrap()
    };
    let mut windows: Vec<_> = (0..WINDOWS).map(|nth| lock("window", nth)).collect();
    let culprit = lock("culprit", WINDOWS);
    thread::scope(|scope| {
        for (nth, mut window) in windows.drain(..).enumerate() {
            let next = Scope::new().write(format!("p{}", nth + 1));
            scope.spawn(move || window.request_more(next).wait().unwrap());
            let locks = &locks;
            while locks.stats().waiting != nth + 1 {
                thread::yield_now();
            }
        }
        clock.advance(SECOND);
        let both = [next(&reports), next(&reports)];
        for report in &both {
            let holder = report.holder.as_ref().unwrap();
            assert_eq!(holder.owner_id.as_str(), "culprit", "{report}");
            assert_eq!(report.waiting, WINDOWS);
        }
        let holds = both.map(|report| matches!(report.slow, SlowRequest::Hold { .. }));
        assert_eq!(holds.iter().filter(|is_hold| **is_hold).count(), 1);
        assert!(reports.try_recv().is_err());
        drop(culprit);
    });
    // What held for long only because it waited is no cause when it ends.
    assert!(reports.try_recv().is_err());
}

/// Each of a hundred requests waits for one node, behind the others.
#[test]
fn of_many_long_waits_for_one_node_one_is_reported_and_names_its_holder() {
    const WAITERS: usize = 100;
    let options = StoreOptions::new().lock_timeout(None);
    let (store, clock, reports) = reporting(options.report_waits(SECOND));
    let locks = store.node_locks();
    let held = locks.lock("holder", Scope::new().write("node")).unwrap();
    thread::scope(|scope| {
        for nth in 0..WAITERS {
            let request = locks.request("waiter", Scope::new().write("node"));
            scope.spawn(move || drop(request.wait().unwrap()));
            while locks.stats().waiting != nth + 1 {
                thread::yield_now();
            }
        }
        let last = locks.request("last", Scope::new().write("node"));
        let last = last.timeout(2 * SECOND).into_future();
        let last = scope.spawn(|| pollster::block_on(last).map(drop).unwrap_err());
        while locks.stats().waiting != WAITERS + 1 {
            thread::yield_now();
        }
        clock.advance(2 * SECOND);
        last.join().unwrap();
        let report = next(&reports);
        assert_eq!(report.holder.unwrap().owner_id.as_str(), "holder");
        assert!(reports.try_recv().is_err());
        drop(held);
    });
}

/// Later requests wait for a holder that was named before: it is another hang.
#[test]
fn a_holder_that_was_named_is_named_again_when_it_hangs_again() {
    let (store, clock, reports) = reporting(StoreOptions::new().report_waits(SECOND));
    let held = store.acquire_lock("ann").unwrap();
    for number in 1..=2 {
        let brief = store.request("ben").timeout(2 * SECOND);
        thread::scope(|scope| {
            let ben = scope.spawn(|| brief.wait().map(drop).unwrap_err());
            until_waiting(&store, 1);
            clock.advance(SECOND);
            let report = next(&reports);
            assert_eq!(report.number, number);
            let ended = matches!(report.slow, SlowRequest::Wait { ended: true, .. });
            assert!(!ended, "{report}");
            clock.advance(SECOND);
            ben.join().unwrap();
        });
    }
    store.release_lock(held).unwrap();
    assert!(reports.try_recv().is_err());
}

#[test]
fn a_long_hold_is_reported_once_while_a_request_waits_for_it() {
    let (store, clock, reports) = reporting(StoreOptions::new().report_holds(SECOND));
    thread::scope(|scope| {
        let held = store.lock("ann").unwrap();
        clock.advance(3 * SECOND);
        // Nothing was delayed before.
        assert!(reports.try_recv().is_err());
        let ben = scope.spawn(|| drop(store.request("ben").options(patient()).wait().unwrap()));
        until_waiting(&store, 1);
        clock.advance(SECOND);
        let report = next(&reports);
        assert_eq!(report.slow, SlowRequest::Hold { ended: false });
        let holder = report.holder.as_ref().unwrap();
        assert_eq!(holder.owner_id.as_str(), "ann");
        assert!(holder.held_for >= 3 * SECOND, "{report}");
        assert_eq!(report.first[0].owner_id.as_str(), "ben");
        drop(held);
        ben.join().unwrap();
    });
    assert!(reports.try_recv().is_err());
}

#[test]
fn a_long_hold_that_delays_no_request_is_reported_at_its_end() {
    let (store, clock, reports) = reporting(StoreOptions::new().report_holds(SECOND));
    let guard = store.lock("ann").unwrap();
    clock.advance(SECOND);
    drop(guard);
    let report = reports.try_recv().unwrap();
    assert_eq!(report.slow, SlowRequest::Hold { ended: true });
    assert_eq!(report.holder.unwrap().held_for, SECOND);
    // The next one is not long.
    let guard = store.lock("ann").unwrap();
    clock.advance(SECOND / 2);
    drop(guard);
    assert!(reports.try_recv().is_err());
}

#[test]
fn each_holder_that_delays_a_request_for_long_is_reported() {
    let (store, clock, reports) = reporting(StoreOptions::new().report_holds(SECOND));
    thread::scope(|scope| {
        let mut held = store.lock("0").unwrap();
        for owner in 1..=3 {
            let store = &store;
            let next_one = scope.spawn(move || {
                store
                    .request(owner.to_string())
                    .options(patient())
                    .wait()
                    .unwrap()
            });
            until_waiting(store, 1);
            clock.advance(2 * SECOND);
            let report = next(&reports);
            assert_eq!(report.slow, SlowRequest::Hold { ended: false });
            let holder = report.holder.unwrap().owner_id;
            assert_eq!(holder.as_str(), (owner - 1).to_string());
            drop(held);
            held = next_one.join().unwrap();
        }
    });
}

#[test]
fn a_long_wait_that_times_out_is_reported_once() {
    let (store, clock, reports) = reporting(StoreOptions::new().report_waits(SECOND));
    let _held = store.acquire_lock("ann").unwrap();
    thread::scope(|scope| {
        let limit = AcquireOptions::new().timeout(2 * SECOND);
        let ben = scope.spawn(|| timeout_of(store.request("ben").options(limit).wait()));
        until_waiting(&store, 1);
        clock.advance(2 * SECOND);
        ben.join().unwrap();
    });
    assert!(matches!(next(&reports).slow, SlowRequest::Wait { .. }));
    assert!(reports.try_recv().is_err());
}

#[test]
fn a_long_wait_of_a_task_is_reported() {
    let (store, clock, reports) = reporting(StoreOptions::new().report_waits(SECOND));
    thread::scope(|scope| {
        let held = store.lock("ann").unwrap();
        let ben = scope.spawn(|| {
            pollster::block_on(store.request("ben").options(patient()))
                .map(drop)
                .unwrap();
        });
        until_waiting(&store, 1);
        clock.advance(SECOND);
        let report = next(&reports);
        assert_eq!(report.holder.unwrap().owner_id.as_str(), "ann");
        drop(held);
        ben.join().unwrap();
    });
}

#[test]
fn reports_that_no_receiver_takes_are_dropped_oldest_first() {
    let clock = ManualClock::new();
    let options = LockOptions::new().clock(clock.clock()).report_holds(SECOND);
    let lock = FifoLock::with_options(options);
    for _ in 0..SlowReport::KEPT + 10 {
        let guard = lock.lock("ann").unwrap();
        clock.advance(SECOND);
        drop(guard);
    }
    let reports = lock.reports().unwrap();
    let numbers: Vec<u64> = reports.try_iter().map(|report| report.number).collect();
    let last = SlowReport::KEPT as u64 + 10;
    assert!(numbers.iter().copied().eq(11..=last), "{numbers:?}");
    drop(lock);
    assert!(reports.recv().is_err(), "the channel ends with the lock");
}

#[test]
fn a_lock_without_thresholds_makes_no_reports() {
    assert!(DataStore::new().lock_reports().is_none());
}

#[test]
fn a_report_prints_as_one_line_and_serializes_in_camel_case() {
    let (store, clock, reports) = reporting(StoreOptions::new().report_waits(SECOND));
    thread::scope(|scope| {
        let held = store.lock("ann").unwrap();
        let ben = scope.spawn(|| drop(store.request("ben").options(patient()).wait().unwrap()));
        until_waiting(&store, 1);
        clock.advance(SECOND);
        let report = next(&reports);
        let line = report.to_string();
        assert!(line.starts_with("long wait: 1. lock-2-"), "{line}");
        assert!(
            line.contains("waiting for 1000ms, more than 1000ms; held by lock-1-"),
            "{line}"
        );
        assert!(
            line.ends_with("; 1 request waiting") && !line.contains('\n'),
            "{line}"
        );
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["type"], "wait");
        assert_eq!(json["request"]["ownerId"], "ben");
        assert_eq!(json["holder"]["ownerId"], "ann");
        assert_eq!(json["threshold"], 1000.0);
        drop(held);
        ben.join().unwrap();
    });
}

/// Without reports the metrics count one hold in 64, for the others. With them, a long hold between
/// brief ones is reported, and counts for itself.
#[test]
fn a_long_hold_among_brief_ones_is_reported_and_counts() {
    let threshold = Duration::from_millis(20);
    let store = DataStore::with_options(StoreOptions::new().report_holds(threshold));
    let reports = store.lock_reports().unwrap();
    for _ in 0..1000 {
        drop(store.lock("ann").unwrap());
    }
    let held = store.lock("ben").unwrap();
    let began = Instant::now();
    while began.elapsed() < 2 * threshold {
        thread::yield_now();
    }
    drop(held);
    // On a busy machine a brief one can be long, too.
    let is_bens = |it: &SlowReport| {
        it.holder
            .as_ref()
            .is_some_and(|it| it.owner_id.as_str() == "ben")
    };
    let mut all = std::iter::repeat_with(|| next(&reports));
    let reported = all.find(is_bens).unwrap();
    assert!(matches!(reported.slow, SlowRequest::Hold { ended: true }));
    let longest = store.lock_stats().hold.max;
    assert!(longest >= threshold, "{longest:?}");
}
