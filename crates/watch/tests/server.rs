//! The picture over a socket, and clients that behave badly.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use doclock::DataStore;
use doclock::events::RecvTimeoutError;
use doclock_watch::{DiagnosticsServer, ServerAddress, ServerError};
use serde_json::Value;

/// Long enough for a slow machine; a test that waits so long has failed.
const LONG: Duration = Duration::from_secs(30);

fn loopback(store: &DataStore) -> (DiagnosticsServer, SocketAddr) {
    let server = DiagnosticsServer::on_loopback(store, 0).unwrap();
    let address = match server.address() {
        ServerAddress::Loopback(address) => *address,
        other => panic!("{other:?}"),
    };
    (server, address)
}

fn connect(address: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(LONG)).unwrap();
    client.set_write_timeout(Some(LONG)).unwrap();
    client
}

/// Sends a line, and returns the answer; `None` if the connection has ended.
fn ask(client: &mut (impl Read + Write), line: &[u8]) -> Option<Value> {
    client.write_all(line).ok()?;
    let mut answer = Vec::new();
    BufReader::new(client).read_until(b'\n', &mut answer).ok()?;
    serde_json::from_slice(&answer).ok()
}

fn has_ended(client: &mut impl Read) -> bool {
    match client.read(&mut [0; 16]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}

/// Fails if the code does not end.
fn ends(code: impl FnOnce() + Send + 'static) {
    let (ended, end) = mpsc::channel();
    thread::spawn(move || {
        code();
        let _ = ended.send(());
    });
    assert_eq!(end.recv_timeout(LONG), Ok(()), "it hangs");
}

#[test]
fn a_client_reads_the_picture_as_often_as_it_asks() {
    let store = DataStore::new();
    let server = DiagnosticsServer::on_loopback(&store, 0)
        .unwrap()
        .label("page");
    let ServerAddress::Loopback(address) = *server.address() else {
        panic!()
    };
    assert!(address.ip().is_loopback());
    let mut client = connect(address);
    for holder in ["ann", "ben"] {
        let guard = store.lock(holder).unwrap();
        let answer = ask(&mut client, b"diagnostics\n").unwrap();
        let found = &answer["diagnostics"]["lock"]["holders"][0]["ownerId"];
        assert_eq!(found, holder);
        assert_eq!(answer["store"], "page");
        assert_eq!(answer["process"], std::process::id());
        assert!(
            answer["program"].as_str().unwrap().starts_with("server"),
            "{answer}"
        );
        assert!(answer["table"].as_str().unwrap().contains(holder));
        drop(guard);
    }
    let mut other = connect(address);
    assert!(ask(&mut other, b"diagnostics\r\n").is_some());
}

#[test]
fn a_port_that_is_in_use_is_refused() {
    let store = DataStore::new();
    let (_server, address) = loopback(&store);
    let refused = DiagnosticsServer::on_loopback(&store, address.port()).unwrap_err();
    let expected = ServerError::AddressInUse {
        address: address.to_string(),
    };
    assert_eq!(refused, expected);
}

#[test]
fn a_server_ends_promptly_with_silent_clients_and_keeps_no_store() {
    let store = DataStore::new();
    let events = store.subscribe();
    let (server, address) = loopback(&store);
    drop(store);
    let mut clients: Vec<_> = (0..4).map(|_| connect(address)).collect();
    // One of them is surely served, and the others at least wait to be accepted.
    assert!(ask(&mut clients[0], b"diagnostics\n").is_some());
    ends(move || drop(server));
    let end = events.recv_timeout(LONG);
    assert_eq!(
        end,
        Err(RecvTimeoutError::Disconnected),
        "the store still exists"
    );
    for client in &mut clients {
        assert!(has_ended(client));
    }
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_server_without_clients_ends_promptly() {
    for _ in 0..20 {
        let (server, _) = loopback(&DataStore::new());
        ends(move || drop(server));
    }
}

#[test]
fn another_line_gets_an_error_and_ends_the_connection() {
    let store = DataStore::new();
    let (_server, address) = loopback(&store);
    for line in [
        &b"\n"[..],
        b"Diagnostics\n",
        b"diagnostics \n",
        b"\xff\xfe\0\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\ndiagnostics\n",
    ] {
        let mut client = connect(address);
        let answer = ask(&mut client, line).unwrap();
        assert_eq!(answer["error"], "the only request is: diagnostics");
        assert!(has_ended(&mut client));
    }
}

#[test]
fn a_line_without_an_end_is_read_no_further_than_a_request_is_long() {
    let store = DataStore::new();
    let (_server, address) = loopback(&store);
    let answer = ask(&mut connect(address), &[b'x'; 64]).unwrap();
    assert_eq!(answer["error"], "the only request is: diagnostics");
    let mut client = connect(address);
    let chunk = vec![b'x'; 1 << 16];
    // A gigabyte, unless the connection ends before.
    let sent = (0..1 << 14)
        .take_while(|_| client.write_all(&chunk).is_ok())
        .count();
    assert!(sent < 1 << 14, "the server reads for ever");
    assert!(ask(&mut connect(address), b"diagnostics\n").is_some());
}

#[test]
fn half_a_line_is_no_request() {
    let store = DataStore::new();
    let (_server, address) = loopback(&store);
    for _ in 0..2 * DiagnosticsServer::CONNECTIONS {
        let mut client = connect(address);
        client.write_all(b"diagnos").unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, b"");
    }
    let mut client = connect(address);
    client.write_all(b"diagnos").unwrap();
    assert!(
        ask(&mut client, b"tics\n").is_some(),
        "a request may come in parts"
    );
}

#[test]
fn of_a_hundred_clients_eight_are_served_and_the_others_are_told() {
    let store = DataStore::new();
    let (_server, address) = loopback(&store);
    let mut served = Vec::new();
    let mut refused = 0;
    for _ in 0..100 {
        let mut client = connect(address);
        let answer = ask(&mut client, b"diagnostics\n").unwrap();
        match answer.get("error") {
            Some(error) => {
                assert_eq!(error, "too many connections");
                assert!(has_ended(&mut client));
                refused += 1;
            }
            None => served.push(client),
        }
    }
    assert_eq!(
        (served.len(), refused),
        (DiagnosticsServer::CONNECTIONS, 92)
    );
    drop(served);
    // The threads of the clients end a moment later.
    let mut answers = std::iter::from_fn(|| ask(&mut connect(address), b"diagnostics\n"));
    assert!(answers.any(|answer| answer.get("error").is_none()));
}

#[cfg(unix)]
mod unix {
    use std::fs;
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    fn names(folder: &std::path::Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }

    #[test]
    fn a_socket_is_for_its_owner_alone_and_disappears_with_its_server() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.sock");
        let store = DataStore::new();
        let server = DiagnosticsServer::on_unix_socket(&store, &path).unwrap();
        let file = fs::symlink_metadata(&path).unwrap();
        assert!(file.file_type().is_socket());
        assert_eq!(file.permissions().mode() & 0o777, 0o600);
        assert_eq!(names(folder.path()), ["notes.sock"]);
        let mut client = UnixStream::connect(&path).unwrap();
        let answer = ask(&mut client, b"diagnostics\n").unwrap();
        assert_eq!(answer["store"], Value::Null);
        ends(move || drop(server));
        assert!(has_ended(&mut client));
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.sock");
        // Its program has ended without removing the file.
        drop(UnixListener::bind(&path).unwrap());
        let store = DataStore::new();
        let server = DiagnosticsServer::on_unix_socket(&store, &path).unwrap();
        let refused = DiagnosticsServer::on_unix_socket(&store, &path).unwrap_err();
        let address = path.display().to_string();
        assert_eq!(refused, ServerError::AddressInUse { address });
        let mut client = UnixStream::connect(&path).unwrap();
        assert!(ask(&mut client, b"diagnostics\n").is_some());
        drop(server);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_is_no_socket_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.txt");
        fs::write(&path, "precious").unwrap();
        let refused = DiagnosticsServer::on_unix_socket(&DataStore::new(), &path).unwrap_err();
        let expected = ServerError::NotASocket {
            path: path.display().to_string(),
        };
        assert_eq!(refused, expected);
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        let nowhere = folder.path().join("no/such/folder.sock");
        let refused = DiagnosticsServer::on_unix_socket(&DataStore::new(), nowhere).unwrap_err();
        assert!(matches!(refused, ServerError::Io { .. }), "{refused}");
        assert_eq!(names(folder.path()), ["notes.txt"]);
    }

    #[test]
    fn the_file_of_another_server_stays_when_a_server_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.sock");
        let store = DataStore::new();
        let server = DiagnosticsServer::on_unix_socket(&store, &path).unwrap();
        fs::remove_file(&path).unwrap();
        let next = DiagnosticsServer::on_unix_socket(&store, &path).unwrap();
        ends(move || drop(server));
        let mut client = UnixStream::connect(&path).unwrap();
        assert!(ask(&mut client, b"diagnostics\n").is_some());
        drop(next);
    }
}

#[test]
fn lock_18_every_public_type_is_send_and_sync() {
    fn shared<T: Send + Sync>() {}
    shared::<DiagnosticsServer>();
    shared::<ServerAddress>();
    shared::<ServerError>();
}
