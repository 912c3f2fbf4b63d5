//! Results, as a table for people or as one JSON object per line for programs.

use std::io::Write;

use serde::Serialize;
use serde_json::json;

use crate::Result;
use crate::machine::Machine;
use crate::measure::Spread;

/// Subjects with this prefix are doclock's own. The first of a case is its reference.
pub const OWN: &str = "doclock";

const RATIO: &str = "\
ratio: what a unit of work costs with the row's subject, divided by what it costs with doclock; above
1, doclock is faster. (Times: subject / doclock; rates: doclock / subject.) Where doclock has several
forms, the first one is meant, and the others are rows like any peer's.";

/// The cost of a unit of work with another subject, in costs of doclock.
pub fn ratio(unit: &str, doclock: f64, peer: f64) -> f64 {
    match unit.ends_with("/s") {
        true => doclock / peer,
        false => peer / doclock,
    }
}

/// The unit of a suite's values.
#[derive(Clone, Copy, PartialEq)]
pub enum Unit {
    NsPerPair,
    NsPerTransaction,
    TransactionsPerSecond,
    MessagesPerSecond,
    NsPerCall,
}

impl Unit {
    const fn name(self) -> &'static str {
        match self {
            Self::NsPerPair => "ns/pair",
            Self::NsPerTransaction => "ns/txn",
            Self::TransactionsPerSecond => "txn/s",
            Self::MessagesPerSecond => "msg/s",
            Self::NsPerCall => "ns/call",
        }
    }

    fn show(self, figure: f64) -> String {
        match self {
            Self::TransactionsPerSecond | Self::MessagesPerSecond if figure >= 1e6 => {
                format!("{:.2} M", figure / 1e6)
            }
            Self::TransactionsPerSecond | Self::MessagesPerSecond if figure >= 1e4 => {
                format!("{:.1} k", figure / 1e3)
            }
            _ if figure >= 1e3 => format!("{figure:.0}"),
            _ => format!("{figure:.1}"),
        }
    }
}

/// One line of JSON: one subject in one case. `value` is null if the subject does not support the
/// case.
#[derive(Serialize)]
struct Row<'a> {
    suite: &'a str,
    case: &'a str,
    subject: &'a str,
    value: Option<f64>,
    unit: &'a str,
    ratio: Option<f64>,
}

/// The destination of results.
pub struct Report {
    json: bool,
}

impl Report {
    pub const fn new(json: bool) -> Self {
        Self { json }
    }

    /// Prints what the next suite measures, and the guarantees of each subject.
    pub fn heading(&self, suite: &str, about: &str, notes: &[(&str, &str)]) -> Result {
        if self.json {
            return self.subjects(suite, notes);
        }
        // Written, not printed: a closed pipe (`| head`) must not panic.
        let mut out = std::io::stdout().lock();
        writeln!(out, "== {suite} ==\n{about}\n{RATIO}\n")?;
        let width = notes.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, note) in notes {
            writeln!(out, "  {name:width$}  {note}")?;
        }
        writeln!(
            out,
            "\n{:22} {:24} {:>12} {:7} {:>7} {:>23} {:>6}",
            "case", "subject", "median", "unit", "ratio", "min..max", "rounds"
        )?;
        Ok(())
    }

    /// Reports the machine; for programs only.
    pub fn machine(&self, machine: &Machine) -> Result {
        if self.json {
            writeln!(std::io::stdout(), "{}", json!({"machine": machine}))?;
        }
        Ok(())
    }

    /// Reports the guarantees of each subject; for programs only.
    pub fn subjects(&self, suite: &str, notes: &[(&str, &str)]) -> Result {
        if self.json {
            let line = json!({"suite": suite, "subjects": notes});
            writeln!(std::io::stdout(), "{line}")?;
        }
        Ok(())
    }

    /// Reports the values of one case, in the order of the subjects.
    pub fn case(
        &self,
        suite: &str,
        case: &str,
        unit: Unit,
        results: impl IntoIterator<Item = (&'static str, Option<Spread>)>,
    ) -> Result {
        let results: Vec<_> = results.into_iter().collect();
        let doclock = results
            .iter()
            .find(|(subject, _)| subject.starts_with(OWN))
            .and_then(|(_, spread)| spread.map(|spread| spread.median));
        let mut out = std::io::stdout().lock();
        for (subject, spread) in results {
            let ratio = doclock
                .zip(spread)
                .map(|(doclock, peer)| ratio(unit.name(), doclock, peer.median));
            if self.json {
                let row = Row {
                    suite,
                    case,
                    subject,
                    value: spread.map(|spread| rounded(spread.median, 1)),
                    unit: unit.name(),
                    ratio: ratio.map(|ratio| rounded(ratio, 4)),
                };
                writeln!(out, "{}", serde_json::to_string(&row)?)?;
            } else {
                writeln!(out, "{}", line(case, subject, unit, spread, ratio))?;
            }
        }
        if !self.json {
            writeln!(out)?;
        }
        Ok(())
    }

    /// A row of a suite with a table of its own: `row` for programs or `line` for people.
    pub fn row(&self, row: &impl Serialize, line: &str) -> Result {
        let mut out = std::io::stdout().lock();
        if self.json {
            writeln!(out, "{}", serde_json::to_string(row)?)?;
        } else {
            writeln!(out, "{line}")?;
        }
        Ok(())
    }

    /// Text only for people: headings and blank lines of such a table.
    pub fn text(&self, text: &str) -> Result {
        if !self.json {
            writeln!(std::io::stdout(), "{text}")?;
        }
        Ok(())
    }

    /// A remark for the reader; omitted from the JSON lines.
    pub fn remark(&self, text: &str) -> Result {
        if self.json {
            eprintln!("{text}");
        } else {
            writeln!(std::io::stdout(), "{text}\n")?;
        }
        Ok(())
    }
}

/// A row of the table.
fn line(
    case: &str,
    subject: &str,
    unit: Unit,
    spread: Option<Spread>,
    ratio: Option<f64>,
) -> String {
    let name = unit.name();
    let Some(Spread {
        median,
        min,
        max,
        rounds,
    }) = spread
    else {
        return format!("{case:22} {subject:24} {:>12}", "n/a");
    };
    let ratio = ratio.map_or("-".into(), |ratio| format!("{ratio:.3}"));
    let (median, range) = (
        unit.show(median),
        format!("{}..{}", unit.show(min), unit.show(max)),
    );
    format!("{case:22} {subject:24} {median:>12} {name:7} {ratio:>7} {range:>23} {rounds:>6}")
}

pub fn rounded(figure: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (figure * scale).round() / scale
}
