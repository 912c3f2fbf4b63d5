//! Replicas: they follow the journal of an owner.

use std::time::Duration;

use doclock::durable::{DurableOptions, OpenError, Replica, ReplicaError};
use doclock::{DataStore, TransactionManager, codes::CodedError, dsl::*};
use serde_json::{Value, json};

use crate::add;
use crate::memory::Memory;
use crate::parts;

const HOUR: Duration = Duration::from_secs(3600);

fn load(memory: &Memory) -> Replica {
    Replica::load(&mut memory.clone(), &DurableOptions::new()).unwrap()
}

pub(crate) fn catch_up(replica: &mut Replica, memory: &Memory) -> Result<(), ReplicaError> {
    replica.catch_up(&mut memory.clone(), drop)
}

/// The blocks that a journal has.
pub(crate) fn blocks(memory: &Memory) -> Vec<(u64, Vec<u8>)> {
    let stored = memory.stored();
    let blocks = stored.blocks.iter();
    blocks
        .map(|(number, bytes)| (*number, bytes.clone()))
        .collect()
}

/// An owner with so many commits of one block each, and a replica of what was stored before them.
pub(crate) fn followed(commits: usize) -> (Memory, DataStore, Replica) {
    let memory = Memory::default();
    let store = memory.open(DurableOptions::new());
    let replica = load(&memory);
    for nth in 0..commits {
        add(&store, &format!("{nth}"));
    }
    (memory, store, replica)
}

fn damage(error: &ReplicaError) -> &str {
    match error {
        ReplicaError::Damaged { cause, .. } => &cause.message,
        error => panic!("{error}"),
    }
}

#[test]
fn cluster_04_a_replica_applies_each_block_and_names_its_version() {
    let (memory, store, mut replica) = followed(0);
    assert_eq!((replica.version(), replica.last_block()), (0, None));
    let mut before = Vec::new();
    for nth in 1..5 {
        add(&store, &format!("{nth}"));
        let (number, bytes) = blocks(&memory).pop().unwrap();
        let applied = replica.apply(number, &bytes).unwrap();
        assert_eq!(
            (applied.number, applied.version, applied.skipped),
            (nth, nth, false)
        );
        let versions: Vec<u64> = applied
            .commits
            .iter()
            .map(|commit| commit.version)
            .collect();
        assert_eq!(versions, [nth]);
        assert_eq!((replica.version(), replica.last_block()), (nth, Some(nth)));
        assert_eq!(replica.snapshot(), store.snapshot());
        before.push(replica.snapshot());
    }
    // Snapshots stay as they are.
    for (nth, snapshot) in before.iter().enumerate() {
        assert_eq!(
            (snapshot.version(), snapshot.len()),
            (nth as u64 + 1, nth + 1)
        );
    }
    // A block with a lease has no commit.
    let _lease = store.leases().acquire("1", "ann", HOUR).unwrap();
    add(&store, "5");
    let mut applied = Vec::new();
    replica
        .catch_up(&mut memory.clone(), |block| applied.push(block))
        .unwrap();
    let commits: usize = applied.iter().map(|block| block.commits.len()).sum();
    assert_eq!((commits, replica.version()), (1, 5));
}

#[test]
fn cluster_04_a_block_that_the_replica_has_is_skipped_unless_it_differs() {
    let (memory, store, mut replica) = followed(3);
    let blocks = blocks(&memory);
    for (number, bytes) in &blocks {
        replica.apply(*number, bytes).unwrap();
    }
    for (number, bytes) in &blocks {
        let skipped = replica.apply(*number, bytes).unwrap();
        assert!(skipped.skipped && skipped.commits.is_empty());
        assert_eq!((skipped.number, skipped.version), (*number, 3));
    }
    let other = ReplicaError::Differs { block: 3 };
    assert_eq!(replica.apply(3, &blocks[0].1), Err(other));
    assert_eq!(replica.snapshot(), store.snapshot());
}

#[test]
fn cluster_04_a_gap_is_refused_with_what_was_expected_and_changes_nothing() {
    let (memory, store, mut replica) = followed(4);
    let blocks = blocks(&memory);
    replica.apply(1, &blocks[0].1).unwrap();
    let before = replica.snapshot();
    let missing = ReplicaError::MissingBlock {
        block: 3,
        expected: 2,
        version: 1,
    };
    assert_eq!(replica.apply(3, &blocks[2].1), Err(missing.clone()));
    let expected = "block 2 is missing: block 3 follows, and the replica has version 1";
    assert_eq!(missing.to_string(), expected);
    // The number follows, and the version does not.
    let missing = ReplicaError::MissingVersion {
        block: 2,
        version: 3,
        expected: 2,
    };
    assert_eq!(replica.apply(2, &blocks[2].1), Err(missing.clone()));
    let expected = "the commit of version 2 is missing: block 2 has version 3";
    assert_eq!(missing.to_string(), expected);
    assert_eq!(
        (replica.snapshot(), replica.last_block()),
        (before, Some(1))
    );
    for (number, bytes) in &blocks[1..] {
        replica.apply(*number, bytes).unwrap();
    }
    assert_eq!(replica.snapshot(), store.snapshot());
}

#[test]
fn cluster_04_damaged_bytes_are_refused_and_change_nothing() {
    let (memory, store, mut replica) = followed(2);
    let blocks = blocks(&memory);
    replica.apply(1, &blocks[0].1).unwrap();
    let before = replica.snapshot();
    let bytes = &blocks[1].1;
    for bit in 0..8 * bytes.len() {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let error = replica.apply(2, &damaged).unwrap_err();
        assert!(
            matches!(error, ReplicaError::Damaged { block: 2, .. }),
            "bit {bit}: {error}"
        );
    }
    for len in 0..bytes.len() {
        damage(&replica.apply(2, &bytes[..len]).unwrap_err());
    }
    assert_eq!(
        (replica.snapshot(), replica.last_block()),
        (before, Some(1))
    );
    replica.apply(2, bytes).unwrap();
    assert_eq!(replica.snapshot(), store.snapshot());
}

/// The first commit of the block is right. The second cannot be repeated, or has a wrong version,
/// or the receipt is of a later version.
#[test]
fn cluster_04_no_snapshot_shows_a_part_of_a_block() {
    let memory = Memory::default();
    let store = memory.open(DurableOptions::new());
    let mut replica = load(&memory);
    let events = store.subscribe();
    add(&store, "a");
    let manager = TransactionManager::new(store.clone());
    let node = create(text_node("x", "").with_id("b"));
    manager
        .transaction(node)
        .idempotent("key")
        .commit()
        .unwrap();
    // Both commits in one block, as if they had been written together.
    let commits: Vec<Value> = (0..2)
        .map(|_| serde_json::to_value(&*events.recv().unwrap().commit).unwrap())
        .collect();
    let mut result = commits[1].clone();
    (result["changes"], result["repeated"]) = (json!([]), true.into());
    let receipt = json!({"key": "key", "number": 1, "receipt": {"digest": 7, "result": result}});
    let whole = json!({"commits": commits, "notes": [{"kept": {"receipt": receipt}}]});
    let changes: [(&str, Value, &str); 3] = [
        (
            "/commits/1/changes/0/nodes/0/id",
            "a".into(),
            "the commit of version 2 cannot be repeated",
        ),
        ("/commits/1/version", 3.into(), ""),
        (
            "/notes/0/kept/receipt/receipt/result/version",
            3.into(),
            "of a later version than the document",
        ),
    ];
    for (pointer, value, expected) in changes {
        let mut changed = whole.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        let changed = parts::part_of(parts::JSON, &changed);
        let error = replica.apply(1, &changed).unwrap_err();
        match expected {
            "" => assert_eq!(error.code(), "replicaMissingVersion"),
            _ => assert!(damage(&error).contains(expected), "{error}"),
        }
        assert_eq!((replica.version(), replica.last_block()), (0, None));
        assert!(replica.snapshot().is_empty());
    }
    let whole = parts::part_of(parts::JSON, &whole);
    let applied = replica.apply(1, &whole).unwrap();
    assert_eq!((applied.commits.len(), applied.version), (2, 2));
    assert_eq!(replica.snapshot(), store.snapshot());
}

#[test]
fn cluster_04_a_replica_behind_the_cut_is_refused_and_continues_by_loading() {
    let (memory, store, mut replica) = followed(2);
    for (number, bytes) in blocks(&memory) {
        replica.apply(number, &bytes).unwrap();
    }
    let before = replica.snapshot();
    add(&store, "more");
    // The checkpoint removes the block that the replica misses.
    store.close().unwrap();
    let missing = ReplicaError::MissingBlock {
        block: 4,
        expected: 3,
        version: 2,
    };
    assert_eq!(catch_up(&mut replica, &memory), Err(missing.clone()));
    let reopened = memory.open(DurableOptions::new());
    add(&reopened, "most");
    assert_eq!(catch_up(&mut replica, &memory), Err(missing));
    assert_eq!(replica.snapshot(), before);
    let expected = reopened.snapshot();
    drop((store, reopened));
    let store = replica
        .into_store(memory.clone(), DurableOptions::new())
        .unwrap();
    assert_eq!((store.snapshot(), store.version()), (expected, 4));
}

/// After a failover to a server that did not have the last blocks, or from a backup.
#[test]
fn cluster_04_a_replica_that_is_ahead_of_its_journal_does_not_continue_from_there() {
    let (memory, store, mut replica) = followed(3);
    let backup = memory.copy();
    add(&store, "lost");
    catch_up(&mut replica, &memory).unwrap();
    assert_eq!(replica.version(), 4);
    drop(store);
    let differs = |block| Err(ReplicaError::Differs { block });
    assert_eq!(catch_up(&mut replica, &backup), differs(4));
    // Another owner writes another block in its place.
    let other = backup.copy();
    let store = other.open(DurableOptions::new());
    add(&store, "another");
    assert_eq!(catch_up(&mut replica, &other), differs(4));
    // Also if a checkpoint has the other block, and it is removed.
    let closed = other.copy();
    closed.open(DurableOptions::new()).close().unwrap();
    assert!(closed.stored().blocks.is_empty());
    assert_eq!(catch_up(&mut replica, &closed), differs(4));
    add(&store, "and one more");
    let expected = store.snapshot();
    assert_eq!(catch_up(&mut replica, &other), differs(4));
    drop(store);
    assert_eq!(catch_up(&mut replica, &Memory::default()), differs(4));
    let new = Memory::default();
    add(&new.open(DurableOptions::new()), "new");
    assert_eq!(
        catch_up(&mut replica, &new).unwrap_err().code(),
        "replicaDiffers"
    );
    let store = replica
        .into_store(other.clone(), DurableOptions::new())
        .unwrap();
    assert_eq!(store.snapshot(), expected);
    add(&store, "last");
    drop(store);
    assert_eq!(other.open(DurableOptions::new()).version(), 6);
}

#[test]
fn cluster_04_a_new_replica_applies_nothing_before_it_is_loaded() {
    let memory = Memory::default();
    let mut replica = load(&memory);
    assert!(replica.is_new() && replica.snapshot().is_empty());
    catch_up(&mut replica, &memory).unwrap();
    // The nodes of an imported document are in no block.
    let import = Memory::default();
    add(&import.open(DurableOptions::new()), "imported");
    let imported = import.open(DurableOptions::new()).snapshot();
    let store = memory.open(DurableOptions::new().document(imported));
    add(&store, "a");
    let (number, bytes) = blocks(&memory).pop().unwrap();
    assert_eq!(replica.apply(number, &bytes), Err(ReplicaError::New));
    catch_up(&mut replica, &memory).unwrap();
    assert!(!replica.is_new());
    assert_eq!(
        (replica.snapshot(), replica.version()),
        (store.snapshot(), 2)
    );
    // A new replica can create the document.
    let created = Memory::default();
    let store = load(&created)
        .into_store(created.clone(), DurableOptions::new())
        .unwrap();
    add(&store, "a");
    drop(store);
    assert_eq!(created.open(DurableOptions::new()).version(), 1);
    let error = load(&created)
        .into_store(
            created.clone(),
            DurableOptions::new().document(replica.snapshot()),
        )
        .unwrap_err();
    assert_eq!(error.cause, OpenError::Exists);
}

/// Otherwise a replica would grow with the log.
#[test]
fn cluster_04_a_replica_keeps_the_blocks_since_the_last_checkpoint_only() {
    let memory = Memory::default();
    let store = memory.open(
        DurableOptions::new()
            .checkpoint_after(400)
            .keep_log(1 << 20),
    );
    let mut replica = load(&memory);
    for nth in 0..100 {
        add(&store, &format!("{nth}"));
        catch_up(&mut replica, &memory).unwrap();
        let debug = format!("{replica:?}");
        let (_, kept) = debug.split_once("blocks_since_checkpoint: ").unwrap();
        let kept: usize = kept
            .split(',')
            .next()
            .unwrap()
            .trim_end_matches([' ', '.', '}'])
            .parse()
            .unwrap();
        assert!(kept < 20, "{kept} after {nth}");
    }
    assert_eq!(replica.last_block(), Some(100));
}
