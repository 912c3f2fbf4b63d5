//! Servers and poolers of the tests' own.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::{parameters, until};

/// A command that runs as the user of the server.
pub(crate) fn as_user(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let user = std::env::var("PGUSER").unwrap();
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("runuser");
    command.args(["-u", &user, "--"]).arg(program);
    command
}

pub(crate) fn is_root() -> bool {
    folder().path().metadata().unwrap().uid() == 0
}

pub(crate) fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}");
}

/// A temporary folder that belongs to the user of the server.
pub(crate) fn folder() -> tempfile::TempDir {
    let folder = tempfile::Builder::new()
        .prefix("doclock-server")
        .tempdir()
        .unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    folder
}

/// A server of one test.
pub(crate) struct Server {
    pub(crate) folder: tempfile::TempDir,
    programs: PathBuf,
    pub(crate) port: u16,
}

impl Server {
    /// Makes and starts a server. `None` where the tests run without one.
    pub(crate) fn start(settings: &str) -> Option<Self> {
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

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn run(&self, settings: &str) {
        let is_running = self.try_run(settings);
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        assert!(is_running, "the server does not start: {log}");
    }

    fn try_run(&self, settings: &str) -> bool {
        let socket = self.folder.path().display();
        let options = format!(
            "-p {} -k {socket} -c listen_addresses= {settings}",
            self.port
        );
        let log = self.folder.path().join("log");
        let started = as_user(self.programs.join("pg_ctl"))
            .arg("-D")
            .arg(self.data())
            .args(["-w", "-t", "60", "-o", &options, "-l"])
            .arg(log)
            .arg("start")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        started.unwrap().success()
    }

    pub(crate) fn control(&self, arguments: &[&str]) {
        run(as_user(self.programs.join("pg_ctl"))
            .arg("-D")
            .arg(self.data())
            .args(arguments));
    }

    pub(crate) fn crash(&self) {
        self.control(&["-m", "immediate", "stop"]);
    }

    /// The id of the process that starts the others.
    pub(crate) fn postmaster(&self) -> String {
        let file = fs::read_to_string(self.data().join("postmaster.pid")).unwrap();
        file.lines().next().unwrap().to_owned()
    }

    /// Kills the server without a chance to end its processes, which find out by themselves.
    pub(crate) fn kill(&self) {
        run(Command::new("kill").args(["-KILL", &self.postmaster()]));
    }

    /// Starts the server after it was killed, when the last of its processes has ended.
    pub(crate) fn run_after_kill(&self, settings: &str) {
        until("the server starts", || self.try_run(settings));
    }

    pub(crate) fn parameters(&self) -> String {
        let user = std::env::var("PGUSER").unwrap();
        let (socket, port) = (self.folder.path().display(), self.port);
        format!("host={socket} port={port} user={user} dbname=postgres")
    }

    /// Makes a standby of this server, and starts it.
    pub(crate) fn standby(&self) -> Self {
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
        "[databases]\n* = {}\n[pgbouncer]\nlisten_addr =\nunix_socket_dir = {}\n\
        listen_port = 6432\n\
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
