//! The JSON lines of a run.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::Result;
use crate::machine::Machine;

/// Everything that the page is made of.
#[derive(Default)]
pub struct Results {
    /// Each differs from the others.
    pub machines: Vec<Machine>,
    pub suites: Vec<Suite>,
    pub growth: Vec<Growth>,
}

/// The rows of a suite in the order of the lines.
pub struct Suite {
    pub name: String,
    pub rows: Vec<Row>,
}

/// One subject in one case.
#[derive(Deserialize)]
pub struct Row {
    pub suite: String,
    pub case: String,
    pub subject: String,
    pub value: Option<f64>,
    pub unit: String,
    /// Of the suite `contended`.
    #[serde(flatten)]
    pub contended: Option<Contended>,
}

#[derive(Deserialize)]
pub struct Contended {
    /// In microseconds.
    pub length: f64,
    pub operations: usize,
    pub threads: usize,
    /// Of one thread without a lock.
    pub percent: f64,
    pub p99: f64,
}

/// One size of the input in the suite `growth`.
#[derive(Deserialize)]
pub struct Growth {
    pub case: String,
    pub title: String,
    pub input: String,
    pub size: usize,
    pub value: f64,
    pub unit: String,
    pub refused: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Machine {
        machine: Machine,
    },
    /// The guarantees of each subject, for a reader of the file.
    Subjects {
        #[serde(rename = "subjects")]
        _subjects: IgnoredAny,
    },
    /// A figure of a suite that the page does not show.
    Figure {
        #[serde(rename = "figure")]
        _figure: IgnoredAny,
    },
    Growth(Growth),
    Row(Row),
}

impl Results {
    pub fn read(&mut self, text: &str) -> Result {
        for line in text.lines() {
            let line = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
            match line {
                Line::Machine { machine } => {
                    if !self.machines.contains(&machine) {
                        self.machines.push(machine);
                    }
                }
                Line::Subjects { .. } | Line::Figure { .. } => {}
                Line::Growth(row) => self.growth.push(row),
                Line::Row(row) => self.suite(&row.suite).rows.push(row),
            }
        }
        Ok(())
    }

    fn suite(&mut self, name: &str) -> &mut Suite {
        let nth = self.suites.iter().position(|suite| suite.name == name);
        let nth = nth.unwrap_or_else(|| {
            self.suites.push(Suite {
                name: name.to_owned(),
                rows: Vec::new(),
            });
            self.suites.len() - 1
        });
        &mut self.suites[nth]
    }

    pub fn rows<'r>(&'r self, suite: &'r str) -> impl Iterator<Item = &'r Row> {
        let suites = self.suites.iter();
        let suites = suites.filter(move |one| one.name == suite);
        suites.flat_map(|suite| &suite.rows)
    }
}

impl Suite {
    /// The rows of each case.
    pub fn cases(&self) -> impl Iterator<Item = &[Row]> {
        self.rows.chunk_by(|one, next| one.case == next.case)
    }
}
