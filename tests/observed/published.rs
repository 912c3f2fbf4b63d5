//! The metrics that a store publishes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use doclock::lock::AcquireOptions;
use doclock::{DataStore, StoreOptions, TransactionManager};

use crate::recorder::Metrics;
use crate::watched::{Watched, note};

fn publish(watched: &Watched) {
    metrics::with_local_recorder(&watched.metrics, || watched.store.publish_metrics());
}

#[test]
fn the_published_gauges_are_the_state_of_the_store() {
    let watched = Watched::new();
    let events = watched.store.subscribe();
    watched.manager().execute(note("a")).unwrap();
    watched.manager().execute(note("b")).unwrap();
    let value = |name| watched.metrics.value(name);
    publish(&watched);
    assert_eq!(value("doclock_version"), 2.0);
    assert_eq!(value("doclock_subscriber_lag_commits"), 2.0);
    assert_eq!(value("doclock_lock_queue_length"), 0.0);
    assert_eq!(value("doclock_lock_held_seconds"), 0.0);
    while events.try_recv().is_ok() {}
    let request = || watched.store.acquire_lock("waiter").unwrap();
    let waiter = watched.while_held(request, |lock| {
        watched.clock.advance(Duration::from_secs(3));
        publish(&watched);
        watched.store.release_lock(lock).unwrap();
    });
    assert_eq!(value("doclock_lock_queue_length"), 1.0);
    assert_eq!(value("doclock_lock_held_seconds"), 3.0);
    assert_eq!(value("doclock_subscriber_lag_commits"), 0.0);
    watched.store.release_lock(waiter).unwrap();
    let names = watched.metrics.all().into_keys();
    let durable = names.filter(|name| name.contains("durable") || name.contains("journal"));
    assert_eq!(durable.count(), 0, "the store is not durable");
}

#[test]
fn timeouts_and_revocations_of_all_locks_are_counted_over_resets() {
    let watched = Watched::new();
    let value = |name| watched.metrics.value(name);
    let limit = AcquireOptions::new().timeout(Duration::from_secs(1));
    let time_out = || {
        let request = || {
            watched
                .store
                .request("ann")
                .options(limit.clone())
                .wait()
                .unwrap_err()
        };
        watched.while_held(request, |_| watched.clock.advance(Duration::from_secs(2)));
    };
    time_out();
    publish(&watched);
    time_out();
    publish(&watched);
    publish(&watched);
    assert_eq!(value("doclock_lock_timeouts_total"), 2.0);
    watched.store.reset_lock_stats();
    time_out();
    publish(&watched);
    assert_eq!(value("doclock_lock_timeouts_total"), 3.0);
    watched.store.acquire_lock("slow").unwrap();
    watched.revoke_holder();
    publish(&watched);
    assert_eq!(value("doclock_lock_revocations_total"), 1.0);
}

#[test]
fn stores_of_one_name_add_up() {
    let metrics = Metrics::default();
    let [one, two] = [(), ()].map(|()| {
        let options = StoreOptions::new().name("notes");
        metrics::with_local_recorder(&metrics, || DataStore::with_options(options))
    });
    TransactionManager::new(one).execute(note("n")).unwrap();
    TransactionManager::new(two).execute(note("n")).unwrap();
    assert_eq!(metrics.outcome("committed"), 2);
    assert_eq!(metrics.values("doclock_transaction_wait_seconds").len(), 2);
}

/// The rows of a table of the page, without their markup.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let page = include_str!("../../docs/guide/observing.md");
    let (_, section) = page.split_once(&format!("## {heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let cells = |row: &str| {
        let cells = row.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().replace('`', "")).collect()
    };
    rows.map(cells).collect()
}

#[test]
fn the_page_lists_every_metric_with_its_type_unit_and_labels() {
    let folder = tempfile::tempdir().unwrap();
    let second = Duration::from_secs(1);
    let watched = Watched::with(|options| options.report_waits(second));
    let metrics = &watched.metrics;
    metrics::with_local_recorder(metrics, || {
        let path = folder.path().join("notes.doclock");
        let store = DataStore::open(path).unwrap();
        store.publish_metrics();
        watched.store.publish_metrics();
    });
    let described = metrics.described();
    let mut seen = BTreeMap::new();
    for (key, metric) in metrics.all() {
        let (name, labels) = key.split_once('{').unwrap();
        let labels = labels.trim_end_matches('}').split(',');
        let labels = labels.map(|label| label.split('=').next().unwrap().to_owned());
        let (kind, unit) = described[name];
        assert_eq!(metric.kind, kind, "{name}");
        let in_seconds = unit == Some(metrics::Unit::Seconds);
        assert_eq!(in_seconds, name.ends_with("_seconds"), "{name}");
        let row = (
            kind.to_owned(),
            in_seconds,
            labels.collect::<Vec<_>>().join(", "),
        );
        seen.insert(name.to_owned(), row);
    }
    let names: BTreeSet<_> = described.into_keys().collect();
    assert_eq!(names, seen.keys().cloned().collect());
    let listed = rows("The metrics").into_iter().map(|cells| {
        let [name, kind, unit, labels] = [0, 1, 2, 3].map(|nth| cells[nth].clone());
        (name, (kind, unit == "seconds", labels))
    });
    assert_eq!(listed.collect::<BTreeMap<_, _>>(), seen);
}

#[test]
fn the_page_lists_every_outcome_and_every_field() {
    let watched = Watched::new();
    watched.manager().execute(note("n")).unwrap();
    let labels = watched.metrics.all().into_keys();
    let outcomes = labels.filter_map(|key| {
        let (_, outcome) = key.split_once("outcome=")?;
        Some(outcome.trim_end_matches('}').to_owned())
    });
    let listed = rows("The outcomes")
        .into_iter()
        .map(|cells| cells[0].clone());
    assert_eq!(
        listed.collect::<BTreeSet<_>>(),
        outcomes.collect::<BTreeSet<_>>()
    );
    let fields = watched.ended()[0].meta.fields().iter();
    let fields: Vec<_> = fields.map(|field| field.name().to_owned()).collect();
    let listed = rows("The span").into_iter();
    let listed =
        listed.flat_map(|cells| cells[0].split(", ").map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(listed.collect::<Vec<_>>(), fields);
}

#[test]
fn the_dashboard_shows_metrics_that_exist() {
    let dashboard = include_str!("../../docs/grafana/doclock.json");
    let known = rows("The metrics")
        .into_iter()
        .map(|cells| cells[0].clone());
    let known: BTreeSet<_> = known.collect();
    let is_of_name = |char: char| char.is_ascii_lowercase() || char == '_';
    let starts = dashboard.match_indices("doclock_").map(|(start, _)| start);
    let names = starts.map(|start| {
        let name = dashboard[start..].split(|char| !is_of_name(char)).next();
        name.unwrap().trim_end_matches("_bucket").to_owned()
    });
    let shown: BTreeSet<_> = names.collect();
    assert!(shown.is_subset(&known), "{shown:?}");
    assert_eq!(shown.len(), known.len(), "{shown:?}");
}
