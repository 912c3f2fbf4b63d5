//! The state that a failed request for nodes observed.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use smol_str::SmolStr;

use crate::CallSite;
use crate::brief::Brief;
use crate::codes::codes;
use crate::id::{LockId, NodeId, OwnerId};
use crate::millis;
use crate::queue::LockMode;
use crate::show::Millis;

/// The node for which a request waited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct NodeWait {
    /// The node; `None` for the document itself.
    pub node: Option<NodeId>,
    /// The requested mode.
    pub mode: LockMode,
}

impl fmt::Display for NodeWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(id) => write!(f, "node {} ({})", Brief(id), self.mode),
            None => write!(f, "the document ({})", self.mode),
        }
    }
}

/// A cycle of owners: each waits for the next, and the last for the first.
///
/// The first link is the refused request. It would have closed the cycle; or the last one did, of a
/// transaction in `retry` that had its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deadlock {
    /// The cycle.
    pub links: Vec<DeadlockLink>,
}

/// One owner of a [`Deadlock`], and why it waits for the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DeadlockLink {
    /// Its lock.
    pub lock_id: LockId,
    /// The owner.
    pub owner_id: OwnerId,
    /// The label of its request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<SmolStr>,
    /// The source code location of its request.
    pub call_site: CallSite,
    /// The node and the mode for which it waits.
    pub waits_for: NodeWait,
    /// The mode in which it has that node locked already, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has: Option<LockMode>,
    /// The mode in which the next owner has the node locked. `None` if the next owner waits for it
    /// too, with an earlier request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_by_next: Option<LockMode>,
    /// How long it has waited, by the store's clock. Zero for the request that closed the cycle.
    #[serde(with = "millis::duration")]
    pub waiting_for: Duration,
    /// How long it has held its locks; for a hold that is not measured, at least so long.
    #[serde(with = "millis::duration")]
    pub held_for: Duration,
}

impl Deadlock {
    /// Whether the cycle is an upgrade conflict: two owners hold one node shared, and both request
    /// it exclusively.
    #[doc(hidden)]
    pub fn is_of_upgrades(&self) -> bool {
        match &*self.links {
            [one, other] => {
                one.waits_for.node == other.waits_for.node
                    && one.has.is_some()
                    && other.has.is_some()
            }
            _ => false,
        }
    }
}

impl fmt::Display for Deadlock {
    /// Formats as `lock-1-x of ann waits for node 1:4 (exclusive), which lock-2-x of bob has
    /// (exclusive) and has waited 2ms for …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nexts = self.links.iter().cycle().skip(1);
        for (nth, (link, next)) in self.links.iter().zip(nexts).enumerate() {
            if nth == 0 {
                write!(
                    f,
                    "{} of {} waits for {}",
                    link.lock_id,
                    Brief(&link.owner_id),
                    link.waits_for
                )?;
            } else {
                let since = Millis(link.waiting_for);
                write!(f, " and has waited {since} for {}", link.waits_for)?;
            }
            write!(f, ", which {} of {}", next.lock_id, Brief(&next.owner_id))?;
            match link.held_by_next {
                Some(mode) => write!(f, " has ({mode})")?,
                None => f.write_str(" requested first")?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for Deadlock {}

codes! { inherent Deadlock {
    Self { links } => "lockDeadlock" if true;
}}
