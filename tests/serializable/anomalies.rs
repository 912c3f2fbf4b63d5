//! Every anomaly is found and named, in histories small enough to follow.

use crate::anomaly::{Anomaly, Class, Cycle, Reader};
use crate::checker::{Level, check};
use crate::history::{History, Op, Transaction};
use crate::written::history;

const X: u32 = b'x' as u32;

fn found(history: &History) -> Vec<Anomaly> {
    check(history, Level::Serializable)
}

fn cycle(anomalies: &[Anomaly]) -> &Cycle {
    match anomalies {
        [Anomaly::Cycle(cycle)] => cycle,
        others => panic!("not one cycle: {others:?}"),
    }
}

/// The class of the only cycle, and its transactions.
fn class(history: &History, level: Level) -> (Class, bool, Vec<usize>) {
    let found = check(history, level);
    let Cycle {
        class,
        real_time,
        edges,
    } = cycle(&found);
    let mut members: Vec<usize> = edges.iter().map(|edge| edge.from).collect();
    for (edge, next) in edges.iter().zip(edges.iter().cycle().skip(1)) {
        assert_eq!(edge.to, next.from, "{edge} and {next} do not meet");
    }
    members.sort_unstable();
    (*class, *real_time, members)
}

#[test]
fn transactions_one_after_another_are_clean() {
    let serial = history(
        [
            "x: x+1 x:1 x+2 y+3",
            "y:3 x:1,2 x+4 x:1,2,4",
            "!x+5 x:1,2,4,5 y+6",
            "x:1,2,4 y:3 z:",
        ],
        "x:1,2,4 y:3 z:",
    );
    assert_eq!(check(&serial, Level::Strict), []);
    assert_eq!(found(&History::default()), []);
}

#[test]
fn a_value_that_was_never_appended_is_found() {
    let elsewhere = history(["x+1 y+2", "x:1,2"], "x:1 y:2");
    let (reader, key) = (Reader::Transaction(1), X);
    let value = 2;
    assert!(found(&elsewhere).contains(&Anomaly::Unwritten { reader, key, value }));
    let reader = Reader::Last;
    let unknown = history(["x+1"], "x:1,7");
    let value = 7;
    assert_eq!(found(&unknown), [Anomaly::Unwritten { reader, key, value }]);
}

#[test]
fn a_read_of_a_rolled_back_value_is_found() {
    let aborted = Anomaly::AbortedRead {
        reader: Reader::Transaction(1),
        key: X,
        value: 1,
        writer: 0,
    };
    let among_others = found(&history(["!x+1", "x:1", "x+2"], "x:2"));
    assert!(among_others.contains(&aborted));
    assert_eq!(found(&history(["!x+1", "x:1"], "x:")), [aborted]);
}

#[test]
fn a_read_in_the_middle_of_a_transaction_is_found() {
    let intermediate = Anomaly::IntermediateRead {
        reader: Reader::Transaction(1),
        key: X,
        value: 1,
        writer: 0,
    };
    let anomalies = found(&history(["x+1 x+2", "x:1"], "x:1,2"));
    assert!(anomalies.contains(&intermediate));
    assert_eq!(found(&history(["x+1 x:1 x+2"], "x:1,2")), [], "its own");
}

#[test]
fn reads_that_are_no_prefixes_of_each_other_are_found() {
    let branched = history(["x+1", "x+2", "x:1", "x:2"], "x:1,2");
    let expected = Anomaly::IncompatibleOrders {
        reader: Reader::Transaction(3),
        longest: Reader::Last,
        key: X,
        place: 0,
        found: 2,
        expected: 1,
    };
    assert_eq!(found(&branched), [expected]);
}

#[test]
fn a_lost_append_is_found() {
    let lost = |value| Anomaly::LostAppend {
        writer: 0,
        key: X,
        value,
    };
    assert_eq!(found(&history(["x+1", "x+2"], "x:2")), [lost(1)]);
    assert_eq!(
        found(&history(["x+1 x:1", "y+2"], "y:2")),
        [lost(1)],
        "with all its list"
    );
    let seen = history(["x+1", "x:1", "x+2"], "x:2");
    assert!(found(&seen).contains(&lost(1)));
}

#[test]
fn an_append_that_appears_in_another_list_is_a_lost_append() {
    let (reader, key, value, writer) = (Reader::Last, X, 1, 0);
    let moved = history(["y+1"], "x:1 y:");
    let own = X + 1;
    let lost = Anomaly::LostAppend {
        writer,
        key: own,
        value,
    };
    assert_eq!(
        found(&moved),
        [Anomaly::Unwritten { reader, key, value }, lost]
    );
}

#[test]
fn a_value_twice_in_a_list_is_found() {
    let (reader, key, value) = (Reader::Last, X, 1);
    let twice = history(["x+1", "x+2"], "x:1,2,1");
    assert_eq!(found(&twice), [Anomaly::Duplicate { reader, key, value }]);
}

#[test]
fn a_read_that_contradicts_its_own_transaction_is_found() {
    let internal = |operation| Anomaly::Internal {
        transaction: 0,
        operation,
        key: X,
    };
    let missed = history(["x+1 x:", "x+2"], "x:1,2");
    assert!(found(&missed).contains(&internal(1)));
    let changed = history(["x: x:2", "x+2"], "x:2");
    assert!(found(&changed).contains(&internal(1)));
    assert_eq!(
        found(&history(["x:1 x+1"], "x:1")),
        [internal(0)],
        "what it appends later"
    );
}

#[test]
fn appends_of_one_transaction_in_another_order_are_found() {
    let reordered = Anomaly::Reordered {
        writer: 0,
        key: X,
        value: 1,
        next: 2,
    };
    assert!(found(&history(["x+1 x+2"], "x:2,1")).contains(&reordered));
}

#[test]
fn writes_that_are_interleaved_are_a_g0() {
    let two_lists = history(["x+1 y+2", "x+3 y+4"], "x:1,3 y:4,2");
    let expected = (Class::G0, false, vec![0, 1]);
    assert_eq!(class(&two_lists, Level::Serializable), expected);
    let one_list = history(["x+1 x+3", "x+2"], "x:1,2,3");
    assert_eq!(class(&one_list, Level::Serializable), expected);
}

#[test]
fn transactions_that_see_each_other_are_a_g1c() {
    let each_other = history(["x+1 y:2", "y+2 x:1"], "x:1 y:2");
    let expected = (Class::G1c, false, vec![0, 1]);
    assert_eq!(class(&each_other, Level::Serializable), expected);
}

#[test]
fn a_lost_view_is_a_g_single() {
    // Read skew: it saw one list before the other transaction, one after it.
    let skewed = history(["x: y:2", "x+1 y+2"], "x:1 y:2");
    let expected = (Class::GSingle, false, vec![0, 1]);
    assert_eq!(class(&skewed, Level::Serializable), expected);
    // Lost update: both saw the same and appended.
    let updates = history(["x: x+1", "x: x+2"], "x:1,2");
    assert_eq!(class(&updates, Level::Serializable), expected);
}

#[test]
fn write_skew_is_a_g2() {
    let skewed = history(["x: y+1", "y: x+2"], "x:2 y:1");
    let expected = (Class::G2, false, vec![0, 1]);
    assert_eq!(class(&skewed, Level::Serializable), expected);
    let of_three = history(["x: y+1", "y: z+2", "z: x+3"], "x:3 y:1 z:2");
    let expected = (Class::G2, false, vec![0, 1, 2]);
    assert_eq!(class(&of_three, Level::Serializable), expected);
}

#[test]
fn the_worst_class_and_the_shortest_cycle_are_given() {
    let several = history(
        [
            "a: b+1",
            "b: a+2", // G2 of two
            "d+3 e+4",
            "e+5 f+6",
            "f+7 d+8", // G0 of three
            "p+9 q+10",
            "q+11 p+12", // G0 of two
        ],
        "a:2 b:1 d:8,3 e:4,5 f:6,7 p:9,12 q:11,10",
    );
    let expected = (Class::G0, false, vec![5, 6]);
    assert_eq!(class(&several, Level::Serializable), expected);
}

#[test]
fn an_order_against_time_is_not_strict() {
    let late = history(["x+1 @0..1", "x: @2..3"], "x:1");
    assert_eq!(found(&late), []);
    let expected = (Class::GSingle, true, vec![0, 1]);
    assert_eq!(class(&late, Level::Strict), expected);
    let beside = history(["x+1 @0..2", "x: @1..3"], "x:1");
    assert_eq!(check(&beside, Level::Strict), []);
}

/// The order in time also counts between transactions that are not adjacent.
#[test]
fn an_order_against_time_is_found_across_others() {
    let across = history(
        [
            "x+1 @0..1",
            "y+2 @2..5",
            "z+3 @3..4",
            "y:2 @6..7",
            "x: @8..9",
        ],
        "x:1 y:2 z:3",
    );
    assert_eq!(found(&across), []);
    let (class, real_time, members) = class(&across, Level::Strict);
    assert_eq!((class, real_time), (Class::GSingle, true));
    assert!(members.contains(&0) && members.contains(&4));
}

#[test]
fn a_cycle_reads_as_a_sentence_on_each_step() {
    let cycle = found(&history(["x: y:2", "x+1 y+2"], "x:1 y:2"));
    let text = format!(
        "GSingle cycle: 0 before 1 (rw), whose 1 in list {X} it did not see; \
         1 before 0 (wr), which saw its 2 in list {}",
        X + 1
    );
    assert_eq!(cycle[0].to_string(), text);
}

#[test]
fn overlaps_are_counted() {
    let times = ["@0..9", "@1..2", "@3..4", "@10..12", "@11..14", "@15..16"];
    assert_eq!(history(times, "").overlapped(), 5);
}

/// Each transaction sees the writes of the previous one. A recursive walk of the graph would
/// overflow the stack.
#[test]
fn a_hundred_thousand_transactions_in_a_row_are_no_problem() {
    const LONG: u32 = 100_000;
    let see_and_write = |nth: u32| Transaction {
        process: 0,
        ops: vec![
            Op::Read {
                key: nth.saturating_sub(1),
                observed: (1..nth).rev().take(1).map(u64::from).collect(),
            },
            Op::Append {
                key: nth,
                value: u64::from(nth),
            },
        ],
        committed: true,
        time: None,
    };
    let mut row = History {
        transactions: (1..=LONG).map(see_and_write).collect(),
        finals: (1..=LONG).map(|key| (key, vec![u64::from(key)])).collect(),
    };
    assert_eq!(found(&row), []);
    // The first saw the writes of the last.
    row.transactions[0].ops[0] = Op::Read {
        key: LONG,
        observed: vec![u64::from(LONG)],
    };
    let found = found(&row);
    let cycle = cycle(&found);
    assert_eq!(
        (cycle.class, cycle.edges.len()),
        (Class::G1c, LONG as usize)
    );
}
