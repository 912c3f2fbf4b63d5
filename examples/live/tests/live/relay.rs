//! A server that does not have the document passes its tabs on to the one that has it.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use crate::server::Server;
use crate::tab::{Tab, open_with};
use doclock_live::place::{Host, Place};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite;

/// A server without the document, which finds it at the address that is set.
async fn follower() -> (SocketAddr, Arc<Mutex<Option<SocketAddr>>>, Host) {
    let elsewhere = Arc::new(Mutex::new(None::<SocketAddr>));
    let looked_up = Arc::clone(&elsewhere);
    let (place, host) = Place::new(move || Some(looked_up.lock().unwrap().as_ref()?.to_string()));
    (serve(place).await, elsewhere, host)
}

async fn serve(place: Place) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    tokio::spawn(
        async move { doclock_live::serve(place, listener, folder.path(), pending()).await },
    );
    address
}

#[tokio::test]
async fn a_tab_edits_and_undoes_through_a_server_without_the_document() {
    let owner = Server::start().await;
    let (follower, elsewhere, _host) = follower().await;
    *elsewhere.lock().unwrap() = Some(owner.address);
    let mut ann = Tab::new(owner.address, "ann").await;
    let mut bob = Tab::new(follower, "bob").await;
    assert_eq!(bob.edit(1, &[(0, 0, "🦀 one")]).await["type"], "commit");
    assert_eq!(ann.edit(1, &[(0, 0, "two")]).await["type"], "commit");
    bob.reach(3).await;
    ann.reach(3).await;
    assert_eq!(
        (ann.text(), bob.text()),
        ("🦀 onetwo".into(), "🦀 onetwo".into())
    );
    bob.undo().await;
    assert_eq!(bob.text(), "two");
    assert_eq!(owner.text(), "two");
}

#[tokio::test]
async fn a_tab_waits_while_no_server_has_the_document() {
    let (follower, elsewhere, host) = follower().await;
    let tab = tokio::spawn(async move { Tab::new(follower, "ann").await });
    let owner = Server::start().await;
    let dead = TcpListener::bind("127.0.0.1:0").await.unwrap();
    *elsewhere.lock().unwrap() = dead.local_addr().ok();
    // The owner that died still has its term.
    drop(dead);
    let hosted = owner.store.clone();
    std::thread::spawn(move || host.host(&hosted, None));
    let mut tab = tab.await.unwrap();
    tab.edit(1, &[(0, 0, "one")]).await;
    assert_eq!(owner.text(), "one");
}

#[tokio::test]
async fn a_tab_that_was_passed_on_is_not_passed_on_again() {
    let owner = Server::start().await;
    let (follower, elsewhere, _host) = follower().await;
    *elsewhere.lock().unwrap() = Some(owner.address);
    let passed_on = [("doclock-relayed", "1")];
    let refused = open_with(follower, &passed_on).await.unwrap_err();
    let tungstenite::Error::Http(response) = refused else {
        panic!("{refused}");
    };
    assert_eq!(response.status(), 503);
    open_with(owner.address, &passed_on).await.unwrap();
}

#[tokio::test]
async fn a_tab_learns_that_the_document_is_on_another_server() {
    let (first, second) = (Server::start().await, Server::start().await);
    let (follower, elsewhere, _host) = follower().await;
    *elsewhere.lock().unwrap() = Some(first.address);
    let (mut ann, mut bob) = (
        Tab::new(follower, "ann").await,
        Tab::new(first.address, "bob").await,
    );
    // The first one does not know yet that it has lost the document.
    *elsewhere.lock().unwrap() = Some(second.address);
    assert_eq!(ann.end().await, (1001, vec![]));
    ann.reconnect(follower, None).await;
    ann.edit(1, &[(0, 0, "second")]).await;
    assert_eq!(second.text(), "second");
    // Now it knows.
    first.store.close().unwrap();
    assert_eq!(bob.end().await.0, 1001);
}

#[tokio::test]
async fn a_tab_gets_the_close_code_of_the_server_that_has_the_document() {
    let owner = Server::start().await;
    let (follower, elsewhere, _host) = follower().await;
    *elsewhere.lock().unwrap() = Some(owner.address);
    let mut tab = Tab::new(follower, "ann").await;
    tab.send(&json!({"type": "nonsense"})).await;
    let (code, errors) = tab.end().await;
    assert_eq!((code, errors.len()), (4400, 1));
}
