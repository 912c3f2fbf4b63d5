//! Durations as milliseconds and moments as milliseconds since 1970, as front ends expect them.

use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};

#[doc(hidden)]
pub fn number(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[doc(hidden)]
pub fn duration<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(number(*duration))
}

#[doc(hidden)]
pub fn moment<S: Serializer>(moment: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    let since = moment
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    serializer.serialize_u64(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[doc(hidden)]
pub fn some_duration<S: Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    duration.map(number).serialize(serializer)
}
