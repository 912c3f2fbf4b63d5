//! A model of how two processes own one document in turn, with PostgreSQL underneath.
//!
//! It has one document, two processes that acquire, renew, append, hand over and lose the lease,
//! a follower, and machines that insert requests. It does not know what a document is: a commit is
//! a number. Every order of steps is explored, to the end, within [`Bounds`].
//!
//! # Steps
//!
//! A statement takes three steps: a process sends it, the server executes it, the reply arrives.
//! The server takes two for an append, because its clock moves while the append waits for a lock.
//! Between any two steps time passes ([`Action::Tick`]), a process crashes and restarts without
//! memory, a connection ends, a standby is promoted. A process that takes no step while the clock
//! moves is paused. A statement whose caller is gone stays in [`State::strays`], and the server may
//! execute it at any later time, or never.
//!
//! # Time
//!
//! The lease row has the time that is left by the server's clock. An owner has the time that is
//! left of its window by its own monotonic clock, which can be slow by the margin. Wall clocks of
//! the processes do not occur.
//!
//! # Where to read on
//!
//! `state.rs` has the tables and what a process knows, `server.rs` the rules of each statement,
//! `process.rs` what an owner does, and [`Protocol::properties`](Model::properties) what must hold.
//! [`Fault`] changes one rule, and the tests show that a property then fails.
//!
//! # Running
//!
//! `cargo test -p doclock-postgres-model -- --nocapture` explores six sets of bounds without a
//! fault, and each fault. It prints the number of states, how often each [`Event`] occurred, and
//! the steps that lead to the violation of a property. The profile `dev` optimizes this package.
//!
//! # What is left out
//!
//! - A process has one statement on its way at a time.
//! - A block has one commit. A statement is atomic, so more would not add an order of steps.
//! - Receipts. They also prevent a second run of a request, but doclock keeps them for a bounded
//!   time. So the model shows that the statements suffice.
//! - A standby that lacks acknowledged commits, because it is asynchronous. It can lack the last
//!   change of the lease.
//! - Checkpoints, and the cut of the log.

mod fault;
mod process;
mod server;
mod state;

use std::sync::atomic::{AtomicU64, Ordering};

use stateright::{Model, Property};

pub use fault::Fault;
pub use state::*;

/// One step. A `usize` is the process that takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// All clocks advance, except that of the process named.
    Tick {
        slow: Option<usize>,
    },
    /// The standby is promoted. It may lack the last change of the lease.
    Failover {
        lost: bool,
    },
    /// A machine inserts a request.
    Insert,
    /// A request becomes visible after its number was drawn, under a fault.
    Show(usize),
    /// The machine of a request cancels it, or its deadline passes.
    Cancel(usize),
    /// The follower applies a row.
    Follow,
    /// The server executes a statement whose caller is gone.
    Stray(usize),
    Acquire(usize),
    Renew(usize),
    HandOver(usize),
    RunLocal(usize),
    RunRequest(usize),
    LookUp(usize),
    /// The caller of an unknown commit finds out whether it is stored, and requests it if it is
    /// not.
    Ask,
    StepDown(usize),
    /// The server executes the statement of a process.
    Execute(usize),
    /// The reply arrives.
    Receive(usize),
    /// The connection ends.
    Lose(usize),
    Crash(usize),
}

/// A situation that an exploration has to reach, or its properties would show little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    TakeoverFromPausedOwner,
    HandOver,
    /// A connection ended after the append, before its reply arrived.
    LandedWithoutReply,
    /// A reply said that the append landed, when the window had ended.
    LandedAfterWindow,
    LookupFound,
    LookupFoundNothing,
    FencedAppend,
    /// One copy of an append was fenced, and another had landed.
    FencedAfterLanding,
    /// An append met an expired lease that no other owner had acquired.
    FencedByExpiry,
    /// An append waited for the lock of the lease until this had expired, and landed.
    AppendAfterExpiry,
    /// The primary key refused an append.
    VersionTaken,
    /// A request was cancelled or answered between the read and the append.
    RequestSettledBefore,
    /// A request that one owner ran without success was run by another.
    RequestContinued,
    /// A failover lost the last change of the lease.
    LeaseChangeLost,
    /// The next term began with an unknown commit, or with an earlier version.
    FoundStored,
    Repeated,
}

impl Event {
    pub const ALL: [Event; 16] = [
        Event::TakeoverFromPausedOwner,
        Event::HandOver,
        Event::LandedWithoutReply,
        Event::LandedAfterWindow,
        Event::LookupFound,
        Event::LookupFoundNothing,
        Event::FencedAppend,
        Event::FencedAfterLanding,
        Event::FencedByExpiry,
        Event::AppendAfterExpiry,
        Event::VersionTaken,
        Event::RequestSettledBefore,
        Event::RequestContinued,
        Event::LeaseChangeLost,
        Event::FoundStored,
        Event::Repeated,
    ];
}

/// The protocol, with at most one fault.
#[derive(Debug)]
pub struct Protocol {
    bounds: Bounds,
    fault: Option<Fault>,
    /// How often each event occurred. No part of a state, which it would multiply.
    reached: [AtomicU64; Event::ALL.len()],
}

impl Protocol {
    /// Returns the protocol as it is meant to be.
    pub fn new(bounds: Bounds) -> Protocol {
        Protocol {
            bounds,
            fault: None,
            reached: Default::default(),
        }
    }

    /// Returns the protocol with one wrong rule.
    pub fn with_fault(bounds: Bounds, fault: Fault) -> Protocol {
        Protocol {
            fault: Some(fault),
            ..Protocol::new(bounds)
        }
    }

    /// Returns how many steps so far were such an event.
    pub fn reached(&self, event: Event) -> u64 {
        self.reached[event as usize].load(Ordering::Relaxed)
    }

    fn reach(&self, event: Event) {
        self.reached[event as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn tick(&self, state: &mut State, slow: Option<usize>) {
        let server = &mut state.server;
        for lease in [Some(&mut server.lease), server.standby.as_mut()]
            .into_iter()
            .flatten()
        {
            lease.left = lease.left.saturating_sub(1);
        }
        for (at, process) in state.processes.iter_mut().enumerate() {
            if slow == Some(at) {
                state.left.slow_ticks -= 1;
                continue;
            }
            if let Some(term) = &mut process.term {
                term.window = term.window.saturating_sub(1);
            }
            if let Some(call) = &mut process.call
                && call.is_timed()
            {
                call.since = WINDOW.min(call.since + 1);
            }
        }
    }

    /// Whether the append of an earlier owner for the same request is still on its way.
    fn is_continued(&self, state: &State, at: usize) -> bool {
        let Some(Call {
            statement: Statement::Append { row: mine },
            ..
        }) = state.processes[at].call
        else {
            return false;
        };
        state.strays.iter().any(|stray| {
            matches!(stray, Statement::Append { row } | Statement::Insert { row }
                if row.work == mine.work && row.epoch < mine.epoch)
        })
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self.bounds)]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Action>) {
        let is_timed = |process: &Process| {
            process.term.is_some_and(|term| term.window > 0)
                || process
                    .call
                    .is_some_and(|call| call.is_timed() && call.since < WINDOW)
        };
        if state.server.lease.left > 0 || state.processes.iter().any(is_timed) {
            steps.push(Action::Tick { slow: None });
        }
        for (at, process) in state.processes.iter().enumerate() {
            if state.left.slow_ticks > 0 && is_timed(process) {
                steps.push(Action::Tick { slow: Some(at) });
            }
            self.steps(state, at, steps);
        }
        if state.left.failovers > 0 {
            steps.push(Action::Failover { lost: false });
            if state.server.standby.is_some() {
                steps.push(Action::Failover { lost: true });
            }
        }
        let inserted = |request: &&Request| request.repeats.is_none();
        let inserted = state.server.requests.iter().filter(inserted).count();
        if inserted < usize::from(self.bounds.requests) {
            steps.push(Action::Insert);
        }
        for (at, request) in state.server.requests.iter().enumerate() {
            if !request.visible {
                steps.push(Action::Show(at));
            } else if request.outcome.is_none() && state.left.cancels > 0 {
                steps.push(Action::Cancel(at));
            }
        }
        if state
            .unknown
            .is_some_and(|row| self.is_stored(state, row).is_some())
        {
            steps.push(Action::Ask);
        }
        if state.follower.len() < state.server.log.len() {
            steps.push(Action::Follow);
        }
        steps.extend((0..state.strays.len()).map(Action::Stray));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        let state = &mut next;
        match action {
            Action::Tick { slow } => self.tick(state, slow),
            Action::Failover { lost } => {
                state.left.failovers -= 1;
                state.server.timeline += 1;
                let standby = state.server.standby.take();
                if lost {
                    self.reach(Event::LeaseChangeLost);
                    state.server.lease = standby?;
                }
            }
            Action::Insert => {
                let visible = !self.has(Fault::NumberFromSequence);
                state.server.requests.push(Request {
                    visible,
                    outcome: None,
                    repeats: None,
                });
            }
            Action::Show(at) => state.server.requests[at].visible = true,
            Action::Cancel(at) => {
                state.left.cancels -= 1;
                state.server.requests[at].outcome = Some(Outcome::Cancelled);
            }
            Action::Follow => {
                let newest = self.has(Fault::NewestRowApplied);
                let at = if newest {
                    state.server.log.len() - 1
                } else {
                    state.follower.len()
                };
                state.follower.push(state.server.log[at]);
            }
            Action::Stray(at) => {
                let statement = state.strays.remove(at);
                if self.execute(state, statement).is_none()
                    && let Statement::Append { row } = statement
                {
                    self.stray(state, Statement::Insert { row });
                }
            }
            Action::Acquire(at) => self.send(state, at, Statement::Acquire),
            Action::Renew(at) => {
                let epoch = state.processes[at].term?.epoch;
                self.send(state, at, Statement::Renew { epoch });
            }
            Action::HandOver(at) => self.hand_over(state, at),
            Action::RunLocal(at) => {
                let number = u8::try_from(state.history.told.len()).ok()?;
                self.run(state, at, Some(Work::Local(number)));
            }
            Action::RunRequest(at) => {
                self.run(state, at, None);
                if self.is_continued(state, at) {
                    self.reach(Event::RequestContinued);
                }
            }
            Action::LookUp(at) => self.look_up(state, at),
            Action::Ask => self.ask(state),
            Action::StepDown(at) => self.step_down(state, at),
            Action::Execute(at) => {
                let mut call = state.processes[at].call?;
                match (self.execute(state, call.statement), call.statement) {
                    (None, Statement::Append { row }) => call.statement = Statement::Insert { row },
                    (reply, _) => call.reply = reply,
                }
                state.processes[at].call = Some(call);
            }
            Action::Receive(at) => self.receive(state, at),
            Action::Lose(at) => {
                state.left.losses -= 1;
                self.lose(state, at);
            }
            Action::Crash(at) => {
                state.left.crashes -= 1;
                // The callers of the process are gone with it.
                let unknown = state.unknown;
                self.step_down(state, at);
                state.unknown = unknown;
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a stale owner appends nothing", |_, state: &State| {
                !state.history.stale_append
            }),
            Property::always(
                "an owner with an open window has the lease",
                |_, state: &State| {
                    let lease = state.server.lease;
                    state
                        .processes
                        .iter()
                        .filter_map(|process| process.term)
                        .all(|term| {
                            let is_open =
                                term.window > 0 && term.epoch.timeline == state.server.timeline;
                            !is_open || lease.epoch == term.epoch && lease.left > 0
                        })
                },
            ),
            Property::always(
                "no acknowledgement without the lease",
                |_, state: &State| !state.history.late_acknowledgement,
            ),
            Property::always("versions are dense", |_, state: &State| {
                (1..)
                    .zip(&state.server.log)
                    .all(|(version, row)| row.version == version)
            }),
            Property::always("epochs only rise", |_, state: &State| {
                !state.history.epoch_returned && state.server.log.is_sorted_by_key(|row| row.epoch)
            }),
            Property::always(
                "an acknowledged commit is in the log",
                |_, state: &State| all_told(state, Told::Acknowledged, |times| times == 1),
            ),
            Property::always("a fenced commit is not in the log", |_, state: &State| {
                all_told(state, Told::Fenced, |times| times == 0)
            }),
            Property::always("nothing runs twice", |_, state: &State| {
                state
                    .server
                    .log
                    .iter()
                    .all(|row| times(state, effect(state, row.work)) == 1)
            }),
            Property::always(
                "a request has one outcome, that of the log",
                |_, state: &State| !state.history.outcome_changed && outcomes_agree(state),
            ),
            Property::always(
                "requests run in the order of their numbers",
                |_, state: &State| {
                    let requests = state.server.log.iter().filter_map(|row| match row.work {
                        Work::Request(number) => Some(number),
                        Work::Local(_) => None,
                    });
                    requests.is_sorted()
                },
            ),
            Property::always(
                "the follower has a prefix of the log",
                |_, state: &State| state.server.log.starts_with(&state.follower),
            ),
        ]
    }
}

fn times(state: &State, work: Work) -> usize {
    state
        .server
        .log
        .iter()
        .filter(|row| effect(state, row.work) == work)
        .count()
}

/// The work itself: a request can repeat that of a local caller.
fn effect(state: &State, work: Work) -> Work {
    let repeated = match work {
        Work::Request(number) => state.server.requests[usize::from(number) - 1].repeats,
        Work::Local(_) => None,
    };
    repeated.map_or(work, Work::Local)
}

/// Whether each local commit whose caller was told so is in the log as often as it may be.
fn all_told(state: &State, told: Told, may: fn(usize) -> bool) -> bool {
    (0..)
        .zip(&state.history.told)
        .all(|(number, what)| *what != Some(told) || may(times(state, Work::Local(number))))
}

/// Whether the outcome of each request says what the log says.
fn outcomes_agree(state: &State) -> bool {
    (1..).zip(&state.server.requests).all(|(number, request)| {
        let work = Work::Request(number);
        let mut rows = state.server.log.iter().filter(|row| row.work == work);
        match request.outcome {
            Some(Outcome::Done(version)) => rows.any(|row| row.version == version),
            Some(Outcome::Cancelled) | None => rows.next().is_none(),
        }
    })
}
