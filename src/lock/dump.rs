//! A picture of a lock for a person, taken while it goes on.

use std::fmt;

use serde::Serialize;

use super::{LockInfo, QueueEntry};

/// Who holds a lock and who waits for it, noted down a page at a time so that a long line is not
/// held up.
///
/// The holder and the first 32 that wait are of one moment. Who comes after them is noted down a
/// little later, when some may have left and others joined; whoever waited all the time is listed,
/// once, and in order.
///
/// Serializes in camelCase. [`Display`](fmt::Display) prints a line for each:
///
/// ```
/// use doclock::{DataStore, lock::AcquireOptions};
///
/// let store = DataStore::new();
/// let guard = store.lock_with("ann", AcquireOptions::new().label("import"))?;
/// let dump = store.lock_dump();
/// assert_eq!(dump.holder.as_ref().unwrap().owner_id.as_str(), "ann");
/// assert!(dump.to_string().starts_with("held by lock-1-"), "{dump}");
/// assert!(dump.to_string().ends_with("nobody waits"), "{dump}");
/// # Ok::<(), doclock::lock::LockError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LockDump {
    /// Who holds.
    pub holder: Option<LockInfo>,
    /// Who waits, in the order in which they would be granted.
    pub waiting: Vec<QueueEntry>,
}

impl fmt::Display for LockDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.holder {
            Some(holder) => writeln!(f, "held by {holder}")?,
            None => writeln!(f, "held by nobody")?,
        }
        if self.waiting.is_empty() {
            return f.write_str("nobody waits");
        }
        for (nth, entry) in self.waiting.iter().enumerate() {
            let end = if nth == 0 { "" } else { "\n" };
            write!(f, "{end}{entry}")?;
        }
        Ok(())
    }
}
