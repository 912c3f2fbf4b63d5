//! The final report, for people and for programs.

use std::fmt;
use std::path::Path;

use doclock::durable::CloseReport;
use doclock::lock::LockStats;
use serde::Serialize;

use crate::kill::Killed;
use crate::session::{Outcome, Size, Tally};
use crate::stored::{Opened, Stored};
use crate::trace::Trace;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Whether all checks passed.
    pub held: bool,
    source: String,
    editors: usize,
    /// None for a recorded history.
    seed: Option<u64>,
    document: Sizes,
    transactions: Transactions,
    seconds: f64,
    transactions_per_second: f64,
    checks: Vec<Check>,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<Stored>,
    lock: LockStats,
}

#[derive(Serialize)]
struct Sizes {
    before: Size,
    after: Size,
}

#[derive(Serialize)]
struct Transactions {
    total: u64,
    #[serde(flatten)]
    tally: Tally,
}

#[derive(Serialize)]
struct Check {
    what: &'static str,
    held: bool,
    found: String,
}

impl Report {
    /// The report of edits of all kinds on a Markdown file.
    pub fn of_edits(file: &Path, editors: usize, seed: u64, outcome: Outcome) -> Self {
        let Tally { committed, .. } = outcome.tally;
        let check = Check {
            what: "every commit made one version, and nothing else did",
            held: committed == outcome.versions,
            found: format!("{committed} commits, {} versions", outcome.versions),
        };
        Self::new(file, editors, Some(seed), check, outcome)
    }

    /// The report of a history that these editors replayed.
    pub fn of_replay(file: &Path, editors: usize, trace: &Trace, outcome: Outcome) -> Self {
        let as_recorded = trace.texts_as_recorded(&outcome.document, editors);
        let characters = trace.end().chars().count();
        let check = Check {
            what: "every text ends as recorded",
            held: as_recorded == editors,
            found: format!("{as_recorded} of {editors} texts, {characters} characters each"),
        };
        Self::new(file, editors, None, check, outcome)
    }

    fn new(file: &Path, editors: usize, seed: Option<u64>, own: Check, outcome: Outcome) -> Self {
        let mut checks = vec![
            ended(&outcome),
            own,
            read(&outcome),
            replayed(&outcome),
            freed(&outcome),
        ];
        if let Some(stored) = &outcome.stored {
            checks.extend(stored.killed.map(|killed| survived(&killed)));
            checks.push(kept(stored));
        }
        let total = outcome.tally.total();
        let seconds = outcome.elapsed.as_secs_f64();
        Self {
            held: checks.iter().all(|check| check.held),
            source: file.display().to_string(),
            editors,
            seed,
            document: Sizes {
                before: outcome.before,
                after: outcome.after,
            },
            transactions: Transactions {
                total,
                tally: outcome.tally,
            },
            seconds,
            transactions_per_second: total as f64 / seconds,
            checks,
            store: outcome.stored,
            lock: outcome.lock,
        }
    }
}

fn ended(outcome: &Outcome) -> Check {
    let tally = &outcome.tally;
    Check {
        what: "every transaction ended as it should",
        held: tally.unexpected == 0,
        found: match &tally.surprise {
            Some(surprise) => format!("{} did not; one of them: {surprise}", tally.unexpected),
            None => format!("{} of them", tally.total()),
        },
    }
}

fn read(outcome: &Outcome) -> Check {
    Check {
        what: "every snapshot is one sound tree, and no older than the one before",
        held: outcome.read.is_ok(),
        found: match &outcome.read {
            Ok(count) => format!("{count} snapshots of different versions"),
            Err(fault) => fault.clone(),
        },
    }
}

fn replayed(outcome: &Outcome) -> Check {
    let document = &outcome.document;
    let (held, found) = match &outcome.replica {
        Err(error) => (false, error.clone()),
        Ok(replica) if replica.version() != document.version() => {
            let (replica, document) = (replica.version(), document.version());
            (
                false,
                format!("the events end with version {replica}, the document with {document}"),
            )
        }
        Ok(replica) if replica != document => (false, "the documents differ".to_owned()),
        Ok(_) => (true, format!("{} events, none missed", outcome.versions)),
    };
    Check {
        what: "the commit events, repeated one by one, give the final document",
        held,
        found,
    }
}

fn freed(outcome: &Outcome) -> Check {
    let lock = &outcome.lock;
    let given_back = lock.total_acquisitions == lock.total_releases;
    Check {
        what: "every grant of the lock was released, and no request holds it or waits",
        held: given_back && !lock.is_locked && lock.queue_length == 0,
        found: format!(
            "{} grants, {} given back",
            lock.total_acquisitions, lock.total_releases
        ),
    }
}

fn survived(killed: &Killed) -> Check {
    let Killed {
        acknowledged,
        acknowledged_version,
        published_version,
        version,
    } = killed;
    Check {
        what: "after the kill the file had every acknowledged commit, and the document of its version",
        // Otherwise the session did not go on.
        held: true,
        found: format!(
            "{acknowledged} commits up to version {acknowledged_version}; the file had version \
             {version}, and version {published_version} was published"
        ),
    }
}

fn kept(stored: &Stored) -> Check {
    Check {
        what: "the file, closed and opened again, has the final document",
        held: stored.kept.is_ok(),
        found: match &stored.kept {
            Ok(version) => format!("version {version}"),
            Err(error) => error.clone(),
        },
    }
}

impl fmt::Display for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<14}{}", "store", self.path.display())?;
        if let Some(closed) = &self.closed {
            let CloseReport {
                durable_version,
                commits,
                writes,
                checkpoints,
                ..
            } = closed;
            writeln!(
                f,
                "{:<14}version {durable_version}; {commits} commits in {writes} writes, checkpoints: \
                 {checkpoints}",
                "  durable"
            )?;
        }
        for opened in &self.opens {
            let Opened {
                seconds,
                nodes,
                commits,
            } = opened;
            writeln!(
                f,
                "{:<14}in {:.1} ms: {nodes} nodes loaded, {commits} commits repeated",
                "  opened",
                1000.0 * seconds
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<14}{}", "source", self.source)?;
        writeln!(f, "{:<14}{}", "editors", self.editors)?;
        if let Some(seed) = self.seed {
            writeln!(f, "{:<14}{seed}", "seed")?;
        }
        writeln!(f)?;

        writeln!(
            f,
            "{:<14}{:>12}{:>12}{:>12}",
            "document", "nodes", "blocks", "characters"
        )?;
        for (name, size) in [
            ("before", self.document.before),
            ("after", self.document.after),
        ] {
            let Size {
                nodes,
                blocks,
                characters,
            } = size;
            writeln!(f, "{name:<14}{nodes:>12}{blocks:>12}{characters:>12}")?;
        }

        let Transactions { total, tally } = &self.transactions;
        writeln!(
            f,
            "\n{:<14}{total:>12}   in {:.2} s, {:.0} a second, while all was read and repeated",
            "transactions", self.seconds, self.transactions_per_second
        )?;
        let rows = [
            ("committed", tally.committed, ""),
            ("  undo, redo", tally.undone, "   of them"),
            ("rolled back", tally.rolled_back, "   made to fail"),
            (
                "stale",
                tally.stale,
                "   planned on what others had changed meanwhile",
            ),
            ("no effect", tally.without_effect, "   had nothing to undo"),
            (
                "conflicts",
                tally.conflicts,
                "   could no longer be undone, for what others had done since",
            ),
            ("unexpected", tally.unexpected, ""),
        ];
        for (name, count, remark) in rows {
            writeln!(f, "{name:<14}{count:>12}{remark}")?;
        }

        writeln!(f, "\nchecks")?;
        for Check { what, held, found } in &self.checks {
            let verdict = if *held { "held" } else { "NOT HELD" };
            writeln!(f, "{verdict:<14}{what}: {found}")?;
        }

        if let Some(stored) = &self.store {
            write!(f, "\n{stored}")?;
        }

        writeln!(f, "\nlock\n{}", self.lock)
    }
}
