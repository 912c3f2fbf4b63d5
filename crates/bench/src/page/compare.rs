//! Where doclock wins and where it loses, from the ratios of all cases.

use super::rows::{Results, Row};
use super::table::{cell, significant};
use crate::report::{OWN, ratio};

/// Subjects that do less than the work of their suite: floors, not peers.
const FLOORS: [&str; 9] = [
    "bare operations",
    "bare overlay commit",
    "no lock, one thread",
    "no other task",
    "only the work",
    "ropey cloned",
    "ropey in place",
    "string copied",
    "tokio Semaphore",
];

/// Ratios closer to 1 are in neither list: runs on one machine differ by as much.
const MARGIN: f64 = 1.1;

/// More cases than these are counted, not named.
const NAMED: usize = 3;

pub fn is_floor(subject: &str) -> bool {
    FLOORS.contains(&subject)
}

/// The value of doclock's first row in a case: the reference of the ratios.
fn reference(case: &[Row]) -> Option<f64> {
    case.iter().find(|row| row.subject.starts_with(OWN))?.value
}

/// A peer in one suite, with its ratio in each case.
struct Peer<'r> {
    subject: &'r str,
    ratios: Vec<(&'r str, f64)>,
}

/// The suites with the peers for which some ratios satisfy the condition.
fn list(results: &Results, title: &str, counts: impl Fn(f64) -> bool) -> String {
    let mut table = format!("| suite | {title} |\n|---|---|\n");
    for suite in &results.suites {
        let mut peers: Vec<Peer<'_>> = Vec::new();
        for case in suite.cases() {
            let Some(doclock) = reference(case) else {
                continue;
            };
            for row in case {
                let is_peer = !row.subject.starts_with(OWN) && !is_floor(&row.subject);
                let (true, Some(value)) = (is_peer, row.value) else {
                    continue;
                };
                let found = (row.case.as_str(), ratio(&row.unit, doclock, value));
                match peers.iter_mut().find(|peer| peer.subject == row.subject) {
                    Some(peer) => peer.ratios.push(found),
                    None => peers.push(Peer {
                        subject: &row.subject,
                        ratios: vec![found],
                    }),
                }
            }
        }
        let peers = peers.iter().filter_map(|peer| peer.line(&counts));
        let peers: Vec<_> = peers.collect();
        if !peers.is_empty() {
            table += &format!("| `{}` | {} |\n", suite.name, peers.join("; "));
        }
    }
    table
}

impl Peer<'_> {
    fn line(&self, counts: impl Fn(f64) -> bool) -> Option<String> {
        let mut found = self.ratios.clone();
        found.retain(|(_, ratio)| counts(*ratio));
        let ratios = found.iter().map(|(_, ratio)| *ratio);
        let least = ratios.clone().reduce(f64::min)?;
        let most = ratios.reduce(f64::max)?;
        let range = match significant(least) == significant(most) {
            true => significant(least),
            false => format!("{} to {}", significant(least), significant(most)),
        };
        let cases = match (found.len(), self.ratios.len()) {
            (all, of) if all == of => String::new(),
            (some @ ..=NAMED, _) => {
                let names = found[..some].iter().map(|(case, _)| cell(case));
                format!(" ({})", names.collect::<Vec<_>>().join("; "))
            }
            (some, of) => format!(" ({some} of {of} cases)"),
        };
        Some(format!("{} **{range}**{cases}", cell(self.subject)))
    }
}

pub fn wins(results: &Results) -> String {
    let title = "cost of the peer in costs of doclock";
    list(results, title, |ratio| ratio >= MARGIN)
}

pub fn losses(results: &Results) -> String {
    let title = "cost of the peer in costs of doclock";
    list(results, title, |ratio| ratio <= 1.0 / MARGIN)
}
