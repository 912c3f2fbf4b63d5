//! A server for a document that several browser tabs edit at once.
//!
//! `README.md` has the protocol and the reasons.

pub mod cluster;
mod connection;
pub mod document;
mod hub;
pub mod location;
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
use axum::http::uri::{Authority, Uri};
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

use location::Location;

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
    location: Location,
    tabs: Arc<Semaphore>,
    /// The pages that may use this server.
    origins: Arc<[Uri]>,
}

/// Serves a document, and the page in the folder `web`, until the location has ended or `stop`
/// resolves. The page may be loaded from the address of the listener, and from further `origins`:
/// those of a proxy.
pub async fn serve(
    location: Location,
    listener: TcpListener,
    web: &Path,
    origins: &[Uri],
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let app = App {
        location: location.clone(),
        tabs: Arc::new(Semaphore::new(MAX_TABS)),
        origins: own_origins(listener.local_addr()?)
            .chain(origins.iter().cloned())
            .collect(),
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
    let shown = location.clone();
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
        () = location.ended() => Ok(()),
        () = stop => Ok(()),
    }
}

fn always(name: HeaderName, value: &'static str) -> SetResponseHeaderLayer<HeaderValue> {
    SetResponseHeaderLayer::overriding(name, HeaderValue::from_static(value))
}

/// The address itself, and `localhost` if it is one of the loopback.
fn own_origins(address: SocketAddr) -> impl Iterator<Item = Uri> {
    let local = address.ip().is_loopback();
    let local = local.then(|| format!("localhost:{}", address.port()));
    let hosts = [Some(address.to_string()), local].into_iter().flatten();
    hosts.filter_map(|host| format!("http://{host}/").parse().ok())
}

/// Refuses a request for another host: a page of another site whose name leads to this address.
async fn only_own_host(State(app): State<App>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok());
    let is_own = |origin: &Uri| origin.authority().map(Authority::as_str) == host;
    match app.origins.iter().any(is_own) {
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
    let origin = origin.and_then(|origin| origin.to_str().ok()?.parse::<Uri>().ok());
    let is_own = |own: &Uri| {
        let origin = origin.as_ref();
        origin.is_some_and(|it| it.scheme() == own.scheme() && it.authority() == own.authority())
    };
    if !app.origins.iter().any(is_own) {
        return (
            StatusCode::FORBIDDEN,
            "the Origin of the request is not this server\n",
        )
            .into_response();
    }
    let is_relayed = headers.contains_key(relay::RELAYED);
    if is_relayed && app.location.hub().is_none() {
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
        app.location.serve(socket, is_relayed).await;
        drop(permit);
    })
}
