//! The state of a lock for a person, read while the lock is in use.

use std::fmt;

use serde::Serialize;

use super::node::{NodeHolder, NodeWaiter};
use super::{LockInfo, QueueEntry};

/// The holders and the waiters of a lock, read page by page so that a long queue blocks no request.
///
/// The holder and the first 32 waiters are of one moment. The rest is read a little later, when
/// requests may have left or joined. A request that waits during the whole read is listed once and
/// in order.
///
/// Serializes in camelCase. [`Display`](fmt::Display) prints a line for each:
///
/// ```
/// use doclock::{DataStore, lock::{AcquireOptions, node::Scope}};
///
/// let store = DataStore::new();
/// let guard = store.lock_with("ann", AcquireOptions::new().label("import"))?;
/// let dump = store.lock_dump();
/// assert_eq!(dump.holder.as_ref().unwrap().owner_id.as_str(), "ann");
/// assert!(dump.to_string().starts_with("held by lock-1-"), "{dump}");
/// assert!(dump.to_string().ends_with("no request waits"), "{dump}");
/// drop(guard);
///
/// let guard = store.node_locks().lock("ann", Scope::new().write("title"))?;
/// let dump = store.lock_dump();
/// assert!(dump.to_string().contains(": title (node exclusive)"), "{dump}");
/// # Ok::<(), doclock_locks::LockError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LockDump {
    /// The holder. While nodes are locked, the first holder of nodes.
    pub holder: Option<LockInfo>,
    /// The owners of node locks with their nodes, in the order of their requests.
    pub node_holders: Vec<NodeHolder>,
    /// The requests in the queue of the lock, in the order in which they would be granted.
    pub waiting: Vec<QueueEntry>,
    /// The requests that wait for nodes, each with the locks that it waits for.
    pub waiting_for_nodes: Vec<NodeWaiter>,
    /// What the first request waits for that has not been admitted to the queue, because a lossless
    /// subscriber or the journal has too much to read. `None` while admission is open.
    pub admission_closed_by: Option<LockInfo>,
    /// The requests that have not been admitted to the queue, in their order.
    pub waiting_for_admission: Vec<QueueEntry>,
}

impl LockDump {
    /// Adds the requests that have not been admitted: those in the line, and those at the door,
    /// which are ahead of them.
    #[doc(hidden)]
    pub fn with_admission(self, line: Self, door: Self) -> Self {
        let requests = door.waiting.into_iter().chain(line.waiting);
        let numbered = requests.zip(1..).map(|(request, position)| QueueEntry {
            position,
            ..request
        });
        Self {
            admission_closed_by: door.holder,
            waiting_for_admission: numbered.collect(),
            ..self
        }
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty()
            && self.waiting_for_nodes.is_empty()
            && self.waiting_for_admission.is_empty()
    }
}

impl fmt::Display for LockDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.holder {
            _ if !self.node_holders.is_empty() => {
                let mut holders = self.node_holders.iter();
                holders.try_for_each(|holder| writeln!(f, "held by {holder}"))?;
            }
            Some(holder) => writeln!(f, "held by {holder}")?,
            None => writeln!(f, "held by no owner")?,
        }
        if self.is_idle() {
            return f.write_str("no request waits");
        }
        let lines = self.waiting.iter().map(ToString::to_string);
        let for_nodes = self.waiting_for_nodes.iter().map(ToString::to_string);
        let closed = self.admission_closed_by.iter();
        let closed = closed.map(|holder| format!("admission is closed by {holder}"));
        let admission = self.waiting_for_admission.iter();
        let admission = admission.map(|entry| format!("{entry}, for admission"));
        let lines = lines.chain(for_nodes).chain(closed).chain(admission);
        for (nth, line) in lines.enumerate() {
            let end = if nth == 0 { "" } else { "\n" };
            write!(f, "{end}{line}")?;
        }
        Ok(())
    }
}
