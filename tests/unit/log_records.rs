//! Unit tests of `src/store/log/records.rs`.

use std::sync::Weak;

use super::*;
use crate::id::TransactionId;

fn record(version: u64) -> CommitRecord {
    let id = TransactionId {
        session: 1,
        number: version,
    };
    let commit = TransactionResult::nothing_done(id, version, OwnerId::from("ann"));
    CommitRecord::stored(Arc::new(commit), None)
}

/// An allocator is slow if many are freed at once, or by the thread of the journal.
#[test]
fn a_commit_frees_one_that_was_written_and_two_if_many_are_left() {
    const COMMITS: u64 = MANY_UNNEEDED as u64 + 3;
    let mut records = CommitRecords {
        unwritten: Some(UnwrittenCommits::default()),
        ..CommitRecords::default()
    };
    let journal = records.subscribers.add_journal(0, usize::MAX);
    let all: Vec<CommitRecord> = (1..=COMMITS).map(record).collect();
    let commits: Vec<Weak<TransactionResult>> = all
        .iter()
        .map(|record| Arc::downgrade(record.commit.as_ref().unwrap()))
        .collect();
    let freed = || commits.iter().filter(|it| it.strong_count() == 0).count();
    all.into_iter()
        .for_each(|record| drop(records.push(record)));

    let unwritten = records.read_all(journal, COMMITS).commits;
    let read = unwritten.iter().map(|commit| commit.version);
    assert!(read.eq(1..=COMMITS));
    let limit = LogLimit { kept: 0, more: 0 };
    drop(records.trim(limit, usize::MAX));
    assert_eq!(records.recent.len() as u64, COMMITS, "none is durable yet");
    drop(unwritten);
    records.subscribers.note_durable(COMMITS).notify();
    drop(records.trim(limit, usize::MAX));
    assert_eq!((records.recent.len(), freed()), (1, 0), "the newest stays");

    for (version, expected) in (COMMITS + 1..).zip([2, 3, 4, 5]) {
        drop(records.push(record(version)));
        assert_eq!(freed(), expected, "at {version}");
    }
}
