//! Tables in which most cells are missing.
//!
//! GitHub's tables give each row as many cells as there are columns. So a short text can have very
//! many cells, which the parser would create. A table that would have more than three cells for a
//! byte, or lack more of them than the parser adds, is read as a paragraph instead: its second line
//! gets a backslash, and is then none of a table. A table that is read has all its cells when it is
//! written, so it is read again as a table.

use std::borrow::Cow;
use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag};

use super::EXTENSIONS;
use crate::steps::steps;

/// The most cells for each byte of a table.
const CELLS: usize = 3;

/// The most missing cells that the parser adds to a table.
const ADDED: usize = 1 << 18;

/// The text with a backslash in each table that is too sparse, and where these are.
pub(super) fn bounded(text: Cow<'_, str>) -> (Cow<'_, str>, Vec<usize>) {
    let mut sparse = sparse(&text);
    if sparse.is_empty() {
        return (text, sparse);
    }
    // Code and HTML keep their lines.
    let literal = literal_blocks(&text);
    sparse.retain(|at| {
        let next = literal.partition_point(|block| block.end <= *at);
        literal.get(next).is_none_or(|block| *at < block.start)
    });
    let mut bounded = String::with_capacity(text.len() + sparse.len());
    let mut copied = 0;
    for at in &mut sparse {
        bounded.push_str(&text[copied..*at]);
        copied = std::mem::replace(at, bounded.len());
        bounded.push('\\');
    }
    bounded.push_str(&text[copied..]);
    (bounded.into(), sparse)
}

/// The blocks of code and HTML. Without tables, none of the text becomes more than it is long.
fn literal_blocks(text: &str) -> Vec<Range<usize>> {
    steps(text.len());
    let events = Parser::new_ext(text, EXTENSIONS.difference(Options::ENABLE_TABLES));
    let blocks = events.into_offset_iter().filter_map(|(event, range)| {
        let is_literal = matches!(event, Event::Start(Tag::CodeBlock(_) | Tag::HtmlBlock));
        is_literal.then_some(range)
    });
    blocks.collect()
}

/// Consecutive lines, some of which may be tables. They end with an empty one or before an item.
#[derive(Default)]
struct Lines<'t> {
    /// Each with its first byte.
    lines: Vec<(usize, &'t str)>,
    end: usize,
}

/// The first bar of the second line of each table that is too sparse.
fn sparse(text: &str) -> Vec<usize> {
    steps(text.len());
    let mut found = Vec::new();
    // Each line is counted a few times at most, also if each could be the second of a table.
    let mut left = 8 * text.len();
    let mut lines = Lines::default();
    for line in text.split_inclusive('\n') {
        let is_empty = line.trim_matches([' ', '\t', '>', '\n']).is_empty();
        if is_empty || begins_item(line) && delimiters(line).is_none() {
            lines.find_sparse(&mut left, &mut found);
            lines.lines.clear();
        }
        if !is_empty {
            lines.lines.push((lines.end, line));
        }
        lines.end += line.len();
    }
    lines.find_sparse(&mut left, &mut found);
    found
}

impl Lines<'_> {
    fn find_sparse(&self, left: &mut usize, found: &mut Vec<usize>) {
        for (nth, (begin, line)) in self.lines.iter().enumerate().skip(1) {
            let Some((columns, bar)) = delimiters(line) else {
                continue;
            };
            let before = self.lines[nth - 1].0;
            let rows = self.lines.len() - nth;
            let cells = columns.saturating_mul(rows);
            let is_sparse = cells > CELLS * (self.end - before)
                || cells > ADDED && self.lacks_too_many(nth + 1, columns, left);
            if is_sparse {
                found.push(begin + bar);
            }
        }
    }

    /// Whether the rows from the `nth` line on lack more cells than the parser adds.
    fn lacks_too_many(&self, nth: usize, columns: usize, left: &mut usize) -> bool {
        let mut missing = 0;
        for (_, line) in &self.lines[nth..] {
            missing += columns.saturating_sub(cells(line));
            if missing >= ADDED || *left < line.len() {
                return true;
            }
            *left -= line.len();
        }
        false
    }
}

/// Whether an item of a list, which is no row of a table, surely begins with the line.
fn begins_item(line: &str) -> bool {
    let inner = line.trim_matches([' ', '\t', '>', '\n']);
    ["- ", "* ", "+ ", "1. ", "1) "]
        .iter()
        .any(|marker| inner.starts_with(marker))
}

/// The columns of a line that may be the second of a table, and its first bar.
fn delimiters(line: &str) -> Option<(usize, usize)> {
    let inner = line.trim_start_matches([' ', '\t', '>']);
    let bar = inner.find('|')?;
    if !inner.trim_end().chars().all(|char| " :-|".contains(char)) {
        return None;
    }
    Some((cells(inner), line.len() - inner.len() + bar))
}

/// The number of cells of a row, one at least.
fn cells(line: &str) -> usize {
    let line = line.trim_matches([' ', '\t', '>', '\n']);
    let line = line.strip_prefix('|').unwrap_or(line);
    let (mut bars, mut last, mut is_escaped) = (0, 0, false);
    for (at, byte) in line.bytes().enumerate() {
        if byte == b'|' && !is_escaped {
            (bars, last) = (bars + 1, at + 1);
        }
        is_escaped = byte == b'\\' && !is_escaped;
    }
    bars + usize::from(last < line.len() || bars == 0)
}
