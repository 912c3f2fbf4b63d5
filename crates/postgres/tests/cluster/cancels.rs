//! Calls with a token that is cancelled: on the owner, on another member, and without an owner.

use std::thread;
use std::time::Duration;

use crossbeam_channel::Receiver;
use doclock::TransactionManager;
use doclock::lock::CancelToken;
use doclock::transaction::{Hooks, TransactionResult};
use doclock_postgres::{Member, MemberOptions, RequestError, RequestOptions, TermOptions};

use crate::proxy::Proxy;
use crate::request_support::{Owner, ann, node};
use crate::support::{connect, name, parameters, sql, steal, until};

const LIMIT: Duration = Duration::from_secs(20);

type Outcome = Result<TransactionResult, RequestError>;

/// Options with a term that no busy machine lets end.
fn long(owner: &str) -> MemberOptions {
    MemberOptions::new(TermOptions::new(owner).term(LIMIT))
}

/// Calls in a thread, with a token.
fn call(token: &CancelToken, run: impl FnOnce(RequestOptions) -> Outcome + Send + 'static) -> Call {
    let (ends, ended) = crossbeam_channel::bounded(1);
    let options = ann().cancel_token(token);
    thread::spawn(move || drop(ends.send(run(options))));
    Call(ended)
}

struct Call(Receiver<Outcome>);

impl Call {
    fn end(&self) -> Outcome {
        self.0.recv_timeout(LIMIT).expect("the call does not end")
    }

    /// The number of the request that was cancelled.
    #[track_caller]
    fn cancelled(&self) -> Option<u64> {
        match self.end() {
            Err(RequestError::Cancelled { number, .. }) => number,
            ended => panic!("{ended:?}"),
        }
    }
}

fn execute(member: &Member, id: &'static str, token: &CancelToken) -> Call {
    let member = member.clone();
    call(token, move |options| member.execute_with(node(id), options))
}

/// Counts the requests of a document, or those with a mark of cancellation.
fn requests(parameters: &str, document: &str, is_marked: bool) -> i64 {
    let count = "SELECT count(*) FROM doclock.doclock_request
        WHERE document = $1 AND (cancelled OR NOT $2)";
    let row = sql(parameters).query_one(count, &[&document, &is_marked]);
    row.unwrap().get(0)
}

#[test]
fn cluster_02_a_cancelled_call_that_has_not_begun_never_runs() {
    let Some(parameters) = parameters() else {
        return;
    };
    let (server, document) = (connect(&parameters), name("cancelled-call"));
    let owner = Member::join(&server, &document, long("ann")).unwrap();
    let store = owner.wait_store(LIMIT).unwrap();
    let follower = Member::join(&server, &document, long("bob")).unwrap();
    let held = store.begin("holder").unwrap();
    for (member, number) in [(&owner, None), (&follower, Some(1))] {
        let token = CancelToken::new();
        let waits = execute(member, "waits", &token);
        until("it waits for the lock", || store.queue_length() == 1);
        token.cancel();
        assert_eq!(waits.cancelled(), number);
        assert_eq!(store.queue_length(), 0);
        // A token that is cancelled already.
        assert_eq!(execute(member, "late", &token).cancelled(), None);
    }
    drop(held);
    assert_eq!(requests(&parameters, &document, false), 1);
    assert_eq!(store.version(), 0);
}

#[test]
fn cluster_02_a_cancelled_call_that_has_begun_returns_its_outcome() {
    let Some(parameters) = parameters() else {
        return;
    };
    let (server, document) = (connect(&parameters), name("begun-call"));
    let (begins, has_begun) = crossbeam_channel::bounded(0);
    let (goes_on, may_go_on) = crossbeam_channel::bounded(0);
    let hooks = Hooks::new();
    hooks.before(move |_, operations| {
        let _ = (begins.send(()), may_go_on.recv());
        Ok(operations)
    });
    let hooked = long("ann").managers(move |store, owner| {
        TransactionManager::for_owner(store, owner).with_hooks(hooks.clone())
    });
    let owner = Member::join(&server, &document, hooked).unwrap();
    owner.wait_store(LIMIT).unwrap();
    let follower = Member::join(&server, &document, long("bob")).unwrap();
    for (member, id, version) in [(&owner, "here", 1), (&follower, "there", 2)] {
        let token = CancelToken::new();
        let begun = execute(member, id, &token);
        has_begun.recv_timeout(LIMIT).unwrap();
        token.cancel();
        let marks = i64::from(version == 2);
        until("its request is marked", || {
            requests(&parameters, &document, true) == marks
        });
        goes_on.send(()).unwrap();
        assert_eq!(begun.end().unwrap().version, version);
    }
}

#[test]
fn cluster_02_a_call_is_cancelled_while_the_document_has_no_owner() {
    let Some(parameters) = parameters() else {
        return;
    };
    let (server, document) = (connect(&parameters), name("unowned-call"));
    let follower = Member::join(&server, &document, long("bob").follow_only()).unwrap();
    let token = CancelToken::new();
    let waits = execute(&follower, "first", &token);
    until("it waits", || requests(&parameters, &document, false) == 1);
    token.cancel();
    assert_eq!(waits.cancelled(), Some(1));
    // The same without a member.
    let others = server.requests(&document, "other").unwrap();
    let token = CancelToken::new();
    let of_call = others.clone();
    let waits = call(&token, move |options| of_call.execute(node("a"), options));
    until("it waits", || requests(&parameters, &document, false) == 2);
    let pending = others
        .submit(node("b"), ann().cancel_token(&token))
        .unwrap();
    token.cancel();
    assert_eq!(waits.cancelled(), Some(2));
    let outcome = pending.wait(LIMIT).unwrap_err();
    assert!(
        matches!(
            outcome,
            RequestError::Cancelled {
                number: Some(3),
                ..
            }
        ),
        "{outcome}"
    );
    let late = others
        .submit(node("c"), ann().cancel_token(&token))
        .unwrap_err();
    assert!(
        matches!(late, RequestError::Cancelled { number: None, .. }),
        "{late}"
    );
    assert_eq!(requests(&parameters, &document, false), 3);
    // An owner has taken it, and dies when the request is marked.
    let owner = Owner::begin(&server, &document, "owner");
    let token = CancelToken::new();
    let taken = execute(&follower, "taken", &token);
    let take = "UPDATE doclock.doclock_request SET taken = $2 WHERE document = $1 AND number = 4";
    let epoch = owner.term.epoch().cast_signed();
    until("it is taken", || {
        sql(&parameters)
            .execute(take, &[&document, &epoch])
            .unwrap()
            == 1
    });
    let marked = requests(&parameters, &document, true);
    token.cancel();
    until("it is marked", || {
        requests(&parameters, &document, true) > marked
    });
    steal(&parameters, &document);
    assert_eq!(taken.cancelled(), Some(4));
}

#[test]
fn cluster_02_a_cancelled_call_ends_although_the_server_does_not_answer() {
    let Some(parameters) = parameters() else {
        return;
    };
    let (proxy, proxied) = Proxy::start(&parameters);
    let document = name("unreachable-call");
    let bob = long("bob").follow_only().doorbell(false);
    let follower = Member::join(&connect(&proxied), &document, bob).unwrap();
    let token = CancelToken::new();
    let inserted = execute(&follower, "inserted", &token);
    until("it waits", || requests(&parameters, &document, false) == 1);
    proxy.set_down(true);
    let missing = execute(&follower, "missing", &token);
    token.cancel();
    // Its outcome is not known.
    let ended = inserted.end();
    assert!(matches!(ended, Err(RequestError::Server(_))), "{ended:?}");
    match missing.end() {
        // It was cancelled before the first attempt to insert it, or after that.
        Err(RequestError::Cancelled { number: None, .. } | RequestError::Server(_)) => {}
        ended => panic!("{ended:?}"),
    }
    proxy.set_down(false);
}
