//! Waiting for the lock in a task.

use super::FifoLock;

/// # Tasks
///
/// Tasks and threads wait in one queue. A future does nothing before it is first polled. The first
/// poll takes a free lock, or joins the queue. The thread of the executor is never blocked. The
/// timeout and the cancel token work as for threads, without a timer of the executor.
///
/// **Cancel safety.** A future that is dropped leaves the queue, and loses its position. If it was
/// granted the lock and has not been polled since, the drop releases the lock, and the next waiter
/// holds it.
///
/// **Futurelock.** A task can be granted the lock while it waits for something else and does not
/// poll the future, as in `select!` on `&mut future`. Then the lock is held by a task that does not
/// know it. Errors and diagnostics say so: [`LockInfo::untaken`](crate::LockInfo::untaken). A
/// [hold limit](crate::LockOptions::hold_limit) revokes such a grant.
///
/// A task is not recognized as the holder when it requests the lock again: that request waits until
/// its timeout. The guards are bound to no thread, so a task may release on any thread.
impl FifoLock {
    /// The code of the keeper's thread, which a model runs itself. It serves the lock, and ends
    /// with it.
    #[cfg(loom)]
    #[doc(hidden)]
    pub fn keeper_thread(&self) -> impl FnOnce() + Send + use<> {
        let keeper = std::sync::Arc::clone(self.keeper());
        keeper.attend(&self.0).expect("no thread is started");
        move || keeper.run()
    }
}
