//! Encrypted connections to a server that refuses others.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use doclock_postgres::{Member, MemberOptions, Postgres, PostgresError};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::request_support::node;
use crate::server::{Server, as_user, folder, is_root, run};
use crate::support::{options, short, sql, until};

const LIMIT: Duration = Duration::from_secs(20);

/// An authority, which writes its certificates into a folder.
struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(folder: &Path, name: &str) -> Self {
        let (mut params, key) = (CertificateParams::default(), KeyPair::generate().unwrap());
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.self_signed(&key).unwrap();
        fs::write(folder.join(format!("{name}.crt")), certificate.pem()).unwrap();
        fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
        Self {
            folder: folder.to_owned(),
            issuer: Issuer::new(params, key),
        }
    }

    /// Certifies a name: of a server, or of a user.
    fn certify(&self, file: &str, name: &str) {
        let (key, names) = (KeyPair::generate().unwrap(), vec![name.to_owned()]);
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key_file = self.folder.join(format!("{file}.key"));
        fs::write(self.folder.join(format!("{file}.crt")), certificate.pem()).unwrap();
        fs::write(&key_file, key.serialize_pem()).unwrap();
        fs::set_permissions(&key_file, fs::Permissions::from_mode(0o600)).unwrap();
    }
}

/// The server's own copy of a file, which only it can read.
fn for_server(folder: &Path, file: &str) -> String {
    let copy = folder.join(format!("server-{file}"));
    fs::set_permissions(folder.join(file), fs::Permissions::from_mode(0o644)).unwrap();
    run(as_user("cp").arg(folder.join(file)).arg(&copy));
    run(as_user("chmod").arg("600").arg(&copy));
    copy.display().to_string()
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn connect(parameters: &str) -> Result<Postgres, PostgresError> {
    Postgres::connect(options(parameters).connect_timeout(LIMIT))
}

/// Whether the error is that of a connection, or of the server that refuses it.
#[track_caller]
fn is_refused(parameters: &str) {
    match connect(parameters).map(drop) {
        Err(PostgresError::Connection { .. } | PostgresError::Server { .. }) => {}
        ended => panic!("{parameters}: {ended:?}"),
    }
}

/// The code of a process with a home of its own. As a test of its own it does nothing.
#[test]
fn cluster_process_that_connects() {
    if let Ok(parameters) = std::env::var("DOCLOCK_CONNECTS_WITH") {
        connect(&parameters).unwrap();
    }
}

/// Whether a process with this home connects.
fn connects_at(home: &Path, parameters: &str) -> bool {
    let test = "encryption::cluster_process_that_connects";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test]).env("HOME", home);
    let output = command.env("DOCLOCK_CONNECTS_WITH", parameters).output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("running 1 test"), "{text}");
    output.status.success()
}

#[test]
fn cluster_05_a_server_that_demands_encryption_is_used_as_libpq_uses_it() {
    let files = folder();
    let files = files.path();
    let authority = Authority::new(files, "authority");
    let other = Authority::new(files, "other");
    authority.certify("localhost", "localhost");
    other.certify("stranger", "certified");
    authority.certify("certified", "certified");
    let rules = "local all all trust\n\
        host all either 127.0.0.1/32 trust\n\
        hostnossl all plain 127.0.0.1/32 trust\n\
        hostssl all plain 127.0.0.1/32 reject\n\
        hostssl all certified 127.0.0.1/32 cert\n\
        hostssl all all 127.0.0.1/32 trust\n";
    fs::write(files.join("rules"), rules).unwrap();
    let port = free_port();
    let common = format!("-c listen_addresses=127.0.0.1 -c port={port} -c fsync=off");
    let settings = |certificate: &str| {
        let (certificate, key) = (
            for_server(files, &format!("{certificate}.crt")),
            for_server(files, &format!("{certificate}.key")),
        );
        let authority = files.join("authority.crt").display().to_string();
        format!(
            "{common} -c ssl=on -c ssl_cert_file={certificate} -c ssl_key_file={key} \
            -c ssl_ca_file={authority} -c hba_file={}",
            files.join("rules").display()
        )
    };
    let Some(mut server) = Server::start(&settings("localhost")) else {
        return;
    };
    server.port = port;
    let user = std::env::var("PGUSER").unwrap();
    for role in ["certified", "either", "plain"] {
        let create = format!("CREATE ROLE {role} LOGIN SUPERUSER");
        sql(&server.parameters()).batch_execute(&create).unwrap();
    }
    let path = |file: &str| files.join(file).display().to_string();
    let of = |user: &str, host: &str, rest: &str| {
        format!("host={host} hostaddr=127.0.0.1 port={port} user={user} dbname=postgres {rest}")
    };
    let local = |rest: &str| of(&user, "localhost", rest);
    let (trusted, foreign) = (path("authority.crt"), path("other.crt"));
    is_refused(&local("sslmode=disable"));
    for mode in ["allow", "prefer", "require"] {
        connect(&local(&format!("sslmode={mode}"))).unwrap();
    }
    connect(&local("")).unwrap();
    // The first way of a mode, and the second one.
    for (mode, is_encrypted) in [
        ("disable", false),
        ("allow", false),
        ("prefer", true),
        ("require", true),
    ] {
        let name = format!("sslmode={mode} application_name=by-{mode}");
        let _server = connect(&of("either", "localhost", &name)).unwrap();
        let found = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
            WHERE application_name = $1";
        let row = sql(&server.parameters()).query_one(found, &[&format!("by-{mode}")]);
        assert_eq!(row.unwrap().get::<_, bool>(0), is_encrypted, "{mode}");
        let plain = of("plain", "localhost", &format!("sslmode={mode}"));
        match mode {
            "require" => is_refused(&plain),
            _ => drop(connect(&plain).unwrap()),
        }
    }
    for mode in ["require", "verify-ca", "verify-full"] {
        connect(&local(&format!("sslmode={mode} sslrootcert={trusted}"))).unwrap();
        // Also `require` looks at the authority if there is one.
        is_refused(&local(&format!("sslmode={mode} sslrootcert={foreign}")));
    }
    let url = format!(
        "postgresql://{user}@localhost:{port}/postgres?sslmode=verify-full&sslrootcert={}",
        trusted.replace('/', "%2F")
    );
    connect(&url).unwrap();
    // The certificate has another name.
    let by_number = |mode: &str| {
        of(
            &user,
            "127.0.0.1",
            &format!("sslmode={mode} sslrootcert={trusted}"),
        )
    };
    connect(&by_number("verify-ca")).unwrap();
    is_refused(&by_number("verify-full"));
    assert!(connect(&local("sslrootcert=system")).is_err());
    for wrong in [
        "sslmode=verify-full".to_owned(),
        format!("sslmode=verify-ca sslrootcert={}", path("missing.crt")),
        format!("sslmode=require sslrootcert={}", path("rules")),
        format!("sslmode=require sslcert={}", path("missing.crt")),
    ] {
        let refused = connect(&local(&wrong)).map(drop).unwrap_err();
        assert!(
            matches!(refused, PostgresError::Parameters { .. }),
            "{wrong}: {refused}"
        );
    }
    // The certificate of a client.
    let certified = |file: &str| {
        let (certificate, key) = (path(&format!("{file}.crt")), path(&format!("{file}.key")));
        let identity = format!("sslmode=require sslcert={certificate} sslkey={key}");
        of("certified", "localhost", &identity)
    };
    connect(&certified("certified")).unwrap();
    is_refused(&certified("stranger"));
    is_refused(&of("certified", "localhost", "sslmode=require"));
    // Without parameters, the files are those at home.
    let home = files.join("home");
    let copy = |from: &str, to: &str| {
        fs::copy(files.join(from), home.join(".postgresql").join(to)).unwrap();
    };
    fs::create_dir_all(home.join(".postgresql")).unwrap();
    assert!(!connects_at(&home, &local("sslmode=verify-full")));
    copy("authority.crt", "root.crt");
    assert!(connects_at(&home, &local("sslmode=verify-full")));
    let by_name = of("certified", "localhost", "sslmode=require");
    assert!(!connects_at(&home, &by_name));
    copy("certified.crt", "postgresql.crt");
    copy("certified.key", "postgresql.key");
    assert!(connects_at(&home, &by_name));
    copy("other.crt", "root.crt");
    assert!(!connects_at(&home, &by_name));
    // A key of root may be read by a group, and no key by everyone.
    let set = |mode| {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(files.join("certified.key"), mode).unwrap();
    };
    set(0o640);
    assert_eq!(connect(&certified("certified")).is_ok(), is_root());
    set(0o644);
    let refused = connect(&certified("certified")).map(drop).unwrap_err();
    assert!(refused.to_string().contains("other users"), "{refused}");
    // A socket needs no encryption, as with libpq.
    connect(&format!("{} sslmode=verify-full", server.parameters())).unwrap();
    // All connections of a member are encrypted, also that of its doorbell.
    let full = format!("sslmode=verify-full sslrootcert={trusted}");
    let member = connect(&local(&full)).unwrap();
    let member = Member::join(&member, "notes", MemberOptions::new(short("ann"))).unwrap();
    member.wait_store(LIMIT).unwrap();
    until("the doorbell is heard", || member.has_doorbell());
    member.execute(node("n")).unwrap();
    member.leave().unwrap();
    // A server may have the certificate that its clients trust.
    server.control(&["-m", "fast", "stop"]);
    server.run(&settings("authority"));
    connect(&local(&format!("sslmode=verify-ca sslrootcert={trusted}"))).unwrap();
    is_refused(&local(&format!(
        "sslmode=verify-full sslrootcert={trusted}"
    )));
    // A server without encryption.
    server.control(&["-m", "fast", "stop"]);
    server.run(&common);
    connect(&local("")).unwrap();
    is_refused(&local("sslmode=require"));
}
