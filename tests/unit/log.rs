//! What the unit tests read of the log.

use super::*;

impl DataStore {
    /// Whether the end of the next transaction locks the log.
    pub(crate) fn log_is_overfull(&self) -> bool {
        self.0.log.overfull.load(Ordering::Relaxed)
    }

    pub(crate) fn log_is_locked(&self) -> bool {
        self.0.log.records.is_locked()
    }

    /// The unit of the newest commit of the log.
    #[cfg(feature = "redb")]
    pub(crate) fn newest_unit(&self) -> Option<Arc<EditUnit>> {
        let log = self.0.log.records.lock();
        log.as_ref()?.recent.back()?.record.unit.clone()
    }

    /// The bytes of the records of the log, their number, and the number of stretches.
    pub(crate) fn log_sizes(&self) -> (usize, usize, usize) {
        let log = self.0.log.records.lock();
        let sizes = log.as_ref().map(|records| {
            let CommitRecords {
                recent, stretches, ..
            } = &**records;
            (records.bytes(), recent.len(), stretches.len())
        });
        sizes.unwrap_or_default()
    }
}
