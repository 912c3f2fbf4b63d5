//! The server in this process, and tabs over WebSockets.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use crate::tab::{Random, Tab, edit, open};
use doclock::DataStore;
use doclock::durable::{Journal, JournalError, JournalErrorKind, JournalWrite, StoredPart};
use doclock::lock::AcquireOptions;
use doclock_live::document;
use doclock_live::location::Location;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::{self, Message};

pub struct Server {
    pub address: SocketAddr,
    pub store: DataStore,
    running: JoinHandle<std::io::Result<()>>,
    folder: TempDir,
}

impl Server {
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = document::open(&folder.path().join("live.doclock")).unwrap();
        Self::serve(store, folder).await
    }

    async fn serve(store: DataStore, folder: TempDir) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (served, web) = (Location::of_store(&store), folder.path().to_owned());
        let running = tokio::spawn(async move {
            doclock_live::serve(served, listener, &web, &[], pending()).await
        });
        Self {
            address,
            store,
            running,
            folder,
        }
    }

    async fn tab(&self, session: &str) -> Tab {
        Tab::new(self.address, session).await
    }

    pub fn text(&self) -> String {
        document::text_of(&self.store.snapshot())
    }

    /// Ends, and returns the text of the file, which is that of its log.
    async fn end(self) -> String {
        self.store.close().unwrap();
        self.running.await.unwrap().unwrap();
        drop(self.store);
        let path = self.folder.path().join("live.doclock");
        let report = loop {
            // Connections that are ending still have the file.
            match document::check(&path) {
                Ok(report) => break report,
                Err(document::DocumentError::Open(doclock::durable::OpenError::Locked)) => {
                    tokio::task::yield_now().await;
                }
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!(report.text, report.replayed);
        report.text
    }
}

#[tokio::test]
async fn a_commit_reaches_every_tab() {
    let server = Server::start().await;
    let (mut ann, mut bob) = (server.tab("ann").await, server.tab("bob").await);
    let commit = ann.edit(1, &[(0, 0, "Hello")]).await;
    assert_eq!(
        (&commit["type"], &commit["tab"]),
        (&"commit".into(), &ann.name.as_str().into())
    );
    bob.reach(2).await;
    bob.edit(2, &[(5, 0, " World")]).await;
    ann.reach(3).await;
    assert_eq!(
        (ann.text(), bob.text()),
        ("Hello World".into(), "Hello World".into())
    );
    assert_eq!(server.end().await, "Hello World");
}

#[tokio::test]
async fn an_edit_of_an_older_version_is_rebased() {
    let server = Server::start().await;
    let (mut ann, mut bob) = (server.tab("ann").await, server.tab("bob").await);
    ann.edit(1, &[(0, 0, "one 🦀 two")]).await;
    ann.edit(2, &[(3, 3, "")]).await;
    ann.edit(3, &[(0, 0, "🦀🦀")]).await;
    // Bob has not read version 3 and 4: he replaces "two" and inserts into what is deleted.
    bob.edit(2, &[(4, 0, "x"), (7, 3, "2")]).await;
    assert_eq!(server.text(), "🦀🦀onex 2");
    bob.reach(5).await;
    ann.reach(5).await;
    assert_eq!((ann.text(), bob.text()), (server.text(), server.text()));
}

#[tokio::test]
async fn random_edits_of_three_tabs_converge() {
    let server = Server::start().await;
    let mut random = Random::new();
    let mut tabs = Vec::new();
    for name in ["ann", "bob", "cem"] {
        tabs.push(server.tab(name).await);
    }
    for _ in 0..400 {
        // A tab reads only its answers, so it is often behind.
        let of = random.below(tabs.len());
        let tab = &mut tabs[of];
        let change = random.change(&tab.units);
        let version = tab.version;
        match random.below(8) {
            0 => tab.undo().await,
            1 => tab.ask(json!({"type": "redo"})).await,
            _ => tab.edit(version, &[change]).await,
        };
    }
    let version = server.store.version();
    for tab in &mut tabs {
        tab.reach(version).await;
        assert_eq!(tab.text(), server.text());
    }
    drop(tabs);
    server.end().await;
}

#[tokio::test]
async fn a_repeated_request_is_committed_once() {
    let server = Server::start().await;
    let mut ann = server.tab("ann").await;
    let mut request = edit(1, &[(0, 0, "a")]);
    request["key"] = "k".into();
    ann.send(&request).await;
    assert_eq!(ann.answer("k").await["type"], "commit");
    ann.send(&request).await;
    let answer = json!({"type": "done", "key": "k", "version": 2, "changed": true});
    assert_eq!(ann.answer("k").await, answer);
    // Also in a new connection, whose welcome has the commit.
    let mut again = Tab::silent(server.address, "ann").await;
    let welcome = again.hello(Some(0), Some("k")).await;
    assert_eq!(welcome["commits"][1]["key"], "k");
    again.send(&request).await;
    assert_eq!(again.answer("k").await, answer);
    // Without its version, the tab gets the text, and whether the text contains the request.
    let mut lost = Tab::silent(server.address, "ann").await;
    assert_eq!(lost.hello(None, Some("k")).await["request"], "committed");
    let mut lost = Tab::silent(server.address, "ann").await;
    assert_eq!(
        lost.hello(Some(99), Some("other")).await["request"],
        "unknown"
    );
    assert_eq!(server.text(), "a");
}

#[tokio::test]
async fn a_key_belongs_to_its_tab() {
    let server = Server::start().await;
    for name in ["ann", "bob"] {
        let mut tab = server.tab(name).await;
        let mut request = edit(tab.version, &[(0, 0, "x")]);
        request["key"] = "k".into();
        tab.send(&request).await;
        assert_eq!(tab.answer("k").await["type"], "commit");
    }
    assert_eq!(server.text(), "xx");
}

#[tokio::test]
async fn an_undo_reverts_the_edits_of_its_tab_alone() {
    let server = Server::start().await;
    let (mut ann, mut bob) = (server.tab("ann").await, server.tab("bob").await);
    ann.edit(1, &[(0, 0, "ann ")]).await;
    bob.reach(2).await;
    bob.edit(2, &[(4, 0, "bob")]).await;
    // After a reload the tab has its history.
    let mut ann = server.tab("ann").await;
    ann.undo().await;
    assert_eq!(server.text(), "bob");
    let refused = ann.undo().await;
    assert_eq!(
        (&refused["type"], &refused["code"]),
        (&"refused".into(), &"nothingToUndo".into())
    );
    ann.ask(json!({"type": "redo"})).await;
    assert_eq!(server.text(), "ann bob");
    // Sent twice, it undoes once.
    bob.send(&json!({"type": "undo", "key": "u"})).await;
    bob.answer("u").await;
    bob.send(&json!({"type": "undo", "key": "u"})).await;
    assert_eq!(bob.answer("u").await["type"], "done");
    assert_eq!(server.text(), "ann ");
}

#[tokio::test]
async fn positions_count_utf16_units_and_bad_ones_are_refused() {
    let server = Server::start().await;
    let mut ann = server.tab("ann").await;
    ann.edit(1, &[(0, 0, "a🦀b")]).await;
    ann.edit(2, &[(3, 0, "é")]).await;
    assert_eq!(server.text(), "a🦀éb");
    // The length of version 3 is 5 units.
    for (base, changes, code) in [
        (3, &[(2, 0, "x")][..], "offsetInsidePair"),
        (3, &[(1, 1, "")], "offsetInsidePair"),
        (3, &[(6, 0, "x")], "offsetOutOfRange"),
        (3, &[(5, 1, "x")], "offsetOutOfRange"),
        (2, &[(5, 0, "x")], "offsetOutOfRange"),
        (3, &[(0, usize::MAX, "")], "offsetOutOfRange"),
        (3, &[(1, 2, "x"), (2, 0, "y")], "changesOverlap"),
        (
            3,
            &[(usize::MAX, 0, ""), (usize::MAX, 9, "")],
            "offsetOutOfRange",
        ),
        (4, &[(0, 0, "x")], "versionNotReached"),
    ] {
        let refused = ann.edit(base, changes).await;
        assert_eq!(
            (&refused["type"], &refused["code"]),
            (&"refused".into(), &code.into())
        );
    }
    let big = "x".repeat(500_000);
    ann.edit(3, &[(0, 0, &big)]).await;
    assert_eq!(ann.edit(4, &[(0, 0, &big)]).await["code"], "textFull");
    ann.undo().await;
    assert_eq!(
        (ann.text(), server.text()),
        ("a🦀éb".into(), "a🦀éb".into())
    );
    // An edit that is rebased to nothing is answered, too.
    ann.edit(5, &[(0, 5, "")]).await;
    let done = ann.edit(5, &[(1, 2, "")]).await;
    assert_eq!(
        (&done["type"], &done["changed"]),
        (&"done".into(), &false.into())
    );
}

#[tokio::test]
async fn carets_follow_the_text() {
    let server = Server::start().await;
    let (mut ann, mut bob) = (server.tab("ann").await, server.tab("bob").await);
    ann.edit(1, &[(0, 0, "one two")]).await;
    bob.reach(2).await;
    // Ann's caret is in version 1 of the text, which was empty, and in version 2.
    ann.send(&json!({"type": "caret", "version": 1, "anchor": 0, "head": 0}))
        .await;
    ann.send(&json!({"type": "caret", "version": 2, "anchor": 4, "head": 7}))
        .await;
    let caret = |anchor: usize, head: usize| {
        let caret = json!({"tab": ann.name, "anchor": anchor, "head": head});
        json!({"type": "caret", "version": 2, "caret": caret})
    };
    assert_eq!(bob.read().await, caret(7, 7));
    assert_eq!(bob.read().await, caret(4, 7));
    bob.edit(2, &[(0, 0, "🦀 ")]).await;
    // A tab that comes later sees them where they are now.
    let cem = server.tab("cem").await;
    assert!(
        cem.carets
            .contains(&json!({"tab": ann.name, "anchor": 7, "head": 10}))
    );
    assert!(
        cem.carets
            .contains(&json!({"tab": bob.name, "anchor": 3, "head": 3}))
    );
    let name = ann.name.clone();
    drop(ann);
    assert_eq!(bob.read().await, json!({"type": "left", "tab": name}));
}

#[tokio::test]
async fn a_bad_message_gets_one_error_and_a_close_code() {
    let server = Server::start().await;
    let edit = |change: serde_json::Value| {
        json!({"type": "edit", "key": "k", "base": 1, "changes": [change]}).to_string()
    };
    for bad in [
        "",
        "{",
        "[]",
        "{\"type\": \"drop\"}",
        "{\"type\": \"hello\", \"session\": \"0123456789abcdef\"}",
        "{\"type\": \"undo\"}",
        "{\"type\": \"undo\", \"key\": \"\"}",
        "{\"type\": \"undo\", \"key\": \"k\", \"more\": 1}",
        "{\"type\": \"caret\", \"version\": -1, \"anchor\": 0, \"head\": 0}",
        "{\"type\": \"edit\", \"key\": \"k\", \"base\": 1, \"changes\": [{\"at\": 0, \"inserted\": \"\\ud83d\"}]}",
        &edit(json!({"at": -1})),
        &edit(json!({"at": 0.5})),
        &edit(json!({"at": 0, "inserted": 7})),
        &format!("{{\"type\": \"undo\", \"key\": \"{}\"}}", "k".repeat(65)),
    ] {
        let mut tab = server.tab("ann").await;
        let sent = futures_util::SinkExt::send(&mut tab.socket, Message::text(bad)).await;
        sent.unwrap();
        let (code, errors) = tab.end().await;
        assert_eq!((code, errors.len()), (4400, 1), "{bad}");
        assert_eq!(errors[0]["code"], "badMessage");
    }
    for first in [
        "{\"type\": \"undo\", \"key\": \"k\"}",
        "{\"type\": \"hello\", \"session\": \"s\"}",
    ] {
        let mut tab = Tab::silent(server.address, "ann").await;
        let sent = futures_util::SinkExt::send(&mut tab.socket, Message::text(first)).await;
        sent.unwrap();
        assert_eq!(tab.end().await.0, 4400);
    }
    assert_eq!(server.store.version(), 1);
}

#[tokio::test]
async fn hostile_tabs_are_cut_off_and_others_go_on() {
    let server = Server::start().await;
    let mut ann = server.tab("ann").await;

    let mut silent = Tab::silent(server.address, "silent").await;
    let mut loud = server.tab("loud").await;
    let caret = json!({"type": "caret", "version": 1, "anchor": 0, "head": 0}).to_string();
    for _ in 0..1_000 {
        // The server may close the connection meanwhile.
        let message = Message::text(caret.as_str());
        if futures_util::SinkExt::send(&mut loud.socket, message)
            .await
            .is_err()
        {
            break;
        }
    }
    assert_eq!(loud.end().await.0, 4429);

    let mut big = server.tab("big").await;
    let message = json!({"type": "undo", "key": "k".repeat(2 << 20)}).to_string();
    // The server may close the connection before it has all.
    let _ = futures_util::SinkExt::send(&mut big.socket, Message::text(message)).await;
    assert_eq!(big.end().await.0, 1009);

    let mut first = server.tab("twice").await;
    let _second = server.tab("twice").await;
    assert_eq!(first.end().await.0, 4409);

    ann.edit(1, &[(0, 0, "still here")]).await;
    assert_eq!(server.text(), "still here");
    assert!(!server.store.is_locked());
    assert_eq!(silent.end().await.0, 4408);
}

#[tokio::test]
async fn a_tab_that_does_not_read_is_disconnected_and_holds_up_no_other() {
    let server = Server::start().await;
    let (ann, mut slow) = fill_queue(&server, server.address).await;
    assert_eq!(slow.end().await.0, 4430);
    // It has missed commits, which are larger than the text that it gets instead.
    let welcome = slow.reconnect(server.address, Some("lost")).await;
    assert_eq!(
        (slow.text(), &welcome["request"]),
        (ann.text(), &"open".into())
    );
}

/// A tab edits until another one, at this address, is given up because it does not read.
pub async fn fill_queue(server: &Server, address: SocketAddr) -> (Tab, Tab) {
    let (mut ann, slow) = (server.tab("ann").await, Tab::new(address, "slow").await);
    let pages = ["x", "y"].map(|letter| letter.repeat(400_000));
    let mut tabs = 2;
    // More than the buffers of the operating system and the bound of the queue together.
    for page in pages.iter().cycle().take(60) {
        if tabs != 2 {
            break;
        }
        let version = ann.version;
        let units = ann.units.len();
        ann.edit(version, &[(0, units, page)]).await;
        tabs = ann.panel(|_| true).await["tabs"].as_u64().unwrap();
    }
    assert_eq!(tabs, 1, "the slow tab is given up");
    assert!(!server.store.is_locked());
    (ann, slow)
}

const WORKS: u8 = 0;
const WAITS: u8 = 1;
const IS_BROKEN: u8 = 2;

struct Disk(Arc<AtomicU8>);

impl Journal for Disk {
    fn load(
        &mut self,
        _: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        Ok(())
    }

    fn write(&mut self, _: &JournalWrite) -> Result<(), JournalError> {
        // A test that fails must not leave its thread behind.
        let end = Instant::now() + Duration::from_secs(30);
        while self.0.load(Ordering::SeqCst) == WAITS && Instant::now() < end {
            std::thread::yield_now();
        }
        match self.0.load(Ordering::SeqCst) {
            IS_BROKEN => Err(JournalError::new(JournalErrorKind::Io, "broken")),
            _ => Ok(()),
        }
    }
}

async fn server_on(disk: &Arc<AtomicU8>) -> Server {
    let disk = Disk(Arc::clone(disk));
    let store = DataStore::open_journal(disk, document::options()).unwrap();
    let store = document::prepare(store).unwrap();
    Server::serve(store, tempfile::tempdir().unwrap()).await
}

#[tokio::test]
async fn no_tab_gets_a_commit_before_it_is_on_the_disk() {
    let disk = Arc::new(AtomicU8::new(WORKS));
    let server = server_on(&disk).await;
    let (mut ann, mut bob) = (server.tab("ann").await, server.tab("bob").await);
    let mut request = edit(1, &[(0, 0, "a")]);
    request["key"] = "k".into();
    disk.store(WAITS, Ordering::SeqCst);
    ann.send(&request).await;
    while server.store.version() == 1 {
        tokio::task::yield_now().await;
    }
    // What was queued before the panel has come with it.
    for tab in [&mut ann, &mut bob] {
        for _ in 0..2 {
            assert_eq!(tab.panel(|_| true).await["version"], 1);
        }
        assert_eq!(tab.version, 1);
    }
    // A tab that comes now gets what is on the disk.
    assert_eq!(server.tab("cem").await.text(), "");
    disk.store(WORKS, Ordering::SeqCst);
    assert_eq!(ann.answer("k").await["type"], "commit");
    bob.reach(2).await;
}

#[tokio::test]
async fn a_broken_disk_acknowledges_nothing_and_ends_the_server() {
    let disk = Arc::new(AtomicU8::new(WORKS));
    let server = server_on(&disk).await;
    let mut ann = server.tab("ann").await;
    disk.store(IS_BROKEN, Ordering::SeqCst);
    let mut request = edit(1, &[(0, 0, "a")]);
    request["key"] = "k".into();
    ann.send(&request).await;
    assert_eq!((ann.end().await.0, ann.version), (1011, 1));
    server.running.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_panel_names_the_holder_and_the_queue() {
    let server = Server::start().await;
    let mut ann = server.tab("ann").await;
    let mut bob = server.tab("bob").await;
    let options = AcquireOptions::new().label("import");
    let lock = server
        .store
        .request("operator")
        .options(options)
        .wait()
        .unwrap()
        .into_id();
    let mut request = edit(1, &[(0, 0, "a")]);
    request["key"] = "k".into();
    ann.send(&request).await;
    let panel = bob.panel(|panel| panel["queue"][0].is_object()).await;
    assert_eq!(panel["holder"]["ownerId"], "operator");
    assert_eq!(panel["holder"]["label"], "import");
    assert!(
        panel["holder"]["callSite"]
            .as_str()
            .unwrap()
            .starts_with("examples/apps/live/tests")
    );
    assert_eq!(panel["queue"][0]["ownerId"], ann.name.as_str());
    assert_eq!(panel["queue"][0]["label"], "edit");
    assert_eq!(server.text(), "");
    server.store.release_lock(lock).unwrap();
    assert_eq!(ann.answer("k").await["type"], "commit");
    bob.panel(|panel| panel["holder"].is_null() && panel["version"] == 2)
        .await;
}

#[tokio::test]
async fn a_request_that_times_out_may_be_repeated() {
    let server = Server::start().await;
    server.store.set_lock_timeout(Duration::from_millis(1));
    let mut ann = server.tab("ann").await;
    let lock = server.store.acquire_lock("operator").unwrap();
    let mut request = edit(1, &[(0, 0, "a")]);
    request["key"] = "k".into();
    ann.send(&request).await;
    let refused = ann.answer("k").await;
    assert_eq!(
        (&refused["code"], &refused["retry"]),
        (&"lockTimeout".into(), &true.into())
    );
    server.store.release_lock(lock).unwrap();
    ann.send(&request).await;
    assert_eq!(ann.answer("k").await["type"], "commit");
}

#[tokio::test]
async fn only_the_own_page_is_served() {
    let server = Server::start().await;
    let port = server.address.port();
    let refused = |outcome: Result<_, tungstenite::Error>| match outcome {
        Err(tungstenite::Error::Http(response)) => response.status().as_u16(),
        other => panic!("{:?}", other.err()),
    };
    let own = server.address.to_string();
    for origin in [
        "http://example.org",
        "null",
        "https://127.0.0.1",
        &format!("https://{own}"),
        &format!("http://example.org:{port}"),
        &format!("http://127.0.0.1:{}", port ^ 1),
    ] {
        assert_eq!(
            refused(open(server.address, &own, origin).await),
            403,
            "{origin}"
        );
    }
    // A name of another site that leads to this address: both headers have it.
    let rebound = format!("example.org:{port}");
    for origin in [&rebound, &own] {
        let outcome = open(server.address, &rebound, &format!("http://{origin}")).await;
        assert_eq!(refused(outcome), 403, "{origin}");
    }
    let local = format!("localhost:{port}");
    open(server.address, &local, &format!("http://{local}"))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_tab_with_an_unknown_version_gets_the_text() {
    let server = Server::start().await;
    let mut ann = server.tab("ann").await;
    ann.edit(1, &[(0, 0, "one")]).await;
    let mut bob = Tab::silent(server.address, "bob").await;
    let welcome = bob.hello(Some(1_000), None).await;
    assert_eq!(
        (&welcome["version"], &welcome["text"]),
        (&2.into(), &"one".into())
    );
    let mut cem = Tab::silent(server.address, "cem").await;
    cem.version = 1;
    let welcome = cem.hello(Some(1), None).await;
    assert_eq!(
        (welcome["commits"].as_array().unwrap().len(), cem.text()),
        (1, "one".into())
    );
}
