//! SQLite in memory, through rusqlite.
//!
//! The edit is spliced in SQL: one prepared statement per transaction beats reading the text,
//! changing it in Rust and writing it back, which takes two. Prepared statements are kept for a
//! whole round.

use rusqlite::{Connection, Statement, params};

use super::{Change, Edit, INSERTED, Snapshots, Subject, TEXT};
use crate::Result;

const SPLICE: &str = "UPDATE node SET text = substr(text, 1, ?2) || ?4 || substr(text, ?3) \
                      WHERE id = ?1";

/// Whether separate statements begin and commit each transaction, as several edits require, or its
/// only statement does, as one edit allows.
#[derive(Clone, Copy, PartialEq)]
enum Bounds {
    Explicit,
    Implicit,
}

struct Sqlite {
    connection: Connection,
    bounds: Bounds,
}

pub fn open_explicit(nodes: usize) -> Result<Box<dyn Subject>> {
    open(nodes, Bounds::Explicit)
}

pub fn open_implicit(nodes: usize) -> Result<Box<dyn Subject>> {
    open(nodes, Bounds::Implicit)
}

fn open(nodes: usize, bounds: Bounds) -> Result<Box<dyn Subject>> {
    let connection = Connection::open_in_memory()?;
    connection.execute_batch(
        "CREATE TABLE node (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT; BEGIN",
    )?;
    {
        let mut insert = connection.prepare("INSERT INTO node VALUES (?1, ?2)")?;
        for node in 0..nodes {
            insert.execute(params![node as i64, TEXT])?;
        }
    }
    connection.execute_batch("COMMIT")?;
    Ok(Box::new(Sqlite { connection, bounds }))
}

impl Subject for Sqlite {
    fn name(&self) -> &'static str {
        match self.bounds {
            Bounds::Explicit => "sqlite begin+commit",
            Bounds::Implicit => "sqlite autocommit",
        }
    }

    fn note(&self) -> &'static str {
        match self.bounds {
            Bounds::Explicit => {
                "serializable, atomic; not durable (in memory); checks column types; no events; no snapshots beside a writer"
            }
            Bounds::Implicit => "the same, the single UPDATE being its own transaction",
        }
    }

    fn has_snapshots(&self) -> bool {
        false
    }

    fn run(&mut self, edits: &[Edit], _: Snapshots) -> Result {
        let mut begin = self.connection.prepare("BEGIN")?;
        let mut splice = self.connection.prepare(SPLICE)?;
        let mut commit = self.connection.prepare("COMMIT")?;
        for edit in edits {
            match self.bounds {
                Bounds::Explicit => {
                    begin.execute([])?;
                    apply(&mut splice, edit)?;
                    commit.execute([])?;
                }
                Bounds::Implicit => apply(&mut splice, edit)?,
            }
        }
        Ok(())
    }

    fn text(&self, node: usize) -> Result<String> {
        let query = "SELECT text FROM node WHERE id = ?1";
        Ok(self
            .connection
            .query_row(query, [node as i64], |row| row.get(0))?)
    }
}

fn apply(splice: &mut Statement<'_>, edit: &Edit) -> Result {
    let kept = edit.offset as i64;
    // substr counts from 1.
    let (resume, inserted) = match edit.change {
        Change::Insert => (kept + 1, INSERTED),
        Change::Delete => (kept + 2, ""),
    };
    splice.execute(params![edit.node as i64, kept, resume, inserted])?;
    Ok(())
}
