//! The files that a thread is opening. A callback of an open waits for itself if it waits for the
//! lock of such a file.

use std::cell::RefCell;

/// The device and the inode of a file, where there are such numbers.
pub type FileIdentity = Option<(u64, u64)>;

thread_local! {
    static OPENING: RefCell<Vec<FileIdentity>> = const { RefCell::new(Vec::new()) };
}

/// Notes that the thread is opening a file, until it is dropped.
#[derive(Debug)]
pub struct OpensFile(());

impl OpensFile {
    pub fn note(identity: FileIdentity) -> Self {
        OPENING.with_borrow_mut(|opening| opening.push(identity));
        Self(())
    }

    /// Whether the thread is opening this file.
    pub fn is_noted(identity: FileIdentity) -> bool {
        OPENING.with_borrow(|opening| opening.contains(&identity))
    }
}

impl Drop for OpensFile {
    fn drop(&mut self) {
        OPENING.with_borrow_mut(Vec::pop);
    }
}
