//! What edits wrote into the values of a node: its type and its attributes.

use std::collections::BTreeMap;

use smallvec::{SmallVec, smallvec};
use smol_str::SmolStr;

use super::sequence::StepTag;
use crate::steps::step;
use crate::{AttributePatch, AttributeValue, Value};

/// A change of a value of a node.
#[derive(Clone, Debug)]
pub(super) struct ValueWrite {
    pub(super) by: StepTag,
    pub(super) version: u64,
    pub(super) what: WrittenValue,
}

#[derive(Clone, Debug)]
pub(super) enum WrittenValue {
    Kind { before: SmolStr, after: SmolStr },
    Attribute(AttributePatch),
}

/// The writes of each value, in the order of their versions. A value is found by its name: an edit
/// may write many.
#[derive(Clone, Debug, Default)]
pub(super) struct ValueWrites(BTreeMap<ValueName, SmallVec<[ValueWrite; 1]>>);

/// The name of an attribute; `None` for the type.
type ValueName = Option<SmolStr>;

impl WrittenValue {
    /// Gives it the value before another write of the same value.
    fn begin_as(&mut self, first: &Self) {
        match (self, first) {
            (Self::Kind { before, .. }, Self::Kind { before: first, .. }) => {
                before.clone_from(first);
            }
            (Self::Attribute(patch), Self::Attribute(first)) => {
                patch.before.clone_from(&first.before);
            }
            _ => {}
        }
    }

    fn name(&self) -> ValueName {
        match self {
            Self::Kind { .. } => None,
            Self::Attribute(patch) => Some(patch.key.clone()),
        }
    }

    /// This write and a later one of the same value. `None` if they change nothing.
    fn followed_by(&self, later: Self) -> Option<Self> {
        match (self, later) {
            (Self::Kind { before, .. }, Self::Kind { after, .. }) => {
                let before = before.clone();
                (before != after).then_some(Self::Kind { before, after })
            }
            (Self::Attribute(first), Self::Attribute(later)) => {
                let before = first.before.clone();
                let is_same = before == later.after;
                (!is_same).then_some(Self::Attribute(AttributePatch { before, ..later }))
            }
            (_, later) => Some(later),
        }
    }

    pub(super) fn value(&self, after: bool) -> Option<AttributeValue> {
        let text = |text: &SmolStr| Some(Value::from(text.as_str()).into());
        match (self, after) {
            (Self::Kind { after, .. }, true) => text(after),
            (Self::Kind { before, .. }, false) => text(before),
            (Self::Attribute(patch), true) => patch.after.clone(),
            (Self::Attribute(patch), false) => patch.before.clone(),
        }
    }
}

impl ValueWrites {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The writes of each value.
    pub(super) fn of_each(&self) -> impl Iterator<Item = &[ValueWrite]> {
        self.0.values().map(|writes| &writes[..])
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ValueWrite> {
        self.0.values().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut ValueWrite> {
        self.0.values_mut().flatten()
    }

    /// Adds the latest write. A commit that writes twice counts as one write. One that is not apart
    /// from the creation of the node is kept only if others wrote the value before.
    pub(super) fn write(&mut self, write: ValueWrite, is_apart: bool) {
        step();
        let name = write.what.name();
        let Some(writes) = self.0.get_mut(&name) else {
            if is_apart {
                self.0.insert(name, smallvec![write]);
            }
            return;
        };
        match writes.last_mut() {
            // Of writes for good the last one says all.
            Some(last) if last.by == StepTag::ALWAYS && write.by == StepTag::ALWAYS => {
                let first = std::mem::replace(last, write);
                last.what.begin_as(&first.what);
            }
            Some(last) if last.version == write.version => {
                match last.what.followed_by(write.what) {
                    Some(what) => last.what = what,
                    None => drop(writes.pop()),
                }
                if writes.is_empty() {
                    self.0.remove(&name);
                }
            }
            _ => writes.push(write),
        }
    }

    /// Makes what is in effect for good a part of the value before, and forgets what is out of
    /// effect for good. `make_permanent` returns whether a write stays. Values of which no write
    /// can be undone are forgotten, unless the writes keep a node that `can_leave` the document.
    pub(super) fn forget(
        &mut self,
        can_leave: bool,
        make_permanent: impl Fn(&mut StepTag) -> bool,
    ) {
        self.0.retain(|_, writes| {
            let first = writes.first().map(|first| first.what.clone());
            writes.retain(|write| make_permanent(&mut write.by));
            if let (Some(now), Some(first)) = (writes.first_mut(), first) {
                now.what.begin_as(&first);
            }
            let is_permanent = |write: &ValueWrite| write.by == StepTag::ALWAYS;
            writes.dedup_by(|next, first| {
                let are_permanent = is_permanent(first) && is_permanent(next);
                if are_permanent {
                    next.what.begin_as(&first.what);
                    std::mem::swap(first, next);
                }
                are_permanent
            });
            can_leave && !writes.is_empty() || !writes.iter().all(is_permanent)
        });
    }
}
