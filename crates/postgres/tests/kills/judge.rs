//! Whether what processes have reported agrees with the document that they left.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use doclock::durable::Replica;
use doclock::{DataStore, document::check as check_document};
use doclock_postgres::{Postgres, TermOptions};

use crate::anomaly::Anomaly;
use crate::checker::{Level, check};
use crate::child::{With, durable_options};
use crate::faults::Fault;
use crate::follower::Seen;
use crate::history::{History, Key, Op, Transaction, Value};
use crate::lists;
use crate::report::{End, Report};
use crate::requester::{Asked, Told, told};
use crate::snapshots::{self, Acknowledged, Shown};

/// A document after its faults, with the reports of its processes and of its follower.
pub(crate) struct Run<'a> {
    pub(crate) document: &'a str,
    pub(crate) with: With,
    pub(crate) reports: Vec<(u64, Vec<Report>)>,
    pub(crate) seen: Vec<Seen>,
    pub(crate) asked: Vec<Asked>,
}

/// What has happened, in numbers.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    documents: usize,
    owners: usize,
    followed: usize,
    committed: usize,
    /// Of these, those that a process which did not own the document has requested.
    requested: usize,
    overlapped: usize,
    read: usize,
    shown: usize,
    fenced: usize,
    unknown: usize,
    /// Of the unknown ones, those that are in the document.
    stored: usize,
    lost: usize,
    seen: usize,
    asked: usize,
    refused: usize,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.documents += other.documents;
        self.owners += other.owners;
        self.followed += other.followed;
        self.committed += other.committed;
        self.requested += other.requested;
        self.overlapped += other.overlapped;
        self.read += other.read;
        self.shown += other.shown;
        self.fenced += other.fenced;
        self.unknown += other.unknown;
        self.stored += other.stored;
        self.lost += other.lost;
        self.seen += other.seen;
        self.asked += other.asked;
        self.refused += other.refused;
    }

    /// Whether enough has happened that a fault of the program could have shown.
    pub(crate) fn has_all_outcomes(&self, with: With, fault: Fault) -> bool {
        // A member that has lost the term waits for the outcome in the next one, and reads only
        // snapshots.
        let is_member = with == With::Member;
        let meets = match fault {
            Fault::Pause => self.lost > 0 && (is_member || self.fenced + self.unknown > 0),
            Fault::Kill => self.unknown > 0,
            Fault::Restart | Fault::Drop => true,
        };
        meets
            && match is_member {
                true => self.requested > 0 && self.requested < self.committed,
                false => self.read > 0,
            }
            && self.committed > 0
            && self.asked > 0
            && self.shown > 0
            && self.seen > 0
            && self.overlapped > 0
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} documents, {} owners ({} without loading), {} committed of which {} are requested, {} overlapped, {} read, \
             {} snapshots, \
             {} fenced, {} unknown of which {} are stored, {} terms lost, {} versions followed, \
             {} requests of which {} are refused",
            self.documents,
            self.owners,
            self.followed,
            self.committed,
            self.requested,
            self.overlapped,
            self.read,
            self.shown,
            self.fenced,
            self.unknown,
            self.stored,
            self.lost,
            self.seen,
            self.asked,
            self.refused
        )
    }
}

impl Run<'_> {
    /// Fails with what does not agree.
    pub(crate) fn judge(self, postgres: &Postgres, follower: Option<Replica>) -> Tally {
        let mut tally = Tally {
            documents: 1,
            ..Tally::default()
        };
        let (version, finals) = self.last(postgres, follower);
        self.check_requests(postgres);
        let (history, acknowledged, shown) = self.history(&finals, &mut tally);
        self.check_owners(&acknowledged, version, &mut tally);
        let anomalies = check(&history, Level::Strict);
        if let Some(last) = anomalies.last() {
            let mut shown = Vec::new();
            if let Anomaly::Cycle(cycle) = last {
                let edges = cycle.edges.iter();
                shown.extend(edges.map(|edge| &history.transactions[edge.from]));
            }
            panic!(
                "{}: {} anomalies: {}; {last}: {shown:#?}",
                self.document,
                anomalies.len(),
                anomalies[0]
            );
        }
        snapshots::check(self.document, &finals, &acknowledged, &shown);
        // The lists were made by one commit, and each other commit appended.
        let appended = history.transactions.iter().filter(|transaction| {
            let mut ops = transaction.ops.iter();
            transaction.committed && ops.any(|op| matches!(op, Op::Append { .. }))
        });
        assert_eq!(
            version,
            1 + appended.count() as u64,
            "{}: a version without its commit, or a commit without a version",
            self.document
        );
        tally.overlapped = history.overlapped();
        tally
    }

    /// Opens the document as its next owner, and returns its version and its lists. The follower
    /// and one that has just loaded have to have the same document.
    fn last(
        &self,
        postgres: &Postgres,
        follower: Option<Replica>,
    ) -> (u64, BTreeMap<Key, Vec<Value>>) {
        let document = self.document;
        let mut reader = postgres.reader(document).unwrap();
        let loaded = Replica::load(&mut reader, &durable_options()).unwrap();
        let mut follower = follower.unwrap_or_else(|| panic!("{document} was not followed"));
        follower.catch_up(&mut reader, |_| {}).unwrap();
        assert!(
            follower.snapshot() == loaded.snapshot(),
            "{document}: a follower differs"
        );
        let (term, journal) = postgres
            .acquire(document, TermOptions::new("judge"))
            .unwrap();
        let store = DataStore::open_journal(journal, durable_options()).unwrap();
        let snapshot = store.snapshot();
        assert!(
            snapshot == loaded.snapshot(),
            "{document}: the owner and a follower differ"
        );
        assert_eq!(check_document(&snapshot), Ok(()), "{document}");
        store.close().unwrap();
        term.hand_over().unwrap();
        (snapshot.version(), lists::read_all(&snapshot))
    }

    /// The history of all processes and the follower. A commit whose outcome is unknown, because
    /// it was reported as such or because its process was killed, is committed if the document has
    /// it. Nothing tells when, so it has no end.
    fn history(
        &self,
        finals: &BTreeMap<Key, Vec<Value>>,
        tally: &mut Tally,
    ) -> (History, Vec<Acknowledged>, Vec<Shown>) {
        let (mut acknowledged, mut shown) = (Vec::new(), Vec::new());
        let mut history = History {
            finals: finals.clone(),
            ..History::default()
        };
        for (process, reports) in &self.reports {
            let mut running = BTreeMap::new();
            for report in reports {
                match report {
                    Report::Began {
                        nth,
                        epoch,
                        at,
                        ops,
                    } => {
                        running.insert(*nth, (*epoch, *at, ops));
                    }
                    Report::Ended { nth, at, ops, end } => {
                        let (epoch, began, _) = running.remove(nth).unwrap();
                        let ops: Vec<Op> = ops.iter().map(Op::from).collect();
                        let mut time = Some(began..*at);
                        let committed = match end {
                            End::Committed {
                                version,
                                token,
                                token_epoch,
                            } => {
                                assert!(
                                    self.with == With::Member || *token_epoch == epoch,
                                    "{}: {report:?}",
                                    self.document
                                );
                                acknowledged.push(Acknowledged {
                                    process: *process,
                                    began,
                                    ended: *at,
                                    version: *version,
                                    token: *token,
                                    epoch: *token_epoch,
                                    is_own: *token_epoch == epoch,
                                    appends: appends(&ops),
                                });
                                tally.committed += 1;
                                tally.requested += usize::from(*token_epoch != epoch);
                                true
                            }
                            End::Read => {
                                tally.read += 1;
                                true
                            }
                            End::Showed {
                                version,
                                epoch,
                                at: began,
                                lag,
                            } => {
                                tally.shown += 1;
                                shown.push(Shown {
                                    process: *process,
                                    began: *began,
                                    ended: *at,
                                    version: *version,
                                    epoch: *epoch,
                                    lag: *lag,
                                    ops,
                                });
                                continue;
                            }
                            End::Fenced => {
                                tally.fenced += 1;
                                false
                            }
                            End::Refused => false,
                            End::Unknown => {
                                time = Some(began..u64::MAX);
                                tally.is_stored(&ops, finals)
                            }
                        };
                        history.transactions.push(Transaction {
                            process: *process as usize,
                            ops,
                            committed,
                            time,
                        });
                    }
                    Report::Wrong { what } => panic!("{}: {what}", self.document),
                    Report::Lost { .. } => tally.lost += 1,
                    Report::Owns { .. } => {}
                }
            }
            // Those of a process that was killed. What they have read was not reported.
            for (_, (_, began, ops)) in running {
                let appends = ops.iter().map(Op::from);
                let appends = appends.filter(|op| matches!(op, Op::Append { .. }));
                let ops: Vec<Op> = appends.collect();
                history.transactions.push(Transaction {
                    process: *process as usize,
                    committed: tally.is_stored(&ops, finals),
                    ops,
                    time: Some(began..u64::MAX),
                });
            }
        }
        for asked in &self.asked {
            let ops: Vec<Op> = asked.ops.iter().map(Op::from).collect();
            tally.asked += 1;
            let (committed, until) = match asked.told {
                Told::Done {
                    version,
                    token,
                    epoch,
                } => {
                    acknowledged.push(Acknowledged {
                        process: asked.machine,
                        began: asked.began,
                        ended: asked.ended,
                        version,
                        token,
                        epoch,
                        is_own: false,
                        appends: appends(&ops),
                    });
                    (true, asked.ended)
                }
                Told::Refused(_) => {
                    tally.refused += 1;
                    (false, asked.ended)
                }
                Told::Unknown => (tally.is_stored(&ops, finals), u64::MAX),
            };
            history.transactions.push(Transaction {
                process: asked.machine as usize,
                ops,
                committed,
                time: Some(asked.began..until),
            });
        }
        for (version, lists) in &self.seen {
            let read = |(key, observed): (&Key, &Vec<Value>)| Op::Read {
                key: *key,
                observed: observed.clone(),
            };
            // It does not say how old it is.
            shown.push(Shown {
                process: 0,
                began: 0,
                ended: u64::MAX,
                version: *version,
                epoch: None,
                lag: u64::MAX,
                ops: lists.iter().map(read).collect(),
            });
        }
        tally.seen += self.seen.len();
        for snapshot in &shown {
            history.transactions.push(Transaction {
                process: snapshot.process as usize,
                ops: snapshot.ops.clone(),
                committed: true,
                time: Some(snapshot.since(&acknowledged)..snapshot.ended),
            });
        }
        (history, acknowledged, shown)
    }

    /// Checks that each request has the outcome that its machine was told, and that those with a
    /// commit have run in the order of their numbers.
    fn check_requests(&self, postgres: &Postgres) {
        let requests = postgres.requests(self.document, "judge").unwrap();
        let mut versions = BTreeMap::new();
        for asked in &self.asked {
            let Some(number) = asked.number else { continue };
            let again = requests.request(number).poll();
            let again = again.transpose().and_then(told);
            assert_eq!(
                again.as_ref(),
                Some(&asked.told),
                "{}: {number}",
                self.document
            );
            if let Told::Done { version, .. } = asked.told {
                let other = versions.insert(number, version);
                assert_eq!(
                    other, None,
                    "{}: {number} was submitted twice",
                    self.document
                );
            }
        }
        let mut before = (0, 0);
        for (number, version) in versions {
            assert!(
                version > before.1,
                "{}: request {number} made version {version}, and {} made {}",
                self.document,
                before.0,
                before.1
            );
            before = (number, version);
        }
    }

    /// Checks that epochs rise, that each owner began with all that those before have acknowledged,
    /// and that versions and fencing tokens rise together.
    fn check_owners(&self, acknowledged: &[Acknowledged], last: u64, tally: &mut Tally) {
        let document = self.document;
        let (mut epochs, mut opened) = (BTreeSet::new(), BTreeMap::new());
        for (_, reports) in &self.reports {
            for report in reports {
                if let Report::Owns {
                    epoch,
                    version,
                    followed,
                } = report
                {
                    assert!(
                        epochs.insert(*epoch),
                        "{document}: two owners have epoch {epoch}"
                    );
                    opened.extend(version.map(|version| (*epoch, version)));
                    tally.owners += 1;
                    tally.followed += usize::from(*followed);
                }
            }
        }
        let mut before = (0, 0);
        for (epoch, version) in &opened {
            assert!(
                before.1 <= *version,
                "{document}: the owner of epoch {epoch} began with version {version}, and that of \
                 epoch {} with {}",
                before.0,
                before.1
            );
            before = (*epoch, *version);
        }
        let mut by_version: BTreeMap<u64, &Acknowledged> = BTreeMap::new();
        for commit in acknowledged {
            let other = by_version.insert(commit.version, commit);
            assert!(
                other.is_none(),
                "{document}: two commits of {}",
                commit.version
            );
            let Some(began) = opened.get(&commit.epoch) else {
                assert_eq!(self.with, With::Member, "{document}: {}", commit.version);
                continue;
            };
            let mut later = opened.range(commit.epoch + 1..);
            let end = later.next().map_or(last, |(_, version)| *version);
            assert!(
                *began < commit.version && commit.version <= end,
                "{document}: version {} was acknowledged in epoch {}, which began with version \
                 {began}, and the next owner began with version {end}",
                commit.version,
                commit.epoch
            );
        }
        let (mut token, mut epoch) = (0, 0);
        for commit in by_version.values() {
            assert!(
                commit.token > token && commit.epoch >= epoch,
                "{document}: version {} has token {} of epoch {}, after {token} of {epoch}",
                commit.version,
                commit.token,
                commit.epoch
            );
            (token, epoch) = (commit.token, commit.epoch);
        }
    }
}

fn appends(ops: &[Op]) -> Vec<(Key, Value)> {
    let append = |op: &Op| match op {
        Op::Append { key, value } => Some((*key, *value)),
        Op::Read { .. } => None,
    };
    ops.iter().filter_map(append).collect()
}

impl Tally {
    /// Whether the document has a commit of which nothing else is known.
    fn is_stored(&mut self, ops: &[Op], finals: &BTreeMap<Key, Vec<Value>>) -> bool {
        let mut ops = ops.iter().filter_map(|op| match op {
            Op::Append { key, value } => Some(finals[key].contains(value)),
            Op::Read { .. } => None,
        });
        // The checker finds a commit of which the document has a part.
        let Some(first) = ops.next() else {
            return false;
        };
        let is_stored = ops.fold(first, |any, has| any || has);
        self.unknown += 1;
        self.stored += usize::from(is_stored);
        is_stored
    }
}
