//! The priorities of requests.

use serde::{Deserialize, Serialize};

/// The priority of a request.
///
/// Requests of one priority are granted in FIFO order. A request may be granted before earlier
/// requests of a lower priority, but only a bounded number of requests overtakes each of them, for
/// each level between the two. So a request of low priority is granted in the end, whatever else
/// arrives.
///
/// ```
/// use doclock_locks::Priority;
///
/// assert!(Priority::Low < Priority::Normal && Priority::Normal < Priority::High);
/// assert_eq!(Priority::default(), Priority::Normal);
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "camelCase")]
pub enum Priority {
    /// Work in the background: imports, maintenance.
    Low,
    /// The default.
    #[default]
    Normal,
    /// Work that a user watches.
    High,
}

impl Priority {
    /// Every priority, from the lowest to the highest.
    pub const ALL: [Self; 3] = [Self::Low, Self::Normal, Self::High];
}
