//! The connections of a server, each with a thread.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use doclock::DataStore;
use doclock::diagnostics::Diagnostics;
use serde::Serialize;
use smol_str::SmolStr;

use super::DiagnosticsServer;
use super::pacer::RequestPacer;
use super::stream::{Listener, Stream};

/// The request of a client, without the line break.
const REQUEST: &[u8] = b"diagnostics";

/// The longest line of a client.
const LONGEST: usize = 64;

/// How long a client may take for a line.
const LINE_WITHIN: Duration = Duration::from_secs(60);

/// How long a client may take to read an answer.
const READ_WITHIN: Duration = Duration::from_secs(10);

/// How long the server waits after it could not accept a client.
const RETRY: Duration = Duration::from_millis(100);

/// What the threads of a server share.
pub(super) struct ServerState {
    store: DataStore,
    label: OnceLock<SmolStr>,
    pacer: RequestPacer,
    open: Mutex<Vec<Connection>>,
}

struct Connection {
    stream: Stream,
    thread: JoinHandle<()>,
}

#[derive(Serialize)]
struct DiagnosticsResponse<'a> {
    program: String,
    process: u32,
    store: Option<&'a str>,
    diagnostics: &'a Diagnostics,
    table: String,
}

#[derive(Serialize)]
struct ErrorResponse<'a> {
    error: &'a str,
}

impl ServerState {
    pub(super) fn new(store: DataStore) -> Self {
        Self {
            store,
            label: OnceLock::new(),
            pacer: RequestPacer::default(),
            open: Mutex::default(),
        }
    }

    pub(super) fn label(&self, label: SmolStr) {
        // The first one stays.
        let _ = self.label.set(label);
    }

    /// Accepts clients until the server ends.
    pub(super) fn serve(self: &Arc<Self>, listener: &Listener) {
        loop {
            let accepted = listener.accept();
            if self.pacer.has_ended() {
                return;
            }
            match accepted {
                Ok(stream) => self.add(stream),
                // For example, no file descriptor is left.
                Err(_) => drop(self.pacer.sleep(RETRY)),
            }
        }
    }

    fn open(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a client in a thread of its own.
    fn add(self: &Arc<Self>, mut stream: Stream) {
        let mut open = self.open();
        open.retain(|connection| !connection.thread.is_finished());
        if self.pacer.has_ended() {
            return;
        }
        if open.len() >= DiagnosticsServer::CONNECTIONS {
            drop(open);
            return refuse(&mut stream, "too many connections");
        }
        let Ok(clone) = stream.try_clone() else {
            return refuse(&mut stream, "no file descriptor is left");
        };
        let this = Arc::clone(self);
        let thread = thread::Builder::new()
            .name("doclock-watch".into())
            .spawn(move || {
                // The client has gone, or is too slow: it gets no further answer.
                let _ = this.answer(&mut stream);
                stream.end();
            });
        // Without a thread the connection ends with both handles.
        if let Ok(thread) = thread {
            let stream = clone;
            open.push(Connection { stream, thread });
        }
    }

    /// Ends all connections, and later ones before they begin.
    pub(super) fn end(&self) {
        self.pacer.end();
        let open = self.open();
        open.iter().for_each(|connection| connection.stream.end());
    }

    /// Waits for the threads of all connections, which [`end`](Self::end) has ended.
    pub(super) fn join(&self) {
        let ended = std::mem::take(&mut *self.open());
        for connection in ended {
            connection.stream.end();
            // A panic of the thread was printed, and has no other effect.
            let _ = connection.thread.join();
        }
    }

    /// Answers the requests of a client until it disconnects or makes another request.
    fn answer(&self, stream: &mut Stream) -> io::Result<()> {
        let mut received = Vec::with_capacity(LONGEST);
        while let Some(line) = read_line(stream, &mut received)? {
            if line != REQUEST {
                refuse(stream, "the only request is: diagnostics");
                return Ok(());
            }
            if !self.pacer.wait() {
                return Ok(());
            }
            write_line(stream, &self.picture()?, READ_WITHIN)?;
        }
        Ok(())
    }

    fn picture(&self) -> io::Result<Vec<u8>> {
        let diagnostics = self.store.diagnostics();
        let program = std::env::current_exe().ok();
        let program = program.as_deref().and_then(|path| path.file_stem());
        let response = DiagnosticsResponse {
            program: program.map_or(String::new(), |name| name.to_string_lossy().into_owned()),
            process: std::process::id(),
            store: self.label.get().map(SmolStr::as_str),
            table: diagnostics.to_string(),
            diagnostics: &diagnostics,
        };
        Ok(serde_json::to_vec(&response)?)
    }
}

/// Reads the next line, without its end. `None` at the end of the stream. A line that is too long
/// is returned as far as it was read.
fn read_line(stream: &mut Stream, received: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let deadline = Instant::now() + LINE_WITHIN;
    loop {
        if let Some(end) = received.iter().position(|byte| *byte == b'\n') {
            let mut line: Vec<u8> = received.drain(..=end).collect();
            line.truncate(end);
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            return Ok(Some(line));
        }
        if received.len() >= LONGEST {
            return Ok(Some(std::mem::take(received)));
        }
        let mut buffer = [0; LONGEST];
        let count = stream.read_within(&mut buffer, left_until(deadline)?)?;
        if count == 0 {
            return Ok(None);
        }
        received.extend_from_slice(&buffer[..count]);
    }
}

/// Writes a line within a time, however slowly the client reads.
fn write_line(stream: &mut Stream, line: &[u8], limit: Duration) -> io::Result<()> {
    let deadline = Instant::now() + limit;
    for mut rest in [line, b"\n"] {
        while !rest.is_empty() {
            match stream.write_within(rest, left_until(deadline)?)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => rest = &rest[written..],
            }
        }
    }
    Ok(())
}

fn left_until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

/// Sends an error to a client whose connection ends.
fn refuse(stream: &mut Stream, error: &str) {
    let response = serde_json::to_vec(&ErrorResponse { error }).unwrap_or_default();
    let _ = write_line(stream, &response, RETRY);
    stream.end();
}

#[cfg(all(test, unix, not(loom)))]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_client_that_reads_nothing_ends_the_answer_after_the_limit() {
        let (own, client) = UnixStream::pair().unwrap();
        let answer = vec![b'x'; 64 << 20];
        let written = write_line(&mut Stream::Unix(own), &answer, Duration::from_millis(50));
        let kind = written.unwrap_err().kind();
        assert!(
            [io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock].contains(&kind),
            "{kind}"
        );
        drop(client);
    }
}
