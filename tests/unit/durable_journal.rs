//! A journal for the unit tests of stores.

use super::*;

/// A journal that stores nothing.
pub(in crate::store) struct Forgetful;

impl Journal for Forgetful {
    fn load(
        &mut self,
        _: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        Ok(())
    }

    fn write(&mut self, _: &JournalWrite) -> Result<(), JournalError> {
        Ok(())
    }
}
