//! The parts of the locks that the document store uses as well.

mod brief;
mod caught;
mod hashing;
mod ids;
mod keeper;
mod modes;
#[cfg(debug_assertions)]
mod ranks;
mod samples;
mod time;
mod wake_chain;
