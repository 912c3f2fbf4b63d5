//! Members in processes of their own, which are killed and stopped.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use doclock::durable::{DurableOptions, Replica};
use doclock::{FencingToken, TransactionManager, View, dsl::*};
use doclock_postgres::{Member, MemberEvent};

use crate::members::brief;
use crate::support::{connect, name, parameters, sql, until};

const LIMIT: Duration = Duration::from_secs(20);

/// The variable that makes this program a member: the document and the name of the member.
const CHILD: &str = "DOCLOCK_TEST_MEMBER";

/// A line that a member prints.
#[derive(Clone, Debug)]
enum Line {
    /// A commit was acknowledged: the epoch of its token, its version, and the id of its node.
    Acked(u64, u64, String),
    /// An event, as JSON.
    Event(serde_json::Value),
}

/// A process that is a member of a document, and commits for as long as it is the owner.
struct Process {
    child: Child,
    lines: Arc<Mutex<Vec<Line>>>,
    reader: Option<thread::JoinHandle<()>>,
}

impl Process {
    fn start(document: &str, member: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "member_processes::a_process_that_is_a_member"])
            .args(["--nocapture", "--test-threads", "1"])
            .env(CHILD, format!("{document} {member}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines: Arc<Mutex<Vec<Line>>> = Arc::default();
        let (out, read) = (child.stdout.take().unwrap(), Arc::clone(&lines));
        let reader = thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                read.lock().unwrap().extend(parse(&line));
            }
        });
        Self {
            child,
            lines,
            reader: Some(reader),
        }
    }

    fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        let done = Command::new("kill").args([signal, &id]).status().unwrap();
        assert!(done.success());
    }

    /// Kills the process, as a crash does.
    fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Kills the process, and returns all that it has acknowledged.
    fn end(&mut self) -> Vec<(u64, u64, String)> {
        self.kill();
        self.child.wait().unwrap();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        self.acks()
    }

    fn lines(&self) -> Vec<Line> {
        self.lines.lock().unwrap().clone()
    }

    fn acks(&self) -> Vec<(u64, u64, String)> {
        let acked = |line| match line {
            Line::Acked(epoch, version, id) => Some((epoch, version, id)),
            Line::Event(_) => None,
        };
        self.lines().into_iter().filter_map(acked).collect()
    }

    fn has_event(&self, of: &str) -> bool {
        let is = |line: &Line| matches!(line, Line::Event(event) if event["type"] == of);
        self.lines().iter().any(is)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

fn parse(line: &str) -> Option<Line> {
    let (of, rest) = line.split_once(' ')?;
    match of {
        "acked" => {
            let mut words = rest.split(' ');
            let epoch = words.next()?.parse().ok()?;
            let version = words.next()?.parse().ok()?;
            Some(Line::Acked(epoch, version, words.next()?.to_owned()))
        }
        "event" => Some(Line::Event(serde_json::from_str(rest).ok()?)),
        _ => None,
    }
}

/// What a [`Process`] runs. It does nothing as a test.
#[test]
fn a_process_that_is_a_member() {
    let Ok(told) = std::env::var(CHILD) else {
        return;
    };
    let (document, name) = told.split_once(' ').unwrap();
    // It ends with the process that has started it.
    thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    println!();
    let server = connect(&parameters().unwrap());
    let member = Member::join(&server, document, brief(name)).unwrap();
    let mut nth = 0;
    loop {
        for event in member.events().try_iter() {
            println!("event {}", serde_json::to_string(&event).unwrap());
        }
        let Some(store) = member.store() else {
            if let Ok(event) = member.events().recv_timeout(Duration::from_millis(5)) {
                println!("event {}", serde_json::to_string(&event).unwrap());
            }
            continue;
        };
        nth += 1;
        let id = format!("{name}-{}-{nth}", std::process::id());
        let batch = create(text_node("paragraph", "text").with_id(id.as_str()));
        if let Ok(written) = TransactionManager::new(store).execute(batch) {
            let (epoch, version) = (written.fencing_token.epoch(), written.version);
            println!("acked {epoch} {version} {id}");
        }
    }
}

/// Checks the log and the document: versions are dense, epochs rise, and each acknowledged commit
/// is there under its version.
fn check(document: &str, acks: &[(u64, u64, String)]) -> u64 {
    let parameters = parameters().unwrap();
    let rows = "SELECT first_version, last_version, epoch FROM doclock.doclock_log
        WHERE document = $1 ORDER BY number";
    let (mut last, mut last_epoch) = (0_i64, 0_i64);
    for row in sql(&parameters).query(rows, &[&document]).unwrap() {
        let (first, through, epoch): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
        assert!(last == 0 || first == last + 1, "{first} after {last}");
        assert!(epoch >= last_epoch, "{epoch} after {last_epoch}");
        (last, last_epoch) = (through, epoch);
    }
    let mut reader = connect(&parameters).reader(document).unwrap();
    let replica = Replica::load(&mut reader, &DurableOptions::new()).unwrap();
    let (snapshot, mut versions) = (replica.snapshot(), BTreeMap::new());
    for (epoch, version, id) in acks {
        assert!(
            snapshot.node(id.as_str()).is_some(),
            "{id} of {version} is lost"
        );
        assert!(*version <= replica.version());
        let other = versions.insert(*version, (*epoch, id));
        assert_eq!(other, None, "two commits have version {version}");
    }
    let epochs: Vec<_> = versions.values().map(|(epoch, _)| *epoch).collect();
    assert!(epochs.is_sorted(), "{epochs:?}");
    replica.version()
}

#[test]
fn cluster_05_a_member_takes_over_without_loading_when_the_owner_is_killed() {
    let Some(parameters) = parameters() else {
        return;
    };
    let server = connect(&parameters);
    let (mut times, term) = (Vec::new(), Duration::from_millis(600));
    for round in 0..3 {
        let document = name("killed");
        let mut owner = Process::start(&document, "ann");
        until("it commits", || owner.acks().len() > 5);
        let loads = Arc::new(AtomicU32::new(0));
        let counts = Arc::clone(&loads);
        let durable = DurableOptions::new().progress(move |_| {
            counts.fetch_add(1, Ordering::SeqCst);
        });
        let options = brief("bob").durable(durable);
        let member = Member::join(&server, &document, options).unwrap();
        let joined = loads.load(Ordering::SeqCst);
        assert!(joined > 0);
        let from = member.snapshot().version();
        until("it follows", || member.snapshot().version() > from + 5);
        // At another moment of the term in each round.
        let goal = member.snapshot().version() + 20 * round;
        until("more commits", || member.snapshot().version() >= goal);
        owner.kill();
        let began = Instant::now();
        let store = member.wait_store(LIMIT).unwrap();
        times.push(began.elapsed());
        assert_eq!(loads.load(Ordering::SeqCst), joined);
        let written = TransactionManager::new(store.clone())
            .execute(create(element("paragraph", [])))
            .unwrap();
        let acks = owner.end();
        let last = acks.last().unwrap();
        assert!(FencingToken::epoch(written.fencing_token) > last.0);
        assert!(written.version > last.1);
        check(&document, &acks);
        let events: Vec<_> = member.events().try_iter().collect();
        let reloaded = |event: &MemberEvent| matches!(event, MemberEvent::Reloaded { .. });
        assert!(!events.iter().any(reloaded), "{events:?}");
    }
    times.sort();
    println!("takeover after a kill, with a term of {term:?}: {times:?}");
    let limit = term + Duration::from_millis(200) + Duration::from_millis(100);
    assert!(times[1] <= limit, "{times:?}");
}

#[test]
fn cluster_05_an_owner_that_was_stopped_beyond_its_term_steps_down() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("stopped");
    let mut owner = Process::start(&document, "ann");
    until("it commits", || owner.acks().len() > 5);
    let member = Member::join(&connect(&parameters), &document, brief("bob")).unwrap();
    owner.signal("-STOP");
    let store = member.wait_store(LIMIT).unwrap();
    let manager = TransactionManager::new(store.clone());
    let written = manager.execute(create(element("paragraph", []))).unwrap();
    owner.signal("-CONT");
    until("it has lost the term", || owner.has_event("lost"));
    until("it follows", || owner.has_event("newOwner"));
    let epoch = written.fencing_token.epoch();
    let before = owner.acks();
    assert!(before.iter().all(|ack| ack.0 < epoch), "{before:?}");
    // Its acknowledgements end with the event.
    let mut is_lost = false;
    for line in owner.lines() {
        match line {
            Line::Event(event) => is_lost |= event["type"] == "lost",
            Line::Acked(..) => assert!(!is_lost, "{line:?} after the end of the term"),
        }
    }
    member.hand_over().unwrap();
    until("it is the owner again", || {
        owner.acks().len() > before.len() + 5
    });
    let acks = owner.acks();
    assert!(acks[before.len()].0 > epoch, "{acks:?}");
    check(&document, &owner.end());
}

#[test]
fn cluster_02_members_that_are_killed_at_random_lose_nothing() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("kills");
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut random = seed;
    let mut next = |below: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % below
    };
    let start = |nth: usize| Process::start(&document, &format!("member-{nth}"));
    let mut members: Vec<_> = (0..3).map(start).collect();
    let follower = brief("watches").follow_only();
    let follower = Member::join(&connect(&parameters), &document, follower).unwrap();
    let (mut acks, mut epochs) = (Vec::new(), BTreeSet::new());
    let began = Instant::now();
    let mut kills = 0;
    while began.elapsed() < Duration::from_secs(6) || kills < 4 {
        assert!(began.elapsed() < Duration::from_secs(60), "{kills} kills");
        // The owner commits, then it or another one is killed.
        let version = follower.snapshot().version();
        let goal = version + 1 + next(100);
        until("commits go on", || follower.snapshot().version() >= goal);
        let owner = follower.snapshot().owner.map(|owner| owner.owner);
        let owner = owner.and_then(|owner| owner.strip_prefix("member-")?.parse().ok());
        let killed = match owner {
            Some(owner) if next(3) > 0 => owner,
            _ => usize::try_from(next(3)).unwrap(),
        };
        acks.extend(members[killed].end());
        kills += 1;
        members[killed] = start(killed);
    }
    for member in &mut members {
        acks.extend(member.end());
    }
    epochs.extend(acks.iter().map(|ack| ack.0));
    let version = check(&document, &acks);
    until("the follower has all", || {
        follower.snapshot().version() >= version
    });
    assert_eq!(follower.snapshot().version(), version);
    println!(
        "{kills} kills, {} owners, {} acknowledged, {version} versions",
        epochs.len(),
        acks.len()
    );
    assert!(epochs.len() > 1);
}
