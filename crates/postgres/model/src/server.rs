//! What the server does with each statement: the rules that the SQL of the package has.

use crate::state::{Doubt, Epoch, Lease, Outcome, Reply, Row, State, Statement, TERM, Work};
use crate::{Event, Fault, Protocol};

impl Protocol {
    /// Executes a statement as one step. `None`: an append takes a second one.
    pub(crate) fn execute(&self, state: &mut State, statement: Statement) -> Option<Reply> {
        let before = (state.server.lease, state.server.log.len());
        let reply = self.statement(state, statement);
        let (lease, log) = (state.server.lease, state.server.log.len());
        if before.1 != log || state.left.failovers == 0 {
            state.server.standby = None;
        } else if before.0 != lease {
            state.server.standby = Some(before.0);
        }
        if before.0.epoch != lease.epoch {
            state.history.epoch_returned |= lease.epoch <= state.history.highest_epoch;
            state.history.highest_epoch = state.history.highest_epoch.max(lease.epoch);
        }
        reply
    }

    fn statement(&self, state: &mut State, statement: Statement) -> Option<Reply> {
        let server = &mut state.server;
        let lease = &mut server.lease;
        Some(match statement {
            // UPDATE lease SET epoch = epoch + 1, expires_at = now + term WHERE expires_at < now
            Statement::Acquire => {
                if !self.has_expired(server.timeline, *lease)
                    || lease.epoch.counter == self.bounds.epochs
                {
                    return Some(Reply::Nothing);
                }
                if state.processes.iter().any(|process| process.term.is_some()) {
                    self.reach(Event::TakeoverFromPausedOwner);
                }
                lease.epoch.counter += 1;
                if !self.has(Fault::TimelineIgnored) {
                    lease.epoch.timeline = server.timeline;
                }
                lease.left = TERM;
                Reply::Acquired(lease.epoch)
            }
            // UPDATE lease SET expires_at = now + term WHERE epoch = $1 AND expires_at > now
            Statement::Renew { epoch } => {
                if self.has(Fault::UpsertOnRenewal) {
                    *lease = Lease { epoch, left: TERM };
                    return Some(Reply::Renewed);
                }
                let mine = lease.epoch == epoch || self.has(Fault::RenewByName);
                if !mine || lease.left == 0 || !self.is_current(server.timeline, epoch) {
                    return Some(Reply::Nothing);
                }
                lease.left = TERM;
                Reply::Renewed
            }
            // UPDATE lease SET expires_at = now WHERE epoch = $1 AND expires_at > now
            Statement::HandOver { epoch } => {
                if lease.epoch == epoch && lease.left > 0 {
                    self.reach(Event::HandOver);
                    lease.left = 0;
                    if self.has(Fault::ResetEpoch) {
                        lease.epoch.counter = 0;
                    }
                }
                Reply::Nothing
            }
            // A function, in one transaction. It locks the lease: SELECT FROM lease WHERE epoch =
            // $1 AND expires_at > now FOR SHARE. It locks each request: SELECT FROM request WHERE
            // number = $2 AND outcome IS NULL FOR NO KEY UPDATE. Then, only if it has all of them:
            // UPDATE request SET outcome = …, INSERT INTO log ….
            Statement::Append { row } => {
                let held = lease.epoch == row.epoch && lease.left > 0;
                if !held || !self.is_current(server.timeline, row.epoch) {
                    self.reach(Event::FencedAppend);
                    return Some(Reply::Refused(Doubt::Fenced));
                }
                return None;
            }
            // The statement had to wait for the lock of the row. It looks at the row again if that
            // has changed, but not at the clock if it has not.
            Statement::Insert { row } => {
                let held = lease.epoch == row.epoch && self.is_current(server.timeline, row.epoch);
                if !held && !self.has(Fault::AppendWithoutLock) {
                    self.reach(Event::FencedAppend);
                    return Some(Reply::Refused(Doubt::Fenced));
                }
                if lease.left == 0 {
                    self.reach(Event::AppendAfterExpiry);
                }
                self.insert(state, row)
            }
            Statement::Settle { row } => {
                settle(state, row);
                Reply::Nothing
            }
        })
    }

    /// The part of an append behind its fence.
    fn insert(&self, state: &mut State, row: Row) -> Reply {
        if outcome(state, row.work).is_some() && !self.has(Fault::OutcomeOverwritten) {
            self.reach(Event::RequestSettledBefore);
            return Reply::Refused(Doubt::Settled);
        }
        let taken = state
            .server
            .log
            .iter()
            .any(|other| other.version == row.version);
        if taken && !self.has(Fault::NoPrimaryKey) {
            self.reach(Event::VersionTaken);
            return Reply::Refused(Doubt::Taken);
        }
        state.history.stale_append |= state.server.lease.epoch != row.epoch;
        state.server.log.push(row);
        if !self.has(Fault::ResultOutside) {
            settle(state, row);
        }
        Reply::Inserted
    }

    /// Whether a candidate may acquire the lease. A new timeline is no reason: until the lease has
    /// expired, the owner of the old one does not know of it and its window may be open.
    pub(crate) fn has_expired(&self, timeline: u8, lease: Lease) -> bool {
        lease.left == 0
            || self.has(Fault::ExpiryByOwnClock)
            || self.has(Fault::FailoverEndsLease) && lease.epoch.timeline != timeline
    }

    /// Whether an epoch is one of the server's timeline. A connection to the server before a
    /// failover has ended, or a pooler has replaced it and the statement compares.
    pub(crate) fn is_current(&self, timeline: u8, epoch: Epoch) -> bool {
        epoch.timeline == timeline || self.has(Fault::TimelineIgnored)
    }
}

fn outcome(state: &State, work: Work) -> Option<Outcome> {
    match work {
        Work::Local(_) => None,
        Work::Request(number) => state.server.requests[usize::from(number) - 1].outcome,
    }
}

/// Writes the outcome of the request that a row answers.
fn settle(state: &mut State, row: Row) {
    if let Work::Request(number) = row.work {
        let outcome = Some(Outcome::Done(row.version));
        let request = &mut state.server.requests[usize::from(number) - 1];
        state.history.outcome_changed |= request.outcome.is_some() && request.outcome != outcome;
        request.outcome = outcome;
    }
}
