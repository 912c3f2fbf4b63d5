//! How urgent a request is.

use serde::{Deserialize, Serialize};

/// How far ahead of others a request may be served.
///
/// Within one priority requests are granted in the order in which they asked. Each level lets a
/// request be granted before requests of the level below that asked earlier, but only by a bounded
/// number of requests: whatever keeps arriving, a request of low priority has its turn.
///
/// ```
/// use doclock::lock::Priority;
///
/// assert!(Priority::Low < Priority::Normal && Priority::Normal < Priority::High);
/// assert_eq!(Priority::default(), Priority::Normal);
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "camelCase")]
pub enum Priority {
    /// Work that nobody waits for: imports, maintenance.
    Low,
    /// What asks for nothing else.
    #[default]
    Normal,
    /// Work that somebody is looking at.
    High,
}

impl Priority {
    /// Every priority, from the lowest to the highest.
    pub const ALL: [Self; 3] = [Self::Low, Self::Normal, Self::High];
}
