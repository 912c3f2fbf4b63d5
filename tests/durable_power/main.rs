//! Power cuts and I/O errors on a simulated disk.
//!
//! A program edits a document in several sessions. The disk records what it does. Then the power is
//! cut at a moment of the record, with a random part of what was not synced, and the document is
//! opened and edited further. That is recorded too, and cut again, so cuts meet recoveries.
//!
//! `DOCLOCK_CUTS` sets the number of cuts, `SEED` the edits and the cuts.

#![cfg(feature = "redb")]

#[path = "../common/mod.rs"]
mod common;

mod disk;
mod editing;
mod errors;
mod unedited;

use common::Dice;
use disk::{Disk, Event};
use doclock::durable::{Journal, JournalWrite, RedbJournal};
use editing::{Known, Plan, Run};

fn number(name: &str, default: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// A cut after which the document was not what it must be.
#[derive(Debug)]
struct Failure {
    seed: u64,
    cut: usize,
    /// The moment of the cut in the recording, and the number of cuts before it in a row.
    at: (usize, usize),
    error: String,
    left: Vec<u8>,
}

impl Failure {
    /// Stores the disk that was left, which `DataStore::open` opens as it is.
    fn report(self) -> ! {
        let Self {
            seed,
            cut,
            at: (event, earlier),
            error,
            left,
        } = self;
        let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
        let path = folder.join(format!("cut-{seed}-{cut}.doclock"));
        std::fs::write(&path, left).unwrap();
        panic!(
            "SEED={seed}, cut {cut} (after event {event}, {earlier} cuts before it in a row): \
             {error}. The disk that was left: {}",
            path.display()
        );
    }
}

/// A disk as `DataStore::open` begins with: a new file is linked to its path when it is whole.
fn created() -> Vec<u8> {
    let disk = Disk::default();
    create(&disk);
    disk.state().live().to_vec()
}

fn create(disk: &Disk) {
    let mut journal = RedbJournal::over(disk.clone()).unwrap();
    // Until then all is held back.
    journal.write(&JournalWrite::default()).unwrap();
}

/// Counts of the cuts.
#[derive(Debug, Default)]
struct Met {
    cuts: usize,
    recordings: usize,
    /// Cuts at which a store was not opened yet.
    opens: usize,
    /// Cuts that lost a commit which was not acknowledged.
    losses: usize,
}

/// Cuts the power so often, of recordings on such disks.
fn cut_power(seed: u64, cuts: usize, disk: impl Fn() -> Disk) -> Result<Met, Failure> {
    let mut dice = Dice(seed);
    let mut met = Met::default();
    while met.cuts < cuts {
        met.recordings += 1;
        let run = Run::new(disk(), Known::of_an_empty_disk());
        for _ in 0..4 {
            let commits = 8 + dice.below(24);
            let plan = Plan::draw(&mut dice, commits);
            run.session(&plan, &mut dice).map_err(|error| Failure {
                seed,
                cut: met.cuts,
                at: (0, 0),
                error: format!("without a cut: {error}"),
                left: run.disk.state().live().to_vec(),
            })?;
        }
        let points = moments(&run, &mut dice);
        for at in points {
            if met.cuts >= cuts {
                break;
            }
            cut_in_a_row(seed, &mut met, &run, at, &mut dice)?;
        }
    }
    Ok(met)
}

/// The moments right before and after each sync, and one in between, in a random order.
fn moments(run: &Run, dice: &mut Dice) -> Vec<usize> {
    let state = run.disk.state();
    let mut moments = Vec::new();
    for (at, event) in state.events.iter().enumerate() {
        if matches!(event, Event::Sync) {
            moments.extend([at, at + 1, dice.below(state.events.len())]);
        }
    }
    for last in (1..moments.len()).rev() {
        moments.swap(last, dice.below(last + 1));
    }
    moments
}

/// Cuts the power at a moment, up to three times in what follows, and at the end of that.
fn cut_in_a_row(
    seed: u64,
    met: &mut Met,
    recorded: &Run,
    at: usize,
    dice: &mut Dice,
) -> Result<(), Failure> {
    let again = dice.below(4);
    let mut at = at;
    let mut later: Option<Run> = None;
    for earlier in 0..=again + 1 {
        let cut = later.as_ref().unwrap_or(recorded);
        let (left, known) = cut.cut(at, dice);
        met.opens += usize::from(!cut.was_opened(at));
        let begun = known.begun;
        let run = Run::new(Disk::with(left.clone()), known);
        let plan = Plan {
            threads: 1,
            ..Plan::draw(dice, 2)
        };
        let found = run.session(&plan, dice).map_err(|error| Failure {
            seed,
            cut: met.cuts,
            at: (at, earlier),
            error,
            left,
        })?;
        met.losses += usize::from(found < begun);
        met.cuts += 1;
        let events = run.disk.state().events.len();
        at = if earlier < again {
            dice.below(events + 1)
        } else {
            events
        };
        later = Some(run);
    }
    Ok(())
}

#[test]
fn durable_02_a_power_cut_at_any_moment_leaves_an_acknowledged_or_later_version() {
    let cuts = number("DOCLOCK_CUTS", 300) as usize;
    let seed = number("SEED", u64::from(std::process::id()));
    println!("running {cuts} cuts, SEED={seed}");
    let began = std::time::Instant::now();
    match cut_power(seed, cuts, || Disk::with(created())) {
        Ok(met) => {
            println!("{met:?} in {:?}", began.elapsed());
            assert!(met.opens > 0 && met.losses > 0);
        }
        Err(failure) => failure.report(),
    }
}

/// Shows that the test above can fail.
#[test]
fn power_cuts_damage_a_document_on_a_disk_that_ignores_syncs() {
    let cut = cut_power(1, 300, || {
        Disk::with(created()).ignoring_syncs(0..usize::MAX)
    });
    let error = cut.unwrap_err().error;
    assert!(error.starts_with("the document is damaged"), "{error}");
}

/// A storage that a program passes to `RedbJournal::over` is created in place.
#[test]
fn a_power_cut_during_the_creation_of_a_storage_leaves_it_new_or_refused() {
    let mut dice = Dice(1);
    let disk = Disk::with(Vec::new());
    create(&disk);
    let created = Run::new(disk, Known::of_an_empty_disk());
    let events = created.disk.state().events.len();
    let (mut opened, mut refused) = (0, 0);
    for at in (0..=events).cycle().take(20 * events) {
        let (left, known) = created.cut(at, &mut dice);
        let plan = Plan::draw(&mut dice, 1);
        match Run::new(Disk::with(left), known).session(&plan, &mut dice) {
            Ok(_) => opened += 1,
            failed if errors::is_interrupted_creation(&created, &failed) => refused += 1,
            Err(error) => panic!("after event {at}: {error}"),
        }
    }
    assert!(opened > 0 && refused > 0);
}
