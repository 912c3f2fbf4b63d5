//! prosemirror, a port of ProseMirror's document model: a step makes a new document from an
//! immutable one.

use prosemirror::dynamic::types::Dyn;
use prosemirror::dynamic::{DynamicMark, DynamicNode, DynamicSchema};
use prosemirror::model::{Fragment, MarkSet, Node, Slice};
use prosemirror::transform::{AddMarkStep, AttrStep, RemoveMarkStep, ReplaceStep, Span, Step};
use serde_json::{Value, json};

use super::edits::{Edit, LEVEL, STRONG, Start, TYPED, What, line};
use super::operations::Subject;
use crate::Result;

pub struct ProseMirror {
    schema: DynamicSchema,
    mark: DynamicMark,
    document: DynamicNode,
    steps: Vec<Step<Dyn>>,
}

impl ProseMirror {
    pub fn open() -> Result<Self> {
        let schema = DynamicSchema::from_json(&json!({
            "nodes": {
                "doc": { "content": "block+" },
                "paragraph": { "content": "inline*", "group": "block" },
                "heading": { "attrs": { "level": { "default": 1 } }, "content": "inline*", "group": "block" },
                "text": { "group": "inline" },
            },
            "marks": { "strong": {} },
        }))
        .map_err(|error| format!("{error:?}"))?;
        let mark = schema.mark_from_json(&json!({ "type": STRONG }));
        Ok(Self {
            mark: mark.map_err(|error| format!("{error:?}"))?,
            document: schema.text(""),
            schema,
            steps: Vec::new(),
        })
    }

    fn node(
        &self,
        kind: &str,
        attributes: Value,
        content: Vec<DynamicNode>,
    ) -> Result<DynamicNode> {
        let content = self.schema.with_types(|| Fragment::from(content));
        let node = self.schema.node(kind, attributes, content, MarkSet::new());
        Ok(node.map_err(|error| format!("{error:?}"))?)
    }

    fn block(&self, headings: bool, content: Vec<DynamicNode>) -> Result<DynamicNode> {
        match headings {
            true => self.node("heading", json!({ "level": LEVEL }), content),
            false => self.node("paragraph", json!({}), content),
        }
    }

    /// The step of an edit of the block whose text begins at a position.
    fn step(&self, headings: bool, begin: usize, what: What) -> Result<Step<Dyn>> {
        let replace = |from, to, content: Vec<DynamicNode>, open| {
            Step::Replace(ReplaceStep {
                span: span(begin + from, begin + to),
                slice: self
                    .schema
                    .with_types(|| Slice::new(Fragment::from(content), open, open)),
                structure: open > 0,
            })
        };
        Ok(match what {
            What::Type { at } => replace(at, at, vec![self.schema.text(TYPED)], 0),
            What::Delete { start, end } => replace(start, end, Vec::new(), 0),
            What::Split { at } => {
                let halves = [(); 2].map(|()| self.block(headings, Vec::new()));
                let halves = halves.into_iter().collect::<Result<_>>()?;
                replace(at, at, halves, 1)
            }
            What::Join { at } => Step::Replace(ReplaceStep {
                span: span(begin + at, begin + at + 2),
                slice: Slice::default(),
                structure: true,
            }),
            What::Toggle { start, end, marked } => {
                let (span, mark) = (span(begin + start, begin + end), self.mark.clone());
                match marked {
                    true => Step::RemoveMark(RemoveMarkStep { span, mark }),
                    false => Step::AddMark(AddMarkStep { span, mark }),
                }
            }
            What::Level(level) => Step::Attr(AttrStep {
                pos: begin - 1,
                attr: "level".into(),
                value: level.into(),
            }),
        })
    }
}

fn span(from: usize, to: usize) -> Span {
    Span { from, to }
}

/// The growth of the document by the edit.
fn growth(what: What) -> isize {
    match what {
        What::Type { .. } => TYPED.len() as isize,
        What::Delete { start, end } => start as isize - end as isize,
        // The end of a block and the beginning of another.
        What::Split { .. } => 2,
        What::Join { .. } => -2,
        What::Toggle { .. } | What::Level(_) => 0,
    }
}

impl Subject for ProseMirror {
    fn name(&self) -> &'static str {
        "prosemirror"
    }

    fn note(&self) -> &'static str {
        "Step::apply, built before: a new immutable document, checked against its schema around the edit; no lock, \
         inverse, history, event or selection. This port copies what ProseMirror itself shares"
    }

    fn reset(&mut self, start: &Start, edits: &[Edit]) -> Result {
        let blocks = start.texts.iter();
        let blocks = blocks.map(|text| self.block(start.headings, vec![self.schema.text(text)]));
        self.document = self.node("doc", json!({}), blocks.collect::<Result<_>>()?)?;
        // The size of each block in the document, with both its ends.
        let mut sizes: Vec<_> = start.texts.iter().map(|text| text.len() + 2).collect();
        self.steps.clear();
        for edit in edits {
            let before: usize = sizes[..edit.block].iter().sum();
            let step = self.step(start.headings, before + 1, edit.what)?;
            self.steps.push(step);
            let size = &mut sizes[edit.block];
            *size = size.saturating_add_signed(growth(edit.what));
        }
        Ok(())
    }

    fn run(&mut self, _: &[Edit]) -> Result {
        let Self {
            schema,
            document,
            steps,
            ..
        } = self;
        schema.with_types(|| {
            for step in steps {
                *document = step.apply(document).map_err(|error| error.to_string())?;
            }
            Ok(())
        })
    }

    fn blocks(&self) -> Result<Vec<String>> {
        let block = |block: &DynamicNode| {
            let level = block.attrs.get("level").and_then(Value::as_u64);
            let texts = block.content().map_or(&[][..], Fragment::children).iter();
            line(
                level,
                texts.map(|text| (text.text_content(), !text.marks.is_empty())),
            )
        };
        let blocks = self
            .document
            .content()
            .ok_or("the document has no content")?;
        Ok(self
            .schema
            .with_types(|| blocks.children().iter().map(block).collect()))
    }
}
