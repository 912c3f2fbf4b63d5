//! Reports as events of `tracing` and as counters of `metrics`. The subscriber and the recorder are
//! code of users.

#[cfg(feature = "metrics")]
use metrics::{Counter, counter};
use smol_str::SmolStr;

use super::{LockReport, SlowRequest};
use crate::caught::catch;
use crate::sync::assert_unlocked;

/// Where the reports of a store go, beside its channel.
#[derive(Debug)]
pub(super) struct Emitter {
    #[cfg(feature = "tracing")]
    store: SmolStr,
    #[cfg(feature = "metrics")]
    holds: Counter,
    #[cfg(feature = "metrics")]
    waits: Counter,
}

impl Emitter {
    pub(super) fn new(store: &SmolStr) -> Self {
        #[cfg(feature = "metrics")]
        let of_store = |name: &'static str| counter!(name, "store" => store.as_str().to_owned());
        Self {
            #[cfg(feature = "tracing")]
            store: store.clone(),
            #[cfg(feature = "metrics")]
            holds: of_store("doclock_long_holds_total"),
            #[cfg(feature = "metrics")]
            waits: of_store("doclock_long_waits_total"),
        }
    }

    /// Called by the thread that notices the report, with no mutex locked. A panic ends here.
    pub(super) fn emit(&self, report: &LockReport) {
        assert_unlocked("a subscriber or a recorder");
        drop(catch(|| {
            #[cfg(feature = "metrics")]
            match report.slow {
                SlowRequest::Hold { .. } => self.holds.increment(1),
                SlowRequest::Wait { .. } => self.waits.increment(1),
            }
            #[cfg(feature = "tracing")]
            self.trace(report);
        }));
    }

    #[cfg(feature = "tracing")]
    fn trace(&self, report: &LockReport) {
        let millis = |duration: std::time::Duration| duration.as_secs_f64() * 1e3;
        let holder = report.holder.as_ref();
        let request = match &report.slow {
            SlowRequest::Hold { .. } => None,
            SlowRequest::Wait { request, .. } => Some(request),
        };
        tracing::warn!(
            name: "doclock.report",
            target: "doclock",
            store = %self.store,
            kind = if request.is_some() { "wait" } else { "hold" },
            owner = request.map(|request| display(&request.owner_id)),
            call_site = request.map(|request| display(&request.call_site)),
            wait_ms = request.map(|request| millis(request.wait_time)),
            holder = holder.map(|holder| display(&holder.owner_id)),
            holder_call_site = holder.map(|holder| display(&holder.call_site)),
            hold_ms = holder.map(|holder| millis(holder.held_for)),
            threshold_ms = millis(report.threshold),
            waiting = report.waiting,
            "{report}"
        );
    }
}
