//! Opens and closes without an edit, also after a kill: no power cut there loses anything, and no
//! sync can be left out.

use std::ops::{Range, RangeInclusive};

use doclock::{TransactionManager, dsl::*};

use crate::common::Dice;
use crate::disk::{Call, Disk, Event};
use crate::editing::{Known, Plan, Run};
use crate::number;

const PLAN: Plan = Plan {
    threads: 1,
    commits: 0,
    checkpoint_after: 0,
    closes: true,
};

/// A closed document, and what is known of it.
struct Closed {
    disk: Vec<u8>,
    known: Known,
}

impl Closed {
    fn with_paragraphs(paragraphs: usize) -> Self {
        let run = Run::new(Disk::with(crate::created()), Known::of_an_empty_disk());
        let store = run.open(&PLAN).unwrap();
        run.check_document(&store).unwrap();
        run.disk.mark(Event::Begun(1));
        let paragraph = |_| create(text_node("paragraph", "text".repeat(1_000)));
        let made = TransactionManager::new(store.clone())
            .execute((0..paragraphs).map(paragraph).collect::<Vec<_>>());
        assert_eq!(made.unwrap().version, 1);
        run.note_document(&store);
        run.disk.mark(Event::Acknowledged(1));
        store.close().unwrap();
        let disk = run.disk.state().live().to_vec();
        let known = run.known_at_the_end();
        Self { disk, known }
    }

    /// Whether an open changes the length of the file: it has no room for the count.
    fn grows(&self) -> bool {
        self.changes_length_before(|event| matches!(event, Event::Opened(_)))
    }

    /// Whether an open or close changes the length of the file.
    fn changes_length(&self) -> bool {
        self.changes_length_before(|_| false)
    }

    fn changes_length_before(&self, is_end: impl Fn(&Event) -> bool) -> bool {
        let run = self.open_and_close(0..0);
        let state = run.disk.state();
        let mut events = state.events.iter().take_while(|event| !is_end(event));
        events.any(|event| matches!(event, Event::SetLen(_)))
    }

    /// Opens and closes, on a disk that ignores these syncs.
    fn open_and_close(&self, ignored: Range<usize>) -> Run {
        let disk = Disk::with(self.disk.clone()).ignoring_syncs(ignored);
        let run = Run::new(disk, self.known.clone());
        open_and_close(&run).unwrap();
        run
    }
}

fn first(fits: impl Fn(&Closed) -> bool) -> Closed {
    let mut all = (1..100).map(Closed::with_paragraphs);
    all.find(fits).expect("such a document")
}

/// One that grows in the open, and one whose length stays.
fn starts() -> [Closed; 2] {
    [
        first(Closed::grows),
        first(|closed| !closed.changes_length()),
    ]
}

fn open_and_close(run: &Run) -> Result<(), String> {
    let store = run.open(&PLAN).map_err(|error| error.to_string())?;
    run.check_document(&store)?;
    run.take_unwritten(&store)?;
    let version = store.version();
    store.close().map_err(|error| error.to_string())?;
    drop(store);
    run.disk.mark(Event::Acknowledged(version));
    Ok(())
}

/// Cuts the power at each of these moments, and again in the open and close that follows.
fn cut(run: &Run, moments: RangeInclusive<usize>, dice: &mut Dice) -> Result<(), String> {
    for at in moments {
        let (left, known) = run.cut(at, dice);
        let again = Run::new(Disk::with(left), known);
        open_and_close(&again)?;
        // The first changes meet what the first cut has left.
        let events = again.disk.state().events.len();
        let until = if dice.one_in(2) { events + 1 } else { 3 };
        let (left, known) = again.cut(dice.below(until), dice);
        open_and_close(&Run::new(Disk::with(left), known))?;
    }
    let events = run.disk.state().events.len();
    match run.cut(events, dice).0 == run.disk.state().live() {
        true => Ok(()),
        false => Err("the end of the close was lost".to_owned()),
    }
}

#[test]
fn durable_02_a_power_cut_within_an_open_or_close_loses_nothing() {
    let cuts = number("DOCLOCK_CUTS", 300) as usize;
    let seed = number("SEED", u64::from(std::process::id()));
    println!("running {cuts} cuts, SEED={seed}");
    let mut dice = Dice(seed);
    for start in starts() {
        let run = start.open_and_close(0..0);
        let events = run.disk.state().events.len();
        for _ in 0..cuts.div_ceil(4 * events) {
            let cut = cut(&run, 0..=events, &mut dice);
            cut.unwrap_or_else(|error| panic!("SEED={seed}: {error}"));
        }
    }
}

/// A killed process leaves changes that the next one sees, and that a power cut can still lose.
#[test]
fn durable_02_a_power_cut_in_the_open_after_a_kill_loses_nothing() {
    let kills = number("DOCLOCK_CUTS", 300).div_ceil(4);
    let seed = number("SEED", u64::from(std::process::id()));
    println!("running {kills} kills of each, SEED={seed}");
    let mut dice = Dice(seed);
    let [grows, stays] = starts().map(|start| start.open_and_close(0..0));
    let edited = Run::new(Disk::with(crate::created()), Known::of_an_empty_disk());
    let plan = Plan {
        commits: 8,
        checkpoint_after: 400,
        ..PLAN
    };
    edited.session(&plan, &mut dice).unwrap();
    for run in [grows, stays, edited] {
        for _ in 0..kills {
            let killed = kill(&run, 0..0, &mut dice);
            killed.unwrap_or_else(|error| panic!("SEED={seed}: {error}"));
        }
    }
}

/// Kills the process at some moment, often once more in the open that follows, and cuts the power
/// at each moment there. The opens run on a disk that ignores these syncs.
fn kill(run: &Run, ignored: Range<usize>, dice: &mut Dice) -> Result<(), String> {
    let events = run.disk.state().events.len();
    let mut killed = run.kill(dice.below(events + 1));
    loop {
        drop(killed.disk.clone().ignoring_syncs(ignored.clone()));
        open_and_close(&killed)?;
        // From then on nothing is left of the kill.
        let synced = killed.disk.state().syncs()[1];
        if dice.one_in(2) {
            return cut(&killed, 0..=synced, dice);
        }
        killed = killed.kill(dice.below(synced));
    }
}

/// Shows that the tests above find each sync that is left out, and that there is none too many.
#[test]
fn an_open_and_close_that_keeps_the_length_has_no_sync_that_can_be_left_out() {
    let seed = number("SEED", u64::from(std::process::id()));
    println!("SEED={seed}");
    let mut dice = Dice(seed);
    let [_, start] = starts();
    let all = start.open_and_close(0..0);
    let syncs = all.disk.state().syncs();
    for (number, after) in syncs.iter().enumerate() {
        let run = start.open_and_close(number..number + 1);
        let events = run.disk.state().events.len();
        let next = syncs.get(number + 1).copied().unwrap_or(events);
        let found = (0..5_000).find_map(|tried| {
            let cut = match number {
                // Only a kill leaves something to sync before the first change.
                0 => kill(&all, 0..1, &mut dice),
                _ => cut(&run, *after..=next, &mut dice),
            };
            Some(format!("{}, after {tried} others", cut.err()?))
        });
        println!("without sync {number} of {}: {found:?}", syncs.len());
        assert!(found.is_some(), "sync {number} can be left out");
    }
}

/// It took more, of which some ordered nothing, and wrote a checkpoint of nothing.
#[test]
fn durable_06_an_open_and_close_without_edits_costs_few_syncs() {
    // See "An open and close without an edit" in `docs/invariants/durable.md`.
    for (start, expected) in starts().into_iter().zip([(5, 3), (4, 2)]) {
        let run = Run::new(Disk::with(start.disk), start.known);
        let store = run.open(&PLAN).unwrap();
        let opened = run.disk.state().calls.len();
        assert_eq!(store.close().unwrap().checkpoints, 0);
        drop(store);
        let state = run.disk.state();
        let syncs = |calls: &[Call]| calls.iter().filter(|call| **call == Call::Sync).count();
        let (open, close) = state.calls.split_at(opened);
        assert_eq!((syncs(open), syncs(close)), expected);
    }
}
