//! A task that a test polls by hand.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use doclock::lock::FifoLock;

/// A future with a waker that counts.
pub(crate) struct Task<T> {
    future: Pin<Box<dyn Future<Output = T> + Send>>,
    woken: Arc<Count>,
}

/// A waker that counts.
#[derive(Default)]
pub(crate) struct Count(AtomicUsize);

impl Count {
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl<T> Task<T> {
    pub(crate) fn new<F>(future: F) -> Self
    where
        F: IntoFuture<Output = T, IntoFuture: Send + 'static>,
    {
        Self {
            future: Box::pin(future.into_future()),
            woken: Arc::default(),
        }
    }

    /// Creates the task of a future that was polled before.
    pub(crate) fn over(future: Pin<Box<dyn Future<Output = T> + Send>>) -> Self {
        Self {
            future,
            woken: Arc::default(),
        }
    }

    /// Creates a task and polls it once, which must not be enough.
    pub(crate) fn waiting<F>(future: F) -> Self
    where
        F: IntoFuture<Output = T, IntoFuture: Send + 'static>,
    {
        let mut task = Self::new(future);
        assert!(task.poll().is_none(), "it had to wait");
        task
    }

    pub(crate) fn poll(&mut self) -> Option<T> {
        let waker = Waker::from(Arc::clone(&self.woken));
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }

    pub(crate) fn is_woken(&self) -> bool {
        self.woken() > 0
    }

    /// How often it was woken.
    pub(crate) fn woken(&self) -> usize {
        self.woken.get()
    }

    /// Polls whenever it is woken, until it is ready, for half a minute at most.
    pub(crate) fn finish(mut self) -> T {
        let (mut seen, began) = (usize::MAX, Instant::now());
        loop {
            assert!(began.elapsed() < Duration::from_secs(30), "it is not woken");
            let woken = self.woken.get();
            if woken != seen {
                seen = woken;
                if let Some(result) = self.poll() {
                    return result;
                }
            }
            std::thread::yield_now();
        }
    }
}

/// Looks until it is true, for ten seconds at most.
pub(crate) fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_true() {
        assert!(began.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::yield_now();
    }
}

/// Checks that the lock is free, no request waits, and every grant was released.
pub(crate) fn at_rest(lock: &FifoLock) {
    let stats = lock.lock_stats();
    assert_eq!((stats.is_locked, stats.queue_length), (false, 0));
    assert_eq!(stats.total_acquisitions, stats.total_releases);
}
