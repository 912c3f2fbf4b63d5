//! The binary form of stored parts: one CBOR value (RFC 8949) each.
//!
//! The heads of documents, events, watermarks and leases are written as serde derives them. Commits
//! and nodes, which are most of a file, have arrays without names instead. Items at the end of an
//! array that have their default are left out:
//!
//! ```text
//! block     = [[* commit], [* note change]]
//! commit    = [session / null, number, version, owner, epoch, counter,
//!              [* operation], [* change], selection before, selection after,
//!              [* undone version] / null, key / null, flags, [first changed id, offset]]
//! operation = [word / text, id / null, [* created id]]
//! change    = [kind, …]                      see `changes.rs`
//! node      = [id, kind, parent / null, text, [* child id], attributes, [* mark]]
//! mark      = [kind, start / null, end, attributes]
//! note      = [1, key, number, digest, digest, commit / index of a commit of the block]
//!           / [2, event] / [3, watermark] / [4, lease]
//! note change = note / [0, key of a forgotten note]
//! ```
//!
//! - **Numbers of a commit** are the differences to the commit before in the part, modulo 2⁶⁴. A
//!   fencing token is two numbers, its epoch and its counter. The session is null if it is that of
//!   the commit before.
//! - **An id** is `[counter]` in the session of the last commit, `[session, counter]`, or a text.
//! - **A name** of an owner, a type, a kind of marks, an attribute or a key is a text.
//! - **An id that was spelled out** among the last 16 ones is the number of its place among them
//!   instead, and so is a name among the last 8 ones.
//! - **The name of an operation** is its place in the list [`WORDS`](words::WORDS), or a text.

mod changes;
mod commits;
mod nodes;
mod notes;
mod reader;
#[cfg(all(test, not(loom)))]
#[path = "../../../tests/durable/records.rs"]
mod tests;
mod words;
mod writer;

pub(super) use reader::RecordReader;
pub(super) use writer::RecordWriter;

use std::convert::Infallible;

use minicbor::{decode, encode};

/// Whether something was written.
pub(super) type Written = Result<(), encode::Error<Infallible>>;

/// Something that was read. An error names the byte at which it was found.
pub(super) type Read<T> = Result<T, decode::Error>;

/// How many ids a reader remembers.
const IDS: usize = 16;

/// How many names a reader remembers.
const NAMES: usize = 8;

/// A value with a binary form.
pub(super) trait Record: Sized {
    fn write<'a>(&'a self, to: &mut RecordWriter<'a>) -> Written;

    fn read(from: &mut RecordReader<'_>) -> Read<Self>;
}

/// The last values that were spelled out. Writer and reader have the same ones.
struct Recent<T, const N: usize> {
    slots: [Option<T>; N],
    next: usize,
}

impl<T, const N: usize> Recent<T, N> {
    fn new() -> Self {
        Self {
            slots: [const { None }; N],
            next: 0,
        }
    }

    fn place(&self, is_wanted: impl Fn(&T) -> bool) -> Option<usize> {
        self.slots
            .iter()
            .map_while(Option::as_ref)
            .position(is_wanted)
    }

    /// Replaces the oldest one.
    fn add(&mut self, value: T) {
        self.slots[self.next] = Some(value);
        self.next = (self.next + 1) % N;
    }
}

/// The numbers of the last commit.
#[derive(Clone, Copy, Default)]
struct Numbers {
    session: u32,
    number: u64,
    version: u64,
    epoch: u64,
    counter: u64,
}

/// How many of these fields are written: all up to the last one that is not left out.
fn used(fields: &[bool]) -> usize {
    fields
        .iter()
        .rposition(|is_used| *is_used)
        .map_or(0, |last| last + 1)
}
