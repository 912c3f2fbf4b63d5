//! A recorder that keeps all values.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

/// A metric as the recorder saw it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metric {
    pub(crate) kind: &'static str,
    /// The total of a counter, the value of a gauge, or the values of a histogram.
    pub(crate) values: Vec<f64>,
}

/// Called at the beginning of each callback, with its name.
type Hook = dyn Fn(&'static str) + Send + Sync;

/// Keeps the metrics of all stores that are created while it is the local recorder.
#[derive(Clone, Default)]
pub(crate) struct Metrics(Arc<Kept>);

#[derive(Default)]
struct Kept {
    /// By name and labels, such as `name{store=notes}`.
    metrics: Mutex<BTreeMap<String, Metric>>,
    /// The kind and the unit of each name.
    described: Mutex<BTreeMap<String, (&'static str, Option<Unit>)>>,
    hook: Mutex<Option<Arc<Hook>>>,
}

impl Metrics {
    pub(crate) fn on_callback(&self, hook: impl Fn(&'static str) + Send + Sync + 'static) {
        *self.0.hook.lock().unwrap() = Some(Arc::new(hook));
    }

    pub(crate) fn all(&self) -> BTreeMap<String, Metric> {
        self.0.metrics.lock().unwrap().clone()
    }

    pub(crate) fn described(&self) -> BTreeMap<String, (&'static str, Option<Unit>)> {
        self.0.described.lock().unwrap().clone()
    }

    /// The values of one metric of the store `notes`.
    pub(crate) fn values(&self, name: &str) -> Vec<f64> {
        let key = format!("{name}{{store=notes}}");
        let metric = self.all().remove(&key);
        metric.unwrap_or_else(|| panic!("no {key}")).values
    }

    /// The last value of one metric of the store `notes`.
    pub(crate) fn value(&self, name: &str) -> f64 {
        self.values(name).last().copied().unwrap_or_default()
    }

    /// How many transactions ended with an outcome.
    pub(crate) fn outcome(&self, outcome: &str) -> u64 {
        let key = format!("doclock_transactions_total{{store=notes,outcome={outcome}}}");
        self.all()[&key].values.last().copied().unwrap_or_default() as u64
    }

    fn call(&self, name: &'static str) {
        let hook = self.0.hook.lock().unwrap().clone();
        if let Some(hook) = hook {
            hook(name);
        }
    }

    fn handle(&self, key: &Key, kind: &'static str) -> Arc<Handle> {
        self.call("register");
        let labels = key
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()));
        let labels: Vec<_> = labels.collect();
        let key = format!("{}{{{}}}", key.name(), labels.join(","));
        let mut metrics = self.0.metrics.lock().unwrap();
        metrics.entry(key.clone()).or_default().kind = kind;
        let of = self.clone();
        Arc::new(Handle { of, key })
    }

    fn describe(&self, name: &KeyName, kind: &'static str, unit: Option<Unit>) {
        self.call("describe");
        let name = name.as_str().to_owned();
        self.0.described.lock().unwrap().insert(name, (kind, unit));
    }
}

struct Handle {
    of: Metrics,
    key: String,
}

impl Handle {
    fn update(&self, change: impl FnOnce(&mut Vec<f64>)) {
        self.of.call("update");
        let mut metrics = self.of.0.metrics.lock().unwrap();
        change(&mut metrics.get_mut(&self.key).unwrap().values);
    }
}

impl CounterFn for Handle {
    fn increment(&self, value: u64) {
        self.update(|values| {
            let total = values.pop().unwrap_or_default();
            values.push(total + value as f64);
        });
    }

    fn absolute(&self, _: u64) {
        unimplemented!("two stores of one name add up");
    }
}

impl GaugeFn for Handle {
    fn increment(&self, _: f64) {
        unimplemented!("gauges are set");
    }

    fn decrement(&self, _: f64) {
        unimplemented!("gauges are set");
    }

    fn set(&self, value: f64) {
        self.update(|values| *values = vec![value]);
    }
}

impl HistogramFn for Handle {
    fn record(&self, value: f64) {
        self.update(|values| values.push(value));
    }
}

impl Recorder for Metrics {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.describe(&name, "counter", unit);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.describe(&name, "gauge", unit);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.describe(&name, "histogram", unit);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.handle(key, "counter"))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.handle(key, "gauge"))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.handle(key, "histogram"))
    }
}
