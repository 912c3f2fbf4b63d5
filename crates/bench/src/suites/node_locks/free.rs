//! The cost of an uncontended lock on one node.

use doclock::dsl::{delete_text_range, insert_text};
use doclock::{
    DataStore, NodeGuard, NodeId, OwnerId, Transaction, TransactionManager,
    lock::{AcquireOptions, node::Scope},
};
use lockable::LockPool;

use super::{Ids, SUITE, document};
use crate::Result;
use crate::measure::{interleaved, timed};
use crate::report::{Report, Unit};

/// Long enough for the clock's cost to be negligible, short enough to alternate often.
const PAIRS: u32 = 200_000;

const TRANSACTIONS: u32 = 100_000;

const ABOUT: &str = "\
1. Free: one thread locks a paragraph two levels below the root with its subtree and
   releases it. Owner and handle are made each time; kept: not so.
  alone    nothing else is locked
  beside another another owner has another paragraph locked all the time, so the table is used
  transaction    one character into or out of the paragraph, committed";

/// Repeated work.
struct Subject {
    name: &'static str,
    run: Box<dyn FnMut(u32) -> Result>,
}

fn subject(name: &'static str, run: impl FnMut(u32) -> Result + 'static) -> Subject {
    let run = Box::new(run);
    Subject { name, run }
}

pub fn run(rounds: usize, report: &Report) -> Result {
    report.text(ABOUT)?;
    let alone = vec![
        doclock("doclock (generated id)", Ids::Generated, false)?,
        doclock("doclock (named id)", Ids::Named, false)?,
        kept("doclock (kept)", false)?,
        global("doclock (global lock)"),
        lockable(false),
    ];
    case("alone", PAIRS, Unit::NsPerPair, alone, rounds, report)?;
    let beside = vec![
        doclock("doclock (generated id)", Ids::Generated, true)?,
        doclock("doclock (named id)", Ids::Named, true)?,
        kept("doclock (kept)", true)?,
        lockable(true),
    ];
    let unit = Unit::NsPerPair;
    case("beside another", PAIRS, unit, beside, rounds, report)?;
    let transactions = vec![
        edits("doclock (begin_on)", false, |store, owner, id| {
            store.begin_on(owner, Scope::new().write(id))
        })?,
        edits("doclock (begin_on, beside)", true, |store, owner, id| {
            store.begin_on(owner, Scope::new().write(id))
        })?,
        edits("doclock (begin)", false, |store, owner, _| {
            store.begin(owner)
        })?,
        lists("doclock (list, nodes)", false, |manager| {
            manager.with_node_locks(1)
        })?,
        lists("doclock (same, beside)", true, |manager| {
            manager.with_node_locks(1)
        })?,
        lists("doclock (list, global)", false, |manager| manager)?,
    ];
    let unit = Unit::NsPerTransaction;
    case(
        "transaction",
        TRANSACTIONS,
        unit,
        transactions,
        rounds,
        report,
    )
}

fn case(
    name: &str,
    times: u32,
    unit: Unit,
    mut subjects: Vec<Subject>,
    rounds: usize,
    report: &Report,
) -> Result {
    let spreads = interleaved(rounds, &mut subjects, |_, subject| {
        let time = timed(|| (subject.run)(times))?;
        Ok(Some(time.as_secs_f64() * 1e9 / f64::from(times)))
    })?;
    let names = subjects.iter().map(|subject| subject.name);
    report.case(SUITE, name, unit, names.zip(spreads))
}

/// A document, one of its paragraphs, and optionally a lock on another paragraph in another
/// section.
fn place(ids: Ids, beside: bool) -> Result<(DataStore, NodeId, Option<NodeGuard>)> {
    let (store, mut paragraphs) = document(16, 16, ids)?;
    let other = beside.then(|| {
        let scope = Scope::new().write_subtree(&paragraphs[200]);
        let unbound = AcquireOptions::new().unbound();
        store
            .node_locks()
            .request("bob", scope)
            .options(unbound)
            .wait()
    });
    Ok((store, paragraphs.swap_remove(20), other.transpose()?))
}

fn doclock(name: &'static str, ids: Ids, beside: bool) -> Result<Subject> {
    let (store, id, other) = place(ids, beside)?;
    Ok(subject(name, move |pairs| {
        let _other = &other;
        for _ in 0..pairs {
            let scope = Scope::new().write_subtree(&id);
            drop(store.node_locks().lock("ann", scope)?);
        }
        Ok(())
    }))
}

fn kept(name: &'static str, beside: bool) -> Result<Subject> {
    let (store, id, other) = place(Ids::Generated, beside)?;
    let (locks, owner) = (store.node_locks(), OwnerId::from("ann"));
    Ok(subject(name, move |pairs| {
        let _other = &other;
        for _ in 0..pairs {
            drop(locks.lock(&owner, Scope::new().write_subtree(&id))?);
        }
        Ok(())
    }))
}

fn global(name: &'static str) -> Subject {
    let store = DataStore::new();
    subject(name, move |pairs| {
        for _ in 0..pairs {
            drop(store.lock("ann")?);
        }
        Ok(())
    })
}

fn lockable(beside: bool) -> Subject {
    let pool = LockPool::new();
    subject("lockable LockPool", move |pairs| {
        let _other = beside.then(|| pool.blocking_lock(2_u64));
        for _ in 0..pairs {
            drop(pool.blocking_lock(1_u64));
        }
        Ok(())
    })
}

fn edits(
    name: &'static str,
    beside: bool,
    begin: impl Fn(
        &DataStore,
        &OwnerId,
        &NodeId,
    ) -> std::result::Result<Transaction, doclock::lock::LockError>
    + 'static,
) -> Result<Subject> {
    let (store, id, other) = place(Ids::Generated, beside)?;
    let owner = OwnerId::from("ann");
    Ok(subject(name, move |transactions| {
        let _other = &other;
        for number in 0..transactions {
            let mut transaction = begin(&store, &owner, &id)?;
            match number % 2 {
                0 => transaction.insert_text(&id, 20, "x")?,
                _ => transaction.delete_text(&id, 20..21)?,
            };
            transaction.commit()?;
        }
        Ok(())
    }))
}

fn lists(
    name: &'static str,
    beside: bool,
    locking: impl Fn(TransactionManager) -> TransactionManager,
) -> Result<Subject> {
    let (store, id, other) = place(Ids::Generated, beside)?;
    let manager = locking(TransactionManager::for_owner(store, "ann"));
    Ok(subject(name, move |transactions| {
        let _other = &other;
        for number in 0..transactions {
            let operation = match number % 2 {
                0 => insert_text(20, "x").on(&id),
                _ => delete_text_range(20, 21).on(&id),
            };
            manager.execute([operation])?;
        }
        Ok(())
    }))
}
