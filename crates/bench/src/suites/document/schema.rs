//! The cost of a schema.

use doclock::schema::{AttributeSpec, MarkType, NodeType, Schema, ValueType};

use super::SUITE;
use super::doclock::Doclock;
use super::edits::{Kind, STRONG};
use super::operations::{SIZES, Subject, measure};
use crate::Result;
use crate::report::{Report, Unit};

pub const NOTE: (&str, &str) = (
    "doclock (schema)",
    "as doclock (editor), and no commit passes that the schema does not allow; the same one that prosemirror has",
);

const KINDS: [Kind; 2] = [Kind::Type, Kind::Split];

fn schema() -> Result<Schema> {
    let level = AttributeSpec::new(ValueType::Integer).with_default(1);
    let block = || NodeType::new().group("block").content("text*");
    let schema = Schema::builder()
        .node("doc", NodeType::new().content("block+"))
        .node("paragraph", block())
        .node("heading", block().attribute("level", level))
        .node("text", NodeType::new())
        .mark(STRONG, MarkType::new());
    Ok(schema.build()?)
}

pub fn run(rounds: usize, report: &Report) -> Result {
    let mut subjects: Vec<Box<dyn Subject>> = vec![
        Box::new(Doclock::editor("doclock (schema)").with_schema(schema()?)),
        Box::new(Doclock::editor("doclock (no schema)")),
    ];
    for size in SIZES {
        for kind in KINDS {
            let case = format!("schema, {}/{}", kind.name(), size.blocks);
            let spreads = measure(rounds, &mut subjects, kind, size)?;
            let names = subjects.iter().map(|subject| subject.name());
            report.case(SUITE, &case, Unit::NsPerTransaction, names.zip(spreads))?;
        }
    }
    Ok(())
}
