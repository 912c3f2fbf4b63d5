//! `doclock watch`.

use std::io::Write;
use std::net::TcpListener;
use std::thread;

use doclock::DataStore;
use doclock::lock::AcquireOptions;
use doclock_watch::DiagnosticsServer;

use crate::Folder;

#[test]
fn watch_shows_the_holder_of_a_running_program_over_a_port_and_a_unix_socket() {
    let folder = Folder::new();
    let store = DataStore::new();
    let import = AcquireOptions::new().label("import\u{1b}[2J");
    let request = store.request("ann").options(import);
    let line = line!() - 1;
    let _held = request.wait().unwrap();
    let port = DiagnosticsServer::on_loopback(&store, 0)
        .unwrap()
        .label("page");
    let socket = folder.path("page.sock");
    let unix = DiagnosticsServer::on_unix_socket(&store, &socket).unwrap();
    for address in [port.address().to_string(), unix.address().to_string()] {
        let shown = folder.doclock(&["watch", &address]).ended_with(0).stdout;
        assert!(shown.contains("LOCK            held"), "{shown}");
        assert!(shown.contains("ann (import"), "{shown}");
        let line = format!("watch.rs:{line}:");
        assert!(shown.contains(&line), "{line} is not in {shown}");
        assert!(
            shown.contains(&format!(", process {}", std::process::id())),
            "{shown}"
        );
        assert!(!shown.contains('\u{1b}'), "{shown:?}");
        let json = folder
            .doclock(&["watch", "--json", &address])
            .ended_with(0)
            .json();
        assert_eq!(json["lock"]["holders"][0]["ownerId"], "ann");
    }
    let shown = folder
        .doclock(&["watch", &port.address().to_string()])
        .stdout;
    assert!(
        shown.lines().next().unwrap().ends_with(", store page"),
        "{shown}"
    );
}

#[test]
fn watch_refuses_addresses_without_a_program_of_doclock_in_one_line() {
    let folder = Folder::new();
    let line = folder.doclock(&["watch", "nothing.sock"]).refused_with(5);
    assert!(line.contains("nothing.sock: no program answers"), "{line}");
    let line = folder.doclock(&["watch", "192.0.2.1:80"]).refused_with(2);
    assert!(line.contains("is another machine"), "{line}");

    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port().to_string();
    let answers = thread::spawn(move || {
        let (mut client, _) = other.accept().unwrap();
        client
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .unwrap();
        client
    });
    let line = folder.doclock(&["watch", &port]).refused_with(5);
    assert!(line.contains("is no program of doclock"), "{line}");
    drop(answers.join().unwrap());
}

#[test]
fn watch_ends_when_the_program_ends() {
    let folder = Folder::new();
    let ended = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = ended.local_addr().unwrap().port().to_string();
    let closes = thread::spawn(move || drop(ended.accept().unwrap()));
    let shown = folder.doclock(&["watch", &port]).ended_with(0).stdout;
    assert_eq!(shown, "the program has ended\n");
    closes.join().unwrap();
}
