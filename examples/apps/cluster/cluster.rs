//! Processes that share one document in PostgreSQL, while the owner of the document is killed.
//!
//! ```text
//! scripts/with-postgres cargo run -p doclock-postgres --example cluster -- \
//!     [--seconds N] [--processes N] [--term MS]
//! ```
//!
//! The program starts itself several times. Each process is a member of the document, and edits it
//! without end through the one call that works on every member. Each second the process that owns
//! the document is killed and started again, and another one takes over. At the end a timeline
//! shows the owners, and the document must have each acknowledged edit once, at its version.
//!
//! Exits with 0, with 1 if a check fails, and with 2 if the input was invalid.

#[path = "../../common/mod.rs"]
mod common;

use std::collections::hash_map::DefaultHasher;
use std::error::Error;
use std::hash::{Hash, Hasher};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use common::{Given, complain, number, print_line, wanted};
use doclock::{Snapshot, View, dsl::*};
use doclock_postgres::{Member, MemberOptions, Postgres, PostgresOptions, TermOptions};
use lexopt::prelude::*;

const HELP: &str = "\
Processes that share one document in PostgreSQL. Each second its owner is killed and started again.

usage: cluster [--seconds N] [--processes N] [--term MS]

  --seconds N     for how long they edit; 10 unless given, 1 to 3600
  --processes N   how many there are; 3 unless given, 2 to 9
  --term MS       when another process follows one that died; 500 unless given, 200 to 60000
  -h, --help      prints this

It uses the server that PGHOST, PGPORT, PGUSER and PGDATABASE name.
exit code: 0; 1 if the outcome is wrong; 2 if the input was bad
";

const NAMES: [&str; 9] = [
    "ann", "bob", "cem", "dora", "eva", "fay", "gus", "hal", "ida",
];
/// How long a process pauses between two edits.
const PAUSE: Duration = Duration::from_millis(5);
/// How long an answer of a process may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The node with the edits.
const LOG: &str = "log";

type Failure = Box<dyn Error + Send + Sync>;

struct Options {
    seconds: u64,
    processes: usize,
    term: Duration,
    /// The name and the document of a process that the program has started.
    member: Option<(String, String)>,
}

fn main() -> ExitCode {
    let options = match wanted(parse(lexopt::Parser::from_env()), HELP) {
        Ok(options) => options,
        Err(exit) => return exit,
    };
    let ended = match &options.member {
        Some((name, document)) => edit(name, document, options.term),
        None => share(&options),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(error);
            ExitCode::FAILURE
        }
    }
}

fn parse(mut words: lexopt::Parser) -> Result<Option<Options>, String> {
    let (mut seconds, mut processes, mut term, mut member) = (10, 3, 500, None);
    let told = |error: lexopt::Error| error.to_string();
    let mut given = Given::default();
    while let Some(word) = words.next().map_err(told)? {
        given.once(&word)?;
        match word {
            Long("help") | Short('h') => return Ok(None),
            Long("seconds") => seconds = number("--seconds", &mut words, 1..=3_600)?,
            Long("processes") => processes = number("--processes", &mut words, 2..=9)?,
            Long("term") => term = number("--term", &mut words, 200..=60_000)?,
            Long("member") => {
                let mut next = || words.value().and_then(|word| word.string());
                member = Some((next().map_err(told)?, next().map_err(told)?));
            }
            other => return Err(told(other.unexpected())),
        }
    }
    Ok(Some(Options {
        seconds,
        processes: processes as usize,
        term: Duration::from_millis(term),
        member,
    }))
}

fn connect() -> Result<Postgres, Failure> {
    let Ok(host) = std::env::var("PGHOST") else {
        return Err("there is no PGHOST: run this with scripts/with-postgres".into());
    };
    let variable = |name, default: &str| std::env::var(name).unwrap_or_else(|_| default.into());
    let (port, user) = (variable("PGPORT", "5432"), variable("PGUSER", "postgres"));
    let database = variable("PGDATABASE", &user);
    let parameters = format!("host='{host}' port={port} user='{user}' dbname='{database}'");
    Ok(Postgres::connect(PostgresOptions::new(&parameters)?)?)
}

fn options(name: &str, term: Duration) -> MemberOptions {
    let poll = Duration::from_millis(10)..=Duration::from_millis(100);
    MemberOptions::new(TermOptions::new(name).term(term)).poll(poll)
}

/// The edits in a document, in the order of their versions: each one writes a word at the start.
fn words(snapshot: &Snapshot) -> Vec<String> {
    let text = snapshot.text_of(LOG).unwrap_or_default();
    text.split_whitespace().rev().map(str::to_owned).collect()
}

fn digest(words: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    words.hash(&mut hasher);
    hasher.finish()
}

/// A process that edits. It prints its events and edits, and reads what to do next.
fn edit(name: &str, document: &str, term: Duration) -> Result<(), Failure> {
    let member = Member::join(&connect()?, document, options(name, term))?;
    let events = member.clone();
    thread::spawn(move || {
        for event in events.events() {
            print_line!("event {}", serde_json::json!(event));
        }
    });
    let (stop, stopped) = channel::<()>();
    let (editor, process) = (member.clone(), std::process::id());
    let editing = thread::spawn(move || {
        for nth in 0.. {
            if stopped.recv_timeout(PAUSE).is_ok() {
                return;
            }
            // Executed twice, it would be in the document twice.
            let text = format!("{process}-{nth}");
            match editor.execute(insert_text(0, format!("{text} ")).on(LOG)) {
                Ok(done) => {
                    let epoch = done.fencing_token.epoch();
                    print_line!("edit {epoch} {} {text}", done.version);
                }
                Err(error) => print_line!("failed {text}: {error}"),
            }
        }
    });
    let mut editing = Some(editing);
    for line in std::io::stdin().lines() {
        match line?.split_once(' ') {
            // Waits for a version and shows what the document is then.
            Some(("show", version)) => {
                let (version, began): (u64, _) = (version.parse()?, Instant::now());
                while member.snapshot().version() < version && began.elapsed() < PATIENCE {
                    thread::sleep(PAUSE);
                }
                let shown = member.snapshot();
                let digest = digest(&words(&shown.snapshot));
                print_line!("shown {} {digest}", shown.version());
            }
            _ => {
                stop.send(())?;
                editing.take().map(thread::JoinHandle::join);
                print_line!("stopped");
            }
        }
    }
    Ok(())
}

/// A line of a process: which one, in which start, and when.
type Line = (usize, u32, Instant, String);

/// A term of an owner.
struct Reign {
    name: &'static str,
    epoch: u64,
    since: Instant,
    /// How long the document had no owner before.
    without: Duration,
}

/// The processes, and what they have printed.
struct Cluster<'a> {
    options: &'a Options,
    document: String,
    children: Vec<Child>,
    lines: (Sender<Line>, Receiver<Line>),
    reigns: Vec<Reign>,
    /// The process that owns the document.
    owner: Option<usize>,
    free_since: Instant,
    /// The epoch, the version and the text of each acknowledged edit.
    edits: Vec<(u64, u64, String)>,
}

impl Drop for Cluster<'_> {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = (child.kill(), child.wait());
        }
    }
}

impl Cluster<'_> {
    fn start(&self, nth: usize) -> Result<Child, Failure> {
        let term = self.options.term.as_millis().to_string();
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--term", &term, "--member", NAMES[nth], &self.document])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (sender, process) = (self.lines.0.clone(), child.id());
        let output = child.stdout.take().ok_or("a process has no output")?;
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send((nth, process, Instant::now(), line));
            }
        });
        Ok(child)
    }

    /// Kills the owner and starts its process again.
    fn kill(&mut self, owner: usize) -> Result<(), Failure> {
        self.children[owner].kill()?;
        (self.owner, self.free_since) = (None, Instant::now());
        self.children[owner].wait()?;
        self.children[owner] = self.start(owner)?;
        Ok(())
    }

    /// Handles the lines of the processes until a time, or until one has this first word.
    fn read(&mut self, until: Instant, word: &str) -> Result<Option<String>, Failure> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Ok((nth, process, at, line)) = self.lines.1.recv_timeout(left) else {
                return Ok(None);
            };
            let (first, rest) = line.split_once(' ').unwrap_or((&line, ""));
            match first {
                "edit" => {
                    let words: Vec<_> = rest.split(' ').collect();
                    let [epoch, version, text] = words[..] else {
                        return Err(format!("an edit cannot be read: {line}").into());
                    };
                    let edit = (epoch.parse()?, version.parse()?, text.to_owned());
                    self.edits.push(edit);
                }
                "event" => self.event(nth, process, at, &serde_json::from_str(rest)?),
                "failed" => return Err(format!("an edit of {} {line}", NAMES[nth]).into()),
                _ => {}
            }
            if first == word {
                return Ok(Some(rest.to_owned()));
            }
        }
    }

    fn event(&mut self, nth: usize, process: u32, at: Instant, event: &serde_json::Value) {
        let is_alive = self.children[nth].id() == process;
        match event["type"].as_str() {
            Some("acquired") => {
                self.reigns.push(Reign {
                    name: NAMES[nth],
                    epoch: event["epoch"].as_u64().unwrap_or(0),
                    since: at,
                    without: at.saturating_duration_since(self.free_since),
                });
                self.owner = is_alive.then_some(nth);
            }
            Some("lost" | "handedOver") if self.owner == Some(nth) && is_alive => {
                (self.owner, self.free_since) = (None, at);
            }
            _ => {}
        }
    }

    /// Sends a line to all processes, and returns the answers.
    fn ask(&mut self, line: &str, answer: &str) -> Result<Vec<String>, Failure> {
        for child in &mut self.children {
            let input = child.stdin.as_mut().ok_or("a process has no input")?;
            writeln!(input, "{line}")?;
        }
        let until = Instant::now() + PATIENCE;
        let mut answers = Vec::new();
        for _ in 0..self.children.len() {
            let next = self.read(until, answer)?;
            answers.push(next.ok_or_else(|| format!("a process does not answer `{line}`"))?);
        }
        Ok(answers)
    }
}

fn share(options: &Options) -> Result<(), Failure> {
    let server = connect()?;
    let document = format!("cluster-{}", std::process::id());
    // Version 1 has no edit yet.
    let first = Member::join(&server, &document, self::options("first", options.term))?;
    first.execute(create(text_node("log", "").with_id(LOG)))?;
    first.leave()?;
    let reader = self::options("reader", options.term).follow_only();
    let reader = Member::join(&server, &document, reader)?;
    let began = Instant::now();
    let mut cluster = Cluster {
        options,
        document,
        children: Vec::new(),
        lines: channel(),
        reigns: Vec::new(),
        owner: None,
        free_since: began,
        edits: Vec::new(),
    };
    for nth in 0..options.processes {
        let child = cluster.start(nth)?;
        cluster.children.push(child);
    }
    let mut kills = 0;
    for second in 1..=options.seconds {
        cluster.read(began + Duration::from_secs(second), "")?;
        if second < options.seconds
            && let Some(owner) = cluster.owner
        {
            cluster.kill(owner)?;
            kills += 1;
        }
    }
    cluster.ask("stop", "stopped")?;
    // A request: those of processes that were killed have lower numbers, so they have outcomes now.
    let last = reader.execute(insert_text(0, "end ").on(LOG))?;
    let shown = cluster.ask(&format!("show {}", last.version), "shown")?;
    let until = Instant::now() + PATIENCE;
    while reader.snapshot().version() < last.version && Instant::now() < until {
        thread::sleep(PAUSE);
    }
    let words = words(&reader.snapshot().snapshot);
    timeline(&cluster, began, &words);
    check(&mut cluster.edits, &words, last.version)?;
    let equal = format!("{} {}", last.version, digest(&words));
    if let Some(other) = shown.iter().find(|shown| **shown != equal) {
        return Err(format!("a process shows {other}, and the reader {equal}").into());
    }
    if kills == 0 && options.seconds > 1 {
        return Err("no owner was killed: the document had none in any second".into());
    }
    let count = cluster.edits.len();
    print_line!(
        "{kills} kills, {count} acknowledged edits, {} versions: all in place",
        words.len()
    );
    Ok(())
}

/// Prints which process owned the document, and when.
fn timeline(cluster: &Cluster<'_>, began: Instant, words: &[String]) {
    print_line!("owner      epoch     since  no owner for  versions");
    for reign in &cluster.reigns {
        let of_reign = cluster.edits.iter().filter(|edit| edit.0 == reign.epoch);
        let versions = || of_reign.clone().map(|edit| edit.1);
        let versions = match (versions().min(), versions().max()) {
            (Some(first), Some(last)) => format!("{first} to {last}"),
            _ => "none".into(),
        };
        let Reign { name, epoch, .. } = reign;
        let (since, without) = (
            (reign.since - began).as_secs_f64(),
            reign.without.as_millis(),
        );
        print_line!("{name:<6} {epoch:>9} {since:>7.2} s {without:>10} ms  {versions}");
    }
    print_line!("the document has {} edits", words.len());
}

/// Each edit makes one version and one word, and the first edit makes version 2.
fn check(edits: &mut [(u64, u64, String)], words: &[String], last: u64) -> Result<(), Failure> {
    if words.len() as u64 + 1 != last {
        return Err(format!("{last} versions have {} edits", words.len()).into());
    }
    let mut once = words.to_vec();
    once.sort_unstable();
    if let Some(twice) = once.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("edit {} is in the document twice", twice[0]).into());
    }
    edits.sort_by_key(|edit| edit.1);
    for (epoch, version, text) in edits.iter() {
        let found = usize::try_from(version - 2)
            .ok()
            .and_then(|at| words.get(at));
        if found != Some(text) {
            return Err(format!("edit {text} of epoch {epoch} is lost: {found:?}").into());
        }
    }
    match edits.windows(2).find(|pair| pair[0].0 > pair[1].0) {
        Some(pair) => Err(format!("epoch {} follows epoch {}", pair[1].0, pair[0].0).into()),
        None => Ok(()),
    }
}
