//! The cost by input size, for each input of a client.
//!
//! The package doclock-memory measures the costs in bytes by counting allocations; its rows have
//! the same form.

mod batches;
mod ids;
mod inputs;
mod ladder;
mod marks;
mod patterns;
mod queue;
mod timed;
mod undo;

use crate::Result;
use crate::options::Growth;
use crate::report::Report;
use ladder::{Dimension, SIZES, SUITE, Unit};

const ROUNDS: usize = 3;

/// In the order of docs/performance.md.
const DIMENSIONS: [Dimension; 16] = [
    Dimension::new(
        Unit::Nanoseconds,
        ids::batch,
        "colliding-ids",
        "One batch creates nodes whose ids collide",
        "ids",
    ),
    Dimension::new(
        Unit::Nanoseconds,
        ids::keystroke,
        "colliding-ids-keystroke",
        "A keystroke beside ids that collide",
        "ids",
    ),
    Dimension::new(
        Unit::Nanoseconds,
        batches::attributes,
        "attributes",
        "setAttrs on one node",
        "attributes",
    ),
    Dimension::new(
        Unit::Nanoseconds,
        batches::aliases,
        "aliases",
        "One batch names nodes by alias",
        "aliases",
    ),
    Dimension::new(
        Unit::Nanoseconds,
        batches::deep_child,
        "deep-child",
        "with_children([leaf, deep]) at each level",
        "levels",
    ),
    Dimension::new(
        Unit::Nanoseconds,
        batches::attempts,
        "attempts",
        "Attempts in one transaction",
        "attempts",
    ),
    Dimension::new(
        Unit::Nanoseconds,
        batches::savepoints,
        "savepoints",
        "Savepoints in one transaction",
        "savepoints",
    ),
    Dimension::new(
        Unit::Nanoseconds,
        batches::footnotes,
        "footnotes",
        "Markdown: footnote references before links",
        "references",
    ),
    Dimension {
        sizes: patterns::REPETITIONS,
        ..Dimension::new(
            Unit::Nanoseconds,
            patterns::size,
            "pattern-size",
            r"replacePattern: the pattern \w{n}",
            "repetitions",
        )
    },
    Dimension::new(
        Unit::Nanoseconds,
        patterns::search,
        "pattern-search",
        "replacePattern: each match looks at all the text",
        "characters",
    ),
    // With more, the output would have more than a hundred million characters.
    Dimension {
        sizes: SIZES.split_at(5).0,
        ..Dimension::new(
            Unit::Nanoseconds,
            patterns::output,
            "pattern-output",
            "replacePattern: n characters by n times $0",
            "characters",
        )
    },
    Dimension::new(
        Unit::Nanoseconds,
        marks::keystroke,
        "marks-keystroke",
        "A keystroke between marks",
        "marks",
    ),
    Dimension::new(
        Unit::Nanoseconds,
        undo::beside_others,
        "undo-beside-others",
        "An undo after commits of another editor",
        "commits",
    ),
    Dimension::new(
        Unit::Nanoseconds,
        undo::merged_late,
        "undo-merged-late",
        "Late edits that join an earlier entry of the history",
        "edits",
    ),
    Dimension {
        sizes: queue::SIZES,
        ..Dimension::new(
            Unit::Nanoseconds,
            queue::queue_info,
            "queue-info",
            "A call beside queue_info, 99th percentile",
            "waiters",
        )
    },
    Dimension {
        sizes: queue::SIZES,
        ..Dimension::new(
            Unit::Nanoseconds,
            queue::lock_stats,
            "lock-stats",
            "A call beside lock_stats, 99th percentile",
            "waiters",
        )
    },
];

const ABOUT: &str = "\
Median times of the same work with larger and larger inputs. No larger size is tried where it would
presumably take more than five seconds. Work that was refused has the reason beside its time.";

pub fn run(rounds: Option<usize>, options: &Growth, report: &Report) -> Result {
    let rounds = rounds.unwrap_or(ROUNDS);
    report.text(&format!("== {SUITE} ==\n{ABOUT}"))?;
    for dimension in &DIMENSIONS {
        report.text(&dimension.heading())?;
        dimension.climb(rounds, options.most, |row| report.row(row, &row.line()))?;
    }
    Ok(())
}
