//! Replicas that become the owner: they continue as an open of the same journal.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use doclock::document::check;
use doclock::durable::{
    Durability, DurableFile, DurableOptions, Journal, JournalError, JournalErrorKind, JournalWrite,
    LARGEST_EPOCH, OpenError, Replica, StoredPart,
};
use doclock::inbox::{HandlerError, Inbox};
use doclock::transaction::TransactionResult;
use doclock::{
    DataStore, Editor, FencingToken, StoreOptions, TransactionManager, View, codes::CodedError,
    dsl::*,
};

use crate::add;
use crate::common::{Dice, image, seed};
use crate::histories::{edit, page};
use crate::memory::{Failure, Memory};
use crate::replica::{blocks, catch_up, followed};

const HOUR: Duration = Duration::from_secs(3600);

/// A journal that counts how often everything is loaded.
struct Counting(Memory, Arc<AtomicUsize>);

impl Journal for Counting {
    fn load(
        &mut self,
        part: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.load(part)
    }

    fn load_after(
        &mut self,
        block: u64,
        key: &str,
        part: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        self.0.load_after(block, key, part)
    }

    fn write(&mut self, write: &JournalWrite) -> Result<(), JournalError> {
        self.0.write(write)
    }

    fn epoch(&self) -> Option<u64> {
        self.0.epoch()
    }
}

#[test]
fn cluster_04_a_replica_becomes_the_owner_without_loading_again() {
    let (memory, store, mut replica) = followed(3);
    catch_up(&mut replica, &memory).unwrap();
    // The replica has not seen this, nor the next open.
    add(&store, "last");
    let expected = store.snapshot();
    store.wait_durable(4).wait().unwrap();
    std::mem::forget(store);
    memory.set_epoch(9);
    let loads = Arc::new(AtomicUsize::new(0));
    let journal = Counting(memory.clone(), Arc::clone(&loads));
    let store = replica.into_store(journal, DurableOptions::new()).unwrap();
    assert_eq!(loads.load(Ordering::Relaxed), 0);
    assert_eq!(
        (
            store.snapshot(),
            store.durable_snapshot().map(|it| it.version())
        ),
        (expected, Some(4))
    );
    assert_eq!(store.lock("ann").unwrap().fencing_token().epoch(), 9);
}

#[test]
fn cluster_05_a_replica_that_does_not_become_the_owner_follows_on() {
    let (memory, store, mut replica) = followed(2);
    catch_up(&mut replica, &memory).unwrap();
    let writes = memory.writes();
    let mut expected = 2;
    for failure in [Failure::Fenced, Failure::Before, Failure::Panic] {
        let stored = memory.stored().entries.clone();
        // That of the takeover.
        memory.fail_at(0, failure);
        let error = replica
            .into_store(memory.clone(), DurableOptions::new())
            .unwrap_err();
        let kind = match &error.cause {
            OpenError::Journal(cause) | OpenError::Corrupt(cause) => cause.kind,
            error => panic!("{error}"),
        };
        assert_eq!(
            kind,
            match failure {
                Failure::Fenced => JournalErrorKind::Fenced,
                Failure::Before => JournalErrorKind::Io,
                // As for an open.
                _ => JournalErrorKind::Corrupt,
            }
        );
        replica = *error.replica.unwrap();
        assert_eq!(memory.stored().entries, stored);
        memory.mend();
        add(&store, &format!("after {expected}"));
        expected += 1;
        catch_up(&mut replica, &memory).unwrap();
        assert_eq!(
            (replica.version(), replica.snapshot()),
            (expected, store.snapshot())
        );
    }
    assert!(memory.writes() > writes);
    memory.set_epoch(LARGEST_EPOCH + 1);
    let error = replica
        .into_store(memory.clone(), DurableOptions::new())
        .unwrap_err();
    assert_eq!(error.code(), "openEpochTooLarge");
    drop(store);
    memory.set_epoch(None);
    let store = error
        .replica
        .unwrap()
        .into_store(memory, DurableOptions::new())
        .unwrap();
    assert_eq!(store.version(), expected);
}

#[test]
fn cluster_04_commits_of_the_replica_are_in_the_log_of_the_store() {
    let store = StoreOptions::new().kept_commits(1 << 20);
    let options = DurableOptions::new()
        .keep_log(1 << 20)
        .checkpoint_after(0)
        .store(store);
    let memory = Memory::default();
    let store = memory.open(options.clone());
    let editor = Editor::new(store.clone(), "ann");
    editor
        .execute(create(text_node("x", "one").with_id("a")))
        .unwrap();
    let mut replica = Replica::load(&mut memory.clone(), &options).unwrap();
    editor.execute(set_text("two").on("a")).unwrap();
    store.close().unwrap();
    catch_up(&mut replica, &memory).unwrap();
    drop((store, editor));
    let store = replica.into_store(memory, options).unwrap();
    let versions: Vec<u64> = store
        .commits_since(0)
        .unwrap()
        .iter()
        .map(|it| it.version)
        .collect();
    assert_eq!(versions, [1, 2]);
    let editor = Editor::new(store.clone(), "ann").with_restored_history();
    editor.undo().commit().unwrap();
    assert_eq!(store.snapshot().node("a").unwrap().text(), &"one");
}

/// What a random owner has used so far.
#[derive(Clone, Default)]
struct Used {
    keys: u64,
    messages: u64,
    leases: Vec<FencingToken>,
}

fn once(store: &DataStore, key: u64) -> Result<TransactionResult, String> {
    let manager = TransactionManager::new(store.clone());
    let text = format!("by key {key}");
    // Every third one changes nothing.
    let batch = match key % 3 {
        0 => op(|_| Ok::<_, doclock::transaction::TransactionError>(())),
        _ => create(text_node("x", text)),
    };
    let result = manager
        .transaction(batch)
        .idempotent(format!("key {key}"))
        .commit();
    result.map_err(|error| error.to_string())
}

fn process(store: &DataStore, message: u64) -> String {
    let sent_at = SystemTime::UNIX_EPOCH + HOUR * message as u32;
    let inbox = Inbox::new(store, "inbox");
    let outcome = inbox.process(&(format!("{message}"), sent_at, ()), |transaction, _| {
        if message.is_multiple_of(5) {
            return Err(HandlerError::poison("unknown"));
        }
        transaction.create(text_node("x", format!("by message {message}")))?;
        Ok(())
    });
    format!("{outcome:?}")
}

/// `freely`: also with what depends on the moment, or on how many commits are kept.
fn work(dice: &mut Dice, store: &DataStore, used: &mut Used, freely: bool) {
    let editor = Editor::new(store.clone(), "ann").with_restored_history();
    match dice.below(16) {
        0..6 => edit(dice, store, |edit| drop(editor.execute(edit).unwrap())),
        6 if freely => drop(editor.undo().commit()),
        7..9 => {
            once(store, used.keys).unwrap();
            used.keys += 1;
        }
        9 if used.keys > 0 => drop(once(store, dice.below(used.keys as usize) as u64)),
        10 => {
            process(store, used.messages);
            used.messages += 1;
        }
        11 if used.messages > 10 => {
            let before = SystemTime::UNIX_EPOCH + HOUR * (used.messages as u32 - 10);
            Inbox::new(store, "inbox").prune(before);
        }
        12..14 if freely => {
            let target = format!("leased {}", dice.below(4));
            if let Ok(lease) = store.leases().acquire(target, "ann", HOUR) {
                used.leases.push(lease.fencing_token());
            }
        }
        14 if freely && !used.leases.is_empty() => {
            let lease = store
                .leases()
                .by_token(used.leases[dice.below(used.leases.len())]);
            if let Some(mut lease) = lease {
                match dice.one_in(2) {
                    true => lease.renew(2 * HOUR).unwrap(),
                    false => lease.release().unwrap(),
                }
            }
        }
        _ => edit(dice, store, |edit| {
            let manager = TransactionManager::for_owner(store.clone(), "ben");
            drop(manager.execute([edit, create(text_node("x", "by ben"))]));
        }),
    }
}

/// The text without its durations.
fn timeless(text: String) -> String {
    let parts = text.split("_for: ").enumerate();
    let parts = parts.map(|(nth, part)| match (nth, part.find([' ', ','])) {
        (1.., Some(end)) => &part[end..],
        _ => part,
    });
    parts.collect()
}

/// Everything that can be asked of a store, with answers that do not depend on the moment.
fn observed(store: &DataStore, used: &Used) -> Vec<String> {
    let mut all = vec![
        format!(
            "{} {:?} {}",
            store.version(),
            store.durable_snapshot().map(|it| it.version()),
            image(&store.snapshot())
        ),
        serde_json::to_string(&store.snapshot()).unwrap(),
    ];
    let lock = store.lock("ann").unwrap();
    all.push(format!("{} {}", lock.fencing_token(), lock.id().number()));
    drop(lock);
    all.push(format!("{:?}", store.generate_id()));
    for lease in store.leases().list() {
        all.push(format!(
            "{:?} {} {}",
            lease.targets, lease.owner_id, lease.fencing_token
        ));
    }
    let probe = store.leases().acquire("probe", "ann", HOUR).unwrap();
    all.push(format!("{}", probe.fencing_token()));
    probe.release().unwrap();
    let inbox = Inbox::new(store, "inbox");
    for message in 0..used.messages {
        all.push(timeless(format!(
            "{:?}",
            inbox.event(&format!("{message}"))
        )));
    }
    all.push(timeless(format!("{:?}", inbox.dead_letters())));
    let claim = inbox.claim(&("probe", ())).unwrap();
    all.push(format!("{}", claim.token()));
    drop(claim);
    // These may commit, so they come last.
    for message in 0..used.messages {
        all.push(process(store, message));
    }
    for key in 0..used.keys {
        all.push(format!("{:?}", once(store, key)));
    }
    all
}

/// The nodes and the receipts of a checkpoint. How many blocks there were depends on the moment.
fn entries(memory: &Memory) -> Vec<(String, String)> {
    let stored = memory.stored();
    let wanted = stored
        .entries
        .iter()
        .filter(|(key, _)| key.starts_with("node/") || key.contains("receipt"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[5..]).into_owned();
    wanted
        .map(|(key, bytes)| (key.clone(), text(bytes)))
        .collect()
}

/// A random owner, which ends and begins anew; a replica, which reads now and then; and then both
/// ways to continue.
#[test]
fn cluster_04_a_replica_continues_as_an_open_of_its_journal_does() {
    let seed = seed();
    let (mut reloads, mut learned) = (0, 0);
    let loads = Arc::new(AtomicUsize::new(0));
    for round in 0..60 {
        let dice = &mut Dice(seed.wrapping_add(round));
        let checkpoint_after = [0, 600, 4000, usize::MAX][dice.below(4)];
        let store = StoreOptions::new().kept_commits(1 << 20).remembered_keys(5);
        let options = DurableOptions::new()
            .keep_log([0, 1000, usize::MAX][dice.below(3)])
            .checkpoint_after(checkpoint_after)
            .store(store);
        let laxer = options.clone().durability(Durability::Later);
        let memory = Memory::default();
        let mut used = Used::default();
        let mut owner = memory.open(laxer.clone());
        page(&owner);
        owner.wait_durable(owner.version()).wait().unwrap();
        let load = || Replica::load(&mut memory.clone(), &options).unwrap();
        let mut replica = load();
        for _ in 0..dice.below(120) {
            match dice.below(20) {
                // The owner ends. The next one writes to the same journal.
                0 => {
                    if dice.one_in(2) {
                        owner.close().unwrap();
                    }
                    drop(owner);
                    owner = memory.open(laxer.clone());
                }
                1..6 => {
                    owner.wait_durable(owner.version()).wait().unwrap();
                    let applied = match dice.one_in(2) {
                        true => catch_up(&mut replica, &memory),
                        false => blocks(&memory).into_iter().try_for_each(|(number, bytes)| {
                            replica.apply(number, &bytes).map(drop)
                        }),
                    };
                    learned += u64::from(applied.is_ok());
                    if let Err(error) = applied {
                        assert_eq!(error.code(), "replicaMissingBlock", "round {round}");
                        reloads += 1;
                        replica = load();
                    }
                    assert_eq!(check(&replica.snapshot()), Ok(()));
                    if replica.version() == owner.version() {
                        assert_eq!(replica.snapshot(), owner.snapshot(), "round {round}");
                    }
                }
                _ => work(dice, &owner, &mut used, true),
            }
        }
        owner.wait_durable(owner.version()).wait().unwrap();
        if dice.one_in(4) {
            owner.close().unwrap();
        }
        // As if the owner was killed: its drop writes a checkpoint.
        let opened = memory.copy();
        let continued = opened.copy();
        drop(owner);
        if dice.one_in(2) {
            let epoch = 100 + dice.below(100) as u64;
            opened.set_epoch(epoch);
            continued.set_epoch(epoch);
        }
        let one = opened.open(options.clone());
        let counting = Counting(continued.clone(), Arc::clone(&loads));
        let other = replica.into_store(counting, options.clone()).unwrap();
        assert_eq!(
            observed(&other, &used),
            observed(&one, &used),
            "round {round}"
        );
        // Both go on in the same way, and store the same.
        for store in [&one, &other] {
            let (dice, used) = (&mut Dice(seed.wrapping_mul(round + 7)), &mut used.clone());
            for _ in 0..10 {
                work(dice, store, used, false);
            }
        }
        assert_eq!(
            serde_json::to_string(&other.snapshot()).unwrap(),
            serde_json::to_string(&one.snapshot()).unwrap()
        );
        let last = one.snapshot();
        for (store, memory) in [(one, &opened), (other, &continued)] {
            if dice.one_in(2) {
                store.close().unwrap();
            }
            drop(store);
            let file = DurableFile::read_journal(memory.clone()).unwrap();
            file.verify().unwrap();
            assert_eq!(file.document(), &last, "round {round}");
            memory.open(options.clone()).close().unwrap();
        }
        assert_eq!(entries(&continued), entries(&opened), "round {round}");
    }
    let loads = loads.load(Ordering::Relaxed);
    println!("{learned} reads, {reloads} reloads, {loads} of 60 takeovers with a load");
    assert!(reloads > 0 && learned > 0 && loads < 40);
}
