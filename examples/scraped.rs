//! A durable store under load, whose metrics Prometheus scrapes.
//!
//! ```console
//! cargo run --release --example scraped -- --port 9187 --seconds 120
//! ```
//!
//! Two editors type. A third owner holds the lock too long now and then: it is revoked, or requests
//! time out. One subscriber reads slowly. The dashboard `docs/grafana/doclock.json` shows it all.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use doclock::durable::{Durability, DurableOptions};
use doclock::lock::AcquireOptions;
use doclock::{DataStore, Editor, StoreOptions, dsl::*};
use lexopt::{Arg, Parser, ValueExt};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The upper ends of the buckets of durations, in seconds.
const BUCKETS: [f64; 14] = [
    1e-6, 1e-5, 1e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
];

const USAGE: &str = "usage: scraped [--port PORT] [--seconds SECONDS]";

fn main() -> Result {
    let (port, time) = arguments()?;
    let prometheus = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &BUCKETS)?
        .install_recorder()?;
    let folder = tempfile::tempdir()?;
    let options = StoreOptions::new()
        .name("notes")
        .hold_limit(Duration::from_millis(30))
        .report_holds(Duration::from_millis(10))
        .report_waits(Duration::from_millis(10));
    let options = DurableOptions::new()
        .store(options)
        .durability(Durability::Later);
    let store = DataStore::open_with(folder.path().join("notes.doclock"), options)?;
    let note = create(text_node("note", "Hello").with_id("n"));
    Editor::new(store.clone(), "setup").execute(note)?;

    let listener = TcpListener::bind(("127.0.0.1", port))?;
    listener.set_nonblocking(true)?;
    println!("http://{}/metrics", listener.local_addr()?);
    let ends = AtomicBool::new(false);
    let goes_on = &|| !ends.load(Ordering::Relaxed);
    let end = Instant::now() + time;
    thread::scope(|scope| {
        for owner in ["ann", "ben"] {
            let editor = Editor::new(store.clone(), owner);
            scope.spawn(move || type_text(&editor, goes_on));
        }
        scope.spawn(|| hold_too_long(&store, goes_on));
        scope.spawn(|| read_slowly(&store, goes_on));
        while Instant::now() < end {
            match listener.accept() {
                Ok((request, _)) => drop(answer(request, &store, &prometheus)),
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        }
        ends.store(true, Ordering::Relaxed);
    });
    store.close()?;
    Ok(())
}

fn arguments() -> Result<(u16, Duration)> {
    let (mut port, mut seconds) = (9187, 60);
    let mut words = Parser::from_env();
    while let Some(word) = words.next()? {
        match word {
            Arg::Long("port") => port = words.value()?.parse()?,
            Arg::Long("seconds") => seconds = words.value()?.parse()?,
            Arg::Long("help") | Arg::Short('h') => {
                println!("{USAGE}");
                std::process::exit(0);
            }
            other => return Err(format!("{}\n{USAGE}", other.unexpected()).into()),
        }
    }
    Ok((port, Duration::from_secs(seconds)))
}

/// Types, undoes and fails, with a request that times out soon.
fn type_text(editor: &Editor, goes_on: impl Fn() -> bool) {
    for turn in (0..).take_while(|_| goes_on()) {
        let options = AcquireOptions::new().timeout(Duration::from_millis(20));
        match turn % 20 {
            17 => drop(editor.undo().options(options).commit()),
            18 => drop(
                editor
                    .transaction(insert_text(usize::MAX, "x").on("n"))
                    .options(options)
                    .commit(),
            ),
            19 => drop(
                editor
                    .transaction(set_text("").on("n"))
                    .options(options)
                    .commit(),
            ),
            _ => drop(
                editor
                    .transaction(insert_text(0, "x").on("n"))
                    .options(options)
                    .commit(),
            ),
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Begins transactions that last up to 60 milliseconds, which is longer than the hold limit.
fn hold_too_long(store: &DataStore, goes_on: impl Fn() -> bool) {
    for turn in (0..).take_while(|_| goes_on()) {
        let Ok(transaction) = store.begin("import") else {
            continue;
        };
        thread::sleep(Duration::from_millis(turn % 7 * 10));
        match turn % 2 {
            0 => drop(transaction.commit()),
            _ => transaction.rollback(),
        }
        thread::sleep(Duration::from_millis(100));
    }
}

fn read_slowly(store: &DataStore, goes_on: impl Fn() -> bool) {
    let events = store.subscribe();
    while goes_on() {
        thread::sleep(Duration::from_millis(500));
        while events.try_recv().is_ok() {}
    }
}

/// Answers any request with the metrics.
fn answer(mut request: TcpStream, store: &DataStore, prometheus: &PrometheusHandle) -> Result {
    request.set_nonblocking(false)?;
    request.set_read_timeout(Some(Duration::from_secs(1)))?;
    // The head of a scrape is short. What it says does not matter.
    let _ = request.read(&mut [0; 4096])?;
    store.publish_metrics();
    let body = prometheus.render();
    let length = body.len();
    write!(
        request,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )?;
    Ok(())
}
