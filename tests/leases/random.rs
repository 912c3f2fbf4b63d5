//! Random leases against a plain list of them.

use std::time::Duration;

use doclock::{
    CommitError, DataStore, FencingToken,
    document::NodeSpec,
    lease::{LeaseError, LeaseHolder, LeaseTarget},
    time::ManualClock,
};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::common::cases;
use crate::timed;

/// The reference: a list of all leases ever granted, with linear search.
#[derive(Default)]
struct Plain {
    now: u64,
    leases: Vec<PlainLease>,
}

#[derive(Clone, Debug)]
struct PlainLease {
    targets: Vec<LeaseTarget>,
    owner: String,
    ends: u64,
}

impl Plain {
    /// Tokens and leases.
    fn live(&self) -> impl DoubleEndedIterator<Item = (u64, &PlainLease)> {
        let numbered = (1..).zip(&self.leases).collect::<Vec<_>>().into_iter();
        numbered.filter(|(_, lease)| lease.ends > self.now)
    }

    fn excluding(&self, wanted: &LeaseTarget) -> Vec<u64> {
        let excludes = |has: &LeaseTarget| {
            has == wanted || *has == LeaseTarget::Document || *wanted == LeaseTarget::Document
        };
        let excluding = self
            .live()
            .filter(|(_, lease)| lease.targets.iter().any(excludes));
        excluding.map(|(token, _)| token).collect()
    }

    fn lease(&self, token: u64) -> &PlainLease {
        &self.leases[token as usize - 1]
    }

    /// Checks that the reported conflicting lease conflicts, and that it is the longest one for the
    /// document.
    fn confirm(&self, holder: &LeaseHolder, wanted: &[LeaseTarget]) {
        let token = holder.lease.fencing_token.get();
        let lease = self.lease(token);
        assert_eq!(lease.targets, holder.lease.targets.as_slice());
        assert_eq!(lease.owner, holder.lease.owner_id.as_str());
        assert_eq!(
            Duration::from_nanos(lease.ends - self.now),
            holder.remaining
        );
        assert!(lease.targets.contains(&holder.target));
        let first = wanted.iter().map(|target| self.excluding(target));
        let first = first.into_iter().find(|found| !found.is_empty()).unwrap();
        assert!(first.contains(&token));
        let longest = first.iter().map(|&token| self.lease(token).ends).max();
        assert_eq!(longest, Some(lease.ends));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Lease {
        targets: Vec<u8>,
        owner: u8,
        nanos: u64,
    },
    Renew {
        which: Index,
        nanos: u64,
    },
    Release(Index),
    Commit {
        which: Index,
        nodes: usize,
        pass: u64,
    },
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let nanos = || prop_oneof![8 => 1..40u64, 1 => 0..2u64, 1 => 200..300u64];
    let step = prop_oneof![
        8 => (prop::collection::vec(0..14u8, 1..4), 0..4u8, nanos())
            .prop_map(|(targets, owner, nanos)| Step::Lease { targets, owner, nanos }),
        4 => (any::<Index>(), nanos()).prop_map(|(which, nanos)| Step::Renew { which, nanos }),
        3 => any::<Index>().prop_map(Step::Release),
        2 => (any::<Index>(), prop_oneof![0..2usize, Just(70)], 0..20u64)
            .prop_map(|(which, nodes, pass)| Step::Commit { which, nodes, pass }),
        3 => (1..25u64).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..200)
}

fn target(nth: u8) -> LeaseTarget {
    match nth {
        0 => LeaseTarget::Document,
        nth => format!("n{nth}").into(),
    }
}

struct Pair {
    store: DataStore,
    clock: ManualClock,
    plain: Plain,
}

impl Pair {
    fn step(&mut self, step: Step) {
        match step {
            Step::Pass(nanos) => self.pass(nanos),
            Step::Lease {
                targets,
                owner,
                nanos,
            } => self.lease(targets.into_iter().map(target).collect(), owner, nanos),
            Step::Renew { which, nanos } => {
                self.pick(which, |pair, token| pair.renew(token, nanos))
            }
            Step::Release(which) => self.pick(which, Self::release),
            Step::Commit { which, nodes, pass } => {
                self.pick(which, |pair, token| pair.commit(token, nodes, pass));
            }
        }
        self.compare();
    }

    fn pass(&mut self, nanos: u64) {
        self.clock.advance(Duration::from_nanos(nanos));
        self.plain.now += nanos;
    }

    fn lease(&mut self, mut targets: Vec<LeaseTarget>, owner: u8, nanos: u64) {
        let (plain, owner) = (&mut self.plain, format!("o{owner}"));
        let duration = Duration::from_nanos(nanos);
        let outcome = self
            .store
            .leases()
            .acquire(targets.clone(), &*owner, duration);
        targets.sort();
        targets.dedup();
        match outcome {
            Ok(lease) => {
                let free = |target| plain.excluding(target).is_empty();
                assert!(targets.iter().all(free));
                let ends = plain.now + nanos;
                plain.leases.push(PlainLease {
                    targets,
                    owner,
                    ends,
                });
                assert_eq!(lease.fencing_token().get(), plain.leases.len() as u64);
            }
            Err(LeaseError::Conflict(holder)) => plain.confirm(&holder, &targets),
            Err(LeaseError::NoDuration) => assert_eq!(nanos, 0),
            Err(other) => panic!("{other}"),
        }
    }

    fn renew(&mut self, token: u64, nanos: u64) {
        let lease = self.store.leases().by_token(token.into());
        let outcome = lease.map(|mut lease| lease.renew(Duration::from_nanos(nanos)));
        let now = self.plain.now;
        let plain = &mut self.plain.leases[token as usize - 1];
        assert_eq!(outcome.is_some(), plain.ends > now);
        match outcome {
            Some(Ok(())) => plain.ends = now + nanos,
            Some(Err(error)) => assert_eq!((error, nanos), (LeaseError::NoDuration, 0)),
            None => {}
        }
    }

    fn release(&mut self, token: u64) {
        if let Some(lease) = self.store.leases().by_token(token.into()) {
            lease.release().unwrap();
            self.plain.leases[token as usize - 1].ends = 0;
        }
    }

    /// Requires a lease, lets time pass, commits.
    fn commit(&mut self, token: u64, nodes: usize, pass: u64) {
        let lasts = |pair: &Self| pair.plain.lease(token).ends > pair.plain.now;
        let mut transaction = self.store.begin("writer").unwrap();
        let required = transaction.require_token(token.into());
        assert_eq!(required.is_ok(), lasts(self));
        for _ in 0..nodes {
            transaction.create(NodeSpec::new("entry")).unwrap();
        }
        self.pass(pass);
        if required.is_ok() {
            match transaction.commit() {
                Ok(_) => assert!(lasts(self)),
                Err(CommitError::LeaseLost(_)) => assert!(!lasts(self)),
                Err(other) => panic!("{other}"),
            }
        }
    }

    /// Acts on one of the last twenty tokens, many of them valid.
    fn pick(&mut self, which: Index, then: impl FnOnce(&mut Self, u64)) {
        let count = self.plain.leases.len();
        if count > 0 {
            then(self, (count - which.index(count.min(20))) as u64);
        }
    }

    fn compare(&self) {
        let Self { store, plain, .. } = self;
        let told: Vec<(u64, Vec<LeaseTarget>)> = store
            .leases()
            .list()
            .into_iter()
            .map(|lease| (lease.fencing_token.get(), lease.targets.to_vec()))
            .collect();
        let expected: Vec<_> = plain
            .live()
            .map(|(token, lease)| (token, lease.targets.clone()))
            .collect();
        assert_eq!(told, expected);
        for wanted in (0..14).map(target) {
            match store.leases().holder(wanted.clone()) {
                Some(holder) => plain.confirm(&holder, &[wanted]),
                None => assert!(plain.excluding(&wanted).is_empty(), "{wanted}"),
            }
        }
        for (token, lease) in plain.live() {
            let found = store.leases().by_token(FencingToken::from(token)).unwrap();
            assert_eq!(
                found.remaining(),
                Duration::from_nanos(lease.ends - plain.now)
            );
        }
    }
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn lease_03_random_leases_agree_with_a_plain_reference(steps in steps()) {
        let (store, clock) = timed();
        let mut pair = Pair { store, clock, plain: Plain::default() };
        let mut snapshots = Vec::new();
        for (nth, step) in steps.into_iter().enumerate() {
            pair.step(step);
            // Live snapshots make commits and new leases copy the document.
            if nth % 7 == 0 {
                snapshots.push(pair.store.snapshot());
            }
        }
    }
}
