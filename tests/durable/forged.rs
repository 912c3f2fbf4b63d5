//! Stored documents that others made, with right checksums. An open refuses them with a typed
//! error, or the store works to its end and is read again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use doclock::document::{Node, check};
use doclock::durable::{DurableFile, DurableOptions, OpenError, Replica};
use doclock::inbox::{HandlerError, Inbox};
use doclock::lease::LeaseTarget;
use doclock::lock::node::Scope;
use doclock::{
    DataStore, Draft, Editor, NodeId, Snapshot, StoreOptions, TransactionManager, View, dsl::*,
};
use serde_json::{Value, json};

use crate::common::{Dice, spoil};
use crate::memory::{Memory, Stored};
use crate::parts;
use crate::{add, earlier, later};

const MINUTE: Duration = Duration::from_secs(60);

fn options() -> DurableOptions {
    let store = StoreOptions::new().kept_commits(1 << 20);
    later().store(store).keep_log(1 << 20)
}

/// A journal with all that a store writes: a checkpoint, blocks that it has, and later blocks.
fn journal() -> Memory {
    let memory = Memory::default();
    for round in ["one", "two"] {
        let store = memory.open(options());
        let ann = Editor::new(store.clone(), "ann").with_restored_history();
        let manager = TransactionManager::new(store.clone());
        let list = element(
            "list",
            [text_node("item", "one").with_id(format!("{round}-item"))],
        );
        ann.execute(create(list.with_id(round))).unwrap();
        ann.execute(set_root().on(round)).unwrap();
        ann.execute(insert_text(1, "x").on(format!("{round}-item")))
            .unwrap();
        ann.undo().commit().unwrap();
        manager.execute(create(text_node("p", round))).unwrap();
        let once = create(text_node("p", round));
        manager
            .transaction(once)
            .idempotent(round)
            .commit()
            .unwrap();
        let inbox = Inbox::new(&store, "bills");
        inbox
            .process(&(format!("done-{round}"), 1), |_, _| Ok(()))
            .unwrap();
        let epoch = SystemTime::UNIX_EPOCH;
        let poison = |_: &mut Draft, _: &_| Err(HandlerError::poison("torn"));
        inbox
            .process(&(format!("dead-{round}"), 1), poison)
            .unwrap();
        inbox
            .process(&(format!("due-{round}"), 1), |_, _: &_| {
                Err(HandlerError::poison("x"))
            })
            .unwrap();
        inbox.revive(&format!("due-{round}"));
        inbox.process(&("", 1), |_, _| Ok(())).unwrap();
        inbox
            .process(&(format!("old-{round}"), epoch, 1), |_, _| Ok(()))
            .unwrap();
        inbox.prune(epoch + MINUTE);
        let lease = store
            .leases()
            .acquire([format!("{round}-item")], "w", 60 * MINUTE)
            .unwrap();
        store.wait_durable(store.version()).wait().unwrap();
        if round == "two" {
            drop(lease);
            store
                .leases()
                .acquire(LeaseTarget::from("other"), "w", MINUTE)
                .unwrap()
                .release()
                .unwrap();
            manager.execute(create(text_node("p", "last"))).unwrap();
            store.wait_durable(store.version()).wait().unwrap();
            let copy = memory.copy();
            assert!(copy.stored().blocks.len() > 2 && copy.stored().entries.len() > 8);
            return copy;
        }
        store.close().unwrap();
    }
    unreachable!("the second round returns")
}

impl Memory {
    fn change_entry(&self, key: &str, change: impl FnOnce(&mut Value)) {
        let mut stored = self.stored();
        let bytes = stored
            .entries
            .get_mut(key)
            .unwrap_or_else(|| panic!("no {key}"));
        parts::change(bytes, change);
    }

    fn change_block(&self, last: bool, change: impl FnOnce(&mut Value)) {
        let mut stored = self.stored();
        let mut blocks = stored.blocks.values_mut();
        let bytes = match last {
            true => blocks.next_back(),
            false => blocks.next(),
        };
        parts::change(bytes.unwrap(), change);
    }

    /// The key of the entry with this beginning.
    fn key(&self, beginning: &str) -> String {
        let stored = self.stored();
        let mut keys = stored.entries.keys();
        let found = keys.find(|key| key.starts_with(beginning));
        found
            .unwrap_or_else(|| panic!("no {beginning} in {:?}", stored.entries.keys()))
            .clone()
    }
}

/// Uses everything that the file could have spoiled.
fn use_all(store: &DataStore) {
    let begun = store.version();
    let events = store.subscribe();
    let ann = Editor::new(store.clone(), "ann").with_restored_history();
    let manager = TransactionManager::new(store.clone());
    let new = format!("of-the-test-{begun}");
    manager
        .execute(create(text_node("p", "new").with_id(new.as_str())))
        .unwrap();
    ann.execute(insert_text(0, "a").on(new.as_str())).unwrap();
    for _ in 0..8 {
        let _ = ann.undo().commit();
    }
    for _ in 0..8 {
        let _ = ann.redo().commit();
    }
    let _ = ann.execute(insert_text(0, "b").on("one-item"));
    for key in ["one", "two", "three"] {
        let once = create(text_node("p", key));
        let _ = manager.transaction(once).idempotent(key).commit();
    }
    for name in ["bills", "letters", "a", ""] {
        let inbox = Inbox::new(store, name);
        for round in ["one", "two", "new"] {
            for what in ["done", "dead", "due", "old"] {
                let id = format!("{what}-{round}");
                let _ = (inbox.event(&id), inbox.revive(&id));
                let _ = inbox.process(&(id.as_str(), 1), |_, _| Ok(()));
                let poison = |_: &mut Draft, _: &_| Err(HandlerError::poison("torn"));
                let _ = inbox.process(&(format!("{id}-2"), 1), poison);
            }
        }
        let _ = inbox.process(&("", 1), |_, _| Ok(()));
        let _ = (inbox.dead_letters(), inbox.stats());
        let _ = inbox.prune(SystemTime::now() + MINUTE);
        let _ = (inbox.prune_untimed(Duration::ZERO), inbox.remove().is_ok());
    }
    for target in ["one-item", "two-item", "new"] {
        if let Ok(mut lease) = store.leases().acquire(target, "z", MINUTE) {
            lease.renew(MINUTE).unwrap();
            let (first, id) = (lease.fencing_token(), lease.info());
            lease.release().unwrap();
            let next = store.leases().acquire(target, "z", MINUTE).unwrap();
            assert!(next.fencing_token() > first, "{id:?}");
            next.release().unwrap();
        }
    }
    let _ = store.leases().list();
    let locks = store.node_locks();
    let mut guard = locks.lock("z", Scope::new().write("one")).unwrap();
    guard.extend(Scope::new().write("two")).unwrap();
    let token = guard.fencing_token();
    drop(guard);
    let last = store.lock("z").unwrap().fencing_token();
    assert!(last > token);
    let id = store.generate_id().unwrap();
    assert!(!store.snapshot().contains(&id));
    let _ = (
        store.commits_since(0),
        store.subscription().after(0).map(drop),
    );
    assert_eq!(check(&store.snapshot()), Ok(()));
    let versions = events.try_iter().map(|event| event.commit.version);
    assert!(versions.eq(begun + 1..=store.version()));
    if last.get() > u64::MAX / 4 || begun > u64::MAX / 4 {
        // Such numbers leave too little room for an import.
        return;
    }
    let saved = serde_json::to_string(&store.snapshot()).unwrap();
    let read: Snapshot = serde_json::from_str(&saved).unwrap();
    assert_eq!(read, store.snapshot());
    let again = StoreOptions::new().document(read).unwrap();
    let manager = TransactionManager::new(again);
    manager
        .execute(create(text_node("p", "in memory")))
        .unwrap();
}

/// Reads the journal in the other ways.
fn read_all(memory: &Memory) {
    if let Ok(file) = DurableFile::read_journal(memory.copy()) {
        let _ = file.verify();
        for version in file.versions().take(64) {
            let _ = file.snapshot(version);
        }
        let _ = file.commits(..).len();
        let _ = serde_json::to_string(file.document()).unwrap();
    }
    let blocks = memory.stored().blocks.clone();
    let mut first = memory.copy();
    first.stored().blocks.clear();
    if let Ok(mut replica) = Replica::load(&mut first, &options()) {
        for (number, bytes) in &blocks {
            let _ = replica.apply(*number, bytes);
        }
        assert_eq!(check(&replica.snapshot()), Ok(()));
        let _ = replica.catch_up(&mut memory.copy(), drop);
        if let Ok(store) = replica.into_store(memory.copy(), options()) {
            use_all(&store);
        }
    }
}

/// Whether the open refused the document. Otherwise the store worked, and was read again.
fn is_refused(memory: &Memory) -> bool {
    let read: Arc<Mutex<Vec<Node>>> = Arc::default();
    let early = Arc::clone(&read);
    let options_of_open = options().before_load(move |document| {
        let ids = ["one", "two", "one-item", "two-item"].map(NodeId::from);
        for id in document.root().cloned().into_iter().chain(ids) {
            early.lock().unwrap().extend(document.node(id)?);
        }
        Ok(())
    });
    let store = match DataStore::open_journal(memory.clone(), options_of_open) {
        Ok(store) => store,
        Err(OpenError::Corrupt(error)) => {
            let message = error.to_string();
            assert!(!message.contains("panicked"), "{message}");
            return true;
        }
        Err(OpenError::EpochTooLarge { .. } | OpenError::Newer { .. }) => return true,
        Err(error) => panic!("{error}"),
    };
    for node in read.lock().unwrap().iter() {
        assert_eq!(store.snapshot().node(node.id()), Some(node));
    }
    use_all(&store);
    store.close().unwrap();
    let (version, document) = (store.version(), store.snapshot());
    drop(store);
    let store = memory.open(options());
    assert_eq!((store.version(), store.snapshot()), (version, document));
    use_all(&store);
    store.close().unwrap();
    false
}

/// Makes the token of the first commit of a block the largest of all.
fn raise_token(block: &mut Value) {
    let commit = &mut block[0][0];
    (commit[4], commit[5]) = (((1_u64 << 28) - 1).into(), ((1_u64 << 36) - 1).into());
}

#[test]
fn durable_06_a_stored_number_that_leaves_no_room_is_refused() {
    let last = u64::MAX;
    let dead = "note/{\"event\":[\"bills\",\"dead";
    let due = "note/{\"event\":[\"bills\",\"due";
    type Forgery = (&'static str, Box<dyn Fn(&Memory)>);
    let head = |pointer: &'static str, number: u64| -> Forgery {
        let forge = move |memory: &Memory| {
            memory.change_entry("head", |head| {
                *head.pointer_mut(pointer).unwrap() = number.into()
            });
        };
        (pointer, Box::new(forge))
    };
    let note = |key: &'static str, pointer: &'static str, number: u64| -> Forgery {
        let forge = move |memory: &Memory| {
            let key = memory.key(key);
            memory.change_entry(&key, |note| {
                *note.pointer_mut(pointer).unwrap() = number.into()
            });
        };
        (pointer, Box::new(forge))
    };
    let forgeries: Vec<Forgery> = vec![
        head("/nextBlock", last),
        head("/nextBlock", last - 1),
        head("/nextBlock", 0),
        head("/opens", last),
        head("/document/version", last),
        head("/document/version", last - 1),
        head("/document/tokens/lock", last),
        head("/document/tokens/lease", last),
        head("/document/tokens/claim", last),
        head("/document/session/transactions", last),
        note("note/{\"lease\"", "/1/token", last),
        (
            "the token of a commit",
            Box::new(|memory| {
                memory.change_block(true, raise_token);
            }),
        ),
        (
            "the token of a commit of a kept block",
            Box::new(|memory| {
                memory.change_block(false, raise_token);
            }),
        ),
        (
            "the number of a block",
            Box::new(|memory| {
                let mut stored = memory.stored();
                let (_, bytes) = stored.blocks.pop_last().unwrap();
                stored.blocks.insert(u64::MAX, bytes);
            }),
        ),
    ];
    // The last of these only decide which note is forgotten first.
    let harmless = [
        note("note/{\"receipt\"", "/2", last),
        note(dead, "/1/state/dead/number", last),
        note(dead, "/1/attempts", u32::MAX.into()),
        note(due, "/1/attempts", u32::MAX.into()),
    ];
    let journal = journal();
    assert!(!is_refused(&journal.copy()));
    let forgeries = forgeries.into_iter().map(|forgery| (forgery, true));
    let harmless = harmless.into_iter().map(|forgery| (forgery, false));
    for ((what, forge), refused) in forgeries.chain(harmless) {
        let memory = journal.copy();
        forge(&memory);
        read_all(&memory);
        assert_eq!(is_refused(&memory), refused, "{what}");
    }
}

/// The next checkpoint wrote the node under its own key, and no open read the file again.
#[test]
fn durable_06_an_entry_under_the_key_of_another_is_refused() {
    let journal = journal();
    for (key, other) in [
        ("node/one", "node/three"),
        ("node/one", "node/one/"),
        ("note/{\"receipt\":\"one\"}", "note/{\"receipt\":\"three\"}"),
        ("note/{\"receipt\":\"one\"}", "note/{ \"receipt\": \"one\"}"),
        ("note/{\"watermark\":\"bills\"}", "note/x"),
    ] {
        let memory = journal.copy();
        {
            let mut stored = memory.stored();
            let bytes = stored
                .entries
                .remove(key)
                .unwrap_or_else(|| panic!("no {key}"));
            stored.entries.insert(other.into(), bytes);
        }
        read_all(&memory);
        assert!(is_refused(&memory), "{other}");
    }
}

/// Collects the numbers of a JSON value.
fn numbers<'v>(value: &'v mut Value, found: &mut Vec<&'v mut Value>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| numbers(item, found)),
        Value::Object(fields) => fields.values_mut().for_each(|field| numbers(field, found)),
        Value::Number(_) => found.push(value),
        _ => {}
    }
}

fn forge(content: &mut Value, dice: &mut Dice) {
    let hostile = [0, 1, 2, u64::MAX, u64::MAX - 1, 1 << 53, 1 << 36];
    let mut found = Vec::new();
    if dice.one_in(2) {
        numbers(content, &mut found);
    }
    match found.len() {
        0 => spoil(content, dice),
        len => *found.swap_remove(dice.below(len)) = json!(hostile[dice.below(hostile.len())]),
    }
}

#[test]
fn durable_06_a_forged_document_is_refused_or_works_and_is_read_again() {
    let first: u64 = std::env::var("SEED").map_or(1, |seed| seed.parse().unwrap());
    let runs = std::env::var("DOCLOCK_FORGERIES").map_or(40, |runs| runs.parse().unwrap());
    let journals = [journal(), earlier::journal()];
    // A number of 128 bits does not fit into the tree of a test.
    for bytes in journals[1].stored().blocks.values_mut() {
        let json = String::from_utf8(bytes[5..].to_vec()).unwrap();
        let json = json.replace("150679585210571724674803098334366977969", "7");
        *bytes = parts::part(parts::JSON, json.as_bytes());
    }
    let mut refused = 0;
    for seed in first..first + runs {
        let dice = &mut Dice(seed);
        let memory = journals[usize::from(dice.one_in(4))].copy();
        {
            let mut stored = memory.stored();
            let entries = stored.entries.len();
            let at = dice.below(entries + stored.blocks.len());
            let bytes = match at.checked_sub(entries) {
                None => stored.entries.values_mut().nth(at),
                Some(block) => stored.blocks.values_mut().nth(block),
            };
            parts::change(bytes.unwrap(), |content| forge(content, dice));
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            read_all(&memory);
            is_refused(&memory)
        }));
        match outcome {
            Ok(is_refused) => refused += u64::from(is_refused),
            Err(panic) => {
                println!("SEED={seed} DOCLOCK_FORGERIES=1");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{refused} of {runs} are refused");
    assert!(runs < 40 || (runs / 5..runs).contains(&refused));
}

/// "A checksum is wrong" was all.
#[test]
fn durable_06_an_error_of_a_damaged_part_names_the_part() {
    let memory = Memory::default();
    let store = memory.open(later().checkpoint_after(0));
    store
        .wait_durable(add(&store, "in the checkpoint"))
        .wait()
        .unwrap();
    store.close().unwrap();
    let store = memory.open(later());
    store
        .wait_durable(add(&store, "in a block"))
        .wait()
        .unwrap();
    let whole = memory.copy();
    let refusal = |damage: &dyn Fn(&mut Stored)| {
        let damaged = whole.copy();
        damage(&mut damaged.stored());
        DataStore::open_journal(damaged, later())
            .unwrap_err()
            .to_string()
    };
    let keys: Vec<_> = whole.stored().entries.keys().cloned().collect();
    assert_eq!(keys, ["head", "node/in the checkpoint"]);
    for key in keys {
        let error =
            refusal(&|stored| *stored.entries.get_mut(&key).unwrap().last_mut().unwrap() ^= 1);
        assert!(
            error.contains(&format!("entry {key:?}: a checksum")),
            "{error}"
        );
    }
    let number = *whole.stored().blocks.keys().next_back().unwrap();
    let error = refusal(&|stored| stored.blocks.get_mut(&number).unwrap().push(0));
    assert!(
        error.contains(&format!("block {number}: a checksum")),
        "{error}"
    );
}
