//! Whether transactions that touch different nodes run at the same time.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use doclock::dsl::{delete_text_range, insert_text, op};
use doclock::{
    DataStore, NodeId, OwnerId, TransactionManager, document::EditError, lock::node::Scope,
    transaction::Operation,
};

use super::{Ids, SUITE, document};
use crate::Result;
use crate::measure::{Spread, interleaved};
use crate::report::{Report, Unit};

/// The work of a transaction beside its edit, in microseconds.
const MICROS: f64 = 50.0;

/// The measured time of one run.
const SPAN: Duration = Duration::from_millis(150);

const ABOUT: &str = "\
2. At the same time: threads edit one document, each on and on: begin, put a character into a paragraph or
   take it out again, work for 50 us (always as many steps, so a thread that does not run does not work), commit.
   Own node: each thread has a paragraph in a section of its own. Only the work: without a document, what the
   machine gives. The ratio is the rate by that of the first row.";

const CASES: [(&str, usize, bool); 5] = [
    ("1 thread", 1, false),
    ("2 threads, own node", 2, false),
    ("8 threads, own node", 8, false),
    ("2 threads, one node", 2, true),
    ("8 threads, one node", 8, true),
];

/// Runs one transaction.
type Client = Box<dyn FnMut() -> std::result::Result<(), String> + Send>;

struct Subject {
    name: &'static str,
    client: fn(&DataStore, usize, &NodeId, Work) -> Client,
    /// Whether each transaction makes a version.
    edits: bool,
}

/// Steps that the compiler cannot remove.
#[derive(Clone, Copy)]
struct Work(u64);

pub fn run(rounds: usize, report: &Report) -> Result {
    report.text(ABOUT)?;
    let work = Work::calibrated();
    for (case, threads, shared) in CASES {
        let mut subjects = subjects();
        let spreads = interleaved(rounds, &mut subjects, |_, subject| {
            rate(subject, threads, shared, work).map(Some)
        })?;
        let names = subjects.iter().map(|subject| subject.name);
        let rows = names.zip(spreads.iter().copied());
        report.case(SUITE, case, Unit::TransactionsPerSecond, rows)?;
        if let [
            Some(begin),
            Some(list),
            Some(on_nodes),
            Some(batch_on_nodes),
            Some(work),
        ] = spreads[..]
        {
            let by = |one: Spread, other: Spread| one.median / other.median;
            report.remark(&format!(
                "{case}: on nodes {:.2} times the global lock begun by hand, {:.2} with lists; the machine {:.2}",
                by(on_nodes, begin),
                by(batch_on_nodes, list),
                by(work, begin),
            ))?;
        }
    }
    Ok(())
}

fn subjects() -> Vec<Subject> {
    let subject = |name, client, edits| Subject {
        name,
        client,
        edits,
    };
    vec![
        subject("doclock (begin)", by_hand, true),
        subject("doclock (list)", list, true),
        subject("doclock (begin_on)", by_hand_on_node, true),
        subject("doclock (list on nodes)", batch_on_nodes, true),
        subject("only the work", only_work, false),
    ]
}

impl Work {
    /// The fastest of several tries had the least noise.
    fn calibrated() -> Self {
        const STEPS: u64 = 1_000_000;
        let seconds = |_| {
            let start = Instant::now();
            Self(STEPS).carry_out();
            start.elapsed().as_secs_f64()
        };
        let fastest = (0..50).map(seconds).fold(f64::MAX, f64::min);
        Self((STEPS as f64 * MICROS / 1e6 / fastest) as u64)
    }

    fn carry_out(self) {
        let steps = 0..self.0;
        black_box(steps.fold(1_u64, |state, step| black_box(state).wrapping_add(step)));
    }
}

fn by_hand(store: &DataStore, thread: usize, id: &NodeId, work: Work) -> Client {
    let (store, owner, id) = (store.clone(), owner(thread), id.clone());
    let mut longer = false;
    Box::new(move || {
        let begun = store.begin(&owner);
        edit(begun, &id, &mut longer, work)
    })
}

fn by_hand_on_node(store: &DataStore, thread: usize, id: &NodeId, work: Work) -> Client {
    let (store, owner, id) = (store.clone(), owner(thread), id.clone());
    let mut longer = false;
    Box::new(move || {
        let begun = store.begin_on(&owner, Scope::new().write(&id));
        edit(begun, &id, &mut longer, work)
    })
}

fn edit(
    begun: std::result::Result<doclock::Transaction, doclock::lock::LockError>,
    id: &NodeId,
    longer: &mut bool,
    work: Work,
) -> std::result::Result<(), String> {
    let mut transaction = begun.map_err(text)?;
    let edited = match *longer {
        false => transaction.insert_text(id, 0, "x"),
        true => transaction.delete_text(id, 0..1),
    };
    edited.map_err(text)?;
    *longer = !*longer;
    work.carry_out();
    transaction.commit().map_err(text)?;
    Ok(())
}

fn list(store: &DataStore, thread: usize, id: &NodeId, work: Work) -> Client {
    let manager = TransactionManager::for_owner(store.clone(), owner(thread));
    executing(manager, id, work)
}

fn batch_on_nodes(store: &DataStore, thread: usize, id: &NodeId, work: Work) -> Client {
    let manager = TransactionManager::for_owner(store.clone(), owner(thread));
    executing(manager.with_node_locks(1), id, work)
}

fn executing(manager: TransactionManager, id: &NodeId, work: Work) -> Client {
    let working = op(move |_| {
        work.carry_out();
        Ok::<(), EditError>(())
    });
    let lists = [insert_text(0, "x").on(id), delete_text_range(0, 1).on(id)]
        .map(|edit| [edit, working.clone()]);
    let mut lists = lists.into_iter().cycle();
    Box::new(move || {
        let list: [Operation; 2] = lists.next().ok_or("no list")?;
        manager.execute(list).map(drop).map_err(text)
    })
}

fn only_work(_: &DataStore, _: usize, _: &NodeId, work: Work) -> Client {
    Box::new(move || {
        work.carry_out();
        Ok(())
    })
}

fn owner(thread: usize) -> OwnerId {
    OwnerId::from(format!("editor {thread}"))
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

// The stages of a run. They change while threads are in the middle of a transaction.
const WARMING_UP: u8 = 0;
const COUNTING: u8 = 1;
const OVER: u8 = 2;

/// Transactions per second, of all threads together.
fn rate(subject: &Subject, threads: usize, shared: bool, work: Work) -> Result<f64> {
    let (store, paragraphs) = document(threads, 2, Ids::Generated)?;
    let before = store.version();
    let (gate, stage) = (Barrier::new(threads + 1), AtomicU8::new(WARMING_UP));
    let (time, editors) = thread::scope(|scope| {
        let editors: Vec<_> = (0..threads)
            .map(|thread| {
                let at = if shared { 0 } else { 2 * thread };
                let client = (subject.client)(&store, thread, &paragraphs[at], work);
                let (gate, stage) = (&gate, &stage);
                scope.spawn(move || {
                    gate.wait();
                    edit_on(client, stage)
                })
            })
            .collect();
        gate.wait();
        thread::sleep(SPAN / 5);
        let start = Instant::now();
        stage.store(COUNTING, Ordering::Relaxed);
        thread::sleep(SPAN);
        stage.store(OVER, Ordering::Relaxed);
        let time = start.elapsed();
        let editors: Vec<_> = editors.into_iter().map(|editor| editor.join()).collect();
        (time, editors)
    });
    let (mut done, mut counted) = (0, 0);
    for editor in editors {
        let (all, these) = editor.map_err(|_| "an editing thread panicked")??;
        done += all;
        counted += these;
    }
    let versions = store.version() - before;
    if subject.edits && versions != done {
        return Err(format!("{}: {versions} versions of {done} edits", subject.name).into());
    }
    Ok(counted as f64 / time.as_secs_f64())
}

/// The number of all transactions, and of those in the measured time.
fn edit_on(mut client: Client, stage: &AtomicU8) -> std::result::Result<(u64, u64), String> {
    let (mut done, mut counted) = (0, 0);
    let mut now = stage.load(Ordering::Relaxed);
    while now != OVER {
        client()?;
        done += 1;
        now = stage.load(Ordering::Relaxed);
        counted += u64::from(now == COUNTING);
    }
    Ok((done, counted))
}
