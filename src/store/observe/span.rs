//! The span of a transaction, and calls of the subscriber, which is code of users.

use std::time::Duration;

use tracing::field::Empty;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Span, record_all, span};

use super::TransactionKind;
use super::outcome::OutcomeDetails;
use crate::caught::catch;
use crate::lock::Requester;
use crate::sync::assert_unlocked;

/// A program that logs at `INFO` pays nothing for each keystroke.
const LEVEL: Level = Level::DEBUG;

/// The span `doclock.transaction`, or none.
pub(super) struct TransactionSpan(Span);

/// The span is entered while this lives.
pub(super) struct EnteredSpan<'a>(Option<span::Entered<'a>>);

impl TransactionSpan {
    /// Opens the span, as a child of the calling thread's current one. A subscriber that panics
    /// gets none.
    #[inline]
    pub(super) fn open(store: &str, kind: TransactionKind, requester: &Requester<'_>) -> Self {
        match LEVEL <= LevelFilter::current() {
            false => Self(Span::none()),
            true => Self::open_if_enabled(store, kind, requester),
        }
    }

    #[cold]
    fn open_if_enabled(store: &str, kind: TransactionKind, requester: &Requester<'_>) -> Self {
        assert_unlocked("a subscriber is called");
        let span = catch(|| {
            span!(
                target: "doclock",
                LEVEL,
                "doclock.transaction",
                store,
                kind = kind.name(),
                owner = requester.owner.as_str(),
                label = requester.label.map(|label| label.as_str()),
                call_site = %requester.call_site,
                wait_ms = Empty,
                hold_ms = Empty,
                outcome = Empty,
                code = Empty,
                version = Empty,
                operations = Empty,
            )
        });
        Self(span.unwrap_or_else(|_| Span::none()))
    }

    pub(super) fn is_disabled(&self) -> bool {
        self.0.is_disabled()
    }

    #[inline]
    pub(super) fn enter(&self) -> EnteredSpan<'_> {
        if self.is_disabled() {
            return EnteredSpan(None);
        }
        assert_unlocked("a subscriber is called");
        EnteredSpan(catch(|| self.0.enter()).ok())
    }

    /// Records the end.
    pub(super) fn record(&self, ended: &OutcomeDetails, wait: Duration, hold: Option<Duration>) {
        if self.is_disabled() {
            return;
        }
        record_all!(
            self.0,
            wait_ms = millis(wait),
            hold_ms = hold.map(millis),
            outcome = ended.outcome.name(),
            code = ended.code,
            version = ended.version,
            operations = ended.operations,
        );
    }
}

impl Drop for TransactionSpan {
    #[inline]
    fn drop(&mut self) {
        if !self.is_disabled() {
            let span = std::mem::replace(&mut self.0, Span::none());
            drop(catch(|| drop(span)));
        }
    }
}

impl Drop for EnteredSpan<'_> {
    fn drop(&mut self) {
        if let Some(entered) = self.0.take() {
            drop(catch(|| drop(entered)));
        }
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
