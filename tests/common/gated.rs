//! A journal whose writes wait for the test.

use std::sync::mpsc;

use doclock::durable::{Journal, JournalError, JournalWrite, StoredPart};

/// A write ends with the next message, and fails if that is `false`. All end if there is no sender.
pub(crate) struct Gated(pub(crate) mpsc::Receiver<bool>);

impl Journal for Gated {
    fn load(
        &mut self,
        _: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        Ok(())
    }

    fn write(&mut self, _: &JournalWrite) -> Result<(), JournalError> {
        match self.0.recv() {
            Ok(true) | Err(_) => Ok(()),
            Ok(false) => Err(std::io::Error::other("the disk is gone").into()),
        }
    }
}
