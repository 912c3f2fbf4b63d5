//! Who holds a lock and who waits for it, as a person would be told.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use smol_str::SmolStr;

use crate::id::{FencingToken, LockId, OwnerId};

/// Durations as milliseconds and moments as milliseconds since 1970: what a front end expects.
pub(crate) mod millis {
    use super::{Duration, SystemTime};
    use serde::Serializer;

    pub(crate) fn duration<S: Serializer>(
        duration: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(duration.as_secs_f64() * 1e3)
    }

    pub(crate) fn moment<S: Serializer>(
        moment: &SystemTime,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let since = moment
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        serializer.serialize_u64(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

/// The holder of a lock.
///
/// Serializes in camelCase; `acquiredAt` in milliseconds since 1970, `heldFor` in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LockInfo {
    /// The id of the grant.
    pub lock_id: LockId,
    /// Who holds.
    pub owner_id: OwnerId,
    /// The number of the grant; greater than that of every earlier one.
    pub fencing_token: FencingToken,
    /// When it was granted, by the machine's calendar.
    #[serde(serialize_with = "millis::moment")]
    pub acquired_at: SystemTime,
    /// How long it has been held, by the store's clock.
    #[serde(serialize_with = "millis::duration")]
    pub held_for: Duration,
    /// What it is wanted for, if the owner said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<SmolStr>,
}

impl fmt::Display for LockInfo {
    /// `lock-3-x9 of ann (autosave), held for 12ms`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.lock_id, self.owner_id)?;
        if let Some(label) = &self.label {
            write!(f, " ({label})")?;
        }
        write!(f, ", held for {}ms", self.held_for.as_millis())
    }
}

/// One waiting request.
///
/// Serializes in camelCase, `waitTime` in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct QueueEntry {
    /// The id that the grant will have.
    pub lock_id: LockId,
    /// Who waits.
    pub owner_id: OwnerId,
    /// How long it has waited, by the store's clock.
    #[serde(serialize_with = "millis::duration")]
    pub wait_time: Duration,
    /// Its place in the line; 1 is next.
    pub place: usize,
    /// What it is wanted for, if the owner said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<SmolStr>,
}
