//! Reads ProseMirror's JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use doclock::{
    DataStore, NodeId, StoreOptions,
    document::{Attributes, EditError, JsonError, Mark, NodeSpec, Value},
};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use smol_str::SmolStr;

use super::names::{ParentType, ProseMirrorContent, ProseMirrorNames, TypeMapping};
use super::{ProseMirrorError, ProseMirrorOptions, TARGETS};
use crate::OBJECT;
use crate::dropped::{Dropped, DroppedPart, DroppedReport};

/// A node as ProseMirror writes it. serde_json limits its depth.
#[derive(Deserialize)]
pub(super) struct JsonNode {
    #[serde(rename = "type")]
    kind: SmolStr,
    #[serde(default)]
    attrs: Option<Attributes>,
    #[serde(default, deserialize_with = "list")]
    content: Vec<Object<JsonNode>>,
    #[serde(default, deserialize_with = "list")]
    marks: Vec<Object<JsonMark>>,
    #[serde(default)]
    text: Option<String>,
    /// The fields that ProseMirror ignores.
    #[serde(flatten)]
    others: BTreeMap<SmolStr, IgnoredAny>,
}

#[derive(Deserialize)]
pub(super) struct JsonMark {
    #[serde(rename = "type")]
    pub(super) kind: SmolStr,
    #[serde(default)]
    pub(super) attrs: Option<Attributes>,
    #[serde(flatten)]
    others: BTreeMap<SmolStr, IgnoredAny>,
}

/// Reads `null` as an empty list, as ProseMirror does.
pub(super) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// A struct that is an object in JSON; serde takes a list of its values as well.
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

/// Reads an object; an error has the path to its part.
pub(super) fn json<T: DeserializeOwned>(text: &str) -> Result<T, ProseMirrorError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = serde_path_to_error::deserialize(&mut reader);
    let read = read.map(|Object(value)| value);
    let read = read.map_err(|error| (error.path().to_string(), error.into_inner()));
    let read = read.and_then(|value| {
        let end = reader.end().map(|()| value);
        end.map_err(|error| (".".to_owned(), error))
    });
    read.map_err(|(path, error)| {
        let cause = JsonError::from_serde_json(text, &error);
        ProseMirrorError::Json { path, cause }
    })
}

/// The document, and what it does not express.
pub(super) fn document(
    text: &str,
    options: &ProseMirrorOptions,
) -> Result<(NodeSpec, Vec<Dropped<String>>), ProseMirrorError> {
    let top: JsonNode = json(text)?;
    let mut reader = ProseMirrorReader::new(options);
    let mut parts = ContentParts::default();
    reader.node(top, Some((None, ProseMirrorContent::Blocks)), &mut parts)?;
    let mut contents = parts.into_contents();
    let document = match (contents.pop(), contents.is_empty()) {
        (Some(ContentPart::Block(block)), true) => block.into_spec(options),
        // The type of the top is unknown, or is one of a line of text.
        (last, _) => {
            contents.extend(last);
            let children = contents
                .into_iter()
                .map(|content| content.into_spec(ProseMirrorContent::Text, options));
            NodeSpec::new("document")
                .with_id(".")
                .with_children(children)
        }
    };
    check(&document, options)?;
    Ok((document.without_ids(), reader.report.into_entries()))
}

/// Checks a document in which the id of each node is its path.
fn check(document: &NodeSpec, options: &ProseMirrorOptions) -> Result<(), ProseMirrorError> {
    let Some(schema) = &options.schema else {
        return Ok(());
    };
    // A store adds the defaults of the schema before it checks.
    let store = DataStore::with_options(StoreOptions::new().schema(schema.clone()));
    let checked = store.begin("reader").map_or(Ok(()), |mut transaction| {
        match transaction.create(document.clone()) {
            Ok(top) => {
                // A node that was just created has no parent.
                let _ = transaction.set_root(&top);
                schema.check(transaction.base(), &transaction, transaction.changes())
            }
            Err(EditError::Schema(violation)) => Err(*violation),
            // Its ids, marks and attributes are in range.
            Err(_) => Ok(()),
        }
    });
    checked.map_err(|cause| ProseMirrorError::Schema {
        path: cause.node_id().to_string(),
        cause,
    })
}

/// A part of the content of a node.
#[derive(Clone, Debug)]
pub(super) enum ContentPart {
    Text(TextRun),
    Block(ParsedBlock),
    /// Nodes of the document that a step keeps, and the content of the node around them.
    Kept(Vec<NodeId>, ProseMirrorContent),
}

/// Text between two blocks, with its marks, in the characters of text that is not code.
#[derive(Clone, Debug, Default)]
pub(super) struct TextRun {
    pub(super) text: String,
    /// Its length in characters.
    pub(super) len: usize,
    pub(super) marks: Vec<Mark>,
    /// Whether it has hard breaks or inline nodes, which are in no code.
    pub(super) nodes: bool,
    pub(super) path: String,
}

#[derive(Clone, Debug)]
pub(super) struct ParsedBlock {
    /// The node without its children.
    pub(super) spec: NodeSpec,
    pub(super) content: ProseMirrorContent,
    pub(super) children: Vec<ContentPart>,
}

impl TextRun {
    /// Its text in a node with this content.
    pub(super) fn text_in(&self, content: ProseMirrorContent, names: &ProseMirrorNames) -> String {
        match content {
            ProseMirrorContent::Code => {
                let chars = self.text.chars();
                chars.map(|char| names.unescape_newline(char)).collect()
            }
            _ => self.text.clone(),
        }
    }
}

impl ContentPart {
    /// The node for a part of a node with this content.
    fn into_spec(self, within: ProseMirrorContent, options: &ProseMirrorOptions) -> NodeSpec {
        match self {
            Self::Block(block) => block.into_spec(options),
            Self::Text(run) => {
                let text = run.text_in(within, &options.names);
                NodeSpec::new(options.names.of_text().clone())
                    .with_id(run.path)
                    .with_text(text)
                    .with_marks(run.marks)
            }
            // Only in the slice of a step.
            Self::Kept(..) => NodeSpec::new(options.names.of_text().clone()),
        }
    }
}

impl ParsedBlock {
    fn into_spec(self, options: &ProseMirrorOptions) -> NodeSpec {
        let (within, children) = (self.content, self.children.into_iter());
        let children = children.map(|content| content.into_spec(within, options));
        self.spec.with_children(children)
    }
}

/// The parts of a content that were read so far.
#[derive(Default)]
pub(super) struct ContentParts {
    contents: Vec<ContentPart>,
    run: TextRun,
}

impl ContentParts {
    fn say(&mut self, text: &str, marks: Vec<Mark>, path: impl FnOnce() -> String) {
        if self.run.len == 0 {
            self.run.path = path();
        }
        let start = self.run.len;
        self.run.text.push_str(text);
        self.run.len += text.chars().count();
        let range = start..self.run.len;
        self.run.marks.extend(marks.into_iter().map(|mark| Mark {
            range: Some(range.clone()),
            ..mark
        }));
    }

    fn end_text(&mut self) {
        let run = std::mem::take(&mut self.run);
        self.contents
            .extend((run.len > 0).then_some(ContentPart::Text(run)));
    }

    pub(super) fn into_contents(mut self) -> Vec<ContentPart> {
        self.end_text();
        self.contents
    }
}

/// The path from the top to the part that is read.
pub(super) struct ProseMirrorReader<'o> {
    options: &'o ProseMirrorOptions,
    pub(super) report: DroppedReport<String>,
    path: Vec<(&'static str, usize)>,
}

impl<'o> ProseMirrorReader<'o> {
    pub(super) fn new(options: &'o ProseMirrorOptions) -> Self {
        Self {
            options,
            report: DroppedReport::default(),
            path: Vec::new(),
        }
    }

    /// Reads the nodes of a list with this name. The type of the parent is unknown for the nodes of
    /// a slice.
    pub(super) fn nodes(
        &mut self,
        name: &'static str,
        nodes: Vec<Object<JsonNode>>,
        within: Option<ParentType<'_>>,
        parts: &mut ContentParts,
    ) -> Result<(), ProseMirrorError> {
        for (nth, Object(node)) in nodes.into_iter().enumerate() {
            self.path.push((name, nth));
            self.node(node, within, parts)?;
            self.path.pop();
        }
        Ok(())
    }

    // The depth of a node is limited, so the recursion is.
    fn node(
        &mut self,
        node: JsonNode,
        within: Option<ParentType<'_>>,
        parts: &mut ContentParts,
    ) -> Result<(), ProseMirrorError> {
        let is_text = node.kind == "text";
        let reason = match &node.text {
            Some(text) if is_text && !text.is_empty() => None,
            None if !is_text => None,
            Some(_) if !is_text => Some("has a text"),
            _ => Some("has no text"),
        };
        if let Some(reason) = reason {
            let (path, kind) = (self.place(), node.kind.into());
            return Err(ProseMirrorError::Text { path, kind, reason });
        }
        self.drop_fields(&node.others);
        let attributes = node.attrs.unwrap_or_default();
        if let Some(text) = node.text {
            let names = &self.options.names;
            if text.contains(|char| names.is_reserved(char)) {
                self.drop(DroppedPart::Noncharacter);
            }
            let text: String = text
                .chars()
                .map(|char| names.escape_newline(char))
                .collect();
            self.drop_attributes(&node.kind, &attributes);
            let marks = self.marks(node.marks, within);
            parts.say(&text, marks, || self.place());
            return self.nodes("content", node.content, within, parts);
        }
        let options = self.options;
        let in_code = within.is_some_and(|(_, content)| content == ProseMirrorContent::Code);
        match options.names.node_named(&node.kind) {
            Some((_, ProseMirrorContent::Break)) => {
                parts.run.nodes = true;
                // A break contains nothing.
                if in_code || !node.content.is_empty() {
                    self.drop_type(&node.kind);
                }
                self.drop_attributes(&node.kind, &attributes);
                let marks = self.marks(node.marks, within);
                let newline = match in_code {
                    true => options.names.escape_newline('\n'),
                    false => '\n',
                };
                parts.say(newline.encode_utf8(&mut [0; 4]), marks, || self.place());
                self.nodes("content", node.content, within, parts)
            }
            Some((entry, ProseMirrorContent::Inline)) if !in_code => {
                parts.run.nodes = true;
                if !node.content.is_empty() {
                    self.drop_type(&node.kind);
                }
                let mut marks = self.marks(node.marks, within);
                let own = self.allowed(&entry.document, entry.read(&attributes), false);
                marks.push(Mark::whole(entry.document.clone()).with_attributes(own));
                let object = OBJECT.encode_utf8(&mut [0; 4]).to_owned();
                parts.say(&object, marks, || self.place());
                self.nodes("content", node.content, within, parts)
            }
            None if within.is_some_and(|(_, content)| content == ProseMirrorContent::Blocks) => {
                self.drop_type(&node.kind);
                self.drop_marks(&node.marks);
                self.unknown_block(node.content, parts)
            }
            None | Some((_, ProseMirrorContent::Inline)) => {
                self.drop_type(&node.kind);
                self.drop_marks(&node.marks);
                self.nodes("content", node.content, within, parts)
            }
            Some((entry, content)) => {
                let parent = within.and_then(|(parent, _)| parent);
                if parent.is_some_and(|parent| options.names.is_misplaced(entry, parent)) {
                    self.drop_type(&node.kind);
                }
                self.drop_marks(&node.marks);
                parts.end_text();
                let own = self.of_type(entry, entry.read(&attributes));
                let own = self.allowed(&entry.document, own, true);
                let spec = NodeSpec::new(entry.document.clone());
                let spec = spec.with_id(self.place()).with_attributes(own);
                let mut inner = ContentParts::default();
                self.nodes(
                    "content",
                    node.content,
                    Some((Some(entry), content)),
                    &mut inner,
                )?;
                parts.contents.push(ContentPart::Block(ParsedBlock {
                    spec,
                    content,
                    children: inner.into_contents(),
                }));
                Ok(())
            }
        }
    }

    /// Reads the content of a block of an unknown type: its lines of text become paragraphs.
    fn unknown_block(
        &mut self,
        content: Vec<Object<JsonNode>>,
        parts: &mut ContentParts,
    ) -> Result<(), ProseMirrorError> {
        use ProseMirrorContent::{Blocks, Break, Inline, Text};
        let names = &self.options.names;
        let is_inline = |Object(child): &Object<JsonNode>| {
            let known = names.node_named(&child.kind).map(|(_, content)| content);
            child.kind == "text" || matches!(known, Some(Break | Inline))
        };
        let paragraph = names.first(Text);
        let within = match content.iter().any(is_inline) {
            true => (paragraph, Text),
            false => (None, Blocks),
        };
        let path = self.place();
        let mut inner = ContentParts::default();
        self.nodes("content", content, Some(within), &mut inner)?;
        parts.end_text();
        for (nth, content) in inner.into_contents().into_iter().enumerate() {
            parts.contents.push(match (content, paragraph) {
                (ContentPart::Text(run), Some(entry)) => {
                    let id = match nth {
                        0 => path.clone(),
                        _ => format!("{path}.{}", run.path),
                    };
                    let spec = NodeSpec::new(entry.document.clone()).with_id(id);
                    ContentPart::Block(ParsedBlock {
                        spec: spec.with_attributes(entry.read(&Attributes::default())),
                        content: Text,
                        children: vec![ContentPart::Text(run)],
                    })
                }
                (content, _) => content,
            });
        }
        Ok(())
    }

    /// The attributes of a node without those that would make it another type.
    fn of_type(&mut self, entry: &TypeMapping, mut attributes: Attributes) -> Attributes {
        // Without the attributes of one type it can be the next.
        loop {
            let lost = self.options.names.retyping(entry, &attributes);
            if lost.is_empty() {
                return attributes;
            }
            for attribute in lost {
                attributes.set(attribute.clone(), None);
                let node = entry.document.clone();
                self.drop(DroppedPart::NodeAttribute { node, attribute });
            }
        }
    }

    /// The attributes of a node or an inline node; a rejected target is empty.
    fn allowed(&mut self, of: &SmolStr, attributes: Attributes, node: bool) -> Attributes {
        let rejected = |value: &Value| self.options.rejects(value);
        let names: Vec<SmolStr> = TARGETS
            .into_iter()
            .filter(|name| attributes.get(name).is_some_and(rejected))
            .map(SmolStr::new_static)
            .collect();
        for attribute in names.iter().cloned() {
            let of = of.clone();
            self.drop(match node {
                true => DroppedPart::NodeAttribute {
                    node: of,
                    attribute,
                },
                false => DroppedPart::MarkAttribute {
                    mark: of,
                    attribute,
                },
            });
        }
        let attributes = attributes.iter().map(|(name, value)| {
            let value = match names.contains(name) {
                true => "".into(),
                false => value.clone(),
            };
            (name.clone(), value)
        });
        attributes.collect()
    }

    /// The known marks that the type of the parent allows.
    fn marks(&mut self, marks: Vec<Object<JsonMark>>, within: Option<ParentType<'_>>) -> Vec<Mark> {
        let names = &self.options.names;
        let mut read = Vec::with_capacity(marks.len());
        for (nth, Object(mark)) in marks.into_iter().enumerate() {
            let parent = within.and_then(|(parent, _)| parent);
            let allowed = names
                .mark_named(&mark.kind)
                .filter(|mark| parent.is_none_or(|parent| parent.marks.contains(mark)));
            match allowed.and_then(|_| mark.read(self.options)) {
                Some(known) => {
                    self.drop_fields(&mark.others);
                    read.push(known);
                }
                None => self.drop_mark(nth, &mark.kind),
            }
        }
        read
    }

    // --- What is dropped ---

    fn drop(&mut self, part: DroppedPart) {
        let path = &self.path;
        self.report.add(part, || place(path));
    }

    fn drop_fields(&mut self, fields: &BTreeMap<SmolStr, IgnoredAny>) {
        for field in fields.keys().cloned() {
            self.drop(DroppedPart::Field { field });
        }
    }

    fn drop_type(&mut self, kind: &SmolStr) {
        let node = kind.clone();
        self.drop(DroppedPart::NodeType { node });
    }

    fn drop_attributes(&mut self, kind: &SmolStr, attributes: &Attributes) {
        for (attribute, _) in attributes {
            let (node, attribute) = (kind.clone(), attribute.clone());
            self.drop(DroppedPart::NodeAttribute { node, attribute });
        }
    }

    fn drop_marks(&mut self, marks: &[Object<JsonMark>]) {
        for (nth, Object(mark)) in marks.iter().enumerate() {
            self.drop_mark(nth, &mark.kind);
        }
    }

    fn drop_mark(&mut self, nth: usize, kind: &SmolStr) {
        self.path.push(("marks", nth));
        let mark = kind.clone();
        self.drop(DroppedPart::Mark { mark });
        self.path.pop();
    }

    fn place(&self) -> String {
        place(&self.path)
    }
}

fn place(path: &[(&str, usize)]) -> String {
    if path.is_empty() {
        return ".".to_owned();
    }
    let steps = path.iter().map(|(name, nth)| format!("{name}[{nth}]"));
    steps.collect::<Vec<_>>().join(".")
}

impl JsonMark {
    /// The entry of a report about a mark at this path.
    pub(super) fn dropped(&self, path: &str) -> Dropped<String> {
        Dropped {
            part: DroppedPart::Mark {
                mark: self.kind.clone(),
            },
            count: 1,
            first: path.to_owned(),
        }
    }

    /// The mark of the document over all of its text; `None` if it is unknown or its target is
    /// rejected.
    pub(super) fn read(&self, options: &ProseMirrorOptions) -> Option<Mark> {
        let entry = options.names.mark_named(&self.kind)?;
        let attributes = entry.read(self.attrs.as_ref().unwrap_or(&Attributes::default()));
        let mark = Mark::whole(entry.document.clone()).with_attributes(attributes);
        (!options.rejects_mark(&mark)).then_some(mark)
    }
}
