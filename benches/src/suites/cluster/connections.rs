//! What many documents of one process take on the server: connections and renewals.

use std::time::{Duration, Instant};

use doclock::dsl::{create, text_node};
use doclock::durable::DurableOptions;
use doclock::{DataStore, TransactionManager};
use doclock_postgres::{OwnerEvent, Postgres, PostgresJournal, Term, TermOptions};
use postgres::Client;

use super::figures::{Figures, Goal};
use super::server::{Server, wait};
use crate::Result;

const DOCUMENTS: usize = 100;

/// The term of documents without commits, whose renewals are counted.
const TERM: Duration = Duration::from_secs(3);

pub fn run(server: &Server, figures: &Figures<'_>) -> Result {
    let mut client = server.client()?;
    let mut counts = Vec::new();
    for documents in [1, DOCUMENTS] {
        let name = format!("bench-owns-{documents}");
        let process = server.process(&name)?;
        let owned = owned(&process, &name, documents)?;
        let connections = count(&mut client, &name)?;
        let case = format!("{documents} documents");
        figures.print(&case, "connections", (connections, ""), None)?;
        counts.push(connections);
        if documents == DOCUMENTS {
            renewals(&mut client, &owned, figures)?;
        }
    }
    let times = counts[1] / counts[0];
    let goal = Goal::AtMost(1.5);
    figures.print(
        "100 documents",
        "connections",
        (times, "× 1 document"),
        goal,
    )
}

/// The connections of the process of this name.
fn count(client: &mut Client, name: &str) -> Result<f64> {
    let statement = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
    Ok(client.query_one(statement, &[&name])?.get::<_, i64>(0) as f64)
}

type Owned = (Term, DataStore);

/// Owns so many documents, and commits to each.
fn owned(process: &Postgres, name: &str, documents: usize) -> Result<Vec<Owned>> {
    let open = |nth: usize| -> Result<Owned> {
        let options = TermOptions::new("bench").term(TERM);
        let (term, journal): (Term, PostgresJournal) =
            process.acquire(&format!("{name} {nth}"), options)?;
        let store = DataStore::open_journal(journal, DurableOptions::new())?;
        TransactionManager::new(store.clone()).execute(create(text_node("text", "x")))?;
        Ok((term, store))
    };
    (0..documents).map(open).collect()
}

/// What the renewals of documents without commits cost.
fn renewals(client: &mut Client, owned: &[Owned], figures: &Figures<'_>) -> Result {
    let took = |(term, _): &Owned| -> Vec<Duration> {
        let events = term.events().try_iter();
        let took = events.filter_map(|event| match event {
            OwnerEvent::Renewed { took, .. } => Some(took),
            _ => None,
        });
        took.collect()
    };
    owned.iter().for_each(|owned| drop(took(owned)));
    let (began, before) = (Instant::now(), wal(client)?);
    let mut times: Vec<Duration> = Vec::new();
    // Two of each on average.
    wait("the renewals", || {
        times.extend(owned.iter().flat_map(took));
        times.len() >= 2 * owned.len()
    })?;
    let (seconds, bytes) = (began.elapsed().as_secs_f64(), wal(client)? - before);
    let (count, documents) = (times.len() as f64, owned.len() as f64);
    let case = "renewals";
    let rate = count / seconds / documents * TERM.as_secs_f64();
    figures.print(case, "of a document", (rate, "/term"), None)?;
    figures.times(case, &times)?;
    figures.print(case, "of the WAL", (bytes / count, "bytes/renewal"), None)
}

/// The bytes of the WAL since the server was created.
pub fn wal(client: &mut Client) -> Result<f64> {
    let statement = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8";
    Ok(client.query_one(statement, &[])?.get(0))
}
