//! A proxy between doclock and the server, which loses and holds back what passes.
//!
//! It listens on a Unix socket, so it takes the host of the connection parameters. It looks for the
//! text of a statement in what a client sends, and does once what it was told.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// What happens to the next statement with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The server gets it, and the connection is cut when the answer comes.
    LosesAnswer,
    /// The connection is cut before the server gets it.
    LosesStatement,
    /// The connection is cut when the server has half of it.
    CutsStatement,
    /// The server gets it when [`Proxy::release`] is called, as if it had stopped in between.
    /// Nothing of its connection passes any more.
    HoldsStatement,
    /// The server gets it, and the client gets the answer when [`Proxy::release`] is called.
    HoldsAnswer,
}

#[derive(Default)]
struct State {
    next: Option<(Fault, &'static str)>,
    met: u32,
    /// What is counted, and how often it was sent.
    counted: Option<(&'static str, u32)>,
    released: bool,
    carried_out: u32,
    /// What clients and the server send passes at no more than 4 MB a second each.
    is_slow: bool,
    /// All connections are cut, and no new one is taken.
    is_down: bool,
    open: Vec<UnixStream>,
}

type Shared = Arc<(Mutex<State>, Condvar)>;

pub(crate) struct Proxy {
    folder: tempfile::TempDir,
    state: Shared,
}

impl Proxy {
    /// Starts a proxy for the server with these parameters, which has a Unix socket.
    pub(crate) fn start(parameters: &str) -> (Self, String) {
        let value = |name: &str| {
            let mut all = parameters
                .split(' ')
                .filter_map(|pair| pair.split_once('='));
            all.find(|(found, _)| *found == name).unwrap().1.to_owned()
        };
        let (host, port) = (value("host"), value("port"));
        let server = PathBuf::from(&host).join(format!(".s.PGSQL.{port}"));
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join(format!(".s.PGSQL.{port}"));
        let listener = UnixListener::bind(socket).unwrap();
        let state = Arc::new((Mutex::new(State::default()), Condvar::new()));
        let shared = Arc::clone(&state);
        // It ends with the test program.
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let mut state = shared.0.lock().unwrap();
                if state.is_down {
                    continue;
                }
                let Ok(server) = UnixStream::connect(&server) else {
                    continue;
                };
                state.open.push(client.try_clone().unwrap());
                state.open.push(server.try_clone().unwrap());
                drop(state);
                let shared = Arc::clone(&shared);
                thread::spawn(move || pass(client, server, &shared));
            }
        });
        let host = folder.path().to_str().unwrap().to_owned();
        let proxied =
            parameters.replace(&format!("host={}", value("host")), &format!("host={host}"));
        (Self { folder, state }, proxied)
    }

    /// Does this to the next statement with the text.
    pub(crate) fn next(&self, fault: Fault, text: &'static str) {
        let mut state = self.state.0.lock().unwrap();
        assert_eq!(state.next.replace((fault, text)), None);
    }

    /// How many faults have happened.
    pub(crate) fn met(&self) -> u32 {
        self.state.0.lock().unwrap().met
    }

    /// Counts the statements with a text from now on.
    pub(crate) fn count(&self, text: &'static str) {
        self.state.0.lock().unwrap().counted = Some((text, 0));
    }

    pub(crate) fn counted(&self) -> u32 {
        let counted = self.state.0.lock().unwrap().counted;
        counted.map_or(0, |(_, times)| times)
    }

    /// Passes on what is held back: a statement, and waits until the server has answered, or an
    /// answer.
    pub(crate) fn release(&self) {
        let (state, changed) = &*self.state;
        let mut state = state.lock().unwrap();
        state.released = true;
        changed.notify_all();
        while state.carried_out < 1 {
            state = changed.wait(state).unwrap();
        }
    }

    /// Passes everything slowly from now on.
    pub(crate) fn slow_down(&self) {
        self.state.0.lock().unwrap().is_slow = true;
    }

    /// Cuts all connections, and takes new ones or none from now on.
    pub(crate) fn set_down(&self, is_down: bool) {
        let mut state = self.state.0.lock().unwrap();
        state.is_down = is_down;
        if is_down {
            for stream in state.open.drain(..) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        assert!(self.folder.path().exists());
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

/// So much passes at once.
const PASSED: usize = 1 << 14;

/// Passes one connection on.
fn pass(mut client: UnixStream, mut server: UnixStream, shared: &Shared) {
    let of_answers: Arc<Mutex<Option<Fault>>> = Arc::default();
    let (mut answers, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let (fault, state) = (Arc::clone(&of_answers), Arc::clone(shared));
    let slow_down = |state: &Mutex<State>| {
        if state.lock().unwrap().is_slow {
            thread::sleep(Duration::from_millis(4));
        }
    };
    let back = thread::spawn(move || {
        let mut bytes = [0; PASSED];
        loop {
            let read = answers.read(&mut bytes).unwrap_or(0);
            slow_down(&state.0);
            let fault = *fault.lock().unwrap();
            if fault == Some(Fault::HoldsAnswer) {
                let (state, changed) = &*state;
                let mut state = state.lock().unwrap();
                while !state.released {
                    state = changed.wait(state).unwrap();
                }
                state.carried_out += 1;
                changed.notify_all();
            }
            let loses = matches!(fault, Some(Fault::LosesAnswer | Fault::HoldsStatement));
            if read == 0 || loses || to_client.write_all(&bytes[..read]).is_err() {
                // Of a held statement the connection stays open for the client.
                if !loses || read > 0 {
                    let _ = to_client.shutdown(Shutdown::Both);
                }
                return read;
            }
        }
    });
    let mut bytes = [0; PASSED];
    loop {
        let read = client.read(&mut bytes).unwrap_or(0);
        slow_down(&shared.0);
        let sent = &bytes[..read];
        let mut state = shared.0.lock().unwrap();
        let meets = |next: &mut (Fault, &str)| contains(sent, next.1);
        let fault = state
            .next
            .take_if(|next| meets(next))
            .map(|(fault, _)| fault);
        state.met += u32::from(fault.is_some());
        if let Some((text, times)) = &mut state.counted {
            *times += u32::from(contains(sent, text));
        }
        match fault {
            None => drop(state),
            Some(fault @ (Fault::LosesStatement | Fault::CutsStatement)) => {
                if fault == Fault::CutsStatement {
                    let _ = server.write_all(&sent[..sent.len() / 2]);
                }
                let _ = (
                    client.shutdown(Shutdown::Both),
                    server.shutdown(Shutdown::Both),
                );
                return;
            }
            Some(Fault::LosesAnswer | Fault::HoldsAnswer) => {
                drop(state);
                *of_answers.lock().unwrap() = fault;
            }
            Some(Fault::HoldsStatement) => {
                *of_answers.lock().unwrap() = fault;
                while !state.released {
                    state = shared.1.wait(state).unwrap();
                }
                drop(state);
                server.write_all(sent).unwrap();
                let _ = back.join();
                shared.0.lock().unwrap().carried_out += 1;
                shared.1.notify_all();
                return;
            }
        }
        if read == 0 || server.write_all(sent).is_err() {
            let _ = server.shutdown(Shutdown::Both);
            return;
        }
    }
}
