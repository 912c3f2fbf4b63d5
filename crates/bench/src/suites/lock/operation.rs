//! The cost of one operation without contention, with and without the rest of the store.

use doclock::dsl::{create, delete_text_range, insert_text, text_node};
use doclock::{DataStore, NodeId, TransactionManager, transaction::Operation};

use super::SUITE;
use crate::Result;
use crate::bare::Bare;
use crate::measure::{interleaved, timed};
use crate::random::SplitMix;
use crate::report::{Report, Unit};

const TEXTS: usize = 64;

/// The text every node starts with: forty characters, one byte each.
const TEXT: &str = "The quick brown fox jumps over lazy dogs";

/// Edits per subject and round, half of them inserts and half deletes.
const EDITS: usize = 200_000;

const ABOUT: &str = "\
One operation: insert a character into one of 64 texts of 40 characters, or delete it again.
  doclock (execute)    TransactionManager::execute with that operation
  bare operations      the same operation on a document without a lock: no owner, events, statistics
  bare overlay commit  the same edit as a call, in an overlay that is folded into such a document";

/// Inserts or deletes one character.
#[derive(Clone, Copy)]
struct Edit {
    text: usize,
    offset: usize,
    insert: bool,
}

trait Subject {
    fn name(&self) -> &'static str;

    fn edit(&mut self, edit: Edit) -> Result;
}

pub fn run(rounds: usize, report: &Report) -> Result {
    report.text(ABOUT)?;
    let mut subjects: Vec<Box<dyn Subject>> = vec![
        Box::new(Executed::open()?),
        Box::new(Operations(Alone::open()?)),
        Box::new(Overlay(Alone::open()?)),
    ];
    let edits = edits();
    let spreads = interleaved(rounds, &mut subjects, |_, subject| {
        let time = timed(|| edits.iter().try_for_each(|&edit| subject.edit(edit)))?;
        Ok(Some(time.as_secs_f64() * 1e9 / edits.len() as f64))
    })?;
    let names = subjects.iter().map(|subject| subject.name());
    let rows = names.zip(spreads.iter().copied());
    report.case(SUITE, "one operation", Unit::NsPerTransaction, rows)?;
    if let [Some(executed), Some(operations), Some(overlay)] = spreads[..] {
        report.remark(&format!(
            "execute costs {:.0} ns more than the overlay's commit, {:.0} ns more than the operation without a lock",
            executed.median - overlay.median,
            executed.median - operations.median,
        ))?;
    }
    Ok(())
}

/// Inserts at pseudo-random positions, each undone at once.
fn edits() -> Vec<Edit> {
    let mut random = SplitMix(42);
    let edit = |_| {
        let (text, offset) = (random.below(TEXTS), random.below(TEXT.len() + 1));
        [true, false].map(|insert| Edit {
            text,
            offset,
            insert,
        })
    };
    (0..EDITS / 2).flat_map(edit).collect()
}

impl Edit {
    fn operation(self, texts: &[NodeId]) -> Operation {
        let (id, offset) = (&texts[self.text], self.offset);
        if self.insert {
            insert_text(offset, "x").on(id)
        } else {
            delete_text_range(offset, offset + 1).on(id)
        }
    }
}

struct Executed {
    manager: TransactionManager,
    texts: Vec<NodeId>,
}

impl Executed {
    fn open() -> Result<Self> {
        let manager = TransactionManager::for_owner(DataStore::new(), "benchmark");
        let creations = vec![create(text_node("inline-text", TEXT)); TEXTS];
        let created = manager.execute(creations)?.operations;
        let texts = created
            .iter()
            .flat_map(|operation| operation.created.clone());
        let texts = texts.collect();
        Ok(Self { manager, texts })
    }
}

impl Subject for Executed {
    fn name(&self) -> &'static str {
        "doclock (execute)"
    }

    fn edit(&mut self, edit: Edit) -> Result {
        self.manager.execute([edit.operation(&self.texts)])?;
        Ok(())
    }
}

/// A document that is not shared.
struct Alone {
    document: Bare,
    texts: Vec<NodeId>,
}

impl Alone {
    fn open() -> Result<Self> {
        let mut document = Bare::new();
        let texts = (0..TEXTS).map(|_| document.create(text_node("inline-text", TEXT)));
        let texts = texts.collect::<std::result::Result<_, _>>()?;
        Ok(Self { document, texts })
    }
}

struct Operations(Alone);

impl Subject for Operations {
    fn name(&self) -> &'static str {
        "bare operations"
    }

    fn edit(&mut self, edit: Edit) -> Result {
        let Alone { document, texts } = &mut self.0;
        document.execute([edit.operation(texts)])?;
        Ok(())
    }
}

struct Overlay(Alone);

impl Subject for Overlay {
    fn name(&self) -> &'static str {
        "bare overlay commit"
    }

    fn edit(&mut self, edit: Edit) -> Result {
        let Alone { document, texts } = &mut self.0;
        let (start, id) = (edit.offset, &texts[edit.text]);
        if edit.insert {
            document.splice(id, start..start, "x")?;
        } else {
            document.splice(id, start..start + 1, "")?;
        }
        Ok(())
    }
}
