//! One document after another, each with three processes and a follower.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use doclock_postgres::Postgres;
use rustix::process::Signal;

use crate::child::With;
use crate::dice::Dice;
use crate::faults::{Fault, SETTINGS};
use crate::follower::Follower;
use crate::judge::{Run, Tally};
use crate::process::Process;
use crate::proxy::{self, Proxy};
use crate::report::Report;
use crate::requester::Requesters;
use crate::server::Server;
use crate::support;

/// How many processes a document has.
const PROCESSES: usize = 3;

/// How many faults a document has at most, so that its history is short enough to be checked.
const FAULTS: u64 = 15;

/// How long a step may take. A machine with little to spare needs some of it.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Lane<'a> {
    server: &'a Server,
    with: With,
    fault: Fault,
    number: u64,
    dice: Dice,
}

/// A document with its processes.
struct Segment {
    with: With,
    document: String,
    parameters: String,
    processes: Vec<Process>,
    /// The number of the next process.
    next: u64,
    /// The reports of processes that have ended, with their numbers.
    ended: Vec<(u64, Vec<Report>)>,
    /// The highest version that a process which was killed has acknowledged.
    acknowledged: u64,
}

impl<'a> Lane<'a> {
    pub(crate) fn new(
        server: &'a Server,
        (with, fault): (With, Fault),
        number: u64,
        seed: u64,
    ) -> Self {
        Self {
            server,
            with,
            fault,
            number,
            dice: Dice(seed),
        }
    }

    /// Takes faults from those that are left, until there are none or another lane has failed.
    pub(crate) fn run(
        mut self,
        left: &AtomicU64,
        most: u64,
        add: impl Fn(Tally),
        fails: impl Fn() -> bool,
    ) {
        let parameters = self.server.parameters();
        let postgres = support::connect(&parameters);
        for nth in 0.. {
            let most = most.clamp(1, FAULTS);
            let take = |left: u64| Some(left - left.min(most));
            let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
            let faults = before.unwrap().min(most);
            if faults == 0 || fails() {
                return;
            }
            let document = format!("{:?} {:?} {} {nth}", self.with, self.fault, self.number);
            add(self.segment(&postgres, &parameters, document, faults));
        }
    }

    fn segment(
        &mut self,
        postgres: &Postgres,
        parameters: &str,
        document: String,
        faults: u64,
    ) -> Tally {
        let proxied = (self.fault == Fault::Drop).then(|| Proxy::start(parameters));
        let (proxy, of_processes) = match proxied {
            Some((proxy, parameters)) => (Some(proxy), parameters),
            None => (None, parameters.to_owned()),
        };
        let mut segment = Segment {
            with: self.with,
            document,
            parameters: of_processes,
            processes: Vec::new(),
            next: 1,
            ended: Vec::new(),
            acknowledged: 0,
        };
        for _ in 0..PROCESSES {
            segment.start();
        }
        let follower = Follower::start(postgres, &segment.document);
        // Requests need the lists, which the first owner makes.
        segment.owner(0, 1);
        let requesters = Requesters::start(postgres, &segment.document, &mut self.dice);
        let mut after = 0;
        for _ in 0..faults {
            let commits = 1 + self.dice.below(10);
            let owner = segment.owner(after, commits);
            // Not to get an order, but for a random moment.
            thread::sleep(Duration::from_micros(self.dice.below(15_000) as u64));
            after = self.happen(&mut segment, owner, proxy.as_ref());
            segment.check_log(parameters);
        }
        // The last fault is survived too.
        segment.owner(after, 3);
        let asked = requesters.end();
        for process in std::mem::take(&mut segment.processes) {
            let number = process.number;
            segment.ended.push((number, process.end()));
        }
        if let Some(proxy) = proxy {
            proxy.set_down(true);
        }
        let (replica, seen) = follower.end();
        Run {
            document: &segment.document,
            with: self.with,
            reports: segment.ended,
            seen,
            asked,
        }
        .judge(postgres, replica)
    }

    /// Lets the fault happen to the owner with this index. Returns the epoch after which the next
    /// owner has to be.
    fn happen(&mut self, segment: &mut Segment, owner: usize, proxy: Option<&Proxy>) -> u64 {
        let epoch = segment.processes[owner]
            .epoch()
            .map_or(0, |(epoch, _)| epoch);
        match self.fault {
            Fault::Kill => {
                let killed = segment.processes.remove(owner);
                segment.acknowledged = segment.acknowledged.max(killed.acknowledged());
                let number = killed.number;
                segment.ended.push((number, killed.kill()));
                segment.start();
            }
            Fault::Pause => {
                segment.processes[owner].signal(Signal::STOP);
                segment.owner(epoch, 1 + self.dice.below(3));
                segment.processes[owner].signal(Signal::CONT);
            }
            Fault::Restart => {
                if self.dice.one_in(2) {
                    self.server.crash();
                    self.server.run(SETTINGS);
                } else {
                    self.server.kill();
                    self.server.run_after_kill(SETTINGS);
                }
                // The term may have survived it.
                return epoch - 1;
            }
            Fault::Drop => {
                let proxy = proxy.unwrap();
                let before = proxy.met();
                let fault = [
                    proxy::Fault::LosesAnswer,
                    proxy::Fault::LosesStatement,
                    proxy::Fault::CutsStatement,
                ];
                proxy.next(fault[self.dice.below(3)], support::APPEND);
                segment.wait("an append is cut", |_| proxy.met() > before);
                return epoch - 1;
            }
        }
        epoch
    }
}

impl Segment {
    fn start(&mut self) {
        let process = Process::start(self.with, &self.parameters, &self.document, self.next);
        self.next += 1;
        self.processes.push(process);
    }

    /// Waits for an owner with a later epoch that has committed so often since now, and returns
    /// its index.
    fn owner(&self, after: u64, commits: usize) -> usize {
        let before: Vec<_> = self.processes.iter().map(Process::epoch).collect();
        let mut found = None;
        self.wait("an owner commits", |segment| {
            let epochs = segment.processes.iter().map(Process::epoch).enumerate();
            let last = epochs.max_by_key(|(_, of)| of.map(|(epoch, _)| epoch));
            let Some((at, Some((epoch, committed)))) = last else {
                return false;
            };
            let since = match before[at] {
                Some((of, committed)) if of == epoch => committed,
                _ => 0,
            };
            found = Some(at);
            epoch > after && committed >= since + commits
        });
        found.unwrap()
    }

    #[track_caller]
    fn wait(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self) {
            if Instant::now() > deadline {
                let last = self.processes.iter().map(|process| process.last(3));
                let last: Vec<_> = last.collect();
                panic!("{}: {PATIENCE:?} without: {what}: {last:#?}", self.document);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Checks the log after a fault: epochs never fall, versions are dense, and what was
    /// acknowledged before is there.
    fn check_log(&self, parameters: &str) {
        let acknowledged = self.processes.iter().map(Process::acknowledged).max();
        let acknowledged = acknowledged.unwrap_or(0).max(self.acknowledged);
        let document = &self.document;
        let statement = "SELECT number, epoch, first_version, last_version
            FROM doclock.doclock_log WHERE document = $1 ORDER BY number";
        let rows = support::sql(parameters)
            .query(statement, &[document])
            .unwrap();
        let rows: Vec<[i64; 4]> = rows
            .iter()
            .map(|row| [row.get(0), row.get(1), row.get(2), row.get(3)])
            .collect();
        for pair in rows.windows(2) {
            let [before, row] = [pair[0], pair[1]];
            let is_dense =
                row[0] == before[0] + 1 && row[2] == before[3] + 1 && row[3] + 1 >= row[2];
            assert!(
                is_dense && row[1] >= before[1],
                "{document}: block, epoch and versions {before:?}, and then {row:?}"
            );
        }
        if let Some([number, _, _, last]) = rows.last() {
            assert!(
                *last >= acknowledged as i64,
                "{document}: the last block {number} has version {last}, and {acknowledged} was \
                 acknowledged"
            );
        }
    }
}
