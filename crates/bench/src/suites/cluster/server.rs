//! The server of a run, as the environment names it.

use std::time::{Duration, Instant};

use doclock_postgres::{Postgres, PostgresOptions, TermOptions};
use postgres::{Client, NoTls};

use crate::Result;

/// The tables of the suite, which removes them.
pub const SCHEMA: &str = "doclock_bench";

/// A server that runs.
pub struct Server {
    parameters: String,
}

impl Server {
    /// Returns the server that the environment names.
    pub fn of_environment() -> Result<Self> {
        let variable = |name: &str| std::env::var(name).ok();
        let host = variable("PGHOST").ok_or(
            "the suite cluster needs a PostgreSQL server, and PGHOST is not set: \
            run it with scripts/with-postgres",
        )?;
        let port = variable("PGPORT").unwrap_or_else(|| "5432".into());
        let user = variable("PGUSER").unwrap_or_else(|| "postgres".into());
        let database = variable("PGDATABASE").unwrap_or_else(|| user.clone());
        let parameters = format!("host={host} port={port} user={user} dbname={database}");
        Ok(Self { parameters })
    }

    /// Opens a connection beside doclock.
    pub fn client(&self) -> Result<Client> {
        Ok(Client::connect(&self.parameters, NoTls)?)
    }

    /// Connects as one process with this name does.
    pub fn process(&self, name: &str) -> Result<Postgres> {
        Ok(Postgres::connect(self.options(name)?)?)
    }

    pub fn options(&self, name: &str) -> Result<PostgresOptions> {
        let parameters = format!("{} application_name={name}", self.parameters);
        Ok(PostgresOptions::new(&parameters)?.schema(SCHEMA)?)
    }

    /// The version and the settings that decide what a commit costs.
    pub fn described(&self) -> Result<String> {
        let mut client = self.client()?;
        let mut found = Vec::new();
        for setting in [
            "server_version",
            "synchronous_commit",
            "fsync",
            "wal_sync_method",
        ] {
            let row = client.query_one("SELECT current_setting($1)", &[&setting])?;
            found.push(format!("{setting} {}", row.get::<_, String>(0)));
        }
        Ok(format!("PostgreSQL: {}", found.join(", ")))
    }

    /// Removes the tables, also those of an earlier run.
    pub fn clear(&self) -> Result {
        let statement = format!("DROP SCHEMA IF EXISTS {SCHEMA} CASCADE");
        Ok(self.client()?.batch_execute(&statement)?)
    }
}

/// Options of a term that no pause of a busy machine ends.
pub fn long_term(owner: &str) -> TermOptions {
    TermOptions::new(owner)
        .term(Duration::from_secs(30))
        .timeout(Duration::from_secs(60))
}

/// Waits for a condition, for at most 20 seconds.
pub fn wait(what: &str, mut is_so: impl FnMut() -> bool) -> Result {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        if Instant::now() > deadline {
            return Err(format!("20 seconds without {what}").into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
