//! Whether the size of the store matters for a rollback.

use doclock::dsl::element;
use doclock::{DataStore, NodeId, View, document::NodeSpec};

use super::SUITE;
use crate::Result;
use crate::measure::{interleaved, timed};
use crate::random::SplitMix;
use crate::report::{Report, Unit};

pub const NOTE: (&str, &str) = (
    "doclock N nodes",
    "begin, a character into 10 texts of a store of N, rollback; the same 10 each time, or any 10",
);

/// The first is the question; the ratio refers to the second.
const SUBJECTS: [(&str, usize); 2] = [
    ("doclock 1000000 nodes", 1_000_000),
    ("doclock 1000 nodes", 1_000),
];

const TRANSACTIONS: usize = 1_000;

/// Nodes that a transaction changes.
const CHANGED: usize = 10;

/// Nodes of one subtree; each transaction creates a subtree.
const BLOCK: usize = 1_000;

struct Rollback {
    store: DataStore,
    texts: Vec<NodeId>,
}

impl Rollback {
    fn open(nodes: usize) -> Result<Self> {
        let store = DataStore::new();
        let mut texts = Vec::new();
        for _ in 0..nodes / BLOCK {
            let children = vec![NodeSpec::new("text").with_text("The quick brown fox"); BLOCK - 1];
            let mut transaction = store.begin("benchmark")?;
            let block = transaction.create(element("doc", children))?;
            texts.extend(transaction.children(&block).map(|text| text.id().clone()));
            transaction.commit()?;
        }
        Ok(Self { store, texts })
    }

    fn run(&self, anywhere: bool) -> Result {
        let mut random = SplitMix(42);
        for _ in 0..TRANSACTIONS {
            let mut transaction = self.store.begin("benchmark")?;
            for index in 0..CHANGED {
                let index = if anywhere {
                    random.below(self.texts.len())
                } else {
                    index * self.texts.len() / CHANGED
                };
                transaction.insert_text(&self.texts[index], 9, "x")?;
            }
            transaction.rollback();
        }
        Ok(())
    }
}

pub fn run(rounds: usize, report: &Report) -> Result {
    let mut subjects = SUBJECTS
        .iter()
        .map(|&(_, nodes)| Rollback::open(nodes).map(Box::new))
        .collect::<Result<Vec<_>>>()?;
    for (case, anywhere) in [
        ("rollback, same nodes", false),
        ("rollback, any nodes", true),
    ] {
        let spreads = interleaved(rounds, &mut subjects, |_, subject| {
            let version = subject.store.version();
            let time = timed(|| subject.run(anywhere))?;
            if subject.store.version() != version {
                return Err("a rollback has made a version".into());
            }
            Ok(Some(time.as_secs_f64() * 1e9 / TRANSACTIONS as f64))
        })?;
        let names = SUBJECTS.iter().map(|&(name, _)| name);
        report.case(SUITE, case, Unit::NsPerTransaction, names.zip(spreads))?;
    }
    Ok(())
}
