//! Edits for both the reference and the library.

use std::ops::Range;

use doclock::{
    Draft,
    document::{EditError, Mark, NodeSpec},
    dsl,
    transaction::{NodeOperation, Operation},
};
use serde_json::{Map, Value};

use super::{Style, id};

/// A new node for both the reference and the library.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) id: Option<String>,
    pub(crate) kind: String,
    pub(crate) attrs: Vec<(String, Value)>,
    pub(crate) text: String,
    pub(crate) marks: Vec<RefMark>,
    pub(crate) children: Vec<Spec>,
}

#[derive(Clone, Debug)]
pub(crate) struct RefMark {
    pub(crate) kind: String,
    pub(crate) range: Option<Range<usize>>,
    pub(crate) attrs: Map<String, Value>,
}

impl RefMark {
    pub(super) fn style(&self) -> Style {
        (
            self.kind.clone(),
            Value::from(self.attrs.clone()).to_string(),
        )
    }

    pub(super) fn mark(&self) -> Mark {
        let mark = match &self.range {
            Some(range) => Mark::new(self.kind.as_str(), range.clone()),
            None => Mark::whole(self.kind.as_str()),
        };
        mark.with_attributes(
            self.attrs
                .clone()
                .into_iter()
                .collect::<doclock::document::Attributes>(),
        )
    }
}

impl Spec {
    pub(super) fn node(&self) -> NodeSpec {
        let attrs = self.attrs.iter().cloned();
        let spec = NodeSpec::new(self.kind.as_str())
            .with_attributes(attrs.collect::<doclock::document::Attributes>())
            .with_text(self.text.as_str())
            .with_marks(self.marks.iter().map(RefMark::mark))
            .with_children(self.children.iter().map(Spec::node));
        match &self.id {
            Some(id) => spec.with_id(id.as_str()),
            None => spec,
        }
    }
}

/// All possible edits of a document: the operations of the DSL and, as code, those that only a
/// transaction has.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Create(Spec),
    /// This node, this parent, this index.
    AddNew(Spec, String, Option<usize>),
    /// This child, this parent, this index.
    AddExisting(String, String, Option<usize>),
    Delete(String),
    /// This parent's child.
    RemoveChild(String, String),
    /// This node, this parent, this index.
    Move(String, String, Option<usize>),
    SetText(String, String),
    InsertText(String, usize, String),
    DeleteText(String, Range<usize>),
    ReplaceText(String, Range<usize>, String),
    SetAttrs(String, Vec<(String, Value)>),
    SetMarks(String, Vec<RefMark>),
    SetRoot(Option<String>),
    Control(String, Vec<Action>),
    Call(Vec<Action>),
}

impl Action {
    /// The edit as an operation.
    pub(crate) fn operation(&self) -> Operation {
        match self {
            Self::Create(spec) => dsl::create(spec.node()),
            Self::Control(id, actions) => {
                let operations = actions.iter().map(|action| action.on_node().unwrap().1);
                dsl::control(id.as_str(), operations)
            }
            Self::SetMarks(..) | Self::SetRoot(_) | Self::Call(_) => {
                let action = self.clone();
                dsl::op(move |transaction| action.perform(transaction))
            }
            _ => {
                let (id, operation) = self.on_node().unwrap();
                operation.on(id.as_str())
            }
        }
    }

    /// The edit as an operation on a node, if it is one.
    fn on_node(&self) -> Option<(&String, NodeOperation)> {
        Some(match self {
            Self::AddNew(spec, to, index) => (to, dsl::add_child(spec.node(), *index)),
            Self::AddExisting(child, to, index) => (to, dsl::add_child(child.as_str(), *index)),
            Self::Delete(id) => (id, dsl::delete_node()),
            Self::RemoveChild(child, from) => (from, dsl::remove_child(child.as_str())),
            Self::Move(id, to, index) => (id, dsl::move_node(to.as_str(), *index)),
            Self::SetText(id, text) => (id, dsl::set_text(text.as_str())),
            Self::InsertText(id, at, text) => (id, dsl::insert_text(*at, text.as_str())),
            Self::DeleteText(id, range) => (id, dsl::delete_text_range(range.start, range.end)),
            Self::ReplaceText(id, range, text) => {
                let operation = dsl::replace_text(range.start, range.end, text.as_str());
                (id, operation)
            }
            Self::SetAttrs(id, attrs) => (id, dsl::set_attrs(attrs.iter().cloned())),
            Self::Create(_)
            | Self::SetMarks(..)
            | Self::SetRoot(_)
            | Self::Control(..)
            | Self::Call(_) => return None,
        })
    }

    /// How many operations of a batch it counts as.
    pub(crate) fn operations(&self) -> usize {
        match self {
            Self::Control(_, actions) => actions.len(),
            _ => 1,
        }
    }

    /// The edit through the methods of a transaction.
    pub(crate) fn perform(&self, on: &mut Draft) -> Result<(), EditError> {
        match self {
            Self::Create(spec) => on.create(spec.node()).map(drop),
            Self::AddNew(spec, to, index) => on.insert(spec.node(), id(to), *index).map(drop),
            Self::AddExisting(node, to, index) | Self::Move(node, to, index) => {
                on.move_node(id(node), id(to), *index)
            }
            Self::Delete(node) => on.delete(id(node)),
            Self::RemoveChild(child, from) => on.remove_child(id(from), id(child)),
            Self::SetText(node, text) => on.set_text(id(node), text.as_str()),
            Self::InsertText(node, at, text) => on.insert_text(id(node), *at, text.as_str()),
            Self::DeleteText(node, range) => on.delete_text(id(node), range.clone()),
            Self::ReplaceText(node, range, text) => {
                on.replace_text(id(node), range.clone(), text.as_str())
            }
            Self::SetAttrs(node, attrs) => on.set_attrs(id(node), attrs.iter().cloned()),
            Self::SetMarks(node, marks) => on.set_marks(id(node), marks.iter().map(RefMark::mark)),
            Self::SetRoot(node) => on.set_root(node.as_deref().map(id).as_ref()),
            Self::Control(_, actions) | Self::Call(actions) => {
                actions.iter().try_for_each(|action| action.perform(on))
            }
        }
    }
}
