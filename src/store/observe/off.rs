//! Without the features `tracing` and `metrics`: nothing.

use std::sync::Arc;

use smol_str::SmolStr;

use super::TransactionKind;
use crate::lock::{LockOptions, ReportObserver, Requester};
use crate::store::TransactionResult;
use crate::time::Clock;

pub(in crate::store) struct Observer;

#[derive(Default)]
pub(crate) struct ObservedTransaction {}

pub(in crate::store) fn report_observer(
    _: &SmolStr,
    _: &LockOptions,
) -> Option<Arc<dyn ReportObserver>> {
    None
}

impl Observer {
    pub(in crate::store) fn new(_: &SmolStr, _: &Clock) -> Self {
        Self
    }

    #[inline(always)]
    pub(super) fn observe(
        &self,
        _: &str,
        _: TransactionKind,
        _: &Requester<'_>,
    ) -> ObservedTransaction {
        ObservedTransaction {}
    }
}

impl ObservedTransaction {
    #[inline(always)]
    pub(crate) fn granted(&mut self) {}

    #[inline(always)]
    pub(crate) fn granted_at_once(&mut self) {}

    #[inline(always)]
    pub(crate) fn ended(&mut self, _: Result<&TransactionResult, &'static str>) {}

    #[inline(always)]
    pub(crate) fn dropped(&mut self, _: bool) {}

    #[inline(always)]
    pub(crate) fn in_span<R>(&self, code: impl FnOnce() -> R) -> R {
        code()
    }
}
