//! The cost of operations on a structured document: compared with the steps of an immutable
//! document, and by the size of the document.
//!
//! The first cases are a comparison: the same edits of equal documents. The others check, for
//! doclock alone, that a cost is independent of the number of siblings, of the size of the store,
//! and of the direction.

mod doclock;
mod edits;
mod operations;
mod prosemirror;
mod rollback;
mod schema;
mod siblings;
mod undo;

use crate::Result;
use crate::report::Report;

const SUITE: &str = "document";

const ABOUT: &str = "\
KIND/BLOCKS: edits of one kind to a document of so many blocks, each of which has one text of 20 to 100
characters; an edit goes to another block than the one before. One transaction per edit for doclock,
from building the operation to having the result; for prosemirror the application of one step that
was built before, and dropping the document before it. Both start from equal documents, and must
have equal blocks, text and marks in the end; opening and comparing them are not counted.
The other cases are of doclock alone: first the form in question, then the one that its ratio refers
to.";

pub fn run(rounds: usize, report: &Report) -> Result {
    let mut notes = operations::notes()?;
    notes.extend([siblings::NOTE, rollback::NOTE, undo::NOTE, schema::NOTE]);
    report.heading(SUITE, ABOUT, &notes)?;
    operations::run(rounds, report)?;
    siblings::run(rounds, report)?;
    rollback::run(rounds, report)?;
    undo::run(rounds, report)?;
    schema::run(rounds, report)
}
