//! The public items: the number of names at the root, the number of methods of the store, and that
//! every type is `Send` and `Sync` (LOCK 18).

use std::fs;
use std::path::{Path, PathBuf};

fn shared<T: Send + Sync>() {}

/// For the types that have no public name.
fn is_shared<T: Send + Sync>(_: &T) {}

#[test]
fn lock_18_every_public_type_is_send_and_sync() {
    shared::<doclock::AliasError>();
    shared::<doclock::CommitError>();
    shared::<doclock::DataStore>();
    shared::<doclock::Draft>();
    shared::<doclock::Editor>();
    shared::<doclock::FencingToken>();
    shared::<doclock::LockId>();
    shared::<doclock::NodeGuard>();
    shared::<doclock::NodeId>();
    shared::<doclock::NodeLocks>();
    shared::<doclock::OwnerId>();
    shared::<doclock::ParseIdError>();
    shared::<doclock::Savepoint>();
    shared::<doclock::SavepointError>();
    shared::<doclock::Snapshot>();
    shared::<doclock::StoreOptions>();
    shared::<doclock::Transaction>();
    shared::<doclock::TransactionId>();
    shared::<doclock::TransactionManager>();
    shared::<doclock::codes::Brief<String>>();
    shared::<doclock::codes::Retry>();
    shared::<doclock::diagnostics::Diagnostics>();
    shared::<doclock::diagnostics::DurableDiagnostics>();
    shared::<doclock::diagnostics::InboxDiagnostics>();
    shared::<doclock::diagnostics::KeptVersion>();
    shared::<doclock::diagnostics::KeptVersions>();
    shared::<doclock::diagnostics::LeaseDiagnostics>();
    shared::<doclock::diagnostics::LogDiagnostics>();
    shared::<doclock::diagnostics::RegisteredPrimitive>();
    shared::<doclock::diagnostics::SessionDiagnostics>();
    shared::<doclock::diagnostics::SubscriberDiagnostics>();
    shared::<doclock::diagnostics::TimelineLayout>();
    shared::<doclock::diagnostics::TimelineTrack>();
    shared::<doclock::document::AttributePatch>();
    shared::<doclock::document::AttributeValue>();
    shared::<doclock::document::Attributes>();
    shared::<doclock::document::AttributesIter<'_>>();
    shared::<doclock::document::Change>();
    shared::<doclock::document::Changes>();
    shared::<doclock::document::Children>();
    shared::<doclock::document::SizedChild>();
    shared::<doclock::document::Sizes>();
    shared::<doclock::document::UndoConflict>();
    shared::<doclock::document::SnapshotProgress>();
    shared::<doclock::document::SplitPoint>();
    shared::<doclock::document::Descendants<'static, doclock::Snapshot>>();
    shared::<doclock::document::EditError>();
    shared::<doclock::document::Fragment>();
    shared::<doclock::document::RightHalf>();
    shared::<doclock::document::IntegrityError>();
    shared::<doclock::document::JsonError>();
    shared::<doclock::document::Limit>();
    shared::<doclock::document::LimitExceeded>();
    shared::<doclock::document::Limits>();
    shared::<doclock::document::MappedPosition>();
    shared::<doclock::document::Mark>();
    shared::<doclock::document::Marks>();
    shared::<doclock::document::MarksChange>();
    shared::<doclock::document::Node>();
    shared::<doclock::document::NodeSelection>();
    shared::<doclock::document::NodeSpec>();
    shared::<doclock::document::HeaderPart>();
    shared::<doclock::document::TableSide>();
    shared::<doclock::document::OffsetError>();
    shared::<doclock::document::ChildPosition>();
    shared::<doclock::document::Position>();
    shared::<doclock::document::Selection>();
    shared::<doclock::document::SharedList<u32>>();
    shared::<doclock::document::Side>();
    shared::<doclock::document::Text>();
    shared::<doclock::document::TextSelection>();
    shared::<doclock::document::TextUnit>();
    #[cfg(feature = "redb")]
    shared::<doclock::durable::CompactReport>();
    shared::<doclock::durable::DurableFile>();
    shared::<doclock::durable::DurableWait>();
    shared::<doclock::durable::AppliedBlock>();
    shared::<doclock::durable::Replica>();
    shared::<doclock::durable::ReplicaError>();
    shared::<doclock::durable::TakeoverError>();
    shared::<doclock::durable::WrittenReceipt>();
    #[cfg(feature = "redb")]
    shared::<doclock::durable::SalvageReport>();
    #[cfg(feature = "redb")]
    shared::<doclock::durable::SalvagedFile>();
    shared::<doclock::durable::UnloadedDocument<'_>>();
    shared::<doclock::durable::VerifyReport>();
    shared::<doclock::durable::VersionError>();
    shared::<doclock::events::CommitEvent>();
    shared::<doclock::events::EventIter>();
    shared::<doclock::events::ExecutedOperation>();
    shared::<doclock::events::Filter>();
    shared::<doclock::events::PendingSubscription>();
    shared::<doclock::events::Subscription>();
    shared::<doclock::history::EditGroup>();
    shared::<doclock::history::HistoryMode>();
    shared::<doclock::history::HistoryEvent>();
    shared::<doclock::history::HistoryEventKind>();
    shared::<doclock::history::HistoryOptions>();
    shared::<doclock::history::UndoError>();
    shared::<doclock::inbox::DeadLetterCause>();
    shared::<doclock::inbox::Claim>();
    shared::<doclock::inbox::DeadLetter>();
    shared::<doclock::inbox::EventState>();
    shared::<doclock::inbox::HandlerError>();
    shared::<doclock::inbox::HandlerResult>();
    shared::<doclock::inbox::Inbox>();
    shared::<doclock::inbox::InboxInUse>();
    shared::<doclock::inbox::InboxOptions>();
    shared::<doclock::inbox::InboxStats>();
    shared::<doclock::inbox::Interrupted<(&'static str, ())>>();
    shared::<doclock::inbox::Interruption>();
    shared::<doclock::inbox::Outcome>();
    shared::<doclock::inbox::ReasonCount>();
    shared::<doclock::lease::Lease>();
    shared::<doclock::lease::LeaseError>();
    shared::<doclock::lease::LeaseHolder>();
    shared::<doclock::lease::LeaseInfo>();
    shared::<doclock::lease::LeaseLost>();
    shared::<doclock::lease::LeaseTarget>();
    shared::<doclock::lease::LeaseTargets>();
    shared::<doclock::lease::Leases>();
    shared::<doclock::lock::AcquireOptions>();
    shared::<doclock::lock::CallSite>();
    shared::<doclock::lock::CancelEvidence>();
    shared::<doclock::lock::CancelToken>();
    shared::<doclock::lock::DurationSummary>();
    shared::<doclock::lock::FifoLock>();
    shared::<doclock::lock::JoinError>();
    shared::<doclock::lock::HeldLock>();
    shared::<doclock::lock::LockCounters>();
    shared::<doclock::lock::LockReport>();
    shared::<doclock::lock::PrimitiveState>();
    shared::<doclock::lock::RequestKind>();
    shared::<doclock::lock::WaiterKind>();
    shared::<doclock::lock::WaitingRequest>();
    shared::<doclock::lock::LockError>();
    shared::<doclock::lock::LockGuard>();
    shared::<doclock::lock::LockInfo>();
    shared::<doclock::lock::LockOptions>();
    shared::<doclock::lock::LockMode>();
    shared::<doclock::lock::SlowReport>();
    shared::<doclock::lock::LockStats>();
    shared::<doclock::lock::SlowRequest>();
    shared::<doclock::lock::Timeline>();
    shared::<doclock::lock::TimelineEntry>();
    shared::<doclock::lock::TimelineOutcome>();
    shared::<doclock::lock::Revocation>();
    let store = doclock::DataStore::new();
    let nodes = doclock::lock::node::Scope::new;
    is_shared::<doclock::lock::PendingRequest<'static, _>>(&store.request("a"));
    is_shared(&store.request_transaction("a"));
    is_shared(&store.request_transaction("a").on(nodes()));
    is_shared(&store.node_locks().request("a", nodes()));
    is_shared(&doclock::lock::FifoLock::new().request("a"));
    let keyed = doclock::lock::keyed::KeyedLock::<&'static str>::new();
    is_shared(&keyed.request(&"a", "b"));
    is_shared(&keyed.request_drain("b"));
    let turn = keyed.reserve(&"a").unwrap();
    is_shared(&keyed.current_execution(&"a").unwrap().request_result());
    drop(turn);
    is_shared(&doclock::lock::limiter::InFlightLimiter::new(1).request("a"));
    shared::<doclock::lock::Priority>();
    shared::<doclock::lock::QueueEntry>();
    shared::<doclock::lock::ReleaseError>();
    shared::<doclock::lock::ReleaseOutcome>();
    shared::<doclock::lock::TimeoutEvidence>();
    shared::<doclock::lock::keyed::Execution<&'static str, ()>>();
    shared::<doclock::lock::keyed::ExecutionError>();
    shared::<doclock::lock::keyed::KeyedLock<&'static str, ()>>();
    shared::<doclock::lock::keyed::HeldKey>();
    shared::<doclock::lock::keyed::DrainRequest<'static, &'static str, ()>>();
    shared::<doclock::lock::keyed::KeyRequest<'static, &'static str, (), &'static str>>();
    shared::<doclock::lock::keyed::KeyedOptions>();
    shared::<doclock::lock::keyed::KeyedStats>();
    shared::<doclock::lock::keyed::TaskPanic>();
    shared::<doclock::lock::keyed::Reservation<&'static str, ()>>();
    shared::<doclock::lock::limiter::Aimd>();
    shared::<doclock::lock::limiter::CallEvidence>();
    shared::<doclock::lock::limiter::CallRequest<&'static str>>();
    shared::<doclock::lock::limiter::InFlightLimiter<&'static str>>();
    shared::<doclock::lock::limiter::KeySnapshot<&'static str>>();
    shared::<doclock::lock::limiter::LimiterError>();
    shared::<doclock::lock::limiter::LimiterCounters>();
    shared::<doclock::lock::limiter::LimiterMetrics>();
    shared::<doclock::lock::limiter::LimiterOptions<&'static str>>();
    shared::<doclock::lock::limiter::LimiterSnapshot<&'static str>>();
    shared::<doclock::lock::limiter::LimiterLoad>();
    shared::<doclock::lock::limiter::Permit<&'static str>>();
    shared::<doclock::lock::limiter::PermitSnapshot>();
    shared::<doclock::lock::limiter::CallCancellation>();
    shared::<doclock::lock::node::Deadlock>();
    shared::<doclock::lock::node::DeadlockLink>();
    shared::<doclock::lock::RequestStats>();
    shared::<doclock::lock::ThreadInfo>();
    shared::<doclock::lock::node::NodeWait>();
    shared::<doclock::lock::node::RefusedDeadlock>();
    shared::<doclock::lock::node::Scope>();
    shared::<doclock::pool::CloseIdleRequest<()>>();
    shared::<doclock::pool::CloseRequest<()>>();
    shared::<doclock::pool::ClosedDocument<()>>();
    shared::<doclock::pool::Document>();
    shared::<doclock::pool::DocumentRequest<()>>();
    shared::<doclock::pool::Documents>();
    shared::<doclock::pool::Opening<'static>>();
    shared::<doclock::pool::PoolError>();
    shared::<doclock::pool::PoolOptions>();
    shared::<doclock::pool::PoolSnapshot>();
    shared::<doclock::pool::PooledDocument>();
    shared::<doclock::schema::AttributeFault>();
    shared::<doclock::schema::AttributeSpec>();
    shared::<doclock::schema::ExpressionError>();
    shared::<doclock::schema::MarkType>();
    shared::<doclock::schema::NodeType>();
    shared::<doclock::schema::Schema>();
    shared::<doclock::schema::SchemaBuilder>();
    shared::<doclock::schema::SchemaError>();
    shared::<doclock::schema::SchemaViolation>();
    shared::<doclock::schema::TableRole>();
    shared::<doclock::schema::ValueType>();
    shared::<doclock::time::Clock>();
    shared::<doclock::time::ManualClock>();
    shared::<doclock::transaction::Alias>();
    shared::<doclock::transaction::Callback>();
    shared::<doclock::transaction::BeforeHook>();
    shared::<doclock::transaction::Child>();
    shared::<doclock::transaction::DocumentOperation>();
    shared::<doclock::transaction::HookFailure>();
    shared::<doclock::transaction::HookId>();
    shared::<doclock::transaction::IdempotencyMismatch>();
    shared::<doclock::transaction::Hooks>();
    shared::<doclock::codes::ErrorResponse>();
    shared::<doclock::transaction::IdempotencyKey>();
    shared::<doclock::transaction::NodeOperation>();
    shared::<doclock::transaction::NodeRef>();
    shared::<doclock::transaction::Operation>();
    shared::<doclock::transaction::OperationError>();
    shared::<doclock::transaction::PanicPayload>();
    shared::<doclock::transaction::Capture>();
    shared::<doclock::transaction::InputEffect>();
    shared::<doclock::transaction::InputRule>();
    shared::<doclock::transaction::InputTarget>();
    shared::<doclock::transaction::Pattern>();
    shared::<doclock::transaction::PatternError>();
    shared::<doclock::transaction::PendingTransaction<'static>>();
    shared::<doclock::transaction::PendingTransaction<'static, doclock::history::UndoError>>();
    shared::<doclock::transaction::Published>();
    shared::<doclock::transaction::Refusal>();
    shared::<doclock::transaction::ScriptError>();
    shared::<doclock::transaction::TextSpan>();
    shared::<doclock::transaction::TransactionError>();
    shared::<doclock::transaction::TransactionResult>();
}

/// The names in `pub use` and `pub mod` of a file.
fn exported(file: &str) -> Vec<&str> {
    let statements = file.split(';').filter_map(|statement| {
        let statement = statement.trim_start();
        let start = statement.rfind("\npub ").map_or(0, |at| at + 1);
        let statement = &statement[start..];
        statement
            .strip_prefix("pub use ")
            .or_else(|| statement.strip_prefix("pub mod "))
    });
    let names = statements.flat_map(|statement| {
        let names = statement
            .rsplit_once("::")
            .map_or(statement, |(_, names)| names);
        let names = statement.split_once('{').map_or(names, |(_, names)| names);
        names.split(|char: char| !char.is_alphanumeric() && char != '_')
    });
    names
        .filter(|name| !name.is_empty() && *name != "self")
        .collect()
}

#[test]
fn the_root_has_at_most_forty_names() {
    let names = exported(include_str!("../src/lib.rs"));
    assert!(names.contains(&"DataStore") && names.contains(&"document"));
    assert!(names.len() <= 40, "{}: {names:?}", names.len());
}

/// The files of Rust in a folder.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let files = paths.flat_map(|path| match path.is_dir() {
        true => files_in(&path),
        false => vec![path],
    });
    files
        .filter(|path| path.extension().is_some_and(|it| it == "rs"))
        .collect()
}

/// The public methods of the store in a file, without those that only models of loom have.
fn methods_of_store(file: &str) -> Vec<&str> {
    let mut methods = Vec::new();
    if file.contains("#![cfg(loom)]") {
        return methods;
    }
    let (mut is_in_impl, mut is_for_models) = (false, false);
    for line in file.lines() {
        match line.strip_prefix("    ").map(str::trim_end) {
            None if !line.is_empty() => {
                let implemented = line
                    .strip_prefix("impl ")
                    .map(|it| it.trim_end_matches(" {"));
                is_in_impl =
                    implemented.is_some_and(|it| it.rsplit("::").next() == Some("DataStore"));
            }
            Some("#[cfg(loom)]") => is_for_models = true,
            Some(code) if code.starts_with("pub fn ") || code.starts_with("pub async fn ") => {
                let name = code.split("fn ").nth(1).unwrap_or_default();
                let name = name.split(['(', '<']).next().unwrap_or_default();
                if is_in_impl && !std::mem::take(&mut is_for_models) {
                    methods.push(name);
                }
            }
            Some("}") => is_for_models = false,
            _ => {}
        }
    }
    methods
}

#[test]
fn the_store_has_at_most_forty_public_methods_in_at_most_four_files() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = files_in(&source.join("store"));
    files.push(source.join("store.rs"));
    let contents = files.iter().map(|path| fs::read_to_string(path).unwrap());
    let contents: Vec<String> = contents.collect();
    let methods = contents.iter().map(|content| methods_of_store(content));
    let listed: Vec<_> = files
        .iter()
        .zip(methods)
        .filter(|(_, it)| !it.is_empty())
        .collect();
    let count: usize = listed.iter().map(|(_, methods)| methods.len()).sum();
    let has = |name| listed.iter().any(|(_, methods)| methods.contains(&name));
    assert!(has("new") && has("begin_on") && has("subscribe") && has("close"));
    assert!(!has("expire") && !has("journal_thread"), "only of models");
    assert!(count <= 40 && listed.len() <= 4, "{count}: {listed:#?}");
}

/// So that a new type is added to the test above.
#[test]
fn every_exported_type_is_named_in_this_file() {
    let here = include_str!("public_items.rs");
    let files = [
        include_str!("../src/lib.rs"),
        include_str!("../src/diagnostics.rs"),
        include_str!("../src/document.rs"),
        include_str!("../crates/document/src/schema/mod.rs"),
        include_str!("../src/store/inbox.rs"),
        include_str!("../crates/locks/src/keyed/mod.rs"),
        include_str!("../crates/locks/src/limiter/mod.rs"),
        include_str!("../src/lock.rs"),
        include_str!("../crates/locks/src/node/mod.rs"),
        include_str!("../src/pool.rs"),
        include_str!("../src/store/events.rs"),
        include_str!("../src/store/lease.rs"),
        include_str!("../src/transaction/history/mod.rs"),
        include_str!("../src/transaction/mod.rs"),
    ];
    // Traits, types of other crates, and `Feed`: it has closures of the thread that feeds an inbox.
    let others = [
        "AsNodeId",
        "CodedError",
        "IntoIdempotencyKey",
        "Feed",
        "IntoOperations",
        "KeptCommits",
        "LimiterKey",
        "Measure",
        "Message",
        "Receiver",
        "RecvError",
        "RecvTimeoutError",
        "Registrable",
        "Rope",
        "RunOperations",
        "SmolStr",
        "Stream",
        "TryRecvError",
        "Value",
        "View",
    ];
    for name in files.into_iter().flat_map(exported) {
        let is_type = name.starts_with(char::is_uppercase) && !others.contains(&name);
        assert!(!is_type || here.contains(&format!("::{name}")), "{name}");
    }
}
