//! A subscriber that keeps all spans.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Event, Metadata, Subscriber};

/// A span as the subscriber saw it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) meta: &'static Metadata<'static>,
    pub(crate) parent: Option<u64>,
    pub(crate) fields: BTreeMap<&'static str, String>,
    /// The events of code that ran in the span.
    pub(crate) events: usize,
    pub(crate) is_closed: bool,
}

impl Seen {
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

/// Called at the beginning of each callback, with its name.
type Hook = dyn Fn(&'static str) + Send + Sync;

/// Keeps the spans of all threads that [follow](Self::follow) it.
#[derive(Clone, Default)]
pub(crate) struct Spans(Arc<Kept>);

#[derive(Default)]
struct Kept {
    seen: Mutex<Vec<Seen>>,
    /// The fields of the events of reports.
    reports: Mutex<Vec<BTreeMap<&'static str, String>>>,
    hook: Mutex<Option<Arc<Hook>>>,
}

thread_local! {
    static ENTERED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

impl Spans {
    /// Makes it the subscriber of the calling thread while the guard lives.
    pub(crate) fn follow(&self) -> DefaultGuard {
        set_default(self.clone())
    }

    pub(crate) fn on_callback(&self, hook: impl Fn(&'static str) + Send + Sync + 'static) {
        *self.0.hook.lock().unwrap() = Some(Arc::new(hook));
    }

    pub(crate) fn all(&self) -> Vec<Seen> {
        self.0.seen.lock().unwrap().clone()
    }

    /// The fields of each report.
    pub(crate) fn reports(&self) -> Vec<BTreeMap<&'static str, String>> {
        self.0.reports.lock().unwrap().clone()
    }

    /// The spans of transactions that have ended.
    pub(crate) fn transactions(&self) -> Vec<Seen> {
        let all = self.all().into_iter();
        all.filter(|span| span.is_closed && span.meta.name() == "doclock.transaction")
            .collect()
    }

    fn call(&self, name: &'static str) {
        let hook = self.0.hook.lock().unwrap().clone();
        if let Some(hook) = hook {
            hook(name);
        }
    }

    fn with<R>(&self, id: u64, act: impl FnOnce(&mut Seen) -> R) -> R {
        act(&mut self.0.seen.lock().unwrap()[id as usize - 1])
    }
}

struct Fields<'a>(&'a mut BTreeMap<&'static str, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl Subscriber for Spans {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.call("new_span");
        let parent = match span.parent() {
            Some(id) => Some(id.into_u64()),
            None if span.is_root() => None,
            None => ENTERED.with_borrow(|entered| entered.last().copied()),
        };
        let mut fields = BTreeMap::new();
        span.record(&mut Fields(&mut fields));
        let mut seen = self.0.seen.lock().unwrap();
        seen.push(Seen {
            meta: span.metadata(),
            parent,
            fields,
            events: 0,
            is_closed: false,
        });
        Id::from_u64(seen.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        self.call("record");
        self.with(span.into_u64(), |seen| {
            values.record(&mut Fields(&mut seen.fields));
        });
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        if event.metadata().name() == "doclock.report" {
            self.call("report");
            let mut fields = BTreeMap::new();
            event.record(&mut Fields(&mut fields));
            self.0.reports.lock().unwrap().push(fields);
        }
        if let Some(id) = ENTERED.with_borrow(|entered| entered.last().copied()) {
            self.with(id, |seen| seen.events += 1);
        }
    }

    fn enter(&self, span: &Id) {
        self.call("enter");
        ENTERED.with_borrow_mut(|entered| entered.push(span.into_u64()));
    }

    fn exit(&self, span: &Id) {
        ENTERED.with_borrow_mut(|entered| {
            assert_eq!(entered.pop(), Some(span.into_u64()));
        });
        self.call("exit");
    }

    fn try_close(&self, span: Id) -> bool {
        self.with(span.into_u64(), |seen| seen.is_closed = true);
        self.call("try_close");
        true
    }
}
