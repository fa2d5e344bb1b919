// SPDX-License-Identifier: Apache-2.0
//! A server that answers as a test wants it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{json, Value};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{unbounded_channel, UnboundedSender};

use crate::support::Limit;

/// How a request for the stream is answered. A stream stays open behind its last frame.
pub enum Script {
    Stream(Vec<Vec<u8>>),
    Refuse(Answer),
}

pub struct Answer {
    /// 0: the connection is closed without an answer.
    pub status: u16,
    pub body: Value,
    pub headers: &'static str,
    /// Before the request is taken. Only of settle requests.
    pub delay: Duration,
    /// Whether the stream gets the barrier of the request.
    pub has_barrier: bool,
}

pub fn answer(status: u16, body: Value) -> Answer {
    Answer { status, body, headers: "", delay: Duration::ZERO, has_barrier: status == 200 }
}

pub fn refuse(status: u16) -> Answer {
    answer(status, json!({"code": "some-code", "detail": "a sentence", "retryable": status == 409}))
}

pub fn failed(ack_id: &str, reason: &str) -> Answer {
    answer(200, json!({"ok": 0, "failed": [{"ack_id": ack_id, "reason": reason, "message": "too late"}]}))
}

/// A message of protobuf.
#[derive(Default)]
pub struct Message(Vec<u8>);

impl Message {
    pub fn number(mut self, field: u64, value: u64) -> Self {
        self.0.extend(varint(field << 3));
        self.0.extend(varint(value));
        self
    }

    pub fn text(mut self, field: u64, value: impl AsRef<[u8]>) -> Self {
        self.0.extend(varint(field << 3 | 2));
        self.0.extend(varint(value.as_ref().len() as u64));
        self.0.extend(value.as_ref());
        self
    }

    /// An event of the stream, behind its length. `event` is its number in `StreamEvent`.
    pub fn frame(self, event: u64) -> Vec<u8> {
        let Message(message) = Message::default().text(event, self.0);
        varint(message.len() as u64).chain(message).collect()
    }
}

fn varint(value: u64) -> impl Iterator<Item = u8> {
    let bytes = (1 + value.checked_ilog2().unwrap_or(0) / 7).max(1);
    (0..bytes).map(move |at| (value >> (7 * at) & 0x7F) as u8 | if at + 1 < bytes { 0x80 } else { 0 })
}

fn session_of(max_in_flight: u64, ack_deadline_ms: u64, heartbeat_ms: u64) -> Vec<u8> {
    let session = Message::default().text(1, "orders").text(2, "orders").text(3, "1").number(4, max_in_flight);
    session.number(5, 1 << 24).number(6, ack_deadline_ms).number(7, heartbeat_ms).frame(1)
}

pub fn session_with(ack_deadline_ms: u64, heartbeat_ms: u64) -> Vec<u8> {
    session_of(1000, ack_deadline_ms, heartbeat_ms)
}

pub fn session() -> Vec<u8> {
    session_with(60_000, 10_000)
}

pub fn large_session() -> Vec<u8> {
    session_of(10_000, 60_000, 10_000)
}

pub fn barrier_event(barrier: &str) -> Vec<u8> {
    Message::default().text(1, barrier).frame(11)
}

pub fn unknown_event() -> Vec<u8> {
    Message::default().frame(31)
}

pub fn taken_over() -> Vec<u8> {
    Message::default().number(1, 1).frame(7)
}

pub fn lease_lost(shard: &str) -> Vec<u8> {
    Message::default().text(1, shard).frame(6)
}

/// A record as the server sends it.
#[derive(Clone)]
pub struct Sent {
    pub number: String,
    pub attempt: u32,
    pub epoch: u64,
    pub batch: &'static str,
    pub shard: &'static str,
    pub lane: u64,
    pub redriven: bool,
    pub data: Vec<u8>,
}

impl Sent {
    pub fn new(number: impl Into<String>, attempt: u32, batch: &'static str) -> Self {
        Sent {
            number: number.into(),
            attempt,
            epoch: 1,
            batch,
            shard: "shardId-000000000000",
            lane: 0,
            redriven: false,
            data: b"{}".to_vec(),
        }
    }

    pub fn frame(&self) -> Vec<u8> {
        let id = format!("a{}.{}", self.number, self.attempt);
        let record = Message::default().text(1, id).text(2, self.batch).text(3, "s").text(4, self.shard);
        let record = record
            .number(5, self.epoch)
            .text(6, &self.number)
            .text(8, "k")
            .number(10, self.attempt.into())
            .text(12, &self.data);
        record.number(13, self.redriven.into()).number(14, self.lane).frame(2)
    }
}

pub fn record(number: u32, attempt: u32, batch: &'static str) -> Vec<u8> {
    Sent::new(number.to_string(), attempt, batch).frame()
}

pub fn first(number: u32) -> Vec<u8> {
    record(number, 1, "b1")
}

pub fn of_shard(number: u32, shard: &'static str, batch: &'static str) -> Vec<u8> {
    Sent { shard, ..Sent::new(number.to_string(), 1, batch) }.frame()
}

#[derive(Default)]
struct State {
    streams: VecDeque<Script>,
    opened: Vec<String>,
    settles: Vec<(Value, String)>,
    settle_answers: VecDeque<Answer>,
    deleted: Vec<String>,
    /// Of the last stream. None ends it.
    live: Option<UnboundedSender<Option<Vec<u8>>>>,
}

#[derive(Clone)]
pub struct Server {
    pub url: String,
    state: Arc<Mutex<State>>,
    _limit: Arc<Limit>,
}

impl Server {
    pub async fn start(streams: impl IntoIterator<Item = Script>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state = State { streams: streams.into_iter().collect(), ..State::default() };
        let server = Server { url, state: Arc::new(Mutex::new(state)), _limit: Arc::new(Limit::start()) };
        let accepting = server.clone();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(accepting.clone().serve(connection));
            }
        });
        server
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().expect("no test panics with this lock"))
    }

    pub fn answer_settle(&self, answer: Answer) {
        self.with(|state| state.settle_answers.push_back(answer));
    }

    /// From now on each settlement is accepted.
    pub fn accept_settles(&self) {
        self.with(|state| state.settle_answers.clear());
    }

    pub fn add_stream(&self, frames: Vec<Vec<u8>>) {
        self.with(|state| state.streams.push_back(Script::Stream(frames)));
    }

    /// Writes a frame to the last stream.
    pub fn write(&self, frame: Vec<u8>) {
        self.with(|state| state.live.as_ref().expect("a stream is open").send(Some(frame)).expect("it is read"));
    }

    /// Ends the last stream.
    pub fn hang_up(&self) {
        self.with(|state| state.live.as_ref().expect("a stream is open").send(None).expect("it is read"));
    }

    pub fn opened(&self) -> Vec<String> {
        self.with(|state| state.opened.clone())
    }

    pub fn deleted(&self) -> Vec<String> {
        self.with(|state| state.deleted.clone())
    }

    /// Settle requests: body and head.
    pub fn settles(&self) -> Vec<(Value, String)> {
        self.with(|state| state.settles.clone())
    }

    pub fn items(&self) -> Vec<Value> {
        self.settles().iter().flat_map(|(body, _)| body["settlements"].as_array().expect("a list").clone()).collect()
    }

    /// Ids and outcomes, as `a1.1 ack`, without extensions.
    pub fn outcomes(&self) -> Vec<String> {
        let items = self.items().into_iter().filter(|item| item["outcome"] != "extend");
        items
            .map(|item| {
                format!(
                    "{} {}",
                    item["ack_id"].as_str().or(item["batch_id"].as_str()).unwrap_or(""),
                    item["outcome"].as_str().unwrap_or("")
                )
            })
            .collect()
    }

    async fn serve(self, connection: TcpStream) {
        let mut connection = BufReader::new(connection);
        while let Some((head, body)) = read_request(&mut connection).await {
            let path = head.split(' ').nth(1).unwrap_or("").to_string();
            if head.starts_with("GET") {
                self.with(|state| state.opened.push(head));
                return self.serve_stream(connection.into_inner()).await;
            }
            if head.starts_with("DELETE") {
                self.with(|state| state.deleted.push(path));
                write_answer(&mut connection, &answer(200, json!({}))).await;
                continue;
            }
            if !self.serve_settle(&mut connection, head, body).await {
                return;
            }
        }
    }

    /// Returns whether the connection is kept.
    async fn serve_settle(&self, connection: &mut BufReader<TcpStream>, head: String, body: Value) -> bool {
        let barrier = body["barrier"].as_str().map(ToString::to_string);
        let count = body["settlements"].as_array().map_or(0, Vec::len);
        let scripted = self.with(|state| {
            state.settles.push((body, head));
            state.settle_answers.pop_front()
        });
        let answer = scripted.unwrap_or_else(|| answer(200, json!({"ok": count, "failed": [], "persisted": true})));
        if !answer.delay.is_zero() {
            tokio::time::sleep(answer.delay).await;
        }
        if let Some(barrier) = barrier.filter(|_| answer.has_barrier) {
            self.write(barrier_event(&barrier));
        }
        if answer.status > 0 {
            write_answer(connection, &answer).await;
        }
        answer.status > 0
    }

    async fn serve_stream(&self, mut connection: TcpStream) {
        let script = loop {
            match self.with(|state| state.streams.pop_front()) {
                Some(script) => break script,
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        let frames = match script {
            Script::Refuse(answer) => return write_answer(&mut connection, &answer).await,
            Script::Stream(frames) => frames,
        };
        let (sender, mut live) = unbounded_channel();
        for frame in frames {
            sender.send(Some(frame)).expect("it is read here");
        }
        self.with(|state| state.live = Some(sender));
        let _ = connection.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        while let Some(Some(frame)) = live.recv().await {
            let chunk = [format!("{:x}\r\n", frame.len()).as_bytes(), &frame, b"\r\n"].concat();
            if connection.write_all(&chunk).await.is_err() {
                live.recv().await; // The client has left. The stream is not ended twice.
            }
        }
    }
}

async fn read_request(connection: &mut BufReader<TcpStream>) -> Option<(String, Value)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if connection.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "))
        .map_or(0, |length| length.parse().expect("a number"));
    let mut body = vec![0; length];
    connection.read_exact(&mut body).await.ok()?;
    Some((head, serde_json::from_slice(&body).unwrap_or(Value::Null)))
}

async fn write_answer(connection: &mut (impl AsyncWriteExt + Unpin), answer: &Answer) {
    let Answer { status, body, headers, .. } = answer;
    let body = body.to_string();
    let text = format!("HTTP/1.1 {status} Reason\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len());
    let _ = connection.write_all(text.as_bytes()).await; // The client may have left.
}
