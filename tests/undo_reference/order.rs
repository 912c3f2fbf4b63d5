//! The order of things that were ever visible together.

/// A set of numbers.
#[derive(Clone, Debug, Default)]
struct Set(Vec<u64>);

impl Set {
    fn insert(&mut self, number: usize) {
        if self.0.len() <= number / 64 {
            self.0.resize(number / 64 + 1, 0);
        }
        self.0[number / 64] |= 1 << (number % 64);
    }

    fn remove(&mut self, number: usize) {
        if let Some(word) = self.0.get_mut(number / 64) {
            *word &= !(1 << (number % 64));
        }
    }

    fn add(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (own, new) in self.0.iter_mut().zip(&other.0) {
            *own |= new;
        }
    }

    fn has(&self, number: usize) -> bool {
        let word = self.0.get(number / 64);
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// The numbers of both sets.
    fn common<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = usize> + 'a {
        let words = self.0.iter().zip(&other.0).enumerate();
        words.flat_map(|(nth, (one, other))| {
            let mut both = one & other;
            std::iter::from_fn(move || {
                let bit = both.trailing_zeros() as usize;
                both &= both.wrapping_sub(1);
                (bit < 64).then_some(nth * 64 + bit)
            })
        })
    }
}

/// Which numbers were visible after a number, together with it.
#[derive(Debug, Default)]
pub(crate) struct Order(Vec<Set>);

impl Order {
    /// Compares all pairs of a list with the order in which they were visible last, and remembers
    /// the new one. Returns a pair that has changed places without an excuse as the error.
    pub(crate) fn compare(
        &mut self,
        list: &[usize],
        mut is_excused: impl FnMut(usize, usize) -> bool,
    ) -> Result<(), [usize; 2]> {
        self.make_room(list);
        let (mut before, mut changed) = (Set::default(), Vec::new());
        for number in list {
            for other in self.0[*number].common(&before) {
                if !is_excused(other, *number) {
                    return Err([other, *number]);
                }
                changed.push((*number, other));
            }
            before.insert(*number);
        }
        for (number, other) in changed {
            self.0[number].remove(other);
        }
        self.note(list);
        Ok(())
    }

    fn make_room(&mut self, list: &[usize]) {
        let most = list.iter().max().map_or(0, |most| most + 1);
        if self.0.len() < most {
            self.0.resize(most, Set::default());
        }
    }

    /// Remembers all pairs of a list, also if they have another order, too.
    pub(crate) fn note(&mut self, list: &[usize]) {
        self.make_room(list);
        let mut after = Set::default();
        for number in list.iter().rev() {
            self.0[*number].add(&after);
            after.insert(*number);
        }
    }

    /// Whether two were visible together in this order.
    pub(crate) fn has(&self, one: usize, other: usize) -> bool {
        self.0.get(one).is_some_and(|after| after.has(other))
    }
}
