//! 1: text at every boundary.

use std::ops::Range;

use doclock::dsl::*;
use doclock::{
    Draft, TransactionManager, View,
    document::{Change, EditError, NodeSpec, SplitPoint, Text},
    transaction::{Operation, OperationError, TransactionError},
};
use proptest::prelude::*;

use crate::common::{cases, commit, id, image, store, text};
use crate::with_text;

/// One character of each width, combining characters, and grapheme clusters.
const TEXTS: [&str; 9] = [
    "",
    "a",
    "Hello",
    "naïve",
    "漢字",
    "🦀a🦀",
    "e\u{301}e",
    "👨‍👩‍👧!",
    "a\r\nb\u{2028}",
];

fn spliced(text: &str, range: Range<usize>, inserted: &str) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    chars.splice(range, inserted.chars());
    chars.into_iter().collect()
}

#[test]
fn text_01_insert_delete_replace_work_at_every_boundary_and_never_split_a_character() {
    for before in TEXTS {
        let store = with_text(before, []);
        let len = before.chars().count();
        let edited = |edit: &dyn Fn(&mut Draft) -> Result<(), EditError>| {
            let mut transaction = store.begin("ann").unwrap();
            edit(&mut transaction).unwrap();
            let node = transaction.node("t").unwrap();
            assert_eq!(node.text().len(), node.text().chars().count());
            text(&transaction, "t")
        };
        for start in 0..=len {
            for inserted in ["", "x", "ß漢🦀"] {
                let found = edited(&|transaction| transaction.insert_text("t", start, inserted));
                assert_eq!(
                    found,
                    spliced(before, start..start, inserted),
                    "{before:?} at {start}"
                );
            }
            for end in start..=len {
                let found = edited(&|transaction| transaction.delete_text("t", start..end));
                assert_eq!(
                    found,
                    spliced(before, start..end, ""),
                    "{before:?} {start}..{end}"
                );
                for inserted in ["", "x", "ß漢🦀"] {
                    let found = edited(&|transaction| {
                        transaction.replace_text(id("t"), start..end, inserted)
                    });
                    let expected = spliced(before, start..end, inserted);
                    assert_eq!(found, expected, "{before:?} {start}..{end}");
                }
                let node = store.snapshot();
                let slice = node.node("t").unwrap().text().slice(start..end).unwrap();
                let expected: String = before.chars().skip(start).take(end - start).collect();
                assert_eq!(slice, expected);
            }
        }
        for after in TEXTS {
            assert_eq!(
                edited(&|transaction| transaction.set_text("t", after)),
                after
            );
        }
    }
}

#[test]
#[expect(clippy::reversed_empty_ranges, reason = "what must be refused")]
fn text_01_out_of_range_is_an_error_with_the_range_and_the_length() {
    let long = "漢🦀".repeat(400);
    for before in TEXTS.into_iter().chain([long.as_str()]) {
        let store = with_text(before, []);
        let unchanged = image(&store.snapshot());
        let len = before.chars().count();
        let manager = TransactionManager::new(store.clone());
        let refused = |operation: Operation, range: Range<usize>| {
            let Range { start, end } = range;
            let error = manager.execute([operation]).unwrap_err();
            let reason =
                format!("characters {start}..{end} are out of range: the text of node t has {len}");
            assert!(error.to_string().ends_with(&reason), "{error}");
            let TransactionError::Operation {
                cause: OperationError::Edit(cause),
                ..
            } = error
            else {
                panic!("{error}")
            };
            assert_eq!(
                cause,
                EditError::TextOutOfRange {
                    id: id("t"),
                    start,
                    end,
                    len
                }
            );
            assert_eq!(image(&store.snapshot()), unchanged);
        };
        for at in [len + 1, len + 7, usize::MAX - 1, usize::MAX] {
            refused(insert_text(at, "x").on("t"), at..at);
            refused(insert_text(at, "").on("t"), at..at);
        }
        let beyond = [
            0..len + 1,
            len..len + 1,
            len + 1..len + 1,
            0..usize::MAX,
            len..usize::MAX,
        ];
        let reversed = [1..0, usize::MAX..0, len + 1..len, usize::MAX..usize::MAX];
        for range in beyond.into_iter().chain(reversed) {
            refused(
                delete_text_range(range.start, range.end).on("t"),
                range.clone(),
            );
            refused(
                replace_text(range.start, range.end, "x").on("t"),
                range.clone(),
            );
            refused(
                replace_text(range.start, range.end, "").on("t"),
                range.clone(),
            );
            assert_eq!(Text::from(before).slice(range), None);
        }
        let at = len + 1;
        let change = |at, removed: &str, inserted: &str| Change::SpliceText {
            id: id("t"),
            at,
            removed: removed.into(),
            inserted: inserted.into(),
            marks: None,
        };
        for change in [
            change(at, "", "x"),
            change(usize::MAX, "", "x"),
            change(usize::MAX, "x", ""),
        ] {
            let refused = store.begin("ann").unwrap().apply(change);
            assert!(
                matches!(refused, Err(EditError::TextOutOfRange { .. })),
                "{refused:?}"
            );
        }
    }
}

/// A text changes its representation when it grows beyond 1024 bytes, and back when it shrinks
/// below 512.
#[test]
fn text_01_edits_around_the_sizes_where_the_representation_changes_are_exact() {
    for character in ['a', 'ß', '漢', '🦀'] {
        let width = character.len_utf8();
        for bytes in [508, 511, 512, 513, 516, 1020, 1023, 1024, 1025, 1028, 2048] {
            // Of exactly this many bytes, with a character of another width first to shift the
            // rest.
            let wide = bytes / width;
            let before = "-".repeat(bytes - wide * width) + &character.to_string().repeat(wide);
            assert_eq!(before.len(), bytes);
            let len = before.chars().count();
            let store = with_text(&before, []);
            let places = [0, 1, len / 2, len - 1, len];
            for start in places {
                for end in places.into_iter().filter(|&end| end >= start) {
                    for inserted in ["", "x", "🦀漢ßa", &"ß".repeat(300)] {
                        let mut transaction = store.begin("ann").unwrap();
                        transaction
                            .replace_text(id("t"), start..end, inserted)
                            .unwrap();
                        let expected = spliced(&before, start..end, inserted);
                        let node = transaction.node("t").unwrap();
                        assert!(
                            *node.text() == *expected,
                            "{bytes} {character} {start}..{end}"
                        );
                        assert_eq!(node.text().len(), expected.chars().count());
                        assert!(node.text().chunks().collect::<String>() == expected);
                        let undo = transaction.changes().last().map(Change::inverse);
                        if let Some(undo) = undo {
                            transaction.apply(undo).unwrap();
                        }
                        assert!(
                            text(&transaction, "t") == before,
                            "{bytes} {character} {start}..{end}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn text_01_equal_texts_with_different_histories_are_equal() {
    // 700 bytes: a string if created so, a rope if it was longer before.
    let short = "漢a".repeat(175);
    let (one, other) = (with_text(&short, []), with_text(&short.repeat(4), []));
    commit(&other, |transaction| {
        let len = short.chars().count();
        transaction.delete_text("t", len..4 * len).unwrap();
    });
    let (one, other) = (one.snapshot(), other.snapshot());
    assert_eq!(one, other);
    assert_eq!(image(&one), image(&other));
    let [one, other] = [&one, &other].map(|snapshot| snapshot.node("t").unwrap().text().clone());
    assert_eq!((&one, &other), (&other, &one));
    assert_eq!(
        (one.len(), format!("{one:?}")),
        (other.len(), format!("{other:?}"))
    );
    assert!(one.chars().eq(other.chars()));
    assert!(one == *short && other == *short && one == Text::from(short.clone()));
    assert_ne!(one, Text::from(short + "a"));
}

proptest! {
    #![proptest_config(cases(100))]

    /// Some texts are long enough for a rope; every version stays unchanged.
    #[test]
    fn text_01_random_edits_agree_with_a_vector_of_characters(
        start in "[a漢]{0,40}",
        repeat in prop_oneof![Just(1_usize), 20..40_usize],
        edits in prop::collection::vec((any::<u32>(), 0..60_usize, "[bß🦀\r\n]{0,80}", any::<bool>()), 1..40),
    ) {
        let mut expected: Vec<char> = start.repeat(repeat).chars().collect();
        let store = with_text(&expected.iter().collect::<String>(), []);
        let mut versions = vec![(store.snapshot(), expected.clone())];
        let mut transaction = store.begin("ann").unwrap();
        for (at, removed, inserted, committed) in edits {
            let start = at as usize % (expected.len() + 1);
            let range = start..(start + removed).min(expected.len());
            let part: String = expected[range.clone()].iter().collect();
            let text = transaction.node("t").unwrap().text();
            prop_assert_eq!(text.slice(range.clone()), Some(part.into()));
            prop_assert_eq!(text.slice(0..expected.len() + 1), None);
            prop_assert_eq!(text.slice(expected.len()..expected.len()), Some("".into()));
            expected.splice(range.clone(), inserted.chars());
            transaction.replace_text(id("t"), range, inserted).unwrap();
            let node = transaction.node("t").unwrap();
            prop_assert!(node.text().chars().eq(expected.iter().copied()));
            prop_assert_eq!(node.text().len(), expected.len());
            prop_assert_eq!(node.text(), &Text::from(expected.iter().collect::<String>()));
            if committed {
                transaction.commit().unwrap();
                versions.push((store.snapshot(), expected.clone()));
                transaction = store.begin("ann").unwrap();
            }
        }
        for (snapshot, expected) in versions {
            let node = snapshot.node("t").unwrap();
            prop_assert!(node.text().chars().eq(expected), "version {} changed", snapshot.version());
        }
    }

    /// Parts on either side of the size at which a text becomes a rope.
    #[test]
    fn text_01_splitting_and_joining_restores_a_text(
        whole in "[aé漢🦀]{0,900}",
        at in any::<prop::sample::Index>(),
    ) {
        let chars: Vec<char> = whole.chars().collect();
        let at = at.index(chars.len() + 1);
        let store = store();
        let mut transaction = store.begin("ann").unwrap();
        let line = text_node("paragraph", whole.as_str()).with_id("t");
        transaction.create(NodeSpec::new("root").with_children([line])).unwrap();
        let cut = SplitPoint { text: at, children: 0 };
        let right = transaction.split_node("t", cut, None).unwrap();
        for (part, expected) in [(id("t"), &chars[..at]), (right.clone(), &chars[at..])] {
            let expected: String = expected.iter().collect();
            prop_assert_eq!(transaction.node(&part).unwrap().text(), &Text::from(expected));
        }
        transaction.join_nodes("t", right).unwrap();
        prop_assert_eq!(transaction.node("t").unwrap().text(), &Text::from(whole));
    }
}
