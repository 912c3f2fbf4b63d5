//! What a process does: it acquires the lease, loads, appends, renews, looks up and steps down.

use crate::state::{
    Begun, Call, Doubt, Epoch, Process, Reply, Request, Row, State, Statement, Task, Term, Told,
    WINDOW, Work,
};
use crate::{Action, Event, Fault, Protocol};

impl Protocol {
    /// The next steps of a process. A paused one takes none of them.
    pub(crate) fn steps(&self, state: &State, at: usize, steps: &mut Vec<Action>) {
        let Process { term, call } = state.processes[at];
        if state.left.crashes > 0 && (term.is_some() || call.is_some()) {
            steps.push(Action::Crash(at));
        }
        if let Some(term) = term
            && (term.window == 0 || !self.is_current(state.server.timeline, term.epoch))
        {
            steps.push(Action::StepDown(at));
        }
        if let Some(call) = call {
            steps.push(match call.reply {
                None => Action::Execute(at),
                Some(_) => Action::Receive(at),
            });
            if state.left.losses > 0 {
                steps.push(Action::Lose(at));
            }
            return;
        }
        let Some(term) = term else {
            // A candidate that asks earlier gets nothing, or a shorter window.
            if self.has_expired(state.server.timeline, state.server.lease)
                && state.server.lease.epoch.counter < self.bounds.epochs
            {
                steps.push(Action::Acquire(at));
            }
            return;
        };
        if let Task::Doubtful(_, doubt) = term.task
            && (doubt == Doubt::Fenced || self.is_current(state.server.timeline, term.epoch))
        {
            steps.push(Action::LookUp(at));
        }
        if !self.is_current(state.server.timeline, term.epoch) {
            return;
        }
        if term.window < WINDOW {
            steps.push(Action::Renew(at));
        }
        if term.task == Task::Idle && term.window > 0 {
            steps.push(Action::HandOver(at));
            if state.history.told.len() < usize::from(self.bounds.locals) {
                steps.push(Action::RunLocal(at));
            }
            if self.first_pending(state).is_some() {
                steps.push(Action::RunRequest(at));
            }
        }
    }

    /// The pending request with the lowest number.
    fn first_pending(&self, state: &State) -> Option<u8> {
        let pending = |request: &Request| request.visible && request.outcome.is_none();
        let position = state.server.requests.iter().position(pending)?;
        u8::try_from(position + 1).ok()
    }

    pub(crate) fn send(&self, state: &mut State, at: usize, statement: Statement) {
        state.processes[at].call = Some(Call {
            statement,
            since: 0,
            reply: None,
        });
    }

    /// Forgets the call. What was sent can still reach the server.
    fn abandon(&self, state: &mut State, at: usize) -> Option<Statement> {
        let call = state.processes[at].call.take()?;
        if call.reply.is_none() {
            self.stray(state, call.statement);
        }
        Some(call.statement)
    }

    pub(crate) fn stray(&self, state: &mut State, statement: Statement) {
        state.strays.push(statement);
        state.strays.sort();
    }

    /// Forgets the document. The outcome of a commit that is on its way is unknown.
    pub(crate) fn step_down(&self, state: &mut State, at: usize) {
        self.abandon(state, at);
        let term = state.processes[at].term.take();
        if state.left.callers > 0
            && let Some(Term {
                epoch,
                version,
                task:
                    Task::Sent(work @ Work::Local(local)) | Task::Doubtful(work @ Work::Local(local), _),
                ..
            }) = term
            && state.history.told[usize::from(local)].is_none()
        {
            state.left.callers -= 1;
            state.unknown = Some(Row {
                version: version + 1,
                epoch,
                work,
            });
        }
    }

    /// Whether a commit of a term that has ended is stored. `None` if that is not certain yet.
    pub(crate) fn is_stored(&self, state: &State, row: Row) -> Option<bool> {
        let next = |begun: &&Begun| begun.follows <= row.epoch && row.epoch < begun.epoch;
        let next = state.server.begun.iter().find(next);
        let in_log = state.server.log.contains(&row);
        match next {
            _ if self.has(Fault::RepeatedAtOnce) => Some(false),
            Some(next) => Some(next.version >= row.version),
            None => (in_log || self.has(Fault::RepeatedBeforeNextTerm)).then_some(in_log),
        }
    }

    /// The caller of an unknown commit returns its result, or requests its batch.
    pub(crate) fn ask(&self, state: &mut State) {
        let row = state.unknown.expect("a caller waits");
        let Work::Local(local) = row.work else { return };
        match self.is_stored(state, row) {
            Some(true) => {
                self.reach(Event::FoundStored);
                state.history.told[usize::from(local)] = Some(Told::Acknowledged);
            }
            Some(false) => {
                self.reach(Event::Repeated);
                state.server.requests.push(Request {
                    visible: true,
                    outcome: None,
                    repeats: Some(local),
                });
            }
            None => return,
        }
        state.unknown = None;
    }

    /// Records the version with which a term begins: its first write, which is fenced.
    fn begin(&self, state: &mut State, epoch: Epoch, version: u8) {
        let server = &mut state.server;
        let begins = self.bounds.callers > 0
            && server.lease.epoch == epoch
            && self.is_current(server.timeline, epoch);
        if begins {
            let zero = Epoch {
                timeline: 0,
                counter: 0,
            };
            let follows = server.begun.last().map_or(zero, |begun| begun.epoch);
            server.begun.push(Begun {
                epoch,
                follows,
                version,
            });
        }
    }

    pub(crate) fn run(&self, state: &mut State, at: usize, work: Option<Work>) {
        let work = work.unwrap_or_else(|| {
            Work::Request(
                self.first_pending(state)
                    .expect("the action has a pending request"),
            )
        });
        if let Work::Local(_) = work {
            state.history.told.push(None);
        }
        self.append(state, at, work);
    }

    fn append(&self, state: &mut State, at: usize, work: Work) {
        let term = state.processes[at].term.as_mut().expect("an owner appends");
        let version = term.version + 1;
        term.task = Task::Sent(work);
        let row = Row {
            version,
            epoch: term.epoch,
            work,
        };
        self.send(state, at, Statement::Append { row });
    }

    /// Hands over: the window ends before the statement is sent.
    pub(crate) fn hand_over(&self, state: &mut State, at: usize) {
        let term = state.processes[at]
            .term
            .take()
            .expect("an owner hands over");
        self.stray(state, Statement::HandOver { epoch: term.epoch });
    }

    /// A connection ends.
    pub(crate) fn lose(&self, state: &mut State, at: usize) {
        if state.processes[at]
            .call
            .is_some_and(|call| call.reply == Some(Reply::Inserted))
        {
            self.reach(Event::LandedWithoutReply);
        }
        let statement = self.abandon(state, at);
        let Some(term) = &mut state.processes[at].term else {
            return;
        };
        match (statement, term.task) {
            (Some(Statement::Settle { .. }), _) => term.task = Task::Idle,
            (_, Task::Sent(work)) => term.task = Task::Doubtful(work, Doubt::Lost),
            _ => {}
        }
    }

    /// A reply arrives.
    pub(crate) fn receive(&self, state: &mut State, at: usize) {
        let call = state.processes[at]
            .call
            .take()
            .expect("a reply belongs to a call");
        // From the start of the attempt: the server's term begins later, and ends later.
        let anchored = self.has(Fault::AnchorAtEnd);
        let window = if anchored {
            WINDOW
        } else {
            WINDOW - call.since
        };
        let term = &mut state.processes[at].term;
        match (call.reply.expect("a reply has arrived"), call.statement) {
            (Reply::Acquired(epoch), _) => {
                // The acquisition waited for the last append, so the log that it loads is whole.
                let version = state.server.log.last().map_or(0, |row| row.version);
                *term = Some(Term {
                    epoch,
                    window,
                    version,
                    task: Task::Idle,
                });
                self.begin(state, epoch, version);
            }
            (Reply::Renewed, _) => term.as_mut().expect("an owner renews").window = window,
            (Reply::Inserted, Statement::Append { row } | Statement::Insert { row }) => {
                self.landed(state, at, row);
            }
            (Reply::Refused(doubt), _) => {
                let Some(term) = term else { return };
                let Task::Sent(work) = term.task else { return };
                term.task = Task::Doubtful(work, doubt);
                if doubt == Doubt::Fenced && self.has(Fault::FencedWithoutLookup) {
                    self.fenced(state, at, work);
                }
            }
            (_, Statement::Renew { .. }) => self.step_down(state, at),
            (_, Statement::Settle { .. }) => {
                if let Some(term) = term {
                    term.task = Task::Idle;
                }
            }
            _ => {}
        }
    }

    /// Reads what the log has under the version of an append whose outcome is in doubt.
    pub(crate) fn look_up(&self, state: &mut State, at: usize) {
        let term = state.processes[at]
            .term
            .as_mut()
            .expect("an owner looks up");
        let Task::Doubtful(work, doubt) = term.task else {
            return;
        };
        let version = term.version + 1;
        let row = Row {
            version,
            epoch: term.epoch,
            work,
        };
        if doubt == Doubt::Lost && self.has(Fault::GuessedDone) {
            return self.landed(state, at, row);
        }
        if doubt == Doubt::Lost && self.has(Fault::GuessedLost) {
            term.version = version;
            return self.append(state, at, work);
        }
        let is_untaken = state.server.lease.epoch == term.epoch
            && self.is_current(state.server.timeline, term.epoch);
        let found = state
            .server
            .log
            .iter()
            .find(|other| other.version == version);
        match (found, doubt) {
            (Some(found), Doubt::Fenced) if *found == row => {
                self.reach(Event::FencedAfterLanding);
                self.step_down(state, at);
            }
            (Some(found), _) if *found == row => {
                self.reach(Event::LookupFound);
                self.landed(state, at, row);
            }
            (None, Doubt::Lost) => {
                self.reach(Event::LookupFoundNothing);
                self.append(state, at, work);
            }
            (None, Doubt::Settled) => term.task = Task::Idle,
            // It has expired, and no other owner has begun: a copy of the append that waits for the
            // lock can land.
            (None, Doubt::Fenced) if is_untaken && !self.has(Fault::FencedByExpiry) => {
                self.reach(Event::FencedByExpiry);
                self.step_down(state, at);
            }
            // The version is another's, or the lease is: no copy of the append can land any more.
            _ => self.fenced(state, at, work),
        }
    }

    /// The commit changed nothing, and never will.
    fn fenced(&self, state: &mut State, at: usize, work: Work) {
        if let Work::Local(local) = work {
            state.history.told[usize::from(local)] = Some(Told::Fenced);
        }
        self.step_down(state, at);
    }

    /// The commit is in the log. Its caller is told so if the window is open.
    fn landed(&self, state: &mut State, at: usize, row: Row) {
        let term = state.processes[at]
            .term
            .as_mut()
            .expect("an owner appended");
        term.version = row.version;
        term.task = Task::Idle;
        let lease = state.server.lease;
        match row.work {
            Work::Local(local) if term.window > 0 || self.has(Fault::NoWindowCheck) => {
                state.history.told[usize::from(local)] = Some(Told::Acknowledged);
                state.history.late_acknowledgement |= lease.epoch != row.epoch || lease.left == 0;
            }
            Work::Local(_) => self.reach(Event::LandedAfterWindow),
            Work::Request(_) if self.has(Fault::ResultOutside) => {
                term.task = Task::Sent(row.work);
                self.send(state, at, Statement::Settle { row });
            }
            Work::Request(_) => {}
        }
    }
}
