//! The program: opens the document, prints the address, serves the page.

use std::error::Error;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use axum::http::Uri;
use doclock::DataStore;
use doclock_live::cluster::{self, Cluster};
use doclock_live::document;
use doclock_live::location::Location;
use lexopt::prelude::*;

const HELP: &str = "\
A document that several browser tabs edit at once.

Usage: doclock-live [--store FILE] [--listen ADDRESS] [--web FOLDER] [--check]
       doclock-live --cluster PARAMETERS [--document NAME] [--listen ADDRESS] ...

  --store FILE          the document (live.doclock)
  --cluster PARAMETERS  the PostgreSQL server that has the document for several servers, for example
                        'host=/run/postgresql dbname=app'
  --document NAME       the document in the cluster (live)
  --listen ADDRESS      where to listen (127.0.0.1:7878; port 0 is any free port); the other servers
                        of a cluster must reach it
  --origin URL          a further address of the page, for example of a proxy with TLS; repeatable
  --web FOLDER          the built page (web/dist beside this package)
  --check               prints the text of the document and the text that its log gives, as JSON

While it runs, the line `hold SECONDS` on its standard input holds the lock for so long, or until
the next line or the end of the input.
";

struct Arguments {
    document: Document,
    listen: SocketAddr,
    origins: Vec<Uri>,
    web: PathBuf,
    check: bool,
}

enum Document {
    File(PathBuf),
    Cluster { parameters: String, name: String },
}

fn arguments() -> Result<Option<Arguments>, lexopt::Error> {
    let (mut store, mut parameters, mut name) = (None, None, None);
    let mut listen = SocketAddr::from(([127, 0, 0, 1], 7878));
    let mut web = concat!(env!("CARGO_MANIFEST_DIR"), "/web/dist").into();
    let (mut origins, mut check) = (Vec::new(), false);
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("store") => store = Some(parser.value()?.into()),
            Long("cluster") => parameters = Some(parser.value()?.string()?),
            Long("document") => name = Some(parser.value()?.string()?),
            Long("listen") => listen = parser.value()?.parse()?,
            Long("origin") => origins.push(parser.value()?.parse()?),
            Long("web") => web = parser.value()?.into(),
            Long("check") => check = true,
            Long("help") | Short('h') => return Ok(None),
            _ => return Err(argument.unexpected()),
        }
    }
    let document = match (parameters, store, name) {
        (Some(parameters), None, name) => Document::Cluster {
            parameters,
            name: name.unwrap_or_else(|| "live".into()),
        },
        (None, store, None) => Document::File(store.unwrap_or_else(|| "live.doclock".into())),
        (Some(_), Some(_), _) => return Err("--store and --cluster exclude each other".into()),
        (None, _, Some(_)) => return Err("--document needs --cluster".into()),
    };
    Ok(Some(Arguments {
        document,
        listen,
        origins,
        web,
        check,
    }))
}

fn main() -> ExitCode {
    let outcome = match arguments() {
        Ok(Some(arguments)) if arguments.check => check(&arguments),
        Ok(Some(arguments)) => serve(&arguments),
        Ok(None) => {
            print!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => Err(error.into()),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::FAILURE
    })
}

fn check(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let report = match &arguments.document {
        Document::File(path) => document::check(path)?,
        Document::Cluster { parameters, name } => cluster::check(parameters, name)?,
    };
    writeln!(io::stdout(), "{}", serde_json::to_string(&report)?)?;
    Ok(match report.text == report.replayed {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn serve(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    if !arguments.web.join("main.js").is_file() {
        let web = arguments.web.display();
        return Err(format!(
            "there is no page in {web}: run `npm ci && npm run build` in examples/apps/live/web"
        )
        .into());
    }
    let listener = std::net::TcpListener::bind(arguments.listen)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    match &arguments.document {
        Document::File(path) => {
            let store = document::open(path)?;
            let held = store.clone();
            let location = Location::of_store(&store);
            run(location, listener, arguments, move || Some(held.clone()))?;
            // Requests that still wait are refused, so their threads end.
            let report = store.close()?;
            writeln!(io::stdout(), "closed at version {}", report.durable_version)?;
        }
        Document::Cluster { parameters, name } => {
            let cluster = Cluster::join(parameters, name, address)?;
            let (location, held) = (cluster.location.clone(), cluster.member.clone());
            run(location, listener, arguments, move || held.store())?;
            writeln!(io::stdout(), "left at version {}", cluster.leave()?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Serves until a signal comes or the document ends. `store` is what the operator can hold.
fn run(
    location: Location,
    listener: std::net::TcpListener,
    arguments: &Arguments,
    store: impl Fn() -> Option<DataStore> + Send + 'static,
) -> io::Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        writeln!(io::stdout(), "http://{}/", listener.local_addr()?)?;
        std::thread::spawn(move || obey(&store));
        let Arguments { origins, web, .. } = arguments;
        doclock_live::serve(location, listener, web, origins, stopped()).await
    })
}

/// Waits for a signal to end. Without a handler the process ends at it, which loses no commit
/// either.
async fn stopped() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}

/// Holds the lock at the operator's command, to show how the tabs wait and what the panel reports.
fn obey(store: &impl Fn() -> Option<DataStore>) {
    let (send, lines) = mpsc::channel();
    std::thread::spawn(move || {
        let mut typed = io::stdin().lines().map_while(Result::ok);
        typed.try_for_each(|line| send.send(line))
    });
    let mut next = lines.recv().ok();
    while let Some(line) = next {
        let seconds = line
            .strip_prefix("hold ")
            .and_then(|seconds| seconds.trim().parse().ok());
        next = match seconds {
            Some(seconds @ 0..=60) => match store() {
                Some(store) => hold(&store, || {
                    lines.recv_timeout(Duration::from_secs(seconds)).ok()
                }),
                None => {
                    eprintln!("another server has the document");
                    None
                }
            },
            _ => {
                if !line.is_empty() {
                    eprintln!("{line:?} is not `hold SECONDS`, with at most 60 seconds");
                }
                None
            }
        };
        next = next.or_else(|| lines.recv().ok());
    }
}

fn hold<T>(store: &DataStore, meanwhile: impl FnOnce() -> Option<T>) -> Option<T> {
    match store.request("operator").label("hold").wait() {
        Ok(_guard) => meanwhile(),
        Err(error) => {
            eprintln!("{error}");
            None
        }
    }
}
