// SPDX-License-Identifier: Apache-2.0
//! sdk-loop COUNT reads the stream demo by the polling loop of the AWS SDK, to compare its CPU time with that of the
//! package. The endpoint is AWS_ENDPOINT_URL_KINESIS, by plain HTTP. The number of records so far is printed after
//! every 1,000 records.

use std::env;
use std::io::{self, Write};
use std::process::exit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_kinesis::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_kinesis::types::{Record, ShardIteratorType};
use aws_sdk_kinesis::{Client, Config};
use aws_smithy_http_client::Builder;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::sleep;

const STREAM: &str = "demo";
/// Of one GetRecords request.
const RECORDS_MAX: i32 = 10_000;
/// Kinesis accepts 5 GetRecords requests per shard and second.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Counts the records of all shards.
struct Counter {
    records: AtomicU64,
    bytes: AtomicU64,
    wanted: u64,
    /// The last record has come.
    complete: Notify,
}

impl Counter {
    fn add(&self, record: &Record) {
        self.bytes.fetch_add(record.data().as_ref().len() as u64, Ordering::Relaxed);
        let count = self.records.fetch_add(1, Ordering::Relaxed) + 1;
        if count % 1000 == 0 {
            // Read again under the lock: the numbers never fall, whatever the order in which the shards get there.
            let mut out = io::stdout().lock();
            writeln!(out, "{}", self.records.load(Ordering::Relaxed)).expect("stdout is open");
        }
        if count == self.wanted {
            self.complete.notify_one();
        }
    }
}

fn client() -> Result<Client, Failure> {
    let setting = |name| env::var(name).map_err(|error| format!("{name}: {error}"));
    let key =
        Credentials::new(setting("AWS_ACCESS_KEY_ID")?, setting("AWS_SECRET_ACCESS_KEY")?, None, None, "environment");
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .endpoint_url(setting("AWS_ENDPOINT_URL_KINESIS")?)
        .region(Region::new(setting("AWS_REGION")?))
        .credentials_provider(key)
        .http_client(Builder::new().build_http());
    Ok(Client::from_conf(config.build()))
}

/// Reads a shard from its oldest record on, until the shard ends.
async fn read_shard(client: Client, shard_id: String, counter: Arc<Counter>) -> Result<(), Failure> {
    let first = client
        .get_shard_iterator()
        .stream_name(STREAM)
        .shard_id(shard_id)
        .shard_iterator_type(ShardIteratorType::TrimHorizon)
        .send()
        .await?;
    let mut next = first.shard_iterator;
    while let Some(iterator) = next {
        let got = client.get_records().shard_iterator(iterator).limit(RECORDS_MAX).send().await?;
        got.records.iter().for_each(|record| counter.add(record));
        next = got.next_shard_iterator;
        if got.records.is_empty() {
            sleep(POLL_INTERVAL).await;
        }
    }
    Ok(())
}

async fn read_all(readers: &mut JoinSet<Result<(), Failure>>) -> Result<(), Failure> {
    while let Some(ended) = readers.join_next().await {
        ended??;
    }
    Ok(())
}

async fn read(wanted: u64) -> Result<(), Failure> {
    let client = client()?;
    let counter = Arc::new(Counter { records: 0.into(), bytes: 0.into(), wanted, complete: Notify::new() });
    let mut readers = JoinSet::new();
    for shard in client.list_shards().stream_name(STREAM).send().await?.shards() {
        readers.spawn(read_shard(client.clone(), shard.shard_id.clone(), counter.clone()));
    }
    tokio::select! {
        biased;
        () = counter.complete.notified() => return Ok(()),
        result = read_all(&mut readers) => result?,
    }
    match counter.records.load(Ordering::Relaxed) {
        count if count < wanted => Err(format!("{count} records were read, want {wanted}").into()),
        _ => Ok(()),
    }
}

#[tokio::main]
async fn main() {
    let args: Vec<String> = env::args().skip(1).collect();
    let wanted = match args.as_slice() {
        [count] => count.parse().unwrap_or(0),
        _ => 0,
    };
    if wanted < 1 {
        eprintln!("usage: sdk COUNT");
        exit(2);
    }
    if let Err(error) = read(wanted).await {
        eprintln!("{error:?}");
        exit(1);
    }
}
