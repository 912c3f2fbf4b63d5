//! Input rules: what a user has typed in front of the caret becomes a block, a mark or other text.
//!
//! The rules are those of prosemirror-inputrules and of Tiptap, which define the results.

mod effect;

use std::collections::BTreeMap;
use std::ops::Range;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use smol_str::SmolStr;

pub use effect::apply;

use crate::block_edits::BlockEdits;
use crate::limits::{Budget, LimitExceeded};
use crate::mark::OBJECT;
use crate::pattern::Groups;
use crate::schema::Schema;
use crate::{
    Attributes, EditError, Limit, Node, NodeId, Pattern, PatternError, Position, Value, cost, plan,
    value,
};

/// A rule of `doclock::dsl::apply_input_rules`: what a text in front of the caret is replaced by.
///
/// The pattern has to match up to the caret, so it ends with `$`. `^` is the beginning of the text
/// block. In JSON: `{"pattern": "^(#{1,6})\\s$", "effect": {"setType": {"type": "heading",
/// "captured": {"level": {"length": 1}}}}}`.
///
/// ```
/// use doclock::transaction::{Capture, InputEffect, InputRule, InputTarget};
///
/// let heading = InputTarget::new("heading").captured("level", Capture::Length(1));
/// let rule = InputRule::new(r"^(#{1,6})\s$", InputEffect::SetType(heading));
/// let json = r#"{"pattern": "^(#{1,6})\\s$", "effect": {"setType": {"type": "heading",
///     "captured": {"level": {"length": 1}}}}}"#;
/// assert_eq!(serde_json::from_str::<InputRule>(json)?, rule);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InputRule {
    /// The text in front of the caret. If it is invalid, the operation is refused.
    pub pattern: Pattern,
    /// The edit of the matched text.
    pub effect: InputEffect,
    /// Marks, such as that of code: the rule does not apply if a character that it would replace or
    /// delete has one of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except_in: Vec<SmolStr>,
}

/// The edit that an [`InputRule`] makes.
///
/// All but `Replace` and `Mark` are about the text block of the caret, by the rules of a schema.
/// Without a schema they do not apply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum InputEffect {
    /// This text replaces group 1 of the pattern, or the whole match if the pattern has no group.
    /// It has the marks of the first replaced character. A mark that is not inclusive has to extend
    /// behind the last one, too.
    Replace(SmolStr),
    /// The match is deleted, and the text block has this type.
    SetType(InputTarget),
    /// The match is deleted, and a node of this type is around the text block, as far as the schema
    /// requires in an item. It is joined with a node of the same kind right before it. If an
    /// attribute has a [number](Capture::Number) of the pattern, that has to continue the numbers
    /// of the node before: the same attribute there, or 1, plus the number of its children.
    Wrap(InputTarget),
    /// The match is deleted, and a new node of this type is before the text block.
    Insert(InputTarget),
    /// Group 2 of the pattern gets a mark of this type, and replaces group 1, which has the
    /// delimiters around it. Text that is typed next does not have the mark.
    Mark(InputTarget),
}

impl InputEffect {
    fn target(&self) -> Option<&InputTarget> {
        match self {
            Self::Replace(_) => None,
            Self::SetType(target)
            | Self::Wrap(target)
            | Self::Insert(target)
            | Self::Mark(target) => Some(target),
        }
    }
}

/// The type of a node or of a mark that an [`InputRule`] makes, with its attributes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InputTarget {
    /// The type.
    #[serde(rename = "type")]
    pub kind: SmolStr,
    /// Attributes with the same value each time.
    #[serde(default, skip_serializing_if = "Attributes::is_empty")]
    pub attributes: Attributes,
    /// Attributes whose value comes from a group of the pattern. An attribute whose group is not in
    /// the match is absent.
    #[serde(
        default,
        deserialize_with = "captures",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub captured: BTreeMap<SmolStr, Capture>,
}

/// What an attribute has of a group of the pattern, counted from 1.
///
/// In JSON: `{"length": 1}`, `{"number": 1}` or `{"text": 1}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Capture {
    /// The number of its characters.
    Length(usize),
    /// The integer that its text is. Any other text is no match, and so is a number that does not
    /// fit in 64 bits.
    Number(usize),
    /// Its text.
    Text(usize),
}

/// Without duplicate names.
fn captures<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<SmolStr, Capture>, D::Error> {
    let named = value::map(deserializer)?.into_iter();
    let named = named.map(|(name, value)| Ok((name.into(), Capture::deserialize(value)?)));
    let named: Result<_, serde_json::Error> = named.collect();
    named.map_err(D::Error::custom)
}

impl InputRule {
    /// Creates a rule.
    pub fn new(pattern: impl Into<Pattern>, effect: InputEffect) -> Self {
        Self {
            pattern: pattern.into(),
            effect,
            except_in: Vec::new(),
        }
    }

    /// Adds a mark to [`except_in`](Self::except_in): the rule does not apply in such text.
    #[must_use]
    pub fn except_in(mut self, mark: impl Into<SmolStr>) -> Self {
        self.except_in.push(mark.into());
        self
    }

    /// Returns rules that replace straight quotes by those of English, `--` by a dash and `...` by
    /// an ellipsis, except in text with one of these marks. They come after other rules.
    ///
    /// ```
    /// use doclock::{DataStore, Editor, View, document::Selection, dsl::*, transaction::InputRule};
    ///
    /// let editor = Editor::new(DataStore::new(), "ann");
    /// transaction(&editor, [create(text_node("text", "wait..").with_id("t"))]).commit()?;
    /// editor.select(Selection::caret("t", 6))?;
    /// transaction(&editor, [insert_text(6, ".").on("t")]).commit()?;
    /// transaction(&editor, [apply_input_rules(InputRule::typographic(["code"]))]).commit()?;
    /// assert_eq!(editor.store().snapshot().node("t").unwrap().text(), &"wait…");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn typographic(except_in: impl IntoIterator<Item = impl Into<SmolStr>>) -> Vec<Self> {
        let opens = r#"(?:^|[\s\{\[\(<'"\u{2018}\u{201C}])"#;
        let marks: Vec<SmolStr> = except_in.into_iter().map(Into::into).collect();
        let rules = [
            ("--$".to_owned(), "—"),
            (r"\.\.\.$".to_owned(), "…"),
            (format!("{opens}(\")$"), "“"),
            ("\"$".to_owned(), "”"),
            (format!("{opens}(')$"), "‘"),
            ("'$".to_owned(), "’"),
        ];
        let rules = rules.into_iter().map(|(pattern, text)| Self {
            pattern: pattern.into(),
            effect: InputEffect::Replace(text.into()),
            except_in: marks.clone(),
        });
        rules.collect()
    }

    /// Checks its size before the lock is requested.
    ///
    /// # Errors
    ///
    /// A limit is exceeded.
    #[doc(hidden)]
    pub fn check_size(&self, budget: &Budget) -> Result<(), LimitExceeded> {
        let mut marks = self.except_in.iter();
        marks.try_for_each(|mark| budget.name(mark))?;
        budget.spend(Limit::Steps, self.except_in.len())?;
        if let InputEffect::Replace(text) = &self.effect {
            budget.text(text.len(), text.chars().count())?;
        }
        let mut target = self.effect.target().into_iter();
        target.try_for_each(|target| target.check_size(budget))
    }
}

impl InputTarget {
    /// Creates the target of a type without attributes.
    pub fn new(kind: impl Into<SmolStr>) -> Self {
        Self {
            kind: kind.into(),
            attributes: Attributes::default(),
            captured: BTreeMap::new(),
        }
    }

    /// Sets attributes that have the same value each time.
    #[must_use]
    pub fn with_attributes(mut self, attributes: impl Into<Attributes>) -> Self {
        self.attributes = attributes.into();
        self
    }

    /// Sets an attribute whose value comes from a group of the pattern.
    #[must_use]
    pub fn captured(mut self, name: impl Into<SmolStr>, capture: Capture) -> Self {
        self.captured.insert(name.into(), capture);
        self
    }

    fn check_size(&self, budget: &Budget) -> Result<(), LimitExceeded> {
        budget.name(&self.kind)?;
        budget.attributes(&self.attributes)?;
        budget.spend(Limit::Steps, self.captured.len())?;
        let added = |name: &&SmolStr| self.attributes.get(name).is_none();
        let count = self.attributes.len() + self.captured.keys().filter(added).count();
        budget.limits().check(Limit::Attributes, count)?;
        let mut names = self.captured.keys();
        names.try_for_each(|name| budget.name(name))
    }

    /// Its attributes for a match; `None` if a number is none.
    fn attributes_of(&self, typed: &TypedText, groups: &Groups) -> Option<Attributes> {
        let mut attributes = self.attributes.clone();
        for (name, capture) in &self.captured {
            let (Capture::Length(nth) | Capture::Number(nth) | Capture::Text(nth)) = *capture;
            let group = groups.get(nth).cloned().flatten();
            let value = match group.map(|group| &typed.text[group]) {
                None => None,
                Some(text) => Some(match capture {
                    Capture::Length(_) => Value::from(text.chars().count()),
                    Capture::Number(_) => Value::from(text.parse::<i64>().ok()?),
                    Capture::Text(_) => Value::from(text),
                }),
            };
            attributes.set(name.clone(), value);
        }
        Some(attributes)
    }
}

/// The text in front of a caret.
#[derive(Clone, Debug)]
pub struct TypedText {
    id: NodeId,
    /// The text block around the text, under a schema.
    block: Option<NodeId>,
    /// The character before the text that is looked at, if there is one, and that text.
    text: String,
    /// Where the text that is looked at begins, in bytes and in characters of the node.
    from: usize,
    start: usize,
}

impl TypedText {
    /// How many characters in front of the caret rules look at, as in prosemirror-inputrules.
    const MOST: usize = 500;

    /// The text in front of a caret. `None` if there is none, or if it is code.
    ///
    /// # Errors
    ///
    /// There is no such position. An error of the steps.
    pub fn before<E: BlockEdits>(
        on: &E,
        schema: Option<&Schema>,
        caret: &Position,
    ) -> Result<Option<Self>, EditError> {
        let (node, end) = (plan::find(on, &caret.node_id)?, caret.offset);
        if end > node.text().len() {
            return Err(plan::out_of_range(node, &(end..end)));
        }
        let is_in_line = schema.is_some_and(|schema| schema.is_in_line(node.kind()));
        let block = node.parent().filter(|_| is_in_line);
        let block = block.and_then(|parent| on.node(parent));
        let is_code = |node: &Node| {
            let known = schema.and_then(|it| Some((it, it.number_of(node.kind())?)));
            known.is_some_and(|(schema, number)| schema.is_code(number))
        };
        if end == 0 || is_code(node) || block.is_some_and(is_code) {
            return Ok(None);
        }
        let start = end.saturating_sub(Self::MOST);
        let context = start.saturating_sub(1);
        on.spend_steps(&|_| cost::NODE + (end - context) / cost::BYTES)?;
        let mut text = node.text().slice(context..end).unwrap_or_default();
        if let Some(block) = block.filter(|_| start == 0)
            && !is_first(on, block, node)?
        {
            text = format!("{OBJECT}{text}").into();
        }
        let len = end - start;
        let from = text
            .char_indices()
            .rev()
            .nth(len - 1)
            .map_or(0, |(at, _)| at);
        Ok(Some(Self {
            id: node.id().clone(),
            block: block.map(|block| block.id().clone()),
            text: text.into(),
            from,
            start,
        }))
    }

    /// The groups of a rule's match, in bytes of the text, and how many bytes were read.
    ///
    /// # Errors
    ///
    /// The pattern is invalid, or its search takes too long.
    pub fn find(&self, rule: &InputRule) -> Result<(Option<Groups>, usize), PatternError> {
        rule.pattern.groups_at_end(&self.text, self.from)
    }

    /// Characters of the node.
    fn chars(&self, bytes: &Range<usize>) -> Range<usize> {
        let count = |bytes: Range<usize>| self.text[bytes].chars().count();
        let start = self.start + count(self.from..bytes.start);
        start..start + count(bytes.clone())
    }
}

/// Whether there is nothing in a block before one of its texts but empty texts.
fn is_first<E: BlockEdits>(on: &E, block: &Node, text: &Node) -> Result<bool, EditError> {
    let is_empty = |node: &Node| {
        let is_text = node.kind() == text.kind() && node.attributes().is_empty();
        is_text && node.text().is_empty() && node.children().is_empty()
    };
    for before in on.children(block.id()) {
        on.spend_steps(&|_| cost::LOOKED_UP)?;
        if before.id() == text.id() {
            break;
        }
        if !is_empty(before) {
            return Ok(false);
        }
    }
    Ok(true)
}
