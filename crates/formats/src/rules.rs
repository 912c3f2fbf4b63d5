//! The input rules of documents with the types of an editor.

use doclock::transaction::{Capture, InputEffect, InputRule, InputTarget};

/// What the rules make, if a document has it.
pub(crate) struct RuleTargets {
    pub(crate) quote: Option<InputTarget>,
    pub(crate) bullet_list: Option<InputTarget>,
    pub(crate) ordered_list: Option<InputTarget>,
    pub(crate) heading: Option<InputTarget>,
    pub(crate) code_block: Option<InputTarget>,
    pub(crate) break_line: Option<InputTarget>,
    pub(crate) strong: Option<InputTarget>,
    pub(crate) emphasis: Option<InputTarget>,
    pub(crate) strike: Option<InputTarget>,
    pub(crate) code: Option<InputTarget>,
}

/// Group 1 of the rules for headings, ordered lists and code.
pub(crate) const LEVEL: Capture = Capture::Length(1);
pub(crate) const NUMBER: Capture = Capture::Number(1);
pub(crate) const LANGUAGE: Capture = Capture::Text(1);

impl RuleTargets {
    /// The rules, which are those of Tiptap's StarterKit.
    pub(crate) fn rules(self) -> Vec<InputRule> {
        use InputEffect::{Insert, Mark, SetType, Wrap};
        let code = self.code.as_ref().map(|code| code.kind.clone());
        let rules = [
            (self.quote, r"^\s*>\s$".to_owned(), Wrap as fn(_) -> _),
            (self.bullet_list, r"^\s*([-+*])\s$".to_owned(), Wrap),
            (self.ordered_list, r"^([0-9]+)\.\s$".to_owned(), Wrap),
            (self.heading, r"^(#{1,6})\s$".to_owned(), SetType),
            (
                self.code_block.clone(),
                r"^```([a-z]+)?\s$".to_owned(),
                SetType,
            ),
            (self.code_block, r"^~~~([a-z]+)?\s$".to_owned(), SetType),
            (
                self.break_line,
                r"^(?:---|—-|___\s|\*\*\*\s)$".to_owned(),
                Insert,
            ),
            (self.strong.clone(), between(r"\*\*", r"\*"), Mark),
            (self.strong, between("__", "_"), Mark),
            (self.emphasis.clone(), between(r"\*", r"\*"), Mark),
            (self.emphasis, between("_", "_"), Mark),
            (self.strike, between("~~", "~"), Mark),
            (self.code, r"(?:^|[^`])(`([^`]+)`)$".to_owned(), Mark),
        ];
        let rules = rules.into_iter().filter_map(|(target, pattern, effect)| {
            let rule = InputRule::new(pattern, effect(target?));
            let code = code.iter().cloned();
            Some(code.fold(rule, InputRule::except_in))
        });
        rules.collect()
    }
}

/// Text between delimiters, which is not blank and does not have their character.
fn between(delimiter: &str, char: &str) -> String {
    format!(r"(?:^|\s)({delimiter}([^{char}]*[^{char}\s][^{char}]*){delimiter})$")
}
