//! Keys with values, in two allocations for all of them.

/// Keys with values, in their order.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    keys: String,
    values: Vec<u8>,
    /// Where each key and its value end.
    ends: Vec<(usize, usize)>,
}

impl Pairs {
    pub fn add(&mut self, key: &str, value: &[u8]) {
        self.keys.push_str(key);
        self.values.extend(value);
        self.ends.push((self.keys.len(), self.values.len()));
    }

    /// How many bytes all values have.
    pub fn bytes(&self) -> usize {
        self.values.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let mut start = (0, 0);
        self.ends.iter().map(move |end| {
            let (keys, values) = (start.0..end.0, start.1..end.1);
            start = *end;
            (&self.keys[keys], &self.values[values])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Pairs;

    #[test]
    fn pairs_are_there_in_their_order() {
        let all: [(&str, &[u8]); 4] = [("é", &[1, 2]), ("", &[]), ("b", &[3]), ("c", &[])];
        let mut pairs = Pairs::default();
        assert!(pairs.iter().next().is_none());
        all.iter().for_each(|(key, value)| pairs.add(key, value));
        assert!(pairs.iter().eq(all));
        assert_eq!(pairs.bytes(), 3);
    }
}
