//! The binary form of commits and blocks.

use std::sync::Arc;

use smol_str::SmolStr;

use super::words::{self, WORDS};
use super::{Numbers, Read, Record, RecordReader, RecordWriter, Written, used};
use crate::document::{Position, SharedList};
use crate::id::{FencingToken, OwnerId, TransactionId};
use crate::store::TransactionResult;
use crate::store::durable::format::LogBlock;
use crate::store::log::HistoryStep;
use crate::store::result::ExecutedOperation;

impl Record for LogBlock {
    fn write<'a>(&'a self, to: &mut RecordWriter<'a>) -> Written {
        to.list(2)?;
        let mut steps = self.steps.iter().peekable();
        to.each(self.commits.len(), &self.commits, |to, commit| {
            let step = steps.next_if(|(version, _)| *version == commit.version);
            write_commit(to, commit, step)
        })?;
        to.each(self.notes.len(), &self.notes, |to, note| {
            to.note_change(note, &self.commits)
        })
    }

    fn read(from: &mut RecordReader<'_>) -> Read<Self> {
        from.fields(2..=2)?;
        let mut steps = Vec::new();
        let commits = from.each(|from| {
            let (commit, step) = read_commit(from)?;
            steps.extend(step);
            Ok(Arc::new(commit))
        })?;
        let notes = from.each(|from| from.note_change(&commits))?;
        Ok(Self {
            commits,
            steps,
            notes,
        })
    }
}

/// The commit changed nothing.
const UNCHANGED: u64 = 1;
/// The result is that of an earlier transaction with the same key.
const REPEATED: u64 = 2;

/// Writes a commit, and what it was in the history of its editor.
pub(super) fn write_commit<'a>(
    to: &mut RecordWriter<'a>,
    commit: &'a TransactionResult,
    step: Option<&'a HistoryStep>,
) -> Written {
    let TransactionResult {
        transaction_id: TransactionId { session, number },
        version,
        changed,
        owner,
        fencing_token,
        idempotency_key,
        operations,
        changes,
        selection_before,
        selection_after,
        first_place,
        repeated,
        // Those of a commit come later.
        hook_failures: _,
    } = commit;
    let flags = u64::from(!changed) * UNCHANGED + u64::from(*repeated) * REPEATED;
    let fields = used(&[
        true,
        true,
        true,
        true,
        true,
        true,
        !operations.is_empty(),
        !changes.is_empty(),
        selection_before.is_some(),
        selection_after.is_some(),
        step.is_some(),
        idempotency_key.is_some(),
        flags != 0,
        first_place.is_some(),
    ]);
    to.list(fields)?;
    let last = to.last;
    to.last = Numbers {
        session: *session,
        number: *number,
        version: *version,
        epoch: fencing_token.epoch(),
        counter: fencing_token.counter(),
    };
    match *session == last.session {
        true => to.null()?,
        false => to.number((*session).into())?,
    }
    to.number(number.wrapping_sub(last.number))?;
    to.number(version.wrapping_sub(last.version))?;
    to.name(owner.as_str())?;
    to.number(to.last.epoch.wrapping_sub(last.epoch))?;
    to.number(to.last.counter.wrapping_sub(last.counter))?;
    if fields > 6 {
        to.value(operations)?;
    }
    if fields > 7 {
        to.value(changes)?;
    }
    if fields > 8 {
        to.optional(selection_before.as_ref(), RecordWriter::value)?;
    }
    if fields > 9 {
        to.optional(selection_after.as_ref(), RecordWriter::value)?;
    }
    if fields > 10 {
        to.optional(step, |to, (_, undone)| {
            to.each(undone.len(), undone, |to, undone| {
                to.number(version.wrapping_sub(*undone))
            })
        })?;
    }
    if fields > 11 {
        to.optional(idempotency_key.as_deref(), RecordWriter::name)?;
    }
    if fields > 12 {
        to.number(flags)?;
    }
    first_place.iter().try_for_each(|place| {
        to.list(2)?;
        to.id(&place.node_id)?;
        to.number(place.offset as u64)
    })
}

/// Reads a commit, and what it was in the history of its editor.
pub(super) fn read_commit(
    from: &mut RecordReader<'_>,
) -> Read<(TransactionResult, Option<HistoryStep>)> {
    let fields = from.fields(6..=14)?;
    let last = from.last;
    let session = from.optional(RecordReader::session)?;
    let session = session.unwrap_or(last.session);
    let number = last.number.wrapping_add(from.number()?);
    let version = last.version.wrapping_add(from.number()?);
    let owner = from.name()?;
    let epoch = last.epoch.wrapping_add(from.number()?);
    let counter = last.counter.wrapping_add(from.number()?);
    let Some(fencing_token) = FencingToken::of_parts(epoch, counter) else {
        let message = format_args!("no token has epoch {epoch} and number {counter}");
        return Err(from.error(message));
    };
    from.last = Numbers {
        session,
        number,
        version,
        epoch,
        counter,
    };
    let operations = from.given(fields > 6, RecordReader::value)?;
    let changes = from.given(fields > 7, RecordReader::value)?;
    let selection_before = from.given(fields > 8, |from| from.optional(RecordReader::value))?;
    let selection_after = from.given(fields > 9, |from| from.optional(RecordReader::value))?;
    let undone = from.given(fields > 10, |from| {
        from.optional(|from| from.each(|from| Ok(version.wrapping_sub(from.number()?))))
    })?;
    let idempotency_key = from.given(fields > 11, |from| from.optional(RecordReader::name))?;
    let flags = from.given(fields > 12, RecordReader::number)?;
    let first_place = from.given(fields > 13, |from| {
        from.fields(2..=2)?;
        Ok(Some(Position::new(from.id()?, from.index()?).into()))
    })?;
    if flags > UNCHANGED + REPEATED {
        return Err(from.error(format_args!("a commit has the flags {flags}")));
    }
    let commit = TransactionResult {
        transaction_id: TransactionId { session, number },
        version,
        changed: flags & UNCHANGED == 0,
        owner: OwnerId::from(owner),
        fencing_token,
        idempotency_key,
        operations,
        changes,
        selection_before,
        selection_after,
        first_place,
        repeated: flags & REPEATED != 0,
        hook_failures: SharedList::default(),
    };
    Ok((commit, undone.map(|undone| (version, undone.into()))))
}

impl Record for ExecutedOperation {
    fn write<'a>(&'a self, to: &mut RecordWriter<'a>) -> Written {
        let Self {
            name,
            node_id,
            created,
        } = self;
        let fields = used(&[true, node_id.is_some(), !created.is_empty()]);
        to.list(fields)?;
        match words::number(name) {
            Some(number) => to.number(number as u64)?,
            None => to.text(name)?,
        }
        if fields > 1 {
            to.optional(node_id.as_ref(), RecordWriter::id)?;
        }
        if fields > 2 {
            to.each(created.len(), created, RecordWriter::id)?;
        }
        Ok(())
    }

    fn read(from: &mut RecordReader<'_>) -> Read<Self> {
        let fields = from.fields(1..=3)?;
        let name = if from.is_text()? {
            SmolStr::new(from.text()?)
        } else {
            let number = from.index()?;
            let Some(word) = WORDS.get(number) else {
                return Err(from.error(format_args!("no operation has number {number}")));
            };
            SmolStr::new_static(word)
        };
        Ok(Self {
            name,
            node_id: from.given(fields > 1, |from| from.optional(RecordReader::id))?,
            created: from.given(fields > 2, |from| from.each(RecordReader::id))?,
        })
    }
}
