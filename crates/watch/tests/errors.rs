//! A sample of the error of a server.

#[path = "../../../tests/common/errors.rs"]
mod page;

use doclock_watch::ServerError;
use page::{Sample, samples_of};

/// The folder with the error.
const FOLDERS: &[&str] = &["src"];

/// At least so many types are errors.
const ERRORS: usize = 1;

/// The part of the page about it.
fn own_part(page: &str) -> &str {
    let heading = "\n## Diagnostics for other programs: `ServerError`\n";
    let at = page.find(heading).unwrap();
    let (own, _) = page[at..].split_once("\n## Formats\n").unwrap();
    own
}

#[rustfmt::skip]
fn samples() -> Vec<Sample> {
    samples_of([
        ("diagnosticsAddressInUse", ServerError::AddressInUse { address: "127.0.0.1:7007".into() }),
        ("diagnosticsNotASocket", ServerError::NotASocket { path: "notes.txt".into() }),
        ("diagnosticsServerFailed", ServerError::Io { address: "notes.sock".into(), reason: "no memory".into() }),
    ])
}
