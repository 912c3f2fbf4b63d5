//! The cost of the worst scripts that the default limits accept.
//!
//! Each script repeats an expensive operation: as often as the limits accept it, and once more. The
//! table shows that number, how long the accepted script holds the lock, and which limit rejects
//! the longer one.
//!
//! ```text
//! cargo run --release --example hostile_scripts
//! ```

mod common;

use std::time::{Duration, Instant};

use common::print_line;
use doclock::dsl::*;
use doclock::{
    DataStore, TransactionManager,
    document::{EditError, Limit, Limits, Mark, NodeSpec},
    transaction::{NodeOperation, Operation, OperationError, TextSpan, TransactionError},
};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

struct Script {
    name: &'static str,
    document: fn() -> NodeSpec,
    /// The nth operation.
    operation: fn(usize) -> Operation,
}

const NODES: usize = 100_000;

/// A hundred thousand texts.
fn wide() -> NodeSpec {
    let text = |nth| text_node("text", "abc").with_id(format!("n{nth}"));
    element("root", (0..NODES).map(text)).with_id("root")
}

/// A text of a million characters, in a node that can be split.
fn long() -> NodeSpec {
    let text = text_node("text", "longer than nine. ".repeat(58_000));
    element("root", [text.with_id("text")])
}

/// A text with a thousand matches.
fn short() -> NodeSpec {
    text_node("text", "longer than nine. ".repeat(1_000)).with_id("text")
}

/// A text with ten thousand marks.
fn marked() -> NodeSpec {
    let marks = (0..10_000).map(|nth| Mark::new("bold", 4 * nth..4 * nth + 2));
    text_node("text", "abcd".repeat(10_000))
        .with_marks(marks)
        .with_id("text")
}

/// A hundred lines with as many marks.
fn lines() -> NodeSpec {
    let marks = (0..10_000).map(|nth| Mark::new("bold", 4 * nth..4 * nth + 2));
    text_node("text", format!("{}\n", "abcd".repeat(100)).repeat(100))
        .with_marks(marks)
        .with_id("text")
}

fn on_text(operation: NodeOperation) -> Operation {
    operation.on("text")
}

const SCRIPTS: [Script; 12] = [
    Script {
        name: "insert in the middle of 100,000 nodes",
        document: wide,
        operation: |_| add_child(NodeSpec::new("text"), NODES / 2).on("root"),
    },
    Script {
        name: "delete in the middle of 100,000 nodes",
        document: wide,
        operation: |nth| delete_node().on(format!("n{}", NODES / 2 + nth)),
    },
    Script {
        name: "move among 100,000 nodes",
        document: wide,
        operation: |_| move_block_up().on("n50000"),
    },
    Script {
        name: "copy a node",
        document: wide,
        operation: |_| copy_node().on("n0"),
    },
    Script {
        name: "mark 1,000 nodes",
        document: wide,
        operation: |_| toggle_mark("bold", TextSpan::to(0, "n999", 3)).on("n0"),
    },
    Script {
        name: "type into a million characters",
        document: long,
        operation: |_| on_text(insert_text(5, "x")),
    },
    Script {
        name: "split a million characters",
        document: long,
        operation: |_| on_text(split_text_node(3)),
    },
    Script {
        name: "search a million characters in vain",
        document: long,
        operation: |_| on_text(replace_pattern("z", "")),
    },
    Script {
        name: "replace 1,000 matches again and again",
        document: short,
        operation: |_| on_text(replace_pattern("n(i|o)ne", "n${1}ne")),
    },
    Script {
        name: "type beside 10,000 marks",
        document: marked,
        operation: |_| on_text(insert_text(5, "x")),
    },
    Script {
        name: "indent 100 lines beside 10,000 marks",
        document: lines,
        operation: |_| on_text(indent_text(" ", ..)),
    },
    Script {
        name: "apply a mark that is there, beside 10,000",
        document: marked,
        operation: |_| on_text(apply_mark("bold", 0..1)),
    },
];

/// How long a script takes, and the limit that rejects it.
fn run(script: &Script, repeated: usize) -> Result<(Duration, Option<Limit>)> {
    let store = DataStore::new();
    TransactionManager::new(store.clone()).execute([create((script.document)())])?;
    let manager = TransactionManager::for_owner(store, "client").with_limits(Limits::new());
    let operations: Vec<Operation> = (0..repeated).map(script.operation).collect();
    let start = Instant::now();
    let outcome = manager.execute(operations);
    let took = start.elapsed();
    match outcome {
        Ok(_) => Ok((took, None)),
        Err(TransactionError::Operation {
            cause: OperationError::Edit(EditError::Limit(exceeded)),
            ..
        }) => Ok((took, Some(exceeded.limit))),
        Err(error) => Err(error.into()),
    }
}

fn main() -> Result {
    print_line!(
        "{:<42} {:>8} {:>9}  refused by",
        "operation",
        "accepted",
        "takes"
    );
    for script in &SCRIPTS {
        // The largest accepted number, found by bisection.
        let (mut accepted, mut refused) = (0, Limits::new().most(Limit::Operations) + 1);
        let mut by = Limit::Operations;
        while accepted + 1 < refused {
            let repeated = accepted.midpoint(refused);
            match run(script, repeated)? {
                (_, None) => accepted = repeated,
                (_, Some(limit)) => (refused, by) = (repeated, limit),
            }
        }
        let mut takes = Duration::MAX;
        for _ in 0..3 {
            takes = takes.min(run(script, accepted)?.0);
        }
        print_line!(
            "{:<42} {accepted:>8} {takes:>9.1?}  {}",
            script.name,
            by.name()
        );
    }
    Ok(())
}
