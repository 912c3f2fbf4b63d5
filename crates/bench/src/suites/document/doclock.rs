//! doclock: each edit is a transaction of one operation.

use std::sync::Arc;

use doclock::dsl::{
    delete_range, delete_text_range, element, insert_paragraph, insert_text, set_attrs, text_node,
    toggle_mark,
};
use doclock::{
    DataStore, Editor, NodeId, StoreOptions, TransactionManager, View,
    document::Node,
    events::Subscription,
    schema::Schema,
    transaction::{Operation, TextSpan},
};
use serde_json::Value;

use super::edits::{Edit, LEVEL, STRONG, Start, TYPED, What, line};
use super::operations::Subject;
use crate::Result;

enum Form {
    /// With a history, a selection, and a subscriber to the commits.
    Editor {
        editor: Editor,
        _news: Subscription,
    },
    Manager(TransactionManager),
}

pub struct Doclock {
    name: &'static str,
    schema: Option<Arc<Schema>>,
    form: Form,
    root: NodeId,
    blocks: Vec<NodeId>,
    /// The text of each block.
    texts: Vec<NodeId>,
}

/// A document with its root, its blocks and their texts, in order.
pub fn open(options: StoreOptions, start: &Start) -> Result<(DataStore, Vec<NodeId>)> {
    let store = DataStore::with_options(options);
    let kind = if start.headings {
        "heading"
    } else {
        "paragraph"
    };
    let block = |text: &String| {
        let block = element(kind, [text_node("text", text.as_str())]);
        match start.headings {
            true => block.with_attributes([("level", LEVEL.into())]),
            false => block,
        }
    };
    let root = element("doc", start.texts.iter().map(block));
    let mut transaction = store.begin("benchmark")?;
    let root = transaction.create(root)?;
    transaction.set_root(&root)?;
    transaction.commit()?;
    let snapshot = store.snapshot();
    let ids = snapshot.descendants(&root).map(|node| node.id().clone());
    let ids = ids.collect();
    Ok((store, ids))
}

impl Doclock {
    fn new(name: &'static str, form: Form) -> Self {
        Self {
            name,
            schema: None,
            form,
            root: NodeId::from("none"),
            blocks: Vec::new(),
            texts: Vec::new(),
        }
    }

    pub fn editor(name: &'static str) -> Self {
        Self::new(name, Self::edited(DataStore::new()))
    }

    pub fn manager(name: &'static str) -> Self {
        Self::new(
            name,
            Form::Manager(TransactionManager::new(DataStore::new())),
        )
    }

    /// In a store with a schema.
    pub fn with_schema(self, schema: Schema) -> Self {
        let schema = Some(Arc::new(schema));
        Self { schema, ..self }
    }

    fn edited(store: DataStore) -> Form {
        let _news = store.subscribe();
        let editor = Editor::new(store, "benchmark");
        Form::Editor { editor, _news }
    }

    fn store(&self) -> &DataStore {
        match &self.form {
            Form::Editor { editor, .. } => editor.store(),
            Form::Manager(manager) => manager.store(),
        }
    }

    fn operation(&self, edit: &Edit) -> Operation {
        let text = &self.texts[edit.block];
        match edit.what {
            What::Type { at } => insert_text(at, TYPED).on(text),
            What::Delete { start, end } => delete_text_range(start, end).on(text),
            What::Split { at } => insert_paragraph(at).on(text),
            What::Join { at } => {
                delete_range(TextSpan::to(at, &self.texts[edit.block + 1], 0)).on(text)
            }
            What::Toggle { start, end, .. } => toggle_mark(STRONG, start..end).on(text),
            What::Level(level) => set_attrs([("level", level.into())]).on(&self.blocks[edit.block]),
        }
    }
}

impl Subject for Doclock {
    fn name(&self) -> &'static str {
        self.name
    }

    fn note(&self) -> &'static str {
        match self.form {
            Form::Editor { .. } => {
                "Editor::execute: waits in the FIFO lock, validates, keeps each change with its inverse, publishes a \
                 version, sends the commit to a subscriber, records it for undo, maps the selection; atomic"
            }
            Form::Manager(_) => {
                "TransactionManager::execute: the same without history, selection and subscriber"
            }
        }
    }

    fn reset(&mut self, start: &Start, _: &[Edit]) -> Result {
        let mut options = StoreOptions::new();
        if let Some(schema) = &self.schema {
            options = options.schema(Arc::clone(schema));
        }
        let (store, ids) = open(options, start)?;
        self.form = match self.form {
            Form::Editor { .. } => Self::edited(store),
            Form::Manager(_) => Form::Manager(TransactionManager::new(store)),
        };
        self.root = ids[0].clone();
        self.blocks = ids[1..].iter().step_by(2).cloned().collect();
        self.texts = ids[2..].iter().step_by(2).cloned().collect();
        Ok(())
    }

    fn run(&mut self, edits: &[Edit]) -> Result {
        for edit in edits {
            let operation = self.operation(edit);
            match &self.form {
                Form::Editor { editor, .. } => editor.execute([operation])?,
                Form::Manager(manager) => manager.execute([operation])?,
            };
        }
        Ok(())
    }

    fn blocks(&self) -> Result<Vec<String>> {
        let snapshot = self.store().snapshot();
        let block = |block: &Node| {
            let level = block.attributes().get("level").and_then(Value::as_u64);
            line(level, snapshot.children(block.id()).flat_map(runs))
        };
        Ok(snapshot.children(&self.root).map(block).collect())
    }
}

/// The characters of a text one by one, and whether each is marked.
fn runs(text: &Node) -> Vec<(String, bool)> {
    let strong = |at: usize| {
        let mut marks = text.marks().iter();
        marks.any(|mark| {
            mark.kind == STRONG && mark.range.as_ref().is_none_or(|range| range.contains(&at))
        })
    };
    let characters = text.text().chars().enumerate();
    characters
        .map(|(at, character)| (character.to_string(), strong(at)))
        .collect()
}
