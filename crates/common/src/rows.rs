//! The rows of the table of diagnostics, whatever it shows.

use std::fmt;
use std::time::Duration;

use crate::cells::{Count, Line, ShortDuration, WIDTH, wrapped};
use crate::id::{FencingToken, LockId, OwnerId};
use crate::{CallSite, ThreadInfo};

/// How many rows of one kind are printed. The data has more of them.
pub const ROWS: usize = 12;

/// The columns of titles.
const TITLE: usize = 16;

/// The number of a request since the store was opened: the numbers of a durable store go on from
/// open to open, and leave out most of the numbers in between.
pub fn number_of(id: LockId) -> u64 {
    id.number() & ((1 << FencingToken::COUNTER_BITS) - 1)
}

pub fn short(id: LockId) -> String {
    format!("#{}", number_of(id))
}

pub fn owner_cell(owner: &OwnerId, label: Option<&str>) -> String {
    match label {
        Some(label) => format!("{owner} ({label})"),
        None => owner.to_string(),
    }
}

/// A time that is exact, or the least that it can be.
pub fn at_least(time: Duration, at_least: bool) -> String {
    let mark = if at_least { ">" } else { "" };
    format!("{mark}{}", ShortDuration(time))
}

/// The lines so far.
#[derive(Default)]
pub struct Rows(pub Vec<String>);

/// A request or a grant in a row.
pub struct Row<'a> {
    pub mark: String,
    pub id: Option<LockId>,
    pub owner: &'a OwnerId,
    pub label: Option<&'a str>,
    pub since: String,
    /// The time until the timeout, or the hold limit.
    pub left: Option<Duration>,
    pub call_site: &'a CallSite,
    pub notes: Vec<String>,
    pub nodes: Vec<String>,
    /// How many nodes there are in all, if not all are listed.
    pub all_nodes: Option<usize>,
}

/// A key of a registered lock type.
pub struct KeyRow<'a> {
    pub key: &'a str,
    /// The holder, or the slots.
    pub text: String,
    pub since: String,
    pub call_site: Option<&'a CallSite>,
    pub waiting: usize,
    /// The owner of the request at the head of the queue, how long it has waited, and its line.
    pub first_waiter: Option<[String; 3]>,
    /// The thread of the holder, or of one of the permits.
    pub thread: Option<&'a ThreadInfo>,
    pub note: Option<&'static str>,
}

impl<'a> Row<'a> {
    pub fn of(owner: &'a OwnerId, call_site: &'a CallSite) -> Self {
        Self {
            mark: String::new(),
            id: None,
            owner,
            label: None,
            since: String::new(),
            left: None,
            call_site,
            notes: Vec::new(),
            nodes: Vec::new(),
            all_nodes: None,
        }
    }
}

impl Rows {
    pub fn title(&mut self, name: &str, text: impl fmt::Display) {
        self.0.push(Line::default().cell(name, TITLE).rest(text));
    }

    /// Adds a line under the last title.
    pub fn text(&mut self, text: impl fmt::Display) {
        self.0.push(Line::default().gap(TITLE).rest(text));
    }

    /// Adds a title with a text of several lines.
    pub fn paragraph(&mut self, name: &str, text: &str) {
        let mut lines = wrapped(text, WIDTH - TITLE).into_iter();
        self.title(name, lines.next().unwrap_or_default());
        lines.for_each(|line| self.text(line));
    }

    /// Says how many rows are not printed.
    pub fn more(&mut self, all: usize, printed: usize) {
        if all > printed {
            self.text(format_args!("… and {} more", all - printed));
        }
    }

    /// Names the columns of the rows that follow.
    pub fn columns(&mut self) {
        let line = columns("", "id", "owner (label)", "for", "left");
        self.0.push(line.path("from", 24).rest(""));
    }

    pub fn row(&mut self, row: &Row<'_>) {
        let id = row.id.map(short).unwrap_or_default();
        let owner = owner_cell(row.owner, row.label);
        let left = row.left.map(|left| ShortDuration(left).to_string());
        let left = left.as_deref().unwrap_or("-");
        let line = columns(&row.mark, &id, &owner, &row.since, left);
        let line = line.path(row.call_site, 24).gap(2);
        self.0.push(line.rest(row.notes.join(", ")));
        if row.nodes.is_empty() {
            return;
        }
        let shown = row.nodes.join(", ");
        let line = Line::default().gap(17);
        self.0
            .push(match row.all_nodes.map(|all| Count(all as u64, "node")) {
                None => line.rest(format_args!("nodes: {shown}")),
                Some(all) => line.gap(1).rest(format_args!("of {all}: {shown}")),
            });
    }

    /// Lists the first of `all` keys of a lock type under its line.
    pub fn keys<'a>(
        &mut self,
        names: [&str; 4],
        rows: impl Iterator<Item = KeyRow<'a>>,
        all: usize,
    ) {
        let rows: Vec<_> = rows.collect();
        let [key, text, since, from] = names;
        if !rows.is_empty() {
            self.0.push(key_cells(key, text, since, from).rest(""));
        }
        for row in rows.into_iter().take(ROWS) {
            let site = row.call_site.map_or(String::new(), CallSite::to_string);
            let verb = if row.waiting == 1 { "waits" } else { "wait" };
            let waiting = (row.waiting > 0).then(|| format!("{} {verb}", row.waiting));
            let notes = waiting.into_iter().chain(row.note.map(str::to_owned));
            let line = key_cells(row.key, &row.text, &row.since, &site);
            self.0.push(line.rest(notes.collect::<Vec<_>>().join(", ")));
            if let Some(thread) = row.thread {
                self.0.push(Line::default().gap(33).rest(thread));
            }
            if let Some([owner, waited, site]) = &row.first_waiter {
                self.0.push(key_cells("  1.", owner, waited, site).rest(""));
            }
        }
        self.more(all, ROWS);
    }
}

/// The cells of a row about a key.
fn key_cells(key: &str, text: &str, since: &str, from: &str) -> Line {
    let line = Line::default().gap(8).cell(key, 24).gap(1).cell(text, 21);
    line.number(since, 8).gap(2).path(from, 24).gap(2)
}

/// The first cells of a row.
fn columns(mark: &str, id: &str, owner: &str, since: &str, left: &str) -> Line {
    // `closes` begins one column before the others.
    let width = mark.len().max(5) + 1;
    let line = Line::default().gap(8 - width).cell(mark, width).cell(id, 9);
    let line = line.cell(owner, 21).number(since, 7).gap(1);
    line.number(left, 7).gap(2)
}
