//! How long a batch takes that a follower forwards to the owner, beside an INSERT.

use std::time::{Duration, Instant};

use doclock::TransactionManager;
use doclock::dsl::{create, insert_text, text_node};
use doclock_postgres::{Member, MemberOptions};

use super::figures::{Figures, Goal};
use super::inserts::Inserts;
use super::server::{Server, long_term, wait};
use crate::Result;

/// The bytes of the INSERT: about as many as a commit has in the log.
const BYTES: f64 = 300.0;

pub fn run(batches: usize, server: &Server, figures: &Figures<'_>) -> Result {
    for rings in [true, false] {
        let [inserts, forwarded] = times(rings, batches, server)?;
        let [insert, _] = figures.times("INSERT, round trip", &inserts)?;
        let case = match rings {
            true => "forwarded with the doorbell",
            false => "forwarded without",
        };
        let [forwarded, _] = figures.times(case, &forwarded)?;
        let goal = rings.then_some(Goal::AtMost(3.0));
        figures.print(case, "p50", (forwarded / insert, "× INSERT"), goal)?;
    }
    Ok(())
}

/// The times of INSERTs and of forwarded batches, which take turns. Each begins with the call and
/// ends with the confirmed result.
fn times(rings: bool, batches: usize, server: &Server) -> Result<[Vec<Duration>; 2]> {
    let document = format!("forwarded {rings}");
    let options = |name: &str| MemberOptions::new(long_term(name)).doorbell(rings);
    let owner = Member::join(&server.process("bench-owner")?, &document, options("owner"))?;
    let store = owner.wait_store(Duration::from_secs(60));
    let manager = TransactionManager::new(store.ok_or("no member became the owner")?);
    manager.execute(create(text_node("text", "some text").with_id("text")))?;
    drop(manager);
    let of_follower = options("follower").follow_only();
    let follower = Member::join(&server.process("bench-follower")?, &document, of_follower)?;
    if rings {
        wait("a doorbell", || {
            owner.has_doorbell() && follower.has_doorbell()
        })?;
    }
    let rows = Inserts::create(server)?;
    rows.clear()?;
    let mut insert = rows.writer(0, BYTES, false)?;
    // The first batch makes the connections of requests.
    follower.execute(insert_text(0, "x").on("text"))?;
    let mut times = [const { Vec::new() }; 2];
    for _ in 0..batches {
        let began = Instant::now();
        insert()?;
        times[0].push(began.elapsed());
        let began = Instant::now();
        follower.execute(insert_text(0, "x").on("text"))?;
        times[1].push(began.elapsed());
    }
    follower.leave()?;
    owner.leave()?;
    Ok(times)
}
