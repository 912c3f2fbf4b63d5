//! The calls that wait for the journal, in threads and in tasks.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::error::DurabilityError;
use super::thread::flatten;
use super::{SharedWriter, WriterEnd, WriterState};
use crate::caught::catch;
use crate::lock::{Kept, Mailbox};
use crate::store::CommitError;
use crate::store::durable::JournalErrorKind;
use crate::time::Deadline;

/// A call that waits for the journal.
pub(super) struct JournalWait {
    pub(super) goal: Goal,
    /// The timeout of a task, which the keeper ends.
    limit: Option<(Duration, Deadline)>,
    pub(super) answer: Arc<Mailbox<DurabilityResult>>,
}

pub(super) type DurabilityResult = Result<u64, DurabilityError>;

/// What a call waits for: a version, and a number of notes.
#[derive(Clone, Copy)]
pub(super) struct Goal {
    pub(super) version: u64,
    pub(super) notes: u64,
}

/// How a call waits.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum WaitMode {
    /// For at most so long.
    Until(Option<Duration>),
    /// As long as it takes. It may write itself.
    Writes,
}

impl SharedWriter {
    /// Waits until a goal is reached, or never will be. Returns the durable version.
    pub(super) fn wait(&self, goal: Goal, mode: WaitMode) -> DurabilityResult {
        if goal.is_reached(self.durable_version(), 0) {
            return Ok(self.durable_version());
        }
        loop {
            let mut state = self.state.lock();
            if let Some(answer) = self.answer_now(goal, &state) {
                return answer;
            }
            let is_alone = state.waiting.is_empty() && !state.is_called;
            if mode == WaitMode::Writes
                && is_alone
                && let Some(mut journal) = state.journal.take()
            {
                drop(state);
                let written = catch(|| journal.write_new(self).map(drop));
                self.give_back(journal, flatten(written));
                continue;
            }
            let timeout = match mode {
                WaitMode::Until(timeout) => timeout,
                WaitMode::Writes => None,
            };
            let answer = Arc::new(Mailbox::new());
            self.join(&mut state, goal, None, &answer);
            drop(state);
            let deadline = timeout.and_then(|timeout| self.clock.deadline(timeout));
            if deadline.is_some() {
                self.clock.listen(&answer);
            }
            let answered = answer.wait_until(0, &self.clock, deadline);
            self.answered.go_on();
            if let Some(answer) = answered {
                return answer;
            }
            let mut state = self.state.lock();
            state.leave(&answer);
            // The answer may have come with the timeout.
            if goal.is_reached(self.durable_version(), state.durable_notes) {
                return Ok(self.durable_version());
            }
            return Err(self.timed_out(goal, timeout.unwrap_or_default()));
        }
    }

    /// Waits as [`wait`](Self::wait) does, in a task, which never writes itself.
    pub(super) async fn wait_in_task(
        self: &Arc<Self>,
        goal: Goal,
        timeout: Option<Duration>,
    ) -> DurabilityResult {
        if goal.is_reached(self.durable_version(), 0) {
            return Ok(self.durable_version());
        }
        let limit = timeout.and_then(|limit| Some((limit, self.clock.deadline(limit)?)));
        if limit.is_some() {
            let attended = self.keeper.attend(self, &self.clock);
            attended.map_err(|error| DurabilityError::NoKeeper {
                version: goal.version,
                reason: error.to_string(),
            })?;
        }
        let wait = {
            let mut state = self.state.lock();
            if let Some(answer) = self.answer_now(goal, &state) {
                return answer;
            }
            let answer = Arc::new(Mailbox::new());
            self.join(&mut state, goal, limit, &answer);
            TaskAnswer {
                shared: Arc::clone(self),
                answer,
            }
        };
        if let Some((_, deadline)) = limit {
            self.keeper.expect(deadline);
        }
        wait.await
    }

    /// Returns the answer to a call that need not wait.
    fn answer_now(&self, goal: Goal, state: &WriterState) -> Option<DurabilityResult> {
        let version = self.durable_version();
        if goal.is_reached(version, state.durable_notes) {
            return Some(Ok(version));
        }
        state.end.as_ref().map(|end| Err(self.ended(end)))
    }

    /// Adds a call to those that wait, and calls the thread.
    fn join(
        &self,
        state: &mut WriterState,
        goal: Goal,
        limit: Option<(Duration, Deadline)>,
        answer: &Arc<Mailbox<DurabilityResult>>,
    ) {
        state.waiting.push(JournalWait {
            goal,
            limit,
            answer: Arc::clone(answer),
        });
        self.call(state);
    }

    fn timed_out(&self, goal: Goal, timeout: Duration) -> DurabilityError {
        DurabilityError::Timeout {
            version: goal.version,
            durable_version: self.durable_version(),
            timeout,
        }
    }

    /// Why no further version becomes durable.
    pub(super) fn ended(&self, end: &WriterEnd) -> DurabilityError {
        let durable_version = self.durable_version();
        match end {
            WriterEnd::Closed => DurabilityError::Closed { durable_version },
            WriterEnd::Failed(cause) if cause.kind == JournalErrorKind::Fenced => {
                DurabilityError::Fenced {
                    durable_version,
                    cause: cause.clone(),
                }
            }
            WriterEnd::Failed(cause) => DurabilityError::Failed {
                durable_version,
                cause: cause.clone(),
            },
        }
    }
}

pub(super) fn acknowledged(goal: Goal, answer: DurabilityResult) -> Result<(), CommitError> {
    match answer {
        Ok(_) => Ok(()),
        Err(cause) => {
            let (version, cause) = (goal.version, Box::new(cause));
            Err(match &*cause {
                DurabilityError::Fenced { .. } => CommitError::Fenced { version, cause },
                DurabilityError::Failed { cause: failure, .. } if failure.stored_nothing => {
                    CommitError::NotStored { version, cause }
                }
                _ => CommitError::Unknown { version, cause },
            })
        }
    }
}

impl Goal {
    pub(super) fn is_reached(self, version: u64, notes: u64) -> bool {
        version >= self.version && notes >= self.notes
    }
}

impl WriterState {
    /// Removes a call that no longer waits.
    fn leave(&mut self, answer: &Arc<Mailbox<DurabilityResult>>) {
        let is_it = |waiting: &JournalWait| Arc::ptr_eq(&waiting.answer, answer);
        if let Some(at) = self.waiting.iter().position(is_it) {
            self.waiting.swap_remove(at);
        }
    }
}

/// The answer to a task, which no longer waits when this is dropped.
struct TaskAnswer {
    shared: Arc<SharedWriter>,
    answer: Arc<Mailbox<DurabilityResult>>,
}

impl Future for TaskAnswer {
    type Output = DurabilityResult;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<DurabilityResult> {
        self.answer.poll(0, context)
    }
}

impl Drop for TaskAnswer {
    fn drop(&mut self) {
        self.shared.state.lock().leave(&self.answer);
        self.answer.forget_task();
    }
}

impl Kept for SharedWriter {
    fn check_deadlines(&self) {
        let mut state = self.state.lock();
        let is_due = |waiting: &mut JournalWait| {
            let limit = waiting.limit;
            limit.is_some_and(|(_, deadline)| self.clock.until(deadline).is_none())
        };
        let due: Vec<JournalWait> = state.waiting.extract_if(.., is_due).collect();
        let deadlines = state.waiting.iter().filter_map(|waiting| waiting.limit);
        let next = deadlines.map(|(_, deadline)| deadline).min();
        drop(state);
        if let Some(next) = next {
            self.keeper.expect(next);
        }
        for waiting in due {
            let timeout = waiting.limit.map(|(timeout, _)| timeout);
            let timed_out = self.timed_out(waiting.goal, timeout.unwrap_or_default());
            waiting.answer.answer(Err(timed_out));
        }
    }
}
