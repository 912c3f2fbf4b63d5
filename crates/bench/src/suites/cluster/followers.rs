//! How long a follower takes to show a commit.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use doclock::TransactionManager;
use doclock::dsl::{create, insert_text, text_node};
use doclock::durable::{DurableOptions, Replica};
use doclock_postgres::{Member, MemberOptions};

use super::figures::{Figures, Goal};
use super::server::{Server, long_term, wait};
use crate::Result;
use crate::measure::timed;
use crate::random::SplitMix;

/// How often a follower without a doorbell looks for commits.
const POLL: Duration = Duration::from_millis(50);

/// How often the measurement looks at the follower, which its times include.
const LOOK: Duration = Duration::from_micros(100);

/// The longest pause between two commits, in microseconds. The mean is half of it.
const PAUSE: usize = 40_000;

pub fn run(commits: usize, server: &Server, figures: &Figures<'_>) -> Result {
    let case = "lag with the doorbell";
    let [_, p99] = figures.times(case, &lags(true, commits, server)?)?;
    figures.print(case, "p99", (p99, "ms"), Goal::AtMost(30.0))?;
    let case = "lag without, polls of 50 ms";
    let [_, p99] = figures.times(case, &lags(false, commits, server)?)?;
    let polls = p99 / (POLL.as_secs_f64() * 1e3);
    figures.print(case, "p99", (polls, "polls"), Goal::AtMost(1.2))?;
    figures.times("a poll without news", &polls_without_news(commits, server)?)?;
    Ok(())
}

/// How long polls take that find no commit.
fn polls_without_news(polls: usize, server: &Server) -> Result<Vec<Duration>> {
    let mut reader = server.process("bench-follower")?.reader("followed true")?;
    let mut replica = Replica::load(&mut reader, &DurableOptions::new())?;
    let mut times = Vec::with_capacity(polls);
    for _ in 0..polls {
        times.push(timed(|| Ok(replica.catch_up(&mut reader, drop)?))?);
    }
    Ok(times)
}

/// How long after each commit was confirmed the follower shows it. Both are members of processes of
/// their own for the server, and threads here, so that one clock measures both.
fn lags(rings: bool, commits: usize, server: &Server) -> Result<Vec<Duration>> {
    let document = format!("followed {rings}");
    let options = |name: &str| {
        MemberOptions::new(long_term(name))
            .poll(POLL..=POLL)
            .doorbell(rings)
    };
    let owner = Member::join(&server.process("bench-owner")?, &document, options("owner"))?;
    let store = owner.wait_store(Duration::from_secs(60));
    let store = store.ok_or("no member became the owner")?;
    let of_follower = options("follower").follow_only();
    let follower = Member::join(&server.process("bench-follower")?, &document, of_follower)?;
    if rings {
        wait("a doorbell", || {
            owner.has_doorbell() && follower.has_doorbell()
        })?;
    }
    let manager = TransactionManager::new(store);
    let first = manager.execute(create(text_node("text", "some text").with_id("text")))?;
    wait("the first commit", || {
        follower.snapshot().version() >= first.version
    })?;

    let (committed, shown) = thread::scope(|scope| {
        let (last, end) = mpsc::channel();
        let writer = scope.spawn(move || {
            let mut random = SplitMix(1);
            let mut committed = Vec::with_capacity(commits);
            for _ in 0..commits {
                thread::sleep(Duration::from_micros(random.below(PAUSE) as u64));
                let done = manager.execute(insert_text(0, "x").on("text"));
                let done = done.map_err(|error| error.to_string())?;
                committed.push((done.version, Instant::now()));
            }
            // The other end is gone if the measurement has failed.
            let _ = last.send(committed.last().map(|(version, _)| *version));
            Ok::<_, String>(committed)
        });
        let shown = shown(&follower, &end);
        let committed = writer.join().map_err(|_| "a thread panicked")??;
        Ok::<_, Box<dyn std::error::Error>>((committed, shown?))
    })?;
    let lags = committed.iter().map(|(version, at)| {
        let first = shown.partition_point(|(shown, _)| shown < version);
        let shown = shown.get(first).ok_or("a commit was not shown")?;
        Ok(shown.1.saturating_duration_since(*at))
    });
    let lags = lags.collect::<Result<Vec<_>>>()?;
    follower.leave()?;
    owner.leave()?;
    Ok(lags)
}

/// The versions that the follower shows, with when each was seen first.
fn shown(follower: &Member, end: &mpsc::Receiver<Option<u64>>) -> Result<Vec<(u64, Instant)>> {
    let mut shown: Vec<(u64, Instant)> = Vec::new();
    let (mut last, mut deadline) = (None, None);
    loop {
        let version = follower.snapshot().version();
        let now = Instant::now();
        if shown.last().is_none_or(|(before, _)| version > *before) {
            shown.push((version, now));
        }
        if last.is_none() {
            match end.try_recv() {
                Ok(version) => {
                    last = version;
                    deadline = Some(now + Duration::from_secs(20));
                }
                Err(mpsc::TryRecvError::Empty) => {}
                Err(mpsc::TryRecvError::Disconnected) => return Ok(shown),
            }
        }
        if last.is_some_and(|last| version >= last) {
            return Ok(shown);
        }
        if deadline.is_some_and(|deadline| now > deadline) {
            return Err(format!("the follower stays at version {version}").into());
        }
        thread::sleep(LOOK);
    }
}
