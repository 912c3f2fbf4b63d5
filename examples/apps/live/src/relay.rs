//! The relay: passes the messages of a tab to the server that has the document, and back.

use std::future::Future;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use axum::http::{HeaderName, HeaderValue, header};
use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::CloseFrame as UpstreamFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, Message as UpstreamMessage};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

use crate::connection::is_too_big;
use crate::hub::Close;

/// Marks the connection of a relay. The server that gets it serves the tab itself.
pub const RELAYED: HeaderName = HeaderName::from_static("doclock-relayed");

/// How long the other server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(1);
/// How long each end may take to receive a close frame.
const CLOSE: Duration = Duration::from_secs(1);
/// How long a tab may take to make room for a message.
const ROOM: Duration = Duration::from_secs(10);
/// How long the other server may be silent. It shows its panel four times a second.
const SILENCE: Duration = Duration::from_secs(10);

/// The connection to the server that has the document.
pub type Upstream = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Connects to the server at an address. `None` if it does not accept, or no longer has the
/// document.
pub async fn connect(address: &str) -> Option<Upstream> {
    let mut request = format!("ws://{address}/live").into_client_request().ok()?;
    let origin = HeaderValue::try_from(format!("http://{address}")).ok()?;
    request.headers_mut().insert(header::ORIGIN, origin);
    request
        .headers_mut()
        .insert(RELAYED, HeaderValue::from_static("1"));
    let connected = connect_async_with_config(request, None, true);
    let (upstream, _) = timeout(CONNECT, connected).await.ok()?.ok()?;
    Some(upstream)
}

/// Passes messages in both directions until one end closes, or the document has `moved`.
///
/// A message waits here until its receiver has room, for some seconds. So a tab that does not read
/// fills its queue in the server that has the document, or is disconnected here.
pub async fn pass(tab: WebSocket, upstream: Upstream, moved: impl Future<Output = ()>) {
    let (mut to_tab, mut from_tab) = tab.split();
    let (mut to_upstream, mut from_upstream) = upstream.split();
    let up = async {
        while let Some(message) = from_tab.next().await {
            let message = match message {
                Ok(message) => message,
                Err(error) if is_too_big(&error) => return Some(Close::TOO_BIG.frame()),
                Err(_) => break,
            };
            let message = match message {
                Message::Text(text) => UpstreamMessage::text(text.as_str()),
                Message::Binary(bytes) => UpstreamMessage::Binary(bytes),
                Message::Close(_) => break,
                // Each connection answers its own.
                Message::Ping(_) | Message::Pong(_) => continue,
            };
            if to_upstream.send(message).await.is_err() {
                break;
            }
        }
        None
    };
    let down = async {
        while let Ok(Some(Ok(message))) = timeout(SILENCE, from_upstream.next()).await {
            let message = match message {
                UpstreamMessage::Text(text) => Message::Text(text.as_str().into()),
                UpstreamMessage::Close(frame) => return frame.map(of_upstream),
                _ => continue,
            };
            match timeout(ROOM, to_tab.send(message)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => break,
                Err(_) => return Some(Close::SLOW.frame()),
            }
        }
        None
    };
    let frame = tokio::select! {
        frame = down => frame,
        frame = up => frame,
        () = moved => None,
    };
    let frame = frame.unwrap_or_else(|| Close::SHUT_DOWN.frame());
    let bye = UpstreamMessage::Close(Some(UpstreamFrame {
        code: CloseCode::Away,
        reason: tungstenite::Utf8Bytes::default(),
    }));
    let _ = timeout(CLOSE, to_tab.send(Message::Close(Some(frame)))).await;
    let _ = timeout(CLOSE, to_upstream.send(bye)).await;
}

fn of_upstream(frame: UpstreamFrame) -> CloseFrame {
    CloseFrame {
        code: frame.code.into(),
        reason: frame.reason.as_str().into(),
    }
}
