//! The resource usage of the process.

use std::time::Duration;

/// Since the start of the process, for all threads together.
#[derive(Clone, Copy)]
pub struct Usage {
    /// Time on processors, in user and system mode.
    pub processor: Duration,
    /// How often a thread stopped running, to wait or by preemption.
    pub switches: u64,
}

impl Usage {
    /// The usage since then.
    pub fn since(self, before: Self) -> Self {
        Self {
            processor: self.processor.saturating_sub(before.processor),
            switches: self.switches.saturating_sub(before.switches),
        }
    }
}

/// The current usage, if the system reports it.
#[cfg(unix)]
pub fn usage() -> Option<Usage> {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::{TimeVal, TimeValLike};

    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let time = |time: TimeVal| {
        Some(Duration::from_micros(
            time.num_microseconds().try_into().ok()?,
        ))
    };
    let switches = usage.voluntary_context_switches() + usage.involuntary_context_switches();
    Some(Usage {
        processor: time(usage.user_time())? + time(usage.system_time())?,
        switches: switches.try_into().ok()?,
    })
}

#[cfg(not(unix))]
pub fn usage() -> Option<Usage> {
    None
}
