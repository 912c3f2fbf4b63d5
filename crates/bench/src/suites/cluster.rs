//! Documents in PostgreSQL, beside single statements of the same client library on the same server.

mod commits;
mod connections;
mod figures;
mod followers;
mod inserts;
mod requests;
mod server;
mod takeover;

use crate::Result;
use crate::options::Cluster;
use crate::report::Report;
use figures::Figures;
use server::Server;
pub use takeover::owner;

const SUITE: &str = "cluster";

/// The first argument of this program as the owner that is killed.
pub const OWNER: &str = "cluster-owner";

/// The commits of one writer in a round.
const COMMITS: usize = 1_000;

/// The kills of an owner, and the hand-overs, for each round.
const TAKEOVERS: usize = 4;

const ABOUT: &str = "\
Each writer commits one small write after the other, and waits until the server has confirmed it,
with the same synchronous_commit. All run in this process, on one server.
  doclock             a letter inserted into a text of the writer, in one document in PostgreSQL
  INSERT              one row in autocommit, as many bytes as one commit of doclock has in the log,
                      in a table with the columns and the key of the log; by tokio-postgres, with a
                      connection for each writer; the statement is sent with its parameters
  INSERT (prepared)   the same with a statement that is prepared before";

/// Whether there is a server to measure with.
pub fn is_possible() -> bool {
    std::env::var_os("PGHOST").is_some()
}

pub fn run(rounds: usize, options: &Cluster, report: &Report) -> Result {
    let server = Server::of_environment()?;
    server.clear()?;
    let commits = options.commits.unwrap_or(COMMITS);
    report.heading(SUITE, &format!("{ABOUT}\n{}", server.described()?), &[])?;
    let figures = Figures(report);
    commits::run(rounds, commits, &server, report, &figures)?;
    followers::run((commits / 2).max(1), &server, &figures)?;
    requests::run((commits / 2).max(1), &server, &figures)?;
    takeover::run(TAKEOVERS * rounds, &server, &figures)?;
    connections::run(&server, &figures)?;
    server.clear()?;
    report.text("")
}
