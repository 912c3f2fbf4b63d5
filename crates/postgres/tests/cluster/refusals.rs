//! Owners whose writes the server refuses or does not carry out, although the term lasts.

use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use doclock::codes::CodedError;
use doclock::durable::{DurabilityError, DurableOptions, JournalErrorKind};
use doclock::lock::CancelToken;
use doclock::transaction::{Operation, TransactionError, TransactionResult};
use doclock::{CommitError, DataStore, TransactionManager, dsl::delete_node};
use doclock_postgres::{Member, MemberOptions, Postgres, RequestError, RequestOptions};
use postgres::{Client, Transaction};

use crate::proxy::{Fault, Proxy};
use crate::request_support::{ann, node};
use crate::support::{APPEND, connect, name, options, parameters, role, short, sql, until};

const LIMIT: Duration = Duration::from_secs(20);

type Outcome = Result<TransactionResult, RequestError>;

/// Calls in a thread, which a test does not wait for when it fails.
fn spawn<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (ends, ended) = crossbeam_channel::bounded(1);
    thread::spawn(move || drop(ends.send(call())));
    ended
}

fn execute(member: &Member, batch: Operation, options: RequestOptions) -> Receiver<Outcome> {
    let member = member.clone();
    spawn(move || member.execute_with(batch, options))
}

fn call(member: &Member, id: &str, options: RequestOptions) -> Receiver<Outcome> {
    execute(member, node(id), options)
}

#[track_caller]
fn end<T>(call: &Receiver<T>) -> T {
    call.recv_timeout(LIMIT).expect("the call does not end")
}

/// An owner with these options and a follower, in a schema of their own.
fn pair_with(parameters: &str, schema: &str, durable: DurableOptions) -> (Member, Member) {
    let server = Postgres::connect(options(parameters).schema(schema).unwrap()).unwrap();
    let brief = |owner: &str| MemberOptions::new(short(owner)).doorbell(false);
    let owner = Member::join(&server, "notes", brief("ann").durable(durable)).unwrap();
    owner.wait_store(LIMIT).unwrap();
    let follower = Member::join(&server, "notes", brief("bob").follow_only()).unwrap();
    owner.execute(node("first")).unwrap();
    (owner, follower)
}

fn pair(parameters: &str, schema: &str) -> (Member, Member) {
    pair_with(parameters, schema, DurableOptions::new())
}

/// A transaction that keeps the server from writing to the log of a schema.
fn block<'c>(blocker: &'c mut Client, schema: &str) -> Transaction<'c> {
    let mut blocks = blocker.transaction().unwrap();
    let lock = format!("LOCK TABLE \"{schema}\".doclock_log IN EXCLUSIVE MODE");
    blocks.batch_execute(&lock).unwrap();
    blocks
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
    let blocks = block(&mut blocker, &schema);
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
    // It waits until what it has seen is durable.
    let failing = execute(&owner, delete_node().on("missing"), ann().timeout(timeout));
    token.cancel();
    let errors = calls.each_ref().map(|call| end(call).unwrap_err());
    let failing = end(&failing).unwrap_err();
    assert!(failing.is_outcome(), "{failing}");
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

/// Once a call waited for the receipt of its batch, and one without a member for its outcome.
#[test]
fn cluster_05_calls_behind_writes_that_are_not_carried_out_end() {
    let Some(parameters) = parameters() else {
        return;
    };
    let schema = name("full");
    let durable = DurableOptions::new().unwritten_limit(0);
    let (owner, _follower) = pair_with(&parameters, &schema, durable);
    let mut blocker = sql(&parameters);
    let _blocks = block(&mut blocker, &schema);
    let server = Postgres::connect(options(&parameters).schema(&schema).unwrap()).unwrap();
    let requests = server.requests("notes", "other").unwrap();
    let (timeout, token) = (Duration::from_millis(200), CancelToken::new());
    let reaches_it = ann().timeout(Duration::from_secs(3));
    let begun = spawn(move || requests.execute(node("begun"), reaches_it));
    let store = owner.store().unwrap();
    until("it has run", || store.version() == 2);
    // Beyond what is being written, one commit has room.
    let fills = call(&owner, "fills", ann().timeout(timeout));
    until("it has run", || store.version() == 3);
    let late = call(&owner, "late", ann().timeout(timeout));
    let cancelled = call(&owner, "cancelled", ann().cancel_token(&token));
    token.cancel();
    let late = end(&late).unwrap_err();
    assert!(matches!(late, RequestError::Expired { .. }), "{late}");
    let cancelled = end(&cancelled).unwrap_err();
    let is_cancelled = matches!(cancelled, RequestError::Cancelled { .. });
    assert!(is_cancelled, "{cancelled}");
    let fills = end(&fills).unwrap_err();
    let is_unknown = matches!(fills, RequestError::Unknown { version: 3, .. });
    assert!(is_unknown, "{fills}");
    let begun = end(&begun).unwrap_err();
    assert!(matches!(begun, RequestError::Timeout { .. }), "{begun}");
}

/// Neither the log nor the next owner answers whether a commit is stored.
#[test]
fn cluster_05_a_call_ends_although_the_server_stays_out_of_reach() {
    let Some(parameters) = parameters() else {
        return;
    };
    let timeout = Duration::from_millis(200);
    for is_cancelled in [false, true] {
        let (proxy, proxied) = Proxy::start(&parameters);
        let (server, document) = (connect(&proxied), name("out-of-reach"));
        let brief = |owner: &str| MemberOptions::new(short(owner)).doorbell(false);
        let owner = Member::join(&server, &document, brief("ann")).unwrap();
        owner.wait_store(LIMIT).unwrap();
        owner.execute(node("first")).unwrap();
        let follower = Member::join(&server, &document, brief("bob").follow_only()).unwrap();
        let token = CancelToken::new();
        let options = || match is_cancelled {
            true => ann().cancel_token(&token),
            false => ann().timeout(timeout),
        };
        proxy.next(Fault::HoldsStatement, APPEND);
        let here = call(&owner, "here", options());
        until("the append is held", || proxy.met() == 1);
        proxy.set_down(true);
        let there = call(&follower, "there", options());
        token.cancel();
        let (here, there) = (end(&here).unwrap_err(), end(&there).unwrap_err());
        println!("here: {here}\nthere: {there}");
        let is_unknown = matches!(here, RequestError::Unknown { version: 2, .. });
        assert!(is_unknown, "{here:?}");
        match there {
            RequestError::Server(_) => {}
            RequestError::Cancelled { number: None, .. } if is_cancelled => {}
            ended => panic!("{ended:?}"),
        }
        proxy.set_down(false);
    }
}

#[test]
fn cluster_02_a_commit_that_the_server_refuses_is_certainly_not_stored() {
    let Some(parameters) = parameters() else {
        return;
    };
    for (sqlstate, kind, breaks) in [
        ("42P01", JournalErrorKind::Io, "DROP TABLE {}.doclock_log"),
        (
            "42883",
            JournalErrorKind::Io,
            "DROP FUNCTION {}.doclock_append_1",
        ),
        (
            "42501",
            JournalErrorKind::Io,
            "REVOKE INSERT ON {}.doclock_log FROM {role}",
        ),
        (
            "53100",
            JournalErrorKind::Full,
            "CREATE FUNCTION {}.fails() RETURNS trigger LANGUAGE plpgsql
                AS 'BEGIN RAISE SQLSTATE ''53100''; END';
            CREATE TRIGGER fails BEFORE INSERT ON {}.doclock_log
                FOR EACH ROW EXECUTE FUNCTION {}.fails()",
        ),
    ] {
        let schema = name("certain");
        drop(Postgres::connect(options(&parameters).schema(&schema).unwrap()).unwrap());
        let role = role(&parameters, &schema);
        let of_role = options(&format!("{parameters} user={role}"));
        let server = Postgres::connect(of_role.schema(&schema).unwrap()).unwrap();
        let (term, journal) = server.acquire("notes", short("ann")).unwrap();
        let store = DataStore::open_journal(journal, DurableOptions::new()).unwrap();
        let manager = TransactionManager::new(store.clone());
        manager.execute(node("a")).unwrap();
        let breaks = breaks.replace("{role}", &format!("\"{role}\""));
        let breaks = breaks.replace("{}", &format!("\"{schema}\""));
        sql(&parameters).batch_execute(&breaks).unwrap();
        let of_call = manager.clone();
        let error = end(&spawn(move || of_call.execute(node("b")))).unwrap_err();
        let TransactionError::Commit(CommitError::NotStored { version, cause }) = &error else {
            panic!("{sqlstate}: {error}");
        };
        assert_eq!(*version, 2);
        let DurabilityError::Failed { cause, .. } = &**cause else {
            panic!("{sqlstate}: {cause}");
        };
        assert_eq!((cause.kind, cause.stored_nothing), (kind, true));
        assert!(error.to_string().contains(sqlstate), "{error}");
        assert!(term.is_owner());
        let refused = manager.execute(node("c")).unwrap_err();
        assert_eq!(refused.code(), "commitReadOnly");
    }
}
