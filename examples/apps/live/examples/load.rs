//! A load test without browsers: tabs that type against the server in another process.
//!
//! `cargo run --release -p doclock-live --example load`, after the server was built with
//! `cargo build --release -p doclock-live`. Each tab sends keystrokes at a fixed rate. The time of
//! a keystroke is from the moment at which it is due until another tab has received its commit, so
//! a late keystroke counts with its delay. The load rises until p99 is above 50 ms or a tab is
//! disconnected.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use doclock_live::splice::Splice;
use futures_util::{SinkExt, StreamExt};
use lexopt::prelude::*;
use serde::Deserialize;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

type Failure = Box<dyn Error + Send + Sync>;

/// The most p99 that counts as usable.
const GOAL: Duration = Duration::from_millis(50);
/// Tabs, and keystrokes of each in a second.
const STEPS: [(usize, u32); 9] = [
    (100, 2),
    (100, 4),
    (100, 6),
    (100, 8),
    (150, 8),
    (200, 8),
    (300, 8),
    (400, 8),
    (600, 8),
];
/// The length at which a keystroke deletes a character instead of inserting one.
const PAGE: usize = 3_000;

/// What the server sends and this program reads.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
enum Received {
    Welcome {
        version: u64,
        text: String,
    },
    Commit {
        version: u64,
        key: Option<String>,
        changes: Vec<Splice>,
    },
    /// A deletion of what another tab has deleted.
    Done {},
    #[serde(other)]
    Other,
}

struct Server {
    process: Child,
    address: String,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends in any case, and its file is temporary.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    fn start(program: &Path) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("main.js"), "")?;
        let mut process = Command::new(program)
            .arg("--store")
            .arg(folder.path().join("live.doclock"))
            .arg("--web")
            .arg(folder.path())
            .args(["--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{} does not start: {error}", program.display()))?;
        let mut line = String::new();
        let output = process.stdout.take().ok_or("no output")?;
        BufReader::new(output).read_line(&mut line)?;
        let address = line
            .trim()
            .trim_start_matches("http://")
            .trim_end_matches('/');
        Ok(Self {
            process,
            address: address.to_owned(),
            _folder: folder,
        })
    }
}

struct Tab {
    index: usize,
    /// The tab whose keystrokes this one times.
    watched: usize,
    socket: WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>,
    version: u64,
    len: usize,
}

impl Tab {
    async fn open(address: &str, index: usize, watched: usize) -> Result<Self, Failure> {
        let mut request = format!("ws://{address}/live").into_client_request()?;
        request
            .headers_mut()
            .insert("Origin", format!("http://{address}").parse()?);
        // As browsers do: no message waits for the acknowledgement of the one before.
        let (mut socket, _) = connect_async_with_config(request, None, true).await?;
        let hello = format!("{{\"type\": \"hello\", \"session\": \"load-test-tab-{index:06}\"}}");
        socket.send(Message::text(hello)).await?;
        let welcome = socket.next().await.ok_or("no welcome")??;
        let Received::Welcome { version, text } = serde_json::from_str(welcome.to_text()?)? else {
            return Err("the first message is no welcome".into());
        };
        let len = text.encode_utf16().count();
        Ok(Self {
            index,
            watched,
            socket,
            version,
            len,
        })
    }

    /// Types until the end, and then reads what is still on its way. Returns the measured times.
    async fn run(
        mut self,
        start: Instant,
        rate: u32,
        end: Instant,
    ) -> Result<Vec<Duration>, Failure> {
        let mut times = Vec::new();
        let period = Duration::from_secs(1) / rate;
        // The tabs type evenly, not at once.
        let first = start + period.mul_f64(self.index as f64 * 0.618 % 1.0);
        let mut keystrokes = interval_at(first, period);
        keystrokes.set_missed_tick_behavior(MissedTickBehavior::Burst);
        // When the keystrokes were due that no request has yet.
        let mut due: Vec<Instant> = Vec::new();
        let mut in_flight = false;
        let silent = end + 2 * GOAL;
        loop {
            tokio::select! {
                at = keystrokes.tick(), if Instant::now() < end => due.push(at),
                message = self.socket.next() => {
                    let message = message.ok_or("disconnected")??;
                    if let Message::Close(frame) = &message {
                        return Err(format!("disconnected: {frame:?}").into());
                    }
                    let (version, key, changes) = match serde_json::from_str(message.to_text()?)? {
                        Received::Commit { version, key, changes } => (version, key, changes),
                        Received::Done {} => {
                            in_flight = false;
                            continue;
                        }
                        _ => continue,
                    };
                    if version != self.version + 1 {
                        return Err(format!("version {version} after {}", self.version).into());
                    }
                    self.version = version;
                    for change in changes {
                        self.len = self.len + change.inserted.len() - change.removed;
                    }
                    let key = key.unwrap_or_default();
                    let (tab, sent) = key.split_once('-').ok_or("another key")?;
                    let tab: usize = tab.parse()?;
                    in_flight &= tab != self.index;
                    if tab == self.watched {
                        let sent = Duration::from_nanos(sent.parse()?);
                        times.push(start.elapsed().saturating_sub(sent));
                    }
                }
                () = sleep_until(silent) => return Ok(times),
            }
            if !in_flight && let Some(&oldest) = due.first() {
                let sent = (oldest - start).as_nanos();
                let at = sent as usize % self.len.max(1);
                let change = match self.len > PAGE {
                    true => Splice::new(at, due.len().min(self.len - at), ""),
                    false => Splice::new(at, 0, "x".repeat(due.len())),
                };
                let request = serde_json::json!({
                    "type": "edit", "base": self.version, "changes": [change],
                    "key": format!("{}-{}", self.index, sent),
                });
                self.socket.send(Message::text(request.to_string())).await?;
                due.clear();
                in_flight = true;
            }
        }
    }
}

struct Outcome {
    times: Vec<Duration>,
    lost: usize,
}

async fn step(address: &str, tabs: usize, rate: u32, seconds: u64) -> Result<Outcome, Failure> {
    let mut open = Vec::new();
    for index in 0..tabs {
        open.push(Tab::open(address, index, (index + 1) % tabs).await?);
    }
    let start = Instant::now() + Duration::from_millis(200);
    let end = start + Duration::from_secs(seconds);
    let lost = Arc::new(AtomicUsize::new(0));
    let running: Vec<_> = open
        .into_iter()
        .map(|tab| {
            let lost = Arc::clone(&lost);
            tokio::spawn(async move {
                match timeout(Duration::from_secs(seconds + 60), tab.run(start, rate, end)).await {
                    Ok(Ok(times)) => times,
                    failed => {
                        if lost.fetch_add(1, Ordering::Relaxed) == 0 {
                            eprintln!("a tab was lost: {failed:?}");
                        }
                        Vec::new()
                    }
                }
            })
        })
        .collect();
    let mut times = Vec::new();
    for tab in running {
        times.extend(tab.await?);
    }
    times.sort_unstable();
    Ok(Outcome {
        times,
        lost: lost.load(Ordering::Relaxed),
    })
}

fn arguments() -> Result<(PathBuf, u64), lexopt::Error> {
    // Examples are built into a folder beside the program.
    let own = std::env::current_exe().unwrap_or_default();
    let mut program = own.with_file_name("../doclock-live");
    let mut seconds = 10;
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("program") => program = parser.value()?.into(),
            Long("seconds") => seconds = parser.value()?.parse()?,
            Long("help") | Short('h') => {
                println!("Usage: load [--program SERVER] [--seconds OF-EACH-STEP]");
                std::process::exit(0);
            }
            _ => return Err(argument.unexpected()),
        }
    }
    Ok((program, seconds))
}

async fn run() -> Result<bool, Failure> {
    let (program, seconds) = arguments()?;
    println!(
        "{:>5} {:>13} {:>9} {:>9} {:>9} {:>9} {:>6}",
        "tabs", "keystrokes/s", "echoes/s", "p50", "p99", "max", "lost"
    );
    let mut reached = false;
    for (at, (tabs, rate)) in STEPS.into_iter().enumerate() {
        // Each step has a new server, so that none inherits the queue of the one before.
        let server = Server::start(&program)?;
        let Outcome { times, lost } = step(&server.address, tabs, rate, seconds).await?;
        let percentile = |percent: usize| {
            let index = (times.len() * percent / 100).min(times.len().saturating_sub(1));
            times.get(index).copied().unwrap_or(Duration::MAX)
        };
        let [p50, p99, max] = [50, 99, 100].map(percentile);
        let millis = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
        println!(
            "{tabs:>5} {:>13} {:>9.0} {:>9} {:>9} {:>9} {lost:>6}",
            tabs * rate as usize,
            times.len() as f64 / seconds as f64,
            millis(p50),
            millis(p99),
            millis(max),
        );
        let is_usable = p99 <= GOAL && lost == 0;
        reached |= at == 0 && is_usable;
        if !is_usable {
            println!(
                "it breaks here: p99 is above {} ms, or a tab is lost",
                GOAL.as_millis()
            );
            break;
        }
    }
    Ok(reached)
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
