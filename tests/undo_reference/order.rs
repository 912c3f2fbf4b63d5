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
    fn common(&self, other: &Self) -> impl Iterator<Item = usize> {
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
    /// Remembers all pairs of a list. Returns a pair that had another order before, unless it is
    /// excused, as the error.
    pub(crate) fn compare(
        &mut self,
        list: &[usize],
        is_excused: impl Fn(usize, usize) -> bool,
    ) -> Result<(), [usize; 2]> {
        let most = list.iter().max().map_or(0, |most| most + 1);
        if self.0.len() < most {
            self.0.resize(most, Set::default());
        }
        let mut before = Set::default();
        for number in list {
            // What was visible in both orders has none.
            let is_free = |other: usize| self.has(other, *number) || is_excused(other, *number);
            let is_wrong = |other: &usize| !is_free(*other);
            let wrong = self.0[*number].common(&before).find(is_wrong);
            if let Some(other) = wrong {
                return Err([other, *number]);
            }
            before.insert(*number);
        }
        let mut after = Set::default();
        for number in list.iter().rev() {
            self.0[*number].add(&after);
            after.insert(*number);
        }
        Ok(())
    }

    /// Whether two were visible together in this order.
    pub(crate) fn has(&self, one: usize, other: usize) -> bool {
        self.0.get(one).is_some_and(|after| after.has(other))
    }
}
