//! A fair lock without a document: three threads share a printer, and a fourth gives up.
//!
//! ```text
//! cargo run --example fair_lock
//! ```

mod common;

use std::thread;
use std::time::Duration;

use common::print_line;
use doclock::lock::{AcquireOptions, FifoLock, LockError, LockOptions};

fn main() -> Result<(), LockError> {
    let options = LockOptions::new().timeout(Duration::from_secs(10));
    let printer = FifoLock::with_options(options);

    let held = printer.lock("report")?;
    let jobs: Vec<_> = ["letter", "invoice"]
        .into_iter()
        .enumerate()
        .map(|(ahead, name)| {
            let printer = printer.clone();
            let queue = printer.clone();
            let job = thread::spawn(move || {
                let _held = printer.request(name).label("print").wait()?;
                print_line!("{name} prints");
                Ok::<(), LockError>(())
            });
            // The next job requests the lock once this one is in the queue.
            while queue.queue_length() <= ahead && !job.is_finished() {
                thread::yield_now();
            }
            job
        })
        .collect();

    // This thread holds the lock, so another one makes the impatient request.
    let impatient = printer.clone();
    let refused = thread::spawn(move || {
        let patience = AcquireOptions::new().timeout(Duration::from_millis(20));
        impatient
            .request("photo")
            .options(patience)
            .wait()
            .map(drop)
    });
    if let Err(error) = refused.join().expect("no job panics") {
        print_line!("{error}");
    }
    print_line!("{}", printer.diagnostics());

    drop(held);
    for job in jobs {
        job.join().expect("no job panics")?;
    }
    let stats = printer.lock_stats();
    print_line!(
        "{} grants, {} timeout",
        stats.total_acquisitions,
        stats.total_timeouts
    );
    Ok(())
}
