//! The faults that the tests seed: each changes one rule of the model.

/// One wrong rule. Most are mistakes that other programs have made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A renewal matches the owner's name, which a restarted or a second process can share.
    RenewByName,
    /// A renewal writes the row whatever it finds: `INSERT … ON CONFLICT DO UPDATE`.
    UpsertOnRenewal,
    /// A hand-over deletes the lease row, and the next acquisition begins with epoch 1.
    ResetEpoch,
    /// An append checks its lease in an earlier statement than it inserts, so it has no lock of it.
    AppendWithoutLock,
    /// The version is no primary key of the log.
    NoPrimaryKey,
    /// The outcome of a request is written by a later statement than its commit.
    ResultOutside,
    /// An append writes the outcome of a request without a look at the one it has.
    OutcomeOverwritten,
    /// A number is drawn from a sequence, so it becomes visible later than it is drawn.
    NumberFromSequence,
    /// A candidate decides by its own clock, which is wrong, that the lease has expired.
    ExpiryByOwnClock,
    /// The window of an owner begins when the reply arrives.
    AnchorAtEnd,
    /// An owner acknowledges without a look at its window.
    NoWindowCheck,
    /// An append without a reply is taken for lost, and sent again under the next version.
    GuessedLost,
    /// An append without a reply is taken for done.
    GuessedDone,
    /// An append that was refused is taken for one that changed nothing, also if it was sent twice.
    FencedWithoutLookup,
    /// An append that met an expired lease is taken for one that changed nothing, although no other
    /// owner has begun and a copy of it may wait for the lock of the row.
    FencedByExpiry,
    /// The epoch has no timeline, and an owner continues on a standby that was promoted.
    TimelineIgnored,
    /// A promoted standby gives the lease away at once, and does not wait until it has expired.
    FailoverEndsLease,
    /// A caller requests the batch of an unknown commit without a look.
    RepeatedAtOnce,
    /// A caller requests the batch of an unknown commit that is not in the log, although the next
    /// term has not begun.
    RepeatedBeforeNextTerm,
    /// A follower applies the newest row, which a notification names, and not its next.
    NewestRowApplied,
}
