//! Nodes that are read before the document is loaded: pages of the file and decoded nodes count as
//! steps.

use crate::dsl::*;
use crate::durable::{DurableOptions, Journal, JournalWrite, OpenError, OpenProgress, RedbJournal};
use crate::steps::counted;
use crate::{DataStore, TransactionManager};

/// The pages and nodes that the first screen of a document takes among so many others in the file,
/// which was closed, or which a kill has left after a small write.
fn steps_of_first_screen(others: usize, is_closed: bool) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.doclock");
    let store = DataStore::open(&path).unwrap();
    let manager = TransactionManager::new(store.clone());
    let texts = (0..20).map(|nth| text_node("paragraph", "Hello").with_id(format!("p{nth}")));
    let page = element("page", texts).with_id("page");
    manager
        .execute([create(page), set_root().on("page")])
        .unwrap();
    store.close().unwrap();
    drop((store, manager));
    // Entries that only a load would read. The keys of some are before those of the page.
    let mut journal = RedbJournal::open(&path, |_| {}).unwrap();
    let keys = (0..others).map(|nth| format!("node/{}{nth:07}", ["a", "p", "z"][nth % 3]));
    let mut write = JournalWrite {
        entries: keys.map(|key| (key, Some(vec![0; 60]))).collect(),
        ..JournalWrite::default()
    };
    journal.write(&write).unwrap();
    write.entries.truncate(1);
    journal.write(&write).unwrap();
    let killed = folder.path().join("killed.doclock");
    std::fs::copy(&path, &killed).unwrap();
    journal.close().unwrap();
    drop(journal);

    let path = if is_closed { path } else { killed };
    let begins = OpenProgress::Checking(0.0);
    let options = DurableOptions::new().progress(move |reached| assert_eq!(reached, begins));
    let options = options.before_load(|document| {
        let root = document.root().cloned().unwrap();
        let page = document.node(root)?.unwrap();
        for id in page.children().iter() {
            assert_eq!(document.node(id)?.unwrap().text(), &"Hello");
        }
        Err(OpenError::Missing)
    });
    let (opened, steps) = counted(|| DataStore::open_with(&path, options));
    assert_eq!(opened.unwrap_err(), OpenError::Missing);
    steps
}

/// A million, if `DOCLOCK_NODES` sets them.
#[test]
fn durable_14_the_first_screen_takes_a_logarithm_of_the_nodes() {
    let most = std::env::var("DOCLOCK_NODES").ok();
    let most = most.and_then(|most| most.parse().ok()).unwrap_or(100_000);
    for is_closed in [true, false] {
        let [few, many] = [most / 100, most].map(|others| steps_of_first_screen(others, is_closed));
        println!(
            "{few} steps among {} nodes, {many} among {most}",
            most / 100
        );
        assert!(few >= 3 * 21, "{few} steps are not all of them");
        // For each of the entries one level of the tree more, or two.
        assert!(many <= few + 2 * 24, "{few} steps, then {many}");
    }
}
