//! What can be read of damaged files. The judge is the history of the document: what is salvaged is
//! a version of it, or a marked part of one.
//!
//! `DOCLOCK_SALVAGES` sets the number of damages of each file, `SEED` the edits and the damages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use doclock::document::{EditError, Node, NodeSpec, check};
use doclock::durable::{OpenError, SalvageReport, SalvagedFile};
use doclock::inbox::{Inbox, Outcome};
use doclock::{DataStore, Draft, NodeId, Snapshot, TransactionManager, View, dsl::*};

use crate::common::Dice;
use crate::{Folder, add, later};

/// A file, and all versions of its document.
struct History {
    name: &'static str,
    versions: BTreeMap<u64, Snapshot>,
    file: Vec<u8>,
    /// The file at earlier moments.
    earlier: Vec<Vec<u8>>,
}

impl History {
    fn last(&self) -> &Snapshot {
        self.versions.last_key_value().unwrap().1
    }
}

fn number(name: &str, default: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn dice() -> Dice {
    let seed = number("SEED", u64::from(std::process::id()));
    println!("SEED={seed}");
    Dice(seed)
}

/// Changes a random node, or creates one.
fn edit(on: &mut Draft, dice: &mut Dice) -> Result<(), EditError> {
    let ids: Vec<NodeId> = on.nodes().map(|node| node.id().clone()).collect();
    let mut any = || ids[dice.below(ids.len())].clone();
    let (id, other) = (any(), any());
    let text = "some words ".repeat(1 + dice.below(9));
    match dice.below(8) {
        0 => on.delete(id),
        1 => on.move_node(other, &id, 0),
        2 => on.set_type(id, "heading"),
        3 => on.replace_text(id, 0..1, &*text),
        4 | 5 => on.insert_text(id, 0, &*text),
        _ => {
            let node = NodeSpec::new("paragraph").with_text(&*text);
            on.insert(node, &id, 0).map(drop)
        }
    }
}

/// Commits so many edits. With each, a keyed batch and a message create a node.
fn edit_often(store: &DataStore, history: &mut History, dice: &mut Dice, commits: usize) {
    let manager = TransactionManager::new(store.clone());
    let mut note = |store: &DataStore| {
        history.versions.insert(store.version(), store.snapshot());
    };
    for _ in 0..commits {
        let mut transaction = store.begin("ann").unwrap();
        // Some are refused.
        if edit(&mut transaction, dice).is_ok() {
            transaction.commit().unwrap();
        } else {
            drop(transaction);
        }
        note(store);
        let key = format!("key {}", store.version());
        let node = create(text_node("keyed", "").with_id(&*key));
        manager
            .transaction(node)
            .idempotent(&*key)
            .commit()
            .unwrap();
        note(store);
        let outcome = deliver(store, &format!("event {}", store.version()));
        assert!(matches!(outcome, Outcome::Done { .. }));
        note(store);
    }
}

fn deliver(store: &DataStore, event: &str) -> Outcome {
    let message = (event, SystemTime::UNIX_EPOCH + Duration::from_secs(9), 1);
    let inbox = Inbox::new(store, "in");
    let delivered = inbox.process(&message, |on, _| {
        on.create(NodeSpec::new("event").with_id(event))?;
        Ok(())
    });
    delivered.unwrap()
}

/// A file that was closed, one that a kill has left, and one that keeps its whole log.
fn histories(dice: &mut Dice) -> Vec<History> {
    let kinds = [("closed", 0), ("killed", 0), ("log", usize::MAX)];
    let made = kinds.into_iter().map(|(name, kept)| {
        let folder = Folder::new();
        let open = || folder.open_with(later().keep_log(kept).checkpoint_after(5_000));
        let mut history = History {
            name,
            versions: BTreeMap::from([(0, Snapshot::default())]),
            file: Vec::new(),
            earlier: Vec::new(),
        };
        let store = open();
        let mut transaction = store.begin("ann").unwrap();
        let page = NodeSpec::new("document").with_id("page");
        let root = transaction.create(page).unwrap();
        transaction.set_root(&root).unwrap();
        for nth in 0..200 {
            let text = format!("{nth} {}", "words ".repeat(dice.below(40)));
            let node = NodeSpec::new("paragraph").with_text(&*text);
            transaction.insert(node, &root, nth).unwrap();
        }
        transaction.commit().unwrap();
        history.versions.insert(1, store.snapshot());
        edit_often(&store, &mut history, dice, 10);
        store.close().unwrap();
        drop(store);
        let store = open();
        for _ in 0..12 {
            history.earlier.push(fs::read(folder.path()).unwrap());
            edit_often(&store, &mut history, dice, 2);
            store.wait_durable(store.version()).wait().unwrap();
        }
        if name != "killed" {
            store.close().unwrap();
        }
        history.file = fs::read(folder.path()).unwrap();
        history
    });
    made.collect()
}

const DAMAGES: [&str; 7] = [
    "flipped bit",
    "zeros",
    "noise",
    "lost write",
    "no header",
    "cut off",
    "several",
];
const PAGE: usize = 4096;

/// Damages a file in this way.
fn damage(history: &History, kind: &str, bytes: &mut Vec<u8>, dice: &mut Dice) {
    const SECTOR: usize = 512;
    // Most of a file is unused.
    let used = |at: &usize| {
        bytes[at / SECTOR * SECTOR..][..SECTOR]
            .iter()
            .any(|it| *it != 0)
    };
    let at = (0..99)
        .map(|_| dice.below(bytes.len() / SECTOR * SECTOR))
        .find(used);
    let at = at.unwrap_or_default();
    let size = (SECTOR << dice.below(5)).min(bytes.len());
    let place = at / size * size..(at / size * size + size).min(bytes.len());
    match kind {
        "flipped bit" => bytes[at] ^= 1 << dice.below(8),
        "zeros" => bytes[place].fill(0),
        "noise" => bytes[place]
            .iter_mut()
            .for_each(|byte| *byte = dice.below(256) as u8),
        "no header" => bytes[..[16, 64, 320, PAGE][dice.below(4)]].fill(0),
        "cut off" => bytes.truncate(at.max(4 * PAGE)),
        "several" => {
            for _ in 0..2 + dice.below(20) {
                damage(history, DAMAGES[dice.below(5)], bytes, dice);
            }
        }
        _ => {
            // A page is one that was there before.
            let earlier = &history.earlier[dice.below(history.earlier.len())];
            let pages = || (PAGE..earlier.len().min(bytes.len()) - PAGE).step_by(PAGE);
            let is_other = |at: &usize| {
                let [old, new] = [earlier, &*bytes].map(|file| &file[*at..*at + PAGE]);
                old != new && old[0] == new[0] && old[0] != 0
            };
            let other = pages().filter(is_other).count();
            if let Some(at) = pages().filter(is_other).nth(dice.below(other.max(1))) {
                bytes[at..at + PAGE].copy_from_slice(&earlier[at..at + PAGE]);
            }
        }
    }
}

/// How many damaged files gave what.
#[derive(Debug, Default)]
struct Outcomes {
    last: usize,
    earlier: usize,
    part: usize,
    nothing: usize,
    /// Of those with a part: how many nodes they had, and should have had.
    nodes: (usize, usize),
    /// How many an open refuses.
    refused: usize,
}

/// Checks that a salvaged document is what its report says, by the history.
fn judge(history: &History, document: &Snapshot, report: &SalvageReport) -> Result<(), String> {
    check(document).map_err(|error| error.to_string())?;
    let whole = history
        .versions
        .get(&report.version)
        .ok_or("there was no such version")?;
    if document.version() != report.version || document.len() != report.nodes {
        return Err("the report is of another document".to_owned());
    }
    if report.is_whole && document != whole {
        return Err("it is not whole".to_owned());
    }
    let set = |ids: &[NodeId]| ids.iter().cloned().collect::<BTreeSet<_>>();
    let (doubtful, detached) = (set(&report.doubtful_nodes), set(&report.detached_nodes));
    for node in document.nodes() {
        let id = node.id();
        if doubtful.contains(id) {
            let mut versions = history.versions.values();
            if !versions.any(|it| it.node(id).is_some_and(|it| is_rest(node, it, document))) {
                return Err(format!("no version had the doubtful node {id}"));
            }
            continue;
        }
        let Some(was) = whole.node(id) else {
            return Err(format!("the version did not have node {id}"));
        };
        if !is_rest(node, was, document) {
            return Err(format!("node {id} was another: {was:?}, {node:?}"));
        }
        let is_detached = node.parent().is_none() && was.parent().is_some();
        if is_detached && !detached.contains(id) {
            return Err(format!("node {id} is detached"));
        }
    }
    for id in &report.missing_nodes {
        if document.contains(id) {
            return Err(format!("node {id} is not missing"));
        }
    }
    match document.root() {
        None => Ok(()),
        root if root == whole.root() => Ok(()),
        root => Err(format!("the root was another: {root:?}")),
    }
}

/// Whether a node is what another was, without the children that are missing.
fn is_rest(node: &Node, was: &Node, document: &Snapshot) -> bool {
    let children = was.children().iter().filter(|id| {
        document
            .node(*id)
            .is_some_and(|child| child.parent() == Some(was.id()))
    });
    node.kind() == was.kind()
        && node.text() == was.text()
        && node.marks() == was.marks()
        && node.attributes() == was.attributes()
        && node.children().iter().eq(children)
        && (node.parent().is_none() || node.parent() == was.parent())
}

/// Salvages a damaged file.
fn salvage(history: &History, path: &Path, outcomes: &mut Outcomes) -> Result<(), String> {
    let bytes = fs::read(path).unwrap();
    let salvaged = SalvagedFile::read(path);
    if fs::read(path).unwrap() != bytes {
        return Err("the damaged file has changed".to_owned());
    }
    let salvaged = match salvaged {
        Ok(salvaged) => salvaged,
        Err(OpenError::Corrupt(_) | OpenError::Foreign) => {
            outcomes.nothing += 1;
            return Ok(());
        }
        Err(error) => return Err(error.to_string()),
    };
    let (document, report) = (salvaged.document(), salvaged.report());
    judge(history, document, report).map_err(|error| format!("{error}: {report:?}"))?;
    let out = path.with_extension("salvaged");
    salvaged.save_to(&out).map_err(|error| error.to_string())?;
    let store = DataStore::open(&out).map_err(|error| error.to_string())?;
    fs::remove_file(&out).unwrap();
    if &store.snapshot() != document || store.version() != report.version {
        return Err("another document was written".to_owned());
    }
    let last = history.last();
    if document == last && report.missing_entries == 0 {
        outcomes.last += 1;
    } else if history.versions.get(&report.version) == Some(document) {
        outcomes.earlier += 1;
    } else {
        outcomes.part += 1;
        let whole = &history.versions[&report.version];
        outcomes.nodes.0 += document.len();
        outcomes.nodes.1 += whole.len();
    }
    // What is there with its receipt or its mark has no second effect.
    if report.is_whole {
        for id in document.nodes().map(|node| node.id().to_string()) {
            if id.starts_with("event ") && deliver(&store, &id) != Outcome::Duplicate {
                return Err(format!("{id} has a second effect"));
            }
            if id.starts_with("key ") {
                let manager = TransactionManager::new(store.clone());
                let node = create(text_node("keyed", "").with_id(&*id));
                let again = manager.transaction(node).idempotent(&*id).commit();
                if !again.is_ok_and(|again| again.repeated) {
                    return Err(format!("{id} has a second effect"));
                }
            }
        }
    }
    Ok(())
}

#[test]
fn durable_06_what_is_salvaged_is_a_version_or_a_marked_part_of_one() {
    let mut dice = dice();
    let damages = number("DOCLOCK_SALVAGES", 7);
    for history in histories(&mut dice) {
        let folder = Folder::new();
        let mut by_kind = BTreeMap::<&str, Outcomes>::new();
        for nth in 0..damages {
            let mut bytes = history.file.clone();
            let what = DAMAGES[nth as usize % DAMAGES.len()];
            damage(&history, what, &mut bytes, &mut dice);
            let outcomes = by_kind.entry(what).or_default();
            // An open would repair it.
            let copy = folder.0.path().join("copy");
            fs::write(&copy, &bytes).unwrap();
            outcomes.refused += usize::from(DataStore::open(copy).is_err());
            fs::write(folder.path(), bytes).unwrap();
            if let Err(error) = salvage(&history, &folder.path(), outcomes) {
                let left = Path::new(env!("CARGO_TARGET_TMPDIR")).join("damaged.doclock");
                fs::copy(folder.path(), &left).unwrap();
                panic!(
                    "{}, damage {nth} ({what}): {error}: {}",
                    history.name,
                    left.display()
                );
            }
        }
        println!("{}: {by_kind:#?}", history.name);
        // These two never take all of a file.
        assert_eq!(by_kind["flipped bit"].nothing, 0, "{}", history.name);
        let it = &by_kind["no header"];
        let others = (it.earlier, it.part, it.nothing);
        assert_eq!(others, (0, 0, 0), "{}", history.name);
    }
}

#[test]
fn durable_06_an_undamaged_file_is_salvaged_whole() {
    let mut dice = dice();
    for history in histories(&mut dice) {
        let folder = Folder::new();
        fs::write(folder.path(), &history.file).unwrap();
        let mut outcomes = Outcomes::default();
        salvage(&history, &folder.path(), &mut outcomes).unwrap();
        assert_eq!(outcomes.last, 1, "{}", history.name);
    }
}

/// No bytes make it panic, and none of a stranger become a document.
#[test]
fn durable_06_nothing_is_salvaged_of_other_bytes() {
    let mut dice = dice();
    let folder = Folder::new();
    for len in [1, 320, 4096, 4097, 50_000] {
        for kind in 0..3 {
            let mut bytes: Vec<u8> = (0..len)
                .map(|_| [0, dice.below(256), 1][kind] as u8)
                .collect();
            bytes[0] = 1;
            fs::write(folder.path(), &bytes).unwrap();
            let error = SalvagedFile::read(folder.path()).unwrap_err();
            assert!(
                matches!(error, OpenError::Foreign | OpenError::Corrupt(_)),
                "{error}"
            );
        }
    }
    fs::write(folder.path(), b"").unwrap();
    assert_eq!(
        SalvagedFile::read(folder.path()).unwrap_err(),
        OpenError::Foreign
    );
    fs::remove_file(folder.path()).unwrap();
    assert_eq!(
        SalvagedFile::read(folder.path()).unwrap_err(),
        OpenError::Missing
    );
}

#[test]
fn durable_06_a_file_that_a_store_has_open_is_not_salvaged() {
    for options in [later(), later().allow_readers()] {
        let folder = Folder::new();
        let store = folder.open_with(options);
        add(&store, "a");
        assert_eq!(
            SalvagedFile::read(folder.path()).unwrap_err(),
            OpenError::Locked
        );
    }
}

/// The sessions, ids and tokens of the lost opens do not return.
#[test]
fn durable_03_no_token_returns_after_a_salvage() {
    let folder = Folder::new();
    drop(folder.open());
    let old = fs::read(folder.path()).unwrap();
    let mut tokens = Vec::new();
    for _ in 0..3 {
        let store = folder.open();
        let guard = store.acquire_lock("ann").unwrap();
        tokens.push(guard);
        store.release_lock(guard).unwrap();
    }
    // The disk has an earlier state, and damaged.
    let mut damaged = old;
    damaged[..4096].fill(0);
    fs::write(folder.path(), damaged).unwrap();
    let path = folder.0.path().join("salvaged.doclock");
    SalvagedFile::read(folder.path())
        .unwrap()
        .save_to(&path)
        .unwrap();
    let store = DataStore::open(&path).unwrap();
    let guard = store.acquire_lock("ann").unwrap();
    assert!(
        tokens.iter().all(|token| *token < guard),
        "{tokens:?}, {guard:?}"
    );
    // Nothing is overwritten.
    let salvaged = SalvagedFile::read(folder.path()).unwrap();
    assert_eq!(salvaged.save_to(&path).unwrap_err(), OpenError::Exists);
}
