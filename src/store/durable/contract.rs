//! The contract of a journal, as a test.

use std::collections::BTreeMap;

use super::{Journal, JournalError, JournalWrite, StoredPart};

/// The parts that a journal has stored.
#[derive(Debug, Default, PartialEq, Eq)]
struct JournalContents {
    entries: BTreeMap<String, Vec<u8>>,
    blocks: Vec<(u64, Vec<u8>)>,
}

/// Checks that a journal keeps the contract of [`Journal`], apart from power cuts: for the tests of
/// a journal of your own. `open` opens the journal, which is empty at first, and is called again
/// after each write, when the journal before was dropped.
///
/// # Errors
///
/// A sentence about the first call that did not do what the contract says.
pub fn check_journal<J: Journal>(mut open: impl FnMut() -> J) -> Result<(), String> {
    let bytes = |text: &str| text.as_bytes().to_vec();
    let entry = |key: &str, text: Option<&str>| (key.to_owned(), text.map(bytes));
    let block = |number, text: &str| Some((number, bytes(text)));
    let empty = JournalWrite::default;
    let long = "long ".repeat(100_000);
    let steps = [
        ("an empty write", empty()),
        (
            "an entry",
            JournalWrite {
                entries: vec![entry("head", Some("head 1"))],
                ..empty()
            },
        ),
        (
            "a block",
            JournalWrite {
                block: block(1, "one"),
                ..empty()
            },
        ),
        (
            "a long block",
            JournalWrite {
                block: block(2, &long),
                ..empty()
            },
        ),
        (
            "a block of a number that does not follow",
            JournalWrite {
                block: block(300, ""),
                ..empty()
            },
        ),
        (
            "a checkpoint",
            JournalWrite {
                entries: vec![
                    entry("head", Some("head 2")),
                    entry("node/a", Some("A")),
                    entry("node/b", Some(&long)),
                    entry("note/c", Some("")),
                ],
                removed_through: Some(2),
                ..empty()
            },
        ),
        (
            "everything at once",
            JournalWrite {
                entries: vec![
                    entry("node/a", None),
                    entry("node/b", Some("B")),
                    entry("missing", None),
                ],
                block: block(301, "later"),
                removed_through: Some(300),
                version: 7,
                ..empty()
            },
        ),
        (
            "a removal of all blocks",
            JournalWrite {
                removed_through: Some(u64::MAX),
                ..empty()
            },
        ),
    ];
    let mut expected = JournalContents::default();
    for (name, write) in steps {
        compare(&mut open(), &expected, name)?;
        let mut journal = open();
        load(&mut journal).map_err(|error| format!("before {name}: {error}"))?;
        let written = journal.write(&write);
        written.map_err(|error| format!("{name}: {error}"))?;
        expected.blocks.extend(write.block);
        let removed = write.removed_through;
        let remains = |number: u64| removed.is_none_or(|removed| number > removed);
        expected.blocks.retain(|(number, _)| remains(*number));
        for (key, entry) in write.entries {
            match entry {
                Some(entry) => expected.entries.insert(key, entry),
                None => expected.entries.remove(&key),
            };
        }
    }
    compare(&mut open(), &expected, "the end")?;
    // As for a replica that becomes the owner.
    let mut journal = open();
    let loaded = journal.load_after(300, "head", &mut |_| Ok(()));
    let last = JournalWrite {
        block: block(400, "last"),
        ..empty()
    };
    let written = loaded.and_then(|()| journal.write(&last));
    written.map_err(|error| format!("a write after `load_after`: {error}"))?;
    let stop = JournalError::corrupt("stop");
    let stopped = journal.load(&mut |_| Err(stop.clone()));
    if stopped != Err(stop.clone()) {
        return Err("`load` does not return the error of `part`".into());
    }
    match journal.load_after(0, "head", &mut |_| Err(stop.clone())) == Err(stop) {
        true => Ok(()),
        false => Err("`load_after` does not return the error of `part`".into()),
    }
}

impl JournalContents {
    fn add(&mut self, part: StoredPart<'_>) -> Result<(), JournalError> {
        match part {
            StoredPart::Entry { key, bytes } => {
                self.entries.insert(key.to_owned(), bytes.to_vec());
            }
            StoredPart::Block { number, bytes } => self.blocks.push((number, bytes.to_vec())),
        }
        Ok(())
    }

    /// The entry of this key, and the blocks of greater numbers.
    fn after(&self, number: u64, key: &str) -> Self {
        let entry = self.entries.get_key_value(key);
        let entry = entry.map(|(key, entry)| (key.clone(), entry.clone()));
        let blocks = self.blocks.iter().filter(|(block, _)| *block > number);
        Self {
            entries: entry.into_iter().collect(),
            blocks: blocks.cloned().collect(),
        }
    }
}

fn load(journal: &mut impl Journal) -> Result<JournalContents, JournalError> {
    let mut contents = JournalContents::default();
    journal.load(&mut |part| contents.add(part))?;
    Ok(contents)
}

fn compare(
    journal: &mut impl Journal,
    expected: &JournalContents,
    before: &str,
) -> Result<(), String> {
    let found = load(journal).map_err(|error| format!("before {before}: {error}"))?;
    let what = match (
        found.entries == expected.entries,
        found.blocks == expected.blocks,
    ) {
        (true, true) => return compare_after(journal, expected, before),
        (false, _) => "the entries",
        (true, false) => "the blocks, or their order,",
    };
    Err(format!("before {before}: {what} are not what was written"))
}

/// Compares what the journal loads after a block.
fn compare_after(
    journal: &mut impl Journal,
    expected: &JournalContents,
    before: &str,
) -> Result<(), String> {
    for number in [0, 1, 2, 300, u64::MAX] {
        for key in ["head", "node/a", "missing"] {
            let mut found = JournalContents::default();
            let loaded = journal.load_after(number, key, &mut |part| found.add(part));
            loaded.map_err(|error| format!("before {before}: {error}"))?;
            if found != expected.after(number, key) {
                return Err(format!(
                    "before {before}: the parts after block {number} with the entry {key:?} are not \
                     what was written"
                ));
            }
        }
    }
    Ok(())
}
