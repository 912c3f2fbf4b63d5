//! A server for a document that several browser tabs edit at once.
//!
//! `README.md` has the protocol and the reasons.

pub mod cluster;
mod connection;
pub mod document;
mod hub;
pub mod place;
pub mod protocol;
mod relay;
pub mod splice;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State, WebSocketUpgrade};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tower::ServiceBuilder;
use tower::limit::GlobalConcurrencyLimitLayer;
use tower_http::services::ServeDir;
use tower_http::set_header::SetResponseHeaderLayer;
use tower_http::timeout::TimeoutLayer;

use place::Place;

/// The most tabs.
pub const MAX_TABS: usize = 1_000;
/// The most requests at once that are no open WebSocket.
const MAX_REQUESTS: usize = 100;
const REQUEST_TIME: Duration = Duration::from_secs(10);
const PANEL_INTERVAL: Duration = Duration::from_millis(250);
/// The page loads nothing from elsewhere. CodeMirror makes its styles at run time.
const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'";

#[derive(Clone)]
struct App {
    place: Place,
    tabs: Arc<Semaphore>,
    /// What a browser names as the host of this server.
    hosts: Arc<[String]>,
}

/// Serves a document, and the page in the folder `web`, until the place has ended or `stop`
/// resolves.
pub async fn serve(
    place: Place,
    listener: TcpListener,
    web: &Path,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let app = App {
        place: place.clone(),
        tabs: Arc::new(Semaphore::new(MAX_TABS)),
        hosts: hosts(listener.local_addr()?).into(),
    };
    let limits = ServiceBuilder::new()
        .layer(GlobalConcurrencyLimitLayer::new(MAX_REQUESTS))
        .layer(TimeoutLayer::with_status_code(
            StatusCode::REQUEST_TIMEOUT,
            REQUEST_TIME,
        ))
        .layer(always(header::CONTENT_SECURITY_POLICY, POLICY))
        .layer(always(header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .layer(from_fn_with_state(app.clone(), only_own_host));
    let router = Router::new()
        .route("/live", get(live))
        .fallback_service(ServeDir::new(web))
        .layer(limits)
        .with_state(app);
    // A small message does not wait for the acknowledgement of the one before.
    let listener = listener.tap_io(|connection| {
        let _ = connection.set_nodelay(true);
    });
    let shown = place.clone();
    let panel = async {
        let mut interval = tokio::time::interval(PANEL_INTERVAL);
        loop {
            interval.tick().await;
            if let Some(hub) = shown.hub() {
                hub.show_panel();
            }
        }
    };
    tokio::select! {
        served = axum::serve(listener, router) => served,
        () = panel => Ok(()),
        () = place.ended() => Ok(()),
        () = stop => Ok(()),
    }
}

fn always(name: HeaderName, value: &'static str) -> SetResponseHeaderLayer<HeaderValue> {
    SetResponseHeaderLayer::overriding(name, HeaderValue::from_static(value))
}

/// The address itself, and `localhost` if it is one of the loopback.
fn hosts(address: SocketAddr) -> Vec<String> {
    let mut hosts = vec![address.to_string()];
    if address.ip().is_loopback() {
        hosts.push(format!("localhost:{}", address.port()));
    }
    hosts
}

/// Refuses a request for another host: a page of another site whose name leads to this address.
async fn only_own_host(State(app): State<App>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok());
    match host.is_some_and(|host| app.hosts.iter().any(|own| own == host)) {
        true => next.run(request).await,
        false => (
            StatusCode::FORBIDDEN,
            "the Host of the request is not this server\n",
        )
            .into_response(),
    }
}

/// Upgrades to a WebSocket, for the page of this server only.
async fn live(State(app): State<App>, headers: HeaderMap, upgrade: WebSocketUpgrade) -> Response {
    let origin = headers.get(header::ORIGIN);
    let origin = origin.and_then(|origin| origin.to_str().ok()?.strip_prefix("http://"));
    if !origin.is_some_and(|origin| app.hosts.iter().any(|own| own == origin)) {
        return (
            StatusCode::FORBIDDEN,
            "the Origin of the request is not this server\n",
        )
            .into_response();
    }
    let is_relayed = headers.contains_key(relay::RELAYED);
    if is_relayed && app.place.hub().is_none() {
        return (
            StatusCode::SERVICE_UNAVAILABLE,
            "the document is on another server\n",
        )
            .into_response();
    }
    let Ok(permit) = app.tabs.try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "there are too many tabs\n").into_response();
    };
    let upgrade = upgrade
        .max_message_size(connection::MAX_MESSAGE)
        .max_frame_size(connection::MAX_MESSAGE);
    upgrade.on_upgrade(move |socket| async move {
        app.place.serve(socket, is_relayed).await;
        drop(permit);
    })
}
