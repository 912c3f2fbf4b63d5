//! How ids, durations and counts are shown to a person.

use std::fmt;
use std::time::Duration;

use smol_str::SmolStr;

use crate::DurationSummary;
use crate::brief::Brief;
use crate::id::{LockId, OwnerId};

/// Formats a request: `lock-3-x9 of ann (autosave)`.
pub struct Named<'a>(pub &'a LockId, pub &'a OwnerId, pub Option<&'a SmolStr>);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(id, owner, label) = self;
        write!(f, "{id} of {}", Brief(owner))?;
        label.map_or(Ok(()), |label| write!(f, " ({})", Brief(label)))
    }
}

/// Formats a duration for a person: whole milliseconds, and below ten of them the digits that
/// matter.
pub struct Millis(pub Duration);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_secs_f64() * 1e3;
        let digits = match millis {
            millis if millis == millis.trunc() || millis >= 10.0 => 0,
            millis if millis >= 0.01 => 2,
            _ => 6,
        };
        let millis = if digits == 0 { millis.trunc() } else { millis };
        write!(f, "{millis:.digits$}ms")
    }
}

/// Formats how many requests or calls wait: `1 request waiting`, `2 requests waiting`.
pub struct RequestsAhead(pub usize, pub &'static str);

impl fmt::Display for RequestsAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, what) = self;
        let plural = if *count == 1 { "" } else { "s" };
        write!(f, "{count} {what}{plural} waiting")
    }
}

/// Writes `lead` and the items, unless there is none.
pub fn list<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    lead: &str,
    items: impl IntoIterator<Item = T>,
) -> fmt::Result {
    let mut items = items.into_iter();
    let Some(first) = items.next() else {
        return Ok(());
    };
    write!(f, "{lead}{first}")?;
    items.try_for_each(|item| write!(f, ", {item}"))
}

/// Writes a table of waits and holds, without the last line break.
pub fn write_durations(
    f: &mut fmt::Formatter<'_>,
    wait: &DurationSummary,
    hold: &DurationSummary,
) -> fmt::Result {
    write!(f, "{:<14}", "")?;
    for name in ["mean", "p50", "p95", "p99", "p99.9", "max"] {
        write!(f, "{name:>12}")?;
    }
    for (name, summary) in [("wait", wait), ("hold", hold)] {
        write!(f, "\n{name:<14}")?;
        let columns = [
            summary.mean,
            summary.p50,
            summary.p95,
            summary.p99,
            summary.p999,
            summary.max,
        ];
        for duration in columns {
            write!(f, "{:>12}", format!("{duration:.1?}"))?;
        }
    }
    Ok(())
}
