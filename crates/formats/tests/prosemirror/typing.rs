//! Text that is typed with input rules.

use doclock::document::{Selection, TextSelection};
use doclock::dsl::*;
use doclock::transaction::{
    InputEffect, InputRule, Operation, TransactionError, TransactionResult,
};

use crate::opened::Opened;

/// Types the text of a case, with the rules of its editor after each character. `undoInputRule`
/// ends with the first rule that applies, and undoes it.
pub(crate) fn type_text(opened: &Opened<'_>) -> Result<TransactionResult, TransactionError> {
    let (editor, case) = (&opened.editor, opened.case);
    let nothing = || editor.execute(Vec::<Operation>::new());
    if case["result"].is_null() {
        return nothing();
    }
    let names = crate::names_of(case["schema"].as_str().unwrap());
    let mut rules = names.input_rules();
    // The rules of the StarterKit are the only ones for marks.
    if case["schema"] != "tiptap" {
        let has_lists = case["schema"] != "basic";
        rules.retain(|rule| match &rule.effect {
            InputEffect::SetType(_) => true,
            InputEffect::Wrap(target) => has_lists || target.kind != "list",
            _ => false,
        });
        rules.extend(InputRule::typographic(["code"]));
    }
    let (from, _) = opened.ends();
    editor
        .select(Selection::caret(from.node, from.offset))
        .unwrap();
    for char in case["text"].as_str().unwrap().chars() {
        let Some(Selection::Text(TextSelection { focus, .. })) = editor.selection() else {
            panic!("{case}");
        };
        let typed = insert_text(focus.offset, char.to_string());
        editor.execute([typed.on(focus.node_id)])?;
        let made = editor.execute([apply_input_rules(rules.clone())])?;
        if made.changed && case["command"] == "undoInputRule" {
            return Ok(editor.undo().commit().unwrap());
        }
    }
    nothing()
}
