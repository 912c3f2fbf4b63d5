//! The server over real WebSockets: in this process, and as a program that is killed.

mod kill;
mod relay;
mod server;
mod tab;
