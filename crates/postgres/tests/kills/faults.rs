//! Which faults there are, and how many of each.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use crate::child::With;
use crate::dice::Dice;
use crate::judge::Tally;
use crate::lane::Lane;
use crate::server::Server;

/// What happens to a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The process that owns the document is killed.
    Kill,
    /// The process that owns the document is stopped until another one owns it.
    Pause,
    /// The server is stopped like by a crash, or killed, and started again.
    Restart,
    /// A connection of the owner is cut in the middle of an append.
    Drop,
}

/// The faults of one kind, their number in a quick run, and how many documents have them at once.
const KINDS: [(With, Fault, &str, u64, u64); 8] = [
    (With::Parts, Fault::Kill, "DOCLOCK_OWNER_KILLS", 40, 4),
    (With::Parts, Fault::Pause, "DOCLOCK_OWNER_PAUSES", 20, 4),
    // Each restart is one for all documents.
    (With::Parts, Fault::Restart, "DOCLOCK_SERVER_RESTARTS", 8, 1),
    (
        With::Parts,
        Fault::Drop,
        "DOCLOCK_DROPPED_CONNECTIONS",
        10,
        2,
    ),
    (With::Member, Fault::Kill, "DOCLOCK_MEMBER_KILLS", 20, 4),
    (With::Member, Fault::Pause, "DOCLOCK_MEMBER_PAUSES", 12, 4),
    (
        With::Member,
        Fault::Restart,
        "DOCLOCK_MEMBER_RESTARTS",
        2,
        1,
    ),
    (With::Member, Fault::Drop, "DOCLOCK_MEMBER_DROPS", 6, 2),
];

fn given(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// The settings of the server. A restart is no power cut, so it needs no syncs.
pub(crate) const SETTINGS: &str = "-c fsync=off -c max_connections=200 -c shared_buffers=32MB";

pub(crate) fn run() {
    let Some(server) = Server::start(SETTINGS) else {
        return;
    };
    let seed = given("SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("SEED={seed}");
    let mut dice = Dice(seed);
    let mut passed = 0;
    for (with, fault, variable, usual, lanes) in KINDS {
        let count = given(variable).unwrap_or(usual);
        let lanes = match fault {
            Fault::Restart => 1,
            _ => given("DOCLOCK_LANES").unwrap_or(lanes),
        };
        let (began, left) = (Instant::now(), AtomicU64::new(count));
        let tally = Mutex::new(Tally::default());
        let is_failed = AtomicU64::new(0);
        thread::scope(|scope| {
            for number in 0..lanes {
                let lane = Lane::new(&server, (with, fault), number, dice.next());
                let (left, tally, is_failed) = (&left, &tally, &is_failed);
                scope.spawn(move || {
                    let failed = Failed(is_failed);
                    lane.run(
                        left,
                        count.div_ceil(lanes),
                        |found| tally.lock().unwrap().add(found),
                        || is_failed.load(Ordering::Relaxed) > 0,
                    );
                    std::mem::forget(failed);
                });
            }
        });
        let took = began.elapsed().as_secs_f64();
        let tally = tally.into_inner().unwrap();
        println!(
            "{with:?} {fault:?}: {count} in {took:.1} s, {:.1} a second: {tally}",
            count as f64 / took
        );
        assert!(
            count == 0 || tally.has_all_outcomes(with, fault),
            "too little happened in {tally:?}"
        );
        passed += count;
    }
    println!("test result: ok. {passed} passed; 0 failed; SEED={seed}");
}

/// Ends the other lanes when one panics.
struct Failed<'a>(&'a AtomicU64);

impl Drop for Failed<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
