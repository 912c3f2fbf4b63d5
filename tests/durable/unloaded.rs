//! Nodes that are read before the document is loaded. The judge is the store that wrote them.
//!
//! `DOCLOCK_UNLOADED` sets the number of random histories, `SEED` their edits.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use doclock::document::{EditError, Mark, Node, NodeSpec, SplitPoint};
use doclock::durable::{
    DurableFile, DurableOptions, OpenError, OpenProgress, RedbJournal, UnloadedDocument,
};
use doclock::{DataStore, Draft, Editor, NodeId, Snapshot, TransactionManager, View, dsl::*};

use crate::common::{Dice, seed};
use crate::memory::Memory;
use crate::{Folder, earlier, later, parts};

/// What is read of a document before it is loaded: its version, its root, and these nodes.
type Early = (u64, Option<NodeId>, Vec<Result<Option<Node>, OpenError>>);

/// Options with which an open reads these nodes, and what it reads.
fn reading(
    options: DurableOptions,
    ids: impl IntoIterator<Item = NodeId>,
) -> (DurableOptions, Receiver<Early>) {
    let (sender, early) = channel();
    let ids: Vec<NodeId> = ids.into_iter().collect();
    let options = options.before_load(move |document| {
        let nodes = ids.iter().map(|id| document.node(id)).collect();
        let (version, root) = (document.version(), document.root().cloned());
        sender.send((version, root, nodes)).unwrap();
        Ok(())
    });
    (options, early)
}

/// Compares what was read early with the document of the store that wrote it.
fn compare(early: &Receiver<Early>, ids: &BTreeSet<NodeId>, expected: &Snapshot) {
    let (version, root, nodes) = early.try_recv().expect("it is called once");
    assert!(early.try_recv().is_err(), "it is called once");
    assert_eq!(version, expected.version());
    assert_eq!(root.as_ref(), expected.root());
    for (id, found) in ids.iter().zip(nodes) {
        assert_eq!(found.unwrap().as_ref(), expected.node(id), "{id}");
    }
}

/// A closed file with so many paragraphs on a page.
fn paragraphs(folder: &Folder, count: usize) -> Snapshot {
    let store = folder.open_with(later());
    let paragraph = |nth| match nth {
        // A page of its own, which is larger than the others.
        7 => text_node("paragraph", "a long text ".repeat(2_000)),
        _ => text_node("paragraph", format!("text {nth}")),
    };
    let page = element("page", (0..count).map(paragraph)).with_id("page");
    let manager = TransactionManager::new(store.clone());
    manager
        .execute([create(page), set_root().on("page")])
        .unwrap();
    store.close().unwrap();
    store.snapshot()
}

/// Options that note what an open reports and when it reads.
fn noting(options: DurableOptions) -> (DurableOptions, Arc<Mutex<Vec<Option<OpenProgress>>>>) {
    let noted: Arc<Mutex<Vec<_>>> = Arc::default();
    let [progress, read] = [&noted, &noted].map(Arc::clone);
    let options = options.progress(move |reached| progress.lock().unwrap().push(Some(reached)));
    let options = options.before_load(move |document| {
        assert_eq!(document.node("page")?.unwrap().kind(), "page");
        read.lock().unwrap().push(None);
        Ok(())
    });
    (options, noted)
}

#[test]
fn durable_14_a_closed_file_is_read_before_its_pages_are_checked_and_its_nodes_loaded() {
    for options in [later(), later().allow_readers()] {
        let folder = Folder::new();
        drop(folder.open_with(options.clone()));
        paragraphs(&folder, 3_000);
        folder.open_with(options.clone()).close().unwrap();
        let (options, noted) = noting(options);
        folder.open_with(options);
        let noted = noted.lock().unwrap();
        assert_eq!(noted[..2], [Some(OpenProgress::Checking(0.0)), None]);
        assert!(
            noted.contains(&Some(OpenProgress::Nodes(1_024))),
            "{noted:?}"
        );
    }
}

/// The file of a store with a commit after its checkpoint, as a kill would leave it now, and as it
/// was before the commit.
fn killed(store: &DataStore, path: &Path, edit: impl FnOnce(&mut Draft)) -> [Vec<u8>; 2] {
    let before = fs::read(path).unwrap();
    let mut transaction = store.begin("ann").unwrap();
    edit(&mut transaction);
    let version = transaction.commit().unwrap().version;
    store.wait_durable(version).wait().unwrap();
    [before, fs::read(path).unwrap()]
}

#[test]
fn durable_14_a_file_that_was_not_closed_is_read_before_its_check_too() {
    for options in [later(), later().allow_readers()] {
        let folder = Folder::new();
        paragraphs(&folder, 3_000);
        let store = folder.open_with(options.clone());
        let rename = |on: &mut Draft| on.set_attrs("page", [("title", "Notes".into())]).unwrap();
        let [_, bytes] = killed(&store, &folder.path(), rename);
        let killed = Folder::new();
        fs::write(killed.path(), bytes).unwrap();
        let (options, noted) = noting(options);
        assert_eq!(killed.open_with(options).version(), 2);
        let noted = noted.lock().unwrap();
        assert_eq!(noted[..2], [Some(OpenProgress::Checking(0.0)), None]);
    }
}

/// A power cut leaves a part of the pages of a commit. If they are not whole, an open takes the
/// commit before, and only its check of all pages can tell which one it takes.
#[test]
fn durable_14_what_is_read_early_after_a_power_cut_is_what_the_open_takes() {
    let seed = seed();
    let (mut taken_back, mut taken) = (0, 0);
    for round in 0..rounds() {
        let dice = &mut Dice(seed.wrapping_add(round));
        let folder = Folder::new();
        paragraphs(&folder, 50 + dice.below(400));
        let store = folder.open_with(later());
        let last = dice.below(4);
        for nth in 0..=last {
            let paragraphs = store.snapshot();
            let ids: Vec<NodeId> = paragraphs.nodes().map(|node| node.id().clone()).collect();
            let files = killed(&store, &folder.path(), |on| {
                for _ in 0..1 + dice.below(30) {
                    let id = &ids[dice.below(ids.len())];
                    on.insert_text(id, 0, "some words ".repeat(1 + dice.below(20)))
                        .unwrap();
                }
            });
            if nth < last {
                continue;
            }
            let [mut before, mut torn] = files;
            before.resize(torn.len(), 0);
            let one_in = 2 + dice.below(30);
            for (page, before) in torn.chunks_mut(4096).zip(before.chunks(4096)) {
                if page != before && dice.one_in(one_in) {
                    page.copy_from_slice(before);
                }
            }
            let copy = Folder::new();
            fs::write(copy.path(), torn).unwrap();
            let ids = BTreeSet::from_iter(ids);
            let (options, early) = reading(later(), ids.clone());
            let opened = copy.open_with(options).snapshot();
            compare(&early, &ids, &opened);
            let versions = [paragraphs.version(), store.version()];
            assert!(versions.contains(&opened.version()));
            taken_back += u64::from(opened.version() < store.version());
            taken += u64::from(opened.version() == store.version());
        }
    }
    println!("{taken_back} commits are taken back, {taken} are not");
    assert!(taken_back > rounds() / 10 && taken > rounds() / 10);
}

/// How many random histories are tried.
fn rounds() -> u64 {
    let set = std::env::var("DOCLOCK_UNLOADED").ok();
    set.and_then(|rounds| rounds.parse().ok()).unwrap_or(100)
}

/// Changes a random node.
fn edit(on: &mut Draft, dice: &mut Dice) -> Result<(), EditError> {
    let ids: Vec<NodeId> = on.nodes().map(|node| node.id().clone()).collect();
    if ids.is_empty() || dice.one_in(16) {
        return on.create(NodeSpec::new("page")).map(drop);
    }
    let [id, other] = [0, 1].map(|_| ids[dice.below(ids.len())].clone());
    let (text, children) = on
        .node(&id)
        .map(|node| (node.text().len(), node.children().len()))
        .unwrap();
    let at = SplitPoint {
        text: dice.below(text + 1),
        children: dice.below(children + 1),
    };
    let index = dice.below(children + 1);
    match dice.below(12) {
        0 => on.delete(id),
        1 | 2 => on.move_node(other, &id, index),
        3 => on.set_type(id, "heading"),
        4 => on.insert_text(id, at.text, "abc"),
        5 => on.set_marks(id, [Mark::new("bold", 0..at.text)]),
        6 => on.set_attrs(id, [("level", index.into())]),
        7 => on.set_root(&id),
        8 => on.split_node(id, at, None).map(drop),
        9 => {
            let next = on.next_sibling(&id).map(|next| next.id().clone());
            next.map_or(Ok(()), |next| on.join_nodes(id, next))
        }
        _ => {
            let leaf = NodeSpec::new("leaf").with_text("x");
            let node = NodeSpec::new("item").with_text("some words");
            on.insert(node.with_children([leaf]), &id, index).map(drop)
        }
    }
}

/// Of all nodes that ever were there, also of those that are deleted.
#[test]
fn durable_14_each_node_is_read_early_as_the_store_has_it() {
    let seed = seed();
    let (mut after_checkpoint, mut deleted) = (0, 0);
    for round in 0..rounds() {
        let dice = &mut Dice(seed.wrapping_add(round));
        let mut options = later()
            .checkpoint_after([0, 1_000, usize::MAX][dice.below(3)])
            .keep_log([0, usize::MAX][dice.below(2)]);
        if dice.one_in(4) {
            options = options.allow_readers();
        }
        let (folder, memory) = (Folder::new(), Memory::default());
        let in_file = dice.one_in(2);
        let open = |options| match in_file {
            true => folder.open_with(options),
            false => memory.open(options),
        };
        let mut ids = BTreeSet::from([NodeId::from("unknown")]);
        for _ in 0..1 + dice.below(3) {
            let store = open(options.clone());
            for _ in 0..dice.below(80) {
                let mut transaction = store.begin("ann").unwrap();
                // Some are refused.
                let edits: Vec<_> = (0..=dice.below(3))
                    .map(|_| edit(&mut transaction, dice))
                    .collect();
                ids.extend(transaction.nodes().map(|node| node.id().clone()));
                if edits.iter().all(Result::is_ok) {
                    transaction.commit().unwrap();
                }
            }
            let expected = store.snapshot();
            ids.extend(expected.nodes().map(|node| node.id().clone()));
            deleted += ids.len() - expected.len();
            store.wait_durable(expected.version()).wait().unwrap();
            let (early, read) = reading(options.clone(), ids.clone());
            // As a kill would leave it now, if it has anything yet.
            if in_file {
                let killed = Folder::new();
                fs::copy(folder.path(), killed.path()).unwrap();
                let file = DurableFile::read(killed.path()).unwrap();
                after_checkpoint += expected.version() - file.checkpoint().version();
                killed.open_with(early);
            } else {
                memory.copy().open(early);
            }
            compare(&read, &ids, &expected);
            store.close().unwrap();
            drop(store);
            let (early, read) = reading(options.clone(), ids.clone());
            assert_eq!(open(early).snapshot(), expected);
            compare(&read, &ids, &expected);
        }
    }
    println!("{after_checkpoint} commits after a checkpoint, {deleted} deleted nodes");
    assert!(after_checkpoint > 1_000 && deleted > 1_000);
}

#[test]
fn durable_14_a_file_with_nothing_but_records_is_read_early() {
    let [folder, killed] = [Folder::new(), Folder::new()];
    let store = folder.open_with(later());
    let ann = Editor::new(store.clone(), "ann");
    let page = element("page", [text_node("paragraph", "one").with_id("one")]);
    ann.execute([create(page.with_id("page")), set_root().on("page")])
        .unwrap();
    ann.execute(split_text_node(1).on("one")).unwrap();
    ann.undo().commit().unwrap();
    store.wait_durable(store.version()).wait().unwrap();
    fs::copy(folder.path(), killed.path()).unwrap();
    let file = DurableFile::read(killed.path()).unwrap();
    assert_eq!((file.checkpoint().len(), file.document().len()), (0, 2));
    let ids = BTreeSet::from(["one", "page"].map(NodeId::from));
    let (options, early) = reading(later(), ids.clone());
    killed.open_with(options);
    compare(&early, &ids, &store.snapshot());
}

#[test]
fn durable_12_a_file_in_json_is_read_early() {
    let folder = Folder::new();
    earlier::file(&folder);
    let document = DurableFile::read(folder.path()).unwrap().document().clone();
    let ids: BTreeSet<NodeId> = document.nodes().map(|node| node.id().clone()).collect();
    assert_eq!(ids.len(), 4);
    let (options, early) = reading(later(), ids.clone());
    folder.open_with(options);
    compare(&early, &ids, &document);

    let (options, early) = reading(later(), ids.clone());
    let folder = Folder::new();
    earlier::file(&folder);
    let journal = RedbJournal::open(folder.path(), |_| {}).unwrap();
    DataStore::open_journal(journal, options).unwrap();
    compare(&early, &ids, &document);
}

#[test]
fn durable_14_a_new_document_is_not_read_before_it_exists() {
    let never = |_: &mut UnloadedDocument<'_>| panic!("there is no document");
    let folder = Folder::new();
    folder
        .open_with(later().before_load(never))
        .close()
        .unwrap();
    Memory::default().open(later().before_load(never));
    let document = paragraphs(&folder, 3);
    let imported = Folder::new();
    let options = later().before_load(never).document(document.clone());
    assert_eq!(imported.open_with(options).snapshot(), document);
}

/// Damages each page of a file in turn.
#[test]
fn durable_14_a_damaged_page_is_an_error_that_names_it_and_never_another_node() {
    let seed = seed();
    let dice = &mut Dice(seed);
    let folder = Folder::new();
    let expected = paragraphs(&folder, 400);
    let ids: BTreeSet<NodeId> = expected.nodes().map(|node| node.id().clone()).collect();
    let bytes = fs::read(folder.path()).unwrap();
    let (mut named, mut read_all_the_same) = (0, 0);
    for page in 0..bytes.len() / 4096 {
        let mut damaged = bytes.clone();
        // Mostly a part that is used.
        let used = [16, 128, 4096][dice.below(3)];
        let at = dice.below(used);
        damaged[page * 4096 + at] ^= 1 << dice.below(8);
        fs::write(folder.path(), &damaged).unwrap();
        let (options, early) = reading(later(), ids.clone());
        let opened = DataStore::open_with(folder.path(), options);
        let (mut is_damaged, mut others) = (false, 0);
        if let Ok((_, _, nodes)) = early.try_recv() {
            for (id, found) in ids.iter().zip(nodes) {
                match found {
                    Ok(found) => {
                        assert_eq!(found.as_ref(), expected.node(id), "page {page}, {id}");
                        others += 1;
                    }
                    Err(OpenError::Corrupt(error)) => {
                        let message = error.to_string();
                        let part = format!("entry \"node/{id}\": the page at byte ");
                        assert!(message.contains(&part), "{message}");
                        is_damaged = true;
                        named += 1;
                    }
                    Err(error) => panic!("page {page}: {error}"),
                }
            }
        }
        read_all_the_same += usize::from(is_damaged && others > 0);
        match opened {
            Ok(store) => {
                assert!(!is_damaged, "page {page}");
                assert_eq!(store.snapshot(), expected);
            }
            Err(error) => assert!(fs::read(folder.path()).unwrap() == damaged, "{error}"),
        }
    }
    println!("{named} errors, {read_all_the_same} damages with other nodes beside them");
    assert!(named > 50 && read_all_the_same > 3);
}

#[test]
fn durable_14_an_error_or_a_panic_of_the_callback_ends_the_open_and_frees_the_file() {
    let [closed, killed] = [Folder::new(), Folder::new()];
    let document = paragraphs(&closed, 3);
    let store = closed.open();
    fs::copy(closed.path(), killed.path()).unwrap();
    store.close().unwrap();
    for folder in [closed, killed] {
        let bytes = fs::read(folder.path()).unwrap();
        let options = later().before_load(|document| {
            document.node("page")?;
            Err(OpenError::Missing)
        });
        let error = DataStore::open_with(folder.path(), options).unwrap_err();
        assert_eq!(error, OpenError::Missing);
        let options = later().before_load(|_| panic!("enough"));
        let open = || DataStore::open_with(folder.path(), options).map(drop);
        let panic = catch_unwind(AssertUnwindSafe(open)).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"enough"));
        assert!(
            fs::read(folder.path()).unwrap() == bytes,
            "the file has changed"
        );
        assert_eq!(folder.open().snapshot(), document);
    }
}

/// A read in a callback of an open that allows readers waited for that open, without end.
#[test]
fn durable_14_the_file_is_locked_while_it_is_read_early() {
    let folder = Folder::new();
    paragraphs(&folder, 3);
    for options in [later(), later().allow_readers()] {
        let (sender, results) = channel();
        let (path, again) = (folder.path(), options.clone());
        let attempt = move || {
            let opened = [options.clone(), later()].map(|it| DataStore::open_with(&path, it));
            let opened = opened.map(|it| it.map(drop));
            let read = DurableFile::read(&path).map(drop);
            sender.send((opened, read)).unwrap();
        };
        let [progress, early] = [attempt.clone(), attempt];
        let options = again.progress(move |_| progress()).before_load(move |_| {
            early();
            Ok(())
        });
        let (path, (sender, end)) = (folder.path(), channel());
        let open = move || sender.send(DataStore::open_with(path, options).map(drop));
        std::thread::spawn(open);
        let opened = end.recv_timeout(Duration::from_secs(60));
        opened.expect("the open ends").unwrap();
        let results: Vec<_> = results.try_iter().collect();
        assert!(results.len() > 1);
        let locked = || Err(OpenError::Locked);
        for result in results {
            assert_eq!(result, ([locked(), locked()], locked()));
        }
    }
    // Another file can be read meanwhile, and this one when it is open.
    let other = Folder::new();
    let document = paragraphs(&other, 3);
    let (path, (sender, read)) = (other.path(), channel());
    let options = later().allow_readers().before_load(move |_| {
        let file = DurableFile::read(&path)?;
        sender.send(file.document().clone()).unwrap();
        Ok(())
    });
    let store = folder.open_with(options);
    assert_eq!(read.recv().unwrap(), document);
    let file = DurableFile::read(folder.path()).unwrap();
    assert_eq!(*file.document(), store.snapshot());
}

/// Two nodes that name each other as parent, and a move into one of them.
#[test]
fn durable_14_a_forged_circle_of_parents_is_refused_before_the_load() {
    let memory = Memory::default();
    let store = memory.open(later());
    let inner = element("item", [element("item", []).with_id("b")]).with_id("a");
    let manager = TransactionManager::new(store.clone());
    let page = element("page", [inner]).with_id("page");
    let other = element("page", []).with_id("c");
    manager.execute([create(page), create(other)]).unwrap();
    store.close().unwrap();
    drop((store, manager));
    let store = memory.open(later());
    let manager = TransactionManager::new(store.clone());
    manager.execute(set_text("x").on("a")).unwrap();
    manager.execute(move_node("b", 0).on("c")).unwrap();
    store.wait_durable(store.version()).wait().unwrap();
    let forged = memory.copy();
    for (entry, parent) in [("node/a", "b"), ("node/b", "a")] {
        let mut stored = forged.stored();
        let bytes = stored.entries.get_mut(entry).unwrap();
        parts::change(bytes, |node| node[2] = parent.into());
    }
    let options = later().before_load(|_| panic!("it is not called"));
    let error = DataStore::open_journal(forged, options).unwrap_err();
    let error = error.to_string();
    assert!(error.ends_with("is part of a cycle"), "{error}");
}
