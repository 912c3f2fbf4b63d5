//! Unit tests of `src/cells.rs`.

use super::*;

#[test]
fn a_long_text_is_cut_at_a_character_and_a_path_at_its_beginning() {
    assert_eq!(cut("window", 6, KeptPart::Beginning), "window");
    assert_eq!(cut("windows", 6, KeptPart::Beginning), "windo…");
    assert_eq!(cut("src/main.rs:7:13", 9, KeptPart::End), "….rs:7:13");
    for columns in 2..20 {
        for text in [
            "文字化け文字化け文字化け",
            "a文b字c化d",
            "🦀🦀🦀🦀🦀🦀🦀🦀🦀🦀🦀",
        ] {
            for keep in [KeptPart::Beginning, KeptPart::End] {
                assert!(width(&cut(text, columns, keep)) <= columns);
            }
        }
    }
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let cut = cut("a\u{1b}[2J\nb\u{202e}c", 20, KeptPart::Beginning);
    assert_eq!(cut, "a\u{fffd}[2J\u{fffd}b\u{fffd}c");
}

#[test]
fn durations_and_sizes_are_short() {
    let short = |millis| ShortDuration(Duration::from_millis(millis)).to_string();
    let cases = [
        (0, "0µs"),
        (999, "999ms"),
        (1_240, "1.2s"),
        (99_999, "100.0s"),
        (100_000, "1m 40s"),
        (6_000_000, "1h 40m"),
        (400_000_000, "4d 15h"),
    ];
    for (millis, expected) in cases {
        assert_eq!(short(millis), expected);
    }
    assert_eq!(Bytes(999).to_string(), "999 B");
    assert_eq!(Bytes(3_400_000).to_string(), "3.4 MB");
    assert_eq!(Count(1_u64, "request").to_string(), "1 request");
    assert_eq!(Count(2_u64, "inbox").to_string(), "2 inboxes");
}
