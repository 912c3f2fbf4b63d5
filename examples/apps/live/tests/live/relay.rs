//! A server that does not have the document passes its tabs on to the one that has it.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use crate::server::{Server, fill_queue};
use axum::http::Uri;

use crate::tab::{Tab, open, open_with};
use doclock_live::location::{HubSlot, Location};
use futures_util::StreamExt;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite;

/// A server without the document, which finds it at the address that is set.
async fn follower() -> (SocketAddr, Arc<Mutex<Option<SocketAddr>>>, HubSlot) {
    let elsewhere = Arc::new(Mutex::new(None::<SocketAddr>));
    let looked_up = Arc::clone(&elsewhere);
    let (location, slot) =
        Location::new(move || Some(looked_up.lock().unwrap().as_ref()?.to_string()));
    (serve(location).await, elsewhere, slot)
}

async fn serve(location: Location) -> SocketAddr {
    serve_at(location, &[]).await
}

async fn serve_at(location: Location, origins: &[Uri]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let origins = origins.to_vec();
    tokio::spawn(async move {
        doclock_live::serve(location, listener, folder.path(), &origins, pending()).await
    });
    address
}

#[tokio::test]
async fn a_tab_edits_and_undoes_through_a_server_without_the_document() {
    let owner = Server::start().await;
    let (follower, elsewhere, _slot) = follower().await;
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
    let (follower, elsewhere, slot) = follower().await;
    let tab = tokio::spawn(async move { Tab::new(follower, "ann").await });
    let owner = Server::start().await;
    let dying = TcpListener::bind("127.0.0.1:0").await.unwrap();
    *elsewhere.lock().unwrap() = dying.local_addr().ok();
    // The owner dies while the follower connects to it, and still has its term.
    drop(dying.accept().await.unwrap());
    drop(dying);
    let served = owner.store.clone();
    std::thread::spawn(move || slot.serve(&served, None));
    let mut tab = tab.await.unwrap();
    tab.edit(1, &[(0, 0, "one")]).await;
    assert_eq!(owner.text(), "one");
}

#[tokio::test]
async fn a_tab_that_was_passed_on_is_not_passed_on_again() {
    let owner = Server::start().await;
    let (follower, elsewhere, _slot) = follower().await;
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
    let (follower, elsewhere, _slot) = follower().await;
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
    let (follower, elsewhere, _slot) = follower().await;
    *elsewhere.lock().unwrap() = Some(owner.address);
    let mut tab = Tab::new(follower, "ann").await;
    tab.send(&json!({"type": "nonsense"})).await;
    let (code, errors) = tab.end().await;
    assert_eq!((code, errors.len()), (4400, 1));
}

#[tokio::test]
async fn a_tab_that_does_not_read_is_given_up_by_the_server_that_has_the_document() {
    let owner = Server::start().await;
    let (follower, elsewhere, _slot) = follower().await;
    *elsewhere.lock().unwrap() = Some(owner.address);
    let (ann, mut slow) = fill_queue(&owner, follower).await;
    // What has been sent comes first. Then there is no room for a close frame, or there is.
    while let Some(Ok(_)) = slow.socket.next().await {}
    slow.reconnect(follower, None).await;
    assert_eq!(slow.text(), ann.text());
}

#[tokio::test]
async fn a_tab_with_a_version_of_another_history_gets_the_text() {
    let owner = Server::start().await;
    let mut tab = Tab::new(owner.address, "ann").await;
    tab.edit(1, &[(0, 0, "one")]).await;
    let hello = json!({
        "type": "hello", "session": tab.session, "version": tab.version, "timeline": 7, "key": null
    });
    tab.socket = open_with(owner.address, &[]).await.unwrap();
    tab.send(&hello).await;
    let welcome = tab.read().await;
    assert_eq!(
        (&welcome["text"], &welcome["timeline"]),
        (&"one".into(), &0.into())
    );
}

#[tokio::test]
async fn a_proxy_with_another_address_is_served_if_it_is_given() {
    let server = Server::start().await;
    let location = Location::of_store(&server.store);
    let origins = ["https://notes.example".parse().unwrap()];
    let address = serve_at(location, &origins).await;
    let behind = |host, origin| open(address, host, origin);
    behind("notes.example", "https://notes.example")
        .await
        .unwrap();
    for (host, origin) in [
        ("notes.example", "http://notes.example"),
        ("other.example", "https://notes.example"),
        ("notes.example", "https://other.example"),
    ] {
        assert!(behind(host, origin).await.is_err(), "{host} {origin}");
    }
}
