//! Documents in a real PostgreSQL: `scripts/with-postgres cargo test -p doclock-postgres`.
//!
//! Without PGHOST the tests print that they skip, and fail if DOCLOCK_CLUSTER_REQUIRED is set.

mod cancels;
mod clocks;
mod encryption;
mod executes;
mod failover;
mod failures;
mod followers;
mod hand_overs;
mod journals;
mod locks;
mod member_processes;
mod members;
mod owners;
mod proxy;
mod refusals;
mod request_owners;
mod request_support;
mod requests;
mod restores;
mod server;
mod servers;
mod support;
mod tables;
