//! A second thread that works on items while the first one makes them.

use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::{Builder, Scope};

/// How many items wait for the thread at most.
const WAITING: usize = 2;

/// Works on items: on a single one in the calling thread, on more of them in a thread beside it, if
/// the machine starts one.
pub struct Helper<'scope, 'env, I, O> {
    scope: &'scope Scope<'scope, 'env>,
    work: fn(I) -> O,
    /// The item that was added last.
    last: Option<I>,
    thread: Option<(SyncSender<I>, Receiver<O>)>,
}

impl<'scope, 'env, I: Send + 'scope, O: Send + 'scope> Helper<'scope, 'env, I, O> {
    pub fn new(scope: &'scope Scope<'scope, 'env>, work: fn(I) -> O) -> Self {
        Self {
            scope,
            work,
            last: None,
            thread: None,
        }
    }

    /// Adds an item, and returns the result of an earlier one if one is ready. Blocks while too
    /// many items wait.
    pub fn add(&mut self, item: I) -> Option<O> {
        let before = self.last.replace(item)?;
        if self.thread.is_none() {
            self.thread = self.start();
        }
        let Some((items, results)) = &self.thread else {
            return Some((self.work)(before));
        };
        // The thread has ended only if it panicked, which the end of the scope reports.
        let _ = items.send(before);
        results.try_recv().ok()
    }

    /// Returns the results that are not returned yet. Blocks until they are ready.
    pub fn finish(self) -> impl Iterator<Item = O> {
        let results = self.thread.map(|(_, results)| results);
        let last = self.last.map(self.work);
        last.into_iter().chain(results.into_iter().flatten())
    }

    fn start(&self) -> Option<(SyncSender<I>, Receiver<O>)> {
        let (items, waiting) = sync_channel(WAITING);
        let (done, results) = channel();
        let work = self.work;
        let run = move || {
            let mut worked = waiting.into_iter().map(work);
            // Without a receiver the results are not wanted any more.
            let _ = worked.try_for_each(|result| done.send(result));
        };
        let thread = Builder::new().name("doclock-helper".into());
        thread.spawn_scoped(self.scope, run).ok()?;
        Some((items, results))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::Helper;

    #[test]
    fn each_item_has_one_result_also_of_a_single_one() {
        for count in [0, 1, 2, 3, 100] {
            let mut sum = 0;
            thread::scope(|scope| {
                let mut helper = Helper::new(scope, |item: u64| 2 * item);
                for item in 1..=count {
                    sum += helper.add(item).unwrap_or_default();
                }
                sum += helper.finish().sum::<u64>();
            });
            assert_eq!(sum, count * (count + 1));
        }
    }

    #[test]
    fn only_more_than_one_item_starts_a_thread() {
        let name = |_| thread::current().name() == Some("doclock-helper");
        thread::scope(|scope| {
            let mut helper = Helper::new(scope, name);
            assert_eq!(helper.add(1), None);
            assert_eq!(helper.finish().collect::<Vec<_>>(), [false]);
            let mut helper = Helper::new(scope, name);
            let added = [helper.add(1), helper.add(2)];
            let results = added.into_iter().flatten().chain(helper.finish());
            assert_eq!(results.filter(|is_in_thread| *is_in_thread).count(), 1);
        });
    }

    #[test]
    fn a_helper_that_is_dropped_ends_its_thread() {
        thread::scope(|scope| {
            let mut helper = Helper::new(scope, |item: u64| item);
            for item in 0..10 {
                helper.add(item);
            }
        });
    }
}
