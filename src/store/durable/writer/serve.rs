//! What a thread does that was called to write to the journal.

use super::journal_writer::JournalWriter;
use super::{CloseReport, SharedWriter, WriterEnd};
use crate::caught::{CaughtPanic, catch};
use crate::store::durable::{JournalError, JournalErrorKind};

/// What the journal is needed for.
#[derive(Clone, Copy, PartialEq)]
enum Task {
    Write,
    /// No more commits come.
    Close,
    /// Nothing is written any more.
    End,
}

impl SharedWriter {
    /// Writes until there is nothing to write, or another thread has the journal. That thread calls
    /// one when it is done, if there is more. After a close or a failure, drops the journal.
    pub(super) fn serve(&self) {
        while let Some((mut journal, task)) = self.take_journal() {
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

    fn take_journal(&self) -> Option<(Box<JournalWriter>, Task)> {
        let mut state = self.state.lock();
        let journal = match state.is_called {
            true => state.take_journal(),
            false => None,
        };
        if journal.is_none() {
            // With the state locked, so the next call calls a thread again. After a closing thread
            // that may be one too many, which finds nothing.
            state.has_thread = false;
        }
        let journal = journal?;
        state.is_called = false;
        let task = match (&state.end, state.closes) {
            (Some(_), _) => Task::End,
            (None, true) => Task::Close,
            (None, false) => Task::Write,
        };
        Some((journal, task))
    }

    /// Serves the journal in a thread of a model, until its end.
    #[cfg(loom)]
    pub(super) fn run(&self) {
        loop {
            self.serve();
            let mut state = self.state.lock();
            while !(state.is_called && state.journal.is_some()) {
                if state.is_gone {
                    return;
                }
                state = self.called.wait(state);
            }
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
        self.end(end, report, true);
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
