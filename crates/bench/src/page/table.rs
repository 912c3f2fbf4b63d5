//! The tables of the page.

use super::rows::{Growth, Results};
use crate::machine::Machine;

/// One line for each machine and version.
pub fn machines(results: &Results) -> String {
    let tables = results.machines.iter().map(machine);
    let tables = tables.collect::<Vec<_>>().join("\n");
    let mut rounds = results.machines.iter().filter_map(|machine| machine.rounds);
    match rounds.any(|rounds| rounds < 3) {
        true => format!(
            "{tables}\n**Fewer than three rounds: this run shows the form of the page only.**\n"
        ),
        false => tables,
    }
}

fn machine(machine: &Machine) -> String {
    let unknown = || "unknown".to_owned();
    let rows = [
        ("processor", machine.processor.clone()),
        ("cores", machine.cores.map(|cores| cores.to_string())),
        (
            "memory",
            machine.memory_gib.map(|size| format!("{size} GiB")),
        ),
        ("system", Some(machine.system.clone())),
        ("compiler", Some(machine.rustc.clone())),
        ("commit", machine.commit.clone()),
        ("date", machine.date.clone()),
        (
            "rounds",
            machine
                .rounds
                .map_or(Some("the defaults".into()), |rounds| {
                    Some(rounds.to_string())
                }),
        ),
    ];
    let (names, values): (Vec<_>, Vec<_>) = rows
        .into_iter()
        .map(|(name, value)| (name, value.unwrap_or_else(unknown)))
        .unzip();
    let rules = vec!["---"; names.len()];
    let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let text = |cells: Vec<&str>| cells.into_iter().map(cell).collect::<Vec<_>>();
    let values: Vec<_> = values.iter().map(|value| cell(value)).collect();
    row(&text(names)) + &row(&text(rules)) + &row(&values)
}

/// For each input of the suite `growth`: the cost of the smallest and the largest size.
pub fn growth(rows: &[Growth]) -> String {
    let mut table = String::from(
        "| work | input | smallest | cost | largest | cost | grows with |\n|---|---|---|---|---|---|---|\n",
    );
    for rows in rows.chunk_by(|one, next| one.case == next.case) {
        let [first, .., last] = rows else {
            continue;
        };
        let cost = |row: &Growth| {
            let refused = if row.refused.is_some() {
                ", refused"
            } else {
                ""
            };
            measure(row.value, &row.unit) + refused
        };
        let sizes = (last.size as f64 / first.size as f64).ln();
        let power = (last.value.max(1.0) / first.value.max(1.0)).ln() / sizes;
        // No negative zero.
        let power = (power * 10.0).round() / 10.0 + 0.0;
        table += &format!(
            "| {} | {} | {} | {} | {} | {} | n^{power:.1} |\n",
            cell(&first.title),
            cell(&first.input),
            thousands(first.size as f64),
            cost(first),
            thousands(last.size as f64),
            cost(last),
        );
    }
    table
}

/// Text in a cell of a table.
pub fn cell(text: &str) -> String {
    let mut cell = String::with_capacity(text.len());
    for char in text.trim().chars() {
        match char {
            '|' | '\\' | '<' | '>' | '*' | '_' | '`' | '[' | ']' => cell.extend(['\\', char]),
            '\n' => cell.push(' '),
            _ => cell.push(char),
        }
    }
    cell
}

/// A value with three digits and its unit, in thousands of it where they are shorter.
pub fn measure(value: f64, unit: &str) -> String {
    measure_to(3, value, unit)
}

/// The same with so many digits.
pub fn measure_to(digits: i32, value: f64, unit: &str) -> String {
    let (scaled, unit) = match unit.strip_prefix("ns") {
        Some(of) => {
            let (scaled, name) = match value {
                1e9.. => (value / 1e9, "s"),
                1e6.. => (value / 1e6, "ms"),
                1e3.. => (value / 1e3, "µs"),
                _ => (value, "ns"),
            };
            (scaled, format!("{name}{of}"))
        }
        None => {
            let (scaled, prefix) = match value {
                1e6.. => (value / 1e6, "M"),
                1e3.. => (value / 1e3, "k"),
                _ => (value, ""),
            };
            let is_apart = !prefix.is_empty() && !unit.starts_with('/');
            let space = if is_apart { " " } else { "" };
            (scaled, format!("{prefix}{space}{unit}"))
        }
    };
    format!("{} {unit}", significant_of(scaled, digits))
}

/// A ratio with two digits.
pub fn significant(ratio: f64) -> String {
    significant_of(ratio, 2)
}

fn significant_of(number: f64, digits: i32) -> String {
    if number == 0.0 {
        return "0".into();
    }
    let scale = 10f64.powi(digits - 1 - number.abs().max(1e-9).log10().floor() as i32);
    let rounded = (number * scale).round() / scale;
    let decimals = (digits - 1 - rounded.abs().max(1e-9).log10().floor() as i32).max(0);
    match rounded >= 1e3 {
        true => thousands(rounded),
        false => format!("{rounded:.*}", decimals as usize),
    }
}

fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut grouped = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
