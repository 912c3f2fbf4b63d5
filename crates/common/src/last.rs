//! The last values of a kind.

use std::collections::VecDeque;
use std::ops::Sub;
use std::time::Duration;

/// The last `MOST` values of a kind, oldest first, each with its moment. One word, until there are
/// any.
#[derive(Debug)]
pub struct Last<T, I, const MOST: usize>(Option<Box<Values<T, I>>>);

#[derive(Debug)]
struct Values<T, I>(VecDeque<(T, I)>);

impl<T, I, const MOST: usize> Default for Last<T, I, MOST> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T, I: Copy + Sub<Output = Duration>, const MOST: usize> Last<T, I, MOST> {
    pub fn push(&mut self, value: T, at: I) {
        let Values(values) = &mut **self
            .0
            .get_or_insert_with(|| Box::new(Values(VecDeque::new())));
        if values.len() == MOST {
            values.pop_front();
        }
        values.push_back((value, at));
    }

    /// Returns the values, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.values().map(|(value, _)| value)
    }

    /// Returns the values, each with the time since its moment.
    pub fn list(&self, now: I) -> impl Iterator<Item = (&T, Duration)> {
        self.values().map(move |(value, at)| (value, now - *at))
    }

    fn values(&self) -> impl Iterator<Item = &(T, I)> {
        self.0.iter().flat_map(|values| &values.0)
    }
}
