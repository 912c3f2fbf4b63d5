//! Statements that wait for the row of a lease, on the connection of all terms of a process.

use std::thread;
use std::time::Duration;

use doclock_postgres::{OwnerEvent, Postgres, Term, TermOptions};

use crate::proxy::{Fault, Proxy};
use crate::support::{connect, name, parameters, sql, until};

const LIMIT: Duration = Duration::from_secs(20);

/// Options with a term that leaves a busy machine the time to renew it.
fn long(owner: &str) -> TermOptions {
    TermOptions::new(owner).term(Duration::from_secs(10))
}

/// A process with the term of another document.
struct Process {
    parameters: String,
    program: String,
    server: Postgres,
    other: Term,
}

impl Process {
    fn start(parameters: &str, proxied: &str) -> Self {
        let program = name("locks");
        let server = connect(&format!("{proxied} application_name={program}"));
        let (other, _) = server.acquire(&name("other"), long("ann")).unwrap();
        let parameters = parameters.to_owned();
        Self {
            parameters,
            program,
            server,
            other,
        }
    }

    /// Locks the row of a document, begins a statement that waits for it, and waits until the other
    /// term is renewed.
    fn renews_while<T: Send>(&self, document: &str, waits: impl FnOnce() -> T + Send) -> T {
        let mut locks = sql(&self.parameters);
        let mut locked = locks.transaction().unwrap();
        let lock = "SELECT 1 FROM doclock.doclock_lease WHERE document = $1 FOR UPDATE";
        locked.query_one(lock, &[&document]).unwrap();
        let waiting = "SELECT count(*) FROM pg_stat_activity
            WHERE application_name = $1 AND wait_event_type = 'Lock'";
        let mut activity = sql(&self.parameters);
        thread::scope(|scope| {
            let waits = scope.spawn(waits);
            until("a statement waits for the lock", || {
                let row = activity.query_one(waiting, &[&self.program]).unwrap();
                row.get::<_, i64>(0) == 1
            });
            self.other.events().try_iter().for_each(drop);
            let event = self.other.events().recv_timeout(LIMIT).unwrap();
            drop(locked);
            let waited = waits.join().unwrap();
            assert!(matches!(event, OwnerEvent::Renewed { .. }), "{event:?}");
            waited
        })
    }
}

#[test]
fn cluster_05_a_hand_over_that_waits_for_a_lock_delays_no_other_term() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("handed-over");
    let process = Process::start(&parameters, &parameters);
    let (term, _journal) = process.server.acquire(&document, long("ann")).unwrap();
    let ended = process.renews_while(&document, || term.hand_over());
    assert_eq!(ended, Ok(()));
    let (next, _) = process.server.try_acquire(&document, long("bob")).unwrap();
    assert!(next.epoch() > term.epoch());
}

#[test]
fn cluster_05_an_attempt_that_waits_for_a_lock_delays_no_other_term() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("acquired");
    let (proxy, proxied) = Proxy::start(&parameters);
    let process = Process::start(&parameters, &proxied);
    let (before, _) = process.server.acquire(&document, long("ann")).unwrap();
    before.hand_over().unwrap();
    proxy.next(Fault::HoldsStatement, "SET epoch = greatest");
    let acquired = thread::scope(|scope| {
        let acquired = scope.spawn(|| process.server.acquire(&document, long("ann")));
        until("the attempt is held", || proxy.met() == 1);
        // It has acquired the lease, and its answer is lost.
        proxy.release();
        process.renews_while(&document, || {
            proxy.set_down(true);
            proxy.set_down(false);
            acquired.join().unwrap()
        })
    });
    let (term, _) = acquired.unwrap();
    // In one attempt, whose answer was looked up.
    assert_eq!(term.epoch(), before.epoch() + 1);
}
