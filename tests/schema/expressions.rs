//! Content expressions: their meaning, invalid ones, and that every text is rejected quickly.

use doclock::{
    DataStore,
    schema::{ExpressionError, NodeType, Schema, SchemaError},
};
use proptest::prelude::*;
use regex::Regex;

use crate::common::{cases, commit};
use crate::{letters, parent_of};

/// A content expression, its regular expression, and some words that it accepts.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) expression: String,
    pub(crate) regex: String,
    pub(crate) words: Vec<String>,
}

const NAMES: [(&str, &str); 6] = [
    ("a", "a"),
    ("b", "b"),
    ("c", "c"),
    ("d", "d"),
    ("ab", "[ab]"),
    ("bc", "[bc]"),
];

/// Random expressions over the types and groups of [`letters`].
pub(crate) fn written() -> impl Strategy<Value = Written> {
    let name = prop::sample::select(NAMES.to_vec()).prop_map(|(name, regex)| Written {
        expression: name.to_owned(),
        regex: regex.to_owned(),
        words: regex
            .chars()
            .filter(char::is_ascii_alphabetic)
            .map(String::from)
            .collect(),
    });
    name.prop_recursive(4, 12, 3, |inner| {
        let parts = prop::collection::vec(inner.clone(), 2..4);
        let counts = (0..3usize, 0..3usize);
        prop_oneof![
            parts.clone().prop_map(sequence),
            parts.prop_map(choice),
            (inner, counts, 0..6usize).prop_map(|(part, counts, form)| repeat(&part, counts, form)),
        ]
    })
}

fn sequence(parts: Vec<Written>) -> Written {
    let word = |nth: usize| {
        let words = parts
            .iter()
            .map(|part| part.words[nth % part.words.len()].as_str());
        words.collect::<String>()
    };
    Written {
        expression: format!("({})", join(&parts, " ", |part| &part.expression)),
        regex: format!("(?:{})", join(&parts, "", |part| &part.regex)),
        words: (0..4).map(word).collect(),
    }
}

fn choice(parts: Vec<Written>) -> Written {
    Written {
        expression: format!("({})", join(&parts, "|", |part| &part.expression)),
        regex: format!("(?:{})", join(&parts, "|", |part| &part.regex)),
        words: parts
            .into_iter()
            .flat_map(|part| part.words)
            .take(6)
            .collect(),
    }
}

fn repeat(part: &Written, (min, more): (usize, usize), form: usize) -> Written {
    let max = min + more;
    let (suffix, least, most) = match form {
        0 => ("?".to_owned(), 0, 1),
        1 => ("*".to_owned(), 0, 3),
        2 => ("+".to_owned(), 1, 3),
        3 => (format!("{{{min}}}"), min, min),
        4 => (format!("{{{min},}}"), min, min + 2),
        _ => (format!("{{{min},{max}}}"), min, max),
    };
    let words = (least..=most).map(|times| {
        let words = (0..times).map(|nth| part.words[nth % part.words.len()].as_str());
        words.collect::<String>()
    });
    Written {
        expression: format!("({}){suffix}", part.expression),
        regex: format!("(?:{}){suffix}", part.regex),
        words: words.collect(),
    }
}

fn join<'a>(parts: &'a [Written], with: &str, of: impl Fn(&'a Written) -> &'a String) -> String {
    parts
        .iter()
        .map(|part| of(part).as_str())
        .collect::<Vec<_>>()
        .join(with)
}

fn accepts(schema: &Schema, word: &str) -> bool {
    let store = DataStore::new();
    commit(&store, |on| drop(on.create(parent_of(word)).unwrap()));
    schema.check_all(&store.snapshot()).is_ok()
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn tree_06_an_expression_agrees_with_the_regular_expression(
        written in written(),
        random in prop::collection::vec("[abcd]{0,6}", 8),
    ) {
        let schema = letters(&written.expression).unwrap();
        let regex = Regex::new(&format!("^(?:{})$", written.regex)).unwrap();
        for word in written.words.iter().chain(&random) {
            prop_assert_eq!(accepts(&schema, word), regex.is_match(word), "{}", word);
        }
        prop_assert!(written.words.iter().all(|word| accepts(&schema, word)));
    }

    #[test]
    fn tree_06_no_text_makes_reading_an_expression_panic_or_hang(
        text in prop_oneof![
            "[abc(){}|?*+, 0-9\u{e4}]{0,40}",
            "(\\(*[a-d]\\)*[|?*+ ]?){0,12}",
            "((a|b|ab|bc)[*+?]?|\\{[0-9]{0,4},?[0-9]{0,4}\\}){0,20}",
            any::<String>(),
        ],
    ) {
        if let Err(error) = letters(&text) {
            let of_content = matches!(error, SchemaError::Content { .. });
            prop_assert!(of_content);
        }
    }
}

#[test]
fn tree_06_sequences_bind_closer_than_choices_and_white_space_only_separates() {
    let schema = letters("a b|c\u{2003}\n d").unwrap();
    for (word, fits) in [("ab", true), ("cd", true), ("abd", false), ("acd", false)] {
        assert_eq!(accepts(&schema, word), fits, "{word}");
    }
    for empty in ["", "  "] {
        let schema = letters(empty).unwrap();
        assert!(accepts(&schema, "") && !accepts(&schema, "a"));
    }
    let never = letters("a{0} b{0,0}").unwrap();
    assert!(accepts(&never, "") && !accepts(&never, "a"));
}

#[test]
fn tree_06_a_malformed_expression_is_an_error_with_its_position() {
    let cases = [
        (
            "a |",
            "expected a name or `(` at character 3, found the end",
        ),
        ("| a", "expected a name or `(` at character 0, found '|'"),
        (
            "(a b",
            "expected a name, `(`, `|` or `)` at character 4, found the end",
        ),
        (
            "a b)",
            "expected a name, `(`, `|` or the end at character 3, found ')'",
        ),
        ("()", "expected a name or `(` at character 1, found ')'"),
        (
            "a+*",
            "expected a name, `(`, `|` or the end at character 2, found '*'",
        ),
        (
            "a, b",
            "expected a name, `(`, `|` or the end at character 1, found ','",
        ),
        ("a{}", "expected a number at character 2, found '}'"),
        ("a{,2}", "expected a number at character 2, found ','"),
        ("a{2", "expected `,` or `}` at character 3, found the end"),
        ("a{2x}", "expected `,` or `}` at character 3, found 'x'"),
        ("a{-1}", "expected a number at character 2, found '-'"),
        (
            "a{3,2}",
            "the counts at character 1 allow at least 3 and at most 2",
        ),
        ("a{1,1001}", "the count at character 4 is greater than 1000"),
        (
            "a{99999999999999999999}",
            "the count at character 2 is greater than 1000",
        ),
        ("ä a", "ä at character 0 is neither a type nor a group"),
        (
            "a ab* (c|x+ x)",
            "x at character 9 is neither a type nor a group",
        ),
    ];
    for (expression, text) in cases {
        let error = letters(expression).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("the content of type p: {text}"),
            "{expression}"
        );
    }
}

fn fault(expression: &str) -> ExpressionError {
    match letters(expression).unwrap_err() {
        SchemaError::Content { cause, .. } => cause,
        other => panic!("{other}"),
    }
}

#[test]
fn tree_06_the_size_and_depth_of_an_expression_are_bounded() {
    let nested = |levels: usize| format!("{}a{}", "(".repeat(levels), ")".repeat(levels));
    assert!(letters(&nested(64)).is_ok());
    assert_eq!(
        fault(&nested(65)),
        ExpressionError::TooDeep {
            position: 64,
            deepest: 64
        }
    );
    assert_eq!(
        fault(&nested(2000)),
        ExpressionError::TooDeep {
            position: 64,
            deepest: 64
        }
    );
    assert!(letters(&"a ".repeat(2048)).is_ok());
    assert_eq!(
        fault(&"a ".repeat(100_000)),
        ExpressionError::TooLong { longest: 4096 }
    );

    assert!(letters("a{1000}").is_ok());
    let complex = [
        "(a{1000}){1000}",
        "((((a{0}){1000}){1000}){1000}){1000}",
        "(((((a?){1000})?){1000})?){1000}",
        // A matching automaton has to remember twenty letters.
        "(a|b)* a (a|b){20}",
        "(a* b* c*){0,1000} (a|b)* a (a|b){11}",
    ];
    for expression in complex {
        assert_eq!(
            fault(expression),
            ExpressionError::TooComplex,
            "{expression}"
        );
    }
}

#[test]
fn tree_06_all_expressions_of_a_schema_share_one_bound() {
    let many = (0..1000).fold(Schema::builder(), |builder, nth| {
        builder.node(
            format!("t{nth}"),
            NodeType::new().content("(t0|t1)* t0 (t0|t1){9}"),
        )
    });
    assert!(matches!(
        many.build().unwrap_err(),
        SchemaError::Content {
            cause: ExpressionError::TooComplex,
            ..
        }
    ));
    let plain = (0..1000).fold(Schema::builder(), |builder, nth| {
        builder.node(format!("t{nth}"), NodeType::new().group("t").content("t*"))
    });
    assert!(plain.build().is_ok());
}

fn error(json: &str) -> String {
    serde_json::from_str::<Schema>(json)
        .unwrap_err()
        .to_string()
}

#[test]
fn tree_06_a_schema_that_contradicts_itself_is_refused() {
    let cases = [
        (
            r#"{"nodes": {"a": {}, "a": {}}}"#,
            "there are two types named a",
        ),
        (
            r#"{"nodes": {}, "marks": {"a": {}, "a": {}}}"#,
            "there are two marks named a",
        ),
        (
            r#"{"nodes": {"a": {"group": "b"}, "b": {}}}"#,
            "b is both a type and a group",
        ),
        (
            r#"{"nodes": {}, "marks": {"_": {}}}"#,
            "no mark can be named `_`, which means all marks",
        ),
        (
            r#"{"nodes": {"a": {"marks": "bold"}}}"#,
            "type a allows the mark bold, which the schema does not have",
        ),
        (
            r#"{"nodes": {}, "marks": {"a": {"excludes": "a bold"}}}"#,
            "mark a excludes the mark bold, which the schema does not have",
        ),
        (
            r#"{"nodes": {"a": {}}, "root": "b"}"#,
            "the root requires type b, which the schema does not have",
        ),
        (
            r#"{"nodes": {"a b": {}}}"#,
            "\"a b\" cannot be the name of a type: it is empty, or has one of `()|?*+{},` or white space in it",
        ),
        (
            r#"{"nodes": {"a": {"group": "x*"}}}"#,
            "\"x*\" cannot be the name of a group: it is empty, or has one of `()|?*+{},` or white space in it",
        ),
        (
            r#"{"nodes": {}, "marks": {"": {}}}"#,
            "\"\" cannot be the name of a mark: it is empty, or has one of `()|?*+{},` or white space in it",
        ),
    ];
    for (json, text) in cases {
        assert_eq!(error(json), text);
    }
    let many = (0..1001).fold(Schema::builder(), |builder, nth| {
        builder.node(format!("t{nth}"), NodeType::new())
    });
    assert_eq!(
        many.build().unwrap_err().to_string(),
        "the schema has 1001 types: the limit is 1000"
    );
}

#[test]
fn tree_06_an_unknown_field_in_a_schema_is_an_error_with_its_position() {
    let unknown = [
        r#"{"nodes": {}, "mark": {}}"#,
        r#"{"nodes": {"a": {"contents": ""}}}"#,
        r#"{"nodes": {"a": {"attributes": {"x": {"kind": "string"}}}}}"#,
        r#"{"nodes": {}, "marks": {"a": {"attrs": {}}}}"#,
    ];
    for json in unknown {
        let error = error(json);
        assert!(
            error.contains("unknown field") && error.contains("column"),
            "{error}"
        );
    }
    assert!(error("{}").contains("missing field `nodes`"));
    assert!(
        error(r#"{"nodes": {"a": {"attributes": {"x": {"type": "text"}}}}}"#)
            .contains("unknown variant `text`")
    );
}

#[test]
fn tree_06_a_schema_is_written_in_json_as_it_was_read() {
    let json = serde_json::json!({
        "nodes": {
            "page": {"content": "block+", "unknownAttributes": true},
            "p": {"group": "block other", "content": "", "text": true, "marks": "bold"},
        },
        "marks": {
            "bold": {"excludes": "bold link"},
            "image": {"excludes": "", "leaf": true},
            "link": {"attributes": {"href": {"type": "string", "required": true}}},
        },
        "root": "page",
    });
    let schema: Schema = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(serde_json::to_value(&schema).unwrap(), json);
}
