//! The parts of the locks that the document store uses as well.

mod brief;
mod caught;
mod hashing;
mod ids;
mod keeper;
#[cfg(debug_assertions)]
mod ranks;
mod time;
