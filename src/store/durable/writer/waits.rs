//! The calls that wait for the journal, in threads and in tasks: as requests wait for a lock.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use super::error::DurabilityError;
use super::serve::flatten;
use super::{SharedWriter, WriterEnd};
use crate::caught::catch;
use crate::lock::{
    CancelToken, KeeperSlot, Look, Mailbox, Reason, Wait, WaitDeadline, WaitQueue, WaiterKind,
    blocking,
};
use crate::store::CommitError;
use crate::store::durable::JournalErrorKind;
use crate::time::Clock;

/// A call that waits for the journal.
pub(super) struct JournalWait {
    pub(super) goal: Goal,
    /// The timeout of a task, or that it has none. `None` for a thread.
    task: Option<WaitDeadline>,
    pub(super) answer: Answer,
}

type Answer = Arc<Mailbox<DurabilityResult>>;

pub(super) type DurabilityResult = Result<u64, DurabilityError>;

/// What a call waits for.
#[derive(Clone, Copy)]
pub(super) enum Goal {
    /// A version is durable, and so many notes.
    Durable { version: u64, notes: u64 },
    /// The journal is gone.
    End,
}

/// How a call waits.
#[derive(Clone, Copy)]
pub(super) enum WaitMode<'a> {
    /// At most for so long, and until the token is cancelled.
    Until(Option<Duration>, Option<&'a CancelToken>),
    /// As long as it takes. A thread may write itself.
    Writes,
}

impl SharedWriter {
    /// Waits in a thread as [`wait_as`](Self::wait_as) does.
    pub(super) fn wait(self: &Arc<Self>, goal: Goal, mode: WaitMode<'_>) -> DurabilityResult {
        blocking(self.wait_as(WaiterKind::Thread, goal, mode))
    }

    /// Waits until a goal is reached, or never will be. Returns the durable version.
    pub(super) async fn wait_as(
        self: &Arc<Self>,
        waits_as: WaiterKind,
        goal: Goal,
        mode: WaitMode<'_>,
    ) -> DurabilityResult {
        if goal.is_reached(self.durable_version(), 0) {
            return Ok(self.durable_version());
        }
        let (timeout, cancel) = match mode {
            WaitMode::Until(timeout, cancel) => (timeout, cancel),
            WaitMode::Writes => (None, None),
        };
        let deadline = timeout.and_then(|limit| Some((limit, self.clock.deadline(limit)?)));
        let looks = waits_as.ended_by_keeper(deadline);
        if looks.is_some() {
            let attended = waits_as.attend(self, true);
            attended.map_err(|error| DurabilityError::NoKeeper {
                version: goal.version(),
                reason: error.to_string(),
            })?;
        }
        let writes = matches!((mode, waits_as), (WaitMode::Writes, WaiterKind::Thread));
        let (ticket, answer) = match self.join(goal, waits_as, deadline, writes) {
            ControlFlow::Break(answer) => return answer,
            ControlFlow::Continue(joined) => joined,
        };
        let wait = Wait {
            ticket,
            deadline,
            spins: 0,
            keeper_looks: looks,
        };
        let answered = waits_as.wait(self, &answer, cancel, wait).await;
        if waits_as == WaiterKind::Thread {
            self.answered.go_on();
        }
        answered
    }

    /// Adds a call to those that wait, and calls the thread. Returns the answer to a call that need
    /// not wait, perhaps because it has written itself.
    fn join(
        &self,
        goal: Goal,
        waits_as: WaiterKind,
        deadline: WaitDeadline,
        writes: bool,
    ) -> ControlFlow<DurabilityResult, (u64, Answer)> {
        loop {
            let mut state = self.state.lock();
            let version = self.durable_version();
            if goal.is_reached(version, state.durable_notes) {
                return ControlFlow::Break(Ok(version));
            }
            if let Some(end) = &state.end
                && (state.is_gone || !goal.is_end())
            {
                return ControlFlow::Break(Err(self.ended(end)));
            }
            let is_alone = state.waiting.is_empty() && !state.is_called;
            if writes
                && is_alone
                && let Some(mut journal) = state.take_journal()
            {
                drop(state);
                let written = catch(|| journal.write_new(self).map(drop));
                self.give_back(journal, flatten(written));
                continue;
            }
            let answer = Answer::new(Mailbox::new());
            state.waits += 1;
            let ticket = state.waits;
            let waiting = JournalWait {
                goal,
                task: (waits_as == WaiterKind::Task).then_some(deadline),
                answer: Arc::clone(&answer),
            };
            state.waiting.insert(ticket, waiting);
            self.call(&mut state);
            return ControlFlow::Continue((ticket, answer));
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
            let (version, cause) = (goal.version(), Box::new(cause));
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
    /// The version that its errors name. A close has no timeout, so its own is in none.
    fn version(self) -> u64 {
        match self {
            Self::Durable { version, .. } => version,
            Self::End => u64::MAX,
        }
    }

    pub(super) fn is_end(self) -> bool {
        matches!(self, Self::End)
    }

    pub(super) fn is_reached(self, durable: u64, durable_notes: u64) -> bool {
        match self {
            Self::Durable { version, notes } => durable >= version && durable_notes >= notes,
            Self::End => false,
        }
    }
}

impl WaitQueue for SharedWriter {
    type Ticket = u64;

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn withdraw(&self, ticket: u64, reason: Reason) {
        // The answer may have come with the timeout.
        let left = self.state.lock().waiting.remove(&ticket);
        let Some(JournalWait { goal, answer, .. }) = left else {
            return;
        };
        answer.answer(Err(match reason {
            Reason::Expired(timeout) => DurabilityError::Timeout {
                version: goal.version(),
                durable_version: self.durable_version(),
                timeout,
            },
            Reason::Cancelled => DurabilityError::Cancelled {
                version: goal.version(),
                durable_version: self.durable_version(),
            },
        }));
    }

    fn keeper(&self) -> &KeeperSlot {
        &self.keeper
    }

    fn abandon(&self, ticket: u64) {
        // Dropped when the mutex is free.
        let _left = self.state.lock().waiting.remove(&ticket);
    }

    fn check_waits_and_holds(&self, look: &mut Look<'_, u64>) {
        let state = self.state.lock();
        let waiting = state.waiting.iter();
        waiting.for_each(|(ticket, waiting)| look.at(*ticket, waiting.task));
    }
}
