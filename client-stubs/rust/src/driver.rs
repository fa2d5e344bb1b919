// SPDX-License-Identifier: Apache-2.0
//! The tasks of a consumer: one reads the stream, one sends settlements.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use serde_json::json;
use tokio::time::{sleep, sleep_until, timeout};

use crate::consumer::{catch_panic, Shared};
use crate::delivery::Delivery;
use crate::engine::RETRY_AFTER_MAX;
use crate::error::{Error, SidecarError};
use crate::event::Event;
use crate::http::{CallError, Caller, Connection, ANSWER_MAX};
use crate::options::Options;
use crate::request::Answer;
use crate::wire::take_frames;

const BACKOFF_FIRST: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
const BACKOFF_DOUBLINGS_MAX: u32 = 10;
const HEARTBEATS_MISSED: u32 = 3;
const PERSISTED_WAIT_MS: u64 = 10_000;

/// Serves the consumer until it is closed, or fails.
pub(crate) async fn serve(shared: Arc<Shared>) {
    let result = catch_panic(read_and_settle(&shared)).await;
    if let Err(error) = result.unwrap_or(Err(Error::EventHandlerPanicked)) {
        shared.fail(error);
    }
}

async fn read_and_settle(shared: &Shared) -> Result<(), Error> {
    let mut caller = Caller::default();
    let result = tokio::select! {
        error = read_streams(shared) => Err(error),
        result = settle_until_closing(shared, &mut caller) => result,
    };
    result.and(end(shared, &mut caller).await)
}

// --- The stream ---

/// Why a stream has ended.
enum Lost {
    /// The consumer connects again.
    ForNow {
        reason: String,
        retry_after: Duration,
    },
    ForGood(Error),
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Self {
        Lost::ForNow { reason: error.to_string(), retry_after: Duration::ZERO }
    }
}

impl From<SidecarError> for Lost {
    fn from(error: SidecarError) -> Self {
        if error.is_temporary() {
            return Lost::ForNow { reason: error.to_string(), retry_after: error.retry_after.unwrap_or_default() };
        }
        Lost::ForGood(error.into())
    }
}

async fn read_streams(shared: &Shared) -> Error {
    let mut retries = 0;
    loop {
        let (reason, retry_after) = match read_stream(shared, &mut retries).await {
            Lost::ForNow { reason, retry_after } => (reason, retry_after),
            Lost::ForGood(error) => return error,
        };
        shared.engine().disconnected();
        let retry_in = backoff(retries).max(retry_after.min(RETRY_AFTER_MAX));
        retries += 1;
        shared.options.tell(Event::Disconnected { reason, retry_in });
        sleep(retry_in).await;
    }
}

fn backoff(retries: u32) -> Duration {
    let pause = BACKOFF_MAX.min(BACKOFF_FIRST * 2_u32.pow(retries.min(BACKOFF_DOUBLINGS_MAX)));
    // Each RandomState has other keys.
    let random = RandomState::new().build_hasher().finish() % 1000;
    pause / 2 + pause / 2 * u32::try_from(random).unwrap_or(0) / 1000
}

async fn read_stream(shared: &Shared, retries: &mut u32) -> Lost {
    match try_read_stream(shared, retries).await {
        Ok(()) => io::Error::other("the sidecar ended the stream").into(),
        Err(lost) => lost,
    }
}

async fn try_read_stream(shared: &Shared, retries: &mut u32) -> Result<(), Lost> {
    let options = &shared.options;
    let mut connection = Connection::open(&options.address).await?;
    let mut response = unless_silent(shared, async {
        connection.send(options, "GET", &options.stream_target(), None).await?;
        connection.response().await
    })
    .await?;
    if response.status >= 400 {
        let body = unless_silent(shared, connection.read_all(&mut response)).await?;
        return Err(SidecarError::of_response(response.status, response.retry_after, &body).into());
    }
    let mut buffer = BytesMut::new();
    while !response.is_complete() {
        unless_silent(shared, connection.read(&mut response, &mut buffer)).await?;
        let mut frames = Vec::new();
        let taken = take_frames(&mut buffer, &mut frames);
        if !frames.is_empty() {
            *retries = 0;
            let events = shared.engine().receive(frames, Instant::now());
            take_events(shared, events)?;
        }
        taken?;
    }
    Ok(())
}

/// An error if the sidecar has missed its heartbeats.
async fn unless_silent<T>(shared: &Shared, reading: impl std::future::Future<Output = io::Result<T>>) -> io::Result<T> {
    let silence = shared.engine().heartbeat * HEARTBEATS_MISSED + Duration::from_secs(1);
    timeout(silence, reading).await.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no heartbeat")))
}

fn take_events(shared: &Shared, events: Vec<Event>) -> Result<(), Lost> {
    for event in events {
        let is_taken_over = matches!(&event, Event::Ended { reason } if reason == "taken_over");
        shared.options.tell(event);
        if is_taken_over {
            return Err(Lost::ForGood(Error::SessionTakenOver { client_id: shared.options.client_id.clone() }));
        }
    }
    Ok(())
}

// --- Settling ---

async fn settle_until_closing(shared: &Shared, caller: &mut Caller) -> Result<(), Error> {
    while !shared.is_closing() {
        let (request, next_at) = {
            let mut engine = shared.engine();
            (engine.request(Instant::now(), false), engine.next_at())
        };
        match (request, next_at) {
            (Some((number, body)), _) => {
                send(shared, caller, number, &body).await?;
            }
            (None, None) => shared.wake.notified().await,
            (None, Some(at)) => {
                tokio::select! {
                    () = sleep_until(at.into()) => {}
                    () = shared.wake.notified() => {}
                }
            }
        }
    }
    Ok(())
}

/// Sends one settle request. Returns whether the sidecar has answered; if not, the request is sent again later.
async fn send(shared: &Shared, caller: &mut Caller, number: u64, body: &[u8]) -> Result<bool, Error> {
    let options = &shared.options;
    let retry_after = match caller.call(options, "POST", &options.settle_target(), Some(body), ANSWER_MAX).await {
        Ok(content) => match serde_json::from_slice::<Answer>(&content) {
            Ok(answer) => {
                let events = shared.engine().answered(number, answer);
                for event in events {
                    options.tell(event);
                }
                return Ok(true);
            }
            Err(_) => Duration::ZERO,
        },
        Err(CallError::Refused(error)) if matches!(error.status, 409 | 410) => {
            shared.engine().refused(number);
            return Ok(true);
        }
        Err(CallError::Refused(error)) if error.is_temporary() => error.retry_after.unwrap_or_default(),
        Err(CallError::Refused(error)) => {
            shared.engine().forbidden(number);
            return Err(error.into());
        }
        Err(CallError::Io(_)) => Duration::ZERO,
    };
    shared.engine().unanswered(Instant::now(), retry_after);
    Ok(false)
}

/// Sends what is left and ends the session. A sidecar that is away redelivers the records.
async fn end(shared: &Shared, caller: &mut Caller) -> Result<(), Error> {
    loop {
        let request = shared.engine().request(Instant::now(), true);
        let Some((number, body)) = request else { break };
        if !send(shared, caller, number, &body).await? {
            return Ok(());
        }
    }
    if shared.engine().session_open {
        let options = &shared.options;
        // The session ends by itself if this fails.
        let _ = caller.call(options, "DELETE", &options.session_target(), None, ANSWER_MAX).await;
    }
    Ok(())
}

/// A wait for the lease table must not hold up other settlements: it has a connection of its own.
pub(crate) async fn ack_persisted(options: &Options, record: &Delivery) -> bool {
    let item = json!({"ack_id": record.ack_id(), "outcome": "ack"});
    let body = json!({"settlements": [item], "wait": "persisted", "wait_ms": PERSISTED_WAIT_MS});
    let max = Duration::from_millis(PERSISTED_WAIT_MS) + ANSWER_MAX;
    let answer =
        Caller::default().call(options, "POST", &options.settle_target(), Some(body.to_string().as_bytes()), max).await;
    let answer = answer.ok().and_then(|content| serde_json::from_slice::<Answer>(&content).ok());
    answer.is_some_and(|answer| answer.persisted && answer.failed.is_empty())
}
