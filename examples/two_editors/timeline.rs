//! Timelines of the locks.

use std::fmt::Write;
use std::time::{Duration, Instant};

use crate::overlap::Stay;

/// The width of the longer run in characters.
const WIDTH: u32 = 56;

/// Both runs, one under the other, on one scale.
pub fn compare(on_nodes: &[Stay; 2], on_whole: &[Stay; 2]) -> String {
    let (nodes, whole) = (length(on_nodes), length(on_whole));
    let scale = nodes.max(whole).max(Duration::from_nanos(1));
    let times = whole.as_secs_f64() / nodes.max(Duration::from_nanos(1)).as_secs_f64();
    let both = both(on_nodes);
    format!(
        "each locks its own section\n{}\
         \x20 both done after {:.0} ms; for {:.0} ms of it both held their sections at once\n\n\
         each locks the whole document\n{}\
         \x20 both done after {:.0} ms, {times:.1} times as long\n",
        drawn(on_nodes, scale),
        millis(nodes),
        millis(both),
        drawn(on_whole, scale),
        millis(whole),
    )
}

/// The time of the first request.
fn begin([one, other]: &[Stay; 2]) -> Instant {
    one.asked.min(other.asked)
}

/// How long both took in all.
fn length(stays @ [one, other]: &[Stay; 2]) -> Duration {
    one.until.max(other.until) - begin(stays)
}

/// How long both held their locks at the same time.
fn both([one, other]: &[Stay; 2]) -> Duration {
    let from = one.from.max(other.from);
    one.until.min(other.until).saturating_duration_since(from)
}

fn drawn(stays: &[Stay; 2], scale: Duration) -> String {
    let mut text = String::new();
    let begin = begin(stays);
    for stay in stays {
        let Stay { name, place, .. } = stay;
        let bar: String = (0..WIDTH)
            .map(|at| sign(stay, begin + scale * (2 * at + 1) / (2 * WIDTH)))
            .collect();
        let [from, until] = [stay.from, stay.until].map(|at| millis(at - begin));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "  {name} on {place:<11}|{bar}| held from {from:.0} to {until:.0} ms"
        );
    }
    text
}

/// The state of an editor at a moment: `█` it held, `·` it waited.
fn sign(stay: &Stay, moment: Instant) -> char {
    match moment {
        moment if (stay.from..stay.until).contains(&moment) => '█',
        moment if (stay.asked..stay.from).contains(&moment) => '·',
        _ => ' ',
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
