//! I/O errors at every call of the disk: the failure is typed and final, and loses nothing that was
//! acknowledged.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;

use doclock::durable::{DurabilityError, JournalError, JournalErrorKind, OpenError};
use doclock::transaction::TransactionError;
use doclock::{CommitError, DataStore, TransactionManager, dsl::*};

use crate::common::{Dice, PATIENCE};
use crate::disk::{Call, Disk, Event, Fault};
use crate::editing::{Known, Plan, Run};
use crate::number;

const PLAN: Plan = Plan {
    threads: 1,
    commits: 2,
    checkpoint_after: 0,
    closes: true,
};

#[test]
fn durable_05_an_error_of_any_call_of_the_disk_is_typed_and_final() {
    let panics = count_panics();
    let (progress, reached) = channel();
    let checks = thread::spawn(move || {
        // All calls take a minute in a debug build, which samples them.
        let step = if cfg!(debug_assertions) { 11 } else { 1 };
        let mut ever_met = Vec::new();
        for (name, start, known) in starts() {
            for (kind, after) in [
                (ErrorKind::Other, false),
                (ErrorKind::Other, true),
                (ErrorKind::StorageFull, false),
                (ErrorKind::StorageFull, true),
            ] {
                let (mut met, mut missed) = (Vec::new(), 0);
                for at in (number("SEED", 1) as usize % step..).step_by(step) {
                    let fault = Fault { at, after, kind };
                    let call = check_failure(&start, &known, fault);
                    let call = call.unwrap_or_else(|error| panic!("{name}, {fault:?}: {error}"));
                    progress.send(()).unwrap();
                    // Runs differ by some calls: a checkpoint follows one commit or the next.
                    missed = if call.is_none() { missed + 1 } else { 0 };
                    met.extend(call);
                    if missed == 5 {
                        break;
                    }
                }
                for call in Call::ALL {
                    let times = met.iter().filter(|met| **met == call).count();
                    println!("{name}, {kind:?}, after: {after}: {call:?} failed {times} times");
                }
                ever_met.extend(met);
            }
        }
        assert!(step > 1 || Call::ALL.iter().all(|call| ever_met.contains(call)));
    });
    let ended = loop {
        if let Err(ended) = reached.recv_timeout(PATIENCE) {
            break ended;
        }
    };
    assert_eq!(ended, RecvTimeoutError::Disconnected, "a call hangs");
    checks.join().unwrap();
    assert_eq!(panics.load(Ordering::Relaxed), 0, "panics");
}

/// Counts the panics of this process, also those that are caught.
fn count_panics() -> &'static AtomicUsize {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        report(panic);
    }));
    &PANICS
}

/// An empty disk, and one with a document whose last open was cut.
fn starts() -> [(&'static str, Vec<u8>, Known); 2] {
    let mut dice = Dice(1);
    let run = Run::new(Disk::with(Vec::new()), Known::of_an_empty_disk());
    run.session(&PLAN, &mut dice).unwrap();
    let plan = Plan {
        commits: 20,
        checkpoint_after: 400,
        closes: false,
        ..PLAN
    };
    run.session(&plan, &mut dice).unwrap();
    let middle = run.disk.state().events.len() * 3 / 4;
    let (left, known) = run.cut(middle, &mut dice);
    [
        ("a new disk", Vec::new(), Known::of_an_empty_disk()),
        ("a recovery", left, known),
    ]
}

/// Makes one call fail, and opens what is left on a healthy disk. Returns the call, if there were
/// so many.
fn check_failure(start: &[u8], known: &Known, fault: Fault) -> Result<Option<Call>, String> {
    let disk = Disk::with(start.to_vec()).failing(fault);
    let run = Run::new(disk.clone(), known.clone());
    match run.open(&PLAN) {
        Ok(store) => edit(&run, &store, fault.kind)?,
        Err(OpenError::Journal(error)) => check_kind(&error, fault.kind)?,
        Err(other) => return Err(format!("the open fails with {other:?}")),
    }
    let (calls, live) = {
        let state = disk.state();
        (state.calls.clone(), state.live().to_vec())
    };
    let Some((failed, later)) = calls.get(fault.at..).and_then(<[Call]>::split_first) else {
        return Ok(None);
    };
    // A second sync can succeed although the first has lost the data.
    let writes = |call: &&Call| matches!(call, Call::Write | Call::SetLen | Call::Sync);
    if let Some(call) = later.iter().find(writes) {
        return Err(format!("{call:?} follows the failed {failed:?}"));
    }
    let events = disk.state().events.len();
    let mut dice = Dice(fault.at as u64);
    let (cut, known) = run.cut(events, &mut dice);
    for left in [live, cut] {
        let again = Run::new(Disk::with(left), known.clone());
        let opened = again.session(&PLAN, &mut dice);
        if start.is_empty() && is_interrupted_creation(&run, &opened) {
            continue;
        }
        opened.map_err(|error| format!("{failed:?} failed, then {error}"))?;
    }
    Ok(Some(*failed))
}

/// Whether the creation of a storage was interrupted. redb does not take up such a storage again;
/// [`DataStore::open`] creates files beside their path, and links them there when they are whole.
pub(crate) fn is_interrupted_creation(run: &Run, opened: &Result<u64, String>) -> bool {
    let events = run.disk.state().events.len();
    !run.was_opened(events) && *opened == Err(OpenError::Foreign.to_string())
}

fn check_kind(error: &JournalError, kind: ErrorKind) -> Result<(), String> {
    let expected = match kind {
        ErrorKind::StorageFull => JournalErrorKind::Full,
        _ => JournalErrorKind::Io,
    };
    match error.kind == expected {
        true => Ok(()),
        false => Err(format!("{error:?} does not have the kind {expected:?}")),
    }
}

/// Commits until a commit fails, then checks that everything else fails with the same cause.
fn edit(run: &Run, store: &DataStore, kind: ErrorKind) -> Result<(), String> {
    run.check_document(store)?;
    run.take_numbers(store)?;
    let manager = TransactionManager::new(store.clone());
    let commit = || manager.execute([create(text_node("paragraph", "text".repeat(4_000)))]);
    let mut failed = None;
    for _ in 0..6 {
        run.disk.mark(Event::Begun(store.version() + 1));
        let committed = commit();
        run.note_document(store);
        match committed {
            Ok(result) => drop(run.disk.mark(Event::Acknowledged(result.version))),
            Err(TransactionError::Commit(CommitError::Unknown { cause, .. })) => match *cause {
                DurabilityError::Failed { cause, .. } => failed = Some(cause),
                other => return Err(format!("the commit is unknown: {other:?}")),
            },
            // A checkpoint had failed.
            Err(TransactionError::Commit(CommitError::ReadOnly { cause })) => failed = cause,
            Err(other) => return Err(format!("the commit fails with {other:?}")),
        }
        if failed.is_some() {
            break;
        }
    }
    if let Some(cause) = failed.clone() {
        let read_only = CommitError::ReadOnly { cause: Some(cause) };
        match commit() {
            Err(TransactionError::Commit(error)) if error == read_only => {}
            other => return Err(format!("a later commit gives {other:?}")),
        }
    }
    match (failed, store.close()) {
        (None, Ok(report)) if report.durable_version == store.version() => Ok(()),
        (None, Err(DurabilityError::Failed { cause, .. })) => check_kind(&cause, kind),
        (Some(cause), Err(DurabilityError::Failed { cause: again, .. })) if cause == again => {
            check_kind(&cause, kind)
        }
        other => Err(format!("the close does not fit: {other:?}")),
    }
}

/// A document on a disk, which an open has edited.
fn edited(disk: &Disk) -> DataStore {
    let store = Run::new(disk.clone(), Known::of_an_empty_disk())
        .open(&PLAN)
        .unwrap();
    let manager = TransactionManager::new(store.clone());
    manager
        .execute(create(text_node("paragraph", "one")))
        .unwrap();
    store
}

/// Makes a call fail that comes so many calls later, and runs this. Returns whether there were as
/// many.
fn with_failing_call(disk: &Disk, nth: usize, run: impl FnOnce()) -> bool {
    let at = disk.state().calls.len() + nth;
    let fault = Fault {
        at,
        after: false,
        kind: ErrorKind::Other,
    };
    drop(disk.clone().failing(fault));
    run();
    disk.state().calls.len() > at
}

/// It returned `Ok` although redb could not end the file.
#[test]
fn durable_07_a_close_reports_any_write_or_sync_that_fails() {
    for is_edited in [true, false] {
        let mut failed = Vec::new();
        for nth in 0.. {
            let disk = Disk::default();
            let mut store = edited(&disk);
            if !is_edited {
                store.close().unwrap();
                drop(store);
                store = Run::new(disk.clone(), Known::of_an_empty_disk())
                    .open(&PLAN)
                    .unwrap();
            }
            let (version, mut closed) = (store.version(), None);
            let failed_one = with_failing_call(&disk, nth, || closed = Some(store.close()));
            drop(store);
            let left = disk.state().live().to_vec();
            if !failed_one {
                closed.unwrap().unwrap();
                break;
            }
            failed.push(nth);
            let error = closed.unwrap().unwrap_err();
            assert!(
                matches!(error, DurabilityError::Failed { .. }),
                "{nth}: {error}"
            );
            // All commits are durable before that.
            let healthy = Run::new(Disk::with(left), Known::of_an_empty_disk());
            assert_eq!(healthy.open(&PLAN).unwrap().version(), version);
        }
        assert!(failed.len() > 3, "{failed:?}");
    }
}
