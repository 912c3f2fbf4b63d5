//! The picture of a running program for another program on the same machine: see
//! [`DiagnosticsServer`].

mod connection;
mod pacer;
mod stream;

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
#[cfg(unix)]
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use doclock::DataStore;
use doclock::codes::{Retry, codes};
use smol_str::SmolStr;

use connection::ServerState;
use stream::{Listener, Waker};

/// Answers other programs of this machine with the diagnostics of a store, until it is dropped.
///
/// No store has a server unless the program starts one. It is read-only: it answers requests for
/// the [picture](DataStore::diagnostics) and nothing else. The drop ends all connections and waits
/// for the threads of the server, which takes milliseconds.
///
/// The server keeps the store. Drop it before the end of a store whose last handle it might have,
/// or [close](DataStore::close) the store.
///
/// # Access
///
/// - [`on_unix_socket`](Self::on_unix_socket) is for the user who runs the program: only this user
///   can open the socket.
/// - [`on_loopback`](Self::on_loopback) has no authentication: every user and every program of the
///   machine can read owners, labels, names of nodes and lines of code. Choose it only where there
///   are no Unix sockets.
///
/// # Protocol
///
/// A client sends the line `diagnostics`. The answer is one line of JSON:
///
/// ```json
/// {"program": "notes", "process": 4242, "store": "page", "diagnostics": {}, "table": "LOCK …"}
/// ```
///
/// `store` is the [label](Self::label), or `null`. `diagnostics` is the picture as data, and
/// `table` the picture as text. The client can send the line again on the same connection. Any
/// other line gets `{"error": "…"}` and ends the connection.
///
/// # Limits
///
/// A client costs the program a thread while it is connected. At most
/// [`CONNECTIONS`](Self::CONNECTIONS) clients are connected at a time; a further one gets an error.
/// All of them together get at most 20 pictures a second. A request line has at most 64 bytes. A
/// client that sends no line for a minute is disconnected, and so is one that does not read its
/// answer within ten seconds.
///
/// ```
/// use std::io::{BufRead, BufReader, Write};
/// use std::net::TcpStream;
///
/// use doclock::DataStore;
/// use doclock_watch::{DiagnosticsServer, ServerAddress};
///
/// let store = DataStore::new();
/// let server = DiagnosticsServer::on_loopback(&store, 0)?.label("page");
/// let ServerAddress::Loopback(address) = server.address() else { panic!("{server:?}") };
///
/// let mut client = TcpStream::connect(address)?;
/// client.write_all(b"diagnostics\n")?;
/// let mut answer = String::new();
/// BufReader::new(client).read_line(&mut answer)?;
/// let answer: serde_json::Value = serde_json::from_str(&answer)?;
/// assert_eq!((&answer["store"], &answer["diagnostics"]["version"]), (&"page".into(), &0.into()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the server ends when it is dropped"]
pub struct DiagnosticsServer {
    state: Arc<ServerState>,
    thread: Option<JoinHandle<()>>,
    waker: Waker,
    address: ServerAddress,
    #[cfg(unix)]
    file: Option<stream::SocketFile>,
}

/// Where a [`DiagnosticsServer`] listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServerAddress {
    /// A port of 127.0.0.1.
    Loopback(SocketAddr),
    /// A Unix socket.
    #[cfg(unix)]
    UnixSocket(PathBuf),
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loopback(address) => address.fmt(f),
            #[cfg(unix)]
            Self::UnixSocket(path) => path.display().fmt(f),
        }
    }
}

/// Why a [`DiagnosticsServer`] did not start. Nothing is left behind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Another server listens at the address.
    #[error("another server listens at {address}")]
    AddressInUse {
        /// The port or the path.
        address: String,
    },
    /// The path is that of a file which is no socket.
    #[error("{path} is no socket and is not replaced")]
    NotASocket {
        /// The path.
        path: String,
    },
    /// The system refused the address or a thread.
    #[error("cannot listen at {address}: {reason}")]
    Io {
        /// The port or the path.
        address: String,
        /// The error of the system.
        reason: String,
    },
}

codes! { ServerError {
    Self::AddressInUse { address } => "diagnosticsAddressInUse" if Retry::Later;
    Self::NotASocket { path } => "diagnosticsNotASocket", 500;
    Self::Io { address, reason } => "diagnosticsServerFailed", 500;
}}

impl ServerError {
    fn of(address: &ServerAddress, error: &io::Error) -> Self {
        let address = address.to_string();
        match error.kind() {
            io::ErrorKind::AddrInUse => Self::AddressInUse { address },
            _ => Self::Io {
                address,
                reason: error.to_string(),
            },
        }
    }
}

impl DiagnosticsServer {
    /// How many clients are connected at most.
    pub const CONNECTIONS: usize = 8;

    /// Listens at a port of 127.0.0.1; zero selects a free one. Every program of the machine can
    /// connect.
    ///
    /// # Errors
    ///
    /// [`ServerError`]: the port is in use, or the system refuses it or a thread.
    pub fn on_loopback(store: &DataStore, port: u16) -> Result<Self, ServerError> {
        let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let failed = |error| ServerError::of(&ServerAddress::Loopback(wanted), &error);
        let listener = TcpListener::bind(wanted).map_err(failed)?;
        let address = ServerAddress::Loopback(listener.local_addr().map_err(failed)?);
        Self::start(store, Listener::Tcp(listener), address)
    }

    /// Listens at a Unix socket, which only the user of the program can open.
    ///
    /// The socket file is complete and has mode 0600 when it appears. The file of a program that no
    /// longer listens is replaced. The drop removes the file.
    ///
    /// # Errors
    ///
    /// [`ServerError`]: another server listens at the path, the path is that of another kind of
    /// file, or the system refuses it or a thread.
    ///
    /// ```
    /// use doclock::DataStore;
    /// use doclock_watch::DiagnosticsServer;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("notes.sock");
    /// let store = DataStore::new();
    /// let server = DiagnosticsServer::on_unix_socket(&store, &path)?;
    /// assert!(DiagnosticsServer::on_unix_socket(&store, &path).is_err());
    /// drop(server);
    /// assert!(!path.exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(unix)]
    #[cfg_attr(docsrs, doc(cfg(unix)))]
    pub fn on_unix_socket(store: &DataStore, path: impl AsRef<Path>) -> Result<Self, ServerError> {
        let path = path.as_ref();
        let (listener, file) = stream::SocketFile::bind(path)?;
        let address = ServerAddress::UnixSocket(path.to_owned());
        let mut server = Self::start(store, Listener::Unix(listener), address)?;
        server.file = Some(file);
        Ok(server)
    }

    fn start(
        store: &DataStore,
        listener: Listener,
        address: ServerAddress,
    ) -> Result<Self, ServerError> {
        let failed = |error| ServerError::of(&address, &error);
        let waker = listener.waker(&address).map_err(failed)?;
        let state = Arc::new(ServerState::new(store.clone()));
        let serving = Arc::clone(&state);
        let thread = thread::Builder::new()
            .name("doclock-watch".into())
            .spawn(move || serving.serve(&listener))
            .map_err(failed)?;
        Ok(Self {
            state,
            thread: Some(thread),
            waker,
            address,
            #[cfg(unix)]
            file: None,
        })
    }

    /// Names the store in the answers, for a program with several stores. The first label stays.
    pub fn label(self, label: impl Into<SmolStr>) -> Self {
        self.state.label(label.into());
        self
    }

    /// Returns where the server listens.
    pub fn address(&self) -> &ServerAddress {
        &self.address
    }
}

impl Drop for DiagnosticsServer {
    fn drop(&mut self) {
        #[cfg(unix)]
        drop(self.file.take());
        self.state.end();
        let Some(thread) = self.thread.take() else {
            return;
        };
        // A connection can fail because the process has no file descriptors left.
        for _ in 0..WAKE_UPS {
            self.waker.wake();
            if thread.is_finished() {
                break;
            }
            thread::sleep(WAKE_UP);
        }
        if thread.is_finished() {
            // A panic of the thread was printed, and has no other effect.
            let _ = thread.join();
        }
        self.state.join();
    }
}

/// How often the drop tries to wake the thread that waits for clients, and how long it waits in
/// between. Then the thread is left to the end of the process.
const WAKE_UPS: u32 = 200;
const WAKE_UP: Duration = Duration::from_millis(5);

impl fmt::Debug for DiagnosticsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiagnosticsServer")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// The README, whose example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
