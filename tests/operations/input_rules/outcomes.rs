//! What rules make: a document that is valid under its schema, and text with the marks of the text
//! that it replaces.

use doclock::{Draft, document::Attributes};

use super::*;

/// A schema with required attributes.
fn strict() -> Schema {
    let blocks = |content: &str| NodeType::new().group("block").content(content);
    let number = || AttributeSpec::new(ValueType::Integer).required();
    let href = AttributeSpec::new(ValueType::String).required();
    let link = MarkType::new().inclusive(false).attribute("href", href);
    Schema::builder()
        .node("page", NodeType::new().content("heading block*"))
        .node("heading", blocks("text*").attribute("level", number()))
        .node("p", blocks("text*"))
        .node("quote", blocks("p+").attribute("n", number()))
        .node("list", blocks("item+"))
        .node("item", NodeType::new().content("p+"))
        .node("line", blocks(""))
        .node("text", NodeType::new())
        .mark("link", link)
        .root("page")
        .build()
        .unwrap()
}

fn strict_page() -> Editor {
    let heading = element("heading", [text_node("text", "---").with_id("h")]);
    let heading = heading.with_attributes([("level", 1.into())]);
    opened(
        StoreOptions::new().schema(strict()),
        [heading, p("t", "---")],
    )
}

#[test]
fn the_next_rule_applies_if_the_outcome_of_the_first_is_invalid_under_the_schema() {
    let target = InputTarget::new;
    let level = || target("heading").captured("level", Capture::Text(1));
    for (id, effect) in [
        ("t", InputEffect::Mark(target("unknown"))),
        ("t", InputEffect::Mark(target("link"))),
        ("t", InputEffect::SetType(target("heading"))),
        ("t", InputEffect::SetType(level())),
        ("t", InputEffect::Wrap(target("quote"))),
        ("t", InputEffect::Insert(target("list"))),
        ("t", InputEffect::Insert(target("quote"))),
        // The page would begin with another heading, which has no level.
        ("h", InputEffect::Insert(target("line"))),
    ] {
        let editor = strict_page();
        let first = || InputRule::new("^(-(-)-)$", effect.clone());
        assert!(!applies(&editor, id, [first()]), "{effect:?}");
        assert_eq!(outline(&editor), "heading1('---') p('---')", "{effect:?}");
        assert!(applies(&editor, id, [first(), replace("-$", "+")]));
    }
}

#[test]
fn a_rule_applies_in_a_batch_whose_later_operations_complete_the_document() {
    let editor = strict_page();
    let list = element("list", []).with_id("l");
    let heading = InputEffect::SetType(InputTarget::new("heading"));
    let rules = [InputRule::new("^---$", heading), replace("--$", "—")];
    let batch = [
        add_child(list, None).on("page"),
        apply_input_rules_at(Position::new("t", 3), rules),
        add_child(element("item", [p("u", "")]), None).on("l"),
    ];
    editor.execute(batch).unwrap();
    assert_eq!(outline(&editor), "heading1('---') p('-—') list(item(p()))");
}

#[test]
fn a_group_in_front_of_the_one_that_has_to_contain_it_is_no_match() {
    let editor = opened(StoreOptions::new(), [text_node("text", "ba").with_id("t")]);
    let bold = || InputEffect::Mark(InputTarget::new("bold"));
    let first = || InputRule::new("(?:(a)|(b))*$", bold());
    assert!(!applies(&editor, "t", [first()]));
    assert!(applies(&editor, "t", [first(), replace("a$", "c")]));
    assert_eq!(outline(&editor), "'bc'");
}

#[test]
fn a_rule_that_changes_nothing_does_not_apply_and_leaves_the_stored_marks() {
    let text = text_node("text", "ab").with_id("t");
    let text = text.with_marks([Mark::new("bold", 0..2)]);
    let editor = page([element("p", [text])]);
    editor.select(Selection::caret("t", 2)).unwrap();
    for pattern in ["()(.)$", "((.))$"] {
        let bold = InputEffect::Mark(InputTarget::new("bold"));
        let rules = apply_input_rules([InputRule::new(pattern, bold)]);
        assert!(!editor.execute([rules]).unwrap().changed);
        assert_eq!(
            editor.selection(),
            Some(Selection::caret("t", 2)),
            "{pattern}"
        );
    }
}

#[test]
fn a_block_begins_behind_its_empty_texts() {
    let first = text_node("text", "ab").with_id("a");
    let first = first.with_marks([Mark::new("bold", 0..2)]);
    for (typed, expected) in [
        ("# ", "heading1()"),
        ("- ", "list(item(p()))"),
        ("---", "line() p()"),
    ] {
        let last = text_node("text", typed).with_id("t");
        let editor = page([element("p", [first.clone(), last])]);
        assert!(!applies(&editor, "t", rules()[..6].to_vec()));
        editor.execute([delete_text_range(0, 2).on("a")]).unwrap();
        assert!(applies(&editor, "t", rules()), "{typed}");
        assert_eq!(outline(&editor), expected);
    }
    // An image has no text, and is no text.
    let line = NodeType::new().content("(text | image)*");
    let image = NodeType::new().inline(true).text(false);
    let types = Schema::builder().node("page", NodeType::new().content("p+"));
    let types = types.node("p", line).node("text", NodeType::new());
    let schema = types.node("image", image).root("page").build().unwrap();
    let texts = [element("image", []), text_node("text", "a").with_id("t")];
    let editor = opened(StoreOptions::new().schema(schema), [element("p", texts)]);
    assert!(!applies(&editor, "t", [replace("^a$", "b")]));
}

#[test]
fn replaced_text_has_the_marks_of_the_first_replaced_character() {
    let marked = |text: &str, kind: &str, range| {
        text_node("text", text)
            .with_id("t")
            .with_marks([Mark::new(kind, range)])
    };
    let editor = opened(StoreOptions::new(), [marked("wait...", "bold", 0..7)]);
    assert!(applies(&editor, "t", [replace(r"\.\.\.$", "…")]));
    assert_eq!(outline(&editor), "'wait…'bold0..5");
    // A link ends where it ended: it has the text only if it goes on behind that.
    for (text, range, expected) in [
        ("--b", 0..3, "p('—b'link0..2)"),
        ("--b", 0..2, "p('—b')"),
        ("--b", 0..1, "p('—b')"),
        ("--b", 1..3, "p('—b'link1..2)"),
    ] {
        let editor = page([element("p", [marked(text, "link", range.clone())])]);
        let rules = apply_input_rules_at(Position::new("t", 2), rules());
        assert!(editor.execute([rules]).unwrap().changed);
        assert_eq!(outline(&editor), expected, "{text} {range:?}");
    }
    // The mark of a leaf stays on the leaf.
    let editor = opened(StoreOptions::new(), [marked("\u{fffc}", "image", 0..1)]);
    assert!(applies(&editor, "t", [replace(".$", "x")]));
    assert_eq!(outline(&editor), "'x'");
}

#[test]
fn an_empty_group_is_replaced_by_text_with_the_marks_of_typed_text() {
    let bold = text_node("text", "(").with_id("t");
    let bold = bold.with_marks([Mark::new("bold", 0..1)]);
    let editor = page([element("p", [bold])]);
    assert!(applies(&editor, "t", [replace(r"\(()$", ")")]));
    assert_eq!(outline(&editor), "p('()'bold0..2)");
}

#[test]
fn transaction_04_a_replacement_in_many_marks_costs_steps_in_proportion() {
    let schema = || {
        let line = NodeType::new().content("text*");
        let types = Schema::builder().node("page", NodeType::new().content("p+"));
        let types = types.node("p", line).node("text", NodeType::new());
        let comment = MarkType::new().inclusive(true).excludes("");
        let number = AttributeSpec::new(ValueType::Integer);
        let types = types.mark("comment", comment.attribute("n", number));
        StoreOptions::new().schema(types.root("page").build().unwrap())
    };
    let count = 800;
    let mark = |n: usize| Mark::new("comment", 0..3).with_attributes([("n", n.into())]);
    let text = text_node("text", "a--").with_id("t");
    let text = text.with_marks((0..count).map(mark));
    let editor = opened(schema(), [element("p", [text])]);
    let manager = TransactionManager::new(editor.store().clone());
    let manager = manager.with_limits(Limits::new().with(Limit::Steps, 100 * count));
    let rules = apply_input_rules_at(Position::new("t", 3), rules());
    assert!(manager.execute([rules]).unwrap().changed);
    let view = editor.store().snapshot();
    let marks = view.node("t").unwrap().marks();
    assert_eq!(marks.iter().count(), count);
    assert!(marks.iter().all(|mark| mark.range == Some(0..2)));
}

/// The first violation hid the one that the rule made, so the batch failed.
#[test]
fn a_rule_with_an_invalid_outcome_does_not_apply_behind_an_earlier_violation() {
    let level = |level: Option<i64>| match level {
        Some(level) => set_attrs([("level", level.into())]).on("heading"),
        None => remove_attrs(["level"]).on("heading"),
    };
    let heading = element("heading", [text_node("text", "a--").with_id("h")]);
    let heading = heading.with_attributes([("level", 1.into())]);
    let heading = heading.with_id("heading");
    let editor = opened(
        StoreOptions::new().schema(strict()),
        [heading, p("t", "---")],
    );
    let effects = [
        InputEffect::SetType(InputTarget::new("heading")),
        InputEffect::Insert(InputTarget::new("list")),
        InputEffect::Mark(InputTarget::new("link")),
    ];
    let rules = effects.map(|effect| InputRule::new("^((-)--)$", effect));
    let rules = rules.into_iter().chain([replace("--$", "—")]);
    let rules = rules.collect::<Vec<_>>();
    let batch = [
        level(None),
        apply_input_rules_at(Position::new("t", 3), rules.clone()),
        // What a rule does not edit may still be incomplete.
        apply_input_rules_at(Position::new("h", 3), rules),
        level(Some(2)),
    ];
    editor.execute(batch).unwrap();
    assert_eq!(outline(&editor), "heading2('a—') p('-—')");
}

#[test]
fn a_rule_applies_in_a_text_whose_attribute_and_mark_a_later_operation_completes() {
    let language = AttributeSpec::new(ValueType::String).required();
    let href = AttributeSpec::new(ValueType::String).required();
    let types = Schema::builder().node("page", NodeType::new().content("p+"));
    let types = types.node("p", NodeType::new().content("text*"));
    let types = types.node("text", NodeType::new().attribute("language", language));
    let types = types.mark("link", MarkType::new().attribute("href", href));
    let options = StoreOptions::new().schema(types.root("page").build().unwrap());
    let text = text_node("text", "a --").with_id("t");
    let text = text.with_attributes([("language", "en".into())]);
    let editor = opened(options, [element("p", [text])]);
    let link = |attributes: Attributes| {
        let link = Mark::new("link", 0..1).with_attributes(attributes);
        op(move |draft: &mut Draft| draft.set_marks("t", [link.clone()]))
    };
    let batch = [
        remove_attrs(["language"]).on("t"),
        link(Attributes::default()),
        apply_input_rules_at(Position::new("t", 4), [replace("--$", "—")]),
        set_attrs([("language", "de".into())]).on("t"),
        link([("href", "b".into())].into()),
    ];
    editor.execute(batch).unwrap();
    assert_eq!(outline(&editor), "p('a —'link0..1)");
}

#[test]
fn transaction_04_an_invalid_pattern_is_refused_without_a_match_and_behind_a_rule_that_applies() {
    let editor = page([
        p("t", "a--"),
        element("p", [text_node("text", "").with_id("e")]),
    ]);
    let manager = |limits| TransactionManager::new(editor.store().clone()).with_limits(limits);
    let long = "a".repeat(1_000_000);
    for pattern in ["(", "[a-z]{1000}{1000}", &long] {
        let invalid = || replace(pattern, "x");
        for operation in [
            apply_input_rules([invalid()]),
            apply_input_rules_at(Position::new("e", 0), [invalid()]),
            apply_input_rules_at(Position::new("t", 3), [replace("--$", "—"), invalid()]),
        ] {
            let cause = refused(&editor, operation.clone());
            assert!(matches!(cause, OperationError::Pattern(_)), "{cause}");
            let error = manager(Limits::new()).execute([operation]).unwrap_err();
            let TransactionError::Operation { cause, .. } = error else {
                panic!("{error}");
            };
            assert!(matches!(cause, OperationError::Pattern(_)), "{cause}");
        }
    }
}

#[test]
fn undo_03_typing_goes_on_where_a_rule_was_taken_back() {
    let editor = opened(StoreOptions::new(), [text_node("text", "--").with_id("t")]);
    editor.execute([insert_text(2, "a").on("t")]).unwrap();
    let typed = op(|draft: &mut Draft| {
        let before = draft.savepoint();
        let rule = replace("--$", "—");
        let rules = apply_input_rules_at(Position::new("t", 2), [rule]);
        assert!(draft.run([rules]).is_ok());
        draft.rollback_to(before).unwrap();
        draft.insert_text("t", 3, "b")
    });
    editor.execute([typed]).unwrap();
    assert_eq!(outline(&editor), "'--ab'");
    editor.undo().commit().unwrap();
    assert_eq!(outline(&editor), "'--'");
}
