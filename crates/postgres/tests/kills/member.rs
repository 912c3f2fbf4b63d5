//! A process that is a member of a document, and edits it as the owner and as a follower.

use std::thread;
use std::time::Duration;

use doclock_postgres::{
    Member, MemberEvent, MemberOptions, OwnerEvent, Postgres, RequestError, RequestOptions,
    RunnerOptions, TermOptions,
};

use crate::child::{Child, TERM, THREADS, durable_options};
use crate::dice::Dice;
use crate::lists::{self, KEYS};
use crate::report::{End, Report, Step, now, report};

impl Child {
    /// Joins, and edits until the end.
    pub(crate) fn take_part(&self, server: &Postgres) {
        let name = format!("process {}", self.number);
        let poll = Duration::from_millis(10);
        let options = MemberOptions::new(TermOptions::new(&*name).term(TERM))
            .durable(durable_options())
            .poll(poll..=5 * poll)
            .requests(RunnerOptions::new().longest_poll(poll));
        let member = loop {
            match Member::join(server, &self.document, options.clone()) {
                Ok(member) => break member,
                Err(_) if self.ends() => return,
                Err(_) => thread::sleep(poll),
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| self.report_events(&member));
            for thread in 0..THREADS {
                let (member, name) = (&member, &*name);
                let mut dice = Dice(self.number * 8 + thread as u64);
                scope.spawn(move || {
                    while !self.ends() {
                        if lists::exist(&member.snapshot().snapshot) {
                            self.edit(member, name, &mut dice);
                        }
                        // A load that leaves the machine time for the other documents.
                        thread::sleep(Duration::from_micros(dice.below(8_000) as u64));
                    }
                });
            }
        });
        // A call of another process may need this one as the next owner, and not for its end.
        let _ = member.leave();
    }

    fn report_events(&self, member: &Member) {
        while !self.ends() {
            let event = member.events().recv_timeout(Duration::from_millis(20));
            match event {
                Ok(MemberEvent::Owner(OwnerEvent::Acquired { epoch, .. })) => {
                    // Requests may have run since it opened the store, so not with a version.
                    report(&Report::Owns {
                        epoch,
                        version: None,
                        followed: true,
                    });
                    create_lists(member);
                }
                Ok(MemberEvent::Owner(OwnerEvent::Lost { epoch, reason, .. })) => {
                    let reason = reason.to_string();
                    report(&Report::Lost { epoch, reason });
                }
                // A takeover may fail, because a term can end before its document is open.
                Ok(event @ MemberEvent::FollowFailed { .. }) => {
                    let what = serde_json::to_string(&event).unwrap();
                    report(&Report::Wrong { what });
                }
                _ => {}
            }
        }
    }

    fn edit(&self, member: &Member, name: &str, dice: &mut Dice) {
        let (nth, reads) = (self.next(), dice.one_in(2));
        let mut ops: Vec<Step> = (0..=dice.below(3))
            .map(|_| {
                let key = dice.below(KEYS as usize) as u32;
                match reads {
                    true => Step::Read(key, Vec::new()),
                    false => Step::Append(key, self.value()),
                }
            })
            .collect();
        // The epoch, if its own store runs the batch.
        let shown = member.snapshot();
        let owner = shown.owner.filter(|_| shown.lag.is_zero());
        report(&Report::Began {
            nth,
            epoch: owner.map_or(0, |owner| owner.epoch),
            at: now(),
            ops: ops.clone(),
        });
        let end = match reads {
            true => read(member, name, &mut ops),
            false => {
                let key = format!("{name} {nth}");
                let mut options = RequestOptions::new(name).key(key);
                if dice.one_in(8) {
                    let timeout = 1 + dice.below(60) as u64;
                    options = options.timeout(Duration::from_millis(timeout));
                }
                append(member, &ops, options)
            }
        };
        report(&Report::Ended {
            nth,
            at: now(),
            ops,
            end,
        });
    }
}

/// The first owner makes the lists.
fn create_lists(member: &Member) {
    if let Some(store) = member.store()
        && !lists::exist(&store.snapshot())
        && let Ok(mut transaction) = store.begin("setup")
    {
        lists::create(&mut transaction);
        // If that fails, the next owner does.
        let _ = transaction.commit();
    }
}

fn read(member: &Member, name: &str, ops: &mut [Step]) -> End {
    let at = now();
    let shown = member.snapshot();
    lists::observe(&shown.snapshot, ops);
    // After its term, an owner shows its durable version until it follows.
    let own = shown.owner.filter(|owner| owner.owner == name);
    let lag = u64::try_from(shown.lag.as_nanos()).unwrap_or(u64::MAX);
    End::Showed {
        version: shown.snapshot.version(),
        epoch: own.map(|owner| owner.epoch),
        at,
        lag,
    }
}

fn append(member: &Member, ops: &[Step], options: RequestOptions) -> End {
    match member.execute_with(lists::batch(ops), options) {
        Ok(result) => End::Committed {
            version: result.version,
            token: result.fencing_token.get(),
            token_epoch: result.fencing_token.epoch(),
        },
        Err(RequestError::Expired { .. }) => End::Refused,
        Err(
            RequestError::Server(_) | RequestError::Timeout { .. } | RequestError::Unknown { .. },
        ) => End::Unknown,
        Err(error) => {
            let what = error.to_string();
            report(&Report::Wrong { what });
            End::Unknown
        }
    }
}
