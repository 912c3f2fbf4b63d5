//! The promises of texts and marks, by number, as far as there are operations for them.

mod common;

use std::ops::Range;

use common::{Action, RefDoc, RefMark, Spec, cases, commit, id, image, marks, store, text};
use doclock::dsl::*;
use doclock::{
    AttributePatch, Change, DataStore, EditError, Editor, Mark, Marks, MarksChange, NodeSpec,
    Operation, OperationError, Place, Text, Transaction, TransactionError, TransactionManager,
    View, check,
};
use proptest::prelude::*;
use serde_json::json;

/// A store with the text node `t`.
fn with_text(text: &str, marks: impl IntoIterator<Item = Mark>) -> DataStore {
    let store = store();
    commit(&store, |transaction| {
        let spec = text_node("inline-text", text).with_id("t");
        transaction.create(spec.with_marks(marks)).unwrap();
    });
    store
}

/// One of each width, what combines, and what a reader takes for one character.
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

// --- 1: text at every boundary ---

#[test]
fn text_01_insert_delete_replace_work_at_every_boundary_and_never_split_a_character() {
    for before in TEXTS {
        let store = with_text(before, []);
        let len = before.chars().count();
        let edited = |edit: &dyn Fn(&mut Transaction) -> Result<(), EditError>| {
            let mut transaction = store.begin("ann").unwrap();
            edit(&mut transaction).unwrap();
            let node = transaction.node(&id("t")).unwrap();
            assert_eq!(node.text().len(), node.text().chars().count());
            text(&transaction, "t")
        };
        for start in 0..=len {
            for inserted in ["", "x", "ß漢🦀"] {
                let found =
                    edited(&|transaction| transaction.insert_text(&id("t"), start, inserted));
                assert_eq!(
                    found,
                    spliced(before, start..start, inserted),
                    "{before:?} at {start}"
                );
            }
            for end in start..=len {
                let found = edited(&|transaction| transaction.delete_text(&id("t"), start..end));
                assert_eq!(
                    found,
                    spliced(before, start..end, ""),
                    "{before:?} {start}..{end}"
                );
                for inserted in ["", "x", "ß漢🦀"] {
                    let found = edited(&|transaction| {
                        transaction.replace_text(&id("t"), start..end, inserted)
                    });
                    let expected = spliced(before, start..end, inserted);
                    assert_eq!(found, expected, "{before:?} {start}..{end}");
                }
                let node = store.snapshot();
                let slice = node
                    .node(&id("t"))
                    .unwrap()
                    .text()
                    .slice(start..end)
                    .unwrap();
                let expected: String = before.chars().skip(start).take(end - start).collect();
                assert_eq!(slice, expected);
            }
        }
        for after in TEXTS {
            assert_eq!(
                edited(&|transaction| transaction.set_text(&id("t"), after)),
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

/// A text changes its representation where it grows past 1024 bytes, and back where it shrinks below 512.
#[test]
fn text_01_edits_around_the_sizes_where_the_representation_changes_are_exact() {
    for character in ['a', 'ß', '漢', '🦀'] {
        let width = character.len_utf8();
        for bytes in [508, 511, 512, 513, 516, 1020, 1023, 1024, 1025, 1028, 2048] {
            // Of just so many bytes, with one of another width in front to shift all that follows.
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
                            .replace_text(&id("t"), start..end, inserted)
                            .unwrap();
                        let expected = spliced(&before, start..end, inserted);
                        let node = transaction.node(&id("t")).unwrap();
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
fn text_01_how_a_text_came_about_shows_nowhere() {
    // 700 bytes: a string when it comes so, a rope when it was longer before.
    let short = "漢a".repeat(175);
    let (one, other) = (with_text(&short, []), with_text(&short.repeat(4), []));
    commit(&other, |transaction| {
        let len = short.chars().count();
        transaction.delete_text(&id("t"), len..4 * len).unwrap();
    });
    let (one, other) = (one.snapshot(), other.snapshot());
    assert_eq!(one, other);
    assert_eq!(image(&one), image(&other));
    let [one, other] =
        [&one, &other].map(|snapshot| snapshot.node(&id("t")).unwrap().text().clone());
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

    /// Some text is long, so that it is kept as a rope; every version stays what it was.
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
            expected.splice(range.clone(), inserted.chars());
            transaction.replace_text(&id("t"), range, inserted).unwrap();
            let node = transaction.node(&id("t")).unwrap();
            prop_assert!(node.text().chars().eq(expected.iter().copied()));
            prop_assert_eq!(node.text().len(), expected.len());
            if committed {
                transaction.commit().unwrap();
                versions.push((store.snapshot(), expected.clone()));
                transaction = store.begin("ann").unwrap();
            }
        }
        for (snapshot, expected) in versions {
            let node = snapshot.node(&id("t")).unwrap();
            prop_assert!(node.text().chars().eq(expected), "version {} changed", snapshot.version());
        }
    }
}

// --- 2: marks in normal form ---

fn bold(range: Range<usize>) -> Mark {
    Mark::new("bold", range)
}

fn link(range: Range<usize>, href: &str) -> Mark {
    Mark::new("link", range).with_attributes([("href", json!(href))])
}

fn bolds<const N: usize>(ranges: [(usize, usize); N]) -> Vec<(usize, usize, String)> {
    ranges
        .map(|(start, end)| (start, end, "bold".to_owned()))
        .to_vec()
}

/// What marks come to on a text of ten characters, whichever way they get there.
fn normal(given: Vec<Mark>) -> Vec<(usize, usize, String)> {
    let store = with_text("0123456789", []);
    let mut transaction = store.begin("ann").unwrap();
    transaction.set_marks(&id("t"), given.clone()).unwrap();
    assert_eq!(check(&transaction), Ok(()));
    let created = with_text("0123456789", given);
    assert_eq!(marks(&transaction, "t"), marks(&created.snapshot(), "t"));
    marks(&transaction, "t")
}

#[test]
fn text_02_a_mark_without_a_range_covers_the_text() {
    assert_eq!(normal(vec![Mark::whole("bold")]), bolds([(0, 10)]));
    assert_eq!(
        normal(vec![bold(2..3), Mark::whole("bold")]),
        bolds([(0, 10)])
    );
    let empty = with_text("", [Mark::whole("bold")]);
    assert_eq!(marks(&empty.snapshot(), "t"), []);
}

#[test]
fn text_02_empty_ranges_vanish() {
    assert_eq!(normal(vec![bold(0..0), bold(4..4), bold(10..10)]), []);
    assert_eq!(normal(vec![bold(4..4), bold(3..5)]), bolds([(3, 5)]));
}

#[test]
fn text_02_equal_neighbours_and_overlaps_merge_whatever_lies_between() {
    assert_eq!(
        normal(vec![bold(0..3), bold(3..5)]),
        bolds([(0, 5)]),
        "neighbours"
    );
    assert_eq!(
        normal(vec![bold(2..6), bold(0..4)]),
        bolds([(0, 6)]),
        "overlaps"
    );
    assert_eq!(
        normal(vec![bold(0..9), bold(2..3)]),
        bolds([(0, 9)]),
        "one inside the other"
    );
    assert_eq!(
        normal(vec![bold(0..2), bold(3..5)]),
        bolds([(0, 2), (3, 5)]),
        "with a gap"
    );
    let between = vec![
        bold(5..9),
        link(4..6, "x"),
        Mark::new("em", 1..8),
        bold(0..5),
    ];
    let expected = [(0, 9, "bold"), (1, 8, "em"), (4, 6, "link")];
    assert_eq!(
        normal(between),
        expected.map(|(start, end, kind)| (start, end, kind.to_owned()))
    );
    let chain = (0..10).rev().map(|at| bold(at..at + 1)).collect();
    assert_eq!(normal(chain), bolds([(0, 10)]));
}

#[test]
fn text_02_marks_with_different_attributes_never_merge() {
    let links = normal(vec![link(0..4, "x"), link(4..6, "y"), link(5..8, "x")]);
    let expected = [(0, 4), (4, 6), (5, 8)].map(|(start, end)| (start, end, "link".to_owned()));
    assert_eq!(links, expected);
    let plain = normal(vec![
        Mark::new("link", 0..4),
        link(0..4, "x"),
        Mark::new("link", 4..5),
    ]);
    assert_eq!(plain.len(), 2, "one without and one with: {plain:?}");
}

#[test]
fn text_02_the_result_is_sorted_by_start_end_and_kind() {
    let given = vec![
        Mark::new("em", 1..3),
        bold(2..3),
        bold(0..1),
        Mark::new("code", 1..3),
        link(1..2, "x"),
    ];
    let expected = [
        (0, 1, "bold"),
        (1, 2, "link"),
        (1, 3, "code"),
        (1, 3, "em"),
        (2, 3, "bold"),
    ];
    assert_eq!(
        normal(given),
        expected.map(|(start, end, kind)| (start, end, kind.to_owned()))
    );
}

#[test]
#[expect(clippy::reversed_empty_ranges, reason = "what must be refused")]
fn text_02_a_mark_out_of_range_is_an_error_with_the_range_and_the_length() {
    let store = with_text("漢字", [bold(0..1)]);
    let before = image(&store.snapshot());
    for range in [
        0..3,
        2..3,
        3..3,
        2..1,
        0..usize::MAX,
        usize::MAX..usize::MAX,
        usize::MAX..0,
    ] {
        let Range { start, end } = range;
        let reason = |id| EditError::MarkOutOfRange {
            id,
            kind: "bold".into(),
            start,
            end,
            len: 2,
        };
        let mut transaction = store.begin("ann").unwrap();
        let refused = transaction.set_marks(&id("t"), [bold(0..2), bold(range.clone())]);
        assert_eq!(refused, Err(reason(id("t"))));
        let text =
            format!("mark bold over {start}..{end} is out of range: the text of node t has 2");
        assert_eq!(refused.unwrap_err().to_string(), text);
        let spec = text_node("inline-text", "漢字")
            .with_id("new")
            .with_marks([bold(range)]);
        assert_eq!(transaction.create(spec), Err(reason(id("new"))));
        assert_eq!(image(&transaction), before);
    }
}

// --- 3: marks under edits ---

/// Ten characters with one mark over `4..8`; where the mark is after the range was replaced.
fn after(range: Range<usize>, inserted: &str) -> Option<(usize, usize)> {
    let store = with_text("0123456789", [bold(4..8)]);
    commit(&store, |transaction| {
        transaction.replace_text(&id("t"), range, inserted).unwrap();
    });
    assert_eq!(check(&store.snapshot()), Ok(()));
    let marks = marks(&store.snapshot(), "t");
    assert!(marks.len() <= 1);
    marks.first().map(|(start, end, _)| (*start, *end))
}

#[test]
fn text_03_inserting_inside_a_mark_grows_it() {
    for inside in 5..=7 {
        assert_eq!(after(inside..inside, "漢字"), Some((4, 10)), "at {inside}");
    }
    assert_eq!(
        after(4..4, "漢字"),
        Some((6, 10)),
        "at its start: pushed along"
    );
    assert_eq!(after(8..8, "漢字"), Some((4, 8)), "at its end: stays");
    assert_eq!(after(0..0, "漢字"), Some((6, 10)), "before it");
    assert_eq!(after(9..9, "漢字"), Some((4, 8)), "behind it");
}

#[test]
fn text_03_deleting_shrinks_a_mark() {
    assert_eq!(after(5..7, ""), Some((4, 6)), "from its midst");
    assert_eq!(after(4..5, ""), Some((4, 7)), "from its start");
    assert_eq!(after(7..8, ""), Some((4, 7)), "from its end");
    assert_eq!(after(2..5, ""), Some((2, 5)), "over its start");
    assert_eq!(after(7..10, ""), Some((4, 7)), "over its end");
    assert_eq!(after(4..8, ""), None, "all of it");
    assert_eq!(after(3..9, ""), None, "more than it");
    assert_eq!(after(0..4, ""), Some((0, 4)), "before it");
    assert_eq!(after(8..10, ""), Some((4, 8)), "behind it");
}

#[test]
fn text_03_replacing_drops_marks_wholly_inside_and_trims_those_that_overlap() {
    assert_eq!(after(4..8, "xyz"), None, "just it");
    assert_eq!(after(3..9, "xyz"), None, "more than it");
    assert_eq!(after(0..10, "xyz"), None, "everything");
    assert_eq!(after(2..6, "x"), Some((3, 5)), "over its start");
    assert_eq!(after(6..10, "xyz"), Some((4, 6)), "over its end");
    assert_eq!(after(4..6, "xyz"), Some((7, 9)), "its first half");
    assert_eq!(after(6..8, "xyz"), Some((4, 6)), "its second half");
    assert_eq!(
        after(5..7, "xyz"),
        Some((4, 9)),
        "within it: it goes around"
    );
    assert_eq!(after(2..4, "xyz"), Some((5, 9)), "up to it");
    assert_eq!(after(8..9, "xyz"), Some((4, 8)), "from its end on");
    let store = with_text("0123456789", [bold(4..8)]);
    commit(&store, |transaction| {
        transaction.set_text(&id("t"), "new").unwrap()
    });
    assert_eq!(
        marks(&store.snapshot(), "t"),
        [],
        "with the old text go its marks"
    );
}

#[test]
fn text_03_what_comes_to_touch_merges_and_undo_parts_it_again() {
    let store = with_text("0123456789", [bold(0..3), bold(5..8), link(2..6, "x")]);
    let before = store.snapshot();
    let committed = commit(&store, |transaction| {
        transaction.delete_text(&id("t"), 3..5).unwrap()
    });
    let kinds =
        [(0, 6, "bold"), (2, 4, "link")].map(|(start, end, kind)| (start, end, kind.to_owned()));
    assert_eq!(marks(&store.snapshot(), "t"), kinds);
    commit(&store, |transaction| {
        committed
            .changes
            .iter()
            .rev()
            .for_each(|change| transaction.apply(change.inverse()).unwrap());
    });
    assert_eq!(store.snapshot(), before);
}

/// Every mark, every range and a few lengths, against marks that are kept character by character.
#[test]
fn text_03_every_edit_moves_every_mark_as_a_mark_of_single_characters_would() {
    const LEN: usize = 6;
    let ranges: Vec<Range<usize>> = (0..=LEN)
        .flat_map(|start| (start..=LEN).map(move |end| start..end))
        .collect();
    let mark = |kind: &str, range: &Range<usize>| RefMark {
        kind: kind.to_owned(),
        range: Some(range.clone()),
        attrs: Default::default(),
    };
    for first in &ranges {
        for second in [0..2, 2..4, 5..6] {
            let spec = Spec {
                id: Some("t".to_owned()),
                kind: "inline-text".to_owned(),
                attrs: Vec::new(),
                text: "aß漢🦀bc".to_owned(),
                marks: vec![
                    mark("bold", first),
                    mark("bold", &second),
                    mark("em", &(1..5)),
                ],
                children: Vec::new(),
            };
            let create = Action::Create(spec);
            let mut model = RefDoc::default();
            model.apply(&create).unwrap();
            let store = store();
            commit(&store, |transaction| create.perform(transaction).unwrap());
            for range in &ranges {
                for inserted in ["", "-", "漢-"] {
                    let edit =
                        Action::ReplaceText("t".to_owned(), range.clone(), inserted.to_owned());
                    let mut expected = model.clone();
                    expected.apply(&edit).unwrap();
                    let mut transaction = store.begin("ann").unwrap();
                    edit.perform(&mut transaction).unwrap();
                    let compared = expected.compare(&transaction);
                    assert_eq!(
                        compared,
                        Ok(()),
                        "{first:?} {second:?}, {range:?} to {inserted:?}"
                    );
                }
            }
        }
    }
}

// --- 5: writes that change nothing ---

/// A parent `p` with the text node `t`, marked and with an attribute.
fn settled() -> DataStore {
    let store = store();
    commit(&store, |transaction| {
        let spec = text_node("inline-text", "Hello")
            .with_id("t")
            .with_attributes([("level", json!(1))])
            .with_marks([bold(0..2), link(1..3, "x")]);
        let parent = element(
            "paragraph",
            [spec, NodeSpec::new("inline-text").with_id("u")],
        );
        let parent = transaction.create(parent.with_id("p")).unwrap();
        transaction.set_root(&parent).unwrap();
    });
    store
}

fn emits_nothing(store: &DataStore, write: impl FnOnce(&DataStore)) {
    let before = image(&store.snapshot());
    let version = store.version();
    let events = store.subscribe(4);
    write(store);
    assert_eq!(image(&store.snapshot()), before);
    assert_eq!(store.version(), version, "a version was made");
    assert!(events.receiver().is_empty(), "an event was emitted");
}

#[test]
fn text_05_an_operation_that_changes_nothing_emits_nothing() {
    let nothing = [
        set_text("Hello").on("t"),
        insert_text(0, "").on("t"),
        insert_text(5, "").on("t"),
        delete_text_range(2, 2).on("t"),
        replace_text(1, 3, "el").on("t"),
        replace_text(5, 5, "").on("t"),
        set_text("").on("u"),
        set_attrs([("level", json!(1))]).on("t"),
        set_attrs([("gone", json!(null))]).on("t"),
        set_attrs([("level", json!(2)), ("level", json!(1))]).on("t"),
        set_attrs::<String>([]).on("t"),
        move_node("p", 0).on("t"),
        move_node("p", 1).on("u"),
        move_node("p", None).on("u"),
        add_child("t", 0).on("p"),
        add_child("u", None).on("p"),
        control("t", []),
        control("t", [set_text("Hello"), set_attrs([("level", json!(1))])]),
        op::<String>(|_| Ok(())),
    ];
    let editor = Editor::new(settled(), "ann");
    for operation in &nothing {
        emits_nothing(editor.store(), |_| {
            let result = transaction(&editor, operation.clone()).commit().unwrap();
            assert_eq!(
                (result.version, result.changed),
                (1, false),
                "{operation:?}"
            );
        });
    }
    emits_nothing(editor.store(), |_| {
        let result = transaction(&editor, nothing.to_vec()).commit().unwrap();
        assert_eq!(
            result.operations.len(),
            19,
            "they were carried out all the same"
        );
    });
    let result = transaction(&editor, (nothing.to_vec(), insert_text(5, "!").on("t"))).commit();
    let result = result.unwrap();
    assert_eq!(
        (result.version, result.changed),
        (2, true),
        "beside one that does change something"
    );
}

#[test]
fn text_05_a_method_that_changes_nothing_emits_nothing() {
    let store = settled();
    emits_nothing(&store, |store| {
        let committed = commit(store, |transaction| {
            let t = id("t");
            transaction.set_text(&t, "Hello").unwrap();
            transaction.insert_text(&t, 3, "").unwrap();
            transaction.delete_text(&t, 5..5).unwrap();
            transaction.replace_text(&t, 0..5, "Hello").unwrap();
            transaction
                .set_attrs(&t, [("level", json!(1)), ("gone", json!(null))])
                .unwrap();
            transaction
                .set_marks(&t, [bold(0..2), link(1..3, "x")])
                .unwrap();
            transaction
                .set_marks(&t, [link(1..3, "x"), bold(0..1), bold(1..2), bold(4..4)])
                .unwrap();
            transaction
                .set_marks(&id("u"), [Mark::whole("bold")])
                .unwrap();
            transaction.move_node(&t, &id("p"), 0).unwrap();
            transaction.set_root(&id("p")).unwrap();
            assert!(
                transaction.changes().is_empty(),
                "{:?}",
                transaction.changes()
            );
        });
        assert!(committed.changes.is_empty());
    });
}

#[test]
fn text_05_a_write_that_would_change_nothing_fails_all_the_same_where_there_is_nothing_to_write_to()
{
    let store = settled();
    let manager = TransactionManager::new(store.clone());
    for refused in [
        insert_text(6, ""),
        delete_text_range(6, 6),
        replace_text(6, 6, ""),
    ] {
        manager.execute([refused.clone().on("t")]).unwrap_err();
        manager.execute([refused.on("nowhere")]).unwrap_err();
    }
    manager
        .execute([set_attrs::<String>([]).on("nowhere")])
        .unwrap_err();
    manager.execute([remove_child("t").on("u")]).unwrap_err();
}

#[test]
fn text_05_the_same_marks_in_another_order_change_nothing() {
    let store = with_text("Hello", [link(0..4, "x"), link(0..4, "y")]);
    emits_nothing(&store, |store| {
        commit(store, |transaction| {
            transaction
                .set_marks(&id("t"), [link(0..4, "y"), link(0..4, "x")])
                .unwrap();
        });
    });
}

#[test]
fn text_05_a_change_that_changes_nothing_emits_nothing() {
    let store = settled();
    let node = store.snapshot().node(&id("t")).unwrap().clone();
    let same = |marks: &Marks| MarksChange {
        before: marks.clone(),
        after: marks.clone(),
    };
    let place = || {
        Some(Place {
            parent: id("p"),
            index: 0,
        })
    };
    let splice = |text: &str, marks| Change::SpliceText {
        id: id("t"),
        at: 0,
        removed: text.into(),
        inserted: text.into(),
        marks,
    };
    let level = AttributePatch {
        key: "level".into(),
        before: Some(json!(1)),
        after: Some(json!(1)),
    };
    let nothing = [
        splice("", None),
        splice("", Some(same(node.marks()))),
        Change::SetMarks {
            id: id("t"),
            marks: same(node.marks()),
        },
        Change::PatchAttrs {
            id: id("t"),
            patches: vec![],
        },
        Change::PatchAttrs {
            id: id("t"),
            patches: vec![level],
        },
        Change::MoveNode {
            id: id("t"),
            from: place(),
            to: place(),
        },
        Change::MoveNode {
            id: id("p"),
            from: None,
            to: None,
        },
        Change::SetRoot {
            before: Some(id("p")),
            after: Some(id("p")),
        },
        Change::InsertSubtree {
            at: None,
            nodes: vec![],
        },
        Change::RemoveSubtree {
            at: None,
            nodes: vec![],
        },
    ];
    for change in nothing {
        emits_nothing(&store, |store| {
            // It may as well be refused.
            commit(store, |transaction| drop(transaction.apply(change)));
        });
    }
}
