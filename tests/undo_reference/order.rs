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

    fn remove_all(&mut self, others: &Self) {
        for (own, other) in self.0.iter_mut().zip(&others.0) {
            *own &= !other;
        }
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

/// For each number those that were visible after it, together with it.
#[derive(Debug, Default)]
pub(crate) struct Pairs(Vec<Set>);

impl Pairs {
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

/// In which order numbers were visible together.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// All pairs in the order in which they were visible first.
    first: Pairs,
    /// The pairs that had the other order when they were visible last, for which there was an
    /// excuse.
    reversed: Pairs,
}

impl Order {
    /// Compares all pairs of a list with the orders in which they were visible first and last, and
    /// remembers the present one. Returns a pair as the error that has neither of these orders and
    /// no excuse.
    pub(crate) fn compare(
        &mut self,
        list: &[usize],
        mut is_excused: impl FnMut(usize, usize) -> bool,
    ) -> Result<(), [usize; 2]> {
        self.first.make_room(list);
        self.reversed.make_room(list);
        let (mut before, mut turned) = (Set::default(), Vec::new());
        for number in list {
            for other in self.first.0[*number].common(&before) {
                if !self.reversed.has(other, *number) && !is_excused(other, *number) {
                    return Err([other, *number]);
                }
                turned.push((other, *number));
            }
            before.insert(*number);
        }
        self.first.note(list);
        for number in list {
            self.reversed.0[*number].remove_all(&before);
        }
        for (one, other) in turned {
            self.first.0[one].remove(other);
            self.reversed.0[one].insert(other);
        }
        Ok(())
    }

    /// The pairs in the order in which they were visible first.
    pub(crate) fn first(&self) -> &Pairs {
        &self.first
    }
}
