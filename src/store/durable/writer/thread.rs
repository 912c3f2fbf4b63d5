//! The thread that writes to the journal.

use super::journal_writer::JournalWriter;
use super::{CloseReport, SharedWriter, WriterEnd};
use crate::caught::{CaughtPanic, catch};
use crate::store::durable::{JournalError, JournalErrorKind};

/// What the thread is called for.
#[derive(Clone, Copy, PartialEq)]
enum Task {
    Write,
    /// No more commits come.
    Close,
    /// Nothing is written any more.
    End,
}

impl SharedWriter {
    /// Writes whenever the thread is called, until the store is closed or its journal fails.
    pub(super) fn run(&self) {
        loop {
            let (mut journal, task) = self.next_call();
            let written = match task {
                Task::End => return self.finish(journal),
                Task::Write => catch(|| journal.write_all(self)),
                Task::Close => catch(|| journal.close(self)),
            };
            match flatten(written) {
                Ok(()) if task == Task::Write => self.give_back(journal, Ok(())),
                Ok(()) => return self.finish(journal),
                Err(error) => {
                    self.fail(error);
                    return self.finish(journal);
                }
            }
        }
    }

    /// Waits until the thread is called and no other has the journal.
    fn next_call(&self) -> (Box<JournalWriter>, Task) {
        let mut state = self.state.lock();
        loop {
            if state.is_called
                && let Some(journal) = state.journal.take()
            {
                state.is_called = false;
                let task = match (&state.end, state.closes) {
                    (Some(_), _) => Task::End,
                    (None, true) => Task::Close,
                    (None, false) => Task::Write,
                };
                return (journal, task);
            }
            state = self.called.wait(state);
        }
    }

    /// Drops the journal. A store is closed when its file is free.
    fn finish(&self, journal: Box<JournalWriter>) {
        let report = CloseReport {
            durable_version: self.durable_version(),
            ..journal.report
        };
        let end = match catch(|| drop(journal)) {
            Ok(()) => WriterEnd::Closed,
            Err(panic) => WriterEnd::Failed(panicked(panic.message())),
        };
        self.end(end, report);
    }
}

pub(super) fn panicked(message: Option<&str>) -> JournalError {
    JournalError::new(JournalErrorKind::Panic, message.unwrap_or("no message"))
}

/// The result of code that may have panicked.
pub(super) fn flatten<T>(
    result: Result<Result<T, JournalError>, CaughtPanic>,
) -> Result<T, JournalError> {
    result.unwrap_or_else(|panic| Err(panicked(panic.message())))
}
