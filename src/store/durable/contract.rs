//! The contract of a journal, as a test.

use super::{Journal, JournalError, JournalWrite, StoredPart};

/// The parts that a journal has loaded.
#[derive(Debug, Default, PartialEq, Eq)]
struct Parts {
    head: Option<Vec<u8>>,
    nodes: Vec<Vec<u8>>,
    records: Vec<(u64, Vec<u8>)>,
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
    let node = |id: &str, text: Option<&str>| (id.to_owned(), text.map(bytes));
    let empty = JournalWrite::default;
    let long = "long ".repeat(100_000);
    let steps = [
        ("an empty write", empty()),
        (
            "a head",
            JournalWrite {
                head: Some(bytes("head 1")),
                ..empty()
            },
        ),
        (
            "records",
            JournalWrite {
                records: vec![(1, bytes("one")), (2, bytes("two")), (300, bytes(&long))],
                ..empty()
            },
        ),
        (
            "a checkpoint",
            JournalWrite {
                head: Some(bytes("head 2")),
                nodes: vec![
                    node("a", Some("A")),
                    node("b", Some(&long)),
                    node("c", Some("")),
                ],
                removed_through: Some(2),
                ..empty()
            },
        ),
        (
            "everything at once",
            JournalWrite {
                head: Some(bytes("head 3")),
                records: vec![(301, bytes("later")), (302, bytes("last"))],
                nodes: vec![node("a", None), node("b", Some("B")), node("missing", None)],
                removed_through: Some(300),
            },
        ),
        (
            "a removal of all records",
            JournalWrite {
                removed_through: Some(u64::MAX),
                ..empty()
            },
        ),
    ];
    let mut expected = Parts::default();
    let mut nodes = std::collections::BTreeMap::new();
    for (name, write) in steps {
        let found = load(&mut open()).map_err(|error| format!("before {name}: {error}"))?;
        compare(&found, &expected, name)?;
        let mut journal = open();
        load(&mut journal).map_err(|error| format!("before {name}: {error}"))?;
        let written = journal.write(&write);
        written.map_err(|error| format!("{name}: {error}"))?;
        if write.head.is_some() {
            expected.head.clone_from(&write.head);
        }
        expected.records.extend(write.records);
        let removed = write.removed_through;
        let remains = |version: u64| removed.is_none_or(|removed| version > removed);
        expected.records.retain(|(version, _)| remains(*version));
        for (id, node) in write.nodes {
            match node {
                Some(node) => nodes.insert(id, node),
                None => nodes.remove(&id),
            };
        }
        expected.nodes = nodes.values().cloned().collect();
        expected.nodes.sort();
    }
    let found = load(&mut open()).map_err(|error| format!("at the end: {error}"))?;
    compare(&found, &expected, "the end")?;
    let stop = JournalError::corrupt("stop");
    let stopped = open().load(&mut |_| Err(stop.clone()));
    match stopped == Err(stop) {
        true => Ok(()),
        false => Err("`load` does not return the error of `part`".into()),
    }
}

fn load(journal: &mut impl Journal) -> Result<Parts, JournalError> {
    let mut parts = Parts::default();
    journal.load(&mut |part| {
        match part {
            StoredPart::Head(head) => parts.head = Some(head.to_vec()),
            StoredPart::Node(node) => parts.nodes.push(node.to_vec()),
            StoredPart::Record { version, bytes } => parts.records.push((version, bytes.to_vec())),
        }
        Ok(())
    })?;
    parts.nodes.sort();
    Ok(parts)
}

fn compare(found: &Parts, expected: &Parts, before: &str) -> Result<(), String> {
    let differs = [
        (found.head != expected.head, "the head"),
        (found.nodes != expected.nodes, "the nodes"),
        (
            found.records != expected.records,
            "the records, or their order",
        ),
    ];
    match differs.into_iter().find(|(differs, _)| *differs) {
        Some((_, what)) => Err(format!("before {before}: {what} are not what was written")),
        None => Ok(()),
    }
}
