//! How long a document is without an owner: after the owner's process was killed, and after a
//! hand-over.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use doclock::TransactionManager;
use doclock::dsl::{create, insert_text, text_node};
use doclock_postgres::{Member, MemberOptions, TermOptions};

use super::OWNER;
use super::figures::{Figures, Goal, at, millis};
use super::server::{Server, wait};
use crate::Result;
use crate::random::SplitMix;

const TERM: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(30);

pub fn run(takeovers: usize, server: &Server, figures: &Figures<'_>) -> Result {
    let mut random = SplitMix(1);
    let killed = (0..takeovers).map(|nth| {
        // Somewhere between two renewals.
        let pause = Duration::from_micros(random.below(TERM.as_micros() as usize / 3) as u64);
        after_kill(&format!("killed {nth}"), pause, server)
    });
    let (owns, commits): (Vec<_>, Vec<_>) = killed.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    let case = "after a kill, term 1 s";
    figures.print(case, "median", (millis(at(&owns, 0.5)?), "ms"), None)?;
    let slowest = (millis(at(&owns, 1.0)?), "ms");
    let most = Goal::AtMost(millis(TERM + POLL) + 100.0);
    figures.print(case, "slowest", slowest, most)?;
    let slowest = (millis(at(&commits, 1.0)?), "ms");
    figures.print(case, "slowest to a commit", slowest, None)?;

    let (owns, commits): (Vec<_>, Vec<_>) = after_hand_over(takeovers, server)?.into_iter().unzip();
    let case = "after a hand-over";
    figures.print(case, "median", (millis(at(&owns, 0.5)?), "ms"), None)?;
    let slowest = (millis(at(&owns, 1.0)?), "ms");
    figures.print(case, "slowest", slowest, Goal::AtMost(50.0))?;
    let slowest = (millis(at(&commits, 1.0)?), "ms");
    figures.print(case, "slowest to a commit", slowest, None)
}

fn options(name: &str) -> MemberOptions {
    MemberOptions::new(TermOptions::new(name).term(TERM)).poll(POLL..=POLL)
}

/// How long after the kill another member owns the document, and has committed.
fn after_kill(document: &str, pause: Duration, server: &Server) -> Result<(Duration, Duration)> {
    let mut owner = Owner::start(document)?;
    let process = server.process("bench-candidate")?;
    let candidate = Member::join(&process, document, options("candidate"))?;
    wait("the doorbell and the owner's commits", || {
        candidate.has_doorbell() && candidate.snapshot().version() > 20
    })?;
    thread::sleep(pause);
    let began = Instant::now();
    owner.0.kill()?;
    let times = owned(&candidate, began)?;
    candidate.leave()?;
    Ok(times)
}

/// How long after the call of one member the other one owns the document, and has committed.
fn after_hand_over(times: usize, server: &Server) -> Result<Vec<(Duration, Duration)>> {
    let document = "handed over";
    let join = |name: &str| -> Result<Member> {
        let member = Member::join(&server.process(name)?, document, options(name))?;
        wait("a doorbell", || member.has_doorbell())?;
        Ok(member)
    };
    let mut members = [join("bench-first")?, join("bench-second")?];
    let store = members[0].wait_store(PATIENCE).ok_or("no owner")?;
    let text = create(text_node("text", "some text").with_id("text"));
    TransactionManager::new(store).execute(text)?;
    let mut measured = Vec::with_capacity(times);
    for _ in 0..times {
        let [from, to] = &members;
        let manager = TransactionManager::new(from.store().ok_or("the owner was lost")?);
        for _ in 0..20 {
            manager.execute(insert_text(0, "x").on("text"))?;
        }
        drop(manager);
        let began = Instant::now();
        from.hand_over()?;
        measured.push(owned(to, began)?);
        members.reverse();
    }
    for member in members {
        member.leave()?;
    }
    Ok(measured)
}

/// Waits until the member owns the document and has committed.
fn owned(member: &Member, began: Instant) -> Result<(Duration, Duration)> {
    let store = member.wait_store(PATIENCE).ok_or("no owner followed")?;
    let owns = began.elapsed();
    TransactionManager::new(store).execute(insert_text(0, "x").on("text"))?;
    Ok((owns, began.elapsed()))
}

/// The process of an owner. It is killed at the latest when this value is dropped.
struct Owner(Child);

impl Owner {
    /// Starts it and waits for its first commit.
    fn start(document: &str) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([OWNER, document]);
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut owner = Self(child);
        let output = owner.0.stdout.take().ok_or("the owner has no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        match line.trim() {
            "owns" => Ok(owner),
            _ => Err("the process of the owner has ended".into()),
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Commits as an owner until this process is killed, or until the one that started it has ended.
pub fn owner(words: &[String]) -> Result {
    let [document] = words else {
        return Err("not one document".into());
    };
    let server = Server::of_environment()?;
    thread::spawn(|| {
        // It ends when the other process does.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let member = Member::join(&server.process("bench-owner")?, document, options("owner"))?;
    let store = member
        .wait_store(PATIENCE)
        .ok_or("another process owns it")?;
    let manager = TransactionManager::new(store);
    manager.execute(create(text_node("text", "some text").with_id("text")))?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "owns")?;
    out.flush()?;
    loop {
        manager.execute(insert_text(0, "x").on("text"))?;
        // The candidate needs the processors too.
        thread::sleep(Duration::from_millis(2));
    }
}
