//! The distribution of waits or of holds.

use std::cmp::Reverse;

use serde::Serialize;

/// Durations in nanoseconds.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DurationStatistics {
    pub(super) count: usize,
    pub(super) p50: u64,
    pub(super) p95: u64,
    pub(super) p99: u64,
    pub(super) max: u64,
    /// Without the empty ones at both ends and after the one of zero.
    pub(super) bins: Vec<Bin>,
    /// The positions of the longest ten, the longest first. None has no length.
    pub(super) longest: Vec<usize>,
}

/// How many durations are at least `from` and below `to`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Bin {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) count: usize,
}

impl DurationStatistics {
    /// Each duration comes with the position of its entry.
    pub(super) fn new(mut durations: Vec<(u64, usize)>) -> Self {
        durations.sort_unstable_by_key(|&(duration, position)| (Reverse(duration), position));
        let count = durations.len();
        let Some(&(max, _)) = durations.first() else {
            return Self::default();
        };
        // The least duration that so many in a hundred do not exceed.
        let percentile = |percent: usize| durations[count - (count * percent).div_ceil(100)].0;
        let longest = durations.iter().take(10);
        let longest = longest.take_while(|(duration, _)| *duration > 0);
        Self {
            count,
            p50: percentile(50),
            p95: percentile(95),
            p99: percentile(99),
            max,
            bins: bins(&durations),
            longest: longest.map(|(_, position)| *position).collect(),
        }
    }
}

/// The longest duration comes first.
fn bins(mut durations: &[(u64, usize)]) -> Vec<Bin> {
    let mut bins: Vec<Bin> = Vec::new();
    let edges: Vec<u64> = edges().collect();
    for (index, &from) in edges.iter().enumerate().rev() {
        let count = durations.partition_point(|&(duration, _)| duration >= from);
        if count > 0 || !bins.is_empty() {
            let to = edges.get(index + 1).copied().unwrap_or(u64::MAX);
            bins.push(Bin { from, to, count });
        }
        durations = &durations[count..];
        if durations.is_empty() {
            break;
        }
    }
    bins.reverse();
    if bins[0].from == 0 {
        let empty = bins.iter().skip(1).take_while(|bin| bin.count == 0);
        bins.drain(1..=empty.count());
    }
    bins
}

/// 0, 1, 2, 5, 10, 20, 50 and so on, up to 158 years.
fn edges() -> impl Iterator<Item = u64> {
    let powers = (0..=18).map(|power| 10u64.pow(power));
    let edges = powers.flat_map(|power| [power, 2 * power, 5 * power]);
    std::iter::once(0).chain(edges)
}
