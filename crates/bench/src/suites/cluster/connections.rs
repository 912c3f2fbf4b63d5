//! What many documents of one process take on the server: connections and renewals.

use std::time::{Duration, Instant};

use doclock::dsl::{create, text_node};
use doclock::durable::DurableOptions;
use doclock::{DataStore, TransactionManager};
use doclock_postgres::{
    Member, MemberOptions, OwnerEvent, Postgres, PostgresJournal, Term, TermOptions,
};
use postgres::Client;

use super::figures::{Figures, Goal};
use super::server::{Server, long_term, wait};
use crate::Result;

const DOCUMENTS: usize = 100;

/// The term of documents without commits, whose renewals are counted.
const TERM: Duration = Duration::from_secs(3);

pub fn run(server: &Server, figures: &Figures<'_>) -> Result {
    let mut client = server.client()?;
    let mut counts = Vec::new();
    for documents in [1, DOCUMENTS] {
        let name = format!("bench-members-{documents}");
        let process = server.process(&name)?;
        let members = joined(&process, &name, documents)?;
        let connections = count(&mut client, &name)?;
        let case = format!("documents: {documents}");
        figures.print(&case, "connections", (connections, ""), None)?;
        counts.push(connections);
        let rate = transactions(&mut client)? / documents as f64;
        let figure = (rate, "/s, document");
        figures.print(&case, "transactions when idle", figure, None)?;
        for member in members {
            member.leave()?;
        }
    }
    let figure = (counts[1] / counts[0], "× 1 document");
    figures.print("documents: 100", "connections", figure, Goal::AtMost(1.5))?;
    let name = "bench-terms";
    let owned = owned(&server.process(name)?, name, DOCUMENTS)?;
    renewals(&mut client, &owned, figures)
}

/// The transactions of the server in a second, while nothing changes.
fn transactions(client: &mut Client) -> Result<f64> {
    let statement = "SELECT xact_commit::float8 FROM pg_stat_database
        WHERE datname = current_database()";
    // Each connection reports its transactions about once a second.
    let (began, before): (_, f64) = (Instant::now(), client.query_one(statement, &[])?.get(0));
    std::thread::sleep(Duration::from_secs(5));
    let after: f64 = client.query_one(statement, &[])?.get(0);
    Ok((after - before) / began.elapsed().as_secs_f64())
}

/// Joins so many documents, which have no other member, and commits to each.
fn joined(process: &Postgres, name: &str, documents: usize) -> Result<Vec<Member>> {
    let join = |nth: usize| -> Result<Member> {
        let options = MemberOptions::new(long_term("bench"));
        let member = Member::join(process, &format!("{name} {nth}"), options)?;
        let store = member.wait_store(Duration::from_secs(60));
        store.ok_or("the member is not the owner")?;
        member.execute(create(text_node("text", "x")))?;
        wait("a doorbell", || member.has_doorbell())?;
        Ok(member)
    };
    (0..documents).map(join).collect()
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
