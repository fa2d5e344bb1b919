// SPDX-License-Identifier: Apache-2.0
//! Waits, requests, and the real sidecar.

use std::env;
use std::fs::OpenOptions;
use std::future::Future;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{self, Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{json, Value};

/// For one step of a test.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// For a whole test.
const LIMIT: Duration = Duration::from_secs(60);

/// Ends the process if it is not dropped in time. The test runner has no limit of its own.
pub struct Limit {
    _running: Sender<()>,
}

impl Limit {
    pub fn start() -> Self {
        let (running, ended) = channel();
        let test = thread::current().name().unwrap_or_default().to_string();
        thread::spawn(move || {
            if ended.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
                let _ = writeln!(io::stderr(), "{test}: takes longer than {LIMIT:?}");
                process::exit(1);
            }
        });
        Limit { _running: running }
    }
}

pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("in time")
}

pub async fn wait_until(what: &str, mut fact: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !fact() {
        assert!(Instant::now() < until, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// An empty folder, removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("ks-rust-{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("the folder of a test is made");
        Folder(path)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The binary `KINESIS_SIDECAR_BIN` on a local stream.
pub struct Sidecar {
    pub folder: Folder,
    pub url: String,
    port: u16,
    args: Vec<String>,
    process: Option<Child>,
    _limit: Limit,
}

impl Sidecar {
    pub async fn start() -> Self {
        Sidecar::start_with(Folder::new(), &[]).await
    }

    pub async fn start_with(folder: Folder, more: &[&str]) -> Self {
        let (port, ops) = (free_port(), free_port());
        let unix = if more.is_empty() { String::new() } else { format!(",unix:{}", folder.path("api.sock")) };
        let options = [
            ("source", format!("local:{}", folder.path("stream.db"))),
            ("stream", "demo".into()),
            ("application", "demo".into()),
            ("dead-letters", format!("sqlite:{}", folder.path("letters.db"))),
            ("initial-position", "trim_horizon".into()),
            ("worker-id", "w".into()),
            ("lease-duration-ms", "2000".into()),
            ("retry-backoff-ms", "50".into()),
            ("listen", format!("127.0.0.1:{port}{unix}")),
            ("ops-listen", format!("127.0.0.1:{ops}")),
        ];
        let mut args: Vec<String> =
            options.into_iter().flat_map(|(name, value)| [format!("--{name}"), value]).collect();
        args.extend(more.iter().map(ToString::to_string));
        let mut sidecar = Sidecar {
            folder,
            url: format!("http://127.0.0.1:{port}"),
            port: ops,
            args,
            process: None,
            _limit: Limit::start(),
        };
        sidecar.start_again().await;
        sidecar.port = port;
        sidecar
    }

    pub async fn start_again(&mut self) {
        let binary = env::var("KINESIS_SIDECAR_BIN").expect("KINESIS_SIDECAR_BIN must be the path of kinesis-sidecar");
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.folder.path("sidecar.log"))
            .expect("the log is open");
        let process =
            Command::new(&binary).args(&self.args).stdout(log.try_clone().expect("a handle")).stderr(log).spawn();
        self.process = Some(process.unwrap_or_else(|error| panic!("{binary} does not start: {error}")));
        let ops =
            self.args.iter().skip_while(|arg| *arg != "--ops-listen").nth(1).expect("the option is there").clone();
        wait_until("the sidecar is ready", || {
            let ended = self.process.as_mut().is_some_and(|process| process.try_wait().expect("a child").is_some());
            assert!(!ended, "the sidecar has ended");
            request(&ops, "GET", "/readyz", None).is_some_and(|(status, _)| status == 200)
        })
        .await;
    }

    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("it runs");
            process.wait().expect("it ends");
        }
    }

    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let (status, answer) =
            request(&format!("127.0.0.1:{}", self.port), method, path, body).expect("the sidecar answers");
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// Puts the values in order; `key` is the partition key of each.
    pub fn put(&self, values: &[Value], key: impl Fn(usize) -> String) {
        let entries = values
            .iter()
            .enumerate()
            .map(|(at, value)| json!({"PartitionKey": key(at), "Data": base64(&value.to_string())}));
        for some in entries.collect::<Vec<_>>().chunks(500) {
            let answer = self.call("POST", "/v1/local/records", Some(&json!({"Records": some})));
            assert_eq!(answer["FailedRecordCount"], 0);
        }
    }

    /// Puts numbers with ten keys.
    pub fn put_numbers(&self, count: usize) {
        let values: Vec<Value> = (0..count).map(Value::from).collect();
        self.put(&values, |at| format!("key-{}", at % 10));
    }

    pub fn sum(&self, member: &str) -> u64 {
        let shards = self.call("GET", "/v1/shards", None);
        shards["shards"].as_array().expect("a list").iter().map(|shard| shard[member].as_u64().expect("a number")).sum()
    }

    pub fn settled(&self) -> u64 {
        self.sum("settled")
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        self.kill();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port is free").port()
}

fn request(address: &str, method: &str, path: &str, body: Option<&Value>) -> Option<(u16, Value)> {
    let content = body.map(Value::to_string).unwrap_or_default();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        content.len()
    );
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all((head + &content).as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, content) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(content).unwrap_or(Value::Null)))
}

fn base64(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::new();
    for bytes in text.as_bytes().chunks(3) {
        let bits = bytes.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - bytes.len()));
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at) & 63) as usize];
            encoded.push(if at > bytes.len() { '=' } else { letter.into() });
        }
    }
    encoded
}
