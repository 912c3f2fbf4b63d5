//! What an input rule makes of the text that it matches.

use std::ops::Range;

use super::{Capture, InputEffect, InputRule, InputTarget, TypedText};
use crate::block_edits::{BlockEdits, join_with_previous};
use crate::fit::{self, FitEdit};
use crate::mark_rules::MarkRules;
use crate::pattern::Groups;
use crate::schema::Schema;
use crate::{
    Attributes, ChildPosition, EditError, Mark, NodeId, NodeSpec, Position, Selection, cost, plan,
};

/// Makes the effect of a rule on a match. Returns `false` if it does not apply here: the caller
/// then takes back what was made of it.
///
/// # Errors
///
/// An error of an edit.
pub fn apply<E: BlockEdits>(
    on: &mut E,
    schema: Option<&Schema>,
    typed: &TypedText,
    rule: &InputRule,
    groups: &Groups,
) -> Result<bool, EditError> {
    let group = |nth: usize| groups.get(nth).cloned().flatten();
    let Some(whole) = group(0).map(|whole| typed.chars(&whole)) else {
        return Ok(false);
    };
    let caret = Position::new(typed.id.clone(), whole.start);
    let edit = RuleEdit {
        schema,
        typed,
        whole,
        caret,
    };
    let part = |nth| group(nth).map(|part| typed.chars(&part));
    let is_of_block = !matches!(rule.effect, InputEffect::Replace(_) | InputEffect::Mark(_));
    let edited = part(1).filter(|_| !is_of_block);
    let edited = edited.unwrap_or_else(|| edit.whole.clone());
    if edit.is_excepted(on, rule, &edited)? || is_of_block && edit.has_break(groups) {
        return Ok(false);
    }
    let target = rule.effect.target();
    let Some(attributes) = target.map_or(Some(Attributes::default()), |target| {
        target.attributes_of(typed, groups)
    }) else {
        return Ok(false);
    };
    on.spend_steps(&|_| attributes.steps())?;
    match &rule.effect {
        InputEffect::Replace(text) => match (groups.len(), part(1)) {
            (1, _) => edit.replace(on, edit.whole.clone(), text),
            (_, Some(part)) => edit.replace(on, part, text),
            _ => Ok(false),
        },
        InputEffect::Mark(target) => match (part(1), part(2)) {
            (Some(outer), Some(inner))
                if !inner.is_empty() && outer.start <= inner.start && inner.end <= outer.end =>
            {
                edit.mark(on, &target.kind, &attributes, outer, inner)
            }
            _ => Ok(false),
        },
        InputEffect::SetType(target) => edit.set_type(on, &target.kind, &attributes),
        InputEffect::Wrap(target) => edit.wrap(on, target, &attributes),
        InputEffect::Insert(target) => edit.insert(on, &target.kind, attributes),
    }
}

/// The effect of a rule on a match.
struct RuleEdit<'a> {
    schema: Option<&'a Schema>,
    typed: &'a TypedText,
    /// The matched characters.
    whole: Range<usize>,
    /// Where the caret is when they are deleted.
    caret: Position,
}

impl RuleEdit<'_> {
    /// Whether an edited character has a mark with which the rule does not apply.
    fn is_excepted<E: BlockEdits>(
        &self,
        on: &E,
        rule: &InputRule,
        edited: &Range<usize>,
    ) -> Result<bool, EditError> {
        if rule.except_in.is_empty() {
            return Ok(false);
        }
        let marks = plan::find(on, &self.typed.id)?.marks();
        on.spend_steps(&|_| marks.len() * rule.except_in.len())?;
        let mut over = marks.iter().filter(|mark| overlaps(mark, edited));
        Ok(over.any(|mark| rule.except_in.contains(&mark.kind)))
    }

    /// Whether there is a hard break in the match before its last character.
    fn has_break(&self, groups: &Groups) -> bool {
        let whole = groups.first().cloned().flatten();
        let text = whole.map_or("", |whole| &self.typed.text[whole]);
        text.chars().rev().skip(1).any(|char| char == '\n')
    }

    fn delete<E: BlockEdits>(&self, on: &mut E, part: Range<usize>) -> Result<(), EditError> {
        match part.is_empty() {
            true => Ok(()),
            false => on.replace(&self.typed.id, part.start, part.end, String::new()),
        }
    }

    /// Edits the text block under the schema. `false` if there is none, or if it does not fit.
    fn fit<E: BlockEdits>(&self, on: &mut E, edit: &FitEdit<'_>) -> Result<bool, EditError> {
        let (Some(schema), Some(_)) = (self.schema, &self.typed.block) else {
            return Ok(false);
        };
        match fit::edit(on, schema, &self.caret, &self.caret, edit) {
            Err(EditError::DoesNotFit { .. }) => Ok(false),
            done => done,
        }
    }

    fn replace<E: BlockEdits>(
        &self,
        on: &mut E,
        part: Range<usize>,
        text: &str,
    ) -> Result<bool, EditError> {
        let id = &self.typed.id;
        let node = plan::find(on, id)?;
        on.spend_steps(&|_| cost::marks(node.marks()))?;
        let mut marks = MarkRules(self.schema).of_replaced(node, &part);
        on.replace(id, part.start, part.end, text.to_owned())?;
        let range = part.start..part.start + text.chars().count();
        if !marks.is_empty() && !range.is_empty() {
            for mark in &mut marks {
                mark.range = Some(range.clone());
            }
            let others = plan::find(on, id)?.marks();
            on.spend_steps(&|_| cost::marks(others))?;
            marks.extend(others.iter().cloned());
            on.set_all_marks(id, marks)?;
        }
        Ok(true)
    }

    fn add_mark<E: BlockEdits>(
        &self,
        on: &mut E,
        range: &Range<usize>,
        mark: (&str, &Attributes),
    ) -> Result<(), EditError> {
        let node = plan::find(on, &self.typed.id)?;
        on.spend_steps(&|_| cost::marks(node.marks()))?;
        let marks = MarkRules(self.schema).with_mark(on, node, range, mark);
        marks.map_or(Ok(()), |marks| on.set_all_marks(&self.typed.id, marks))
    }

    fn set_type<E: BlockEdits>(
        &self,
        on: &mut E,
        kind: &str,
        attributes: &Attributes,
    ) -> Result<bool, EditError> {
        let is_block = |schema: &Schema| schema.has_line(kind) && !schema.is_in_line(kind);
        if !self.schema.is_some_and(is_block) {
            return Ok(false);
        }
        self.delete(on, self.whole.clone())?;
        self.fit(on, &FitEdit::SetType(kind, attributes))
    }

    fn wrap<E: BlockEdits>(
        &self,
        on: &mut E,
        target: &InputTarget,
        attributes: &Attributes,
    ) -> Result<bool, EditError> {
        let Some((block, place)) = self.place_of_block(on)? else {
            return Ok(false);
        };
        self.delete(on, self.whole.clone())?;
        if !self.fit(on, &FitEdit::Wrap(&target.kind, attributes))? {
            return Ok(false);
        }
        if !self.is_at_start() {
            return Ok(true);
        }
        // The outermost of the new nodes.
        let mut outer = block;
        while let Some(parent) = on.parent(&outer).filter(|parent| **parent != place.parent) {
            on.spend_steps(&|_| cost::LOOKED_UP)?;
            outer = parent.clone();
        }
        if self.continues(on, &outer, target, attributes)? {
            join_with_previous(on, self.schema, &outer)?;
        }
        Ok(true)
    }

    /// Whether a new node and the one before it are of the type, and their numbers of one sequence.
    fn continues<E: BlockEdits>(
        &self,
        on: &E,
        outer: &NodeId,
        target: &InputTarget,
        attributes: &Attributes,
    ) -> Result<bool, EditError> {
        on.spend_steps(&|_| cost::LOOKED_UP)?;
        let before = on.previous_sibling(outer).filter(|before| {
            let node = on.node(outer);
            before.kind() == target.kind && node.is_some_and(|node| node.kind() == target.kind)
        });
        let Some(before) = before else {
            return Ok(false);
        };
        let numbers = target.captured.iter();
        let mut numbers = numbers.filter(|(_, capture)| matches!(capture, Capture::Number(_)));
        Ok(numbers.all(|(name, _)| {
            let first = before
                .attributes()
                .get(name)
                .map_or(Some(1), |it| it.as_i64());
            let next =
                first.and_then(|first| first.checked_add_unsigned(before.children().len() as u64));
            attributes.get(name).map(|it| it.as_i64()) == Some(next)
        }))
    }

    fn insert<E: BlockEdits>(
        &self,
        on: &mut E,
        kind: &str,
        attributes: Attributes,
    ) -> Result<bool, EditError> {
        let (Some(schema), true) = (self.schema, self.is_at_start()) else {
            return Ok(false);
        };
        let Some((block, place)) = self.place_of_block(on)? else {
            return Ok(false);
        };
        let ChildPosition { parent, mut index } = place;
        let block = plan::find(on, &block)?.kind().to_owned();
        // Where the parent has to begin with such a block, an empty one does.
        let is_second = !may_insert(on, schema, &parent, index, &[kind])?;
        if is_second {
            if !may_insert(on, schema, &parent, index, &[&block, kind])? {
                return Ok(false);
            }
            on.insert_node(NodeSpec::new(block), &parent, index)?;
            index += 1;
        }
        self.delete(on, self.whole.clone())?;
        let spec = NodeSpec::new(kind).with_attributes(attributes);
        on.insert_node(spec, &parent, index)?;
        Ok(true)
    }

    fn mark<E: BlockEdits>(
        &self,
        on: &mut E,
        kind: &str,
        attributes: &Attributes,
        outer: Range<usize>,
        inner: Range<usize>,
    ) -> Result<bool, EditError> {
        let (id, rules) = (&self.typed.id, MarkRules(self.schema));
        let node = plan::find(on, id)?;
        on.spend_steps(&|_| cost::marks(node.marks()))?;
        let rest = inner.start..self.whole.end;
        let is_excluded = node.marks().iter().any(|mark| {
            overlaps(mark, &rest) && mark.kind != kind && rules.excludes(&mark.kind, kind)
        });
        if is_excluded || !rules.allows(on, node, kind) {
            return Ok(false);
        }
        self.delete(on, inner.end..outer.end)?;
        self.delete(on, outer.start..inner.start)?;
        let marked = outer.start..outer.start + inner.len();
        self.add_mark(on, &marked, (kind, attributes))?;
        self.end_mark(on, kind, marked.end)
    }

    /// Text that is typed at the caret does not have the mark that ends there.
    fn end_mark<E: BlockEdits>(
        &self,
        on: &mut E,
        kind: &str,
        end: usize,
    ) -> Result<bool, EditError> {
        let id = &self.typed.id;
        let mut marks = MarkRules(self.schema).of_typed(plan::find(on, id)?, end);
        let goes_on = marks.iter().any(|mark| mark.kind == kind);
        let caret = Selection::caret(id.clone(), end);
        let is_here = match (on.selected(), &caret) {
            (Some(Selection::Text(text)), Selection::Text(caret)) => {
                text.anchor == caret.anchor && text.focus == caret.focus
            }
            _ => false,
        };
        if goes_on && is_here {
            marks.retain(|mark| mark.kind != kind);
            on.select_text(caret.with_marks(marks))?;
        }
        Ok(true)
    }

    /// Whether the match begins where the text block does.
    fn is_at_start(&self) -> bool {
        self.whole.start == 0 && self.typed.from == 0
    }

    fn place_of_block<E: BlockEdits>(
        &self,
        on: &E,
    ) -> Result<Option<(NodeId, ChildPosition)>, EditError> {
        let Some(block) = &self.typed.block else {
            return Ok(None);
        };
        let node = plan::find(on, block)?;
        on.spend_steps(&|on| {
            let parent = node.parent().and_then(|parent| on.node(parent));
            parent.map_or(0, |parent| parent.children().len()) / cost::SIBLINGS
        })?;
        Ok(plan::place(on, node).map(|place| (block.clone(), place)))
    }
}

fn overlaps(mark: &Mark, range: &Range<usize>) -> bool {
    let bounds = mark.range.as_ref();
    bounds.is_some_and(|bounds| bounds.start < range.end && range.start < bounds.end)
}

/// Whether the content of a node is valid with new children of some types.
fn may_insert<E: BlockEdits>(
    on: &E,
    schema: &Schema,
    parent: &NodeId,
    index: usize,
    kinds: &[&str],
) -> Result<bool, EditError> {
    let of = plan::find(on, parent)?.kind();
    let mut state = schema.first_state(of);
    for (nth, child) in on.children(parent).enumerate() {
        on.spend_steps(&|_| cost::LOOKED_UP)?;
        let new = kinds.iter().copied().filter(|_| nth == index);
        for kind in new.chain([child.kind()]) {
            state = state.and_then(|state| schema.next_state(of, state, kind));
        }
    }
    Ok(state.is_some_and(|state| schema.may_end_in(of, state)))
}
