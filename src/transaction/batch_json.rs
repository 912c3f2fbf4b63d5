//! Reads a batch of operations from JSON text. The error has the index of the operation, and the
//! line and column at which the text is refused.

use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Operation;
use super::operation::{Malformed, ObjectFields, read_unit};
use crate::codes::codes;
use crate::document::TextUnit;
use crate::json::{line_and_column, offset, reason};

/// Why a text is not an operation batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct ScriptError {
    /// The index of the operation in the flattened batch, from zero; `None` if the text is not
    /// JSON.
    pub index: Option<usize>,
    /// The line, counted from one.
    pub line: usize,
    /// The character in the line, counted from one.
    pub column: usize,
    /// The error at this position.
    pub message: String,
}

codes! { ScriptError {
    Self { index, line, column, message } => "scriptInvalid" {
        index: index,
        line: line,
        column: column,
        reason: message,
    }, 400;
}}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(index) = self.index {
            write!(f, "operation {index}: ")?;
        }
        let Self {
            message,
            line,
            column,
            ..
        } = self;
        write!(f, "{message} at line {line} column {column}")
    }
}

/// The most levels of nested lists. The limit protects the stack.
const DEEPEST: usize = 64;

/// Reads operations from JSON. The text is one `{"type": …, "payload": {…}}`, or a list of
/// them; nested lists are flattened.
///
/// Offsets and ranges of text count scalar values. With `"unit": "utf16"` next to `type` and
/// `payload`, those of the operation count UTF-16 units. `{"unit": "utf16", "operations": […]}`
/// can stand in the place of a list; it sets the unit of all operations in it that have no unit of
/// their own. See [`Operation::in_unit`].
///
/// A byte order mark at the beginning is ignored.
///
/// # Errors
///
/// [`ScriptError`] with the index of the operation, line, column and reason.
///
/// ```
/// use doclock::transaction::parse_operations;
///
/// let script = r#"[
///     {"type": "create", "payload": {"node": {"type": "inline-text", "id": "t", "text": "Hello"}}},
///     [{"type": "insertText", "payload": {"nodeId": "t", "offset": 5, "text": "!"}}]
/// ]"#;
/// assert_eq!(parse_operations(script)?.len(), 2);
///
/// let utf16 = r#"{"unit": "utf16", "operations": [
///     {"type": "insertText", "payload": {"nodeId": "t", "offset": 5, "text": "🦀"}},
///     {"type": "insertText", "payload": {"nodeId": "t", "offset": 7, "text": "!"}}
/// ]}"#;
/// assert_eq!(parse_operations(utf16)?.len(), 2);
///
/// let error = parse_operations(r#"[{"type": "insertTxt", "payload": {}}]"#).unwrap_err();
/// assert_eq!((error.index, error.line, error.column), (Some(0), 1, 11));
/// # Ok::<(), doclock::transaction::ScriptError>(())
/// ```
pub fn parse_operations(script: &str) -> Result<Vec<Operation>, ScriptError> {
    let script = script.strip_prefix('\u{feff}').unwrap_or(script);
    let whole: &RawValue =
        serde_json::from_str(script).map_err(|error| locate(script, script, None, &error))?;
    let mut operations = Vec::new();
    let mut ahead = vec![(whole, 0, None)];
    while let Some((item, depth, unit)) = ahead.pop() {
        let index = operations.len();
        let fail = |error: serde_json::Error| locate(script, item.get(), Some(index), &error);
        if item.get().starts_with('[') {
            if depth == DEEPEST {
                return Err(fail(too_deep()));
            }
            let items: Vec<&RawValue> = serde_json::from_str(item.get()).map_err(fail)?;
            let items = items.into_iter().rev();
            ahead.extend(items.map(|item| (item, depth + 1, unit)));
            continue;
        }
        let fault = match Operation::read(item) {
            Ok(operation) => {
                operations.push(match unit {
                    Some(unit) => operation.in_unit(unit),
                    None => operation,
                });
                continue;
            }
            Err(fault) => fault,
        };
        let Malformed { at, reason } = match BatchJson::read(item) {
            Some(Ok(_)) if depth == DEEPEST => return Err(fail(too_deep())),
            Some(Ok(batch)) => {
                ahead.push((batch.operations, depth + 1, Some(batch.unit)));
                continue;
            }
            Some(Err(fault)) => fault,
            None => fault,
        };
        return Err(ScriptError::at(script, at, Some(index), reason));
    }
    Ok(operations)
}

/// Unread operations with one unit for all: `{"unit": …, "operations": …}`.
struct BatchJson<'a> {
    unit: TextUnit,
    operations: &'a RawValue,
}

impl<'a> BatchJson<'a> {
    /// Reads a batch; `None` if the text has no `operations` or is an operation.
    fn read(text: &'a RawValue) -> Option<Result<Self, Malformed<'a>>> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct BatchFields<'a> {
            #[serde(borrow)]
            unit: &'a RawValue,
            #[serde(borrow)]
            operations: &'a RawValue,
        }

        let text = text.get();
        match serde_json::from_str(text) {
            Ok(BatchFields { unit, operations }) => {
                Some(read_unit(unit).map(|unit| Self { unit, operations }))
            }
            Err(error) => {
                let ObjectFields(entries) = serde_json::from_str(text).ok()?;
                let has = |name: &str| {
                    let mut keys = entries.iter().map(|(key, _)| key.get());
                    keys.any(|key| serde_json::from_str::<String>(key).is_ok_and(|key| key == name))
                };
                let is_batch = has("operations") && !has("type");
                is_batch.then(|| Err(Malformed::of(text, &error)))
            }
        }
    }
}

fn too_deep() -> serde_json::Error {
    serde::de::Error::custom(format_args!(
        "lists are nested deeper than {DEEPEST} levels"
    ))
}

/// Converts the error to a position in the whole text, of which `part` was read.
fn locate(
    script: &str,
    part: &str,
    index: Option<usize>,
    error: &serde_json::Error,
) -> ScriptError {
    let at = part.floor_char_boundary(offset(part, error));
    ScriptError::at(script, &part[at..], index, reason(error))
}

impl ScriptError {
    /// Makes an error at the beginning of `at`, a part of the script.
    fn at(script: &str, at: &str, index: Option<usize>, message: String) -> Self {
        // The part borrows from the script, so the distance of the pointers is its offset.
        let start = at.as_ptr() as usize - script.as_ptr() as usize;
        let (line, column) = line_and_column(script, start);
        Self {
            index,
            line,
            column,
            message,
        }
    }
}
