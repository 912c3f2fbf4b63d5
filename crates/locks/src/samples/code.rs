//! Numbers as bits: small numbers take few of them (exponential Golomb codes).

/// Writes numbers one after another.
#[derive(Default)]
pub(super) struct Writer {
    bytes: Vec<u8>,
    /// The bits that do not fill a byte yet, and their number.
    rest: u64,
    bits: u32,
}

impl Writer {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            ..Self::default()
        }
    }

    /// Writes a number. Below two to the power of `order` it takes `order + 1` bits; each doubling
    /// takes two more.
    #[inline]
    pub(super) fn write(&mut self, number: u64, order: u32) {
        if number < 1 << 24 && order < 24 {
            let number = number + (1 << order);
            let width = u64::BITS - number.leading_zeros();
            // The zeros in front come with it.
            return self.put(number, 2 * width - order - 1);
        }
        self.write_long(number, order);
    }

    #[cold]
    fn write_long(&mut self, number: u64, order: u32) {
        let number = u128::from(number) + (1 << order);
        let width = u128::BITS - number.leading_zeros();
        let zeros = width - order - 1;
        self.put(0, zeros / 2);
        self.put(0, zeros - zeros / 2);
        if width > 32 {
            self.put((number >> 32) as u64, width - 32);
        }
        self.put((number & 0xffff_ffff) as u64, width.min(32));
    }

    /// Writes the lowest `width` bits, 56 at most.
    #[inline]
    fn put(&mut self, bits: u64, width: u32) {
        self.rest = (self.rest << width) | bits;
        self.bits += width;
        while self.bits >= 8 {
            self.bits -= 8;
            self.bytes.push((self.rest >> self.bits) as u8);
        }
    }

    pub(super) fn finish(mut self) -> Box<[u8]> {
        if self.bits > 0 {
            self.put(0, 8 - self.bits);
        }
        // Whole words, so that the number of bytes seldom changes.
        let words = self.bytes.len().next_multiple_of(8);
        self.bytes.resize(words, 0);
        self.bytes.into_boxed_slice()
    }
}

/// Reads the numbers of a [`Writer`], with the same orders.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    /// How many bits were read.
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    #[inline]
    pub(super) fn read(&mut self, order: u32) -> u64 {
        let word = self.peek();
        let zeros = word.leading_zeros();
        let width = zeros + order + 1;
        if zeros + width > 56 {
            return self.read_long(order);
        }
        self.at += (zeros + width) as usize;
        ((word << zeros) >> (u64::BITS - width)) - (1 << order)
    }

    #[cold]
    fn read_long(&mut self, order: u32) -> u64 {
        let mut zeros = 0;
        loop {
            let found = self.peek().leading_zeros().min(32);
            zeros += found;
            self.at += found as usize;
            if found < 32 {
                break;
            }
        }
        let mut width = zeros + order + 1;
        let mut number = 0u128;
        while width > 0 {
            let part = width.min(32);
            number = (number << part) | u128::from(self.peek() >> (u64::BITS - part));
            self.at += part as usize;
            width -= part;
        }
        (number - (1 << order)) as u64
    }

    /// Returns the next bits, at least 56 of them, padded with ones past the end.
    #[inline]
    fn peek(&self) -> u64 {
        let from = self.at / 8;
        let next = self.bytes.get(from..).unwrap_or(&[]);
        let mut word = [0xff; 8];
        match next.first_chunk::<8>() {
            Some(whole) => word = *whole,
            None => word[..next.len()].copy_from_slice(next),
        }
        u64::from_be_bytes(word) << (self.at % 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_numbers_are_read_as_they_were_written() {
        let edges = (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        let numbers: Vec<_> = edges.chain([u64::MAX - 1, u64::MAX]).collect();
        for order in 0..20 {
            let mut writer = Writer::default();
            for &number in &numbers {
                writer.write(number, order);
            }
            let bytes = writer.finish();
            let mut reader = Reader::new(&bytes);
            for &number in &numbers {
                assert_eq!(reader.read(order), number, "order {order}");
            }
        }
    }

    #[test]
    fn small_numbers_take_few_bits() {
        let mut writer = Writer::default();
        (0..8).for_each(|_| writer.write(0, 0));
        assert_eq!(writer.finish()[..], [0xff, 0, 0, 0, 0, 0, 0, 0]);
    }
}
