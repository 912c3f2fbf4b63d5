//! Reports of long holds and long waits, as events of `tracing` and as counters of `metrics`. The
//! subscriber and the recorder are code of users.

use std::sync::Arc;

#[cfg(feature = "metrics")]
use metrics::{Counter, counter};
use smol_str::SmolStr;

use crate::lock::{LockOptions, ReportObserver, SlowReport, SlowRequest};

/// Returns where the reports of a store go beside its channel, if its lock makes reports.
pub(in crate::store) fn report_observer(
    store: &SmolStr,
    options: &LockOptions,
) -> Option<Arc<dyn ReportObserver>> {
    options
        .makes_reports()
        .then(|| Arc::new(ReportEvents::new(store)) as _)
}

/// Where the reports of a store go, beside its channel.
#[derive(Debug)]
struct ReportEvents {
    #[cfg(feature = "tracing")]
    store: SmolStr,
    #[cfg(feature = "metrics")]
    holds: Counter,
    #[cfg(feature = "metrics")]
    waits: Counter,
}

impl ReportEvents {
    fn new(store: &SmolStr) -> Self {
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

    #[cfg(feature = "tracing")]
    fn trace(&self, report: &SlowReport) {
        let millis = |duration: std::time::Duration| duration.as_secs_f64() * 1e3;
        let holder = report.holder.as_ref();
        let request = match &report.slow {
            SlowRequest::Wait { request, .. } => Some(request),
            _ => None,
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

impl ReportObserver for ReportEvents {
    fn observe(&self, report: &SlowReport) {
        #[cfg(feature = "metrics")]
        match report.slow {
            SlowRequest::Hold { .. } => self.holds.increment(1),
            _ => self.waits.increment(1),
        }
        #[cfg(feature = "tracing")]
        self.trace(report);
    }
}
