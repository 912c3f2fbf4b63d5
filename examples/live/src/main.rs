//! The program: opens the document, prints the address, serves the page.

use std::error::Error;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use doclock::DataStore;
use doclock::lock::AcquireOptions;
use doclock_live::document;
use lexopt::prelude::*;

const HELP: &str = "\
A document that several browser tabs edit at once.

Usage: doclock-live [--store FILE] [--listen ADDRESS] [--web FOLDER] [--check]

  --store FILE      the document (live.doclock)
  --listen ADDRESS  where to listen (127.0.0.1:7878; port 0 is any free port)
  --web FOLDER      the built page (web/dist beside this package)
  --check           prints the text of the document and the text that its log gives, as JSON

While it runs, the line `hold SECONDS` on its standard input holds the lock for so long, or until
the next line or the end of the input.
";

struct Arguments {
    store: PathBuf,
    listen: SocketAddr,
    web: PathBuf,
    check: bool,
}

fn arguments() -> Result<Option<Arguments>, lexopt::Error> {
    let mut arguments = Arguments {
        store: "live.doclock".into(),
        listen: SocketAddr::from(([127, 0, 0, 1], 7878)),
        web: concat!(env!("CARGO_MANIFEST_DIR"), "/web/dist").into(),
        check: false,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("store") => arguments.store = parser.value()?.into(),
            Long("listen") => arguments.listen = parser.value()?.parse()?,
            Long("web") => arguments.web = parser.value()?.into(),
            Long("check") => arguments.check = true,
            Long("help") | Short('h') => return Ok(None),
            _ => return Err(argument.unexpected()),
        }
    }
    Ok(Some(arguments))
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
    let report = document::check(&arguments.store)?;
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
            "there is no page in {web}: run `npm ci && npm run build` in examples/live/web"
        )
        .into());
    }
    let store = document::open(&arguments.store)?;
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(arguments.listen).await?;
        writeln!(io::stdout(), "http://{}/", listener.local_addr()?)?;
        let operator = store.clone();
        std::thread::spawn(move || obey(&operator));
        let stop = async {
            // Without a handler the process ends at the signal, which loses no commit either.
            let _ = tokio::signal::ctrl_c().await;
        };
        doclock_live::serve(store.clone(), listener, &arguments.web, stop).await
    })?;
    // Requests that still wait are refused, so their threads end.
    let report = store.close()?;
    writeln!(io::stdout(), "closed at version {}", report.durable_version)?;
    Ok(ExitCode::SUCCESS)
}

/// Holds the lock at the operator's command, to show how the tabs wait and what the panel reports.
fn obey(store: &DataStore) {
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
            Some(seconds @ 0..=60) => hold(store, || {
                lines.recv_timeout(Duration::from_secs(seconds)).ok()
            }),
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
    match store.lock_with("operator", AcquireOptions::new().label("hold")) {
        Ok(_guard) => meanwhile(),
        Err(error) => {
            eprintln!("{error}");
            None
        }
    }
}
