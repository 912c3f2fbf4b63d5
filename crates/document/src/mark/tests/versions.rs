//! Versions of many marks agree with a list, also after versions that share nodes with them have
//! changed.

use std::hash::BuildHasher;

use super::model::Model;
use super::*;

/// Pseudo-random numbers (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound.max(1) as u64) as usize
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    /// A range of a text: sometimes empty, sometimes the whole.
    fn range(&mut self, len: usize) -> Range<usize> {
        let start = self.below(len + 1);
        match self.below(12) {
            0 => 0..len,
            1..4 => start..start,
            4 => start..start + self.below(len - start + 1),
            _ => start..len.min(start + self.below(9)),
        }
    }

    fn mark(&mut self, len: usize) -> Mark {
        const KINDS: [&str; 5] = ["bold", "em", "link", "comment", "code"];
        let kind = KINDS[self.below(KINDS.len())];
        // Many of them at one place.
        let range = match self.one_in(6) {
            true => len / 2..len.min(len / 2 + 1 + self.below(3)),
            false => self.range(len),
        };
        let nth = self.below(40);
        let attributes = (nth > 10).then(|| ("n", nth.into()));
        Mark::new(kind, range).with_attributes(Attributes::from_iter(attributes))
    }

    fn marks(&mut self, len: usize) -> Vec<Mark> {
        let count = self.below(3 * FEW) + self.below(2) * self.below(900);
        (0..count).map(|_| self.mark(len)).collect()
    }

    /// A range that begins in a mark or next to it.
    fn beside(&mut self, mark: &Mark, len: usize) -> Range<usize> {
        let Range { start, end } = mark.bounds();
        let start = len.min((start + self.below(end - start + 3)).saturating_sub(1));
        start..len.min(start + self.below(5))
    }

    fn part(&mut self, mark: &Mark) -> Range<usize> {
        let Range { start, end } = mark.bounds();
        let start = start + self.below(end - start);
        start..start + self.below(end - start + 1)
    }

    /// A change of few marks or of many. Most fit, some name marks that are missing, that touch
    /// others or that exceed the text.
    fn change(&mut self, marks: &Marks, len: usize) -> MarksChange {
        let most = self.below(2) * self.below(40) + 4;
        let mut removed = Vec::new();
        for _ in 0..self.below(most) {
            match marks.as_slice().get(self.below(marks.len())) {
                Some(mark) if !self.one_in(20) => removed.push(mark.clone()),
                _ if self.one_in(4) => removed.push(self.mark(len)),
                _ => {}
            }
        }
        if self.one_in(3) {
            let run = marks.iter().skip(self.below(marks.len()));
            removed.extend(run.take(self.below(40)).cloned());
        }
        let mut added: Vec<Mark> = Vec::new();
        for nth in 0..self.below(most) {
            // A kind of its own touches no other.
            let kind = format!("own{nth}{}", self.below(1 << 40));
            let other = marks.as_slice().get(self.below(marks.len()));
            let gone = removed.get(self.below(removed.len()));
            added.push(match (self.below(60), other, gone) {
                (0, ..) => self.mark(len),
                (1, ..) => Mark::new("far", len..usize::MAX),
                (2, ..) => Mark::new("far", usize::MAX - 1..usize::MAX),
                (3..5, Some(mark), _) => mark.over(self.beside(mark, len)),
                (5..25, _, Some(mark)) => mark.over(self.beside(mark, len)),
                (25..35, _, Some(mark)) => mark.over(self.part(mark)),
                _ => Mark::new(kind, self.range(len)),
            });
        }
        let [removed, added] = [removed, added].map(Marks::sorted);
        MarksChange { removed, added }
    }
}

#[derive(Clone)]
struct Version {
    marks: Marks,
    model: Model,
    len: usize,
}

impl Version {
    fn new(dice: &mut Dice) -> Self {
        let most = [1_500, 40_000][dice.below(2)];
        let len = 1 + dice.below(most);
        let marks = Marks::normal(dice.marks(len), len).unwrap();
        let model = Model(marks.iter().cloned().collect());
        Self { marks, model, len }
    }

    fn splice(&mut self, dice: &mut Dice) {
        let inserted = match dice.below(4) {
            0 => 0,
            _ => dice.below(4),
        };
        let splice = TextSplice {
            range: dice.range(self.len),
            inserted,
        };
        let len = self.len - splice.range.len() + inserted;
        let follow = self.model.all_follow(&splice);
        assert_eq!(self.marks.all_follow(&splice), follow, "{splice:?}");
        self.model = self.model.spliced(&splice);
        match self.marks.change_by(&splice) {
            Some(change) => self.marks = self.marks.changed(&splice, &change, len).unwrap(),
            None => {
                assert!(follow);
                self.marks.follow(&splice);
            }
        }
        self.len = len;
    }

    /// A change from outside of the program, which may not fit.
    fn change(&mut self, dice: &mut Dice) {
        let splice = match dice.below(4) {
            0 => TextSplice::NONE,
            1 => self.seam(dice).unwrap_or(TextSplice::NONE),
            _ => TextSplice {
                range: dice.range(self.len),
                inserted: dice.below(3),
            },
        };
        let len = self.len - splice.range.len() + splice.inserted;
        let mut change = dice.change(&self.marks, len);
        // Often the right one, without some of it.
        if let Some(MarksChange { removed, added }) = self.marks.change_by(&splice)
            && !dice.one_in(4)
        {
            let [removed, added] = [removed, added].map(|mut marks| {
                let mut marks = marks.take();
                marks.retain(|_| !dice.one_in(8));
                Marks::in_order(marks)
            });
            change = MarksChange { removed, added };
        }
        let then = self.model.changed(&splice, &change, len);
        let changed = self.marks.changed(&splice, &change, len);
        let found = changed.as_ref().map(|marks| marks.as_slice());
        assert_eq!(found, then.as_ref().map(|model| &*model.0));
        if let (Some(marks), Some(model)) = (changed, then) {
            (self.marks, self.model, self.len) = (marks, model, len);
        }
    }

    /// Removes what is between two equal marks.
    fn seam(&self, dice: &mut Dice) -> Option<TextSplice> {
        let mut marks = self.model.0.iter().skip(dice.below(self.marks.len()));
        let one = marks.next()?;
        let other = marks.find(|other| other.says() == one.says())?;
        let range = one.bounds().end..other.bounds().start;
        Some(TextSplice { range, inserted: 0 })
    }

    fn split(&mut self, dice: &mut Dice) -> Self {
        let at = dice.below(self.len + 1);
        let right = Self {
            marks: self.marks.split_off(at),
            model: self.model.split_off(at),
            len: self.len - at,
        };
        self.len = at;
        right
    }

    fn append(&mut self, next: &Self) {
        let ends = |mark: &Mark| mark.bounds().end == self.len;
        let begins = |mark: &Mark| mark.bounds().start == 0;
        let meet = self.model.0.iter().any(ends) && next.model.0.iter().any(begins);
        assert_eq!(self.marks.meet(self.len, &next.marks), meet);
        self.marks.append(self.len, &next.marks);
        self.model.append(self.len, &next.model);
        self.len += next.len;
    }

    /// Reads of a range, which may be far behind the text.
    fn read(&self, dice: &mut Dice) {
        let range = match dice.one_in(8) {
            true => self.len / 2..usize::MAX,
            false => dice.range(self.len),
        };
        let touching = self.model.0.iter().filter(|mark| mark.meets(&range));
        assert!(self.marks.touching(&range).iter().eq(touching));
    }

    fn check(&self) {
        if let Some(tree) = self.marks.0.as_ref().and_then(|list| list.tree()) {
            tree.assert_well_formed();
        }
        assert_eq!(self.marks.len(), self.model.0.len());
        assert_eq!(self.marks.as_slice(), self.model.0);
        assert_eq!(self.marks, Marks::in_order(self.model.0.clone()));
        assert!(self.marks.are_normal(self.len));
    }
}

#[test]
fn versions_of_many_marks_agree_with_a_list() {
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| Secret.hash_one(0));
    for seed in (0..60).map(|round| seed.wrapping_add(round)) {
        println!("SEED={seed}");
        let mut dice = Dice(seed);
        let mut versions = vec![Version::new(&mut dice)];
        for _ in 0..120 {
            // Mostly one of the last.
            let back = match dice.one_in(4) {
                true => dice.below(versions.len()),
                false => dice.below(versions.len().min(3)),
            };
            let mut next = versions[versions.len() - 1 - back].clone();
            // Some of them are read before the next edit, some never are.
            if dice.one_in(3) {
                next.check();
            }
            for _ in 0..1 + dice.below(3) {
                match dice.below(16) {
                    0 if dice.one_in(3) => next = Version::new(&mut dice),
                    1 => versions.push(next.split(&mut dice)),
                    2 => {
                        let other = versions[dice.below(versions.len())].clone();
                        if next.len < 5_000 {
                            next.append(&other);
                        }
                    }
                    3..8 => next.change(&mut dice),
                    8 => next.read(&mut dice),
                    _ => next.splice(&mut dice),
                }
            }
            versions.push(next);
        }
        versions.iter().for_each(Version::check);
    }
}
