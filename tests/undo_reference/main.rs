//! Undo and redo, compared with a model that knows only which edits are in effect: a letter is
//! visible if its insertion is, and no deletion of it. Undone as a whole, a document is what it was
//! first; redone as a whole, what it was last.
//!
//! `DOCLOCK_HISTORIES` sets how many histories each test draws, `SEED` the seed of the first one.
//! The history number `n` has the seed `SEED + n`, so `SEED=… DOCLOCK_HISTORIES=1` repeats one. A
//! failed test prints the shortest histories that it finds, `DOCLOCK_SHOWN` of each kind of
//! failure. `DOCLOCK_KINDS=Insert,Split` draws these operations alone.

#[path = "../common/mod.rs"]
mod common;

mod alone;
mod late;
mod letters;
mod limited;
mod order;
mod page;
mod recorded;
mod restored;
mod search;
mod setting;
mod text_steps;
mod texts;
mod tree_steps;
mod trees;
