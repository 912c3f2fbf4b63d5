//! Draws any operation, with fields that mostly fit the document.

mod kind;
mod on_node;
mod particulars;

use std::sync::Arc;

use doclock::dsl::*;
use doclock::{
    Draft, NodeId, View,
    document::{Node, Position, TextUnit},
    transaction::{Capture, InputEffect, InputRule, InputTarget, Operation, TransactionError},
};
use proptest::prelude::*;
use strum::VariantArray;

use super::common::Dice;

pub(crate) use kind::Kind;

/// An operation before its document is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) kind: Kind,
    pub(crate) seed: u64,
}

pub(crate) fn steps(
    count: impl Into<prop::collection::SizeRange>,
) -> impl Strategy<Value = Vec<Step>> {
    let kind = prop::sample::select(Kind::VARIANTS);
    let step = (kind, any::<u64>()).prop_map(|(kind, seed)| Step { kind, seed });
    prop::collection::vec(step, count)
}

impl Step {
    /// The operation, for the document of the transaction.
    pub(crate) fn draw(self, on: &Draft) -> Operation {
        let mut generator = Generator::new(on, self.seed);
        generator.version = on.base().version();
        generator.operation(self.kind)
    }

    /// Runs the operation.
    pub(crate) fn run(self, on: &mut Draft) -> Result<(), TransactionError> {
        let operation = self.draw(on);
        on.run(operation)
    }
}

pub(crate) struct Generator<'a, V> {
    view: &'a V,
    ids: Arc<[NodeId]>,
    version: u64,
    dice: Dice,
}

impl<'a, V: View> Generator<'a, V> {
    pub(crate) fn new(view: &'a V, seed: u64) -> Self {
        // The iteration order of nodes is unspecified.
        let mut ids: Vec<NodeId> = view.nodes().map(|node| node.id().clone()).collect();
        ids.sort();
        Self::among(view, ids.into(), seed)
    }

    /// A generator that draws from these nodes instead of a new list.
    pub(crate) fn among(view: &'a V, ids: Arc<[NodeId]>, seed: u64) -> Self {
        Self {
            view,
            ids,
            version: 0,
            dice: Dice(seed),
        }
    }

    pub(crate) fn operation(&mut self, kind: Kind) -> Operation {
        let operation = match kind {
            Kind::Create => create(self.spec()),
            Kind::JoinNeighbours => {
                let node = self.any();
                let kind = self.node(&node).map_or("text", Node::kind);
                join_neighbours([kind])
            }
            Kind::ApplyInputRules => {
                let id = self.fitting(Kind::InsertText);
                let at = Position::new(id.clone(), self.offset(&id));
                let rules = self.rules();
                match self.dice.one_in(2) {
                    true => apply_input_rules(rules),
                    false => apply_input_rules_at(at, rules),
                }
            }
            Kind::Control => {
                let id = self.any();
                let kinds: Vec<Kind> = (0..self.dice.below(4)).map(|_| self.kind()).collect();
                let kinds = kinds.into_iter().filter(|kind| kind.is_on_a_node());
                let mut operations: Vec<_> = kinds.map(|kind| self.on(kind, &id)).collect();
                if self.dice.one_in(4)
                    && let Some(last) = operations.pop()
                {
                    operations.push(last.named(self.alias()));
                }
                control(self.reference(&id), operations)
            }
            Kind::SetSelection => set_selection(self.selection()),
            Kind::ClearSelection => clear_selection(),
            Kind::IfUnchanged => if_unchanged(match self.dice.one_in(6) {
                true => self.dice.next(),
                false => self.version,
            }),
            // The stores have a single lease, with the first token.
            Kind::RequireLease => require_lease(match self.dice.one_in(6) {
                true => self.dice.next(),
                false => 1,
            }),
            Kind::Op => self.code(),
            _ => {
                let id = self.fitting(kind);
                let operation = self.on(kind, &id);
                operation.on(self.reference(&id))
            }
        };
        let operation = match self.dice.one_in(8) {
            true => operation.in_unit(TextUnit::Utf16),
            false => operation,
        };
        // Later operations use the name, whether it was given or not.
        match self.dice.one_in(10) {
            true if kind != Kind::Control => operation.named(self.alias()),
            _ => operation,
        }
    }

    /// Rules of all kinds, some of which do not fit anywhere.
    fn rules(&mut self) -> Vec<InputRule> {
        let patterns = [
            "[a-z]$",
            "^.",
            "^(.)(.*)$",
            "((.))$",
            "(.)$",
            "x",
            "\\w+$",
            "(",
        ];
        let count = 1 + self.dice.below(3);
        let rules = (0..count).map(|_| {
            let kind = self.one(&["paragraph", "heading", "list", "bold", "code"]);
            let target = InputTarget::new(kind).captured("level", Capture::Length(1));
            let effect = match self.dice.below(5) {
                0 => InputEffect::Replace("漢".into()),
                1 => InputEffect::SetType(target),
                2 => InputEffect::Wrap(target),
                3 => InputEffect::Insert(target),
                _ => InputEffect::Mark(target),
            };
            InputRule::new(self.one(&patterns), effect).except_in("link")
        });
        rules.collect()
    }

    /// Code that runs operations.
    fn code(&mut self) -> Operation {
        let steps: Vec<Step> = (0..self.dice.below(4))
            .map(|_| Step {
                kind: self.kind(),
                seed: self.dice.next(),
            })
            .filter(|step| step.kind != Kind::Op)
            .collect();
        let gives_up = self.dice.one_in(3);
        op(move |transaction| {
            for step in &steps {
                let outcome = step.run(transaction);
                if gives_up {
                    outcome?;
                }
            }
            Ok::<_, TransactionError>(())
        })
    }

    fn kind(&mut self) -> Kind {
        Kind::VARIANTS[self.dice.below(Kind::VARIANTS.len())]
    }
}
