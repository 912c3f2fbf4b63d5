//! The peer: INSERTs of single rows in autocommit.

use postgres::types::Type;

use super::server::{SCHEMA, Server};
use crate::Result;
use crate::measure::Commit;

/// A table with the columns and the key of the log.
pub struct Inserts<'a>(&'a Server);

impl<'a> Inserts<'a> {
    /// Creates the table. The tables of doclock exist already.
    pub fn create(server: &'a Server) -> Result<Self> {
        server.client()?.batch_execute(&format!(
            "CREATE TABLE IF NOT EXISTS {SCHEMA}.inserted
            (LIKE {SCHEMA}.doclock_log INCLUDING ALL)"
        ))?;
        Ok(Self(server))
    }

    pub fn clear(&self) -> Result {
        let statement = format!("TRUNCATE {SCHEMA}.inserted");
        Ok(self.0.client()?.batch_execute(&statement)?)
    }

    /// Returns a writer with a connection of its own. Each call inserts a row with so many bytes,
    /// in one round trip, with the next number after `last`.
    pub fn writer(&self, last: i64, bytes: f64, is_prepared: bool) -> Result<Commit> {
        let mut client = self.0.client()?;
        let statement = format!("INSERT INTO {SCHEMA}.inserted VALUES ($1, $2, $3, $4, $5, $6)");
        let types = [
            Type::TEXT,
            Type::INT8,
            Type::INT8,
            Type::INT8,
            Type::INT8,
            Type::BYTEA,
        ];
        let prepared = match is_prepared {
            true => Some(client.prepare_typed(&statement, &types)?),
            false => None,
        };
        let (document, epoch) = ("commits 1".to_owned(), 1_i64);
        let block = vec![b'x'; bytes as usize];
        let mut number = last;
        Ok(Box::new(move || {
            number += 1;
            let values: [&(dyn postgres::types::ToSql + Sync); 6] =
                [&document, &number, &number, &number, &epoch, &block];
            let rows = match &prepared {
                Some(prepared) => client.execute(prepared, &values)?,
                None => {
                    let typed: Vec<_> = values.into_iter().zip(types.clone()).collect();
                    client.execute_typed(&statement, &typed)?
                }
            };
            match rows {
                1 => Ok(()),
                _ => Err(format!("{rows} rows").into()),
            }
        }))
    }
}
