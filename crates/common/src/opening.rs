//! The files that a thread is opening. A callback of an open waits for itself if it waits for the
//! lock of such a file.

use std::cell::RefCell;

/// The device and the inode of a file, where there are such numbers.
pub type FileIdentity = Option<(u64, u64)>;

thread_local! {
    static OPENING: RefCell<Vec<FileIdentity>> = const { RefCell::new(Vec::new()) };
}

/// Notes that the thread is opening a file, until it is dropped. At the end of a thread, when its
/// values are dropped, nothing is noted.
#[derive(Debug)]
pub struct OpensFile(());

impl OpensFile {
    pub fn note(identity: FileIdentity) -> Self {
        let _ = OPENING.try_with(|opening| opening.borrow_mut().push(identity));
        Self(())
    }

    /// Whether the thread has noted that it is opening this file. Without its numbers, a file is
    /// not known again.
    pub fn is_noted(identity: FileIdentity) -> bool {
        let is_there = |opening: &RefCell<Vec<_>>| opening.borrow().contains(&identity);
        identity.is_some() && OPENING.try_with(is_there).unwrap_or(false)
    }
}

impl Drop for OpensFile {
    fn drop(&mut self) {
        let _ = OPENING.try_with(|opening| opening.borrow_mut().pop());
    }
}

#[cfg(test)]
#[path = "../tests/unit/opening.rs"]
mod tests;
