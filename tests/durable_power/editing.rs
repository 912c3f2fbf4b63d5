//! The program that edits, and what is known about its document at each moment.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::thread;

use doclock::document::check;
use doclock::durable::{Durability, DurableOptions, OpenError, RedbJournal};
use doclock::inbox::Inbox;
use doclock::transaction::{Operation, TransactionResult};
use doclock::{
    DataStore, Editor, NodeId, Snapshot, TransactionManager, View, codes::CodedError, dsl::*,
};

use crate::common::Dice;
use crate::disk::{Disk, Event};

/// Numbers that were given out, each with the number of events before that.
type Given = Arc<Mutex<HashMap<String, usize>>>;

/// What an open must find.
#[derive(Clone, Default)]
pub(crate) struct Known {
    pub(crate) acknowledged: u64,
    pub(crate) begun: u64,
    /// The documents of these versions and of those between them.
    documents: BTreeMap<u64, Snapshot>,
    /// The numbers that were given out, each time until a moment.
    given: Vec<(Given, usize)>,
    /// The versions that were made by a transaction with a key, or by a message.
    once: BTreeMap<u64, Once>,
}

/// Why a commit is not made again.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Once {
    Key,
    Message,
}

impl Once {
    fn name(self, version: u64) -> String {
        format!("{self:?} {version}")
    }
}

impl Known {
    pub(crate) fn of_an_empty_disk() -> Self {
        let documents = BTreeMap::from([(0, Snapshot::default())]);
        Self {
            documents,
            ..Self::default()
        }
    }
}

/// How a session edits.
pub(crate) struct Plan {
    pub(crate) threads: usize,
    pub(crate) commits: usize,
    pub(crate) checkpoint_after: usize,
    pub(crate) closes: bool,
}

impl Plan {
    pub(crate) fn draw(dice: &mut Dice, commits: usize) -> Self {
        Self {
            threads: if dice.one_in(2) { 3 } else { 1 },
            commits,
            checkpoint_after: [0, 400, 4_000][dice.below(3)],
            closes: dice.one_in(2),
        }
    }
}

/// A document on a disk that is edited in sessions.
pub(crate) struct Run {
    pub(crate) disk: Disk,
    before: Known,
    documents: Mutex<BTreeMap<u64, Snapshot>>,
    given: Given,
    once: Mutex<BTreeMap<u64, Once>>,
}

impl Run {
    pub(crate) fn new(disk: Disk, before: Known) -> Self {
        Self {
            disk,
            before,
            documents: Mutex::default(),
            given: Arc::default(),
            once: Mutex::default(),
        }
    }

    pub(crate) fn open(&self, plan: &Plan) -> Result<DataStore, OpenError> {
        let journal = RedbJournal::over(self.disk.clone())?;
        let options = DurableOptions::new().checkpoint_after(plan.checkpoint_after);
        DataStore::open_journal(journal, options)
    }

    /// Opens the document, checks it, edits it, and closes or drops the store. Returns the version
    /// that was found.
    pub(crate) fn session(&self, plan: &Plan, dice: &mut Dice) -> Result<u64, String> {
        let store = self.open(plan).map_err(|error| error.to_string())?;
        let found = store.version();
        self.check_document(&store)?;
        self.take_numbers(&store)?;
        let seeds: Vec<u64> = (0..plan.threads).map(|_| dice.next()).collect();
        thread::scope(|scope| {
            let store = &store;
            let threads: Vec<_> = seeds
                .into_iter()
                .map(|seed| scope.spawn(move || self.edit(store, plan.commits, Dice(seed))))
                .collect();
            let mut joined = threads.into_iter().map(|thread| thread.join().unwrap());
            joined.try_for_each(|edited| edited)
        })?;
        let last = store.version();
        if plan.closes {
            store.close().map_err(|error| error.to_string())?;
        }
        drop(store);
        self.disk.mark(Event::Acknowledged(last));
        Ok(found)
    }

    pub(crate) fn check_document(&self, store: &DataStore) -> Result<(), String> {
        let (known, snapshot) = (self.known_at_the_end(), store.snapshot());
        let version = snapshot.version();
        let (acknowledged, begun) = (known.acknowledged, known.begun);
        if !(acknowledged..=begun).contains(&version) {
            return Err(format!(
                "version {version} is not one of {acknowledged} to {begun}"
            ));
        }
        if known.documents.get(&version) != Some(&snapshot) {
            return Err(format!("another document has version {version}"));
        }
        check(&snapshot).map_err(|error| error.to_string())?;
        for (made, once) in &known.once {
            let name = once.name(*made);
            let is_known = match once {
                Once::Message => Inbox::new(store, "messages").event(&name).is_some(),
                Once::Key => {
                    let manager = TransactionManager::new(store.clone());
                    let nothing: [Operation; 0] = [];
                    let found = manager.transaction(nothing).idempotent(&name).commit();
                    found.is_ok_and(|found| found.repeated && found.version == *made)
                }
            };
            if is_known != (*made <= version) {
                return Err(format!("{name} is known: {is_known}, in version {version}"));
            }
        }
        self.documents.lock().unwrap().insert(version, snapshot);
        self.disk.mark(Event::Opened(version));
        Ok(())
    }

    /// Takes note of the present document.
    pub(crate) fn note_document(&self, store: &DataStore) {
        let snapshot = store.snapshot();
        let documents = &mut self.documents.lock().unwrap();
        documents.insert(snapshot.version(), snapshot);
    }

    /// Takes numbers that no commit records, without a write.
    pub(crate) fn take_unwritten(&self, store: &DataStore) -> Result<NodeId, String> {
        let id = store.generate_id().unwrap();
        let node = id.to_string();
        let (session, _) = node.split_once(':').unwrap();
        self.give("session", session)?;
        self.give("node", &node)?;
        let lock = store.acquire_lock("window").unwrap();
        store.release_lock(lock).unwrap();
        self.give("lock", lock.number())?;
        Ok(id)
    }

    /// Takes numbers that no commit records.
    pub(crate) fn take_numbers(&self, store: &DataStore) -> Result<(), String> {
        let node = self.take_unwritten(store)?;
        let lease = store
            .leases()
            .acquire(node, "ann", std::time::Duration::from_secs(9));
        let lease = lease.unwrap();
        let given = self.give("lease", lease.fencing_token().get());
        lease.release().unwrap();
        given
    }

    /// Takes note of a number that was given out, and checks that it never was before.
    fn give(&self, kind: &str, number: impl ToString) -> Result<(), String> {
        let key = format!("{kind} {}", number.to_string());
        let earlier = self.before.given.iter().any(|(given, until)| {
            let given = given.lock().unwrap();
            given.get(&key).is_some_and(|moment| moment < until)
        });
        let moment = self.disk.state().events.len();
        let again = self.given.lock().unwrap().insert(key.clone(), moment);
        match earlier || again.is_some() {
            true => Err(format!("{key} was given out before")),
            false => Ok(()),
        }
    }

    /// Commits random edits. The threads publish in turn, so the document of each version is known,
    /// and wait for the disk together.
    fn edit(&self, store: &DataStore, commits: usize, mut dice: Dice) -> Result<(), String> {
        let waits = Editor::new(store.clone(), "ann");
        let goes_on = Editor::new(store.clone(), "bob").with_durability(Durability::Later);
        for _ in 0..commits {
            let in_turn = dice.one_in(3);
            let mut documents = self.documents.lock().unwrap();
            self.disk.mark(Event::Begun(store.version() + 1));
            let editor = if in_turn { &waits } else { &goes_on };
            let once = match dice.below(4) {
                0 => Some(Once::Key),
                1 => Some(Once::Message),
                _ => None,
            };
            let result = match once {
                None => edit_at_random(editor, &mut dice)?,
                Some(once) => {
                    let version = store.version() + 1;
                    self.once.lock().unwrap().insert(version, once);
                    Some(edit_once(editor, once, &once.name(version))?)
                }
            };
            let snapshot = store.snapshot();
            documents.insert(snapshot.version(), snapshot);
            drop(documents);
            let Some(result) = result else { continue };
            if in_turn || dice.one_in(2) {
                let durable = store.wait_durable(result.version).wait();
                durable.map_err(|error| error.to_string())?;
                self.disk.mark(Event::Acknowledged(result.version));
            }
            self.give("token", result.fencing_token)?;
            self.give("transaction", result.transaction_id)?;
            for node in result.operations.iter().flat_map(|done| &done.created) {
                self.give("node", node)?;
            }
        }
        Ok(())
    }

    /// Whether a store was opened before so many events.
    pub(crate) fn was_opened(&self, at: usize) -> bool {
        let events = &self.disk.state().events[..at];
        events.iter().any(|event| matches!(event, Event::Opened(_)))
    }

    pub(crate) fn known_at_the_end(&self) -> Known {
        let events = self.disk.state().events.len();
        self.known(events)
    }

    /// What is known about the document after so many events.
    fn known(&self, at: usize) -> Known {
        let mut known = self.before.clone();
        let mut is_open = false;
        for event in &self.disk.state().events[..at] {
            match event {
                Event::Opened(version) => {
                    is_open = true;
                    known.once.retain(|made, _| made <= version);
                    known.acknowledged = *version;
                    known.begun = *version;
                }
                Event::Begun(version) => known.begun = *version,
                Event::Acknowledged(version) => {
                    known.acknowledged = known.acknowledged.max(*version);
                }
                _ => {}
            }
        }
        if is_open {
            let documents = self.documents.lock().unwrap();
            let possible = documents.range(known.acknowledged..=known.begun);
            known.documents = possible.map(|(at, it)| (*at, it.clone())).collect();
            known.given.push((Arc::clone(&self.given), at));
            let once = self.once.lock().unwrap();
            known.once.extend(once.range(..=known.begun));
        }
        known
    }

    /// Cuts the power after so many events: the disk that is left, and what is known of it.
    pub(crate) fn cut(&self, at: usize, dice: &mut Dice) -> (Vec<u8>, Known) {
        (self.disk.after_a_cut(at, dice), self.known(at))
    }

    /// Kills the process after so many events. The next one uses the same disk.
    pub(crate) fn kill(&self, at: usize) -> Self {
        Self::new(self.disk.after_a_kill(at), self.known(at))
    }
}

/// Commits an edit that is made once.
fn edit_once(editor: &Editor, once: Once, name: &str) -> Result<TransactionResult, String> {
    let node = text_node("paragraph", name);
    if once == Once::Key {
        let batch = transaction(editor, create(node)).idempotent(name);
        return batch.commit().map_err(|error| error.to_string());
    }
    let claim = Inbox::new(editor.store(), "messages").claim(&(name, ()));
    let claim = claim.map_err(|outcome| format!("{name}: {outcome:?}"))?;
    let transaction = editor.store().begin(editor.owner().clone());
    let mut transaction = transaction.map_err(|error| error.to_string())?;
    transaction
        .create(node)
        .map_err(|error| error.to_string())?;
    claim.commit(transaction).map_err(|error| error.to_string())
}

/// Commits an edit. `None` if it does not fit the document.
fn edit_at_random(editor: &Editor, dice: &mut Dice) -> Result<Option<TransactionResult>, String> {
    let snapshot = editor.store().snapshot();
    let mut ids: Vec<&NodeId> = snapshot.nodes().map(doclock::document::Node::id).collect();
    ids.sort();
    let node = |dice: &mut Dice| {
        let text = "some text ".repeat(1 + dice.below(40) * dice.below(10));
        text_node("paragraph", text)
    };
    if ids.len() < 3 {
        let created = editor.execute([create(node(dice))]);
        return created.map(Some).map_err(|error| error.to_string());
    }
    let [a, b] = [0, 0].map(|_| ids[dice.below(ids.len())]);
    let len = snapshot.node(a).unwrap().text().chars().count();
    let operation = match dice.below(if ids.len() < 40 { 11 } else { 4 }) {
        0 | 1 => delete_node().on(a),
        2 => move_node(b, None).on(a),
        3 => {
            let undone = editor.undo().commit();
            return refused(undone.map_err(|error| (error.code(), error.to_string())));
        }
        4 => create(node(dice)),
        5 => add_child(node(dice), None).on(a),
        6 => insert_text(dice.below(len + 1), "more text ".repeat(dice.below(50))).on(a),
        7 => delete_text_range(0, dice.below(len + 1)).on(a),
        8 => clone_node_with_children().on(a),
        9 => split_block_node(dice.below(3)).on(a),
        _ => set_attrs([("level", dice.below(9).into())]).on(a),
    };
    let done = editor.execute([operation]);
    refused(done.map_err(|error| (error.code(), error.to_string())))
}

/// Takes an edit that does not fit the document for none.
fn refused<T>(done: Result<T, (&'static str, String)>) -> Result<Option<T>, String> {
    match done {
        Ok(result) => Ok(Some(result)),
        Err((code, error)) if code.starts_with("commit") => Err(error),
        Err(_) => Ok(None),
    }
}
