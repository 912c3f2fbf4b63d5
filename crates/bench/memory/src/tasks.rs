//! The memory of a task's request while it waits.

use std::pin::Pin;
use std::task::{Context, Waker};

use doclock::dsl::{create, insert_text, text_node};
use doclock::{DataStore, NodeId, TransactionManager};
use serde::{Deserialize, Serialize};

use crate::{ALLOCATOR, Result};

type Measure = fn(&DataStore, &NodeId, usize) -> Result<Memory>;

pub struct Case {
    pub name: &'static str,
    pub note: &'static str,
    measure: Measure,
}

pub const CASES: [Case; 2] = [
    Case {
        name: "task, guard",
        note: "DataStore::request, awaited",
        measure: |store, _, waiting| {
            polled(store, waiting, || store.request("editor").into_future())
        },
    },
    Case {
        name: "task, batch",
        note: "TransactionManager::transaction with a batch of one operation, awaited",
        measure: |store, text, waiting| {
            let manager = TransactionManager::for_owner(store.clone(), "editor");
            polled(store, waiting, || {
                manager
                    .transaction([insert_text(0, "x").on(text)])
                    .into_future()
            })
        },
    },
];

/// The memory of one request.
#[derive(Serialize, Deserialize)]
pub struct Row {
    suite: String,
    pub case: String,
    subject: String,
    /// Bytes that are allocated by the first polls, which join the queue.
    value: f64,
    unit: String,
    /// The number of these allocations.
    pieces: f64,
    /// The size of the future, which the task stores.
    future: usize,
}

pub fn heading(waiting: usize) {
    println!("\n== waiting tasks ==");
    println!(
        "{waiting} tasks wait for the lock. Of each: the bytes that its first poll allocates,"
    );
    println!("in how many pieces; the size of the future, which the task stores.\n");
    for case in &CASES {
        println!("  {:14}  {}", case.name, case.note);
    }
    println!(
        "\n{:14} {:>9} {:>9} {:>9}",
        "case", "bytes", "pieces", "future"
    );
}

impl Row {
    pub fn line(&self) -> String {
        format!(
            "{:14} {:>9.1} {:>9.2} {:>9}",
            self.case, self.value, self.pieces, self.future
        )
    }
}

pub fn measured(case: &Case, waiting: usize) -> Result<Row> {
    let store = DataStore::new();
    let manager = TransactionManager::new(store.clone());
    let created = manager.execute([create(text_node("inline-text", ""))])?;
    let text = created.operations[0].created.first().ok_or("no text")?;
    let _holder = store.lock("holder")?;
    let memory = (case.measure)(&store, text, waiting)?;
    let each = |count: f64| (count / waiting as f64 * 100.0).round() / 100.0;
    Ok(Row {
        suite: "waiting".into(),
        case: case.name.into(),
        subject: "doclock".into(),
        value: each(memory.polled),
        unit: "bytes/request".into(),
        pieces: each(memory.pieces),
        future: memory.future,
    })
}

/// The memory of all futures together, apart from the size of one.
struct Memory {
    future: usize,
    polled: f64,
    pieces: f64,
}

/// Polls so many futures once, while the lock is held.
fn polled<F: Future>(store: &DataStore, waiting: usize, future: impl Fn() -> F) -> Result<Memory> {
    let mut context = Context::from_waker(Waker::noop());
    // The keeper's thread starts with the first task that waits.
    let mut first = Box::pin(future());
    if first.as_mut().poll(&mut context).is_ready() {
        return Err("a task did not wait".into());
    }
    let mut futures: Vec<Pin<Box<F>>> = Vec::with_capacity(waiting);
    futures.extend((0..waiting).map(|_| Box::pin(future())));
    let before = ALLOCATOR.stats();
    for future in &mut futures {
        if future.as_mut().poll(&mut context).is_ready() {
            return Err("a task did not wait".into());
        }
    }
    let grown = ALLOCATOR.stats() - before;
    match store.queue_length() == waiting + 1 {
        true => Ok(Memory {
            future: size_of::<F>(),
            polled: grown.bytes_allocated as f64 - grown.bytes_deallocated as f64,
            pieces: grown.allocations as f64 - grown.deallocations as f64,
        }),
        false => Err("not all tasks wait".into()),
    }
}
