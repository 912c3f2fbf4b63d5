//! Sockets of both kinds.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
#[cfg(unix)]
use std::os::fd::OwnedFd;
#[cfg(unix)]
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use super::ServerAddress;
#[cfg(unix)]
pub(super) use file::SocketFile;

pub(super) enum Listener {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixListener),
}

impl Listener {
    pub(super) fn accept(&self) -> io::Result<Stream> {
        Ok(match self {
            Self::Tcp(listener) => Stream::Tcp(listener.accept()?.0),
            #[cfg(unix)]
            Self::Unix(listener) => Stream::Unix(listener.accept()?.0),
        })
    }

    /// Returns what ends a blocked `accept`.
    pub(super) fn waker(&self, address: &ServerAddress) -> io::Result<Waker> {
        Ok(Waker {
            #[cfg(unix)]
            handle: UnixStream::from(match self {
                Self::Tcp(listener) => OwnedFd::from(listener.try_clone()?),
                Self::Unix(listener) => OwnedFd::from(listener.try_clone()?),
            }),
            address: address.clone(),
        })
    }
}

/// Wakes the thread that waits for clients.
pub(super) struct Waker {
    /// The listening socket. On Linux its shutdown ends `accept`, also without a further file
    /// descriptor.
    #[cfg(unix)]
    handle: UnixStream,
    address: ServerAddress,
}

impl Waker {
    pub(super) fn wake(&self) {
        #[cfg(unix)]
        if self.handle.shutdown(Shutdown::Both).is_ok() && cfg!(target_os = "linux") {
            return;
        }
        match &self.address {
            ServerAddress::Loopback(address) => {
                let _ = TcpStream::connect_timeout(address, Duration::from_millis(100));
            }
            #[cfg(unix)]
            ServerAddress::UnixSocket(path) => drop(UnixStream::connect(path)),
        }
    }
}

pub(super) enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

/// Calls a method that sockets of both kinds have.
macro_rules! of_either {
    ($stream:expr, $socket:ident => $call:expr) => {
        match $stream {
            Stream::Tcp($socket) => $call,
            #[cfg(unix)]
            Stream::Unix($socket) => $call,
        }
    };
}

impl Stream {
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(socket) => Self::Tcp(socket.try_clone()?),
            #[cfg(unix)]
            Self::Unix(socket) => Self::Unix(socket.try_clone()?),
        })
    }

    /// Ends reads and writes of all clones, also those that block.
    pub(super) fn end(&self) {
        let _ = of_either!(self, socket => socket.shutdown(Shutdown::Both));
    }

    /// Reads within a time, which is not zero.
    pub(super) fn read_within(&mut self, buffer: &mut [u8], limit: Duration) -> io::Result<usize> {
        of_either!(self, socket => {
            socket.set_read_timeout(Some(limit))?;
            socket.read(buffer)
        })
    }

    /// Writes within a time, which is not zero.
    pub(super) fn write_within(&mut self, bytes: &[u8], limit: Duration) -> io::Result<usize> {
        of_either!(self, socket => {
            socket.set_write_timeout(Some(limit))?;
            socket.write(bytes)
        })
    }
}

#[cfg(unix)]
mod file {
    use std::fs::{self, DirBuilder, Metadata, Permissions};
    use std::hash::{BuildHasher, RandomState};
    use std::io;
    use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
    use std::path::{Path, PathBuf};

    use crate::{ServerAddress, ServerError};

    /// The file of a socket, removed when this is dropped.
    pub(crate) struct SocketFile {
        path: PathBuf,
        /// The device and the number of the file, so that the file of another server stays.
        identity: (u64, u64),
    }

    impl SocketFile {
        /// Listens at a path.
        pub(crate) fn bind(path: &Path) -> Result<(UnixListener, Self), ServerError> {
            let address = ServerAddress::UnixSocket(path.to_owned());
            let failed = |error: io::Error| ServerError::of(&address, &error);
            // A client could not connect to a path that is too long.
            SocketAddr::from_pathname(path).map_err(failed)?;
            refuse_used(path, &address)?;
            let (listener, identity) = bind_privately(path).map_err(failed)?;
            let path = path.to_owned();
            Ok((listener, Self { path, identity }))
        }
    }

    impl Drop for SocketFile {
        fn drop(&mut self) {
            let present = fs::symlink_metadata(&self.path);
            if present.is_ok_and(|present| identity(&present) == self.identity) {
                let _ = fs::remove_file(&self.path);
            }
        }
    }

    fn identity(file: &Metadata) -> (u64, u64) {
        (file.dev(), file.ino())
    }

    /// Refuses a path at which a server listens, or that is no socket.
    fn refuse_used(path: &Path, address: &ServerAddress) -> Result<(), ServerError> {
        let present = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            present => present.map_err(|error| ServerError::of(address, &error))?,
        };
        if !present.file_type().is_socket() {
            let path = address.to_string();
            return Err(ServerError::NotASocket { path });
        }
        match UnixStream::connect(path) {
            // No process listens any more.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            // Also if it is another user's.
            _ => Err(ServerError::AddressInUse {
                address: address.to_string(),
            }),
        }
    }

    /// Makes the socket in a folder of its own, which no other user can enter, and moves it to its
    /// path when it has its mode.
    fn bind_privately(path: &Path) -> io::Result<(UnixListener, (u64, u64))> {
        let parent = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let random = RandomState::new().hash_one(path);
        let folder = parent.join(format!(".{:x}-{:x}", std::process::id(), random));
        DirBuilder::new().mode(0o700).create(&folder)?;
        let bound = bind_in(&folder, path);
        let _ = fs::remove_file(folder.join(NAME));
        let _ = fs::remove_dir(&folder);
        bound
    }

    const NAME: &str = "s";

    fn bind_in(folder: &Path, path: &Path) -> io::Result<(UnixListener, (u64, u64))> {
        let within = folder.join(NAME);
        let listener = UnixListener::bind(&within)?;
        fs::set_permissions(&within, Permissions::from_mode(0o600))?;
        let identity = identity(&fs::symlink_metadata(&within)?);
        fs::rename(&within, path)?;
        Ok((listener, identity))
    }
}
