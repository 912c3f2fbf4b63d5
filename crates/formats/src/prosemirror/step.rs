//! Steps: the edits of ProseMirror.

use doclock::{Draft, NodeId, document::Mark};
use serde::Deserialize;
use serde_json::Value;
use smol_str::SmolStr;

use super::edit::StepApplier;
use super::names::{ProseMirrorContent, of_javascript};
use super::read::{
    ContentPart, ContentParts, JsonMark, JsonNode, Object, ParsedBlock, ProseMirrorReader, json,
    list,
};
use super::{ProseMirrorError, ProseMirrorOptions, StepError};

/// A step of ProseMirror: `replace`, `replaceAround`, `addMark`, `removeMark`, `markSet`, `attr`,
/// `docAttr`, `addNodeMark` or `removeNodeMark`.
///
/// The form is that of `Step.toJSON`, as the [reference of
/// ProseMirror](https://prosemirror.net/docs/ref/#transform.Step) describes it.
#[derive(Clone, Debug)]
pub struct ProseMirrorStep(Vec<Action>);

#[derive(Clone, Debug)]
enum Action {
    Replace(Replace),
    Around(Replace, Gap),
    AddMark(Mark, usize, usize),
    RemoveMark(Mark, usize, usize),
    Attr(usize, SmolStr, Value),
    DocAttr(SmolStr, Value),
    AddNodeMark(Mark, usize),
    RemoveNodeMark(Mark, usize),
}

#[derive(Clone, Debug)]
pub(super) struct Replace {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) slice: Slice,
    /// Whether nothing but the bounds of nodes may be replaced.
    pub(super) structure: bool,
}

/// The part of the replaced range that is kept, and its position in the slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) insert: usize,
}

/// New content, whose outermost nodes are open at its start and its end.
#[derive(Clone, Debug, Default)]
pub(super) struct Slice {
    pub(super) content: Vec<ContentPart>,
    pub(super) open_start: usize,
    pub(super) open_end: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonHead {
    step_type: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonReplace {
    from: usize,
    to: usize,
    #[serde(default)]
    slice: Option<Object<JsonSlice>>,
    #[serde(default)]
    structure: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonGap {
    gap_from: usize,
    gap_to: usize,
    insert: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct JsonSlice {
    #[serde(default, deserialize_with = "list")]
    content: Vec<Object<JsonNode>>,
    #[serde(default)]
    open_start: usize,
    #[serde(default)]
    open_end: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonMarkStep {
    step_type: String,
    from: usize,
    to: usize,
    mark: Object<JsonMark>,
}

#[derive(Deserialize)]
struct JsonNodeMarkStep {
    pos: usize,
    mark: Object<JsonMark>,
}

#[derive(Deserialize)]
struct JsonAttr {
    pos: usize,
    attr: SmolStr,
    #[serde(default)]
    value: Value,
}

#[derive(Deserialize)]
struct JsonDocAttr {
    attr: SmolStr,
    #[serde(default)]
    value: Value,
}

#[derive(Deserialize)]
struct JsonMarkSet {
    steps: Vec<Object<JsonMarkStep>>,
}

impl ProseMirrorStep {
    /// Reads a step. This needs no document, so a server reads steps before it requests the lock.
    ///
    /// # Errors
    ///
    /// [`ProseMirrorError`]: the text is not JSON of this form, the step is of another type, or it
    /// has types, marks or targets that the options do not allow.
    pub fn from_json(text: &str, options: &ProseMirrorOptions) -> Result<Self, ProseMirrorError> {
        let JsonHead { step_type } = json(text)?;
        let actions = match step_type.as_str() {
            "replace" => vec![Action::Replace(json::<JsonReplace>(text)?.read(options)?)],
            "replaceAround" => {
                let gap: JsonGap = json(text)?;
                let gap = Gap {
                    from: gap.gap_from,
                    to: gap.gap_to,
                    insert: gap.insert,
                };
                vec![Action::Around(
                    json::<JsonReplace>(text)?.read(options)?,
                    gap,
                )]
            }
            "addMark" | "removeMark" => vec![json::<JsonMarkStep>(text)?.read(options)?],
            "markSet" => {
                let steps = json::<JsonMarkSet>(text)?.steps.into_iter();
                let actions = steps.map(|Object(step)| step.read(options));
                actions.collect::<Result<_, _>>()?
            }
            "attr" => {
                let JsonAttr { pos, attr, value } = json(text)?;
                vec![Action::Attr(pos, attr, of_javascript(&value))]
            }
            "docAttr" => {
                let JsonDocAttr { attr, value } = json(text)?;
                vec![Action::DocAttr(attr, of_javascript(&value))]
            }
            "addNodeMark" | "removeNodeMark" => {
                let JsonNodeMarkStep { pos, mark } = json(text)?;
                let mark = read_mark(&mark.0, options)?;
                vec![match step_type.as_str() {
                    "addNodeMark" => Action::AddNodeMark(mark, pos),
                    _ => Action::RemoveNodeMark(mark, pos),
                }]
            }
            _ => return Err(ProseMirrorError::StepType { step_type }),
        };
        Ok(Self(actions))
    }

    /// Applies the step to the document under `root`, completely or not at all.
    ///
    /// The document has to be as [`from_prosemirror`](super::from_prosemirror) reads it. Nodes that
    /// the step keeps keep their ids; a node that is split keeps its id on the left. The
    /// first step counts all nodes. A later one finds its positions in logarithmic time, times the
    /// depth. It counts the nodes again that changed since, and their ancestors. A transaction on
    /// nodes reads all nodes before the end of the step.
    ///
    /// The schema of the store, if there is one, checks the children of the nodes around the
    /// replaced range, as `Step.apply` does. The commit checks everything. So a later step of the
    /// same transaction can complete a node that an earlier one inserted.
    ///
    /// # Errors
    ///
    /// [`StepError`], as `Step.apply` fails in ProseMirror: a position is out of range, the slice
    /// does not fit, or a node around the replaced range would violate the schema of the store.
    ///
    /// ```
    /// use doclock::{DataStore, View};
    /// use doclock_formats::prosemirror::{
    ///     ProseMirrorNames, ProseMirrorOptions, ProseMirrorStep, from_prosemirror,
    /// };
    ///
    /// let options = ProseMirrorOptions::new(ProseMirrorNames::basic());
    /// let json = r#"{"type": "doc", "content": [
    ///     {"type": "paragraph", "content": [{"type": "text", "text": "Moons"}]}
    /// ]}"#;
    /// let mut transaction = DataStore::new().begin("ann")?;
    /// let root = transaction.create(from_prosemirror(json, &options)?.0)?;
    ///
    /// let step = r#"{"stepType": "replace", "from": 6, "to": 6, "slice":
    ///     {"content": [{"type": "text", "text": "!"}]}}"#;
    /// ProseMirrorStep::from_json(step, &options)?.apply(&mut transaction, &root, &options)?;
    /// assert_eq!(transaction.text_of(&root)?, "Moons!");
    ///
    /// let step = r#"{"stepType": "replace", "from": 6, "to": 99}"#;
    /// let step = ProseMirrorStep::from_json(step, &options)?;
    /// let error = step.apply(&mut transaction, &root, &options).unwrap_err();
    /// assert_eq!(error.to_string(), "position 99 is out of range: the document has the size 8");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn apply(
        &self,
        transaction: &mut Draft,
        root: &NodeId,
        options: &ProseMirrorOptions,
    ) -> Result<(), StepError> {
        transaction.attempt(|transaction| {
            let mut applier = StepApplier::new(transaction, root, options);
            for action in &self.0 {
                match action {
                    Action::Replace(replace) => applier.replace(replace)?,
                    Action::Around(replace, gap) => applier.replace_around(replace, *gap)?,
                    Action::AddMark(mark, from, to) => applier.add_mark(mark, *from, *to)?,
                    Action::RemoveMark(mark, from, to) => applier.remove_mark(mark, *from, *to)?,
                    Action::Attr(at, name, value) => applier.set_attr(*at, name, value)?,
                    Action::DocAttr(name, value) => applier.set_doc_attr(name, value)?,
                    Action::AddNodeMark(mark, at) => applier.add_node_mark(mark, *at)?,
                    Action::RemoveNodeMark(mark, at) => applier.remove_node_mark(mark, *at)?,
                }
            }
            Ok(())
        })
    }
}

impl JsonReplace {
    fn read(self, options: &ProseMirrorOptions) -> Result<Replace, ProseMirrorError> {
        let slice = self.slice.map(|Object(slice)| slice.read(options));
        Ok(Replace {
            from: self.from,
            to: self.to,
            slice: slice.transpose()?.unwrap_or_default(),
            structure: self.structure,
        })
    }
}

impl JsonSlice {
    fn read(self, options: &ProseMirrorOptions) -> Result<Slice, ProseMirrorError> {
        let mut reader = ProseMirrorReader::new(options);
        let mut parts = ContentParts::default();
        reader.nodes("slice.content", self.content, None, &mut parts)?;
        let dropped = reader.report.into_entries();
        if !dropped.is_empty() {
            return Err(ProseMirrorError::Dropped { dropped });
        }
        let slice = Slice {
            content: parts.into_contents(),
            open_start: self.open_start,
            open_end: self.open_end,
        };
        let is_open = |at: fn(&[ContentPart]) -> Option<&ContentPart>, levels| {
            let mut content = slice.content.as_slice();
            (0..levels).all(|_| match at(content) {
                Some(ContentPart::Block(block)) if block.content != ProseMirrorContent::Leaf => {
                    content = &block.children;
                    true
                }
                _ => false,
            })
        };
        match is_open(<[ContentPart]>::first, self.open_start)
            && is_open(<[ContentPart]>::last, self.open_end)
        {
            true => Ok(slice),
            false => Err(ProseMirrorError::Slice {
                reason: "is open deeper than it nests",
            }),
        }
    }
}

impl JsonMarkStep {
    fn read(self, options: &ProseMirrorOptions) -> Result<Action, ProseMirrorError> {
        let read = read_mark(&self.mark.0, options)?;
        match self.step_type.as_str() {
            "addMark" => Ok(Action::AddMark(read, self.from, self.to)),
            "removeMark" => Ok(Action::RemoveMark(read, self.from, self.to)),
            _ => Err(ProseMirrorError::StepType {
                step_type: self.step_type,
            }),
        }
    }
}

fn read_mark(mark: &JsonMark, options: &ProseMirrorOptions) -> Result<Mark, ProseMirrorError> {
    mark.read(options).ok_or_else(|| ProseMirrorError::Dropped {
        dropped: vec![mark.dropped("mark")],
    })
}

impl Slice {
    /// Puts nodes or text at a position; `None` if it is not between two of its parts.
    pub(super) fn insert(&mut self, position: usize, kept: ContentPart) -> Option<()> {
        insert(
            &mut self.content,
            position.checked_add(self.open_start)?,
            kept,
        )
    }
}

// The depth of a slice is limited, so the recursion is.
fn insert(contents: &mut Vec<ContentPart>, mut position: usize, kept: ContentPart) -> Option<()> {
    for index in 0..contents.len() {
        let size = contents[index].size();
        if position == 0 {
            contents.insert(index, kept);
            return Some(());
        }
        if position < size {
            return match &mut contents[index] {
                ContentPart::Block(ParsedBlock { children, .. }) => {
                    insert(children, position - 1, kept)
                }
                _ => None,
            };
        }
        position -= size;
    }
    (position == 0).then(|| contents.push(kept))
}

impl ContentPart {
    /// The size in the positions of ProseMirror.
    fn size(&self) -> usize {
        match self {
            Self::Text(run) => run.text.encode_utf16().count(),
            Self::Block(block) if block.content == ProseMirrorContent::Leaf => 1,
            Self::Block(block) => 2 + block.children.iter().map(Self::size).sum::<usize>(),
            Self::Kept(..) => 0,
        }
    }
}
