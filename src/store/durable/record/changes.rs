//! The binary form of changes:
//!
//! ```text
//! [0, place / null, [* node]]                            insert a subtree
//! [1, place / null, [* node]]                            remove a subtree
//! [2, id, place / null, place / null]                    move a node
//! [3, id, at, inserted, removed, marks]                  splice a text
//! [4, id, marks]                                         set marks
//! [5, id, [* [name, value / null, value / null]]]        patch attributes
//! [6, id, kind, kind]                                    set the type
//! [7, id, text, children, place, id, kind, attributes]   split a node
//! [8, id, text, children, place, id, kind, attributes]   join nodes
//! [9, id / null, id / null]                              set the root
//! [10, selection / null, selection / null]               set the selection
//! place     = [parent, index]
//! marks     = [[* mark], [* mark]]                       removed and added ones
//! selection = [id] / [id, offset] / [id, anchor, focus] / [id, anchor, id, focus, [mark...]?]
//! ```

use super::{Read, Record, RecordReader, RecordWriter, Written, used};
use crate::document::{
    AttributePatch, AttributeValue, Change, ChildPosition, MarksChange, Position, RightHalf,
    Selection, SharedList, SplitPoint,
};
use crate::id::NodeId;

impl<T: Record> Record for SharedList<T> {
    fn write<'a>(&'a self, to: &mut RecordWriter<'a>) -> Written {
        to.each(self.len(), self.iter(), RecordWriter::value)
    }

    fn read(from: &mut RecordReader<'_>) -> Read<Self> {
        let items = from.each(RecordReader::value)?;
        Ok(items.into_iter().collect())
    }
}

impl Record for Change {
    fn write<'a>(&'a self, to: &mut RecordWriter<'a>) -> Written {
        match self {
            Self::InsertSubtree { at, nodes } | Self::RemoveSubtree { at, nodes } => {
                let is_removed = matches!(self, Self::RemoveSubtree { .. });
                begin(to, 3, is_removed.into())?;
                to.optional(at.as_ref(), RecordWriter::value)?;
                to.each(nodes.len(), nodes, |to, node| to.value(&**node))
            }
            Self::MoveNode {
                id,
                from,
                to: place,
            } => {
                begin(to, 4, 2)?;
                to.id(id)?;
                to.optional(from.as_ref(), RecordWriter::value)?;
                to.optional(place.as_ref(), RecordWriter::value)
            }
            Self::SpliceText {
                id,
                at,
                removed,
                inserted,
                marks,
            } => {
                let rest = [!inserted.is_empty(), !removed.is_empty(), marks.is_some()];
                let rest = used(&rest);
                begin(to, 3 + rest, 3)?;
                to.id(id)?;
                to.number(*at as u64)?;
                for text in [inserted, removed].into_iter().take(rest) {
                    to.text(text)?;
                }
                marks.iter().try_for_each(|marks| to.value(marks))
            }
            Self::SetMarks { id, marks } => {
                begin(to, 3, 4)?;
                to.id(id)?;
                to.value(marks)
            }
            Self::PatchAttrs { id, patches } => {
                begin(to, 3, 5)?;
                to.id(id)?;
                to.each(patches.len(), patches, RecordWriter::value)
            }
            Self::SetType { id, before, after } => {
                begin(to, 4, 6)?;
                to.id(id)?;
                to.name(before)?;
                to.name(after)
            }
            Self::SplitNode {
                id,
                at,
                right,
                place,
            }
            | Self::JoinNodes {
                id,
                at,
                right,
                place,
            } => {
                let has_attributes = !right.attributes.is_empty();
                let kind = 7 + u64::from(matches!(self, Self::JoinNodes { .. }));
                begin(to, 7 + usize::from(has_attributes), kind)?;
                to.id(id)?;
                to.number(at.text as u64)?;
                to.number(at.children as u64)?;
                to.value(place)?;
                to.id(&right.id)?;
                to.name(&right.kind)?;
                if has_attributes {
                    to.serialized(&right.attributes)?;
                }
                Ok(())
            }
            Self::SetRoot { before, after } => {
                begin(to, 3, 9)?;
                to.optional(before.as_ref(), RecordWriter::id)?;
                to.optional(after.as_ref(), RecordWriter::id)
            }
            Self::SetSelection { before, after } => {
                begin(to, 3, 10)?;
                to.optional(before.as_ref(), RecordWriter::value)?;
                to.optional(after.as_ref(), RecordWriter::value)
            }
            other => unknown(other),
        }
    }

    fn read(from: &mut RecordReader<'_>) -> Read<Self> {
        let fields = from.fields(3..=8)?;
        let kind = from.number()?;
        let allowed = match kind {
            0 | 1 | 4 | 5 | 9 | 10 => 3..=3,
            2 | 6 => 4..=4,
            3 => 3..=6,
            7 | 8 => 7..=8,
            _ => return Err(from.error(format_args!("there is no change {kind}"))),
        };
        if !allowed.contains(&fields) {
            return Err(from.error(format_args!("change {kind} has {fields} items")));
        }
        Ok(match kind {
            0 | 1 => {
                let at = from.optional(RecordReader::value)?;
                let nodes = from.each(|from| from.value().map(std::sync::Arc::new))?;
                match kind {
                    0 => Self::InsertSubtree { at, nodes },
                    _ => Self::RemoveSubtree { at, nodes },
                }
            }
            2 => Self::MoveNode {
                id: from.id()?,
                from: from.optional(RecordReader::value)?,
                to: from.optional(RecordReader::value)?,
            },
            3 => {
                let (id, at) = (from.id()?, from.index()?);
                let mut text = |nth| match fields > nth {
                    true => from.text().map(Into::into),
                    false => Ok(Default::default()),
                };
                let (inserted, removed) = (text(3)?, text(4)?);
                let marks = match fields > 5 {
                    true => Some(from.value()?),
                    false => None,
                };
                Self::SpliceText {
                    id,
                    at,
                    removed,
                    inserted,
                    marks,
                }
            }
            4 => Self::SetMarks {
                id: from.id()?,
                marks: from.value()?,
            },
            5 => Self::PatchAttrs {
                id: from.id()?,
                patches: from.each(RecordReader::value)?,
            },
            6 => Self::SetType {
                id: from.id()?,
                before: from.name()?,
                after: from.name()?,
            },
            7 | 8 => {
                let id = from.id()?;
                let at = SplitPoint {
                    text: from.index()?,
                    children: from.index()?,
                };
                let place = from.value()?;
                let right = Box::new(RightHalf {
                    id: from.id()?,
                    kind: from.name()?,
                    attributes: match fields > 7 {
                        true => from.deserialized()?,
                        false => Default::default(),
                    },
                });
                match kind {
                    7 => Self::SplitNode {
                        id,
                        at,
                        right,
                        place,
                    },
                    _ => Self::JoinNodes {
                        id,
                        at,
                        right,
                        place,
                    },
                }
            }
            9 => Self::SetRoot {
                before: from.optional(RecordReader::id)?,
                after: from.optional(RecordReader::id)?,
            },
            _ => Self::SetSelection {
                before: from.optional(RecordReader::value)?,
                after: from.optional(RecordReader::value)?,
            },
        })
    }
}

/// Begins a change of so many items.
fn begin(to: &mut RecordWriter<'_>, fields: usize, kind: u64) -> Written {
    to.list(fields)?;
    to.number(kind)
}

/// The error of a change that this list does not have.
fn unknown(change: &Change) -> Written {
    let message = format_args!("no form is known of {change:?}");
    Err(minicbor::encode::Error::message(message))
}

impl Record for ChildPosition {
    fn write<'a>(&'a self, to: &mut RecordWriter<'a>) -> Written {
        let Self { parent, index } = self;
        to.list(2)?;
        to.id(parent)?;
        to.number(*index as u64)
    }

    fn read(from: &mut RecordReader<'_>) -> Read<Self> {
        from.fields(2..=2)?;
        Ok(Self {
            parent: from.id()?,
            index: from.index()?,
        })
    }
}

impl Record for MarksChange {
    fn write<'a>(&'a self, to: &mut RecordWriter<'a>) -> Written {
        let Self { removed, added } = self;
        to.list(2)?;
        to.value(removed)?;
        to.value(added)
    }

    fn read(from: &mut RecordReader<'_>) -> Read<Self> {
        from.fields(2..=2)?;
        Ok(Self {
            removed: from.value()?,
            added: from.value()?,
        })
    }
}

impl Record for AttributePatch {
    fn write<'a>(&'a self, to: &mut RecordWriter<'a>) -> Written {
        let Self { key, before, after } = self;
        to.list(3)?;
        to.name(key)?;
        to.serialized(before)?;
        to.serialized(after)
    }

    fn read(from: &mut RecordReader<'_>) -> Read<Self> {
        from.fields(3..=3)?;
        Ok(Self {
            key: from.name()?,
            before: attribute(from)?,
            after: attribute(from)?,
        })
    }
}

/// Reads the value of an attribute; `None` for an absent one.
fn attribute(from: &mut RecordReader<'_>) -> Read<Option<AttributeValue>> {
    let value: AttributeValue = from.deserialized()?;
    Ok(Some(value).filter(|value| !value.is_null()))
}

impl Record for Selection {
    fn write<'a>(&'a self, to: &mut RecordWriter<'a>) -> Written {
        let text = match self {
            Self::Text(text) => text,
            Self::Node(node) => {
                to.list(1)?;
                return to.id(&node.node_id);
            }
        };
        let (anchor, focus, marks) = (&text.anchor, &text.focus, text.marks.as_ref());
        let is_within = anchor.node_id == focus.node_id && marks.is_none();
        let is_caret = is_within && anchor.offset == focus.offset;
        match (is_within, is_caret) {
            (true, true) => to.list(2)?,
            (true, false) => to.list(3)?,
            (false, _) => to.list(4 + usize::from(marks.is_some()))?,
        }
        to.id(&anchor.node_id)?;
        to.number(anchor.offset as u64)?;
        if !is_within {
            to.id(&focus.node_id)?;
        }
        if !is_caret {
            to.number(focus.offset as u64)?;
        }
        match marks {
            Some(marks) => to.each(marks.len(), marks.iter(), RecordWriter::value),
            None => Ok(()),
        }
    }

    fn read(from: &mut RecordReader<'_>) -> Read<Self> {
        let fields = from.fields(1..=5)?;
        let id: NodeId = from.id()?;
        if fields == 1 {
            return Ok(Self::node(id));
        }
        let anchor = Position::new(id, from.index()?);
        let focus = match fields {
            2 => anchor.clone(),
            3 => Position::new(&anchor.node_id, from.index()?),
            _ => Position::new(from.id()?, from.index()?),
        };
        let selection = Self::new(anchor, focus);
        Ok(match fields > 4 {
            true => selection.with_marks(from.each(RecordReader::value)?),
            false => selection,
        })
    }
}
