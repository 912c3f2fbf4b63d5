//! A document in windows: an editor of plain text on a durable store, with Tauri.
//!
//! ```text
//! doclock-desktop FILE
//! doclock-desktop --print FILE
//! ```
//!
//! The second form prints the text of the file.

mod commands;
mod desktop;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use serde_json::json;
use tauri::{AppHandle, Emitter, Manager, RunEvent, Window, WindowEvent};

use desktop::Desktop;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const USAGE: &str = "usage: doclock-desktop [--print] FILE";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Outcome {
    let (file, print) = arguments().map_err(|error| format!("{error}\n{USAGE}"))?;
    match print {
        true => println!("{}", Desktop::open_existing(&file)?.text()),
        false => show(&file)?,
    }
    Ok(())
}

fn arguments() -> Result<(PathBuf, bool), lexopt::Error> {
    use lexopt::prelude::*;
    let (mut file, mut print) = (None, false);
    let mut arguments = lexopt::Parser::from_env();
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("print") => print = true,
            Value(path) if file.is_none() => file = Some(PathBuf::from(path)),
            other => return Err(other.unexpected()),
        }
    }
    Ok((file.ok_or("there is no FILE")?, print))
}

/// Opens the document and shows it until the last window is closed.
fn show(file: &Path) -> Outcome {
    let desktop = Arc::new(Desktop::open(file)?);
    let app = tauri::Builder::default()
        .manage(Arc::clone(&desktop))
        .invoke_handler(tauri::generate_handler![
            commands::document,
            commands::status,
            commands::edit,
            commands::undo,
            commands::redo,
            commands::begin_replacement,
            commands::end_replacement,
            commands::cancel_replacement,
            commands::new_window,
            commands::close_window,
        ])
        .on_window_event(save_before_close)
        .setup(|app| {
            let app = app.handle();
            commands::open_window(app)?;
            follow_commits(app);
            Ok(())
        })
        .build(tauri::generate_context!())?;
    app.run(|app, event| {
        // After the last window, or another regular end of the program.
        if let RunEvent::Exit = event {
            match app.state::<Arc<Desktop>>().close() {
                Ok(report) => println!("saved version {}", report.durable_version),
                Err(error) => {
                    eprintln!("the document was not saved: {error}");
                    std::process::exit(1);
                }
            }
        }
    });
    Ok(())
}

/// Sends each commit to all windows.
fn follow_commits(app: &AppHandle) {
    let app = app.clone();
    let commits = app.state::<Arc<Desktop>>().store.subscribe();
    thread::spawn(move || {
        for event in commits.iter() {
            let (version, owner) = (event.commit.version, &event.commit.owner);
            let _ = app.emit("commit", json!({"version": version, "owner": owner}));
        }
    });
}

/// Lets the page send its last edit before its window is closed. If the page does not respond, the
/// second request closes the window.
fn save_before_close(window: &Window, event: &WindowEvent) {
    if let WindowEvent::CloseRequested { api, .. } = event {
        let session = window.state::<Arc<Desktop>>().session(window.label());
        if session.is_first_close() {
            api.prevent_close();
            let _ = window.emit_to(window.label(), "closing", ());
        }
    }
}
