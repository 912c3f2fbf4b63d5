//! Pseudo-random numbers, the same for the same seed.

/// SplitMix64: one addition and a mixing step per number, good enough to shuffle edits.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A separate stream for another thread.
    pub fn split(&mut self) -> Self {
        Self(self.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; zero for a bound of zero.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    pub fn pick<T: Copy, const N: usize>(&mut self, from: [T; N]) -> T {
        from[self.below(N)]
    }

    /// A few words. Characters of one to four bytes, since positions count characters.
    pub fn words(&mut self) -> String {
        const WORDS: [&str; 12] = [
            "lock ", "queue ", "a ", "naïve ", "in ", "turn. ", "Fäden ", "文書 ", "🦀 ", "and ",
            "– ", "order, ",
        ];
        (0..=self.below(3)).map(|_| self.pick(WORDS)).collect()
    }
}
