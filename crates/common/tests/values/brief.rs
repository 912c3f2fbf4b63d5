//! Names in error texts, shortened.

use std::fmt;

use doclock_common::brief::{Brief, LONGEST};

#[test]
fn a_long_name_is_truncated_and_shown_with_its_length() {
    let whole = "x".repeat(LONGEST);
    assert_eq!(Brief(&whole).to_string(), whole);
    let longer = "x".repeat(LONGEST + 1);
    let beginning = &longer[..LONGEST];
    assert_eq!(
        Brief(&longer).to_string(),
        format!("{beginning}… (129 bytes)")
    );
    assert_eq!(format!("{:?}", Brief("a\nb")), r#""a\nb""#);
    let quoted = format!("{:?}", Brief(&longer));
    assert_eq!(quoted, format!("\"{}… (131 bytes)", &longer[..LONGEST - 1]));
}

#[test]
fn no_character_is_cut() {
    for shift in 0..4 {
        let name = format!("{}{}", "x".repeat(shift), "🦀".repeat(1 << 20));
        let brief = Brief(&name).to_string();
        let shown = brief
            .strip_suffix(&format!("… ({} bytes)", name.len()))
            .unwrap();
        assert!(name.starts_with(shown));
        assert!((LONGEST - 3..=LONGEST).contains(&shown.len()));
    }
}

#[test]
fn a_name_written_in_parts_is_truncated_at_a_character() {
    struct Parts;
    impl fmt::Display for Parts {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(&"x".repeat(LONGEST - 1))?;
            f.write_str("文")?;
            f.write_str("y")
        }
    }
    let beginning = "x".repeat(LONGEST - 1);
    assert_eq!(
        Brief(Parts).to_string(),
        format!("{beginning}… (131 bytes)")
    );
}
