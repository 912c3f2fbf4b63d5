//! Hand-overs of members that cannot be made, and that hold up no other document.

use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use doclock::TransactionManager;
use doclock::codes::CodedError;
use doclock::durable::DurableOptions;
use doclock::transaction::{Hooks, Refusal};
use doclock_postgres::{Member, MemberError, MemberOptions, Postgres, TermOptions};

use crate::request_support::node;
use crate::support::{connect, name, parameters, short, steal, until};

const LIMIT: Duration = Duration::from_secs(20);

/// Options with a term that no busy machine lets end.
fn long(owner: &str) -> MemberOptions {
    MemberOptions::new(TermOptions::new(owner).term(LIMIT))
}

/// Once such a call waited for its own thread, and so did each later one.
#[test]
fn cluster_05_a_hook_of_a_request_cannot_hand_over_and_one_of_a_local_batch_can() {
    let Some(parameters) = parameters() else {
        return;
    };
    let (server, document) = (connect(&parameters), name("hooked"));
    let itself = Arc::new(OnceLock::<Member>::new());
    let (sender, results) = crossbeam_channel::unbounded();
    let hooks = Hooks::new();
    let (member, of_hook) = (Arc::clone(&itself), sender.clone());
    hooks.before(move |context, operations| {
        let member = member.get().unwrap();
        let _ = of_hook.send(member.hand_over());
        if context.owner().as_str() == "bob" {
            let _ = of_hook.send(member.leave());
        }
        Ok(operations)
    });
    let member = Arc::clone(&itself);
    hooks.after(move |_| drop(sender.send(member.get().unwrap().leave())));
    let hooked = long("ann").managers(move |store, owner| {
        TransactionManager::for_owner(store, owner).with_hooks(hooks.clone())
    });
    let owner = Member::join(&server, &document, hooked).unwrap();
    owner.wait_store(LIMIT).unwrap();
    assert!(itself.set(owner.clone()).is_ok());
    let follower = Member::join(&server, &document, long("bob")).unwrap();
    let of_bob = follower.clone();
    let request = thread::spawn(move || of_bob.execute(node("request")));
    let result = || results.recv_timeout(LIMIT).expect("the hook does not end");
    for _ in 0..3 {
        let document = document.clone();
        assert_eq!(result(), Err(MemberError::OwnThread { document }));
    }
    assert_eq!(request.join().unwrap().unwrap().version, 1);
    assert!(owner.store().is_some());
    // The batch is not stored here, and runs in the next term, without this hook.
    let local = thread::spawn(move || owner.execute(node("local")));
    assert_eq!(result(), Ok(()));
    assert_eq!(local.join().unwrap().unwrap().version, 2);
    assert!(follower.store().is_some());
    itself.get().unwrap().leave().unwrap();
}

#[test]
fn cluster_05_a_progress_callback_cannot_leave() {
    let Some(parameters) = parameters() else {
        return;
    };
    let (server, document) = (connect(&parameters), name("callback"));
    let itself = Arc::new(OnceLock::<Member>::new());
    let (sender, results) = crossbeam_channel::unbounded();
    let of_callback = Arc::clone(&itself);
    let durable = DurableOptions::new().progress(move |_| {
        if let Some(member) = of_callback.get() {
            let _ = sender.send(member.leave());
        }
    });
    let member = Member::join(&server, &document, long("ann").durable(durable)).unwrap();
    member.wait_store(LIMIT).unwrap();
    member.execute(node("n")).unwrap();
    assert!(itself.set(member.clone()).is_ok());
    // It loads the document to follow.
    member.hand_over().unwrap();
    let result = results
        .recv_timeout(LIMIT)
        .expect("the callback does not end");
    assert_eq!(result, Err(MemberError::OwnThread { document }));
    until("it follows", || member.snapshot().version() == 1);
    member.leave().unwrap();
}

#[test]
fn cluster_05_a_hand_over_of_a_term_that_is_lost_meanwhile_is_an_error() {
    let Some(parameters) = parameters() else {
        return;
    };
    let server = connect(&parameters);
    until(
        "the hand-over begins before the loss is seen",
        || match lost_while_it_hands_over(&server, &parameters) {
            Err(MemberError::TermLost { .. }) => true,
            Err(MemberError::NotOwner { .. }) => false,
            ended => panic!("{ended:?}"),
        },
    );
}

/// Hands over while a request runs, in a term that is lost before the request ends.
fn lost_while_it_hands_over(server: &Postgres, parameters: &str) -> Result<(), MemberError> {
    let document = name("lost");
    let (begins, has_begun) = crossbeam_channel::unbounded();
    let (goes_on, may_go_on) = crossbeam_channel::bounded::<()>(0);
    let hooks = Hooks::new();
    hooks.before(move |_, _| {
        let _ = (begins.send(()), may_go_on.recv());
        Err(Refusal::new("nothing is to be stored"))
    });
    let options = MemberOptions::new(short("ann").term(Duration::from_secs(3)));
    let hooked = options.managers(move |store, owner| {
        TransactionManager::for_owner(store, owner).with_hooks(hooks.clone())
    });
    let owner = Member::join(server, &document, hooked).unwrap();
    let store = owner.wait_store(LIMIT).unwrap();
    let follower = Member::join(server, &document, long("bob").follow_only()).unwrap();
    thread::scope(|scope| {
        let request = scope.spawn(|| follower.execute(node("n")));
        has_begun.recv_timeout(LIMIT).unwrap();
        let (calls, called) = crossbeam_channel::bounded(0);
        let owner = &owner;
        let handed_over = scope.spawn(move || {
            calls.send(()).unwrap();
            owner.hand_over()
        });
        called.recv().unwrap();
        // Otherwise its last write is an error already.
        store.close().unwrap();
        steal(parameters, &document);
        until("the term is lost", || owner.snapshot().lag > Duration::ZERO);
        drop(goes_on);
        let ended = handed_over.join().unwrap();
        // In the next term.
        assert_eq!(
            request.join().unwrap().unwrap_err().code(),
            "beforeHookRefused"
        );
        ended
    })
}
