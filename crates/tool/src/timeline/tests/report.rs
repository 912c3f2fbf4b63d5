use std::time::Duration;

use serde_json::Value;

use super::*;
use crate::timeline::columns::{write_signed, write_unsigned};
use crate::timeline::report::PART;
use crate::timeline::write_page;

fn page(timeline: &Timeline) -> String {
    let mut written = Vec::new();
    write_page(timeline, &mut written).unwrap();
    String::from_utf8(written).unwrap()
}

fn element<'a>(page: &'a str, open: &str) -> &'a str {
    let (_, rest) = page.split_once(open).unwrap();
    rest.split_once("</script>").unwrap().0
}

/// Reads a column, as the page does.
fn column(page: &str, name: &str) -> Vec<u64> {
    let text = element(page, &format!(r#"data-column="{name}">"#));
    let (mut numbers, mut number, mut shift) = (Vec::new(), 0, 0);
    for digit in text.bytes() {
        let digit = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            other => panic!("{other}"),
        };
        number |= u64::from(digit & 31) << shift;
        shift += 5;
        if digit & 32 == 0 {
            numbers.push(std::mem::take(&mut number));
            shift = 0;
        }
    }
    numbers
}

fn data(page: &str) -> Value {
    serde_json::from_str(element(page, r#"id="requests">"#)).unwrap()
}

#[test]
fn numbers_are_written_as_base64_vlq() {
    let mut written = Vec::new();
    for number in [0, 1, 31, 32, 1023, 1024, u64::MAX] {
        write_unsigned(&mut written, number).unwrap();
    }
    assert_eq!(&written[..9], b"ABfgB/fgg");
    let page = format!(
        r#"data-column="n">{}</script>"#,
        String::from_utf8(written).unwrap()
    );
    assert_eq!(column(&page, "n"), [0, 1, 31, 32, 1023, 1024, u64::MAX]);

    let mut written = Vec::new();
    for number in [0, 1, -1, 2, i64::MAX, -i64::MAX] {
        write_signed(&mut written, number).unwrap();
    }
    let page = format!(
        r#"data-column="n">{}</script>"#,
        String::from_utf8(written).unwrap()
    );
    assert_eq!(column(&page, "n"), [0, 2, 3, 4, u64::MAX - 1, u64::MAX]);
}

#[test]
fn the_page_has_its_parts_once() {
    let page = page(&timeline(0, []));
    assert!(!page.contains(PART));
    for part in ["<style>", r#"id="requests""#, "\nmain()\n"] {
        assert_eq!(page.matches(part).count(), 1, "{part}");
    }
}

#[test]
fn a_row_is_a_request_in_the_order_of_the_requests() {
    let entries = [
        released(8, "ben", 2_000, 2_000, 2_300),
        released(7, "ann", 1_900, 2_300, 2_301)
            .labelled("import")
            .on_nodes(),
        request(9, 2_100, TimedOut).of("ben").ended(2_350),
    ];
    let page = page(&timeline(4_000, entries));
    let expected: [(&str, [u64; 3]); 10] = [
        ("requested", [0, 100, 100]),
        ("wait", [400, 0, 250]),
        ("hold", [1, 300, 0]),
        ("outcome", [2 * 2 + 1, 2 * 2, 5 * 2]),
        ("track", [0, 1, 2]),
        ("label", [1, 0, 0]),
        ("site", [0, 0, 0]),
        ("lock", [0, 0, 0]),
        ("id", [14, 2, 2]),
        // The row after it, so -1.
        ("giver", [3, 0, 0]),
    ];
    for (name, numbers) in expected {
        assert_eq!(column(&page, name), numbers, "{name}");
    }
    let data = data(&page);
    assert_eq!(data["origin"], 1_900);
    assert_eq!(data["length"], 2_100);
    assert_eq!(data["owners"], serde_json::json!(["ann", "ben"]));
    assert_eq!(data["tracks"], serde_json::json!([[0, 1], [1, 1], [1, 2]]));
    assert_eq!(data["callSites"], serde_json::json!(["src/main.rs:7:13"]));
    assert_eq!(data["locks"], serde_json::json!(["1"]));
    assert_eq!(data["waits"]["longest"], serde_json::json!([0, 2]));
    assert_eq!(data["pairs"][0]["waited"], 300);
}

#[test]
fn no_name_ends_an_element_or_begins_a_comment() {
    let page = page(&hostile());
    assert_eq!(data(&page)["owners"], serde_json::json!(HOSTILE));
    for name in ["<script>alert", "<!--<", "<img"] {
        assert!(!page.contains(name), "{name}");
    }
}

#[test]
fn a_request_takes_about_twenty_bytes() {
    let bytes = |count| page(&simulated(1, count)).len();
    let per_request = (bytes(20_000) - bytes(10_000)) / 10_000;
    assert!((10..25).contains(&per_request), "{per_request}");
}

#[test]
fn an_error_of_the_writer_is_returned() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let kind = write_page(&simulated(1, 3), &mut Full).unwrap_err().kind();
    assert_eq!(kind, std::io::ErrorKind::StorageFull);
}

/// A timeline is what a file says.
#[test]
fn nonsense_makes_a_page() {
    for seed in 0..200 {
        let page = page(&nonsense(seed));
        assert_eq!(column(&page, "wait").len(), 20, "seed {seed}");
    }
}

/// Any outcome with any times: near each other, near the end of all times, or far apart.
fn nonsense(seed: u64) -> Timeline {
    let mut dice = Dice(seed);
    let mut time = || match dice.below(4) {
        0 => u64::MAX - dice.below(3),
        1 => dice.below(u64::MAX),
        _ => dice.below(5),
    };
    let outcomes = [
        Waiting, Holding, Released, Revoked, Extended, TimedOut, Deadlock,
    ];
    let entries = (0..20).map(|nth| {
        let outcome = outcomes[nth % outcomes.len()];
        let entry = request(time(), time(), outcome).of(["ann", "ben"][nth % 2]);
        match time() % 5 {
            0 => entry.granted(time()).ended(time()),
            1 => entry.granted(time()).on_nodes(),
            2 => entry.ended(time()).on_nodes(),
            3 => entry,
            _ => {
                let mut entry = entry.granted(time());
                entry.ended_at = Some(Duration::MAX);
                entry
            }
        }
    });
    let mut timeline = timeline(u64::MAX / 2, entries.collect::<Vec<_>>());
    // After the last date of a browser.
    timeline.began_at += Duration::from_millis(10_000_000_000_000_000);
    timeline
}

/// What the tests in the browser open: pages, in the folder that `DOCLOCK_REPORTS` names.
#[test]
fn reports_for_a_browser() -> std::io::Result<()> {
    let Some(folder) = std::env::var_os("DOCLOCK_REPORTS") else {
        return Ok(());
    };
    let folder = std::path::Path::new(&folder);
    let mut forgotten = simulated(3, 2_000);
    forgotten.forgotten = 1_200;
    let million = simulated(1, 1_000_000);
    let pages = [
        ("exact", &exact()),
        ("empty", &timeline(0, [])),
        ("hostile", &hostile()),
        ("nonsense", &nonsense(1)),
        ("crowd", &crowd()),
        ("simulated", &forgotten),
        ("million", &million),
    ];
    for (name, timeline) in pages {
        std::fs::write(folder.join(name).with_extension("html"), page(timeline))?;
    }
    Ok(())
}

/// Each of 300 owners waits for the one before it.
fn crowd() -> Timeline {
    let requests = 1..=300u64;
    let entries = requests.map(|number| {
        let begin = number * 1_000;
        released(
            number,
            &format!("owner-{number}"),
            begin - 1_000,
            begin,
            begin + 1_000,
        )
    });
    timeline(302_000, entries.collect::<Vec<_>>())
}

/// A timeline with each outcome, whose tables are known.
fn exact() -> Timeline {
    const MS: u64 = 1_000_000;
    let import = released(1, "ann", 0, 0, 40 * MS).labelled("import");
    let keystroke = released(2, "ben", 10 * MS, 40 * MS, 45 * MS).labelled("keystroke");
    let autosave = request(3, 12 * MS, TimedOut).of("cem").ended(32 * MS);
    let cancelled = request(4, 14 * MS, Cancelled).of("cem").ended(16 * MS);
    let deadlock = request(5, 46 * MS, Deadlock)
        .of("dora")
        .ended(47 * MS)
        .on_nodes();
    let revoked = request(6, 42 * MS, Revoked).of("ann");
    let revoked = revoked.granted(45 * MS).ended(95 * MS);
    let held = request(7, 90 * MS, Holding)
        .of("ben")
        .granted(95 * MS)
        .on_nodes();
    let extended = request(7, 96 * MS, Extended).of("ben").on_nodes();
    let extended = extended.granted(97 * MS).ended(97 * MS);
    let waiting = request(8, 96 * MS, Waiting).of("cem");
    let mut entries = [
        cancelled, autosave, import, keystroke, deadlock, revoked, extended, held, waiting,
    ];
    for (line, entry) in entries.iter_mut().enumerate() {
        entry.call_site.line = 10 + line as u32;
    }
    timeline(100 * MS, entries)
}
