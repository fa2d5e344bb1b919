// SPDX-License-Identifier: Apache-2.0
//! A server that answers as a test wants it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prost::Message;
use serde_json::{json, Value};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{unbounded_channel, UnboundedSender};

use crate::v1::{self, stream_event::Event};

/// How a request for the stream is answered. A stream stays open behind its last frame.
pub enum Script {
    Stream(Vec<Vec<u8>>),
    Refuse(Answer),
}

pub struct Answer {
    pub status: u16,
    pub body: Value,
    pub headers: &'static str,
    /// Before the answer.
    pub delay: Duration,
}

pub fn answer(status: u16, body: Value) -> Answer {
    Answer { status, body, headers: "", delay: Duration::ZERO }
}

pub fn refuse(status: u16) -> Answer {
    answer(status, json!({"code": "some-code", "detail": "a sentence", "retryable": status == 409}))
}

pub fn failed(ack_id: &str) -> Answer {
    answer(200, json!({"ok": 0, "failed": [{"ack_id": ack_id, "reason": "EXPIRED", "message": "too late"}]}))
}

pub fn frame(event: Event) -> Vec<u8> {
    v1::StreamEvent { event: Some(event) }.encode_length_delimited_to_vec()
}

pub fn session_with(ack_deadline_ms: i64, heartbeat_ms: i64) -> Vec<u8> {
    frame(Event::Session(v1::SessionOpened {
        session: "orders".into(),
        client_id: "orders".into(),
        boot_id: "1".into(),
        max_in_flight: 1000,
        max_in_flight_bytes: 1 << 24,
        ack_deadline_ms,
        heartbeat_ms,
    }))
}

pub fn session() -> Vec<u8> {
    session_with(60_000, 10_000)
}

pub fn message(number: u32, attempt: u32, batch: &str) -> v1::Record {
    v1::Record {
        ack_id: format!("a{number}.{attempt}"),
        batch_id: batch.into(),
        stream: "s".into(),
        shard_id: "shardId-000000000000".into(),
        epoch: 1,
        sequence_number: number.to_string(),
        partition_key: "k".into(),
        attempt,
        data: "{}".into(),
        ..v1::Record::default()
    }
}

pub fn record(number: u32, attempt: u32, batch: &str) -> Vec<u8> {
    frame(Event::Record(message(number, attempt, batch)))
}

pub fn first(number: u32) -> Vec<u8> {
    record(number, 1, "b1")
}

pub fn of_shard(number: u32, shard: &str, batch: &str) -> Vec<u8> {
    frame(Event::Record(v1::Record { shard_id: shard.into(), ..message(number, 1, batch) }))
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
}

impl Server {
    pub async fn start(streams: impl IntoIterator<Item = Script>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state = State { streams: streams.into_iter().collect(), ..State::default() };
        let server = Server { url, state: Arc::new(Mutex::new(state)) };
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
            self.serve_settle(&mut connection, head, body).await;
        }
    }

    async fn serve_settle(&self, connection: &mut BufReader<TcpStream>, head: String, body: Value) {
        let barrier = body["barrier"].as_str().map(ToString::to_string);
        let count = body["settlements"].as_array().map_or(0, Vec::len);
        let scripted = self.with(|state| {
            state.settles.push((body, head));
            state.settle_answers.pop_front()
        });
        let answer = scripted.unwrap_or_else(|| answer(200, json!({"ok": count, "failed": [], "persisted": true})));
        write_answer(connection, &answer).await;
        if let Some(barrier) = barrier.filter(|_| answer.status == 200) {
            self.write(frame(Event::Barrier(v1::Barrier { barrier })));
        }
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
    let length =
        head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).map_or(0, |length| length.parse().expect("a number"));
    let mut body = vec![0; length];
    connection.read_exact(&mut body).await.ok()?;
    Some((head, serde_json::from_slice(&body).unwrap_or(Value::Null)))
}

async fn write_answer(connection: &mut (impl AsyncWriteExt + Unpin), answer: &Answer) {
    tokio::time::sleep(answer.delay).await;
    let Answer { status, body, headers, .. } = answer;
    let body = body.to_string();
    let text = format!("HTTP/1.1 {status} Reason\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len());
    let _ = connection.write_all(text.as_bytes()).await; // The client may have left.
}
