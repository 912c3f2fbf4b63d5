//! Operations: text within one node.

use doclock::dsl::*;
use doclock::{
    Editor, View,
    document::{EditError, Selection},
    transaction::{OperationError, Pattern, PatternError},
};
use proptest::prelude::*;
use regex::Regex;
use serde_json::json;

use super::common::{cases, id, marks, text};
use super::range::{editor, follow, refused, run, script};

fn note(text: &str) -> Editor {
    editor([text_node("text", text).with_id("note")])
}

fn read(editor: &Editor) -> String {
    text(&editor.store().snapshot(), "note")
}

fn bold(editor: &Editor) -> Vec<(usize, usize)> {
    let marks = marks(&editor.store().snapshot(), "note");
    marks
        .into_iter()
        .map(|(start, end, _)| (start, end))
        .collect()
}

fn out_of_range(
    editor: &Editor,
    operation: doclock::transaction::NodeOperation,
) -> (usize, usize, usize) {
    match refused(editor, operation.on("note")) {
        OperationError::Edit(EditError::TextOutOfRange {
            start, end, len, ..
        }) => (start, end, len),
        other => panic!("{other}"),
    }
}

fn caret(editor: &Editor, at: usize, operation: doclock::transaction::NodeOperation) -> usize {
    let ((_, anchor), _) =
        follow(editor, ("note", at), ("note", at), operation.on("note")).unwrap();
    anchor
}

// --- replacePattern ---

#[test]
fn replace_pattern_replaces_each_match_and_expands_groups() {
    let editor = note("ann: 1, bob: 22");
    run(
        &editor,
        replace_pattern(r"(\w+): (?<n>\d+)", "${n}=$1$$").on("note"),
    );
    assert_eq!(read(&editor), "1=ann$, 22=bob$");
    run(&editor, replace_pattern("🦀", "x").on("note"));
    run(&editor, replace_pattern("[=,]", "🦀ß").on("note"));
    assert_eq!(read(&editor), "1🦀ßann$🦀ß 22🦀ßbob$");
    run(&editor, replace_pattern("🦀ß", "").on("note"));
    assert_eq!(read(&editor), "1ann$ 22bob$");
}

#[test]
fn replace_pattern_inserts_text_at_empty_matches() {
    let editor = note("aßc");
    run(&editor, replace_pattern("", "-").on("note"));
    assert_eq!(read(&editor), "-a-ß-c-");
    run(&editor, replace_pattern("$", "!").on("note"));
    assert_eq!(read(&editor), "-a-ß-c-!");
}

#[test]
fn a_pattern_that_matches_nothing_or_replaces_the_same_changes_nothing() {
    let editor = note("abc");
    assert!(!run(&editor, replace_pattern("x", "y").on("note")).changed);
    assert!(!run(&editor, replace_pattern("b", "b").on("note")).changed);
}

#[test]
fn marks_around_matches_stay() {
    let editor = note("one two three");
    run(
        &editor,
        [
            apply_mark("bold", 0..5).on("note"),
            apply_mark("bold", 8..13).on("note"),
            replace_pattern("[nw]", "--").on("note"),
        ],
    );
    assert_eq!(read(&editor), "o--e t--o three");
    assert_eq!(
        bold(&editor),
        [(0, 6), (10, 15)],
        "what reached into `w` ends before it"
    );
}

#[test]
fn an_invalid_pattern_is_refused() {
    let editor = note("abc");
    let error = refused(&editor, replace_pattern("a(b", "").on("note"));
    assert!(
        matches!(&error, OperationError::Pattern(PatternError::Invalid { pattern, reason })
        if pattern == "a(b" && reason == "unclosed group")
    );
    assert_eq!(
        error.to_string(),
        r#"the pattern "a(b" is not a regular expression: unclosed group"#
    );
    refused(&editor, replace_pattern("a", "").on("nowhere"));
}

/// The error of a pattern that fails in a replacement.
fn refused_pattern(text: &str, pattern: &str, replacement: &str) -> PatternError {
    let editor = note(text);
    match refused(&editor, replace_pattern(pattern, replacement).on("note")) {
        OperationError::Pattern(error) => error,
        other => panic!("{other:?}"),
    }
}

/// A pattern of 12 characters took 330 ms to compile, while the lock was held.
#[test]
fn a_pattern_that_is_too_long_or_too_large_is_refused_when_it_is_made() {
    let large = Pattern::new(r"\w{1000}{1000}");
    let limit = Pattern::MAX_PROGRAM;
    let pattern = large.as_str().into();
    let error = PatternError::TooLarge { pattern, limit };
    assert_eq!(large.error(), Some(&error));
    assert_eq!(refused_pattern("abc", r"\w{1000}{1000}", ""), error);
    assert_eq!(
        error.to_string(),
        r#"the pattern "\\w{1000}{1000}" takes more than 262144 bytes when it is compiled"#
    );
    let longest = "a".repeat(Pattern::MAX_BYTES);
    assert_eq!(Pattern::new(longest.as_str()).error(), None);
    let long = Pattern::new(format!("{longest}a"));
    assert!(
        matches!(
            long.error(),
            Some(PatternError::TooLong {
                bytes: 4097,
                limit: 4096,
                ..
            })
        ),
        "{long:?}"
    );
}

/// The search for a missing `c` reads the whole text for each of its 25,000 matches: two seconds
/// for 50 KB.
#[test]
fn a_search_that_rescans_the_text_too_often_is_refused() {
    let limit = Pattern::MAX_SEARCH;
    for pattern in ["a(?:[ab ß]*c)?", r"\ba(?:[ab ß]*c)?"] {
        let error = refused_pattern(&"ab ß ".repeat(20_000), pattern, "x");
        let pattern = pattern.into();
        assert_eq!(error, PatternError::SearchTooLong { pattern, limit });
    }
}

/// Each state depends on the last 200 characters, so no two positions of a random text share one.
#[test]
fn a_search_with_too_many_states_is_refused() {
    let mut seed = 1u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        if seed >> 63 == 0 { 'a' } else { 'b' }
    };
    let text: String = (0..200_000).map(|_| next()).collect();
    let error = refused_pattern(&text, "[ab]*a[ab]{1000}c", "x");
    assert!(
        matches!(error, PatternError::SearchTooLong { .. }),
        "{error}"
    );
}

/// 1,000 characters became 10 MB.
#[test]
fn a_replacement_that_is_too_long_is_refused() {
    let limit = Pattern::MAX_OUTPUT;
    let half = "x".repeat(limit / 2);
    let text = "a".repeat(1_000);
    for (pattern, replacement) in [
        ("a", "x".repeat(2_000)),
        (".*", "$0".repeat(2_000)),
        ("aaa", half.clone()),
    ] {
        let error = refused_pattern(&text, pattern, &replacement);
        let pattern = pattern.into();
        assert_eq!(error, PatternError::OutputTooLong { pattern, limit });
    }
    let editor = note("aa");
    run(&editor, replace_pattern("a", half).on("note"));
    assert_eq!(read(&editor).len(), limit);
}

#[test]
fn a_million_characters_are_searched_once() {
    let editor = note(&"🦀 longer than nine. ".repeat(50_000));
    editor
        .execute(replace_pattern("n(i|o)ne", "x$1").on("note"))
        .unwrap();
    assert_eq!(read(&editor), "🦀 longer than xi. ".repeat(50_000));
    editor.execute(indent_text("> ", ..).on("note")).unwrap();
    let lines = "ab\n".repeat(100_000);
    editor
        .execute([
            set_text(lines.as_str()).on("note"),
            indent_text("> ", ..).on("note"),
        ])
        .unwrap();
    assert_eq!(read(&editor), "> ab\n".repeat(100_000));
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn replace_pattern_agrees_with_replace_all_of_the_regex_crate(
        text in "[ab🦀ß\n]{0,12}",
        pattern in prop::sample::select(vec![
            "a", "a*", "(a)(b)?", "", r"\b", "[^a]+", "(?m)^", "🦀|ß", "$", r"\B", "a|ab", "a??", "(?:a|b)*?ß", r"\bß|b\b", "b|",
        ]),
        replacement in prop::sample::select(vec!["", "x", "$0$0", "${1}-$2", "ßß🦀", "$$"]),
    ) {
        let editor = note(&text);
        run(&editor, replace_pattern(pattern, replacement).on("note"));
        let expected = Regex::new(pattern).unwrap().replace_all(&text, replacement);
        prop_assert_eq!(read(&editor), expected);
    }
}

// --- wrap and unwrap ---

#[test]
fn wrap_text_adds_and_unwrap_text_removes_the_surrounding_text() {
    let editor = note("a böld word");
    run(&editor, wrap_text("**", "*~", 2..6).on("note"));
    assert_eq!(read(&editor), "a **böld*~ word");
    run(&editor, unwrap_text("**", "*~", 2..10).on("note"));
    assert_eq!(read(&editor), "a böld word");
    run(&editor, wrap_text("<", ">", ..).on("note"));
    assert_eq!(read(&editor), "<a böld word>");
    run(&editor, unwrap_text("<", ">", ..).on("note"));
    run(&editor, wrap_text("(", ")", 2..2).on("note"));
    assert_eq!(read(&editor), "a ()böld word");
    run(&editor, unwrap_text("(", ")", 2..4).on("note"));
    assert_eq!(read(&editor), "a böld word");
    assert!(
        !run(
            &editor,
            [
                wrap_text("", "", 2..6).on("note"),
                unwrap_text("", "", 1..1).on("note")
            ]
        )
        .changed
    );
}

#[test]
fn wrapping_leaves_marks_as_they_are() {
    let editor = note("a bold word");
    run(
        &editor,
        [
            apply_mark("bold", 2..6).on("note"),
            wrap_text("**", "**", 2..6).on("note"),
        ],
    );
    assert_eq!(bold(&editor), [(4, 8)]);
    run(&editor, unwrap_text("**", "**", 2..10).on("note"));
    assert_eq!(bold(&editor), [(2, 6)]);
}

#[test]
fn a_selection_of_wrapped_text_excludes_the_added_text() {
    let editor = note("a bold word");
    let follow = |from, to| {
        let wrapped = wrap_text("**", "*", 2..6).on("note");
        let ((_, anchor), (_, focus)) =
            follow(&editor, ("note", from), ("note", to), wrapped).unwrap();
        (anchor, focus)
    };
    assert_eq!(follow(2, 6), (4, 8));
    assert_eq!(follow(6, 2), (8, 4));
    assert_eq!(follow(3, 9), (5, 12));
    assert_eq!(follow(0, 4), (0, 6));
    assert_eq!(
        caret(&editor, 3, wrap_text("(", ")", 3..3)),
        4,
        "between the two"
    );
}

#[test]
fn a_range_within_a_node_may_be_written_in_every_way() {
    use std::ops::Bound;
    let editor = note("abcdef");
    run(&editor, wrap_text("(", ")", 1..=3).on("note"));
    assert_eq!(read(&editor), "a(bcd)ef");
    run(
        &editor,
        unwrap_text("(", ")", (Bound::Excluded(0), Bound::Included(5))).on("note"),
    );
    assert_eq!(read(&editor), "abcdef");
    let beyond = out_of_range(&editor, wrap_text("(", ")", 0..=usize::MAX));
    assert_eq!(beyond, (0, usize::MAX, 6));
}

#[test]
fn unwrapping_text_that_is_not_wrapped_is_refused() {
    let editor = note("**bold*");
    let not_wrapped = |operation: doclock::transaction::NodeOperation| {
        let error = refused(&editor, operation.on("note"));
        assert!(
            matches!(&error, OperationError::NotWrapped { id: node, .. } if *node == id("note")),
            "{error}"
        );
        error.to_string()
    };
    assert_eq!(
        not_wrapped(unwrap_text("**", "**", ..)),
        r#"the characters of node note do not begin with "**" and end with "**""#
    );
    not_wrapped(unwrap_text("*", "**", ..));
    not_wrapped(unwrap_text("b", "*", ..));
    // The two must not overlap.
    not_wrapped(unwrap_text("**", "**", 0..2));
    not_wrapped(unwrap_text("**", "*", 0..2));
    not_wrapped(unwrap_text("**bold*", "*", ..));
    not_wrapped(unwrap_text("long".repeat(9), "", ..));
}

#[test]
fn characters_that_are_not_there_are_refused_within_a_node() {
    let editor = note("abc");
    #[expect(clippy::reversed_empty_ranges, reason = "that is the point")]
    let reversed = 2..1;
    for (range, expected) in [(2..4, (2, 4, 3)), (4..4, (4, 4, 3)), (reversed, (2, 1, 3))] {
        assert_eq!(
            out_of_range(&editor, wrap_text("a", "b", range.clone())),
            expected
        );
        assert_eq!(
            out_of_range(&editor, unwrap_text("a", "b", range.clone())),
            expected
        );
        assert_eq!(
            out_of_range(&editor, indent_text("a", range.clone())),
            expected
        );
        assert_eq!(out_of_range(&editor, outdent_text("a", range)), expected);
    }
    assert_eq!(out_of_range(&editor, wrap_text("a", "b", 4..)), (4, 3, 3));
    for operation in [
        wrap_text("a", "b", ..),
        unwrap_text("a", "b", ..),
        indent_text("a", ..),
        outdent_text("a", ..),
    ] {
        let error = refused(&editor, operation.on("nowhere"));
        assert_eq!(error.to_string(), "node nowhere does not exist");
    }
}

// --- indentText and outdentText ---

#[test]
fn indent_text_indents_every_line_that_the_range_touches() {
    let indented = |text: &str, range: std::ops::Range<usize>| {
        let editor = note(text);
        run(&editor, indent_text("> ", range).on("note"));
        read(&editor)
    };
    assert_eq!(indented("ab\ncd\nef", 1..4), "> ab\n> cd\nef");
    assert_eq!(
        indented("ab\ncd\nef", 1..3),
        "> ab\ncd\nef",
        "the end of a line is no part of the next"
    );
    assert_eq!(indented("ab\ncd\nef", 3..8), "ab\n> cd\n> ef");
    assert_eq!(
        indented("ab\n\ncd\r\n\r\nef\n", 0..13),
        "> ab\n\n> cd\r\n\r\n> ef\n",
        "empty lines"
    );
    assert_eq!(
        indented("ab\ncd\nef", 3..3),
        "ab\n> cd\nef",
        "no characters, but a line"
    );
    assert_eq!(indented("ab\ncd", 5..5), "ab\n> cd");
    assert_eq!(
        indented("ab\n", 3..3),
        "ab\n",
        "behind the last line end there is an empty line"
    );
    assert_eq!(indented("", 0..0), "");
    assert_eq!(indented("äö\n🦀\n", 0..4), "> äö\n> 🦀\n");
}

#[test]
fn outdent_text_removes_the_prefix_from_lines_that_have_it() {
    let outdented = |text: &str, range: std::ops::Range<usize>| {
        let editor = note(text);
        run(&editor, outdent_text("> ", range).on("note"));
        read(&editor)
    };
    assert_eq!(outdented("> a\n>b\n> > c\n> d", 0..8), "a\n>b\n> c\n> d");
    assert_eq!(outdented("> a\r\n> b", 7..8), "> a\r\nb");
    assert_eq!(outdented("> ", 1..1), "");
    let editor = note("ab\ncd\n");
    run(
        &editor,
        [
            indent_text("\t", ..).on("note"),
            outdent_text("\t", ..).on("note"),
        ],
    );
    assert_eq!(read(&editor), "ab\ncd\n");
    assert!(!run(&editor, outdent_text("\t", ..).on("note")).changed);
    assert!(
        !run(
            &editor,
            [
                indent_text("", ..).on("note"),
                outdent_text("", ..).on("note")
            ]
        )
        .changed
    );
}

#[test]
fn a_caret_stays_with_its_character() {
    let editor = note("one two\nthree");
    assert_eq!(caret(&editor, 5, replace_pattern("o", "00")), 6);
    assert_eq!(caret(&editor, 5, wrap_text("**", "**", 4..7)), 7);
    assert_eq!(caret(&editor, 4, unwrap_text("o", "e", 0..3)), 2);
    assert_eq!(caret(&editor, 10, indent_text("  ", ..)), 14);
    assert_eq!(caret(&editor, 10, outdent_text("th", ..)), 8);

    editor.select(Selection::caret("note", 10)).unwrap();
    let result = run(&editor, indent_text("  ", ..).on("note"));
    assert_eq!(result.selection_after, Some(Selection::caret("note", 14)));
}

#[test]
fn operations_on_text_read_from_json() {
    let editor = note("one");
    run(
        &editor,
        script(json!([
            {"type": "replacePattern", "payload": {"nodeId": "note", "pattern": "n", "replacement": "[$0]"}},
            {"type": "wrap", "payload": {"nodeId": "note", "before": "<", "after": ">"}},
            {"type": "wrap", "payload": {"nodeId": "note", "before": "a", "after": "b", "start": 1, "end": 2}},
            {"type": "unwrap", "payload": {"nodeId": "note", "before": "a", "after": "b", "start": 1, "end": 4}},
            {"type": "indentText", "payload": {"nodeId": "note", "indent": "##"}},
            {"type": "outdentText", "payload": {"nodeId": "note", "indent": "#"}},
        ])),
    );
    assert_eq!(read(&editor), "#<o[n]e>");
    assert!(editor.store().snapshot().contains(id("note")));
}
