//! Durations as milliseconds and moments as milliseconds since 1970, as front ends expect them.
//! Each module is one for `#[serde(with)]`.

use std::time::Duration;

/// Exact to a nanosecond up to 99 days, if `duration` reads it.
pub fn number(duration: Duration) -> f64 {
    duration.as_secs() as f64 * 1e3 + f64::from(duration.subsec_nanos()) / 1e6
}

/// A duration.
pub mod duration {
    use std::time::Duration;

    use serde::de::{Error, Unexpected};
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(super::number(*duration))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let millis = f64::deserialize(deserializer)?;
        if !(millis.is_finite() && millis >= 0.0) {
            let found = Unexpected::Float(millis);
            return Err(Error::invalid_value(found, &"a duration in milliseconds"));
        }
        // The parts are exact, so that only the fraction of a millisecond is rounded.
        let whole = millis.trunc() as u128;
        let nanos = ((millis - millis.trunc()) * 1e6).round() as u64;
        // What is longer than every duration is the longest: a program can write that, too.
        let seconds = u64::try_from(whole / 1_000).unwrap_or(u64::MAX);
        let rest = Duration::from_millis((whole % 1_000) as u64) + Duration::from_nanos(nanos);
        Ok(Duration::from_secs(seconds).saturating_add(rest))
    }
}

/// A duration, or null.
pub mod option {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        duration.map(super::number).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        #[derive(Deserialize)]
        struct Read(#[serde(with = "super::duration")] Duration);

        let read = Option::<Read>::deserialize(deserializer)?;
        Ok(read.map(|Read(duration)| duration))
    }
}

/// A date.
pub mod moment {
    use std::time::{Duration, SystemTime};

    use serde::de::{Error, Unexpected};
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(moment: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
        let since = moment.duration_since(SystemTime::UNIX_EPOCH);
        let millis = since.unwrap_or_default().as_millis();
        serializer.serialize_u64(u64::try_from(millis).unwrap_or(u64::MAX))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemTime, D::Error> {
        let millis = u64::deserialize(deserializer)?;
        let moment = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(millis));
        moment.ok_or_else(|| Error::invalid_value(Unexpected::Unsigned(millis), &"a calendar date"))
    }
}
