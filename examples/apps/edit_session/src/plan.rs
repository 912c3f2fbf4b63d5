//! Plans: the next transaction of an editor.
//!
//! A plan is made on a snapshot and runs later. If another editor was faster, the plan is stale and
//! fails as a whole. Some plans are code instead, which reads the document when it runs.
//!
//! A successful plan always changes the document, so every commit makes a version. Plans keep the
//! size of the document about constant: long texts tend to be shortened and short ones to grow, and
//! the number of nodes behaves alike.

use std::ops::Range;

use doclock::dsl::{
    add_child, control, create, delete_node, element, move_node, op, remove_child, set_attrs,
    set_text, text_node,
};
use doclock::{
    Snapshot, View,
    document::{EditError, Mark, Node, NodeSpec, Text},
    transaction::{NodeOperation, Operation},
};

use crate::doom::Doom;
use crate::random::Random;
use crate::rich;
use crate::splice::Splice;
use crate::walk::{TEXT, Walk};

/// The length towards which texts tend.
const TYPICAL: usize = 160;
/// One plan in so many is made to fail.
const DOOMED: usize = 20;
/// The most marks on one text.
const MARKS: usize = 8;

/// A planned transaction.
pub struct Plan {
    pub operations: Vec<Operation>,
    /// Set if it has to fail.
    pub doom: Option<Doom>,
}

/// The mood of an editor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    Edit,
    Undo,
    Redo,
}

/// Makes the plans of one editor.
pub struct Planner {
    random: Random,
    /// The first part of the ids that it gives to nodes: no earlier planner has used it for this
    /// document.
    editor: String,
    number: usize,
    /// The number of nodes towards which the document tends.
    nodes: usize,
}

impl Planner {
    pub fn new(editor: String, random: Random, nodes: usize) -> Self {
        Self {
            random,
            editor,
            number: 0,
            // In a tiny document, most plans would be stale.
            nodes: nodes.max(64),
        }
    }

    pub fn mood(&mut self) -> Mood {
        match self.random.below(100) {
            0..8 => Mood::Undo,
            8..13 => Mood::Redo,
            _ => Mood::Edit,
        }
    }

    pub fn next(&mut self, document: &Snapshot) -> Plan {
        self.number += 1;
        let operations = self.edit(document);
        match self.random.below(DOOMED) {
            0 => {
                let id = format!("{}-scratch-{}", self.editor, self.number);
                let (operations, doom) = Doom::after(operations, id, document, &mut self.random);
                Plan {
                    operations,
                    doom: Some(doom),
                }
            }
            _ => Plan {
                operations,
                doom: None,
            },
        }
    }

    fn edit(&mut self, document: &Snapshot) -> Vec<Operation> {
        let walk = Walk::down(document, &mut self.random);
        let text = walk.text();
        let edit = match self.random.below(100) {
            0..20 => text.map(|text| self.write(text)),
            20..28 => text.map(|text| self.strike_keys(text)),
            28..34 => text.map(|text| self.rewrite(text)),
            34..40 => Some(self.write_wherever()),
            40..44 => text.map(|text| self.mark(text)),
            44..48 => self.format(&walk),
            48..62 => self.add_or_delete(document, &walk),
            62..68 => self.move_block(document, &walk),
            68..72 => self.cut_and_paste(document, &walk),
            _ => self.enrich(document, &walk),
        };
        edit.or_else(|| self.add_or_delete(document, &walk))
            .unwrap_or_else(|| self.add(document))
    }

    /// Types some words, or deletes some characters.
    fn write(&mut self, text: &Node) -> Vec<Operation> {
        let splice = splice(text.text(), &mut self.random);
        vec![splice.operation().on(text.id())]
    }

    /// Types or deletes character by character, all in one transaction.
    fn strike_keys(&mut self, text: &Node) -> Vec<Operation> {
        let Splice(at, removed, inserted) = splice(text.text(), &mut self.random);
        let deleted = (0..removed).map(|_| Splice(at, 1, "".into()));
        let typed = inserted.chars().enumerate().map(|(nth, key)| {
            let mut bytes = [0; 4];
            Splice(at + nth, 0, (&*key.encode_utf8(&mut bytes)).into())
        });
        let keys: Vec<_> = deleted.chain(typed).map(|key| key.operation()).collect();
        vec![control(text.id(), keys)]
    }

    /// Replaces a part of a text, or the whole if it is short.
    fn rewrite(&mut self, text: &Node) -> Vec<Operation> {
        let words = self.random.words();
        let len = text.text().len();
        let new = match len {
            ..20 => set_text(words),
            _ => {
                let Range { start, end } = stretch(len, &mut self.random);
                Splice(start, end - start, words.into()).operation()
            }
        };
        vec![control(text.id(), [new, self.stamp()])]
    }

    /// Writes into any text that it finds when it runs. Never stale.
    fn write_wherever(&mut self) -> Vec<Operation> {
        let random = self.random.split();
        let write = op(move |transaction| -> Result<(), EditError> {
            let mut random = random.clone();
            let text = Walk::down(transaction, &mut random).text();
            if let Some((id, text)) = text.map(|node| (node.id().clone(), node.text())) {
                let Splice(at, removed, inserted) = splice(text, &mut random);
                return transaction.replace_text(&id, at..at + removed, inserted);
            }
            match transaction.root().cloned() {
                Some(root) => transaction
                    .insert(paragraph(&mut random), &root, None)
                    .map(drop),
                None => transaction.create(paragraph(&mut random)).map(drop),
            }
        });
        vec![write]
    }

    /// Marks a range of a text.
    fn mark(&mut self, text: &Node) -> Vec<Operation> {
        let id = text.id().clone();
        let kind = self.random.pick(["bold", "em", "code", "strikethrough"]);
        let random = self.random.split();
        let mark = op(move |transaction| -> Result<(), EditError> {
            // If the text no longer exists, the next operation fails.
            let Some(node) = transaction.node(&id) else {
                return Ok(());
            };
            let range = stretch(node.text().len(), &mut random.clone());
            let kept = node.marks().iter().take(MARKS - 1).cloned();
            let marks: Vec<_> = kept.chain([Mark::new(kind, range)]).collect();
            transaction.set_marks(&id, marks)
        });
        vec![mark, self.stamp().on(text.id())]
    }

    /// An edit that only a rich text editor has.
    fn enrich(&mut self, document: &Snapshot, walk: &Walk<'_>) -> Option<Vec<Operation>> {
        let mut edit = rich::edit(document, walk, &mut self.random)?;
        edit.push(self.stamp().on(document.root()?));
        Some(edit)
    }

    /// Sets attributes of a block.
    fn format(&mut self, walk: &Walk<'_>) -> Option<Vec<Operation>> {
        let (_, block) = walk.block(&mut self.random)?;
        let attribute = match block.kind() {
            "heading" => ("level", (1 + self.random.below(6)).into()),
            "code-block" => (
                "language",
                self.random.pick(["rust", "json", "text"]).into(),
            ),
            "list" => ("ordered", (self.random.below(2) == 0).into()),
            _ => (
                "align",
                self.random.pick(["left", "center", "right"]).into(),
            ),
        };
        Some(vec![control(
            block.id(),
            [set_attrs([attribute]), self.stamp()],
        )])
    }

    /// The more nodes there are, the more likely is a deletion.
    fn add_or_delete(&mut self, document: &Snapshot, walk: &Walk<'_>) -> Option<Vec<Operation>> {
        if self.random.below(2 * self.nodes) >= document.len() {
            return Some(self.add(document));
        }
        let (_, block) = walk.innermost_block()?;
        Some(vec![delete_node().on(block.id())])
    }

    /// Adds a block, in one step or in several.
    fn add(&mut self, document: &Snapshot) -> Vec<Operation> {
        let walk = Walk::down(document, &mut self.random);
        let Some(container) = walk.container(None) else {
            return vec![create(paragraph(&mut self.random))];
        };
        let index = self.random.below(container.children().len() + 1);
        match self.random.below(3) {
            0 => {
                let id = format!("{}-{}", self.editor, self.number);
                let item = element("list-item", [paragraph(&mut self.random)]);
                vec![
                    create(element("list", [item]).with_id(id.as_str())),
                    control(
                        id.as_str(),
                        [
                            add_child(element("list-item", [paragraph(&mut self.random)]), 1),
                            set_attrs([("ordered", false.into())]),
                            move_node(container.id(), index),
                        ],
                    ),
                ]
            }
            1 => {
                let quote = element("block-quote", [paragraph(&mut self.random)]);
                vec![add_child(quote, index).on(container.id())]
            }
            _ => vec![add_child(paragraph(&mut self.random), index).on(container.id())],
        }
    }

    fn move_block(&mut self, document: &Snapshot, walk: &Walk<'_>) -> Option<Vec<Operation>> {
        let (parent, block) = walk.block(&mut self.random)?;
        let (container, index) = self.place_for(block, parent, document)?;
        let to = move_node(container.id(), index);
        Some(vec![control(block.id(), [to, self.stamp()])])
    }

    /// Detaches a block and attaches it elsewhere.
    fn cut_and_paste(&mut self, document: &Snapshot, walk: &Walk<'_>) -> Option<Vec<Operation>> {
        let (parent, block) = walk.block(&mut self.random)?;
        let (container, index) = self.place_for(block, parent, document)?;
        Some(vec![
            remove_child(block.id()).on(parent.id()),
            add_child(block.id(), index).on(container.id()),
        ])
    }

    fn place_for<'v>(
        &mut self,
        block: &Node,
        parent: &Node,
        document: &'v Snapshot,
    ) -> Option<(&'v Node, usize)> {
        let container = Walk::down(document, &mut self.random).container(Some(block))?;
        let leaves = usize::from(container.id() == parent.id());
        let index = self.random.below(container.children().len() + 1 - leaves);
        Some((container, index))
    }

    /// Sets a unique stamp, so the transaction changes the document even if the rest of the plan
    /// does not.
    fn stamp(&self) -> NodeOperation {
        let stamp = format!("{} #{}", self.editor, self.number);
        set_attrs([("edited", stamp.into())])
    }
}

fn paragraph(random: &mut Random) -> NodeSpec {
    let text: String = (0..=random.below(8)).map(|_| random.words()).collect();
    element("paragraph", [text_node(TEXT, text)])
}

/// Inserted words or deleted characters: the longer the text, the more likely a deletion.
fn splice(text: &Text, random: &mut Random) -> Splice {
    let len = text.len();
    if random.below(len + TYPICAL) < TYPICAL {
        return Splice(random.below(len + 1), 0, random.words().into());
    }
    let Range { start, end } = stretch(len, random);
    Splice(start, end - start, "".into())
}

/// Some characters of a text; at least one, if it has any.
fn stretch(len: usize, random: &mut Random) -> Range<usize> {
    let start = random.below(len);
    start..(start + 1 + random.below(20)).min(len)
}
