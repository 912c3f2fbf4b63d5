//! The parts of the locks that the document store uses as well.

mod closed;
mod keeper;
mod modes;
#[cfg(debug_assertions)]
mod ranks;
mod time;
mod wake_chain;
