//! The last values of a kind.

use std::collections::VecDeque;
use std::ops::Sub;
use std::time::Duration;

/// The last `MOST` values of a kind, oldest first, each with its moment.
#[derive(Debug)]
pub struct Last<T, I, const MOST: usize>(VecDeque<(T, I)>);

impl<T, I, const MOST: usize> Default for Last<T, I, MOST> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T, I: Copy + Sub<Output = Duration>, const MOST: usize> Last<T, I, MOST> {
    pub fn push(&mut self, value: T, at: I) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back((value, at));
    }

    /// Returns the values, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(value, _)| value)
    }

    /// Returns the values, each with the time since its moment.
    pub fn list(&self, now: I) -> impl Iterator<Item = (&T, Duration)> {
        self.0.iter().map(move |(value, at)| (value, now - *at))
    }
}
