//! Nodes of ProseMirror as a sequence of tokens, and the smallest replacement between two of them.
//!
//! A node begins and ends with a token, and a character is one. Two sequences begin with the same
//! tokens and end with the same, and what is between is replaced. So a split is the insertion of an
//! end and a beginning, and the text behind it is kept.

use std::collections::HashMap;
use std::ops::Range;

use doclock::document::Value;
use serde_json::{Map, json};

use super::edit::{JsonSlice, StepEdit};
use crate::prosemirror::names::{ProseMirrorContent, ProseMirrorNames};
use crate::steps::{step, steps};

/// A part of ProseMirror's JSON. The numbers are those of [`TokenTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// The beginning of a node.
    Open(usize),
    /// Its end.
    Close(usize),
    /// A node without content, and its marks.
    Leaf(usize, usize),
    /// A character, and its marks.
    Char(char, usize),
}

impl Token {
    /// The size in the positions of ProseMirror.
    pub(super) fn size(self) -> usize {
        match self {
            Self::Char(char, _) => char.len_utf16(),
            _ => 1,
        }
    }

    fn marks(self) -> Option<usize> {
        match self {
            Self::Leaf(_, marks) | Self::Char(_, marks) => Some(marks),
            Self::Open(_) | Self::Close(_) => None,
        }
    }

    /// Whether both are the same but for their marks.
    fn is_like(self, other: Self) -> bool {
        match (self, other) {
            (Self::Leaf(one, _), Self::Leaf(other, _)) => one == other,
            (Self::Char(one, _), Self::Char(other, _)) => one == other,
            _ => false,
        }
    }
}

/// The size of some tokens in the positions of ProseMirror.
pub(super) fn size_of(tokens: &[Token]) -> usize {
    tokens.iter().map(|token| token.size()).sum()
}

/// The types with their attributes, and the lists of marks, that tokens have as numbers.
#[derive(Default)]
pub(super) struct TokenTable {
    numbers: HashMap<String, usize>,
    values: Vec<Value>,
}

impl TokenTable {
    fn number(&mut self, value: Value) -> usize {
        let next = self.values.len();
        let number = *self.numbers.entry(value.to_string()).or_insert(next);
        if number == next {
            self.values.push(value);
        }
        number
    }

    /// Appends the tokens of a node in ProseMirror's JSON, whose depth is limited. `None` if a node
    /// has content that its type does not have in ProseMirror.
    pub(super) fn add(
        &mut self,
        node: Value,
        names: &ProseMirrorNames,
        tokens: &mut Vec<Token>,
    ) -> Option<()> {
        step();
        let Value::Object(mut head) = node else {
            return None;
        };
        let marks = head.remove("marks").unwrap_or_else(|| json!([]));
        if let Some(text) = head.remove("text") {
            let marks = self.number(marks);
            let text = text.as_str()?;
            steps(text.len());
            tokens.extend(text.chars().map(|char| Token::Char(char, marks)));
            return Some(());
        }
        let content = head.remove("content");
        let (_, of_type) = names.node_named(head.get("type")?.as_str()?)?;
        let head = self.number(head.into());
        use ProseMirrorContent::{Break, Inline, Leaf};
        if matches!(of_type, Break | Inline | Leaf) {
            let marks = self.number(marks);
            tokens.push(Token::Leaf(head, marks));
            return content.is_none().then_some(());
        }
        tokens.push(Token::Open(head));
        if let Some(Value::Array(content)) = content {
            for node in content {
                self.add(node, names, tokens)?;
            }
        }
        tokens.push(Token::Close(head));
        Some(())
    }

    /// What replaces the whole nodes of one sequence, which begins at a position, by those of
    /// another.
    pub(super) fn replacement(
        &self,
        before: &[Token],
        after: &[Token],
        start: usize,
    ) -> Option<StepEdit> {
        let around = self.wrapping(before, after, start);
        let around = around.or_else(|| self.unwrapping(before, after, start));
        around.or_else(|| self.splice(before, after, start))
    }

    /// The nodes that are put around others.
    fn wrapping(&self, before: &[Token], after: &[Token], start: usize) -> Option<StepEdit> {
        let depth = depth_around(before, after)?;
        let (opened, closed) = (&after[..depth], &after[after.len() - depth..]);
        let around = opened.iter().chain(closed).copied();
        Some(StepEdit::Around {
            range: start..start + size_of(before),
            kept: start..start + size_of(before),
            insert: depth,
            slice: self.nested(around),
        })
    }

    /// The nodes that are taken off others.
    fn unwrapping(&self, before: &[Token], after: &[Token], start: usize) -> Option<StepEdit> {
        let depth = depth_around(after, before)?;
        let size = size_of(before);
        Some(StepEdit::Around {
            range: start..start + size,
            kept: start + depth..start + size - depth,
            insert: 0,
            slice: JsonSlice::default(),
        })
    }

    /// The replacement of the tokens that differ; `None` if none do.
    pub(super) fn splice(
        &self,
        before: &[Token],
        after: &[Token],
        start: usize,
    ) -> Option<StepEdit> {
        let pairs = before.iter().zip(after);
        let from = pairs.take_while(|(one, other)| one == other).count();
        let ends = before[from..].iter().rev().zip(after[from..].iter().rev());
        let behind = ends.take_while(|(one, other)| one == other).count();
        steps(from + behind);
        let (replaced, inserted) = (from..before.len() - behind, from..after.len() - behind);
        if replaced.is_empty() && inserted.is_empty() {
            return None;
        }
        let position = start + size_of(&before[..from]);
        Some(StepEdit::Replace {
            range: position..position + size_of(&before[replaced]),
            slice: self.nested(after[inserted].iter().copied()),
        })
    }

    /// The changes of marks that lead from one line to another, if no more than marks differ.
    pub(super) fn marks(
        &self,
        before: &[Token],
        after: &[Token],
        start: usize,
    ) -> Option<Vec<StepEdit>> {
        let is_same = |(one, other): (&Token, &Token)| one.is_like(*other);
        if before.len() != after.len() || !before.iter().zip(after).all(is_same) {
            return None;
        }
        let mut edits = Vec::new();
        // What excludes a mark is gone before that is added.
        self.add_ranges((before, after), start, false, &mut edits);
        self.add_ranges((after, before), start, true, &mut edits);
        Some(edits)
    }

    /// Adds an edit for each mark and range that the first line has, but not the second.
    fn add_ranges(
        &self,
        (of, without): (&[Token], &[Token]),
        start: usize,
        is_added: bool,
        edits: &mut Vec<StepEdit>,
    ) {
        let mut ranges: Vec<(&Value, Range<usize>)> = Vec::new();
        // Those that end here.
        let (mut open, mut at) = (Vec::new(), start);
        for (token, other) in of.iter().zip(without) {
            let end = at + token.size();
            let before: Vec<usize> = std::mem::take(&mut open);
            let marks = self.marks_of(*token).iter().filter(|_| token != other);
            for mark in marks.filter(|mark| !self.marks_of(*other).contains(mark)) {
                let known = before.iter().find(|nth| ranges[**nth].0 == mark);
                open.push(known.copied().unwrap_or(ranges.len()));
                match known {
                    Some(nth) => ranges[*nth].1.end = end,
                    None => ranges.push((mark, at..end)),
                }
            }
            at = end;
        }
        edits.extend(ranges.into_iter().map(|(mark, range)| StepEdit::Mark {
            range,
            mark: mark.clone(),
            is_added,
        }));
    }

    fn marks_of(&self, token: Token) -> &[Value] {
        let marks = token.marks().map(|marks| &self.values[marks]);
        let marks = marks.and_then(Value::as_array);
        marks.map_or(&[], Vec::as_slice)
    }

    /// Some tokens as a slice.
    fn nested(&self, tokens: impl Iterator<Item = Token>) -> JsonSlice {
        let mut slice = JsonSlice::default();
        let mut nodes: Vec<(usize, Vec<Value>)> = Vec::new();
        let mut size = 0;
        for token in tokens {
            size += token.size();
            match token {
                Token::Open(head) => nodes.push((head, Vec::new())),
                Token::Close(head) => {
                    let content = match nodes.pop() {
                        Some((_, content)) => content,
                        None => {
                            // It is open before the first token.
                            slice.open_start += 1;
                            std::mem::take(&mut slice.content)
                        }
                    };
                    let node = self.node(head, content);
                    innermost(&mut nodes, &mut slice).push(node);
                }
                Token::Leaf(head, marks) => {
                    let leaf = self.marked(self.values[head].clone(), marks);
                    innermost(&mut nodes, &mut slice).push(leaf);
                }
                Token::Char(char, marks) => {
                    self.push_char(innermost(&mut nodes, &mut slice), char, marks);
                }
            }
        }
        slice.open_end = nodes.len();
        while let Some((head, content)) = nodes.pop() {
            let node = self.node(head, content);
            innermost(&mut nodes, &mut slice).push(node);
        }
        slice.size = size;
        slice
    }

    fn push_char(&self, content: &mut Vec<Value>, char: char, marks: usize) {
        let marked = &self.values[marks];
        if let Some(Value::Object(last)) = content.last_mut()
            && last.get("marks").unwrap_or(&json!([])) == marked
            && let Some(Value::String(text)) = last.get_mut("text")
        {
            return text.push(char);
        }
        let text = json!({"type": "text", "text": char.to_string()});
        content.push(self.marked(text, marks));
    }

    fn marked(&self, mut node: Value, marks: usize) -> Value {
        let marks = &self.values[marks];
        if *marks != json!([]) {
            node["marks"] = marks.clone();
        }
        node
    }

    fn node(&self, head: usize, content: Vec<Value>) -> Value {
        let mut node = self.values[head].clone();
        if !content.is_empty() {
            node["content"] = content.into();
        }
        node
    }

    /// A node without content, of this type and with these attributes.
    pub(super) fn empty(kind: &str, attributes: Map<String, Value>) -> Value {
        let mut node = json!({"type": kind});
        if !attributes.is_empty() {
            node["attrs"] = attributes.into();
        }
        node
    }
}

/// The content of the innermost node that is open, or of the slice.
fn innermost<'s>(
    nodes: &'s mut [(usize, Vec<Value>)],
    slice: &'s mut JsonSlice,
) -> &'s mut Vec<Value> {
    let inner = nodes.last_mut().map(|(_, content)| content);
    inner.unwrap_or(&mut slice.content)
}

/// How many nodes, one in the other, the outer sequence has around the inner one and nothing else.
fn depth_around(inner: &[Token], outer: &[Token]) -> Option<usize> {
    let more = outer.len().checked_sub(inner.len())?;
    let depth = more / 2;
    let end = outer.len() - depth;
    let opens = |token: &Token| matches!(token, Token::Open(_));
    let closes = |token: &Token| matches!(token, Token::Close(_));
    let is_around = depth > 0
        && more % 2 == 0
        && !inner.is_empty()
        && outer[..depth].iter().all(opens)
        && outer[end..].iter().all(closes)
        && outer[depth..end] == *inner;
    is_around.then_some(depth)
}
