//! Statistics of waiting and running batches (LOCK 8, 9, 14).

use std::time::Duration;

use doclock::{
    StoreOptions, TransactionManager,
    lock::{AcquireOptions, CancelToken, LockError, QueueEntry},
    transaction::TransactionError,
};

use super::{Form, Scene, act, any_thread, in_both_forms, pause};
use crate::until_waiting;

in_both_forms!(
    lock_08_the_queue_of_batches_grows_and_shrinks_and_is_listed,
    lock_09_every_batch_is_counted_with_its_true_wait_and_hold,
    lock_09_a_reset_while_a_batch_runs_leaves_finite_metrics,
    lock_09_each_outcome_of_a_batch_is_counted_under_its_name,
    lock_14_a_bound_rejects_a_batch_at_once,
);

const MS: Duration = Duration::from_millis(1);

fn lock_08_the_queue_of_batches_grows_and_shrinks_and_is_listed(form: Form) {
    let scene = Scene::new(form);
    assert_eq!(scene.store.queue_length(), 0);
    let (pausing, inside) = pause();
    let ben = scene.list("ben", pausing.clone());
    scene.clock.advance(30 * MS);
    let cem = scene.list("cem", pausing);
    scene.clock.advance(12 * MS);

    let queue = scene.store.queue_info();
    let row = |entry: &QueueEntry| (entry.owner_id.to_string(), entry.wait_time, entry.position);
    assert_eq!(row(&queue[0]), ("ben".into(), 42 * MS, 1));
    assert_eq!(row(&queue[1]), ("cem".into(), 12 * MS, 2));
    assert!(queue[0].lock_id < queue[1].lock_id);
    let label = queue[0].label.as_deref();
    assert_eq!(label, Some(act(|_| ()).name()), "the first operation");

    scene.first.resume();
    for (entry, list) in queue.iter().zip([ben, cem]) {
        assert_eq!(inside.entered(), scene.runner(list.thread().id()));
        assert_eq!(scene.store.queue_length(), 2 - entry.position);
        let holder = scene.store.current_lock().unwrap();
        assert_eq!(holder.lock_id, entry.lock_id);
        inside.resume();
        list.join().unwrap().unwrap();
    }
    assert_eq!(scene.back().queue_length(), 0);
}

fn lock_09_every_batch_is_counted_with_its_true_wait_and_hold(form: Form) {
    const LISTS: u32 = 99;
    let scene = Scene::new(form);
    // Batch n stays in its operation for n ms, so it delays each later one by as long.
    let lists: Vec<_> = (1..=LISTS)
        .map(|nth| {
            let clock = scene.clock.clone();
            scene.list("w", act(move |_| clock.advance(nth * MS)))
        })
        .collect();
    let store = scene.go_on();
    lists
        .into_iter()
        .for_each(|list| drop(list.join().unwrap().unwrap()));

    let stats = store.lock_stats();
    assert_eq!((stats.total_acquisitions, stats.total_releases), (100, 100));
    assert_eq!((stats.wait.count, stats.hold.count), (100, 100));
    let hold: u32 = (1..=LISTS).sum();
    assert_eq!(stats.hold.mean, hold * MS / 100);
    let wait: u32 = (1..=LISTS).map(|nth| nth * (LISTS - nth)).sum();
    assert_eq!(stats.wait.mean, wait * MS / 100);
    assert_eq!(stats.average_wait_time, stats.wait.mean);
    assert_eq!(stats.hold.max, LISTS * MS);
    assert_eq!(stats.wait.max, (1..LISTS).sum::<u32>() * MS);
    let near = |found: Duration, ms: f64| (found.as_secs_f64() * 1e3 / ms - 1.0).abs() < 0.01;
    // The hundred holds are of 0..=99 ms.
    let percentiles = [stats.hold.p50, stats.hold.p95, stats.hold.p99];
    for (found, ms) in percentiles.into_iter().zip([49.0, 94.0, 98.0]) {
        assert!(near(found, ms), "{found:?} for {ms} ms");
    }
    assert!(near(stats.hold.p999, 99.0), "{:?}", stats.hold.p999);
}

fn lock_09_a_reset_while_a_batch_runs_leaves_finite_metrics(form: Form) {
    let scene = Scene::new(form);
    let (pausing, inside) = pause();
    let list = scene.list("ann", pausing);
    let behind = scene.list("ben", act(|_| ()));
    scene.first.resume();
    inside.entered();
    scene.clock.advance(7 * MS);
    scene.store.reset_lock_stats();
    let stats = scene.store.lock_stats();
    assert_eq!((stats.total_acquisitions, stats.wait.count), (0, 0));
    assert_eq!((stats.wait.mean, stats.hold.mean), Default::default());
    assert_eq!(stats.current_lock.unwrap().held_for, 7 * MS);
    scene.clock.advance(3 * MS);
    inside.resume();
    list.join().unwrap().unwrap();
    behind.join().unwrap().unwrap();
    let stats = scene.back().lock_stats();
    assert_eq!((stats.total_acquisitions, stats.total_releases), (1, 2));
    assert_eq!((stats.wait.count, stats.wait.mean), (1, 10 * MS));
    assert_eq!((stats.hold.max, stats.hold.mean), (10 * MS, 5 * MS));
}

fn lock_09_each_outcome_of_a_batch_is_counted_under_its_name(form: Form) {
    let options = StoreOptions::new().hold_limit(50 * MS).queue_bound(2);
    let scene = Scene::with(form, options);
    let token = CancelToken::new();
    let join = |options: AcquireOptions| {
        scene.join(move |store| {
            TransactionManager::new(store.clone())
                .transaction(act(|_| ()))
                .options(options)
                .commit()
        })
    };
    let timed = join(any_thread().timeout(10 * MS));
    let cancelled = join(any_thread().no_timeout().cancel_token(&token));
    let manager = TransactionManager::new(scene.store.clone());
    let rejected = manager
        .transaction(act(|_| ()))
        .options(any_thread())
        .commit()
        .unwrap_err();
    assert!(matches!(
        rejected,
        TransactionError::Lock(LockError::QueueFull { .. })
    ));
    token.cancel();
    scene.clock.advance(10 * MS);
    until_waiting(&scene.store, 0);
    timed.join().unwrap().unwrap_err();
    cancelled.join().unwrap().unwrap_err();

    let asking = {
        let manager = manager.clone();
        act(move |_| {
            drop(
                manager
                    .transaction(act(|_| ()))
                    .options(any_thread())
                    .commit()
                    .unwrap_err(),
            )
        })
    };
    let refused = scene.list("refused", asking);
    // Revokes the holder.
    scene.clock.advance(40 * MS);
    refused.join().unwrap().unwrap();
    scene.first.resume();
    let revoked = scene.holder.join().unwrap().unwrap_err();
    assert!(matches!(revoked, TransactionError::Commit(_)), "{revoked}");
    let stats = scene.store.lock_stats();
    let grants = [stats.total_acquisitions, stats.total_releases];
    assert_eq!((grants, stats.total_revocations), ([2, 1], 1));
    let others = [
        stats.total_timeouts,
        stats.total_cancellations,
        stats.total_rejections,
        stats.total_refusals,
    ];
    assert_eq!(others, [1; 4]);
    assert_eq!(stats.hold.count, 2);
}

fn lock_14_a_bound_rejects_a_batch_at_once(form: Form) {
    let scene = Scene::with(form, StoreOptions::new().queue_bound(2));
    let lists = [0; 2].map(|_| scene.list("w", act(|_| ())));
    let manager = TransactionManager::for_owner(scene.store.clone(), "third");
    let rejected = |options: AcquireOptions| {
        let ran = act(|_| panic!("it was rejected"));
        match manager
            .transaction(ran)
            .options(options)
            .commit()
            .unwrap_err()
        {
            TransactionError::Lock(LockError::QueueFull { bound, waiting, .. }) => (bound, waiting),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(rejected(any_thread()), (2, 2));
    let smaller = any_thread().queue_bound(1);
    assert_eq!(rejected(smaller), (1, 2));
    let store = scene.go_on();
    lists
        .into_iter()
        .for_each(|list| drop(list.join().unwrap().unwrap()));
    manager
        .transaction(act(|_| ()))
        .options(any_thread())
        .commit()
        .unwrap();
    assert_eq!(store.lock_stats().total_rejections, 2);
}
