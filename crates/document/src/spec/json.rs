//! Nested JSON of any depth.
//!
//! serde and serde_json recurse over nested values, so they need a limit. Here nodes nest without a
//! limit: a list of open nodes replaces the recursion. serde_json reads the contents of each node.

use std::mem;

use serde::Deserialize;
use smol_str::SmolStr;

use super::nested::Nested;
use super::{NodeSpec, SpecNode};
use crate::codes::codes;
use crate::id::NodeId;
use crate::json::{line_and_column, offset, reason};
use crate::{Attributes, Mark, Text};

/// Why a text is not the JSON form of a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at line {line} column {column}")]
#[non_exhaustive]
pub struct JsonError {
    /// The line, counted from one.
    pub line: usize,
    /// The character in the line, counted from one.
    pub column: usize,
    /// The error at this position.
    pub reason: String,
}

codes! { inherent JsonError {
    Self { line, column, reason } => "jsonInvalid", 400;
}}

impl JsonError {
    /// Creates the error that serde_json reports about a text. serde_json counts columns in bytes.
    ///
    /// ```
    /// use doclock::document::JsonError;
    ///
    /// let json = r#"{"name": "Jürgen" "age": 5}"#;
    /// let error = serde_json::from_str::<serde_json::Value>(json).unwrap_err();
    /// assert_eq!(error.to_string(), "expected `,` or `}` at line 1 column 20");
    /// let error = JsonError::from_serde_json(json, &error);
    /// assert_eq!(error.to_string(), "expected `,` or `}` at line 1 column 19");
    /// ```
    pub fn from_serde_json(json: &str, error: &serde_json::Error) -> Self {
        Self::new(json, offset(json, error), reason(error))
    }

    fn new(json: &str, at: usize, reason: String) -> Self {
        let (line, column) = line_and_column(json, at);
        Self {
            line,
            column,
            reason,
        }
    }
}

impl NodeSpec {
    /// Writes the node with its subtree as JSON, at any depth. The form is that of serde.
    ///
    /// ```
    /// use doclock::document::NodeSpec;
    ///
    /// let text = NodeSpec::new("text").with_text("Hi");
    /// let spec = NodeSpec::new("paragraph").with_id("intro").with_children([text]);
    /// let json = r#"{"type":"paragraph","id":"intro","children":[{"type":"text","text":"Hi"}]}"#;
    /// assert_eq!(spec.to_json(), json);
    /// assert_eq!(NodeSpec::from_json(json)?, spec);
    /// # Ok::<(), doclock::document::JsonError>(())
    /// ```
    pub fn to_json(&self) -> String {
        let shape = self.shape();
        let mut json = String::new();
        // A node to be written, or `None` for the end of one with children.
        let mut ahead = vec![Some(shape.top())];
        while let Some(step) = ahead.pop() {
            let Some(at) = step else {
                json.push_str("]}");
                continue;
            };
            if json.ends_with('}') {
                json.push(',');
            }
            let head = self.nodes[at].head();
            match shape.children[at].as_slice() {
                [] => json.push_str(&head),
                children => {
                    json.push_str(head.strip_suffix('}').unwrap_or(&head));
                    json.push_str(r#","children":["#);
                    ahead.push(None);
                    ahead.extend(children.iter().rev().copied().map(Some));
                }
            }
        }
        json
    }

    /// Reads a node with its subtree, at any depth, from JSON in the form of
    /// [`to_json`](Self::to_json) or serde. The values of attributes nest at most
    /// [`Attributes::MAX_LEVELS`] deep.
    ///
    /// # Errors
    ///
    /// [`JsonError`] with line, column and reason.
    ///
    /// ```
    /// use doclock::document::NodeSpec;
    ///
    /// let error = NodeSpec::from_json("{\n  \"type\": \"paragraph\",\n  \"txt\": \"\"\n}").unwrap_err();
    /// assert_eq!((error.line, error.column), (3, 3));
    /// assert_eq!(error.reason, "unknown field `txt`");
    /// ```
    pub fn from_json(json: &str) -> Result<Self, JsonError> {
        SpecParser { json, at: 0 }.spec()
    }
}

impl SpecNode {
    /// The JSON of the node without its children.
    fn head(&self) -> String {
        let head = serde_json::to_string(&Nested {
            kind: &self.kind,
            id: &self.id,
            attributes: &self.attributes,
            text: &self.text,
            marks: &self.marks,
            children: Vec::new(),
        });
        // Only a map with keys that are not strings could fail, and there is none.
        head.unwrap_or_default()
    }
}

/// A partially read node.
#[derive(Default)]
struct PartialNode {
    kind: Option<SmolStr>,
    id: Option<Option<NodeId>>,
    attributes: Option<Attributes>,
    text: Option<Text>,
    marks: Option<Vec<Mark>>,
    children: Option<usize>,
    /// Whether a field was read, so that a comma precedes the next one.
    begun: bool,
}

struct SpecParser<'j> {
    json: &'j str,
    /// The number of bytes read.
    at: usize,
}

type JsonResult<T> = Result<T, JsonError>;

impl<'j> SpecParser<'j> {
    fn spec(mut self) -> JsonResult<NodeSpec> {
        let mut nodes = Vec::new();
        let mut node = self.open()?;
        let mut around: Vec<PartialNode> = Vec::new();
        loop {
            if self.fields_up_to_a_child(&mut node)? {
                around.push(mem::replace(&mut node, self.open()?));
                continue;
            }
            nodes.push(self.closed(node)?);
            let Some(parent) = around.pop() else {
                break;
            };
            node = parent;
            node.children = node.children.map(|children| children + 1);
            if self.take(b',') {
                around.push(mem::replace(&mut node, self.open()?));
            } else if !self.take(b']') {
                return Err(self.fail("expected `,` or `]`"));
            }
        }
        match self.peek() {
            None => Ok(NodeSpec {
                nodes: nodes.into(),
            }),
            Some(_) => Err(self.fail("trailing characters")),
        }
    }

    fn open(&mut self) -> JsonResult<PartialNode> {
        match self.take(b'{') {
            true => Ok(PartialNode::default()),
            false => Err(self.fail("expected a node, which begins with `{`")),
        }
    }

    /// Reads fields up to the end of the node or up to its first child; returns whether there is a
    /// child.
    fn fields_up_to_a_child(&mut self, node: &mut PartialNode) -> JsonResult<bool> {
        while !self.take(b'}') {
            if node.begun && !self.take(b',') {
                return Err(self.fail("expected `,` or `}`"));
            }
            node.begun = true;
            let key = self.key()?;
            match key.name.as_str() {
                "type" => self.fill(&mut node.kind, &key)?,
                "id" => self.fill(&mut node.id, &key)?,
                "text" => self.fill(&mut node.text, &key)?,
                "attributes" => self.fill(&mut node.attributes, &key)?,
                "marks" => self.fill(&mut node.marks, &key)?,
                "children" => {
                    if node.children.replace(0).is_some() {
                        return Err(self.duplicate(&key));
                    }
                    if !self.take(b'[') {
                        return Err(self.fail("expected a list of children"));
                    }
                    if !self.take(b']') {
                        return Ok(true);
                    }
                }
                name => return Err(self.fail_at(key.at, format!("unknown field `{name}`"))),
            }
        }
        Ok(false)
    }

    fn key(&mut self) -> JsonResult<Key> {
        if self.peek() != Some(b'"') {
            return Err(self.fail("expected a field"));
        }
        let at = self.at;
        let name = self.value()?;
        match self.take(b':') {
            true => Ok(Key { name, at }),
            false => Err(self.fail("expected `:`")),
        }
    }

    fn fill<T: Deserialize<'j>>(&mut self, field: &mut Option<T>, key: &Key) -> JsonResult<()> {
        match field.replace(self.value()?) {
            None => Ok(()),
            Some(_) => Err(self.duplicate(key)),
        }
    }

    fn closed(&self, node: PartialNode) -> JsonResult<SpecNode> {
        let brace = self.at.saturating_sub(1);
        let missing = || self.fail_at(brace, "missing field `type`".to_owned());
        Ok(SpecNode {
            kind: node.kind.ok_or_else(missing)?,
            id: node.id.unwrap_or_default(),
            attributes: node.attributes.unwrap_or_default(),
            text: node.text.unwrap_or_default(),
            marks: node.marks.unwrap_or_default(),
            children: node.children.unwrap_or_default(),
        })
    }

    // --- Characters ---

    /// The next character that is not white space; reading may continue there.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.json.as_bytes().get(self.at..)?;
        let space = rest.iter().take_while(|byte| b" \t\n\r".contains(byte));
        self.at += space.count();
        self.json.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    /// Reads a value with serde_json, within its depth limit.
    fn value<T: Deserialize<'j>>(&mut self) -> JsonResult<T> {
        let rest = self.json.get(self.at..).unwrap_or_default();
        let mut values = serde_json::Deserializer::from_str(rest).into_iter();
        match values.next() {
            Some(Ok(value)) => {
                self.at += values.byte_offset();
                Ok(value)
            }
            Some(Err(error)) => Err(self.fail_at(self.at + offset(rest, &error), reason(&error))),
            None => {
                self.at = self.json.len();
                Err(self.fail("expected a value"))
            }
        }
    }

    // --- Errors ---

    fn fail(&self, reason: &str) -> JsonError {
        match self.json.get(self.at..) {
            None | Some("") => {
                self.fail_at(self.at, format!("{reason}, found the end of the text"))
            }
            Some(_) => self.fail_at(self.at, reason.to_owned()),
        }
    }

    fn duplicate(&self, key: &Key) -> JsonError {
        self.fail_at(key.at, format!("duplicate field `{}`", key.name))
    }

    fn fail_at(&self, at: usize, reason: String) -> JsonError {
        JsonError::new(self.json, at, reason)
    }
}

/// The name of a field, and its position.
struct Key {
    name: SmolStr,
    at: usize,
}
