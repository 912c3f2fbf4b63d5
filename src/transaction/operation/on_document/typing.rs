//! What typed text becomes.

use serde::{Deserialize, Serialize};

use super::{DocumentTarget, Edited, Operation, OperationOn, SizeCheck, on_document};
use crate::document::input_rules::{TypedText, apply};
use crate::document::{Budget, Change, EditError, Limit, Position, Selection, cost};
use crate::store::Draft;
use crate::transaction::InputRule;

/// Applies the first of these rules whose pattern matches the text in front of the caret, and whose
/// effect is valid there: `# ` becomes a heading, `**bold**` bold text, `--` a dash.
///
/// It looks at up to 500 characters of the text node, and not at code. If no rule applies, or if
/// text is selected, nothing changes. [`TransactionResult::changed`] says which.
///
/// Run it as a transaction of its own after each typed character. Then it is an entry of its own in
/// the history, and one undo brings back what was typed.
///
/// ```
/// use doclock::{DataStore, Editor, View, document::Selection, dsl::*};
/// use doclock::transaction::{InputEffect, InputRule};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// transaction(&editor, [create(text_node("text", "a -").with_id("t"))]).commit()?;
/// editor.select(Selection::caret("t", 3))?;
/// let rules = || [InputRule::new("--$", InputEffect::Replace("—".into()))];
///
/// assert!(!transaction(&editor, [apply_input_rules(rules())]).commit()?.changed);
/// transaction(&editor, [insert_text(3, "-").on("t")]).commit()?;
/// assert!(transaction(&editor, [apply_input_rules(rules())]).commit()?.changed);
/// assert_eq!(editor.store().snapshot().node("t").unwrap().text(), &"a —");
///
/// // Backspace right after a rule.
/// editor.undo().commit()?;
/// assert_eq!(editor.store().snapshot().node("t").unwrap().text(), &"a --");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`TransactionResult::changed`]: crate::transaction::TransactionResult::changed
pub fn apply_input_rules(rules: impl IntoIterator<Item = InputRule>) -> Operation {
    let rules = rules.into_iter().collect();
    on_document(ApplyInputRules { rules, at: None })
}

/// Applies rules to the text in front of a position, as [`apply_input_rules`] does at the caret.
pub fn apply_input_rules_at(at: Position, rules: impl IntoIterator<Item = InputRule>) -> Operation {
    let (rules, at) = (rules.into_iter().collect(), Some(at));
    on_document(ApplyInputRules { rules, at })
}

/// See [`apply_input_rules`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApplyInputRules {
    /// The rules, the first one first.
    pub rules: Vec<InputRule>,
    /// The position behind the text; that of the caret for `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Position>,
}

impl OperationOn<DocumentTarget> for ApplyInputRules {
    fn size(&self, budget: &Budget) -> SizeCheck {
        budget.spend(Limit::Operations, self.rules.len())?;
        let mut rules = self.rules.iter();
        rules.try_for_each(|rule| rule.check_size(budget))
    }

    fn to_scalars(&mut self, on: &mut Draft, _: &DocumentTarget) -> Edited {
        self.at = self.at.as_ref().map(|at| at.to_scalar(on)).transpose()?;
        Ok(())
    }

    fn run(self, on: &mut Draft, _: &DocumentTarget) -> Edited {
        let mut errors = self.rules.iter().filter_map(|rule| rule.pattern.error());
        if let Some(error) = errors.next() {
            return Err(error.clone().into());
        }
        let caret = match (self.at, on.selection()) {
            (Some(at), _) => at,
            (None, Some(Selection::Text(text))) if text.anchor == text.focus => text.focus.clone(),
            _ => return Ok(()),
        };
        on.spend(Limit::Operations, |_| self.rules.len())?;
        let schema = on.shared_schema();
        let Some(typed) = TypedText::before(on, schema.as_deref(), &caret)? else {
            return Ok(());
        };
        for rule in &self.rules {
            let (groups, looked_at) = typed.find(rule)?;
            on.spend(Limit::Steps, |_| cost::RULE + looked_at / cost::BYTES)?;
            let Some(groups) = groups else { continue };
            let schema = schema.as_deref();
            let made = on.changes().len();
            // What was made before it turned out not to fit is taken back.
            let outcome = on.all_or_nothing(|on| {
                let is_made = apply(on, schema, &typed, rule, &groups)?;
                let mut changes = on.changes()[made..].iter();
                if !is_made || !changes.any(Change::is_of_the_document) {
                    return Err(None);
                }
                // Later operations can complete what earlier ones began.
                on.check_last(made)?;
                on.set_no_typing();
                Ok(())
            });
            match outcome {
                Ok(()) => return Ok(()),
                Err(None | Some(EditError::Schema(_))) => {}
                Err(Some(error)) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
