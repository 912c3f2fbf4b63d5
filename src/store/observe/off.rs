//! Without the features `tracing` and `metrics`: nothing.

use smol_str::SmolStr;

use super::TransactionKind;
use crate::lock::Requester;
use crate::store::TransactionResult;
use crate::time::Clock;

pub(in crate::store) struct Observer;

#[derive(Default)]
pub(crate) struct ObservedTransaction {}

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
