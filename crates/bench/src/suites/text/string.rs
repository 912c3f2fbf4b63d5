//! A string that is copied, changed and published: the simplest store with snapshots.

use std::sync::Arc;

use super::Subject;
use crate::Result;

#[derive(Default)]
pub struct Copied {
    published: Arc<String>,
}

impl Subject for Copied {
    fn name(&self) -> &'static str {
        "string copied"
    }

    fn note(&self) -> &'static str {
        "the text is copied, changed and published; no lock, no operations"
    }

    fn reset(&mut self, length: usize) -> Result {
        self.published = Arc::new("x".repeat(length));
        Ok(())
    }

    fn run(&mut self, keystrokes: usize) -> Result {
        for keystroke in 0..keystrokes {
            let reader = Arc::clone(&self.published);
            let middle = reader.len() / 2;
            let mut next = String::clone(&reader);
            if keystroke % 2 == 0 {
                next.insert(middle, 'y');
            } else {
                next.remove(middle);
            }
            self.published = Arc::new(next);
        }
        Ok(())
    }
}
