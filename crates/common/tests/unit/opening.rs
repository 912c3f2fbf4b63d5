//! Unit tests of `src/opening.rs`.

use std::sync::mpsc::{Sender, channel};
use std::thread;

use super::*;

const FILE: FileIdentity = Some((1, 2));

#[test]
fn a_file_is_noted_until_its_open_ends() {
    let outer = OpensFile::note(FILE);
    let inner = OpensFile::note(Some((1, 3)));
    assert!(OpensFile::is_noted(FILE));
    drop(inner);
    assert!(OpensFile::is_noted(FILE));
    assert!(!OpensFile::is_noted(Some((1, 3))));
    drop(outer);
    assert!(!OpensFile::is_noted(FILE));
}

#[test]
fn a_file_without_numbers_is_never_noted() {
    let _opens = OpensFile::note(None);
    assert!(!OpensFile::is_noted(None));
}

/// Opens a file when its thread has ended, and sends whether that was noted.
struct OpensAtTheEnd(Sender<bool>);

impl Drop for OpensAtTheEnd {
    fn drop(&mut self) {
        let opens = OpensFile::note(FILE);
        let is_noted = OpensFile::is_noted(FILE);
        drop(opens);
        let _ = self.0.send(is_noted);
    }
}

thread_local! {
    static AT_THE_END: RefCell<Option<OpensAtTheEnd>> = const { RefCell::new(None) };
}

#[test]
fn an_open_in_the_last_drop_of_a_thread_is_not_noted() {
    let (sender, end) = channel();
    let opening = thread::spawn(move || {
        // It is dropped after what the thread uses later.
        AT_THE_END.set(Some(OpensAtTheEnd(sender)));
        drop(OpensFile::note(FILE));
    });
    let is_noted = end.recv();
    opening.join().unwrap();
    assert_eq!(is_noted, Ok(false));
}
