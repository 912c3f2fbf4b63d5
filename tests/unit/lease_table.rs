use std::time::Duration;

use super::*;
use crate::time::MonotonicTime;

/// A moment this long after the beginning.
fn at(seconds: u64) -> Expiry {
    Expiry::after(MonotonicTime::default(), Duration::from_secs(seconds)).unwrap()
}

/// Checks that the table has each target and each end of its holdings, and nothing else.
fn check(leases: &LeaseTable) {
    let Some(table) = &leases.table else {
        return;
    };
    let mut targets = 0;
    for (token, holding) in &table.holdings {
        assert!(table.ends.contains(&(holding.expiry.at, *token)));
        for target in holding.targets.iter() {
            let on = match target {
                LeaseTarget::Document => table.whole,
                LeaseTarget::Node(id) => table.nodes.get(id).copied(),
            };
            assert_eq!(on, Some(*token));
            targets += 1;
        }
    }
    assert_eq!(
        table.nodes.len() + usize::from(table.whole.is_some()),
        targets
    );
    assert_eq!(table.ends.len(), table.holdings.len());
}

/// Every second one is leased, on three nodes, some of which were leased before; some are renewed,
/// some released, and most expire.
#[test]
fn ended_leases_keep_no_memory() {
    let mut leases = LeaseTable::default();
    let lasting = LeaseTargets::from("lasting");
    let owner = OwnerId::default();
    let granted = leases.grant(lasting, owner.clone(), at(1 << 20), at(0).at);
    let lasting = granted.0.token;
    for second in 0..500 {
        let now = at(second).at;
        let targets: LeaseTargets = (0..3)
            .map(|nth| format!("n{}", (second * 7 + nth * 11) % 40))
            .collect();
        if leases.in_the_way(&targets, now).is_some() {
            continue;
        }
        let granted = leases.grant(targets, owner.clone(), at(second + 1 + second % 5), now);
        let token = granted.0.token;
        check(&leases);
        match second % 4 {
            0 => leases.release(token),
            1 => drop(leases.renew(token, at(second + 9), now)),
            _ => {}
        }
        check(&leases);
    }
    assert!(leases.iter().count() < 40, "what expires is cleared away");
    leases.release(lasting);
    let granted = leases.grant("last".into(), owner, at(1001), at(1000).at);
    assert_eq!(leases.iter().count(), 1);
    leases.release(granted.0.token);
    assert!(leases.table.is_none(), "nothing is allocated for no lease");
}

#[test]
fn lease_01_a_million_expired_leases_keep_nothing() {
    const MANY: usize = if cfg!(debug_assertions) {
        50_000
    } else {
        1_000_000
    };
    let mut leases = LeaseTable::default();
    let owner = OwnerId::default();
    let grant = |leases: &mut LeaseTable, on: String, until, now| {
        let targets = LeaseTargets::from(on.as_str());
        leases
            .grant(targets, owner.clone(), at(until), at(now).at)
            .0
            .token
    };
    for nth in 0..MANY {
        grant(&mut leases, format!("n{nth}"), 1, 0);
    }
    assert_eq!(leases.iter().count(), MANY);
    grant(&mut leases, "ann".to_owned(), 9, 1);
    assert_eq!(leases.iter().count(), 1, "everything went at once");

    // With a valid lease present, each new lease removes a part, so none takes long.
    for nth in 0..MANY {
        grant(&mut leases, format!("n{nth}"), 2, 1);
    }
    let mut clear_away = |rounds: usize| {
        for _ in 0..rounds {
            let token = grant(&mut leases, "bob".to_owned(), 3, 2);
            leases.release(token);
        }
        leases.iter().count()
    };
    assert!(clear_away(MANY / 64) >= MANY / 3, "not too many at once");
    assert_eq!(clear_away(MANY / 64 + 1), 1, "and not too few");
}
