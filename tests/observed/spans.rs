//! Durations, parents and contents of spans.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use doclock::dsl::{op, set_text};
use doclock::lock::AcquireOptions;
use doclock::transaction::Hooks;
use tracing::{Level, info, info_span};

use crate::watched::{Watched, note};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn wait_and_hold_are_those_of_the_clock() {
    let watched = Watched::new();
    let clock = watched.clock.clone();
    let slow = op(move |_| {
        clock.advance(2 * SECOND);
        Ok::<_, Failure>(())
    });
    let manager = watched.manager();
    manager.execute(slow.clone()).unwrap();
    let release = |lock| {
        watched.clock.advance(3 * SECOND);
        watched.store.release_lock(lock).unwrap();
    };
    watched.while_held(|| manager.execute(slow.clone()).unwrap(), release);
    let by_hand = || {
        let transaction = watched.store.begin("ann").unwrap();
        watched.clock.advance(4 * SECOND);
        transaction.commit().unwrap();
    };
    watched.while_held(by_hand, release);
    let spans = watched.ended();
    let times = spans
        .iter()
        .map(|span| ["wait_ms", "hold_ms"].map(|name| span.field(name)));
    let expected = [
        ["0.0", "2000.0"],
        ["3000.0", "2000.0"],
        ["3000.0", "4000.0"],
    ];
    assert_eq!(times.collect::<Vec<_>>(), expected);
    let seconds = |name| watched.metrics.values(name);
    assert_eq!(seconds("doclock_transaction_wait_seconds"), [0.0, 3.0, 3.0]);
    assert_eq!(seconds("doclock_transaction_hold_seconds"), [2.0, 2.0, 4.0]);
}

#[test]
fn a_span_describes_its_transaction() {
    let watched = Watched::new();
    let options = AcquireOptions::new().label("import");
    watched
        .manager()
        .transaction([note("n"), note("m")])
        .options(options)
        .commit()
        .unwrap();
    watched.manager().execute(set_text("x").on("n")).unwrap();
    let spans = watched.ended();
    let meta = spans[0].meta;
    assert_eq!((meta.target(), *meta.level()), ("doclock", Level::DEBUG));
    let fields = [
        "store",
        "owner",
        "label",
        "outcome",
        "version",
        "operations",
    ];
    let described = |nth: usize| fields.map(|name| spans[nth].field(name));
    assert_eq!(
        described(0),
        ["notes", "ann", "import", "committed", "1", "2"]
    );
    assert_eq!(
        described(1),
        ["notes", "ann", "setText", "committed", "2", "1"]
    );
    assert!(spans[0].field("call_site").contains("spans.rs:"));
}

#[test]
fn code_of_users_runs_in_the_span_of_its_transaction() {
    let watched = Watched::new();
    let hooks = Hooks::new();
    hooks.before(|_, operations| {
        info!("before-hook");
        Ok(operations)
    });
    hooks.after(|_| info!("after-hook"));
    let manager = watched.manager().with_hooks(hooks);
    let code = op(|_| {
        info!("operation");
        Ok::<_, Failure>(())
    });
    manager.execute(code.clone()).unwrap();
    pollster::block_on(manager.transaction(code.clone())).unwrap();
    manager.with_node_locks(1).execute(code).unwrap();
    let events = watched.ended().into_iter().map(|span| span.events);
    assert_eq!(events.collect::<Vec<_>>(), [3, 3, 3]);
}

#[test]
fn a_batch_that_the_combiner_runs_is_a_child_of_its_submitter() {
    let watched = &Watched::new();
    thread::scope(|scope| {
        let (holds, held) = mpsc::channel();
        let (store, clock) = (watched.store.clone(), watched.clock.clone());
        let combiner = watched.spawn(scope, move || {
            let _span = info_span!("combiner").entered();
            let thread = thread::current().id();
            let wait = op(move |_| {
                holds.send(thread).unwrap();
                while store.queue_length() == 0 {
                    thread::yield_now();
                }
                clock.advance(3 * SECOND);
                Ok::<_, Failure>(())
            });
            watched.manager().execute(wait).unwrap();
        });
        let combining = held.recv().unwrap();
        let _span = info_span!("submitter").entered();
        let clock = watched.clock.clone();
        let code = op(move |_| {
            info!("operation");
            assert_eq!(thread::current().id(), combining);
            clock.advance(2 * SECOND);
            Ok::<_, Failure>(())
        });
        let options = AcquireOptions::new().any_thread();
        watched
            .manager()
            .transaction(code)
            .options(options)
            .commit()
            .unwrap();
        combiner.join().unwrap();
    });
    let all = watched.spans.all();
    let parents = all
        .iter()
        .filter(|span| span.is_closed && span.parent.is_some());
    let parents = parents.map(|span| {
        let parent = span.parent.map(|id| all[id as usize - 1].meta.name());
        let times = ["wait_ms", "hold_ms"].map(|name| span.field(name));
        (parent.unwrap(), span.events, times)
    });
    let mut parents: Vec<_> = parents.collect();
    parents.sort_unstable();
    let expected = [
        ("combiner", 0, ["0.0", "3000.0"]),
        ("submitter", 1, ["3000.0", "2000.0"]),
    ];
    assert_eq!(parents, expected);
}

#[test]
fn a_subscriber_that_is_not_interested_sees_no_span() {
    use tracing_subscriber::filter::LevelFilter;
    let watched = Watched::new();
    let output = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let writer = output.clone();
    let make_writer = move || Shared(writer.clone());
    let at_info = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::INFO)
        .with_span_events(tracing_subscriber::fmt::format::FmtSpan::FULL)
        .with_writer(make_writer)
        .finish();
    tracing::subscriber::with_default(at_info, || {
        watched.manager().execute(note("n")).unwrap();
    });
    assert!(output.lock().unwrap().is_empty());
    assert_eq!(watched.metrics.outcome("committed"), 1);
}

struct Shared(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
