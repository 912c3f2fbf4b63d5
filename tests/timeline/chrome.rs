use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::*;

fn events(timeline: &Timeline) -> Vec<Value> {
    let trace = serde_json::to_string(&chrome_trace(timeline)).unwrap();
    let mut trace: Value = serde_json::from_str(&trace).unwrap();
    match trace["traceEvents"].take() {
        Value::Array(events) => events,
        other => panic!("{other}"),
    }
}

/// Microseconds as nanoseconds, as Perfetto reads them.
fn nanos(micros: &Value) -> u64 {
    (micros.as_f64().unwrap() * 1e3).round() as u64
}

fn phase<'a>(events: &'a [Value], phase: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["ph"] == phase).collect()
}

/// The names of the threads by number.
fn threads(events: &[Value]) -> BTreeMap<u64, &str> {
    let names = phase(events, "M").into_iter();
    let names = names.filter(|event| event["name"] == "thread_name");
    names
        .map(|event| {
            let name = event["args"]["name"].as_str().unwrap();
            (event["tid"].as_u64().unwrap(), name)
        })
        .collect()
}

#[test]
fn a_wait_and_a_hold_are_slices_of_the_track_of_their_owner() {
    let entries = [
        released(1, "ann", 0, 0, 1_500),
        released(2, "ben", 250, 1_500, 3_001).labelled("import"),
    ];
    let events = events(&timeline(4_000, entries));
    assert_eq!(events[0]["args"]["name"], "doclock");
    let threads = threads(&events);
    let slices: Vec<String> = phase(&events, "X")
        .into_iter()
        .map(|slice| {
            let track = threads[&slice["tid"].as_u64().unwrap()];
            let args = slice["args"].as_object().unwrap();
            let args: Vec<String> = args.values().map(ToString::to_string).collect();
            let args = args.join(" ");
            let (ts, dur, name) = (&slice["ts"], &slice["dur"], &slice["name"]);
            format!("{track} {name} {ts} {dur} {args}")
        })
        .collect();
    assert_eq!(
        slices,
        [
            r#"ann "hold" 0.0 1.5 "src/main.rs:7:13" "lock-1-1" false "released""#,
            r#"ben "wait (import)" 0.25 1.25 "src/main.rs:7:13" "import" "lock-2-1" false "released""#,
            r#"ben "hold (import)" 1.5 1.501 "src/main.rs:7:13" "import" "lock-2-1" false "released""#,
        ]
    );
}

#[test]
fn an_arrow_leads_from_the_releaser_to_the_next_holder() {
    let entries = [
        released(1, "ann", 0, 0, 1_500),
        released(2, "ben", 250, 1_500, 3_001),
    ];
    let events = events(&timeline(4_000, entries));
    let (starts, ends) = (phase(&events, "s"), phase(&events, "f"));
    let (start, end) = (starts[0], ends[0]);
    assert_eq!((starts.len(), ends.len()), (1, 1));
    for field in ["id", "cat", "name"] {
        assert_eq!(start[field], end[field]);
    }
    let threads = threads(&events);
    let track = |event: &Value| threads[&event["tid"].as_u64().unwrap()];
    assert_eq!((track(start), nanos(&start["ts"])), ("ann", 1_499));
    assert_eq!((track(end), nanos(&end["ts"])), ("ben", 1_500));
    assert_eq!(end["bp"], "e");
}

#[test]
fn unusual_ends_are_instants() {
    let entries = [
        request(1, 0, Revoked).granted(0).ended(9),
        request(2, 1, TimedOut).of("ben").ended(5),
        request(3, 1, Cancelled).of("cem").ended(6),
        request(4, 1, Deadlock).of("dora").ended(7),
        released(5, "eve", 10, 10, 11),
        request(6, 12, Holding).of("fay").granted(12),
        request(7, 13, Waiting).of("gil"),
    ];
    let events = events(&timeline(20, entries));
    let instants: Vec<_> = phase(&events, "i")
        .into_iter()
        .map(|event| (event["name"].as_str().unwrap(), nanos(&event["ts"])))
        .collect();
    assert_eq!(
        instants,
        [
            ("revocation", 9),
            ("timeout", 5),
            ("cancellation", 6),
            ("deadlock", 7)
        ]
    );
    let unended = |name: &str| {
        let slices = phase(&events, "X").into_iter();
        let end = |slice: &Value| nanos(&slice["ts"]) + nanos(&slice["dur"]);
        let slices = slices.filter(|slice| slice["args"]["outcome"] == name);
        slices.map(end).collect::<Vec<_>>()
    };
    assert_eq!(
        (unended("holding"), unended("waiting")),
        (vec![20], vec![20])
    );
}

/// Perfetto moves slices that overlap to a track without a name.
#[test]
fn slices_of_one_track_do_not_overlap_and_arrows_begin_and_end_in_slices() {
    for seed in 0..30 {
        let events = events(&simulated(seed, 300));
        let mut slices: HashMap<u64, Vec<(u64, u64)>> = HashMap::new();
        for slice in phase(&events, "X") {
            let from = nanos(&slice["ts"]);
            let track = slices.entry(slice["tid"].as_u64().unwrap()).or_default();
            track.push((from, from + nanos(&slice["dur"])));
        }
        for (track, slices) in &mut slices {
            slices.sort_by_key(|(from, _)| *from);
            for pair in slices.windows(2) {
                assert!(pair[0].1 <= pair[1].0, "seed {seed}, {track}: {pair:?}");
            }
        }
        let mut flows: HashMap<u64, Vec<&str>> = HashMap::new();
        for event in &events {
            let Some(id) = event["id"].as_u64() else {
                continue;
            };
            flows
                .entry(id)
                .or_default()
                .push(event["ph"].as_str().unwrap());
            let at = nanos(&event["ts"]);
            let slices = &slices[&event["tid"].as_u64().unwrap()];
            let inside = slices.iter().any(|(from, to)| *from <= at && at < *to);
            assert!(inside, "seed {seed}: {event}");
        }
        assert!(flows.len() > 50, "seed {seed}: {}", flows.len());
        assert!(
            flows.values().all(|phases| *phases == ["s", "f"]),
            "seed {seed}"
        );
    }
}

/// Perfetto reads events by time, those of one time in the order of the file, and binds an arrow to
/// the slice that began last on its track.
#[test]
fn a_reader_binds_arrows_from_hold_to_hold() {
    for seed in 0..30 {
        let mut events = events(&simulated(seed, 300));
        events.retain(|event| event["ph"] != "M");
        events.sort_by_key(|event| nanos(&event["ts"]));
        let mut topmost = HashMap::new();
        let mut giver_ends = HashMap::new();
        for event in &events {
            let (track, id) = (event["tid"].as_u64().unwrap(), &event["id"]);
            match event["ph"].as_str().unwrap() {
                "s" => {
                    let giver: &Value = topmost[&track];
                    assert_eq!(giver["cat"], "hold", "seed {seed}: {event}");
                    let end = nanos(&giver["ts"]) + nanos(&giver["dur"]);
                    giver_ends.insert(id.as_u64(), end);
                }
                "f" => {
                    let taker: &Value = topmost[&track];
                    assert_eq!(taker["cat"], "hold", "seed {seed}: {event}");
                    let granted = nanos(&taker["ts"]);
                    assert_eq!(giver_ends[&id.as_u64()], granted, "seed {seed}: {event}");
                }
                _ => drop(topmost.insert(track, event)),
            }
        }
    }
}

#[test]
fn every_name_survives() {
    let events = events(&hostile());
    let threads = threads(&events);
    assert_eq!(threads.into_values().collect::<Vec<_>>(), HOSTILE);
    let holds = phase(&events, "X").into_iter();
    let labels = holds.filter(|slice| slice["cat"] == "hold");
    let labels: Vec<_> = labels.map(|slice| &slice["args"]["label"]).collect();
    assert_eq!(labels, HOSTILE);
}

#[test]
fn an_empty_timeline_is_a_trace_without_slices() {
    let events = events(&timeline(0, []));
    assert_eq!(events.len(), 1);
}

/// A timeline is data that a program can change: nonsense is written, and does not panic.
#[test]
fn ends_before_begins_are_written_as_slices_without_a_length() {
    let entries = [
        released(1, "ann", 50, 20, 10),
        request(2, 60, Holding),
        request(3, 70, Released).of("ben"),
    ];
    let events = events(&timeline(5, entries));
    assert_eq!(phase(&events, "X").len(), 3);
}
