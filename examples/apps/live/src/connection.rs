//! One tab: reads its requests, runs one after the other, and writes what the hub queues for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::extract::ws::{Message, Utf8Bytes, WebSocket};
use doclock::lock::{AcquireOptions, LockError};
use doclock::transaction::{OperationError, TransactionError, TransactionResult};
use doclock::{CommitError, Editor, codes::CodedError, dsl::*, history::UndoError};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::task::{consume_budget, spawn_blocking};
use tokio::time::timeout;

use crate::document::{self, EditRefused};
use crate::hub::{Close, Hub, Known, Seat, key_of, text};
use crate::protocol::{FromTab, ToTab};

/// The most bytes of a message of a tab.
pub const MAX_MESSAGE: usize = 1 << 20;
/// The most messages of a tab in a second.
const MAX_RATE: u32 = 300;
/// The most bytes of the id of a session, and of a key.
const MAX_ID: usize = 64;
/// How long a tab may take to send its `hello`, and to receive a close frame.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a request may still run when the server ends.
const RESULT: Duration = Duration::from_secs(1);

type Reader = SplitStream<WebSocket>;
type Writer = SplitSink<WebSocket, Message>;

/// Why the server ends a connection. A tab at fault gets an error before the close frame.
struct End {
    close: Close,
    error: Option<String>,
}

impl From<Close> for End {
    fn from(close: Close) -> Self {
        Self { close, error: None }
    }
}

impl End {
    fn bad(error: impl ToString) -> Self {
        Self {
            close: Close::BAD_MESSAGE,
            error: Some(error.to_string()),
        }
    }
}

/// Serves a tab until one of the two ends closes the connection.
pub async fn serve(hub: Arc<Hub>, socket: WebSocket) {
    let (mut writer, reader) = socket.split();
    let mut reader = Requests {
        reader,
        since: Instant::now(),
        count: 0,
    };
    let end = match timeout(PATIENCE, hello(&hub, &mut reader)).await {
        Ok(Ok((tab, mut seat))) => {
            let end = talk(&hub, &tab, &mut seat, &mut reader, &mut writer).await;
            hub.leave(&tab, &seat);
            end
        }
        Ok(Err(end)) => end,
        Err(_) => Close::NO_HELLO.into(),
    };
    // A tab that does not read gets no close frame.
    let _ = timeout(PATIENCE, close(&mut writer, end)).await;
}

/// Closes the connection of a tab that cannot be served.
pub async fn refuse(socket: WebSocket, why: Close) {
    let _ = timeout(PATIENCE, close(&mut socket.split().0, why.into())).await;
}

async fn hello(hub: &Arc<Hub>, reader: &mut Requests) -> Result<(String, Seat), End> {
    let FromTab::Hello {
        session,
        version,
        timeline,
        key,
    } = reader.next().await?
    else {
        return Err(End::bad("the first message is not a hello"));
    };
    if session.len() < 16 || session.len() > MAX_ID {
        return Err(End::bad(format!("a session id has 16 to {MAX_ID} bytes")));
    }
    // The name is public, and does not give the session away.
    let digest = Sha256::digest(session);
    let tab: String = digest[..6]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let (hub, name) = (Arc::clone(hub), tab.clone());
    let known = version.map(|version| Known { version, timeline });
    let seat = spawn_blocking(move || hub.join(&name, known, key.as_deref())).await;
    Ok((tab, seat.map_err(|_| Close::UNKNOWN)?))
}

/// Reads requests and writes messages, until one of the two ends.
async fn talk(
    hub: &Hub,
    tab: &str,
    seat: &mut Seat,
    reader: &mut Requests,
    writer: &mut Writer,
) -> End {
    let (answers, mut answered) = mpsc::channel(1);
    let Seat {
        editor,
        queue,
        close,
        ..
    } = seat;
    let is_running = AtomicBool::new(false);
    let reading = async {
        loop {
            let answer = match reader.next().await? {
                FromTab::Hello { .. } => return Err(End::bad("a second hello")),
                FromTab::Caret {
                    version,
                    anchor,
                    head,
                } => {
                    hub.move_caret(tab, version, anchor, head);
                    continue;
                }
                request => {
                    is_running.store(true, Ordering::Relaxed);
                    let answer = run(editor, request).await;
                    is_running.store(false, Ordering::Relaxed);
                    answer?
                }
            };
            if let Some(answer) = answer
                && answers.send(answer).await.is_err()
            {
                return Err::<(), End>(Close::SHUT_DOWN.into());
            }
        }
    };
    let writing = async {
        loop {
            let message = tokio::select! {
                biased;
                Some(message) = queue.next() => message,
                Some(answer) = answered.recv() => answer,
                else => break,
            };
            if writer.send(Message::Text(message)).await.is_err() {
                break;
            }
        }
    };
    tokio::pin!(reading);
    tokio::select! {
        biased;
        // A request without a result says more than the end of the server, its consequence.
        Err(end) = &mut reading => end,
        why = close => {
            let result = match is_running.load(Ordering::Relaxed) {
                true => timeout(RESULT, reading).await.ok(),
                false => None,
            };
            match result {
                Some(Err(end)) => end,
                _ => why.unwrap_or(Close::SHUT_DOWN).into(),
            }
        }
        () = writing => Close::SHUT_DOWN.into(),
    }
}

async fn close(writer: &mut Writer, end: End) {
    if let Some(message) = end.error {
        let error = ToTab::Error {
            code: "badMessage",
            message: &message,
        };
        if writer.send(Message::Text(text(&error))).await.is_err() {
            return;
        }
    }
    let frame = end.close.frame();
    let _ = writer.send(Message::Close(Some(frame))).await;
}

/// The messages of a tab, counted.
struct Requests {
    reader: Reader,
    since: Instant,
    count: u32,
}

impl Requests {
    async fn next(&mut self) -> Result<FromTab, End> {
        loop {
            let message = match self.reader.next().await {
                Some(Ok(message)) => message,
                Some(Err(error)) if is_too_big(&error) => return Err(Close::TOO_BIG.into()),
                _ => return Err(Close::SHUT_DOWN.into()),
            };
            // Messages that came together must not keep the thread from other tabs.
            consume_budget().await;
            self.count += 1;
            if self.since.elapsed() > Duration::from_secs(1) {
                (self.since, self.count) = (Instant::now(), 1);
            }
            if self.count > MAX_RATE {
                return Err(Close::TOO_MANY.into());
            }
            match message {
                Message::Text(json) => return serde_json::from_str(&json).map_err(End::bad),
                Message::Binary(_) => return Err(End::bad("a message is a JSON text")),
                Message::Ping(_) | Message::Pong(_) => {}
                Message::Close(_) => return Err(Close::SHUT_DOWN.into()),
            }
        }
    }
}

pub fn is_too_big(error: &axum::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if error.to_string().starts_with("Space limit exceeded") {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Runs a request. Returns the answer, unless the commit itself is the answer.
async fn run(editor: &Arc<Editor>, request: FromTab) -> Result<Option<Utf8Bytes>, End> {
    let key = match &request {
        FromTab::Edit { key, .. } | FromTab::Undo { key } | FromTab::Redo { key } => key.clone(),
        FromTab::Hello { .. } | FromTab::Caret { .. } => return Ok(None),
    };
    if key.is_empty() || key.len() > MAX_ID {
        return Err(End::bad(format!("a key has 1 to {MAX_ID} bytes")));
    }
    match commit(Arc::clone(editor), key_of(editor, &key), request).await? {
        // Its commit is sent to all tabs, and to this one as the answer.
        Ok(result) if result.changed && !result.repeated => Ok(None),
        Ok(TransactionResult {
            version, changed, ..
        }) => Ok(Some(text(&ToTab::Done {
            key: &key,
            version,
            changed,
        }))),
        Err(refused) => {
            let Refused {
                code,
                message,
                retry,
            } = &refused;
            Ok(Some(text(&ToTab::Refused {
                key: &key,
                code,
                message,
                retry: *retry,
            })))
        }
    }
}

/// Calls the store, and returns when the commit is on the disk.
///
/// The call waits for the lock and for the disk in a task of its own, which goes on if the tab
/// vanishes meanwhile.
async fn commit(
    editor: Arc<Editor>,
    key: String,
    request: FromTab,
) -> Result<Result<TransactionResult, Refused>, End> {
    let call = async move {
        match request {
            FromTab::Edit {
                base,
                continues,
                changes,
                ..
            } => {
                let store = editor.store().clone();
                let code =
                    op(move |on| document::edit(&store, on, base, continues, changes.clone()));
                let options = AcquireOptions::new().label("edit").any_thread();
                let edit = transaction(&editor, code).idempotent(key).options(options);
                edit.await.map_err(Refused::edit)
            }
            FromTab::Undo { .. } => editor.undo().idempotent(key).await.map_err(Refused::undo),
            _ => editor.redo().idempotent(key).await.map_err(Refused::undo),
        }
    };
    // The result of a call that panicked is unknown, and so is one that is not on the disk.
    match tokio::spawn(call).await {
        Ok(Ok(result)) => Ok(Ok(result)),
        Ok(Err(Some(refused))) => Ok(Err(refused)),
        Ok(Err(None)) | Err(_) => Err(Close::UNKNOWN.into()),
    }
}

/// Why a request changed nothing.
struct Refused {
    code: &'static str,
    message: String,
    retry: bool,
}

/// Whether the store has ended. Then the tab connects again, and asks what has become of the
/// request.
fn has_ended(error: &CommitError) -> bool {
    matches!(
        error,
        CommitError::Unknown { .. }
            | CommitError::NotStored { .. }
            | CommitError::Fenced { .. }
            | CommitError::ReadOnly { .. }
    )
}

impl Refused {
    /// `None` if the store has ended.
    fn edit(error: TransactionError) -> Option<Self> {
        let retry = matches!(error, TransactionError::Lock(LockError::Timeout(_)));
        match &error {
            TransactionError::Commit(error) if has_ended(error) => None,
            TransactionError::Operation {
                cause: OperationError::Failed(cause),
                ..
            } => {
                let refused = cause.downcast_ref::<EditRefused>();
                let code = refused.map_or("operationFailed", EditRefused::code);
                Some(Self {
                    code,
                    message: cause.to_string(),
                    retry,
                })
            }
            _ => Some(Self {
                code: error.code(),
                message: error.to_string(),
                retry,
            }),
        }
    }

    /// The same of an undo or a redo.
    fn undo(error: UndoError) -> Option<Self> {
        let retry = matches!(error, UndoError::Lock(LockError::Timeout(_)));
        match &error {
            UndoError::Commit(error) if has_ended(error) => None,
            _ => Some(Self {
                code: error.code(),
                message: error.to_string(),
                retry,
            }),
        }
    }
}
