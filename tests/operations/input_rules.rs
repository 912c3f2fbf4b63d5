//! Input rules. `crates/formats/tests/prosemirror/operations.rs` compares them with those of
//! ProseMirror and Tiptap.

mod outcomes;

use doclock::document::{EditError, Limit, Limits, Mark, NodeSpec, Position, Selection};
use doclock::schema::{AttributeSpec, MarkType, NodeType, Schema, ValueType};
use doclock::transaction::{
    Capture, InputEffect, InputRule, InputTarget, Operation, OperationError, PatternError,
    TransactionError, TransactionResult, parse_operations,
};
use doclock::{Editor, NodeId, StoreOptions, TransactionManager, View, dsl::*};
use serde_json::json;

use super::fitting::refused;
use super::stored_marks::opened;
use crate::common::text;

fn schema() -> Schema {
    let line = || NodeType::new().group("block").content("text*");
    let blocks = |content: &str| NodeType::new().content(content);
    let number = || AttributeSpec::new(ValueType::Integer);
    let ordered = AttributeSpec::new(ValueType::Boolean).required();
    let list = blocks("item+").group("block");
    let list = list.attribute("ordered", ordered.with_default(false));
    Schema::builder()
        .node("page", blocks("block+"))
        .node("p", line())
        .node("heading", line().attribute("level", number()))
        .node("code", line().marks("").code(true))
        .node("quote", blocks("block+").group("block"))
        .node("list", list.attribute("start", number()))
        .node("item", blocks("p block*"))
        .node("line", NodeType::new().group("block").content(""))
        .node("text", NodeType::new())
        .mark("bold", MarkType::new().inclusive(true))
        .mark("raw", MarkType::new().inclusive(true).excludes("_"))
        .mark("link", MarkType::new().inclusive(false))
        .root("page")
        .build()
        .unwrap()
}

/// In the JSON of a front end.
fn rules() -> Vec<InputRule> {
    let list = |ordered: bool| json!({"type": "list", "attributes": {"ordered": ordered}});
    let mut numbered = list(true);
    numbered["captured"] = json!({"start": {"number": 1}});
    let heading = json!({"type": "heading", "captured": {"level": {"length": 1}}});
    let rules = json!([
        {"pattern": r"^(#{1,3})\s$", "effect": {"setType": heading}},
        {"pattern": r"^```\s$", "effect": {"setType": {"type": "code"}}},
        {"pattern": r"^>\s$", "effect": {"wrap": {"type": "quote"}}},
        {"pattern": r"^-\s$", "effect": {"wrap": list(false)}},
        {"pattern": r"^([0-9]+)\.\s$", "effect": {"wrap": numbered}},
        {"pattern": "^(?:---|—-)$", "effect": {"insert": {"type": "line"}}},
        {"pattern": r"(?:^|\s)(\*\*([^*]+)\*\*)$", "effect": {"mark": {"type": "bold"}},
         "exceptIn": ["raw"]},
        {"pattern": "(?:^|[^`])(`([^`]+)`)$", "effect": {"mark": {"type": "raw"}}},
    ]);
    let mut rules: Vec<InputRule> = serde_json::from_value(rules).unwrap();
    rules.extend(InputRule::typographic(["raw"]));
    rules
}

fn page(blocks: impl IntoIterator<Item = NodeSpec>) -> Editor {
    opened(StoreOptions::new().schema(schema()), blocks)
}

/// A paragraph whose text is this.
fn p(id: &str, text: &str) -> NodeSpec {
    element("p", [text_node("text", text).with_id(id)])
}

fn outline(editor: &Editor) -> String {
    let view = editor.store().snapshot();
    let blocks = view.children("page").map(|block| of(&view, block.id()));
    blocks.collect::<Vec<_>>().join(" ")
}

fn of(view: &impl View, id: &NodeId) -> String {
    let node = view.node(id).unwrap();
    if node.kind() == "text" {
        let marks = node.marks().iter();
        let marks = marks.map(|mark| format!("{}{:?}", mark.kind, mark.range.clone().unwrap()));
        return format!("'{}'{}", node.text(), marks.collect::<String>());
    }
    let children = view.children(id).map(|child| of(view, child.id()));
    let children: Vec<String> = children.filter(|child| child != "''").collect();
    let attributes = node.attributes().iter();
    let attributes = attributes.filter(|(_, value)| **value != json!(false));
    let attributes = attributes.map(|(_, value)| value.to_string().replace("true", "o"));
    let attributes = attributes.collect::<String>();
    format!("{}{attributes}({})", node.kind(), children.join(" "))
}

/// Types at the caret, each character in a transaction of its own, with the rules after each.
fn types(editor: &Editor, text: &str) -> TransactionResult {
    let mut result = None;
    for char in text.chars() {
        type_one(editor, char);
        result = Some(editor.execute([apply_input_rules(rules())]).unwrap());
    }
    result.unwrap()
}

fn type_one(editor: &Editor, char: char) {
    let Some(Selection::Text(caret)) = editor.selection() else {
        panic!("there is no caret");
    };
    let Position { node_id, offset } = caret.focus;
    let typed = insert_text(offset, char.to_string()).on(node_id);
    editor.execute([typed]).unwrap();
}

fn typed_at(editor: &Editor, id: &str, offset: usize, text: &str) -> String {
    editor.select(Selection::caret(id, offset)).unwrap();
    types(editor, text);
    outline(editor)
}

/// Runs rules at the end of a text, and returns whether they changed anything.
fn applies(editor: &Editor, id: &str, rules: impl IntoIterator<Item = InputRule>) -> bool {
    let len = text(&editor.store().snapshot(), id).chars().count();
    let rules = apply_input_rules_at(Position::new(id, len), rules);
    let version = editor.store().snapshot().version();
    let result = editor.execute([rules]).unwrap();
    assert_eq!(result.changed, result.version > version);
    result.changed
}

fn replace(pattern: &str, text: &str) -> InputRule {
    InputRule::new(pattern, InputEffect::Replace(text.into()))
}

// --- Effects ---

#[test]
fn typed_characters_at_the_start_of_a_block_change_the_block() {
    for (typed, expected) in [
        ("## ", "heading2('Io')"),
        ("#### ", "p('#### Io')"),
        ("``` ", "code('Io')"),
        ("> ", "quote(p('Io'))"),
        ("- ", "list(item(p('Io')))"),
        ("7. ", "listo7(item(p('Io')))"),
        ("---", "line() p('Io')"),
        ("a# ", "p('a# Io')"),
        ("> - ", "quote(list(item(p('Io'))))"),
    ] {
        let editor = page([p("t", "Io")]);
        assert_eq!(typed_at(&editor, "t", 0, typed), expected, "{typed}");
    }
}

#[test]
fn an_empty_block_without_a_text_becomes_a_heading_as_it_is_typed() {
    let editor = page([element("p", []).with_id("p")]);
    assert_eq!(typed_at(&editor, "p", 0, "# Io"), "heading1('Io')");
    assert_eq!(
        editor.store().snapshot().node("p").unwrap().kind(),
        "heading"
    );
}

#[test]
fn a_list_is_joined_with_the_one_before_if_its_numbers_go_on() {
    let list = |start: i64| {
        let item = |id: &str| element("item", [p(id, id)]);
        let attributes = [("ordered", true.into()), ("start", start.into())];
        element("list", [item("a"), item("b")]).with_attributes(attributes)
    };
    for (typed, expected) in [
        ("5. ", "listo3(item(p('a')) item(p('b')) item(p('Io')))"),
        (
            "6. ",
            "listo3(item(p('a')) item(p('b'))) listo6(item(p('Io')))",
        ),
        (
            "- ",
            "listo3(item(p('a')) item(p('b'))) list(item(p('Io')))",
        ),
    ] {
        let editor = page([list(3), p("t", "Io")]);
        assert_eq!(typed_at(&editor, "t", 0, typed), expected);
    }
}

#[test]
fn in_the_first_block_of_an_item_a_heading_does_not_fit_and_a_line_comes_after_an_empty_block() {
    let list = || element("list", [element("item", [p("t", "Io"), p("u", "Europa")])]);
    let editor = page([list()]);
    assert_eq!(
        typed_at(&editor, "t", 0, "# "),
        "list(item(p('# Io') p('Europa')))"
    );
    let editor = page([list()]);
    assert_eq!(
        typed_at(&editor, "t", 0, "---"),
        "list(item(p() line() p('Io') p('Europa')))"
    );
    assert_eq!(
        typed_at(&editor, "u", 0, "- "),
        "list(item(p() line() p('Io') list(item(p('Europa')))))",
    );
}

#[test]
fn delimiters_become_a_mark_that_the_next_text_does_not_have() {
    let editor = page([p("t", "a  c")]);
    assert_eq!(typed_at(&editor, "t", 2, "**b**d"), "p('a bd c'bold2..3)");
    assert_eq!(
        typed_at(&editor, "t", 0, "`x`y"),
        "p('xya bd c'raw0..1bold4..5)"
    );
}

#[test]
fn a_rule_does_not_apply_in_marks_that_it_excepts_or_that_exclude_its_own() {
    let raw = || text_node("text", "a **b*").with_id("t");
    let editor = page([element("p", [raw().with_marks([Mark::new("raw", 3..5)])])]);
    assert_eq!(typed_at(&editor, "t", 6, "*"), "p('a **b**'raw3..5)");
    let bold = InputEffect::Mark(InputTarget::new("bold"));
    assert!(!applies(
        &editor,
        "t",
        [InputRule::new(r"(\*\*(.+)\*)$", bold)]
    ));
    let quoted = raw().with_marks([Mark::new("raw", 0..6)]);
    let editor = page([element("p", [quoted])]);
    assert_eq!(typed_at(&editor, "t", 6, "\""), "p('a **b*\"'raw0..7)");
}

#[test]
fn replaced_text_has_the_marks_of_the_typed_text_also_the_stored_ones() {
    let editor = page([p("t", "a ")]);
    editor.select(Selection::caret("t", 2)).unwrap();
    editor.execute([toggle_mark("bold", 2..2).on("t")]).unwrap();
    types(&editor, "\"b\"--");
    assert_eq!(outline(&editor), "p('a “b”—'bold2..6)");
}

#[test]
fn without_a_schema_text_and_marks_change_and_blocks_do_not() {
    let editor = opened(StoreOptions::new(), [p("t", "Io")]);
    assert_eq!(typed_at(&editor, "t", 0, "# --"), "p('# —Io')");
    let editor = opened(StoreOptions::new(), [text_node("text", "").with_id("t")]);
    assert_eq!(typed_at(&editor, "t", 0, "**b**"), "'b'bold0..1");
}

// --- When rules apply ---

#[test]
fn the_next_rule_applies_if_the_first_does_not_fit_and_nothing_of_the_first_is_left() {
    let unfit = [
        InputEffect::SetType(InputTarget::new("quote")),
        InputEffect::SetType(InputTarget::new("unknown")),
        InputEffect::SetType(InputTarget::new("heading")),
        InputEffect::Wrap(InputTarget::new("heading")),
        InputEffect::Wrap(InputTarget::new("unknown")),
        InputEffect::Insert(InputTarget::new("item")),
        InputEffect::Mark(InputTarget::new("bold")),
    ];
    for effect in unfit {
        let editor = page([element("list", [element("item", [p("t", "ab")])])]);
        let first = || InputRule::new("^ab$", effect.clone());
        assert!(!applies(&editor, "t", [first()]), "{effect:?}");
        assert_eq!(outline(&editor), "list(item(p('ab')))", "{effect:?}");
        assert!(applies(&editor, "t", [first(), replace("ab$", "c")]));
        assert_eq!(outline(&editor), "list(item(p('c')))");
    }
}

#[test]
fn nothing_changes_in_code_without_a_caret_or_without_a_match() {
    let code = element("code", [text_node("text", "a--").with_id("c")]);
    let editor = page([code, p("t", "a--b")]);
    assert!(!applies(&editor, "c", rules()));
    assert!(!applies(&editor, "t", rules()));
    assert!(!applies(&editor, "t", []));
    for selection in [
        None,
        Some(Selection::node("t")),
        Some(Selection::new(Position::new("t", 1), Position::new("t", 3))),
    ] {
        editor.select(selection).unwrap();
        assert!(
            !editor
                .execute([apply_input_rules(rules())])
                .unwrap()
                .changed
        );
    }
    editor.select(Selection::caret("t", 3)).unwrap();
    assert!(
        editor
            .execute([apply_input_rules(rules())])
            .unwrap()
            .changed
    );
    assert_eq!(outline(&editor), "code('a--') p('a—b')");
}

#[test]
fn only_the_start_of_the_block_is_the_start_of_the_text() {
    let first = || replace("^[a-z#]+$", "x");
    let editor = page([p("t", &"a".repeat(501))]);
    assert!(!applies(&editor, "t", [first()]));
    let editor = page([p("t", &"a".repeat(500))]);
    assert!(applies(&editor, "t", [first()]));
    assert_eq!(outline(&editor), "p('x')");
    let texts = [
        text_node("text", "漢"),
        text_node("text", "# ").with_id("t"),
    ];
    let editor = page([element("p", texts)]);
    assert!(!applies(&editor, "t", rules()));
}

#[test]
fn a_block_does_not_change_over_a_hard_break_except_one_that_was_typed() {
    let editor = page([p("t", "\n- ")]);
    let list = || InputEffect::Wrap(InputTarget::new("list"));
    assert!(!applies(
        &editor,
        "t",
        [InputRule::new(r"^\s*-\s$", list())]
    ));
    let editor = page([p("t", "-\n")]);
    assert!(applies(&editor, "t", [InputRule::new(r"^\s*-\s$", list())]));
    assert_eq!(outline(&editor), "list(item(p()))");
}

#[test]
fn rules_apply_in_the_same_way_if_the_editor_locks_nodes() {
    for typed in ["## ", "7. ", "> - ", "---", "**b**c", "\"b\"--"] {
        let whole = page([p("t", "Io"), p("u", "Europa")]);
        let on_nodes = page([p("t", "Io"), p("u", "Europa")]).with_node_locks(3);
        let expected = typed_at(&whole, "t", 0, typed);
        assert_eq!(typed_at(&on_nodes, "t", 0, typed), expected);
        whole.undo().commit().unwrap();
        on_nodes.undo().commit().unwrap();
        assert_eq!(outline(&on_nodes), outline(&whole), "{typed}");
    }
}

// --- Undo ---

#[test]
fn one_undo_brings_back_what_was_typed_and_the_next_one_removes_it() {
    for (typed, before) in [
        ("# ", "p('# Io')"),
        ("- ", "p('- Io')"),
        ("---", "p('—-Io')"),
        ("**a**", "p('**a**Io')"),
        ("--", "p('--Io')"),
    ] {
        let editor = page([p("t", "Io")]);
        typed_at(&editor, "t", 0, typed);
        let made = outline(&editor);
        assert_ne!(made, before);
        editor.undo().commit().unwrap();
        assert_eq!(outline(&editor), before);
        let typed = typed.replace("---", "—-");
        let caret = Selection::caret("t", typed.chars().count());
        assert_eq!(editor.selection(), Some(caret), "{typed}");
        editor.redo().commit().unwrap();
        assert_eq!(outline(&editor), made);
        while editor.can_undo() && outline(&editor) != "p('Io')" {
            editor.undo().commit().unwrap();
        }
        assert_eq!(outline(&editor), "p('Io')");
    }
}

#[test]
fn in_one_batch_with_the_typed_text_one_undo_takes_back_both() {
    let editor = page([p("t", "-")]);
    editor.select(Selection::caret("t", 1)).unwrap();
    let both = [insert_text(1, "-").on("t"), apply_input_rules(rules())];
    editor.execute(both).unwrap();
    assert_eq!(outline(&editor), "p('—')");
    editor.undo().commit().unwrap();
    assert_eq!(outline(&editor), "p('-')");
}

#[test]
fn undo_03_a_rule_is_an_entry_of_its_own_beside_typing_and_deletion() {
    let undone = |editor: &Editor| {
        editor.undo().commit().unwrap();
        outline(editor)
    };
    let editor = page([p("t", "a")]);
    editor.select(Selection::caret("t", 1)).unwrap();
    type_one(&editor, '(');
    assert!(applies(&editor, "t", [replace(r"\(()$", ")")]));
    assert_eq!(undone(&editor), "p('a(')");

    let editor = page([p("t", "a")]);
    assert_eq!(typed_at(&editor, "t", 1, "--bc"), "p('a—bc')");
    assert_eq!(undone(&editor), "p('a—')");
    assert_eq!(undone(&editor), "p('a--')");

    let heading = element("heading", [text_node("text", "a# b").with_id("t")]);
    let heading = heading.with_attributes([("level", 1.into())]);
    let editor = page([heading]);
    let delete = || editor.execute([delete_text_range(0, 1).on("t")]).unwrap();
    delete();
    let at = apply_input_rules_at(Position::new("t", 2), rules());
    assert!(editor.execute([at]).unwrap().changed);
    delete();
    assert_eq!(outline(&editor), "heading1()");
    let before = ["heading1('b')", "heading1('# b')", "heading1('a# b')"];
    assert!(before.iter().all(|before| undone(&editor) == *before));
}

#[test]
fn typing_is_one_entry_if_the_rules_beside_it_do_not_apply() {
    let editor = page([p("t", "a")]);
    for (at, typed) in [(1, "b"), (2, "c")] {
        let both = [
            insert_text(at, typed).on("t"),
            apply_input_rules_at(Position::new("t", at + 1), rules()),
        ];
        editor.execute(both).unwrap();
    }
    editor.undo().commit().unwrap();
    assert_eq!(outline(&editor), "p('a')");
}

// --- Hostile values ---

#[test]
fn transaction_04_a_rule_of_a_client_is_checked_before_it_runs() {
    for (payload, reason) in [
        (
            r#"{"rules": [{"pattern": "a$"}]}"#,
            "missing field `effect`",
        ),
        (
            r#"{"rules": [{"pattern": "a$", "effect": {"replace": "b"}, "x": 1}]}"#,
            "unknown field `x`",
        ),
        (
            r#"{"rules": [{"pattern": "a$", "effect": {"become": "b"}}]}"#,
            "unknown variant `become`",
        ),
        (
            r#"{"rules": [{"pattern": "a$", "effect": {"mark": {"type": "b",
                "captured": {"x": {"text": 1}, "x": {"text": 2}}}}}]}"#,
            "duplicate field `x`",
        ),
        (
            r#"{"rules": [{"pattern": "a$", "effect": {"mark": {"type": "b",
                "captured": {"x": {"text": -1}}}}}]}"#,
            "invalid value",
        ),
        (
            r#"{"rules": [], "at": {"nodeId": "t"}}"#,
            "missing field `offset`",
        ),
    ] {
        let script = format!(r#"[{{"type": "applyInputRules", "payload": {payload}}}]"#);
        let error = parse_operations(&script).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    let operation = apply_input_rules_at(Position::new("t", 1), rules());
    let script = serde_json::to_string(&[&operation]).unwrap();
    let read: Vec<Operation> = parse_operations(&script).unwrap();
    assert_eq!(format!("{read:?}"), format!("{:?}", [operation]));
}

#[test]
fn transaction_04_hostile_rules_are_refused_or_do_nothing() {
    let editor = page([p("t", "a\0\u{fffc}9\u{10ffff}")]);
    let at = || Position::new("t", 5);
    let of = |rule: InputRule| apply_input_rules_at(at(), [rule]);
    let cause = refused(&editor, of(replace("(", "")));
    assert!(
        matches!(cause, OperationError::Pattern(PatternError::Invalid { .. })),
        "{cause}"
    );
    let cause = refused(&editor, of(replace("[a-z]{1000}{1000}", "")));
    assert!(
        matches!(
            cause,
            OperationError::Pattern(PatternError::TooLarge { .. })
        ),
        "{cause}"
    );
    let cause = refused(&editor, apply_input_rules_at(Position::new("t", 6), []));
    assert!(
        matches!(
            cause,
            OperationError::Edit(EditError::TextOutOfRange { .. })
        ),
        "{cause}",
    );
    let cause = refused(&editor, apply_input_rules_at(Position::new("none", 0), []));
    assert!(
        matches!(cause, OperationError::Edit(EditError::NodeNotFound { .. })),
        "{cause}",
    );
    let number = |pattern| {
        let list = InputTarget::new("list").captured("start", Capture::Number(1));
        InputRule::new(pattern, InputEffect::Wrap(list))
    };
    for nothing in [
        replace("", ""),
        replace("$", "x"),
        replace("(b)?.$", "x"),
        number("(.)$"),
        number("(?s)^(.*)$"),
        InputRule::new(".$", InputEffect::Mark(InputTarget::new("bold"))),
        InputRule::new("(.)()$", InputEffect::Mark(InputTarget::new("bold"))),
    ] {
        assert!(!applies(&editor, "t", [nothing.clone()]), "{nothing:?}");
    }
    assert!(applies(&editor, "t", [replace("(?s)^.*$", "")]));
    assert_eq!(text(&editor.store().snapshot(), "t"), "");
}

#[test]
fn transaction_04_a_number_that_is_too_large_is_no_match() {
    let editor = page([p("t", "99999999999999999999.")]);
    assert_eq!(
        typed_at(&editor, "t", 21, " "),
        "p('99999999999999999999. ')"
    );
    let editor = page([p("t", "9223372036854775807.")]);
    let list = "listo9223372036854775807(item(p()))";
    assert_eq!(typed_at(&editor, "t", 20, " "), list);
    // The next number does not exist, so nothing is joined.
    editor
        .execute([add_child(p("u", "9223372036854775807."), None).on("page")])
        .unwrap();
    assert_eq!(typed_at(&editor, "u", 20, " "), format!("{list} {list}"));
}

#[test]
fn transaction_04_a_long_text_and_many_rules_are_counted() {
    let editor = page([p("t", &"é*".repeat(500_000))]);
    let slow = || replace(r"[é*]*\*[é*]{100}z$", "x").except_in("bold");
    let run = |rules: usize, limit, most| {
        let rules = std::iter::repeat_n(slow(), rules);
        let rules = apply_input_rules_at(Position::new("t", 1_000_000), rules);
        let limits = Limits::new().with(limit, most);
        let manager = TransactionManager::new(editor.store().clone()).with_limits(limits);
        manager.execute([rules])
    };
    let exceeded = |outcome| match outcome {
        Err(TransactionError::Operation {
            cause: OperationError::Edit(EditError::Limit(exceeded)),
            ..
        }) => exceeded.limit,
        other => panic!("{other:?}"),
    };
    assert_eq!(exceeded(run(51, Limit::Operations, 51)), Limit::Operations);
    assert_eq!(exceeded(run(50, Limit::Steps, 5_000)), Limit::Steps);
    // The characters far in front of the caret cost nothing: a rule would count 125,000 for them.
    assert!(!run(50, Limit::Steps, 500_000).unwrap().changed);
}
