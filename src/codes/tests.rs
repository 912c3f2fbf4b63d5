//! Every public error as data: its code and evidence, compared with the page.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};

use super::{Coded, CodedError, Kind, Retry, camel_case};
use crate::diagnostics::ServerError;
use crate::document::schema::*;
use crate::document::*;
use crate::document::{Limit, Position};
use crate::dsl::op;
use crate::durable::{
    DurabilityError, JournalError, JournalErrorKind, OpenError, ReplicaError, TakeoverError,
    VersionError,
};
use crate::events::MissingCommits;
use crate::history::*;
use crate::html::HtmlError;
use crate::id::{FencingToken, LockId, NodeId, OwnerId, TransactionId};
use crate::inbox::*;
use crate::lease::*;
use crate::lock::LockInfo;
use crate::lock::keyed::*;
use crate::lock::limiter::*;
use crate::lock::node::*;
use crate::lock::*;
use crate::markdown::{MarkdownMark, MarkdownNames, MarkdownOptions};
use crate::prosemirror::{ProseMirrorError, StepError};
use crate::transaction::Refusal;
use crate::transaction::*;
use crate::*;

/// One error for each line of its type.
struct Sample {
    error: &'static str,
    kinds: &'static [Option<Kind>],
    code: &'static str,
    retry: Retry,
    status: u16,
    message: String,
    json: Map<String, Value>,
}

/// One error for each line of a type, with its expected code. The functions below are tables, one
/// row for each.
fn samples_of<E: Coded + CodedError>(
    errors: impl IntoIterator<Item = (&'static str, E)>,
) -> Vec<Sample> {
    let samples: Vec<Sample> = errors
        .into_iter()
        .map(|(expected, error)| {
            let code = error.code();
            assert_eq!(code, expected, "the code of {} changed: {error}", E::NAME);
            let Ok(Value::Object(json)) = serde_json::to_value(&error) else {
                panic!("{error} is not an object in JSON");
            };
            Sample {
                error: E::NAME,
                kinds: E::KINDS,
                code,
                retry: error.retry(),
                status: error.http_status(),
                message: error.to_string(),
                json,
            }
        })
        .collect();
    assert_eq!(samples.len(), E::KINDS.len(), "variants of {}", E::NAME);
    samples
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

fn transaction() -> TransactionId {
    TransactionId {
        session: 1,
        number: 2,
    }
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
    match lock.acquire_lock_with("bob", options) {
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
    match FifoLock::new().acquire_lock_with(owner(), options) {
        Err(LockError::Cancelled(mut evidence)) => {
            evidence.waited = Duration::from_micros(1500);
            evidence.queued = Some((lock_id(), 3));
            *evidence
        }
        other => panic!("{other:?}"),
    }
}

fn lease() -> LeaseInfo {
    LeaseInfo {
        targets: "ann".into(),
        owner_id: owner(),
        fencing_token: FencingToken(7),
        expires_at: SystemTime::UNIX_EPOCH,
    }
}

fn lease_lost() -> LeaseLost {
    LeaseLost {
        fencing_token: FencingToken(7),
        lease: Some(lease()),
        holder: None,
    }
}

fn call() -> Box<CallEvidence> {
    let limiter = InFlightLimiter::new(1);
    let _held = limiter.acquire("mail").unwrap();
    match limiter.try_acquire("mail") {
        Err(LimiterError::Busy { call }) => call,
        other => panic!("{other:?}"),
    }
}

fn taken_out() -> TakenOut {
    TakenOut {
        transaction: transaction(),
    }
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
    LimitExceeded {
        limit: Limit::Nodes,
        most: 1,
        found: 2,
    }
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
    let manager = TransactionManager::new(DataStore::new());
    let panics = op(|_| -> Result<(), EditError> { panic!("no paper") });
    match manager.execute([panics]) {
        Err(TransactionError::Operation {
            cause: OperationError::Panicked(payload),
            ..
        }) => payload,
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
        ("lockRevoked", LockError::Revoked { id: lock_id() }),
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
        ("lockRevoked", ReleaseError::Revoked { id: got }),
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
        ("lockRevoked", ExecutionError::Lock(LockError::Revoked { id: lock_id() })),
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
    let names = MarkdownNames::new().mark(MarkdownMark::Link, "image");
    all.extend(samples_of([("markdownNameAmbiguous", MarkdownOptions::new().names(names).unwrap_err())]));
    all.extend(samples_of([
        ("htmlTooDeep", HtmlError::TooDeep { line: 3, limit: 512 }),
        ("htmlTooLarge", HtmlError::TooLarge { line: 3 }),
    ]));
    let path = || "content[2]".to_owned();
    let cause = NodeSpec::from_json("{").unwrap_err();
    all.extend(samples_of([
        ("proseMirrorJson", ProseMirrorError::Json { path: path(), cause }),
        ("proseMirrorText", ProseMirrorError::Text { path: path(), kind: "text".to_owned(), reason: "has no text" }),
        ("proseMirrorStepType", ProseMirrorError::StepType { step_type: "attr".to_owned() }),
        ("proseMirrorDropped", ProseMirrorError::Dropped { dropped: Vec::new() }),
        ("proseMirrorSlice", ProseMirrorError::Slice { reason: "is open deeper than it nests" }),
        ("proseMirrorSchema", ProseMirrorError::Schema { path: path(), cause: violation() }),
    ]));
    let position = 7;
    all.extend(samples_of([
        ("stepOutOfRange", StepError::OutOfRange { position, size: 6 }),
        ("stepMisfit", StepError::Misfit { position, reason: "it would overwrite content" }),
        ("stepJoin", StepError::Join { position, left: "paragraph".to_owned(), right: "list".to_owned() }),
        ("stepSchema", StepError::Schema { position, cause: violation() }),
        ("stepShape", StepError::Shape { id: a(), reason: "it is no plain text" }),
        ("stepEdit", StepError::Edit { position, cause: outdated() }),
    ]));
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
        ("commitRevoked", CommitError::Revoked { id: lock_id(), owner: owner(), holder: Some(Box::new(holder())) }),
        ("commitGrantEnded", CommitError::GrantEnded { id: lock_id(), owner: owner(), holder: None }),
        ("transactionTakenOut", taken_out().into()),
        ("typeUnknown", violation().into()),
        ("commitNotLocked", CommitError::NotLocked(Box::new(LockError::Deadlock(Box::new(deadlock()))))),
        ("commitConflict", CommitError::Conflict { node: Some(id("a")), version: 2 }),
        ("commitRepeated", CommitError::Repeated { key: "key".into() }),
        ("commitLeaseLost", CommitError::LeaseLost(Box::new(lease_lost()))),
        ("commitSuperseded", CommitError::Superseded { event: "evt-1".into(), token: FencingToken(7) }),
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
        ("openNewer", OpenError::Newer { found: 7, known: 1 }),
        ("openNoPermission", OpenError::NoPermission { message: "denied".into() }),
        ("openCorrupt", OpenError::Corrupt(journal())),
        ("journal", OpenError::Journal(journal())),
        ("openEpochTooLarge", OpenError::EpochTooLarge { epoch: 1 << 28, largest: (1 << 28) - 1 }),
        ("typeUnknown", OpenError::Schema(Box::new(violation()))),
    ]));
    all.extend(samples_of([("journal", journal())]));
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
        ("replicaNewer", ReplicaError::Newer { block: 7, found: 7, known: 1 }),
        ("journal", ReplicaError::Journal(journal())),
        ("openCorrupt", ReplicaError::Load(Box::new(OpenError::Corrupt(journal())))),
    ]));
    all.extend(samples_of([
        ("openLocked", TakeoverError { cause: OpenError::Locked, replica: None }),
    ]));
    all.extend(samples_of([
        ("notDurable", DurabilityError::NotDurable),
        ("durabilityTimeout", DurabilityError::Timeout { version: 4, durable_version: 3, timeout: Duration::from_secs(1) }),
        ("storeClosed", DurabilityError::Closed { durable_version: 3 }),
        ("durabilityNoKeeper", DurabilityError::NoKeeper { version: 3, reason: "no memory".to_owned() }),
        ("journalFenced", journal_fenced()),
        ("journalFailed", journal_failed()),
    ]));
    all.extend(samples_of([
        ("diagnosticsAddressInUse", ServerError::AddressInUse { address: "127.0.0.1:7007".into() }),
        ("diagnosticsNotASocket", ServerError::NotASocket { path: "notes.txt".into() }),
        ("diagnosticsServerFailed", ServerError::Io { address: "notes.sock".into(), reason: "no memory".into() }),
    ]));
    all.extend(samples_of([("transactionTakenOut", taken_out())]));
    all.extend(samples_of([
        ("commitsRemoved", MissingCommits::Removed { version: 3, earliest: 17, latest: 40 }),
        ("versionNotReached", MissingCommits::NotReached { version: 50, latest: 40 }),
    ]));
    all.extend(samples_of([("savepointGone", SavepointError { transaction: transaction(), number: 1 })]));
    let alias = || "total".into();
    all.extend(samples_of([
        ("aliasUnknown", AliasError::Unknown { alias: alias() }),
        ("aliasTaken", AliasError::Taken { alias: alias() }),
        ("aliasNothingCreated", AliasError::NothingCreated { alias: alias() }),
    ]));
    all.extend(samples_of([("leaseLost", lease_lost())]));
    all.extend(samples_of([
        ("leaseConflict", LeaseError::Conflict(Box::new(LeaseHolder { target: "ann".into(), lease: lease(), remaining: Duration::from_secs(3) }))),
        ("leaseLost", LeaseError::Lost(Box::new(lease_lost()))),
        ("leaseOtherStore", LeaseError::OtherStore),
        ("leaseNoTargets", LeaseError::NoTargets),
        ("leaseTargetEmpty", LeaseError::EmptyTarget),
        ("leaseNoDuration", LeaseError::NoDuration),
        ("leaseTooLong", LeaseError::TooLong { duration: Duration::MAX }),
    ]));
    all.extend(samples_of([("inboxInUse", InboxInUse { name: "payments".into(), claims: 1, remaining: Duration::from_secs(3) })]));
    all.extend(samples_of([
        ("workerCancelled", Interruption::Cancelled),
        ("lockRevoked", Interruption::Lock(LockError::Revoked { id: lock_id() })),
        ("commitReadOnly", Interruption::ReadOnly(Box::new(CommitError::ReadOnly { cause: None }))),
    ]));
    all.extend(samples_of([("workerInterrupted", Interrupted { messages: vec![("evt-1", "5 €")], cause: Interruption::Lock(LockError::Deadlock(Box::new(deadlock()))) })]));
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
        ("lockRevoked", TransactionError::from(LockError::Revoked { id: lock_id() })),
        ("lockNotHeld", JoinError::NotHeld { id: lock_id() }.into()),
        ("operationFailed", TransactionError::Operation { index: 3, name: "insertText", node_id: Some(a()), cause: outdated().into() }),
        ("beforeHookRefused", TransactionError::Refused { hook: hook(), reason: "no".to_owned() }),
        ("beforeHookPanicked", TransactionError::HookPanicked { hook: hook(), payload: panicked() }),
        ("idempotencyMismatch", IdempotencyMismatch { key: "key".into(), transaction_id: transaction(), version: 2 }.into()),
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
        ("versionConflict", OperationError::VersionConflict { expected: 1, found: 2 }),
        ("leaseNoTargets", LeaseError::NoTargets.into()),
        ("transactionTakenOut", taken_out().into()),
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
        IdempotencyMismatch { key: "key".into(), transaction_id: transaction(), version: 2 },
    )]));
    all.extend(samples_of([
        ("nothingToUndo", UndoError::NothingToUndo),
        ("nothingToRedo", UndoError::NothingToRedo),
        ("lockRevoked", UndoError::Lock(LockError::Revoked { id: lock_id() })),
        ("undoConflict", UndoError::Conflict { redo: false, conflict: UndoConflict::Impossible(outdated()), by: Some(("bob".into(), 2)), returns: true }),
        ("undoInverse", UndoError::Inverse(outdated().into())),
        ("idempotencyMismatch", IdempotencyMismatch { key: "key".into(), transaction_id: transaction(), version: 2 }.into()),
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

/// The name of a type without its parameters.
fn bare(name: &str) -> String {
    name.split('<').next().unwrap_or_default().trim().to_owned()
}

fn names(evidence: &[&str]) -> BTreeSet<String> {
    evidence.iter().map(|name| camel_case(name)).collect()
}

#[test]
fn every_error_has_its_code_its_text_and_its_evidence_in_json() {
    for Sample {
        error,
        kinds,
        code,
        message,
        mut json,
        ..
    } in samples()
    {
        assert_eq!(json.remove("code"), Some(code.into()), "{error}");
        assert_eq!(json.remove("message"), Some(message.into()), "{error}");
        let own = kinds.iter().flatten().find(|kind| kind.code == code);
        let Some(kind) = own else {
            // It has the code of its inner error, which has its own sample.
            continue;
        };
        let found: BTreeSet<String> = json.keys().cloned().collect();
        assert_eq!(found, names(kind.evidence), "{error}: {code}");
        if let Some(cause) = json.get("cause") {
            assert!(cause["code"].is_string() && cause["message"].is_string());
        }
    }
}

#[test]
fn every_code_of_every_error_has_a_sample() {
    let mut sampled: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut lines: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for sample in samples() {
        let own = sample.kinds.iter().flatten().map(|kind| kind.code);
        lines.entry(sample.error).or_default().extend(own);
        let codes = sampled.entry(sample.error).or_default();
        codes.insert(sample.code);
    }
    for (error, codes) in lines {
        let missing: Vec<_> = codes.difference(&sampled[error]).collect();
        assert!(missing.is_empty(), "{error}: {missing:?}");
    }
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// A new error without a code would have neither a JSON form nor a row in the page.
#[test]
fn every_type_that_is_an_error_has_codes() {
    let mut files = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in ["src", "crates/locks/src"] {
        sources(&root.join(folder), &mut files);
    }
    let mut errors = BTreeSet::new();
    for file in files
        .iter()
        .filter(|file| !file.ends_with("codes/tests.rs"))
    {
        let source = fs::read_to_string(file).unwrap();
        let mut derived = false;
        for line in source.lines() {
            derived |= line.contains("thiserror::Error)]");
            let item = ["pub enum ", "pub struct "]
                .iter()
                .find_map(|item| line.strip_prefix(item));
            let by_hand = line.strip_prefix("impl std::error::Error for ");
            if let Some(name) = by_hand.or(item.filter(|_| derived)) {
                derived = false;
                errors.insert(bare(name.trim_end_matches(" {}").trim_end_matches(" {")));
            }
        }
    }
    let coded: BTreeSet<String> = samples().iter().map(|sample| bare(sample.error)).collect();
    let missing: Vec<_> = errors.difference(&coded).collect();
    assert!(errors.len() > 30 && missing.is_empty(), "{missing:?}");
}

/// A boxed error of a type that is not in the list would be an error of the program.
#[test]
fn every_type_that_is_an_error_is_recognized_in_a_box() {
    let listed: BTreeSet<String> = include_str!("list.rs")
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
    let taken: Boxed = TakeoverError {
        cause: OpenError::Locked,
        replica: None,
    }
    .into();
    assert_eq!(of(wrap(taken)), ("openLocked", Retry::Later, 503));
}

/// The row of a code on the page.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    evidence: BTreeSet<String>,
    /// `no`, `now`, `later` or `if`.
    retry: String,
    /// `None` if it is that of the cause.
    status: Option<u16>,
}

impl Row {
    /// What the line of an error says.
    fn of(kind: &Kind) -> Self {
        let retry = match kind.retry {
            [] => "no",
            ["true"] => "now",
            ["Retry::Later"] => "later",
            _ => "if",
        };
        let status = match kind.status {
            [] => Some(match retry {
                "no" => 422,
                "now" => 409,
                "later" => 503,
                _ => panic!("the status of {} depends on its verdict", kind.code),
            }),
            [status] => status.parse().ok(),
            _ => unreachable!("a line has one status"),
        };
        Self {
            evidence: names(kind.evidence),
            retry: retry.to_owned(),
            status,
        }
    }
}

/// The words of a cell that are code.
fn quoted(cell: &str) -> impl Iterator<Item = String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned)
}

/// The codes of the page with the errors in its headings, and the rows by code.
fn page() -> (BTreeSet<(String, String)>, BTreeMap<String, Row>) {
    let mut headed: Vec<String> = Vec::new();
    let (mut codes, mut rows) = (BTreeSet::new(), BTreeMap::new());
    for line in include_str!("../../docs/errors.md").lines() {
        if line.starts_with("## ") {
            headed = quoted(line).collect();
        }
        let Some(cells) = line.strip_prefix("| `") else {
            continue;
        };
        let cells: Vec<&str> = cells.split('|').map(str::trim).collect();
        let [code, _, evidence, retry, status, _] = cells[..] else {
            panic!("{line}");
        };
        let code = code.trim_end_matches('`').to_owned();
        codes.extend(headed.iter().map(|error| (error.clone(), code.clone())));
        let retry = retry.split([' ', ':']).next().unwrap_or_default();
        let row = Row {
            evidence: quoted(evidence).collect(),
            retry: retry.to_owned(),
            status: match status {
                "that of `cause`" => None,
                status => Some(status.parse().unwrap_or_else(|_| panic!("{line}"))),
            },
        };
        assert!(rows.insert(code, row).is_none(), "twice: {line}");
    }
    (codes, rows)
}

#[test]
fn the_page_of_errors_has_every_code_with_its_evidence_its_verdict_and_its_status() {
    let (headed, rows) = page();
    let mut expected = BTreeMap::new();
    for sample in samples() {
        for kind in sample.kinds.iter().flatten() {
            let error = (bare(sample.error), kind.code.to_owned());
            assert!(
                headed.contains(&error),
                "not in a section of its own: {error:?}"
            );
            // A code has one meaning and one form in all errors.
            if let Some(before) = expected.insert(kind.code.to_owned(), Row::of(kind)) {
                assert_eq!(expected[kind.code], before, "{}", kind.code);
            }
        }
    }
    for (code, row) in &expected {
        assert_eq!(rows.get(code), Some(row), "{code}");
    }
    let unknown: Vec<_> = rows
        .keys()
        .filter(|code| !expected.contains_key(*code))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// The trait returns what the page says, for every sample of every error.
#[test]
fn every_error_has_the_verdict_and_the_status_of_its_row() {
    let (_, rows) = page();
    for sample in samples() {
        let (error, code) = (sample.error, sample.code);
        let row = &rows[code];
        let expected = match row.retry.as_str() {
            "no" => Retry::No,
            "later" => Retry::Later,
            "now" => Retry::Now,
            // The error of the sample is one of the program.
            _ if code == "codeFailed" => Retry::No,
            // The other samples can be repeated wherever their kind can be.
            _ => Retry::Now,
        };
        assert_eq!(sample.retry, expected, "{error}: {code}");
        let of_cause = || rows[sample.json["cause"]["code"].as_str().unwrap()].status;
        let status = row.status.or_else(of_cause);
        assert_eq!(Some(sample.status), status, "{error}: {code}");
    }
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
