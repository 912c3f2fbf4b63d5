//! Owners whose writes the server refuses or does not carry out, although the term lasts.

use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use doclock::codes::CodedError;
use doclock::durable::{DurabilityError, DurableOptions, JournalErrorKind};
use doclock::lock::CancelToken;
use doclock::transaction::{TransactionError, TransactionResult};
use doclock::{CommitError, DataStore, TransactionManager};
use doclock_postgres::{Member, MemberOptions, Postgres, RequestError, RequestOptions};

use crate::request_support::{ann, node};
use crate::support::{name, options, parameters, short, sql, until};

const LIMIT: Duration = Duration::from_secs(20);

type Outcome = Result<TransactionResult, RequestError>;

/// Calls in a thread, which a test does not wait for when it fails.
fn call(member: &Member, id: &str, options: RequestOptions) -> Receiver<Outcome> {
    let (ends, ended) = crossbeam_channel::bounded(1);
    let (member, node) = (member.clone(), node(id));
    thread::spawn(move || drop(ends.send(member.execute_with(node, options))));
    ended
}

#[track_caller]
fn end(call: &Receiver<Outcome>) -> Outcome {
    call.recv_timeout(LIMIT).expect("the call does not end")
}

/// An owner and a follower, in a schema of their own.
fn pair(parameters: &str, schema: &str) -> (Member, Member) {
    let server = Postgres::connect(options(parameters).schema(schema).unwrap()).unwrap();
    let brief = |owner: &str| MemberOptions::new(short(owner)).doorbell(false);
    let owner = Member::join(&server, "notes", brief("ann")).unwrap();
    owner.wait_store(LIMIT).unwrap();
    let follower = Member::join(&server, "notes", brief("bob").follow_only()).unwrap();
    owner.execute(node("first")).unwrap();
    (owner, follower)
}

/// Once a failed write was unknown, and the call went on as a request without its timeout.
#[test]
fn cluster_02_a_call_ends_although_the_server_refuses_each_write() {
    let Some(parameters) = parameters() else {
        return;
    };
    let schema = name("refused");
    let (owner, follower) = pair(&parameters, &schema);
    let rename = |from: &str, to: &str| {
        let of = "text, bigint, text, bigint, bigint, bigint, bytea, bigint[], bytea[], bigint[],
            text";
        let rename = format!("ALTER FUNCTION \"{schema}\".{from}({of}) RENAME TO {to}");
        sql(&parameters).batch_execute(&rename).unwrap();
    };
    rename("doclock_append_1", "missing");
    // It is certain that nothing is stored, so no timeout is needed.
    let refused = end(&call(&owner, "here", ann()));
    let error = refused.unwrap_err();
    assert_eq!(error.code(), "commitNotStored", "{error}");
    assert!(error.is_outcome());
    assert!(error.to_string().contains("42883"), "{error}");
    // While the owner loses each store and opens the next one.
    let timeout = Duration::from_millis(300);
    let late = end(&call(&follower, "there", ann().timeout(timeout)));
    let late = late.unwrap_err();
    let is_late = matches!(
        late,
        RequestError::Expired { .. } | RequestError::Timeout { .. }
    );
    assert!(is_late, "{late}");
    let token = CancelToken::new();
    let waits = call(&follower, "cancelled", ann().cancel_token(&token));
    token.cancel();
    let cancelled = end(&waits).unwrap_err();
    let is_cancelled = matches!(
        cancelled,
        RequestError::Cancelled { .. } | RequestError::Timeout { .. }
    );
    assert!(is_cancelled, "{cancelled}");
    rename("missing", "doclock_append_1");
    let last = end(&call(&follower, "last", ann())).unwrap();
    assert!(last.changed);
    let document = owner.snapshot().snapshot;
    assert!(!doclock::View::contains(&document, "here"));
}

/// Once a call waited for the server as long as the owner had its term.
#[test]
fn cluster_05_a_call_ends_although_the_server_carries_out_no_write() {
    let Some(parameters) = parameters() else {
        return;
    };
    let schema = name("blocked");
    let (owner, follower) = pair(&parameters, &schema);
    let mut blocker = sql(&parameters);
    let mut blocks = blocker.transaction().unwrap();
    let lock = format!("LOCK TABLE \"{schema}\".doclock_log IN EXCLUSIVE MODE");
    blocks.batch_execute(&lock).unwrap();
    let began = Instant::now();
    let timeout = Duration::from_millis(200);
    let token = CancelToken::new();
    let calls = [
        call(&owner, "a", ann().timeout(timeout)),
        call(&owner, "b", ann().cancel_token(&token)),
        call(&follower, "c", ann().timeout(timeout)),
        call(&follower, "d", ann().cancel_token(&token)),
    ];
    let store = owner.store().unwrap();
    until("a batch has run", || store.version() > 1);
    token.cancel();
    let errors = calls.each_ref().map(|call| end(call).unwrap_err());
    println!("the calls took {:?}", began.elapsed());
    drop(blocks);
    let last = end(&call(&follower, "last", ann())).unwrap();
    until("it is stored", || {
        follower.snapshot().version() >= last.version
    });
    let document = follower.snapshot().snapshot;
    for (id, error) in ["a", "b", "c", "d"].into_iter().zip(errors) {
        println!("{id}: {error}");
        let is_stored = doclock::View::contains(&document, id);
        assert!(
            !(is_stored && error.is_outcome()),
            "{id} is stored: {error}"
        );
    }
}

#[test]
fn cluster_02_a_commit_that_the_server_refuses_is_certainly_not_stored() {
    let Some(parameters) = parameters() else {
        return;
    };
    let schema = name("certain");
    let server = Postgres::connect(options(&parameters).schema(&schema).unwrap()).unwrap();
    let (term, journal) = server.acquire("notes", short("ann")).unwrap();
    let store = DataStore::open_journal(journal, DurableOptions::new()).unwrap();
    let manager = TransactionManager::new(store.clone());
    manager.execute(node("a")).unwrap();
    let drop_table = format!("DROP TABLE \"{schema}\".doclock_log");
    sql(&parameters).batch_execute(&drop_table).unwrap();
    let error = manager.execute(node("b")).unwrap_err();
    let TransactionError::Commit(CommitError::NotStored { version, cause }) = &error else {
        panic!("{error}");
    };
    assert_eq!(*version, 2);
    let DurabilityError::Failed { cause, .. } = &**cause else {
        panic!("{cause}");
    };
    assert_eq!(
        (cause.kind, cause.stored_nothing),
        (JournalErrorKind::Io, true)
    );
    assert!(term.is_owner());
    let refused = manager.execute(node("c")).unwrap_err();
    assert_eq!(refused.code(), "commitReadOnly");
}
