//! The commands.

pub(crate) mod compact;
pub(crate) mod diff;
pub(crate) mod export;
pub(crate) mod generate;
pub(crate) mod log;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod salvage;
pub(crate) mod show;
pub(crate) mod timeline;
pub(crate) mod verify;
pub(crate) mod watch;
