//! The real program: killed and started again while tabs edit.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::tab::{Random, Tab, edit};
use futures_util::StreamExt;
use serde_json::Value;
use tokio_tungstenite::tungstenite::Message;

const KILLS: usize = 30;

struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn program(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_doclock-live"));
    let [store, web] = ["live.doclock", "web"].map(|name| folder.join(name));
    command.arg("--store").arg(store).arg("--web").arg(web);
    command
}

fn start(folder: &Path) -> Process {
    std::fs::create_dir_all(folder.join("web")).unwrap();
    std::fs::write(folder.join("web/main.js"), "").unwrap();
    let mut command = program(folder);
    let command = command
        .args(["--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped());
    let mut child = command.stdin(Stdio::null()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let address = line
        .trim()
        .trim_start_matches("http://")
        .trim_end_matches('/');
    let address = address.parse().unwrap();
    Process {
        child,
        output,
        address,
    }
}

fn check(folder: &Path) -> Value {
    let output = program(folder).arg("--check").output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn a_kill_loses_no_acknowledged_edit_and_repeats_none() {
    let mut random = Random::new();
    let folder = tempfile::tempdir().unwrap();
    let (mut acknowledged, mut seen, mut lost) = (Vec::new(), 0, 0);
    let mut process = start(folder.path());
    let mut tab = Tab::new(process.address, "ann").await;
    for _ in 0..KILLS {
        // Some edits in quiet, then the kill while one is in flight.
        for _ in 0..random.below(20) {
            let change = random.change(&tab.units);
            let (version, key) = (tab.version, tab.key());
            let mut request = edit(version, &[change]);
            request["key"] = key.as_str().into();
            tab.send(&request).await;
            if tab.answer(&key).await["type"] == "commit" {
                acknowledged.push(key);
            }
        }
        let (version, key) = (tab.version, tab.key());
        let mut request = edit(version, &[(0, 0, "k")]);
        request["key"] = key.as_str().into();
        tab.send(&request).await;
        // Longer than an edit takes, so that the kill comes at every stage of it.
        let moment = Instant::now() + Duration::from_micros(random.below(25_000) as u64);
        while Instant::now() < moment {
            tokio::task::yield_now().await;
        }
        drop(process);
        let mut is_acknowledged = false;
        while let Some(Ok(Message::Text(json))) = tab.socket.next().await {
            is_acknowledged |= tab.take(&json)["key"] == key.as_str();
        }
        process = start(folder.path());
        let welcome = tab.reconnect(process.address, Some(&key)).await;
        assert!(
            welcome["commits"].is_array(),
            "the store has what the tab has: {welcome}"
        );
        let commits = welcome["commits"].as_array().unwrap();
        let is_committed = commits.iter().any(|commit| commit["key"] == key.as_str());
        seen += usize::from(is_acknowledged);
        if !is_acknowledged && !is_committed {
            lost += 1;
            tab.send(&request).await;
            tab.answer(&key).await;
        }
        acknowledged.push(key);
    }
    println!("{KILLS} kills: {seen} requests were acknowledged before, {lost} were lost");
    let text = tab.text();
    // The session's history is restored from the log, so its last edit can be undone.
    assert_eq!(tab.undo().await["type"], "commit");
    assert_ne!(tab.text(), text);
    let text = tab.text();
    drop(process);

    let report = check(folder.path());
    assert_eq!(
        (&report["text"], &report["replayed"]),
        (&text.as_str().into(), &text.as_str().into())
    );
    let keys: Vec<&str> = report["keys"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| key.as_str().unwrap())
        .collect();
    for key in acknowledged {
        let key = format!("{}/{key}", tab.name);
        assert_eq!(
            keys.iter().filter(|found| **found == key).count(),
            1,
            "{key}"
        );
    }
}

#[tokio::test]
async fn a_signal_closes_the_document() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = start(folder.path());
    let mut tab = Tab::new(process.address, "ann").await;
    tab.edit(1, &[(0, 0, "saved")]).await;
    let pid = process.child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    let mut last = String::new();
    process.output.read_line(&mut last).unwrap();
    assert_eq!(last, "closed at version 2\n");
    assert!(process.child.wait().unwrap().success());
    assert_eq!(check(folder.path())["text"], "saved");
    tab.socket.close(None).await.ok();
}

#[test]
fn a_server_without_its_page_names_the_command() {
    let folder: PathBuf = tempfile::tempdir().unwrap().path().to_owned();
    let output = program(&folder).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(
        error.ends_with("run `npm ci && npm run build` in examples/apps/live/web\n"),
        "{error}"
    );
}
