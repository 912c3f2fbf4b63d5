//! Writes nodes as ProseMirror's JSON.

use doclock::{
    NodeId,
    document::{Attributes, Node, View},
};
use serde_json::{Map, Value, json};
use smol_str::SmolStr;

use super::names::{MarkNames, ParentType, ProseMirrorContent, TypeMapping};
use super::pieces::{InlineLeaf, InlinePiece, pieces};
use super::{ProseMirrorOptions, TARGETS};
use crate::dropped::{Dropped, DroppedPart, DroppedReport};
use crate::steps::step;

/// Writes nodes. The remaining steps are a stack, so any depth is safe.
pub(super) struct ProseMirrorWriter<'v, V> {
    view: &'v V,
    options: &'v ProseMirrorOptions,
    report: DroppedReport<NodeId>,
    ahead: Vec<WriteStep<'v>>,
    out: String,
}

enum WriteStep<'v> {
    /// A node, with the type of its parent.
    Node(&'v Node, ParentType<'v>),
    /// The texts of these nodes, in a parent of this type.
    Text(Vec<&'v Node>, ParentType<'v>),
    /// The end of a content.
    End,
}

impl<'v, V: View> ProseMirrorWriter<'v, V> {
    pub(super) fn new(view: &'v V, options: &'v ProseMirrorOptions) -> Self {
        Self {
            view,
            options,
            report: DroppedReport::default(),
            ahead: Vec::new(),
            out: String::new(),
        }
    }

    /// The JSON, and what it does not express.
    pub(super) fn written(mut self, top: &'v Node) -> (String, Vec<Dropped<NodeId>>) {
        match self.options.names.node_for(top) {
            Some(_) => self.ahead.push(WriteStep::Node(top, TOP)),
            None => {
                // The top has to be one node.
                let names = &self.options.names;
                let kind = names.first(ProseMirrorContent::Blocks);
                self.begin(kind.map_or("doc", |kind| &kind.prosemirror), Map::new());
                self.out.push_str(r#","content":["#);
                self.ahead.push(WriteStep::End);
                self.ahead.push(WriteStep::Node(top, TOP));
            }
        }
        self.write_ahead();
        (self.out, self.report.into_entries())
    }

    /// The JSON of a node in a parent of this type.
    pub(super) fn written_in(mut self, node: &'v Node, within: ParentType<'v>) -> String {
        self.ahead.push(WriteStep::Node(node, within));
        self.write_ahead();
        self.out
    }

    fn write_ahead(&mut self) {
        while let Some(next) = self.ahead.pop() {
            step();
            match next {
                WriteStep::Node(node, within) => self.node(node, within),
                WriteStep::Text(nodes, within) => self.text(nodes, within),
                WriteStep::End => self.out.push_str("]}"),
            }
        }
    }

    /// The JSON of a text in a node of this type, as a list.
    pub(super) fn line(mut self, text: &'v Node, within: ParentType<'v>) -> String {
        self.out.push('[');
        self.text(vec![text], within);
        self.out.push(']');
        self.out
    }

    fn node(&mut self, node: &'v Node, within: ParentType<'v>) {
        let names = &self.options.names;
        if names.is_text(node) {
            let texts = self.texts(node);
            return self.ahead.push(WriteStep::Text(texts, within));
        }
        let Some((entry, content)) = self.type_of(node, within) else {
            self.report.drop_type(node);
            return self.parts(node, within);
        };
        let (mut attributes, rejected) = self.attributes(entry, node.attributes());
        if self.is_table_of_markdown(node) && attributes.remove("align").is_some() {
            self.report.drop_attribute(node, "align");
        }
        for attribute in rejected {
            self.report.drop_attribute(node, attribute);
        }
        self.begin(&entry.prosemirror, attributes);
        match node.children().is_empty() && node.text().is_empty() {
            true if self.is_cell_of_markdown(node, within) => self.empty_paragraph(),
            true => self.out.push('}'),
            false => self.contents(node, (Some(entry), content)),
        }
    }

    /// The type of a node. The first row of a table of Markdown is a row of header cells.
    fn type_of(
        &self,
        node: &Node,
        within: ParentType<'v>,
    ) -> Option<(&'v TypeMapping, ProseMirrorContent)> {
        let names = &self.options.names;
        let is_in = |kind: &str| within.0.is_some_and(|parent| parent.prosemirror == kind);
        if is_in("table") && names.is_table_head(node) {
            return names.node_named("tableRow");
        }
        let found = names.node_in(node, within.0);
        let is_cell = found.is_some_and(|(entry, _)| entry.prosemirror == "tableCell");
        let is_header = is_cell
            && is_in("tableRow")
            && self
                .parent(node)
                .is_some_and(|row| names.is_table_head(row));
        let header = names.node_named("tableHeader").filter(|_| is_header);
        header.or(found)
    }

    fn parent(&self, node: &Node) -> Option<&'v Node> {
        node.parent().and_then(|parent| self.view.node(parent))
    }

    fn is_table_of_markdown(&self, node: &Node) -> bool {
        let first = self.view.children(node.id()).next();
        first.is_some_and(|row| self.options.names.is_table_head(row))
    }

    /// Whether a node is a cell of a table of Markdown, where a cell can be empty.
    fn is_cell_of_markdown(&self, node: &Node, within: ParentType<'v>) -> bool {
        within.0.is_some_and(|row| row.prosemirror == "tableRow")
            && self
                .parent(node)
                .and_then(|row| self.parent(row))
                .is_some_and(|table| self.is_table_of_markdown(table))
    }

    /// Ends a node with an empty paragraph as its content.
    fn empty_paragraph(&mut self) {
        let kind = self.options.names.first(ProseMirrorContent::Text);
        if let Some(kind) = kind {
            self.out.push_str(r#","content":["#);
            self.begin(&kind.prosemirror, Map::new());
            self.out.push_str("}]");
        }
        self.out.push('}');
    }

    /// Begins an object.
    fn begin(&mut self, kind: &str, attributes: Map<String, Value>) {
        if self.out.ends_with('}') {
            self.out.push(',');
        }
        let mut head = Map::from_iter([("type".to_owned(), kind.into())]);
        if !attributes.is_empty() {
            head.insert("attrs".to_owned(), attributes.into());
        }
        let head = Value::from(head).to_string();
        self.out.push_str(head.strip_suffix('}').unwrap_or(&head));
    }

    fn contents(&mut self, node: &'v Node, within: ParentType<'v>) {
        self.out.push_str(r#","content":["#);
        self.ahead.push(WriteStep::End);
        self.parts(node, within);
    }

    /// Pushes the contents of a node: its own text and text children, and the others as nodes.
    fn parts(&mut self, node: &'v Node, within: ParentType<'v>) {
        let mut parts = Vec::new();
        let mut texts = Vec::new();
        if !node.text().is_empty() {
            texts.push(node);
        }
        for child in self.view.children(node.id()) {
            if self.options.names.is_text(child) {
                texts.extend(self.texts(child));
                continue;
            }
            if !texts.is_empty() {
                parts.push(WriteStep::Text(std::mem::take(&mut texts), within));
            }
            parts.push(WriteStep::Node(child, within));
        }
        if !texts.is_empty() {
            parts.push(WriteStep::Text(texts, within));
        }
        self.ahead.extend(parts.into_iter().rev());
    }

    /// A text with its descendants, which lose their types.
    fn texts(&mut self, top: &'v Node) -> Vec<&'v Node> {
        let nodes: Vec<_> = self.view.descendants(top.id()).collect();
        for node in &nodes {
            match self.options.names.is_text(node) {
                true => {
                    for (attribute, _) in node.attributes() {
                        self.report.drop_attribute(node, attribute);
                    }
                }
                false => self.report.drop_type(node),
            }
        }
        nodes
    }

    fn text(&mut self, nodes: Vec<&'v Node>, (entry, content): ParentType<'v>) {
        use ProseMirrorContent::{Blocks, Code, Leaf as Nothing, Text};
        let names = &self.options.names;
        let nodes = nodes.into_iter().filter(|node| !node.text().is_empty());
        let mut nodes = nodes.peekable();
        if nodes.peek().is_none() {
            return;
        }
        // Between blocks, text is a paragraph.
        let wrapped = matches!(content, Blocks | Nothing)
            .then(|| names.first(Text))
            .flatten();
        if let Some(kind) = wrapped {
            self.begin(&kind.prosemirror, Map::new());
            self.out.push_str(r#","content":["#);
        }
        let allowed = wrapped
            .or(entry)
            .map_or(&MarkNames::All, |kind| &kind.marks);
        let mut written: Option<Inline> = None;
        for node in nodes {
            let (pieces, dropped) = pieces(node, content == Code, allowed, names);
            for mark in dropped {
                self.report
                    .add(DroppedPart::mark(mark), || node.id().clone());
            }
            for piece in pieces {
                let inline = self.inline(node, &piece);
                match &mut written {
                    Some(last) if last.text.is_some() && last.is_joined_by(&inline) => {
                        last.text.get_or_insert_default().push_str(&piece.text);
                    }
                    _ => {
                        let last = written.replace(inline);
                        last.into_iter().for_each(|last| self.push(last));
                    }
                }
            }
        }
        written.into_iter().for_each(|last| self.push(last));
        if wrapped.is_some() {
            self.out.push_str("]}");
        }
    }

    fn inline(&mut self, node: &'v Node, piece: &InlinePiece<'v>) -> Inline {
        let names = &self.options.names;
        let mut marks = Vec::with_capacity(piece.marks.len());
        for &mark in &piece.marks {
            match names.mark_for(mark) {
                Some((_, entry)) if !self.options.rejects_mark(mark) => {
                    let mut json = Map::from_iter([("type".to_owned(), json!(entry.prosemirror))]);
                    let attributes = entry.written(&mark.attributes);
                    if !attributes.is_empty() {
                        json.insert("attrs".to_owned(), attributes.into());
                    }
                    marks.push(json.into());
                }
                _ => self
                    .report
                    .add(DroppedPart::mark(mark), || node.id().clone()),
            }
        }
        let (kind, attributes, text) = match piece.leaf {
            InlineLeaf::None => ("text".into(), Map::new(), Some(piece.text.clone())),
            InlineLeaf::Break => {
                let kind = names.first(ProseMirrorContent::Break);
                let kind = kind.map(|kind| kind.prosemirror.clone());
                (kind.unwrap_or_default(), Map::new(), None)
            }
            InlineLeaf::Inline(entry, mark) => {
                let (mut attributes, rejected) = self.attributes(entry, &mark.attributes);
                let mut dropped: Vec<String> = rejected.into_iter().map(str::to_owned).collect();
                if let Some(alt) = names.description(entry, &piece.text)
                    && let Some(other) = attributes.insert(alt.to_owned(), json!(piece.text))
                    && other != json!(piece.text)
                {
                    dropped.push(alt.to_owned());
                }
                for attribute in dropped {
                    let part = DroppedPart::MarkAttribute {
                        mark: mark.kind.clone(),
                        attribute: attribute.into(),
                    };
                    self.report.add(part, || node.id().clone());
                }
                (entry.prosemirror.clone(), attributes, None)
            }
        };
        Inline {
            kind,
            attributes,
            text,
            marks,
        }
    }

    fn push(&mut self, inline: Inline) {
        self.begin(&inline.kind, inline.attributes);
        if !inline.marks.is_empty() {
            self.out.push_str(r#","marks":"#);
            self.out.push_str(&Value::from(inline.marks).to_string());
        }
        if let Some(text) = inline.text {
            self.out.push_str(r#","text":"#);
            self.out.push_str(&Value::from(text).to_string());
        }
        self.out.push('}');
    }

    /// The attributes in ProseMirror, and those with rejected targets, which are empty.
    pub(super) fn attributes(
        &self,
        entry: &TypeMapping,
        attributes: &Attributes,
    ) -> (Map<String, Value>, Vec<&'static str>) {
        let rejected = TARGETS.into_iter().filter(|name| {
            let value = attributes.get(name);
            value.is_some_and(|value| self.options.rejects(value))
        });
        let rejected: Vec<&'static str> = rejected.collect();
        let attributes = attributes.iter().map(|(name, value)| {
            let value = match rejected.contains(&name.as_str()) {
                true => "".into(),
                false => value.clone(),
            };
            (name.clone(), value)
        });
        (entry.written(&attributes.collect()), rejected)
    }
}

pub(super) const TOP: ParentType<'static> = (None, ProseMirrorContent::Blocks);

/// An inline node.
struct Inline {
    kind: SmolStr,
    attributes: Map<String, Value>,
    text: Option<String>,
    marks: Vec<Value>,
}

impl Inline {
    /// Whether both are text with the same marks.
    fn is_joined_by(&self, next: &Self) -> bool {
        next.text.is_some() && self.marks == next.marks
    }
}
