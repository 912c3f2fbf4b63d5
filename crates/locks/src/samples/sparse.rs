//! A distribution in some hundred bytes: the buckets that have any samples, as bits.

use std::iter;

use arrayvec::ArrayVec;
use hdrhistogram::Histogram;

use super::code::{Reader, Writer};
use crate::sampling::Sampling;

/// The most recent samples, and all earlier ones sorted and as bits.
///
/// The buckets are those of the histogram with two significant digits, so the distribution is the
/// same. If many different samples would take more than [`LARGE`](Sparse::LARGE), two neighbours
/// become one bucket, of which the middle is taken: that is still within one per cent.
#[derive(Debug, Default)]
pub(super) struct Sparse {
    recent: ArrayVec<u16, { Sparse::RECENT }>,
    coarse: bool,
    /// How many buckets have samples.
    buckets: u16,
    /// The order of the codes for how many samples a bucket has.
    order: u8,
    /// The order that would have suited best, and is used next.
    next_order: u8,
    bits: Box<[u8]>,
}

impl Sparse {
    /// This many samples are sorted in together.
    const RECENT: usize = 20;

    /// From this many bytes on, neighbours become one.
    const LARGE: usize = 160;

    /// The mark of a recent sample that stands for a run of them.
    const RUN: u16 = 1 << 15;

    /// Records a sample. Returns whether that took long, because many had to be sorted in.
    pub(super) fn record(&mut self, nanos: u64, weight: u64) -> bool {
        let bucket = bucket(nanos);
        match weight {
            1 => self.recent.push(bucket),
            _ if weight == u64::from(Sampling::RUN) => self.recent.push(bucket | Self::RUN),
            _ => {
                self.settle(Some((bucket, weight)));
                return true;
            }
        }
        let is_full = self.recent.is_full();
        if is_full {
            self.settle(None);
        }
        is_full
    }

    /// Sorts the recent samples in, and one more.
    #[cold]
    fn settle(&mut self, last: Option<(u16, u64)>) {
        let weigh = |sample: u16| match sample & Self::RUN {
            0 => (sample, 1),
            _ => (sample & !Self::RUN, u64::from(Sampling::RUN)),
        };
        let recent = self.recent.take().into_iter().map(weigh);
        let mut added: ArrayVec<(u16, u64), { Self::RECENT + 1 }> = recent.chain(last).collect();
        let coarse = self.coarse;
        for (bucket, _) in &mut added {
            *bucket = if coarse { coarser(*bucket) } else { *bucket };
        }
        added.sort_unstable();
        let room = self.bits.len() + 4 * added.len();
        let next = Self::written(merged(self.iter(), added.iter().copied()), self, room);
        *self = next;
        if !self.coarse && self.bits.len() > Self::LARGE {
            let halved = self.iter().map(|(bucket, count)| (coarser(bucket), count));
            let mut next = Self::written(merged(halved, iter::empty()), self, room);
            next.coarse = true;
            *self = next;
        }
    }

    /// Writes buckets in ascending order, in the codes that suited the previous ones.
    fn written(buckets: impl Iterator<Item = (u16, u64)>, before: &Self, room: usize) -> Self {
        let order = before.next_order;
        let mut writer = Writer::with_capacity(room);
        let (mut next, mut written, mut samples) = (0, 0, 0u64);
        for (bucket, count) in buckets {
            writer.write(u64::from(bucket - next), 0);
            writer.write(count - 1, order.into());
            next = bucket + 1;
            written += 1;
            samples = samples.saturating_add(count);
        }
        let mean = samples / u64::from(written.max(1));
        Self {
            recent: ArrayVec::new(),
            coarse: before.coarse,
            buckets: written,
            order,
            next_order: mean.max(1).ilog2().saturating_sub(1) as u8,
            bits: writer.finish(),
        }
    }

    /// Returns the buckets that have samples, without the recent ones.
    fn iter(&self) -> impl Iterator<Item = (u16, u64)> {
        let mut reader = Reader::new(&self.bits);
        let mut next = 0;
        let order = self.order.into();
        (0..self.buckets).map(move |_| {
            let bucket = next + reader.read(0) as u16;
            let count = reader.read(order) + 1;
            next = bucket + 1;
            (bucket, count)
        })
    }

    /// Adds all samples to a histogram.
    pub(super) fn add_to(&self, histogram: &mut Histogram<u64>) {
        for (bucket, count) in self.iter() {
            let value = match self.coarse {
                true => finer(bucket),
                false => bucket,
            };
            histogram.saturating_record_n(lowest(value), count);
        }
        for &sample in &self.recent {
            let weight = match sample & Self::RUN {
                0 => 1,
                _ => Sampling::RUN.into(),
            };
            histogram.saturating_record_n(lowest(sample & !Self::RUN), weight);
        }
    }

    /// Returns how many bytes it has allocated.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.bits.len()
    }
}

/// Merges two ascending sequences of buckets into one without duplicates.
fn merged(
    one: impl Iterator<Item = (u16, u64)>,
    other: impl Iterator<Item = (u16, u64)>,
) -> impl Iterator<Item = (u16, u64)> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    let mut both = iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some((first, _)), Some((second, _))) if second < first => other.next(),
        (None, _) => other.next(),
        _ => one.next(),
    })
    .peekable();
    iter::from_fn(move || {
        let (bucket, mut count) = both.next()?;
        while let Some((_, more)) = both.next_if(|(next, _)| *next == bucket) {
            count += more;
        }
        Some((bucket, count))
    })
}

/// The histogram has this many buckets for each doubling; below twice as many nanoseconds, one for
/// each.
const HALF: u64 = 128;

/// Returns the bucket of a duration.
fn bucket(nanos: u64) -> u16 {
    // As in the histogram: a duration beyond the last bucket counts as an hour.
    let nanos = match nanos >> 42 {
        0 => nanos,
        _ => super::nanos(super::Samples::HIGHEST),
    };
    let shift = (nanos | HALF).ilog2() - HALF.ilog2();
    (HALF * u64::from(shift) + (nanos >> shift)) as u16
}

/// Returns the shortest duration of a bucket.
fn lowest(bucket: u16) -> u64 {
    let bucket = u64::from(bucket);
    match (bucket / HALF).checked_sub(1) {
        None => bucket,
        Some(shift) => (bucket - HALF * shift) << shift,
    }
}

/// Returns the bucket of twice the width. A bucket that is one nanosecond wide stays.
fn coarser(bucket: u16) -> u16 {
    let exact = 2 * HALF as u16;
    match bucket.checked_sub(exact) {
        None => bucket,
        Some(behind) => exact + behind / 2,
    }
}

/// Returns the lower of the two that became one: its upper edge is the middle.
fn finer(bucket: u16) -> u16 {
    let exact = 2 * HALF as u16;
    match bucket.checked_sub(exact) {
        None => bucket,
        Some(behind) => exact + behind * 2,
    }
}
