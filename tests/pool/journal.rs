//! A journal whose close waits for the test, and one that fails.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use doclock::durable::{Journal, JournalError, JournalErrorKind, JournalWrite, StoredPart};

/// A journal that stores nothing.
#[derive(Default)]
pub(crate) struct Forgetful {
    /// Its close ends with the next message, or if there is no sender.
    pub(crate) close: Option<mpsc::Receiver<()>>,
    /// Each write fails once this is set.
    pub(crate) fails: Arc<AtomicBool>,
}

impl Journal for Forgetful {
    fn load(
        &mut self,
        _: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        Ok(())
    }

    fn write(&mut self, _: &JournalWrite) -> Result<(), JournalError> {
        match self.fails.load(Ordering::SeqCst) {
            false => Ok(()),
            true => Err(JournalError::new(JournalErrorKind::Io, "the disk is gone")),
        }
    }

    fn close(&mut self) -> Result<(), JournalError> {
        if let Some(gate) = &self.close {
            let _ = gate.recv();
        }
        Ok(())
    }
}
