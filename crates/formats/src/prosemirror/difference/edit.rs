//! The edits of one node, and their steps.

use std::ops::Range;

use doclock::document::Value;
use serde_json::json;

/// New content, as in ProseMirror's JSON.
#[derive(Clone, Debug, Default)]
pub(super) struct JsonSlice {
    pub(super) content: Vec<Value>,
    pub(super) open_start: usize,
    pub(super) open_end: usize,
    /// Its size in the positions of ProseMirror, without what is open.
    pub(super) size: usize,
}

impl JsonSlice {
    /// One node.
    pub(super) fn of(node: Value) -> Self {
        Self {
            content: vec![node],
            size: 2,
            ..Self::default()
        }
    }

    fn write(self, step: &mut Value) {
        if self.content.is_empty() {
            return;
        }
        let mut slice = json!({"content": self.content});
        if self.open_start > 0 {
            slice["openStart"] = self.open_start.into();
        }
        if self.open_end > 0 {
            slice["openEnd"] = self.open_end.into();
        }
        step["slice"] = slice;
    }
}

/// A step, with its positions in the document before all of them.
#[derive(Clone, Debug)]
pub(super) enum StepEdit {
    /// Replaces a range.
    Replace {
        range: Range<usize>,
        slice: JsonSlice,
    },
    /// Replaces what is around a kept range, which gets a place in the slice.
    Around {
        range: Range<usize>,
        kept: Range<usize>,
        insert: usize,
        slice: JsonSlice,
    },
    /// Adds a mark to a range, or removes it.
    Mark {
        range: Range<usize>,
        mark: Value,
        is_added: bool,
    },
    /// Sets an attribute of the node behind a position.
    Attribute {
        position: usize,
        name: String,
        value: Value,
    },
    /// Sets an attribute of the document.
    OfDocument { name: String, value: Value },
}

impl StepEdit {
    /// The position at which it begins.
    pub(super) fn start(&self) -> usize {
        match self {
            Self::Replace { range, .. } | Self::Around { range, .. } | Self::Mark { range, .. } => {
                range.start
            }
            Self::Attribute { position, .. } => *position,
            Self::OfDocument { .. } => 0,
        }
    }

    /// The size of what it deletes and inserts.
    pub(super) fn cost(&self) -> usize {
        match self {
            Self::Replace { range, slice } => range.len() + slice.size,
            Self::Around {
                range, kept, slice, ..
            } => range.len() - kept.len() + slice.size,
            _ => 1,
        }
    }

    /// Its JSON.
    pub(super) fn into_json(self) -> Value {
        match self {
            Self::Replace { range, slice } => {
                let mut step = json!({"stepType": "replace", "from": range.start, "to": range.end});
                slice.write(&mut step);
                step
            }
            Self::Around {
                range,
                kept,
                insert,
                slice,
            } => {
                let mut step = json!({
                    "stepType": "replaceAround", "from": range.start, "to": range.end,
                    "gapFrom": kept.start, "gapTo": kept.end, "insert": insert, "structure": true,
                });
                slice.write(&mut step);
                step
            }
            Self::Mark {
                range,
                mark,
                is_added,
            } => {
                let step_type = if is_added { "addMark" } else { "removeMark" };
                json!({"stepType": step_type, "mark": mark, "from": range.start, "to": range.end})
            }
            Self::Attribute {
                position,
                name,
                value,
            } => json!({"stepType": "attr", "pos": position, "attr": name, "value": value}),
            Self::OfDocument { name, value } => {
                json!({"stepType": "docAttr", "attr": name, "value": value})
            }
        }
    }
}
