//! The commands that the page calls.
//!
//! A command that can wait for the lock or the disk runs in a thread that may block. The others
//! return at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tauri::{AppHandle, Manager, State, WebviewUrl, WebviewWindow, WebviewWindowBuilder};

use crate::desktop::{Answer, Desktop, failure};

type Document<'a> = State<'a, Arc<Desktop>>;

#[tauri::command]
pub fn document(desktop: Document<'_>) -> Value {
    desktop.document()
}

#[tauri::command]
pub fn status(desktop: Document<'_>) -> Value {
    desktop.status()
}

#[tauri::command]
pub async fn edit(desktop: Document<'_>, window: WebviewWindow, script: String) -> Answer {
    let session = desktop.session(window.label());
    blocking(move || session.edit(&script)).await
}

#[tauri::command]
pub async fn undo(desktop: Document<'_>, window: WebviewWindow) -> Answer {
    let session = desktop.session(window.label());
    blocking(move || session.undo()).await
}

#[tauri::command]
pub async fn redo(desktop: Document<'_>, window: WebviewWindow) -> Answer {
    let session = desktop.session(window.label());
    blocking(move || session.redo()).await
}

#[tauri::command]
pub async fn begin_replacement(
    desktop: Document<'_>,
    window: WebviewWindow,
    find: String,
) -> Answer {
    let session = desktop.session(window.label());
    blocking(move || session.begin_replacement(&find)).await
}

#[tauri::command]
pub async fn end_replacement(
    desktop: Document<'_>,
    window: WebviewWindow,
    find: String,
    replacement: String,
) -> Answer {
    let session = desktop.session(window.label());
    blocking(move || session.end_replacement(&find, &replacement)).await
}

#[tauri::command]
pub fn cancel_replacement(desktop: Document<'_>, window: WebviewWindow) -> Answer {
    desktop.session(window.label()).cancel_replacement()
}

#[tauri::command]
pub async fn new_window(app: AppHandle) -> Answer {
    open_window(&app).map_err(|error| json!({"message": error.to_string()}))?;
    Ok(Value::Null)
}

/// Closes the window. Before the last one, the document is saved, and an error stays in its page.
#[tauri::command]
pub async fn close_window(app: AppHandle, window: WebviewWindow) -> Answer {
    let desktop = Arc::clone(&app.state::<Arc<Desktop>>());
    if app.webview_windows().len() == 1 {
        let store = Arc::clone(&desktop);
        blocking(move || store.close().map(|report| json!(report)).map_err(failure)).await?;
    }
    desktop.end_session(window.label());
    let destroyed = window.destroy();
    destroyed.map_err(|error| json!({"message": error.to_string()}))?;
    Ok(Value::Null)
}

pub fn open_window(app: &AppHandle) -> tauri::Result<()> {
    static WINDOWS: AtomicUsize = AtomicUsize::new(1);
    let number = WINDOWS.fetch_add(1, Ordering::Relaxed);
    WebviewWindowBuilder::new(app, format!("window-{number}"), WebviewUrl::default())
        .inner_size(560.0, 520.0)
        .on_document_title_changed(|window, title| drop(window.set_title(&title)))
        .build()?;
    Ok(())
}

async fn blocking(work: impl FnOnce() -> Answer + Send + 'static) -> Answer {
    let answer = tauri::async_runtime::spawn_blocking(work).await;
    answer.unwrap_or_else(|panic| Err(json!({"message": panic.to_string()})))
}
