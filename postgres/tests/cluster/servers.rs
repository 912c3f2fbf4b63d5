//! Servers of the tests' own, which they stop, restart and promote.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use doclock::durable::{DurableOptions, Journal, JournalErrorKind};
use doclock::{DataStore, TransactionManager, dsl::*};
use doclock_postgres::{LostReason, Postgres, PostgresError, PostgresOptions};

use crate::support::{acquire, block, connect, load, name, parameters, short, sql, steal, until};

/// A command that runs as the user of the server.
fn as_user(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let user = std::env::var("PGUSER").unwrap();
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("runuser");
    command.args(["-u", &user, "--"]).arg(program);
    command
}

fn is_root() -> bool {
    folder().path().metadata().unwrap().uid() == 0
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}");
}

/// A temporary folder that belongs to the user of the server.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::Builder::new()
        .prefix("doclock-server")
        .tempdir()
        .unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    folder
}

/// A server of one test.
struct Server {
    folder: tempfile::TempDir,
    programs: PathBuf,
    port: u16,
}

impl Server {
    /// Makes and starts a server. `None` where the tests run without one.
    fn start(settings: &str) -> Option<Self> {
        parameters()?;
        let programs = PathBuf::from(std::env::var("DOCLOCK_POSTGRES_BIN").unwrap());
        let server = Self {
            folder: folder(),
            programs,
            port: 5432,
        };
        let initdb = server.programs.join("initdb");
        let user = std::env::var("PGUSER").unwrap();
        let arguments = [
            "--auth=trust",
            "--no-sync",
            "--no-locale",
            "--encoding=UTF8",
        ];
        run(as_user(initdb)
            .args(arguments)
            .args(["-U", &user, "-D"])
            .arg(server.data()));
        server.run(settings);
        Some(server)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn run(&self, settings: &str) {
        let socket = self.folder.path().display();
        let options = format!(
            "-p {} -k {socket} -c listen_addresses= {settings}",
            self.port
        );
        let log = self.folder.path().join("log");
        self.control(&[
            "-w",
            "-t",
            "60",
            "-o",
            &options,
            "-l",
            log.to_str().unwrap(),
            "start",
        ]);
    }

    fn control(&self, arguments: &[&str]) {
        run(as_user(self.programs.join("pg_ctl"))
            .arg("-D")
            .arg(self.data())
            .args(arguments));
    }

    fn crash(&self) {
        self.control(&["-m", "immediate", "stop"]);
    }

    fn parameters(&self) -> String {
        let user = std::env::var("PGUSER").unwrap();
        let (socket, port) = (self.folder.path().display(), self.port);
        format!("host={socket} port={port} user={user} dbname=postgres")
    }

    /// Makes a standby of this server, and starts it.
    fn standby(&self) -> Self {
        let standby = Self {
            folder: folder(),
            programs: self.programs.clone(),
            port: self.port,
        };
        let user = std::env::var("PGUSER").unwrap();
        run(as_user(self.programs.join("pg_basebackup"))
            .args(["-h", self.folder.path().to_str().unwrap(), "-U", &user])
            .args(["-p", &self.port.to_string(), "-R", "-c", "fast", "-D"])
            .arg(standby.data()));
        standby.run("");
        standby
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = as_user(self.programs.join("pg_ctl"))
            .arg("-D")
            .arg(self.data())
            .args(["-m", "immediate", "stop"])
            .output();
    }
}

/// A pooler, which ends with this value.
pub(crate) struct Pooler {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

/// Starts PgBouncer in transaction mode, with fewer connections than its clients have.
pub(crate) fn pooler(parameters: &str) -> Option<(Pooler, String)> {
    let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"];
    let Some(program) = program.iter().find(|program| Path::new(program).exists()) else {
        let required = std::env::var_os("DOCLOCK_CLUSTER_REQUIRED").is_some();
        assert!(!required, "there is no pgbouncer");
        println!("skipped: there is no pgbouncer");
        return None;
    };
    let folder = folder();
    let (path, user) = (folder.path(), std::env::var("PGUSER").unwrap());
    let settings = format!(
        "[databases]\n* = {}\n[pgbouncer]\nlisten_addr =\nunix_socket_dir = {}\nlisten_port = 6432\n\
        auth_type = any\npool_mode = transaction\ndefault_pool_size = 2\nserver_reset_query =\n",
        parameters,
        path.display(),
    );
    let file = path.join("pgbouncer.ini");
    fs::write(&file, settings).unwrap();
    // A process that is a child of the test itself, so that its id is the pooler's.
    let log = File::create(path.join("log")).unwrap();
    let mut command = Command::new(program);
    if is_root() {
        command.args(["-u", &user]);
    }
    let child = command
        .arg(&file)
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    let pooler = Pooler {
        child,
        _folder: folder,
    };
    let database = parameters.split("dbname=").last().unwrap();
    let socket = pooler._folder.path().display();
    let pooled = format!("host={socket} port=6432 user={user} dbname={database}");
    until("the pooler answers", || {
        postgres::Client::connect(&pooled, postgres::NoTls).is_ok()
    });
    Some((pooler, pooled))
}

#[test]
fn cluster_05_a_server_without_syncs_is_refused() {
    let Some(server) = Server::start("-c fsync=off") else {
        return;
    };
    let refused = Postgres::connect(PostgresOptions::new(&server.parameters()).unwrap());
    let refused = refused.map(drop).unwrap_err();
    assert!(matches!(refused, PostgresError::Fsync { .. }), "{refused}");
}

#[test]
fn cluster_02_restarts_of_the_server_lose_no_acknowledged_commit() {
    let Some(server) = Server::start("") else {
        return;
    };
    let parameters = server.parameters();
    let postgres = connect(&parameters);
    let options = short("ann").term(Duration::from_secs(20));
    let (term, journal) = postgres.acquire("notes", options).unwrap();
    let store = DataStore::open_journal(journal, DurableOptions::new()).unwrap();
    let manager = TransactionManager::new(store.clone());
    let commits = std::sync::atomic::AtomicU64::new(0);
    let ends = std::sync::atomic::AtomicBool::new(false);
    use std::sync::atomic::Ordering::SeqCst;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !ends.load(SeqCst) {
                    manager.execute(create(element("paragraph", []))).unwrap();
                    commits.fetch_add(1, SeqCst);
                }
            });
        }
        for _ in 0..4 {
            let before = commits.load(SeqCst);
            until("more commits", || commits.load(SeqCst) > before + 20);
            server.crash();
            server.run("");
        }
        ends.store(true, SeqCst);
    });
    assert!(term.is_owner());
    assert_eq!(store.version(), commits.load(SeqCst));
    drop((manager, store));
    term.hand_over().unwrap();
    let (_term, journal) = acquire(&postgres, "notes", "bob");
    let store = DataStore::open_journal(journal, DurableOptions::new()).unwrap();
    assert_eq!(store.version(), commits.load(SeqCst));
}

#[test]
fn cluster_01_the_term_is_lost_when_a_standby_takes_over_and_the_epoch_rises() {
    let Some(primary) = Server::start("") else {
        return;
    };
    connect(&primary.parameters());
    let standby = primary.standby();
    // Both hosts: a new connection finds the server that takes writes.
    let hosts = format!(
        "{},{}",
        primary.folder.path().display(),
        standby.folder.path().display()
    );
    let alone = primary.folder.path().display().to_string();
    let parameters =
        primary.parameters().replace(&alone, &hosts) + " target_session_attrs=read-write";
    let server = connect(&parameters);
    let options = short("ann").term(Duration::from_secs(20));
    let (term, mut journal) = server.acquire("notes", options.clone()).unwrap();
    journal.write(&block(1, 1, "one")).unwrap();
    let received = || {
        let count = "SELECT count(*) FROM doclock.doclock_log";
        sql(&standby.parameters())
            .query_one(count, &[])
            .unwrap()
            .get::<_, i64>(0)
    };
    until("the standby has the block", || received() == 1);
    // What the standby misses: as if it had been asynchronous and late.
    standby.control(&["-m", "immediate", "stop"]);
    let (epoch, timeline) = (term.epoch(), 1);
    primary.crash();
    standby.run("");
    standby.control(&["-w", "promote"]);

    let refused = journal.write(&block(2, 2, "two")).unwrap_err();
    assert_eq!(refused.kind, JournalErrorKind::Fenced, "{refused}");
    let reason = LostReason::NewTimeline {
        timeline: 2,
        before: timeline,
    };
    assert_eq!(term.lost(), Some(reason));
    // Until the lease has ended, an owner that does not know of the failover may act as one.
    let refused = server.try_acquire("notes", options.clone()).unwrap_err();
    assert!(matches!(refused, PostgresError::Held { .. }), "{refused}");
    steal(&standby.parameters(), "notes");
    let (next, mut journal) = server.try_acquire("notes", options).unwrap();
    assert!(
        next.epoch() >= 2 << 16 && epoch < 2 << 16,
        "{}",
        next.epoch()
    );
    assert_eq!(load(&mut journal).unwrap().1, [(1, "one".to_owned())]);
    journal.write(&block(2, 2, "two")).unwrap();
}

#[test]
fn cluster_05_a_server_that_stops_answering_holds_no_call_beyond_the_term() {
    let Some(server) = Server::start("") else {
        return;
    };
    let postgres = connect(&server.parameters());
    let document = name("frozen");
    let (term, mut journal) = acquire(&postgres, &document, "ann");
    journal.write(&block(1, 1, "one")).unwrap();
    let pids = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'
        AND pid <> pg_backend_pid()";
    let pids = sql(&server.parameters()).query(pids, &[]).unwrap();
    let pids: Vec<String> = pids
        .iter()
        .map(|row| row.get::<_, i32>(0).to_string())
        .collect();
    let signal = |signal: &str| run(Command::new("kill").arg(signal).args(&pids));
    // The postmaster too, so that no new connection is made.
    let file = fs::read_to_string(server.data().join("postmaster.pid")).unwrap();
    let postmaster = file.lines().next().unwrap().to_owned();
    run(Command::new("kill").args(["-STOP", &postmaster]));
    signal("-STOP");
    let began = std::time::Instant::now();
    let failed = journal.write(&block(2, 2, "two")).unwrap_err();
    let took = began.elapsed();
    run(Command::new("kill").args(["-CONT", &postmaster]));
    signal("-CONT");
    assert_eq!(failed.kind, JournalErrorKind::Io, "{failed}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert!(!term.is_owner());
    // The statement was sent, and may be carried out when the server goes on.
    let (_next, mut journal) = acquire(&postgres, &document, "bob");
    let (_, blocks) = load(&mut journal).unwrap();
    assert!(blocks.len() <= 2, "{blocks:?}");
    let next = blocks.len() as u64 + 1;
    journal.write(&block(next, next, "next")).unwrap();
}
