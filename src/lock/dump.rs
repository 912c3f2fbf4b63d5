//! The state of a lock for a person, read while the lock is in use.

use std::fmt;

use serde::Serialize;

use super::{LockInfo, QueueEntry};

/// The holder and the waiters of a lock, read page by page so that a long queue blocks no request.
///
/// The holder and the first 32 waiters are of one moment. The rest is read a little later, when
/// requests may have left or joined. A request that waits during the whole read is listed once and
/// in order.
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
/// assert!(dump.to_string().ends_with("no request waits"), "{dump}");
/// # Ok::<(), doclock::lock::LockError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LockDump {
    /// The holder.
    pub holder: Option<LockInfo>,
    /// The waiting requests, in the order in which they would be granted.
    pub waiting: Vec<QueueEntry>,
}

impl fmt::Display for LockDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.holder {
            Some(holder) => writeln!(f, "held by {holder}")?,
            None => writeln!(f, "held by no owner")?,
        }
        if self.waiting.is_empty() {
            return f.write_str("no request waits");
        }
        for (nth, entry) in self.waiting.iter().enumerate() {
            let end = if nth == 0 { "" } else { "\n" };
            write!(f, "{end}{entry}")?;
        }
        Ok(())
    }
}
