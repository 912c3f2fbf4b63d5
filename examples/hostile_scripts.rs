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

/// A hundred thousand texts in a block after a short one. The last of them has a child.
fn block() -> NodeSpec {
    let text = |nth: usize| text_node("text", "abc").with_id(format!("n{nth}"));
    let last = element("text", [NodeSpec::new("text")]).with_id("last");
    let block = element("block", (0..NODES).map(text).chain([last])).with_id("block");
    let before = element("block", [text_node("text", "abc").with_id("first")]);
    element("root", [before, block])
}

/// Two texts with 250 ancestors each.
fn deep() -> NodeSpec {
    let branch = |id: &str| {
        let text = text_node("text", "abc").with_id(id);
        (0..250).fold(text, |below, _| element("block", [below]))
    };
    element("root", [branch("first"), branch("last")])
}

/// A hundred texts, each with a value of 4,000 numbers, and a mark with one.
fn valued() -> NodeSpec {
    let value = || ("value", (0..4_000).collect::<Vec<u64>>().into());
    let text = |nth: usize| {
        text_node("text", "abc")
            .with_attributes([value()])
            .with_marks([Mark::whole("bold").with_attributes([value()])])
            .with_id(format!("n{nth}"))
    };
    element("block", (0..100).map(text)).with_id("block")
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

const SCRIPTS: [Script; 22] = [
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
    Script {
        name: "copy a text with 10,000 marks",
        document: marked,
        operation: |_| on_text(copy_node()),
    },
    Script {
        name: "copy a million characters",
        document: long,
        operation: |_| on_text(copy_range(1..)),
    },
    Script {
        name: "delete nothing into a block of 100,000",
        document: block,
        operation: |_| delete_range(TextSpan::to(3, "n0", 0)).on("first"),
    },
    Script {
        name: "split a block of 100,000, and the rest",
        document: block,
        operation: |nth| match nth {
            0 => split_block_node(1).on("block").named("0"),
            nth => split_block_node(1)
                .on(alias(format!("{}", nth - 1)))
                .named(format!("{nth}")),
        },
    },
    Script {
        name: "order a block of 100,000",
        document: block,
        operation: |_| move_children(["n1"], "block", 0).on("block"),
    },
    Script {
        name: "put a child of 100,000 where it is",
        document: block,
        operation: |nth| {
            add_child(format!("n{}", nth % 2 * 99_999), Some(nth % 2 * 99_999)).on("block")
        },
    },
    Script {
        name: "change the type of a block of 100,000",
        document: block,
        operation: |nth| transform_node(format!("t{nth}"), [("nth", nth.into())]).on("block"),
    },
    Script {
        name: "select from one deep text to another",
        document: deep,
        operation: |_| select_range(TextSpan::to(0, "last", 1)).on("first"),
    },
    Script {
        name: "set an attribute beside a large value",
        document: valued,
        operation: |nth| set_attrs([("nth", nth.into())]).on(format!("n{}", nth % 100)),
    },
    Script {
        name: "mark texts whose marks have large values",
        document: valued,
        operation: |_| toggle_mark("em", TextSpan::to(0, "n99", 3)).on("n0"),
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
