//! The doorbell: owners and followers wake each other with NOTIFY, over one connection a process.
//!
//! A ring only says that there is something to look at, so a lost one costs no more than a poll.
//! Each is a transaction of its own, because commits that notify wait for each other in the whole
//! cluster of databases. On a document there is one in 20 ms at most: the first at once, and what
//! came meanwhile at the end of the 20 ms.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::AbortHandle;
use tokio::time::{timeout, timeout_at};
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client};

use crate::connection::PostgresSession;
use crate::random::random;
use crate::server::Connections;
use crate::{Postgres, PostgresError, PostgresOptions};

/// The shortest time between two rings of a document.
const PAUSE: Duration = Duration::from_millis(20);

/// How long the ring of a hand-over is waited for.
const LAST_RING: Duration = Duration::from_millis(100);

/// How long a notification may take that has to come back.
const ECHO: Duration = Duration::from_secs(2);

/// When the connection is checked, which is silent for as long as nothing rings.
const CHECK: Duration = Duration::from_secs(15);

/// When it is tried again where notifications do not arrive, as behind a pooler.
const UNHEARD: Duration = Duration::from_secs(60);

/// The doorbell of a process.
pub(crate) struct Doorbell {
    /// The schema, which is the channel too.
    channel: String,
    bells: Mutex<Bells>,
    inputs: UnboundedSender<Input>,
    /// Taken by the task when it starts.
    unstarted: Mutex<Option<UnboundedReceiver<Input>>>,
    is_listening: AtomicBool,
}

#[derive(Default)]
struct Bells {
    /// What is woken for a document.
    members: HashMap<String, Vec<Sender<()>>>,
    /// The documents that rang within the last 20 ms, or are to ring.
    rings: HashMap<String, Ring>,
}

#[derive(Default)]
struct Ring {
    last: Option<Instant>,
    /// The version that is to be rung.
    version: Option<u64>,
    /// Dropped when it has rung.
    waits: Option<Sender<()>>,
}

/// What the task of the doorbell waits for.
enum Input {
    /// The payload of a notification.
    Heard(String),
    /// The connection with this number is lost.
    Lost(u64),
    /// There is a ring or a member.
    Changed,
}

/// A member that is woken, for as long as this exists.
pub(super) struct DoorbellRegistration {
    doorbell: Arc<Doorbell>,
    document: String,
    sender: Sender<()>,
}

/// Rings for the writes of an owner.
#[derive(Clone)]
pub(super) struct Bell {
    doorbell: Arc<Doorbell>,
    document: Arc<str>,
}

impl Bell {
    pub(super) fn new(server: &Postgres, document: &str) -> Self {
        Self {
            doorbell: Arc::clone(&server.connections().doorbell),
            document: document.into(),
        }
    }

    /// Whether the members of this process hear the doorbell now.
    pub(super) fn is_heard(&self) -> bool {
        self.doorbell.is_listening()
    }

    /// Rings soon. Never waits for the server.
    pub(super) fn ring(&self, version: u64) {
        let is_new = {
            let rings = &mut self.doorbell.bells.lock().rings;
            match rings.get_mut(&*self.document) {
                Some(ring) => ring.version.replace(version).is_none(),
                None => {
                    let ring = Ring {
                        version: Some(version),
                        ..Ring::default()
                    };
                    rings.insert(self.document.to_string(), ring);
                    true
                }
            }
        };
        if is_new {
            self.doorbell.changed();
        }
    }

    /// Rings at once, because the lease is free. Waits for a moment until it has rung: the process
    /// may end next.
    pub(super) fn ring_now(&self, version: u64) {
        let (waits, rung) = crossbeam_channel::bounded(1);
        let ring = Ring {
            last: None,
            version: Some(version),
            waits: Some(waits),
        };
        let document = self.document.to_string();
        self.doorbell.bells.lock().rings.insert(document, ring);
        self.doorbell.changed();
        if self.doorbell.is_listening() {
            let _ = rung.recv_timeout(LAST_RING);
        }
    }
}

impl DoorbellRegistration {
    /// Registers a member, and starts the doorbell with the first one.
    pub(super) fn new(server: &Postgres, document: &str) -> (Self, Receiver<()>) {
        let doorbell = Arc::clone(&server.connections().doorbell);
        let (sender, woken) = crossbeam_channel::bounded(1);
        {
            let members = &mut doorbell.bells.lock().members;
            let of_document = members.entry(document.to_owned()).or_default();
            of_document.push(sender.clone());
        }
        if let Some(inputs) = doorbell.unstarted.lock().take() {
            let weak = Arc::downgrade(server.connections());
            server.spawn(Arc::clone(&doorbell).run(weak, inputs));
        }
        doorbell.changed();
        let document = document.to_owned();
        let registered = Self {
            doorbell,
            document,
            sender,
        };
        (registered, woken)
    }
}

impl Drop for DoorbellRegistration {
    fn drop(&mut self) {
        {
            let members = &mut self.doorbell.bells.lock().members;
            if let Some(of_document) = members.get_mut(&self.document) {
                of_document.retain(|sender| !sender.same_channel(&self.sender));
                if of_document.is_empty() {
                    members.remove(&self.document);
                }
            }
        }
        self.doorbell.changed();
    }
}

/// A connection that listens.
struct Listening {
    client: Client,
    checked: Instant,
    task: AbortHandle,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Doorbell {
    pub(crate) fn new(options: &PostgresOptions) -> Self {
        let (inputs, receiver) = mpsc::unbounded_channel();
        Self {
            channel: options.schema.clone(),
            bells: Mutex::default(),
            inputs,
            unstarted: Mutex::new(Some(receiver)),
            is_listening: AtomicBool::new(false),
        }
    }

    pub(super) fn is_listening(&self) -> bool {
        self.is_listening.load(Ordering::Relaxed)
    }

    fn set_listening(&self, is_listening: bool) {
        self.is_listening.store(is_listening, Ordering::Relaxed);
    }

    fn changed(&self) {
        // The task ends with the connections, and then nothing rings.
        let _ = self.inputs.send(Input::Changed);
    }

    async fn run(
        self: Arc<Self>,
        connections: Weak<Connections>,
        mut inputs: UnboundedReceiver<Input>,
    ) {
        let (mut listening, mut number) = (None, 0);
        let mut retry = Instant::now();
        loop {
            let is_needed = self.is_needed(listening.is_some());
            if !is_needed {
                drop(listening.take());
            }
            self.set_listening(listening.is_some());
            if is_needed && listening.is_none() && Instant::now() >= retry {
                number += 1;
                let connected = self.connect(&connections, number, &mut inputs).await;
                listening = connected
                    .map_err(|pause| retry = Instant::now() + pause)
                    .ok();
                self.set_listening(listening.is_some());
                // Nothing was heard meanwhile.
                self.wake_all();
            }
            let next = match &listening {
                Some(listening) => self.next_ring(listening.checked + CHECK),
                None => retry.max(Instant::now() + Duration::from_millis(10)),
            };
            let input = match is_needed {
                true => timeout_at(next.into(), inputs.recv()).await.ok(),
                false => Some(inputs.recv().await),
            };
            match input {
                Some(Some(Input::Heard(payload))) => self.wake(&payload),
                Some(Some(Input::Lost(lost))) if lost == number => listening = None,
                Some(Some(Input::Lost(_) | Input::Changed)) | None => {}
                Some(None) => return,
            }
            if let Some(open) = &mut listening
                && self.ring_or_check(open).await.is_err()
            {
                listening = None;
            }
        }
    }

    /// Connects, and makes sure that notifications of another connection arrive. Returns when to
    /// try again if they do not.
    async fn connect(
        &self,
        connections: &Weak<Connections>,
        number: u64,
        inputs: &mut UnboundedReceiver<Input>,
    ) -> Result<Listening, Duration> {
        let soon = Duration::from_millis(500);
        let options = Arc::clone(&connections.upgrade().ok_or(UNHEARD)?.options);
        let listening = self.listen(&options, number).await;
        let listening = listening.map_err(|_| soon)?;
        let other = PostgresSession::connect(&options).await.map_err(|_| soon)?;
        // A pooler lends the connection for each statement to another client, and then nothing
        // arrives here. The token is no name of a document.
        let token = format!("{:016x}", random());
        let until = Instant::now() + ECHO;
        let parameters = [(&self.channel as _, Type::TEXT), (&token as _, Type::TEXT)];
        let notify = other.query("SELECT pg_notify($1, $2)", &parameters);
        let notified = timeout_at(until.into(), notify).await;
        notified.map_err(|_| soon)?.map_err(|_| soon)?;
        loop {
            match timeout_at(until.into(), inputs.recv()).await {
                Ok(Some(Input::Heard(heard))) if heard == token => return Ok(listening),
                Ok(Some(Input::Heard(heard))) => self.wake(&heard),
                Ok(Some(Input::Lost(lost))) if lost == number => return Err(soon),
                Ok(Some(Input::Lost(_) | Input::Changed)) => {}
                Ok(None) | Err(_) => return Err(UNHEARD),
            }
        }
    }

    async fn listen(
        &self,
        options: &PostgresOptions,
        number: u64,
    ) -> Result<Listening, PostgresError> {
        let limit = options.connect_timeout;
        let connect = async {
            let (client, mut connection) = options.connect(" doorbell").await?;
            let inputs = self.inputs.clone();
            let task = tokio::spawn(async move {
                let mut messages = stream::poll_fn(|context| connection.poll_message(context));
                while let Some(Ok(message)) = messages.next().await {
                    if let AsyncMessage::Notification(heard) = message {
                        let _ = inputs.send(Input::Heard(heard.payload().to_owned()));
                    }
                }
                let _ = inputs.send(Input::Lost(number));
            });
            let listening = Listening {
                client,
                checked: Instant::now(),
                task: task.abort_handle(),
            };
            let channel = crate::schema::quoted(&self.channel);
            let listen = format!("LISTEN {channel}");
            listening.client.batch_execute(&listen).await?;
            Ok(listening)
        };
        let connected = timeout(limit, connect).await;
        connected.unwrap_or(Err(PostgresError::Timeout { timeout: limit }))
    }

    /// When the next document is to ring, or `limit` if that is earlier.
    fn next_ring(&self, limit: Instant) -> Instant {
        let bells = self.bells.lock();
        let due = bells.rings.values().filter(|ring| ring.version.is_some());
        let due = due.map(|ring| ring.last.map_or_else(Instant::now, |last| last + PAUSE));
        due.min().map_or(limit, |due| due.min(limit))
    }

    /// Takes the documents that are to ring now, with their versions and what waits for that.
    fn take_rings(&self) -> Vec<(String, u64, Option<Sender<()>>)> {
        let now = Instant::now();
        let mut due = Vec::new();
        self.bells.lock().rings.retain(|document, ring| {
            if ring.last.is_some_and(|last| now < last + PAUSE) {
                return true;
            }
            let Some(version) = ring.version.take() else {
                return false;
            };
            due.push((document.clone(), version, ring.waits.take()));
            ring.last = Some(now);
            true
        });
        due
    }

    /// Whether there is a member, or a ring that the last one has left.
    fn is_needed(&self, is_listening: bool) -> bool {
        let mut bells = self.bells.lock();
        if bells.members.is_empty() && !is_listening {
            bells.rings.clear();
        }
        let rings = bells.rings.values().any(|ring| ring.version.is_some());
        rings || !bells.members.is_empty()
    }

    async fn ring_or_check(&self, listening: &mut Listening) -> Result<(), PostgresError> {
        let rings = self.take_rings();
        if rings.is_empty() && listening.checked.elapsed() < CHECK {
            return Ok(());
        }
        let payload = |(document, version, _): &(String, u64, _)| format!("{version} {document}");
        let payloads: Vec<_> = rings.iter().map(payload).collect();
        // A ring that a crash of the server loses is no loss, so it does not wait for the disk.
        let statement = "SELECT pg_notify($1, ring), set_config('synchronous_commit', 'off', true)
            FROM unnest($2::text[]) ring";
        let parameters = [
            (&self.channel as _, Type::TEXT),
            (&payloads as _, Type::TEXT_ARRAY),
        ];
        let answer = listening.client.query_typed(statement, &parameters);
        let answer = match timeout(ECHO, answer).await {
            Ok(answer) => answer.map(drop).map_err(PostgresError::from),
            Err(_) => Err(PostgresError::Timeout { timeout: ECHO }),
        };
        match &answer {
            Ok(()) => listening.checked = Instant::now(),
            Err(_) => self.ring_again(rings),
        }
        answer
    }

    /// Keeps rings that may not have left, for the next connection.
    fn ring_again(&self, rings: Vec<(String, u64, Option<Sender<()>>)>) {
        let due = &mut self.bells.lock().rings;
        for (document, version, _) in rings {
            let ring = due.entry(document).or_default();
            ring.version.get_or_insert(version);
        }
    }

    /// Wakes the members of the document that a notification names.
    fn wake(&self, payload: &str) {
        let Some((_, document)) = payload.split_once(' ') else {
            return;
        };
        let bells = self.bells.lock();
        for member in bells.members.get(document).into_iter().flatten() {
            // A member that is woken already looks after this too.
            let _ = member.try_send(());
        }
    }

    fn wake_all(&self) {
        let bells = self.bells.lock();
        for member in bells.members.values().flatten() {
            let _ = member.try_send(());
        }
    }
}
