//! The page: one file, with its data.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use doclock::{diagnostics::TimelineLayout, lock::Timeline};
use serde::Serialize;

use super::durations::DurationStatistics;
use super::pairs::{Pair, pairs};
use super::rows::{Names, Rows};
use super::{hold, length, nanos, wait};

const PAGE: &str = include_str!("report/report.html");
const STYLE: &str = include_str!("report/report.css");
/// In the order of their use.
const SCRIPTS: [&str; 7] = [
    include_str!("report/format.js"),
    include_str!("report/data.js"),
    include_str!("report/tables.js"),
    include_str!("report/drawing.js"),
    include_str!("report/overview.js"),
    include_str!("report/timeline.js"),
    include_str!("report/main.js"),
];

/// Where the style, the data and the script are in the page, in this order.
pub(super) const PART: &str = "<!-- part -->";

/// How many pairs of owners the page shows.
const PAIRS: usize = 20;

/// Writes a timeline as a page of HTML: one file, which loads nothing from a network.
///
/// The page has a timeline that can be zoomed, with a track for each owner. It has a table of the
/// owners that waited for other owners, histograms of waits and holds, and the ten longest of each
/// with their call sites. It is light or dark, as the browser is, and can be used by keyboard. A
/// request takes about 20 bytes, and a page of a million requests opens in less than three seconds.
pub(crate) fn write_page(timeline: &Timeline, out: &mut impl Write) -> io::Result<()> {
    for (number, html) in PAGE.split(PART).enumerate() {
        match number {
            0 => {}
            1 => write_element(out, "style", "", |out| out.write_all(STYLE.as_bytes()))?,
            2 => write_data(out, timeline)?,
            _ => write_scripts(out)?,
        }
        out.write_all(html.as_bytes())?;
    }
    Ok(())
}

fn write_scripts(out: &mut impl Write) -> io::Result<()> {
    for script in SCRIPTS {
        write_element(out, "script", "", |out| out.write_all(script.as_bytes()))?;
    }
    Ok(())
}

/// Writes a column of numbers for each field of the requests, and the names and sums as JSON.
fn write_data(out: &mut impl Write, timeline: &Timeline) -> io::Result<()> {
    let layout = TimelineLayout::new(timeline);
    let rows = Rows::new(timeline, &layout);
    let mut names = Names::default();
    rows.write(out, &mut names)?;

    let positions = 0..timeline.entries.len();
    let waits = positions.clone().map(|it| (length(wait(&layout, it)), it));
    let holds = positions.filter_map(|it| Some((length(hold(&layout, it)?), it)));
    let mut waits = DurationStatistics::new(waits.collect());
    let mut holds = DurationStatistics::new(holds.collect());
    for position in waits.longest.iter_mut().chain(&mut holds.longest) {
        *position = rows.row_of(*position);
    }
    let mut pairs = pairs(timeline, &layout);
    let requests = PageData {
        count: timeline.entries.len(),
        began_at: millis(timeline.began_at),
        origin: rows.origin,
        length: nanos(timeline.read_at).saturating_sub(rows.origin),
        forgotten: timeline.forgotten,
        owners: layout.owners.iter().map(|owner| owner.as_str()).collect(),
        tracks: layout
            .tracks
            .iter()
            .map(|track| (track.owner, track.number))
            .collect(),
        names,
        waits,
        holds,
        pair_count: pairs.len(),
        pairs: {
            pairs.truncate(PAIRS);
            pairs
        },
    };
    let attributes = r#" type="application/json" id="requests""#;
    write_element(out, "script", attributes, |out| {
        Ok(serde_json::to_writer(InScript(out), &requests)?)
    })
}

/// The data of the page, beside the columns. Times are in nanoseconds.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PageData<'a> {
    count: usize,
    /// Milliseconds since 1970.
    began_at: u64,
    /// The time of the first request since the recorder began. Times in columns count from here.
    origin: u64,
    /// From the first request until the timeline was read.
    length: u64,
    forgotten: u64,
    owners: Vec<&'a str>,
    /// For each track, the number of its owner, and its number among the tracks of this owner.
    tracks: Vec<(usize, usize)>,
    #[serde(flatten)]
    names: Names<'a>,
    waits: DurationStatistics,
    holds: DurationStatistics,
    pair_count: usize,
    pairs: Vec<Pair>,
}

fn millis(moment: SystemTime) -> u64 {
    let since = moment.duration_since(SystemTime::UNIX_EPOCH);
    let since = since.unwrap_or(Duration::ZERO).as_millis();
    u64::try_from(since).unwrap_or(u64::MAX)
}

pub(super) fn write_element<W: Write>(
    out: &mut W,
    tag: &str,
    attributes: &str,
    content: impl FnOnce(&mut W) -> io::Result<()>,
) -> io::Result<()> {
    write!(out, "<{tag}{attributes}>")?;
    content(out)?;
    writeln!(out, "</{tag}>")
}

/// JSON in a script element: without `<`, no string ends the element or begins a comment.
struct InScript<W>(W);

impl<W: Write> Write for InScript<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'<') {
            match piece {
                [text @ .., b'<'] => {
                    self.0.write_all(text)?;
                    self.0.write_all(br"\u003c")?;
                }
                text => self.0.write_all(text)?,
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
