//! A sample of every public error.

#[path = "common/errors.rs"]
mod page;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use doclock::codes::{CodedError, Retry};
use doclock::document::{
    EditError, IntegrityError, LimitExceeded, NodeSpec, OffsetError, Position, TextUnit,
    UndoConflict,
};
use doclock::dsl::{create, op, require_lease};
use doclock::durable::{
    DurabilityError, DurableOptions, Journal, JournalError, JournalErrorKind, JournalWrite,
    OpenError, Replica, ReplicaError, StoredPart, TakeoverError, VersionError,
};
use doclock::events::MissingCommits;
use doclock::history::UndoError;
use doclock::inbox::{HandlerError, Inbox, InboxInUse, Interrupted, Interruption};
use doclock::lease::{LeaseError, LeaseLost};
use doclock::lock::keyed::{ExecutionError, KeyedLock, TaskPanic};
use doclock::lock::limiter::{CallEvidence, InFlightLimiter, LimiterError};
use doclock::lock::node::{Deadlock, Scope};
use doclock::lock::{
    AcquireOptions, CancelEvidence, CancelToken, FifoLock, JoinError, LockError, LockInfo,
    ReleaseError, TimeoutEvidence,
};
use doclock::pool::PoolError;
use doclock::schema::{AttributeFault, ExpressionError, SchemaError, SchemaViolation, ValueType};
use doclock::transaction::{
    HookFailure, HookId, Hooks, IdempotencyMismatch, OperationError, PanicPayload, Pattern,
    PatternError, Refusal, TransactionError, parse_operations,
};
use doclock::{
    AliasError, CommitError, DataStore, FencingToken, LockId, NodeId, OwnerId, SavepointError,
    TransactionManager,
};
use serde_json::json;

use page::{Sample, bare, samples_of};

/// The folders with the errors.
const FOLDERS: &[&str] = &[
    "src",
    "crates/common/src",
    "crates/document/src",
    "crates/locks/src",
];

/// At least so many types are errors.
const ERRORS: usize = 30;

/// The part of the page about them.
fn own_part(page: &str) -> &str {
    let (own, _) = page
        .split_once("\n## Diagnostics for other programs: `ServerError`\n")
        .unwrap();
    own
}

fn id(name: &str) -> NodeId {
    name.into()
}

fn lock_id() -> LockId {
    "lock-7-x9".parse().unwrap()
}

fn owner() -> OwnerId {
    "ann".into()
}

fn holder() -> LockInfo {
    let lock = FifoLock::new();
    let _held = lock.lock(owner()).unwrap();
    lock.current_lock().unwrap()
}

/// The error of a batch that cannot succeed.
fn failed(
    manager: &TransactionManager,
    operation: doclock::transaction::Operation,
) -> TransactionError {
    manager.execute([operation]).unwrap_err()
}

fn manager() -> TransactionManager {
    TransactionManager::new(DataStore::new())
}

fn deadlock() -> Deadlock {
    let store = DataStore::new();
    let locks = store.node_locks();
    let both_read = Barrier::new(2);
    let refused = thread::scope(|threads| {
        let upgrades = ["ann", "bob"].map(|owner| {
            let (locks, both_read) = (&locks, &both_read);
            threads.spawn(move || {
                let mut reader = locks.lock(owner, Scope::new().read("a")).unwrap();
                both_read.wait();
                reader.extend(Scope::new().write("a")).err()
            })
        });
        upgrades
            .into_iter()
            .find_map(|upgrade| upgrade.join().unwrap())
    });
    match refused {
        Some(LockError::UpgradeConflict(deadlock)) => *deadlock,
        other => panic!("{other:?}"),
    }
}

fn timeout() -> TimeoutEvidence {
    let lock = FifoLock::new();
    let _held = lock.acquire_lock(owner()).unwrap();
    let options = AcquireOptions::new().timeout(Duration::from_millis(1));
    match lock.request("bob").options(options).wait() {
        Err(LockError::Timeout(mut evidence)) => {
            evidence.limit = Duration::from_millis(200);
            evidence.waited = Duration::from_millis(250);
            evidence.holder.held_for = Duration::from_millis(1500);
            *evidence
        }
        other => panic!("{other:?}"),
    }
}

fn cancelled() -> CancelEvidence {
    let token = CancelToken::new();
    token.cancel();
    let options = AcquireOptions::new().cancel_token(&token);
    match FifoLock::new().request(owner()).options(options).wait() {
        Err(LockError::Cancelled(mut evidence)) => {
            evidence.waited = Duration::from_micros(1500);
            evidence.queued = Some((lock_id(), 3));
            *evidence
        }
        other => panic!("{other:?}"),
    }
}

fn lease_conflict() -> LeaseError {
    let store = DataStore::new();
    let minute = Duration::from_secs(60);
    let _held = store.leases().acquire("a", owner(), minute).unwrap();
    store.leases().acquire("a", "bob", minute).unwrap_err()
}

fn lease_lost() -> LeaseLost {
    let cause = match failed(&manager(), require_lease(FencingToken::from(7))) {
        TransactionError::Operation { cause, .. } => cause,
        other => panic!("{other:?}"),
    };
    match cause {
        OperationError::Lease(LeaseError::Lost(lost)) => *lost,
        other => panic!("{other:?}"),
    }
}

fn call() -> Box<CallEvidence> {
    let limiter = InFlightLimiter::new(1);
    let _held = limiter.acquire("mail").unwrap();
    match limiter.request("mail").no_wait().wait() {
        Err(LimiterError::Busy { call }) => call,
        other => panic!("{other:?}"),
    }
}

fn foreign_draft() -> CommitError {
    let takes = op(|on| -> Result<(), EditError> {
        std::mem::swap(on, &mut *DataStore::new().begin("other").unwrap());
        Ok(())
    });
    match failed(&manager(), takes) {
        TransactionError::Commit(error) => error,
        other => panic!("{other:?}"),
    }
}

fn savepoint_gone() -> SavepointError {
    let mut transaction = DataStore::new().begin(owner()).unwrap();
    let [first, second] = [(); 2].map(|()| transaction.savepoint());
    transaction.rollback_to(first).unwrap();
    transaction.rollback_to(second).unwrap_err()
}

fn inbox_in_use() -> InboxInUse {
    let inbox = Inbox::new(&DataStore::new(), "payments");
    let _claim = inbox.claim(&("evt-1", ())).unwrap();
    inbox.remove().unwrap_err()
}

fn interrupted() -> Interrupted<(&'static str, ())> {
    let inbox = Inbox::new(&DataStore::new(), "payments");
    let token = CancelToken::new();
    token.cancel();
    let (_sender, messages) = crossbeam_channel::unbounded();
    let feed = doclock::inbox::Feed::from(&messages).cancel_token(&token);
    let mut interrupted = inbox.run(feed, |_, _| Ok(())).unwrap_err();
    interrupted.cause = Interruption::Lock(LockError::Deadlock(Box::new(deadlock())));
    interrupted
}

fn idempotency_mismatch() -> IdempotencyMismatch {
    let manager = manager();
    let once = |kind: &str| {
        let options = AcquireOptions::new();
        manager
            .transaction([create(NodeSpec::new(kind))])
            .idempotent("key")
            .options(options)
            .commit()
    };
    once("x").unwrap();
    match once("y").unwrap_err() {
        TransactionError::IdempotencyMismatch(mismatch) => mismatch,
        other => panic!("{other:?}"),
    }
}

/// A journal that stores nothing, and can be read or not.
struct Unwritten {
    is_readable: bool,
}

impl Journal for Unwritten {
    fn load(
        &mut self,
        _: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        self.is_readable.then_some(()).ok_or_else(journal)
    }

    fn write(&mut self, _: &JournalWrite) -> Result<(), JournalError> {
        Ok(())
    }
}

fn takeover() -> TakeoverError {
    let options = DurableOptions::new();
    let [mut readable, unreadable] = [true, false].map(|is_readable| Unwritten { is_readable });
    let replica = Replica::load(&mut readable, &options).unwrap();
    let mut error = replica.into_store(unreadable, options).unwrap_err();
    error.cause = OpenError::Locked;
    error
}

fn task_panic() -> TaskPanic {
    let lock = KeyedLock::<&str, ()>::new();
    let first = lock.reserve(&"printer").unwrap();
    let execution = lock.current_execution(&"printer").unwrap();
    let panics = || first.execute(|| panic!("no paper"));
    catch_unwind(AssertUnwindSafe(panics)).unwrap_err();
    match execution.join() {
        Err(ExecutionError::Panicked(panic)) => *panic,
        other => panic!("{other:?}"),
    }
}

fn exceeded() -> LimitExceeded {
    serde_json::from_value(json!({ "limit": "nodes", "most": 1, "found": 2 })).unwrap()
}

fn fault() -> AttributeFault {
    AttributeFault::Missing {
        attribute: "level".into(),
    }
}

fn violation() -> SchemaViolation {
    SchemaViolation::UnknownType {
        id: id("a"),
        kind: "x".into(),
    }
}

fn missing() -> EditError {
    EditError::NodeNotFound { id: id("a") }
}

fn outdated() -> EditError {
    EditError::Outdated {
        id: id("a"),
        version: 2,
    }
}

fn position() -> Position {
    Position {
        node_id: id("a"),
        offset: 3,
    }
}

fn hook() -> HookId {
    Hooks::new().after(|_| {})
}

fn panicked() -> PanicPayload {
    let panics = op(|_| -> Result<(), EditError> { panic!("no paper") });
    match failed(&manager(), panics) {
        TransactionError::Operation {
            cause: OperationError::Panicked(payload),
            ..
        } => payload,
        other => panic!("{other:?}"),
    }
}

#[rustfmt::skip]
fn samples_of_locks() -> Vec<Sample> {
    let mut all = samples_of([
        ("lockTimeout", LockError::Timeout(Box::new(timeout()))),
        ("lockWouldBlock", LockError::WouldBlock { owner: owner(), holder: Box::new(holder()), waiting: 1 }),
        ("lockCancelled", LockError::Cancelled(Box::new(cancelled()))),
        ("lockQueueFull", LockError::QueueFull { owner: owner(), waiting: 1, bound: 1 }),
        ("lockDeadlock", LockError::Deadlock(Box::new(deadlock()))),
        ("lockUpgradeConflict", LockError::UpgradeConflict(Box::new(deadlock()))),
        ("lockRevoked", LockError::Revoked { id: lock_id(), waiter: None }),
        ("lockReentrant", LockError::Reentrant { owner: owner(), holder: Box::new(holder()) }),
        ("lockNoKeeper", LockError::NoKeeper { owner: owner(), reason: "no memory".to_owned() }),
    ]);
    let (expected, got) = (lock_id(), lock_id());
    all.extend(samples_of([("lockTimeout", timeout())]));
    all.extend(samples_of([("lockCancelled", cancelled())]));
    all.extend(samples_of([("lockDeadlock", deadlock())]));
    all.extend(samples_of([
        ("lockNotHeld", ReleaseError::NotHeld { id: got }),
        ("lockIdMismatch", ReleaseError::Mismatch { expected, got }),
        ("lockRevoked", ReleaseError::Revoked { id: got, waiter: None }),
        ("transactionOpen", ReleaseError::TransactionOpen { id: got }),
    ]));
    all.extend(samples_of([
        ("lockNotHeld", JoinError::NotHeld { id: got }),
        ("lockIdMismatch", JoinError::Mismatch { expected, got }),
        ("lockNodesOnly", JoinError::NodesOnly { id: got }),
        ("transactionOpen", JoinError::TransactionOpen { id: got }),
    ]));
    all.extend(samples_of([("idInvalid", "lock".parse::<LockId>().unwrap_err())]));
    all.extend(samples_of([("taskPanicked", task_panic())]));
    all.extend(samples_of([
        ("taskPanicked", ExecutionError::Panicked(Box::new(task_panic()))),
        ("taskAbandoned", ExecutionError::Abandoned { id: lock_id(), owner: owner() }),
        ("lockRevoked", ExecutionError::Lock(LockError::Revoked { id: lock_id(), waiter: None })),
    ]));
    all.extend(samples_of([
        ("limiterTimeout", LimiterError::Timeout { limit: Duration::from_millis(2), call: call() }),
        ("limiterCancelled", LimiterError::Cancelled { call: call() }),
        ("limiterQueueFull", LimiterError::QueueFull { bound: 0, call: call() }),
        ("limiterBusy", LimiterError::Busy { call: call() }),
        ("limiterTooHeavy", LimiterError::TooHeavy { key: "mail".to_owned(), weight: 2, limit: 1 }),
        ("limiterNoKeeper", LimiterError::NoKeeper { key: "mail".to_owned(), reason: "no memory".to_owned() }),
    ]));
    all
}

fn inside_pair() -> OffsetError {
    OffsetError::InsidePair { offset: 1, len: 8 }
}

#[rustfmt::skip]
fn samples_of_edits() -> Vec<Sample> {
    let (a, b) = (|| id("a"), || id("b"));
    let mut all = samples_of([
        ("nodeNotFound", missing()),
        ("nodeDeleted", EditError::NodeDeleted { id: a() }),
        ("nodeJoined", EditError::NodeJoined { id: a(), into: b() }),
        ("nodeNotLocked", EditError::NotLocked { id: None, transient: true }),
        ("nodeOutdated", outdated()),
        ("limitExceeded", exceeded().into()),
        ("nodeIdTaken", EditError::IdTaken { id: a() }),
        ("nodeIdEmpty", EditError::IdEmpty),
        ("nodeIdOutOfRange", EditError::IdOutOfRange { id: a(), largest: 9 }),
        ("nodeIdsExhausted", EditError::IdsExhausted),
        ("indexOutOfRange", EditError::IndexOutOfRange { parent: a(), index: 9, len: 1 }),
        ("textOutOfRange", EditError::TextOutOfRange { id: a(), start: 7, end: 9, len: 8 }),
        ("textOffset", EditError::Offset { id: Some(a()), mark: None, cause: inside_pair() }),
        ("markOutOfRange", EditError::MarkOutOfRange { id: a(), kind: "bold".into(), start: 7, end: 9, len: 8 }),
        ("notInTable", EditError::NotInTable { id: a(), role: "cell" }),
        ("tableRule", EditError::TableRule { id: a(), rule: "a row must be left" }),
        ("doesNotFit", EditError::DoesNotFit { id: a(), parent: b(), content: "item+".into() }),
        ("attributeTooDeep", EditError::TooDeep { id: a(), mark: None, attribute: "data".into(), levels: 99, limit: 64 }),
        ("nodeCycle", EditError::Cycle { id: a(), parent: b() }),
        ("notAChild", EditError::NotAChild { parent: a(), child: b() }),
        ("rootDeleted", EditError::RootDeleted { id: a() }),
        ("rootMoved", EditError::RootMoved { id: a(), parent: b() }),
        ("rootAttached", EditError::RootAttached { id: a(), parent: b() }),
        ("noParent", EditError::NoParent { id: a() }),
        ("differentTrees", EditError::DifferentTrees { one: a(), other: b() }),
        ("notAdjacent", EditError::NotAdjacent { left: a(), right: b() }),
        ("changeConflict", EditError::Conflict { id: a(), aspect: "text" }),
        ("typeUnknown", violation().into()),
        ("subtreeMalformed", EditError::Malformed { id: a(), reason: "a node is missing" }),
    ]);
    all.extend(samples_of([("limitExceeded", exceeded())]));
    all.extend(samples_of([
        ("offsetOutOfRange", OffsetError::OutOfRange { offset: 9, len: 8, unit: TextUnit::Utf16 }),
        ("offsetInsidePair", inside_pair()),
        ("offsetReversed", OffsetError::Reversed { start: 3, end: 1, len: 8, unit: TextUnit::Utf16 }),
    ]));
    all.extend(samples_of([
        ("undoNodeGone", UndoConflict::NodeGone { id: a() }),
        ("undoNodeMoved", UndoConflict::Moved { id: a() }),
        ("undoSubtreeChanged", UndoConflict::SubtreeChanged { id: a() }),
        ("undoNodeChanged", UndoConflict::Changed { id: a(), aspect: "type" }),
        ("undoPlaceJoined", UndoConflict::PlaceJoined { id: a() }),
        ("limitExceeded", UndoConflict::Impossible(exceeded().into())),
    ]));
    all.extend(samples_of([
        ("documentChildMissing", IntegrityError::ChildMissing { parent: a(), child: b() }),
        ("documentChildOfAnother", IntegrityError::ChildOfAnother { parent: a(), child: b() }),
        ("documentChildTwice", IntegrityError::ChildTwice { parent: a(), child: b() }),
        ("documentParentDenies", IntegrityError::ParentDenies { parent: a(), child: b() }),
        ("documentCycle", IntegrityError::Cycle { id: a() }),
        ("documentRoot", IntegrityError::Root { id: a() }),
        ("documentMarks", IntegrityError::Marks { id: a() }),
    ]));
    all.extend(samples_of([("jsonInvalid", NodeSpec::from_json("{").unwrap_err())]));
    all
}

#[rustfmt::skip]
fn samples_of_schemas() -> Vec<Sample> {
    let (kind, mark, attribute) = ("list", "bold", "level");
    let (name, of) = ("list", "list");
    let mut all = samples_of([
        ("schemaContent", SchemaError::Content { kind: kind.into(), cause: ExpressionError::TooComplex }),
        ("schemaName", SchemaError::Name { name: name.into(), what: "type" }),
        ("schemaMarkUnderscore", SchemaError::MarkUnderscore),
        ("schemaDuplicate", SchemaError::Duplicate { name: name.into(), what: "type" }),
        ("schemaGroupIsType", SchemaError::GroupIsType { name: name.into() }),
        ("schemaTooMany", SchemaError::TooMany { found: 2, what: "mark", largest: 1 }),
        ("schemaUnknownMark", SchemaError::UnknownMark { kind: kind.into(), mark: mark.into() }),
        ("schemaUnknownExcludedMark", SchemaError::UnknownExcludedMark { kind: kind.into(), mark: mark.into() }),
        ("schemaUnknownRoot", SchemaError::UnknownRoot { kind: kind.into() }),
        ("schemaDuplicateAttribute", SchemaError::DuplicateAttribute { of: of.into(), attribute: attribute.into() }),
        ("schemaAttributeValues", SchemaError::AttributeValues { of: of.into(), attribute: attribute.into(), expected: ValueType::default() }),
        ("schemaTooDeep", SchemaError::TooDeep { of: of.into(), attribute: attribute.into(), levels: 99, limit: 64 }),
        ("schemaAttributeDefault", SchemaError::AttributeDefault { of: of.into(), attribute: attribute.into(), fault: fault() }),
    ]);
    let position = 3;
    all.extend(samples_of([
        ("expressionUnexpected", ExpressionError::Unexpected { position, found: Some('!'), expected: "a name" }),
        ("expressionUnknownName", ExpressionError::UnknownName { position, name: name.into() }),
        ("expressionCountTooLarge", ExpressionError::CountTooLarge { position, largest: 9 }),
        ("expressionCountsReversed", ExpressionError::CountsReversed { position, min: 2, max: 1 }),
        ("expressionTooDeep", ExpressionError::TooDeep { position, deepest: 9 }),
        ("expressionTooLong", ExpressionError::TooLong { longest: 9 }),
        ("expressionTooComplex", ExpressionError::TooComplex),
    ]));
    all.extend(samples_of([
        ("attributeMissing", fault()),
        ("attributeUnknown", AttributeFault::Unknown { attribute: attribute.into() }),
        ("attributeWrongType", AttributeFault::WrongType { attribute: attribute.into(), expected: ValueType::default(), found: ValueType::default() }),
        ("attributeNotAllowed", AttributeFault::NotAllowed { attribute: attribute.into() }),
    ]));
    let a = || id("a");
    all.extend(samples_of([
        ("typeUnknown", violation()),
        ("attributeInvalid", SchemaViolation::Attribute { id: a(), kind: kind.into(), fault: fault() }),
        ("markUnknown", SchemaViolation::UnknownMark { id: a(), mark: mark.into() }),
        ("markNotAllowed", SchemaViolation::MarkNotAllowed { id: a(), kind: kind.into(), mark: mark.into() }),
        ("markAttributeInvalid", SchemaViolation::MarkAttribute { id: a(), mark: mark.into(), fault: fault() }),
        ("textNotAllowed", SchemaViolation::TextNotAllowed { id: a(), kind: kind.into() }),
        ("childNotAllowed", SchemaViolation::ChildNotAllowed { id: a(), kind: kind.into(), content: "item+".into(), index: 0, found: "list".into() }),
        ("childrenMissing", SchemaViolation::ChildrenMissing { id: a(), kind: kind.into(), content: "item+".into(), len: 0 }),
        ("rootTypeInvalid", SchemaViolation::Root { id: a(), kind: kind.into(), expected: "document".into() }),
    ]));
    all
}

fn journal() -> JournalError {
    JournalError::new(JournalErrorKind::Io, "no disk")
}

fn journal_failed() -> DurabilityError {
    DurabilityError::Failed {
        durable_version: 3,
        cause: journal(),
    }
}

fn journal_refused() -> DurabilityError {
    DurabilityError::Failed {
        durable_version: 3,
        cause: journal().storing_nothing(),
    }
}

fn journal_fenced() -> DurabilityError {
    DurabilityError::Fenced {
        durable_version: 3,
        cause: JournalError::new(JournalErrorKind::Fenced, "the term has ended"),
    }
}

#[rustfmt::skip]
fn samples_of_commits() -> Vec<Sample> {
    let mut all = samples_of([
        ("commitRevoked", CommitError::Revoked { id: lock_id(), owner: owner(), waiter: None, holder: Some(Box::new(holder())) }),
        ("commitGrantEnded", CommitError::GrantEnded { id: lock_id(), owner: owner(), holder: None }),
        ("commitForeignDraft", foreign_draft()),
        ("typeUnknown", violation().into()),
        ("commitNotLocked", CommitError::NotLocked(Box::new(LockError::Deadlock(Box::new(deadlock()))))),
        ("commitConflict", CommitError::Conflict { node: Some(id("a")), version: 2 }),
        ("commitRepeated", CommitError::Repeated { key: "key".into() }),
        ("commitLeaseLost", CommitError::LeaseLost(Box::new(lease_lost()))),
        ("commitSuperseded", CommitError::Superseded { event: "evt-1".into(), token: FencingToken::from(7) }),
        ("commitOtherStore", CommitError::OtherStore { event: "evt-1".into() }),
        ("commitUnknown", CommitError::Unknown { version: 4, cause: Box::new(journal_failed()) }),
        ("commitNotStored", CommitError::NotStored { version: 4, cause: Box::new(journal_refused()) }),
        ("commitFenced", CommitError::Fenced { version: 4, cause: Box::new(journal_fenced()) }),
        ("commitReadOnly", CommitError::ReadOnly { cause: Some(journal()) }),
    ]);
    all.extend(samples_of([
        ("openExists", OpenError::Exists),
        ("openMissing", OpenError::Missing),
        ("openNoFolder", OpenError::NoFolder { folder: "notes".into() }),
        ("openDanglingLink", OpenError::DanglingLink { target: "notes.doclock".into() }),
        ("openLocked", OpenError::Locked),
        ("openForeign", OpenError::Foreign),
        ("openNewer", OpenError::Newer { found: 7, known: 2 }),
        ("openNoPermission", OpenError::NoPermission { message: "denied".into() }),
        ("openCorrupt", OpenError::Corrupt(journal())),
        ("journal", OpenError::Journal(journal())),
        ("openEpochTooLarge", OpenError::EpochTooLarge { epoch: 1 << 28, largest: (1 << 28) - 1 }),
        ("typeUnknown", OpenError::Schema(Box::new(violation()))),
    ]));
    all.extend(samples_of([("journal", journal())]));
    all.extend(samples_of([
        ("documentNameInvalid", PoolError::Name { name: "../notes".into(), reason: "it has other characters than a-z, 0-9, - and _" }),
        ("documentBusy", PoolError::Busy { name: "notes".into(), waited: Duration::from_millis(250), cause: Box::new(LockError::Timeout(Box::new(timeout()))) }),
        ("poolFull", PoolError::AllInUse { name: "notes".into(), most_open: 4, waited: Duration::from_millis(250), cause: Box::new(LimiterError::Busy { call: call() }) }),
        ("lockRevoked", PoolError::Lock(LockError::Revoked { id: lock_id(), waiter: None })),
        ("limiterNoKeeper", PoolError::Slot(LimiterError::NoKeeper { key: "open documents".into(), reason: "no memory".into() })),
        ("openLocked", PoolError::Open(OpenError::Locked)),
        ("openerFailed", PoolError::Opener { name: "notes".into(), cause: "no paper".into() }),
        ("documentInUse", PoolError::InUse { name: "notes".into(), uses: 2 }),
        ("documentCloseFailed", PoolError::Close { name: "notes".into(), cause: journal_failed() }),
        ("poolNoThread", PoolError::NoThread { name: "notes".into(), reason: "no memory".into() }),
    ]));
    all.extend(samples_of([
        ("versionMissing", VersionError::Missing { version: 9, first: 3, last: 7 }),
        ("versionDiffers", VersionError::Differs { version: 4, message: "no node a".into() }),
    ]));
    all.extend(samples_of([
        ("replicaNew", ReplicaError::New),
        ("replicaMissingBlock", ReplicaError::MissingBlock { block: 9, expected: 7, version: 12 }),
        ("replicaMissingVersion", ReplicaError::MissingVersion { block: 7, version: 15, expected: 13 }),
        ("replicaDiffers", ReplicaError::Differs { block: 6 }),
        ("replicaDamaged", ReplicaError::Damaged { block: 7, cause: journal() }),
        ("replicaNewer", ReplicaError::Newer { block: 7, found: 7, known: 2 }),
        ("journal", ReplicaError::Journal(journal())),
        ("openCorrupt", ReplicaError::Load(Box::new(OpenError::Corrupt(journal())))),
    ]));
    all.extend(samples_of([
        ("openLocked", takeover()),
    ]));
    all.extend(samples_of([
        ("notDurable", DurabilityError::NotDurable),
        ("durabilityTimeout", DurabilityError::Timeout { version: 4, durable_version: 3, timeout: Duration::from_secs(1) }),
        ("durabilityCancelled", DurabilityError::Cancelled { version: 4, durable_version: 3 }),
        ("storeClosed", DurabilityError::Closed { durable_version: 3 }),
        ("durabilityNoKeeper", DurabilityError::NoKeeper { version: 3, reason: "no memory".to_owned() }),
        ("journalFenced", journal_fenced()),
        ("journalFailed", journal_failed()),
    ]));
    all.extend(samples_of([
        ("commitsRemoved", MissingCommits::Removed { version: 3, earliest: 17, latest: 40 }),
        ("versionNotReached", MissingCommits::NotReached { version: 50, latest: 40 }),
    ]));
    all.extend(samples_of([("savepointGone", savepoint_gone())]));
    let alias = || "total".into();
    all.extend(samples_of([
        ("aliasUnknown", AliasError::Unknown { alias: alias() }),
        ("aliasTaken", AliasError::Taken { alias: alias() }),
        ("aliasNothingCreated", AliasError::NothingCreated { alias: alias() }),
    ]));
    all.extend(samples_of([("leaseLost", lease_lost())]));
    all.extend(samples_of([
        ("leaseConflict", lease_conflict()),
        ("leaseLost", LeaseError::Lost(Box::new(lease_lost()))),
        ("leaseOtherStore", LeaseError::OtherStore),
        ("leaseNoTargets", LeaseError::NoTargets),
        ("leaseTargetEmpty", LeaseError::EmptyTarget),
        ("leaseNoDuration", LeaseError::NoDuration),
        ("leaseTooLong", LeaseError::TooLong { duration: Duration::MAX }),
        ("commitReadOnly", LeaseError::ReadOnly(Box::new(CommitError::ReadOnly { cause: None }))),
    ]));
    all.extend(samples_of([("inboxInUse", inbox_in_use())]));
    all.extend(samples_of([
        ("workerCancelled", Interruption::Cancelled),
        ("lockRevoked", Interruption::Lock(LockError::Revoked { id: lock_id(), waiter: None })),
        ("commitReadOnly", Interruption::ReadOnly(Box::new(CommitError::ReadOnly { cause: None }))),
    ]));
    all.extend(samples_of([("workerInterrupted", interrupted())]));
    all.extend(samples_of([
        ("handlerTransient", HandlerError::transient("no network")),
        ("handlerPoison", HandlerError::poison("no number")),
    ]));
    all
}

#[rustfmt::skip]
fn samples_of_transactions() -> Vec<Sample> {
    let (a, b) = (|| id("a"), || id("b"));
    let mut all = samples_of([
        ("lockRevoked", TransactionError::from(LockError::Revoked { id: lock_id(), waiter: None })),
        ("lockNotHeld", JoinError::NotHeld { id: lock_id() }.into()),
        ("operationFailed", TransactionError::Operation { index: 3, name: "insertText", node_id: Some(a()), cause: outdated().into() }),
        ("beforeHookRefused", TransactionError::Refused { hook: hook(), reason: "no".to_owned() }),
        ("beforeHookPanicked", TransactionError::HookPanicked { hook: hook(), payload: panicked() }),
        ("idempotencyMismatch", idempotency_mismatch().into()),
        ("limitExceeded", exceeded().into()),
        ("commitRepeated", CommitError::Repeated { key: "key".into() }.into()),
    ]);
    all.extend(samples_of([
        ("nodeNotFound", OperationError::from(missing())),
        ("aliasTaken", AliasError::Taken { alias: "total".into() }.into()),
        ("rangeReversed", OperationError::RangeReversed { start: position(), end: position() }),
        ("patternTooLarge", PatternError::TooLarge { pattern: "a".into(), limit: 1 }.into()),
        ("notWrapped", OperationError::NotWrapped { id: a(), before: "(".into(), after: ")".into() }),
        ("markNotFound", OperationError::MarkNotFound { kind: "bold".into(), start: position(), end: position() }),
        ("emptyClipboard", OperationError::EmptyClipboard),
        ("childNamedTwice", OperationError::NamedTwice { id: a() }),
        ("childLeftOut", OperationError::LeftOut { parent: a(), child: b() }),
        ("noGrandparent", OperationError::NoGrandparent { id: a() }),
        ("rootWrapped", OperationError::RootWrapped { id: a() }),
        ("notBehind", OperationError::NotBehind { id: a(), last: b() }),
        ("typesDiffer", OperationError::TypesDiffer { left: a(), right: b() }),
        ("noItem", OperationError::NoItem { id: a(), item_type: "item".into() }),
        ("nothingToJoin", OperationError::NothingToJoin { id: a() }),
        ("versionConflict", OperationError::VersionConflict { expected: 1, found: 2 }),
        ("leaseNoTargets", LeaseError::NoTargets.into()),
        ("codeFailed", OperationError::Failed("no paper".into())),
        ("codePanicked", OperationError::Panicked(panicked())),
    ]));
    all.extend(samples_of([("codePanicked", panicked())]));
    let pattern = || "a".into();
    all.extend(samples_of([
        ("patternInvalid", Pattern::new("(").error().unwrap().clone()),
        ("patternTooLong", PatternError::TooLong { pattern: pattern(), bytes: 2, limit: 1 }),
        ("patternTooLarge", PatternError::TooLarge { pattern: pattern(), limit: 1 }),
        ("patternSearchTooLong", PatternError::SearchTooLong { pattern: pattern(), limit: 1 }),
        ("patternOutputTooLong", PatternError::OutputTooLong { pattern: pattern(), limit: 1 }),
    ]));
    all.extend(samples_of([("scriptInvalid", parse_operations("[{}]").unwrap_err())]));
    all.extend(samples_of([("refused", Refusal::new("no"))]));
    all.extend(samples_of([
        ("afterHookPanicked", HookFailure::Panicked { hook: hook(), message: None }),
        ("afterHookTooDeep", HookFailure::TooDeep { hook: hook(), depth: 16 }),
    ]));
    all.extend(samples_of([(
        "idempotencyMismatch",
        idempotency_mismatch(),
    )]));
    all.extend(samples_of([
        ("nothingToUndo", UndoError::NothingToUndo),
        ("nothingToRedo", UndoError::NothingToRedo),
        ("lockRevoked", UndoError::Lock(LockError::Revoked { id: lock_id(), waiter: None })),
        ("undoScopeNotFound", UndoError::ScopeNotFound { node: "chapter".into() }),
        ("undoConflict", UndoError::Conflict { redo: false, conflict: UndoConflict::Impossible(outdated()), by: Some(("bob".into(), 2)), returns: true }),
        ("undoInverse", UndoError::Inverse(outdated().into())),
        ("idempotencyMismatch", idempotency_mismatch().into()),
        ("limitExceeded", exceeded().into()),
        ("commitRepeated", CommitError::Repeated { key: "key".into() }.into()),
    ]));
    all
}

fn samples() -> Vec<Sample> {
    [
        samples_of_locks(),
        samples_of_edits(),
        samples_of_schemas(),
        samples_of_commits(),
        samples_of_transactions(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A boxed error of a type that is not in the list would be an error of the program.
#[test]
fn every_type_that_is_an_error_is_recognized_in_a_box() {
    let listed: BTreeSet<String> = include_str!("../src/codes/list.rs")
        .split("errors! {")
        .nth(1)
        .and_then(|list| list.split('}').next())
        .unwrap()
        .lines()
        .filter_map(|line| line.trim().strip_suffix(','))
        .map(str::to_owned)
        .collect();
    // The first two are no errors by themselves, and the last has a type parameter: its cause is
    // recognized.
    let others = ["HandlerError", "PanicPayload", "Interrupted"].map(str::to_owned);
    let known: BTreeSet<String> = listed.into_iter().chain(others).collect();
    let coded: BTreeSet<String> = samples().iter().map(|sample| bare(sample.error)).collect();
    assert_eq!(known, coded);
}

#[test]
fn a_boxed_error_has_the_values_of_the_errors_in_it() {
    type Boxed = Box<dyn std::error::Error + Send + Sync>;
    let of = |error: Boxed| (error.code(), error.retry(), error.http_status());
    let wrap = |error: Boxed| -> Boxed { std::io::Error::other(error).into() };
    let outdated = || -> Boxed { outdated().into() };
    assert_eq!(of(outdated()), ("nodeOutdated", Retry::Now, 409));
    assert_eq!(of(wrap(wrap(outdated()))), of(outdated()));
    assert_eq!(of("a string".into()), ("other", Retry::No, 500));
    let failed = OperationError::Failed(wrap(outdated()));
    assert_eq!(of(failed.into()), ("codeFailed", Retry::Now, 500));
    let taken: Boxed = takeover().into();
    assert_eq!(of(wrap(taken)), ("openLocked", Retry::Later, 503));
}

#[test]
fn durations_are_milliseconds_and_causes_are_errors_of_the_same_shape() {
    let error = TransactionError::Operation {
        index: 3,
        name: "requireLease",
        node_id: None,
        cause: LeaseError::TooLong {
            duration: Duration::from_micros(1500),
        }
        .into(),
    };
    let text = error.to_string();
    assert_eq!(
        serde_json::to_value(&error).unwrap(),
        json!({
            "code": "operationFailed",
            "message": text,
            "index": 3,
            "name": "requireLease",
            "nodeId": null,
            "cause": {
                "code": "leaseTooLong",
                "message": "a lease of 1.5ms is too long: its end is out of the range of the clock",
                "durationMs": 1.5,
            },
        })
    );
    let error = serde_json::to_value(LockError::Timeout(Box::new(timeout()))).unwrap();
    assert_eq!(
        (
            &error["limitMs"],
            &error["waitedMs"],
            &error["holder"]["heldFor"]
        ),
        (&json!(200.0), &json!(250.0), &json!(1500.0))
    );
    let error = serde_json::to_value(LockError::Cancelled(Box::new(cancelled()))).unwrap();
    assert_eq!(
        (&error["waitedMs"], &error["id"], &error["position"]),
        (&json!(1.5), &json!("lock-7-x9"), &json!(3))
    );
}
