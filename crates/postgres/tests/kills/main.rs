//! Processes that own documents in turn, while they are killed and paused, their server is
//! restarted, and their connections are cut in the middle of statements.
//!
//! Each document has three processes, which this program starts from itself. In some documents a
//! process takes part with a `Term`, a store and a `RequestRunner`: one owns the document and runs
//! random transactions on lists, the others wait for it to die. In others it is a `Member`, and all
//! processes edit with the same call. Each reports its transactions through a pipe, with the times
//! of one clock. Two other machines, which are threads of this program, submit requests. In the end
//! the [`judge`] compares the reports with the document, and what was read with the promises about
//! [`snapshots`]. Documents run side by side, each with its own processes.
//!
//! `DOCLOCK_OWNER_KILLS`, `DOCLOCK_OWNER_PAUSES`, `DOCLOCK_SERVER_RESTARTS` and
//! `DOCLOCK_DROPPED_CONNECTIONS` set the numbers of faults, and `DOCLOCK_MEMBER_KILLS`,
//! `DOCLOCK_MEMBER_PAUSES`, `DOCLOCK_MEMBER_RESTARTS` and `DOCLOCK_MEMBER_DROPS` those of documents
//! with members. `SEED` sets their moments, and `DOCLOCK_LANES` how many documents run at a time.

#[path = "../../../../tests/serializable/anomaly.rs"]
mod anomaly;
#[path = "../../../../tests/serializable/checker.rs"]
#[allow(dead_code, reason = "the weaker level is not asked for here")]
mod checker;
#[path = "../../../../tests/serializable/cycle.rs"]
mod cycle;
#[path = "../../../../tests/common/dice.rs"]
#[allow(dead_code, reason = "its random changes of JSON are not needed here")]
mod dice;
#[path = "../../../../tests/serializable/history.rs"]
#[allow(dead_code, reason = "the checker needs no processes")]
mod history;
#[path = "../cluster/proxy.rs"]
#[allow(dead_code, reason = "each test program uses its part")]
mod proxy;
#[path = "../cluster/server.rs"]
#[allow(dead_code, reason = "each test program uses its part")]
mod server;
#[path = "../cluster/support.rs"]
#[allow(dead_code, reason = "each test program uses its part")]
mod support;

mod child;
mod faults;
mod follower;
mod judge;
mod lane;
mod lists;
mod member;
mod process;
mod report;
mod requester;
mod snapshots;

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some(child::ARGUMENT) => child::run(),
        _ => faults::run(),
    }
}
