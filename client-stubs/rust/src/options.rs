// SPDX-License-Identifier: Apache-2.0
use std::env;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use crate::consumer::Consumer;
use crate::error::Error;
use crate::event::Event;
use crate::http::Address;

const DEFAULT_URL: &str = "http://127.0.0.1:8990";
const URL_VARIABLE: &str = "KINESIS_SIDECAR_URL";
const TOKEN_FILE_VARIABLE: &str = "KINESIS_SIDECAR_TOKEN_FILE";
const CLIENT_ID_LETTERS_MAX: usize = 64;
const LANES: u32 = 64;

/// What the sidecar keeps in order. See [`Builder::ordering`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ordering {
    /// The records of each shard.
    Shard,
    /// The records of each partition key.
    Key,
    /// Nothing.
    None,
}

impl Ordering {
    fn word(self) -> &'static str {
        match self {
            Ordering::Shard => "shard",
            Ordering::Key => "key",
            Ordering::None => "none",
        }
    }
}

/// The options of a consumer, checked.
pub(crate) struct Options {
    pub(crate) client_id: String,
    pub(crate) address: Address,
    pub(crate) token_file: Option<PathBuf>,
    subscription: Option<String>,
    pub(crate) max_in_flight: u32,
    pub(crate) max_in_flight_bytes: u64,
    pub(crate) ack_deadline: Duration,
    pub(crate) max_processing: Duration,
    pub(crate) ack_interval: Duration,
    pub(crate) ordering: Ordering,
    lanes: Option<u32>,
    shards: Vec<String>,
    share: Option<String>,
    salt: Option<String>,
    filter: Option<String>,
    pub(crate) concurrency: usize,
    pub(crate) signals: bool,
    pub(crate) on_event: Option<Box<dyn Fn(Event) + Send + Sync>>,
}

impl Options {
    pub(crate) fn stream_target(&self) -> String {
        let mut target = format!(
            "/v1/records/stream?client_id={}&max_in_flight={}&max_in_flight_bytes={}&ack_deadline_ms={}&ordering={}",
            self.client_id,
            self.max_in_flight,
            self.max_in_flight_bytes,
            self.ack_deadline.as_millis(),
            self.ordering.word()
        );
        if let Some(lanes) = self.lanes {
            target += &format!("&lanes={lanes}");
        }
        if !self.shards.is_empty() {
            target += &format!("&shards={}", escape(&self.shards.join(",")));
        }
        for (name, text) in [("share", &self.share), ("salt", &self.salt), ("filter", &self.filter)] {
            if let Some(text) = text {
                target += &format!("&{name}={}", escape(text));
            }
        }
        self.with_subscription(target, '&')
    }

    pub(crate) fn settle_target(&self) -> String {
        self.with_subscription("/v1/records/settle".into(), '?')
    }

    pub(crate) fn session_target(&self) -> String {
        self.with_subscription(format!("/v1/sessions/{}", self.client_id), '?')
    }

    fn with_subscription(&self, target: String, separator: char) -> String {
        match &self.subscription {
            Some(name) => format!("{target}{separator}subscription={}", escape(name)),
            None => target,
        }
    }

    pub(crate) fn tell(&self, event: Event) {
        if let Some(on_event) = &self.on_event {
            on_event(event);
        }
    }
}

/// Percent-encodes a value of a query.
fn escape(text: &str) -> String {
    text.bytes().fold(String::new(), |mut escaped, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(byte.into());
        } else {
            let _ = write!(escaped, "%{byte:02X}"); // A String takes everything.
        }
        escaped
    })
}

/// Makes a [`Consumer`].
#[must_use]
pub struct Builder {
    url: Option<String>,
    ordering: Option<Ordering>,
    options: Options,
}

impl Builder {
    pub(crate) fn new(client_id: &str) -> Self {
        let options = Options {
            client_id: client_id.into(),
            address: Address::Tcp { host: String::new(), port: 0 },
            token_file: None,
            subscription: None,
            max_in_flight: 1000,
            max_in_flight_bytes: 16 << 20,
            ack_deadline: Duration::from_secs(60),
            max_processing: Duration::from_secs(3600),
            ack_interval: Duration::from_millis(100),
            ordering: Ordering::Shard,
            lanes: None,
            shards: Vec::new(),
            share: None,
            salt: None,
            filter: None,
            concurrency: 1,
            signals: true,
            on_event: None,
        };
        Builder { url: None, ordering: None, options }
    }

    /// `http://HOST:PORT` or `unix:/PATH`. Default: `KINESIS_SIDECAR_URL`, else `http://127.0.0.1:8990`.
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.url = Some(url.into());
        self
    }

    /// The file with the bearer token. Default: `KINESIS_SIDECAR_TOKEN_FILE`. It is read again for every connection and
    /// every settle request.
    pub fn token_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.options.token_file = Some(path.into());
        self
    }

    /// The subscription, if the sidecar has several.
    pub fn subscription(mut self, name: impl Into<String>) -> Self {
        self.options.subscription = Some(name.into());
        self
    }

    /// How many handlers [`Consumer::run`] runs at the same time (1). Above 1 the order is that of partition keys, with
    /// 64 lanes a shard, unless [`ordering`](Builder::ordering) is set.
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.options.concurrency = handlers;
        self
    }

    /// Maximum records delivered and not settled (1000).
    pub fn max_in_flight(mut self, records: u32) -> Self {
        self.options.max_in_flight = records;
        self
    }

    /// Maximum bytes delivered and not settled (16 MiB).
    pub fn max_in_flight_bytes(mut self, bytes: u64) -> Self {
        self.options.max_in_flight_bytes = bytes;
        self
    }

    /// A record that is not settled and not extended by then is redelivered (60 s).
    pub fn ack_deadline(mut self, duration: Duration) -> Self {
        self.options.ack_deadline = duration;
        self
    }

    /// How long the package extends the deadline of a record that the app has (1 h).
    pub fn max_processing(mut self, duration: Duration) -> Self {
        self.options.max_processing = duration;
        self
    }

    /// How long an acknowledgement waits for others, to share a request with them (0.1 s).
    pub fn ack_interval(mut self, duration: Duration) -> Self {
        self.options.ack_interval = duration;
        self
    }

    /// What the sidecar keeps in order. Default: [`Ordering::Shard`]; with concurrency above 1, or a
    /// [`share`](Builder::share): [`Ordering::Key`] with 64 lanes a shard.
    pub fn ordering(mut self, ordering: Ordering) -> Self {
        self.ordering = Some(ordering);
        self
    }

    /// The lanes of a shard, 1 to 64, with [`Ordering::Key`].
    pub fn lanes(mut self, lanes: u32) -> Self {
        self.options.lanes = Some(lanes);
        self
    }

    /// The shards to read. Default: all.
    pub fn shards<S: Into<String>>(mut self, shard_ids: impl IntoIterator<Item = S>) -> Self {
        self.options.shards = shard_ids.into_iter().map(Into::into).collect();
        self
    }

    /// The part of the partition keys to read, a decimal like `"0.05"`. Default: none. Consumers without a share get all
    /// other keys; they must have the same [`ordering`](Builder::ordering) and [`lanes`](Builder::lanes).
    pub fn share(mut self, share: impl Into<String>) -> Self {
        self.options.share = Some(share.into());
        self
    }

    /// Chooses which keys are in the [`share`](Builder::share): another salt, other keys.
    pub fn salt(mut self, salt: impl Into<String>) -> Self {
        self.options.salt = Some(salt.into());
        self
    }

    /// The records to read: those that match a pattern, which is JSON. Default: all. All other records count as settled.
    /// All open consumers of a subscription have the same filter.
    pub fn filter(mut self, pattern: impl Into<String>) -> Self {
        self.options.filter = Some(pattern.into());
        self
    }

    /// Whether SIGTERM and SIGINT stop [`Consumer::run`] (true). tokio keeps its handlers of these signals until the
    /// process ends.
    pub fn signals(mut self, stop: bool) -> Self {
        self.options.signals = stop;
        self
    }

    /// Is called with every control event of the stream, with [`Event::Disconnected`] and with [`Event::SettleFailed`].
    /// It runs in the task that reads, and must not block.
    pub fn on_event(mut self, callback: impl Fn(Event) + Send + Sync + 'static) -> Self {
        self.options.on_event = Some(Box::new(callback));
        self
    }

    /// Makes the consumer. It opens nothing: the first record that is asked for opens the stream.
    ///
    /// # Errors
    /// [`Error::InvalidOption`].
    pub fn build(self) -> Result<Consumer, Error> {
        Ok(Consumer::new(self.options()?))
    }

    pub(crate) fn options(self) -> Result<Options, Error> {
        let Builder { url, ordering, mut options } = self;
        let client_id = &options.client_id;
        let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || b"._-".contains(&letter);
        if client_id.is_empty() || client_id.len() > CLIENT_ID_LETTERS_MAX || !client_id.bytes().all(is_letter) {
            return Err(Error::InvalidOption(format!(
                "client_id must be 1 to 64 of A-Z a-z 0-9 . _ -, got {client_id:?}"
            )));
        }
        if options.concurrency == 0 {
            return Err(Error::InvalidOption("concurrency must be at least 1, got 0".into()));
        }
        let url = url.or_else(|| variable(URL_VARIABLE)).unwrap_or_else(|| DEFAULT_URL.into());
        options.address = Address::parse(&url)?;
        options.token_file = options.token_file.or_else(|| variable(TOKEN_FILE_VARIABLE).map(Into::into));
        match ordering {
            Some(ordering) => options.ordering = ordering,
            None if options.concurrency > 1 || options.share.is_some() => {
                options.ordering = Ordering::Key;
                options.lanes = options.lanes.or(Some(LANES));
            }
            None => {}
        }
        Ok(options)
    }
}

/// A variable of the environment that is not empty.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
