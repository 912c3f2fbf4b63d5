//! Whether snapshots have the commits that they have to have, and no others.

use std::collections::BTreeMap;

use crate::history::{Key, Op, Value};

/// A commit that was acknowledged.
pub(crate) struct Acknowledged {
    /// The process or machine that was told.
    pub(crate) process: u64,
    pub(crate) began: u64,
    pub(crate) ended: u64,
    pub(crate) version: u64,
    pub(crate) token: u64,
    pub(crate) epoch: u64,
    /// Whether the store of this process has acknowledged it, if it was an owner all the time.
    /// Otherwise it was read in the row of a request, where it can be before the owner has the
    /// answer to its append.
    pub(crate) is_own: bool,
    pub(crate) appends: Vec<(Key, Value)>,
}

/// A snapshot that a process has shown.
pub(crate) struct Shown {
    pub(crate) process: u64,
    pub(crate) began: u64,
    pub(crate) ended: u64,
    pub(crate) version: u64,
    /// The epoch of the process, if it showed the snapshot as the owner.
    pub(crate) epoch: Option<u64>,
    pub(crate) lag: u64,
    /// Its reads, of beginnings of the last lists.
    pub(crate) ops: Vec<Op>,
}

impl Shown {
    /// Since when the version was the newest one, as far as the process promises that: this
    /// snapshot has every commit of which any process was told before.
    ///
    /// An owner can lack the write whose answer it does not have yet. If a commit of its epoch is
    /// known, it had the answers to all writes before, and so those to what was known before that
    /// commit was asked for.
    pub(crate) fn since(&self, acknowledged: &[Acknowledged]) -> u64 {
        let Some(epoch) = self.epoch else {
            return self.began.saturating_sub(self.lag);
        };
        let known = acknowledged
            .iter()
            .filter(|commit| commit.epoch == epoch && commit.ended <= self.began);
        known.map(|commit| commit.began).max().unwrap_or(0)
    }

    /// Why it must have a commit, if it must.
    fn needs(&self, commit: &Acknowledged, since: u64) -> Option<&'static str> {
        let is_own = commit.is_own && commit.process == self.process && commit.ended <= self.began;
        match self.epoch {
            Some(epoch) if commit.epoch < epoch => Some("the owner began with it"),
            Some(epoch) if commit.epoch == epoch && is_own && self.lag == 0 => {
                Some("the owner had acknowledged it itself")
            }
            Some(_) if commit.ended <= since => Some("the owner had the answers to later writes"),
            None if commit.ended <= since => Some("its lag is smaller"),
            _ => None,
        }
    }
}

/// Fails with a snapshot that has too much or too little.
pub(crate) fn check(
    document: &str,
    finals: &BTreeMap<Key, Vec<Value>>,
    acknowledged: &[Acknowledged],
    shown: &[Shown],
) {
    let mut positions = BTreeMap::new();
    for (key, values) in finals {
        let values = values.iter().enumerate();
        positions.extend(values.map(|(at, value)| ((*key, *value), at)));
    }
    for snapshot in shown {
        let Shown { version, epoch, .. } = *snapshot;
        let what = format!(
            "{document}: version {version}, which process {} showed {}",
            snapshot.process,
            epoch.map_or("as a follower".into(), |epoch| format!("in epoch {epoch}"))
        );
        let since = snapshot.since(acknowledged);
        for commit in acknowledged {
            let has = commit.version <= version;
            let of = commit.version;
            if let Some(why) = snapshot.needs(commit, since) {
                assert!(has, "{what}, does not have {of}: {why}");
            }
            assert!(
                !has || commit.began < snapshot.ended,
                "{what}, is after {of}, which had not begun"
            );
            let is_later = epoch.is_some_and(|epoch| commit.epoch > epoch);
            assert!(
                snapshot.lag > 0 || !is_later || commit.ended > snapshot.began,
                "{what}, was that of an owner although {of} was acknowledged in epoch {}",
                commit.epoch
            );
            for append in &commit.appends {
                for op in &snapshot.ops {
                    let Op::Read { key, observed } = op else {
                        continue;
                    };
                    assert!(
                        *key != append.0 || has == (positions[append] < observed.len()),
                        "{what}: list {key} and {}, of version {of}",
                        append.1
                    );
                }
            }
        }
    }
    check_order(document, shown);
}

/// No process shows a version after a later one.
fn check_order(document: &str, shown: &[Shown]) {
    let mut by_process: BTreeMap<u64, Vec<&Shown>> = BTreeMap::new();
    for snapshot in shown {
        by_process
            .entry(snapshot.process)
            .or_default()
            .push(snapshot);
    }
    for (process, mut snapshots) in by_process {
        snapshots.sort_by_key(|snapshot| snapshot.ended);
        for (at, later) in snapshots.iter().enumerate() {
            let before = snapshots[..at].iter();
            let before = before.filter(|before| before.ended <= later.began);
            let highest = before.map(|before| before.version).max().unwrap_or(0);
            assert!(
                later.version >= highest,
                "{document}: process {process} showed version {} after {highest}",
                later.version
            );
        }
    }
}
