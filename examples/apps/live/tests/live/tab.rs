//! A tab without a browser: it keeps the text by the commits that it receives.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use doclock_live::splice::Splice;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

/// Longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Tab {
    pub session: String,
    /// The name that the server gave it.
    pub name: String,
    pub version: u64,
    pub units: Vec<u16>,
    pub carets: Vec<Value>,
    /// The messages that are no commits.
    pub others: Vec<Value>,
    pub socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

/// Opens a WebSocket with these headers.
pub async fn open(
    address: SocketAddr,
    host: &str,
    origin: &str,
) -> Result<WebSocketStream<MaybeTlsStream<TcpStream>>, tungstenite::Error> {
    let origin = [("Host", host), ("Origin", origin)];
    connect(address, &origin).await
}

/// Opens a WebSocket as the page does, with further headers.
pub async fn open_with(
    address: SocketAddr,
    headers: &[(&'static str, &str)],
) -> Result<WebSocketStream<MaybeTlsStream<TcpStream>>, tungstenite::Error> {
    let origin = format!("http://{address}");
    connect(address, &[&[("Origin", origin.as_str())], headers].concat()).await
}

async fn connect(
    address: SocketAddr,
    headers: &[(&'static str, &str)],
) -> Result<WebSocketStream<MaybeTlsStream<TcpStream>>, tungstenite::Error> {
    let mut request = format!("ws://{address}/live").into_client_request()?;
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    Ok(connect_async(request).await?.0)
}

impl Tab {
    pub async fn new(address: SocketAddr, session: &str) -> Self {
        let mut tab = Self::silent(address, session).await;
        tab.hello(None, None).await;
        tab
    }

    /// A connection without a `hello`.
    pub async fn silent(address: SocketAddr, session: &str) -> Self {
        let (host, origin) = (address.to_string(), format!("http://{address}"));
        Self {
            session: format!("session-of-{session}-in-this-test"),
            name: String::new(),
            version: 0,
            units: Vec::new(),
            carets: Vec::new(),
            others: Vec::new(),
            socket: open(address, &host, &origin).await.unwrap(),
        }
    }

    /// Connects again, with what it has, and with the key of the request in flight.
    pub async fn reconnect(&mut self, address: SocketAddr, key: Option<&str>) -> Value {
        let origin = format!("http://{address}");
        self.socket = open(address, &address.to_string(), &origin).await.unwrap();
        self.hello(Some(self.version), key).await
    }

    pub async fn hello(&mut self, version: Option<u64>, key: Option<&str>) -> Value {
        let session = self.session.clone();
        let hello = json!({"type": "hello", "session": session, "version": version, "key": key});
        self.send(&hello).await;
        let welcome = self.read().await;
        assert_eq!(welcome["type"], "welcome", "{welcome}");
        self.name = welcome["tab"].as_str().unwrap().to_owned();
        if let Some(text) = welcome["text"].as_str() {
            self.units = text.encode_utf16().collect();
            self.version = welcome["version"].as_u64().unwrap();
        }
        for commit in welcome["commits"].as_array().into_iter().flatten() {
            self.apply(commit);
        }
        assert_eq!(self.version, welcome["version"]);
        self.carets = welcome["carets"].as_array().unwrap().clone();
        welcome
    }

    pub fn text(&self) -> String {
        String::from_utf16(&self.units).unwrap()
    }

    pub fn key(&self) -> String {
        // Also a reloaded tab uses no key again.
        static KEYS: AtomicUsize = AtomicUsize::new(0);
        format!("key-{}", KEYS.fetch_add(1, Ordering::Relaxed))
    }

    pub async fn send(&mut self, message: &Value) {
        let sent = self.socket.send(Message::text(message.to_string())).await;
        sent.unwrap();
    }

    /// The next message that is no panel. A commit is applied.
    pub async fn read(&mut self) -> Value {
        let read = async {
            loop {
                match self.next().await {
                    Message::Text(json) => match self.take(&json) {
                        message if message["type"] == "panel" => {}
                        message => return message,
                    },
                    other => panic!("{other:?}"),
                }
            }
        };
        // The panel never falls silent.
        let read = tokio::time::timeout(PATIENCE, read).await;
        read.expect("a message in time")
    }

    /// Takes in a message.
    pub fn take(&mut self, json: &str) -> Value {
        let message: Value = serde_json::from_str(json).unwrap();
        if message["type"] == "commit" {
            self.apply(&message);
        }
        message
    }

    pub async fn next(&mut self) -> Message {
        let next = tokio::time::timeout(PATIENCE, self.socket.next()).await;
        next.expect("a message in time").unwrap().unwrap()
    }

    /// Reads up to the close frame. Returns its code and the errors before it.
    pub async fn end(&mut self) -> (u16, Vec<Value>) {
        let mut errors = Vec::new();
        let read = async {
            loop {
                match self.next().await {
                    Message::Close(frame) => return frame.unwrap().code.into(),
                    Message::Text(json) => {
                        let message: Value = serde_json::from_str(&json).unwrap();
                        errors.extend((message["type"] == "error").then_some(message));
                    }
                    _ => {}
                }
            }
        };
        // The panel never falls silent.
        let code = tokio::time::timeout(PATIENCE, read).await;
        (code.expect("a close frame in time"), errors)
    }

    pub async fn panel(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            if let Message::Text(json) = self.next().await {
                let message = self.take(&json);
                if message["type"] == "panel" && wanted(&message) {
                    return message;
                }
            }
        }
    }

    fn apply(&mut self, commit: &Value) {
        assert_eq!(
            commit["version"],
            self.version + 1,
            "commits come without a gap"
        );
        self.version += 1;
        let changes: Vec<Splice> = serde_json::from_value(commit["changes"].clone()).unwrap();
        for Splice {
            at,
            removed,
            inserted,
        } in changes
        {
            self.units.splice(at..at + removed, inserted.encode_utf16());
        }
    }

    /// Reads until the answer to a request comes.
    pub async fn answer(&mut self, key: &str) -> Value {
        loop {
            let message = self.read().await;
            let own = message["tab"].as_str().is_none_or(|tab| tab == self.name);
            if message["key"] == key && own {
                return message;
            }
            self.others.push(message);
        }
    }

    pub async fn ask(&mut self, mut request: Value) -> Value {
        let key = self.key();
        request["key"] = key.as_str().into();
        self.send(&request).await;
        self.answer(&key).await
    }

    pub async fn edit(&mut self, base: u64, changes: &[(usize, usize, &str)]) -> Value {
        self.ask(edit(base, changes)).await
    }

    pub async fn undo(&mut self) -> Value {
        self.ask(json!({"type": "undo"})).await
    }

    /// Reads until it has a version.
    pub async fn reach(&mut self, version: u64) {
        while self.version < version {
            let message = self.read().await;
            self.others.push(message);
        }
    }
}

pub fn edit(base: u64, changes: &[(usize, usize, &str)]) -> Value {
    let changes = changes
        .iter()
        .map(|&(at, removed, inserted)| Splice::new(at, removed, inserted));
    json!({"type": "edit", "base": base, "changes": changes.collect::<Vec<_>>()})
}

/// A small generator (SplitMix64), seeded by the environment variable `SEED` or by the clock.
pub struct Random(u64);

impl Random {
    pub fn new() -> Self {
        let seed = std::env::var("SEED")
            .ok()
            .and_then(|seed| seed.parse().ok());
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let seed = seed.unwrap_or_else(|| now.unwrap().as_nanos() as u64);
        println!("SEED={seed}");
        Self(seed)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    /// A change that fits the units.
    pub fn change(&mut self, units: &[u16]) -> (usize, usize, &'static str) {
        let inside = |at: usize| {
            units
                .get(at)
                .is_some_and(|unit| (0xdc00..0xe000).contains(unit))
        };
        let mut at = self.below(units.len() + 1);
        at -= usize::from(inside(at));
        let most = if self.below(3) == 0 { 6 } else { 1 };
        let mut end = units.len().min(at + self.below(most));
        end += usize::from(inside(end));
        let inserted = ["a", "bc", "\n", "é", "🦀", "🦀🦀x", ""][self.below(7)];
        (at, end - at, inserted)
    }
}
