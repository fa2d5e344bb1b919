// SPDX-License-Identifier: Apache-2.0
//! The consumer and the real sidecar.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use kinesis_sidecar::{Builder, Consumer, Error, Event, Record, Stopper};
use serde_json::{json, Value};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::support::{wait_until, within, Folder, Sidecar, PATIENCE};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn builder(sidecar: &Sidecar) -> Builder {
    Consumer::builder("orders").url(&sidecar.url).signals(false)
}

fn consumer(sidecar: &Sidecar) -> Consumer {
    builder(sidecar).build().unwrap()
}

/// `run` in a task.
struct Running {
    stopper: Stopper,
    task: JoinHandle<Result<(), Error>>,
}

impl Running {
    fn start<H, F>(builder: Builder, handler: H) -> Self
    where
        H: Fn(Record) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let mut consumer = builder.build().unwrap();
        let stopper = consumer.stopper();
        Running { stopper, task: tokio::spawn(async move { consumer.run(handler).await }) }
    }

    async fn stop(self) {
        self.stopper.stop();
        within(self.task).await.unwrap().unwrap();
    }
}

async fn next(consumer: &mut Consumer) -> Value {
    within(consumer.next()).await.unwrap().unwrap().json().unwrap()
}

/// Notes what handlers did, by partition key.
#[derive(Default)]
struct Handled {
    by_key: BTreeMap<String, Vec<u64>>,
    running: HashMap<String, usize>,
    failed: Vec<u64>,
    most: usize,
}

impl Handled {
    fn begin(&mut self, record: &Record) {
        let running = self.running.entry(record.partition_key().into()).or_default();
        *running += 1;
        assert_eq!(*running, 1, "two handlers of one key");
        self.most = self.most.max(self.running.values().sum());
    }

    fn end(&mut self, record: &Record) {
        *self.running.get_mut(record.partition_key()).unwrap() -= 1;
    }

    fn add(&mut self, record: &Record) {
        self.by_key.entry(record.partition_key().into()).or_default().push(record.json().unwrap());
    }

    fn count(&self) -> usize {
        self.by_key.values().map(Vec::len).sum()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_outcome_reaches_the_sidecar() {
    let sidecar = Sidecar::start().await;
    let words = ["ack", "drop", "dead_letter", "retry"];
    sidecar.put(&words.map(Value::from), |at| words[at].into());
    let seen = Arc::new(Mutex::new(BTreeMap::<String, usize>::new()));
    let noted = seen.clone();
    let running = Running::start(builder(&sidecar), move |record| {
        let noted = noted.clone();
        async move {
            let word: String = record.json()?;
            let count = {
                let mut noted = noted.lock().unwrap();
                let count = noted.entry(word.clone()).or_default();
                *count += 1;
                *count
            };
            match word.as_str() {
                "drop" => record.drop(),
                "dead_letter" => record.dead_letter("no way"),
                "retry" if count < 3 => record.retry_after(Duration::from_millis(10), "not yet"),
                _ => {}
            }
            Ok(())
        }
    });
    wait_until("all are settled", || sidecar.settled() == 4).await;
    running.stop().await;
    let letters = sidecar.call("GET", "/v1/dead-letters", None);
    assert_eq!(letters["dead_letters"].as_array().unwrap().len(), 1);
    assert_eq!(letters["dead_letters"][0]["reason"], "no way");
    assert_eq!(seen.lock().unwrap().values().copied().collect::<Vec<_>>(), [1, 1, 1, 3]);
}

async fn order_is_kept(concurrency: usize) {
    let sidecar = Sidecar::start().await;
    sidecar.put_numbers(1000);
    let handled = Arc::new(Mutex::new(Handled::default()));
    let noted = handled.clone();
    let running = Running::start(builder(&sidecar).concurrency(concurrency), move |record| {
        let noted = noted.clone();
        async move {
            let number: u64 = record.json()?;
            noted.lock().unwrap().begin(&record);
            tokio::task::yield_now().await;
            let mut noted = noted.lock().unwrap();
            noted.end(&record);
            if number % 37 == 0 && !noted.failed.contains(&number) {
                noted.failed.push(number);
                return Err("fails once".into());
            }
            noted.add(&record);
            Ok(())
        }
    });
    wait_until("all are handled", || handled.lock().unwrap().count() >= 1000).await;
    wait_until("all are settled", || sidecar.settled() == 1000).await;
    running.stop().await;
    let handled = handled.lock().unwrap();
    assert_eq!(handled.failed.len(), 28);
    for (key, numbers) in &handled.by_key {
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{key}: {numbers:?}");
    }
    assert!(handled.most <= concurrency);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_of_a_key_is_kept_while_handlers_fail() {
    order_is_kept(8).await;
}

#[tokio::test]
async fn order_of_a_key_is_kept_by_one_handler_that_fails() {
    order_is_kept(1).await;
}

#[tokio::test]
async fn slow_handler_beyond_the_deadline_is_not_repeated() {
    let sidecar = Sidecar::start().await;
    sidecar.put_numbers(1);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let running = Running::start(builder(&sidecar).ack_deadline(Duration::from_secs(1)), move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            Ok(())
        }
    });
    wait_until("it is settled", || sidecar.settled() == 1).await;
    running.stop().await;
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn left_loop_gives_its_record_back() {
    let sidecar = Sidecar::start().await;
    sidecar.put(&[1, 2, 3].map(Value::from), |_| "one".into());
    let mut first = consumer(&sidecar);
    while next(&mut first).await != 2 {}
    first.close().await;
    let mut second = consumer(&sidecar);
    assert_eq!([next(&mut second).await, next(&mut second).await], [2, 3]);
}

#[tokio::test]
async fn failed_loop_gives_its_record_back() {
    async fn fail(mut consumer: Consumer) -> Result<(), Failure> {
        within(consumer.next()).await?;
        Err("the loop fails".into())
    }
    let sidecar = Sidecar::start().await;
    sidecar.put_numbers(1);
    fail(consumer(&sidecar)).await.unwrap_err();
    assert_eq!(next(&mut consumer(&sidecar)).await, 0);
}

#[tokio::test]
async fn batches_have_a_size_and_a_wait() {
    let sidecar = Sidecar::start().await;
    sidecar.put_numbers(25);
    let mut consumer = consumer(&sidecar);
    let mut sizes = Vec::new();
    while sizes.iter().sum::<usize>() < 25 {
        let batch = within(consumer.next_batch(10, Duration::from_millis(200))).await.unwrap().unwrap();
        sizes.push(batch.len());
        batch.ack();
    }
    consumer.close().await;
    assert!(sizes.iter().all(|size| (1..=10).contains(size)), "{sizes:?}");
    assert_eq!(sidecar.settled(), 25);
}

#[tokio::test]
async fn batch_is_retried_but_for_records_with_an_outcome() {
    let sidecar = Sidecar::start().await;
    sidecar.put(&[1, 2, 3].map(Value::from), |_| "one".into());
    let mut consumer = consumer(&sidecar);
    let batch = within(consumer.next_batch(3, PATIENCE)).await.unwrap().unwrap();
    batch[0].ack();
    batch.retry("again");
    let batch = within(consumer.next_batch(2, PATIENCE)).await.unwrap().unwrap();
    assert_eq!(batch.iter().map(|record| record.json::<u64>().unwrap()).collect::<Vec<_>>(), [2, 3]);
}

#[tokio::test]
async fn persisted_ack_waits_for_the_checkpoint() {
    let sidecar = Sidecar::start().await;
    sidecar.put_numbers(1);
    let mut consumer = consumer(&sidecar);
    let record = within(consumer.next()).await.unwrap().unwrap();
    assert!(within(record.ack_persisted()).await);
    let shards = sidecar.call("GET", "/v1/shards", None);
    let shard =
        shards["shards"].as_array().unwrap().iter().find(|shard| shard["shard_id"] == record.shard_id()).unwrap();
    assert_eq!(shard["checkpoint"], record.sequence_number());
}

#[tokio::test]
async fn record_has_its_members() {
    let sidecar = Sidecar::start().await;
    sidecar.put(&[json!({"a": "ä"})], |_| "the key".into());
    let mut consumer = consumer(&sidecar);
    let record = within(consumer.next()).await.unwrap().unwrap();
    assert_eq!(record.json::<Value>().unwrap(), json!({"a": "ä"}));
    assert_eq!(
        (record.partition_key(), record.stream(), record.attempt(), record.sub_sequence_number()),
        ("the key", "demo", 1, 0)
    );
    assert!(record.shard_id().starts_with("shardId-") && record.epoch() >= 1);
    assert!(!record.aggregated() && !record.redriven());
    let age = SystemTime::now().duration_since(record.arrived_at().unwrap()).unwrap_or_default();
    assert!(age < Duration::from_secs(3600));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_of_the_sidecar_repeats_no_record_that_is_handled() {
    let mut sidecar = Sidecar::start().await;
    sidecar.put_numbers(200);
    let handled = Arc::new(Mutex::new(Handled::default()));
    let release = Arc::new(Notify::new());
    let sessions = Arc::new(AtomicUsize::new(0));
    let (noted, released, opened) = (handled.clone(), release.clone(), sessions.clone());
    let builder = builder(&sidecar).concurrency(4).on_event(move |event| {
        if matches!(event, Event::Session { .. }) {
            opened.fetch_add(1, Ordering::Relaxed);
        }
    });
    let running = Running::start(builder, move |record| {
        let (noted, released) = (noted.clone(), released.clone());
        async move {
            noted.lock().unwrap().begin(&record);
            if record.json::<u64>()? == 50 {
                released.notified().await;
            }
            let mut noted = noted.lock().unwrap();
            noted.end(&record);
            noted.add(&record);
            Ok(())
        }
    });
    wait_until("one handler is held up", || {
        let handled = handled.lock().unwrap();
        handled.running.get("key-0") == Some(&1) && handled.count() > 100
    })
    .await;
    sidecar.kill();
    sidecar.start_again().await;
    wait_until("the next session is open", || sessions.load(Ordering::Relaxed) == 2).await;
    release.notify_one();
    wait_until("all are handled", || {
        let mut all: Vec<u64> = handled.lock().unwrap().by_key.values().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        all.len() == 200
    })
    .await;
    wait_until("all are settled", || sidecar.sum("in_flight") == 0 && sidecar.sum("watermark_gap") == 0).await;
    running.stop().await;
    let handled = handled.lock().unwrap();
    assert_eq!(handled.by_key["key-0"].iter().filter(|number| **number == 50).count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_waits_for_the_running_handlers() {
    let sidecar = Sidecar::start().await;
    sidecar.put_numbers(10);
    let (begun, ended, release) =
        (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (begins, ends, released) = (begun.clone(), ended.clone(), release.clone());
    let mut consumer = builder(&sidecar).concurrency(2).signals(true).build().unwrap();
    let running = tokio::spawn(async move {
        consumer
            .run(move |_| {
                let (begins, ends, released) = (begins.clone(), ends.clone(), released.clone());
                async move {
                    begins.fetch_add(1, Ordering::Relaxed);
                    released.notified().await;
                    ends.fetch_add(1, Ordering::Relaxed);
                    Ok::<_, Error>(())
                }
            })
            .await
            .map(|()| consumer.stopper())
    });
    wait_until("two handlers run", || begun.load(Ordering::Relaxed) == 2).await;
    let id = std::process::id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    // The process takes the signal in a thread of its own: the handlers are released one by one until the run has
    // stopped.
    while !running.is_finished() {
        release.notify_one();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    running.await.unwrap().unwrap();
    assert_eq!(begun.load(Ordering::Relaxed), ended.load(Ordering::Relaxed));
    assert_eq!(sidecar.settled(), ended.load(Ordering::Relaxed) as u64);
}

#[tokio::test]
async fn stop_waits_for_the_running_handlers() {
    let sidecar = Sidecar::start().await;
    sidecar.put_numbers(10);
    let (begun, release) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (begins, released) = (begun.clone(), release.clone());
    let running = Running::start(builder(&sidecar).concurrency(2), move |_| {
        let (begins, released) = (begins.clone(), released.clone());
        async move {
            begins.fetch_add(1, Ordering::Relaxed);
            released.notified().await;
            Ok(())
        }
    });
    wait_until("two handlers run", || begun.load(Ordering::Relaxed) == 2).await;
    running.stopper.stop();
    release.notify_one();
    wait_until("one handler has ended", || sidecar.settled() == 1 || running.task.is_finished()).await;
    assert!(!running.task.is_finished());
    release.notify_one();
    running.stop().await;
    assert_eq!((begun.load(Ordering::Relaxed), sidecar.settled()), (2, 2));
}

#[tokio::test]
async fn second_consumer_with_the_same_client_id_takes_over() {
    let sidecar = Sidecar::start().await;
    sidecar.put_numbers(1);
    let mut first = consumer(&sidecar);
    next(&mut first).await;
    let second = Running::start(builder(&sidecar), |_| async { Ok(()) });
    assert_eq!(within(first.next()).await.unwrap_err(), Error::SessionTakenOver { client_id: "orders".into() });
    second.stop().await;
}

#[tokio::test]
async fn unix_socket_and_token() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let token = folder.path("token");
    std::fs::write(&token, "a-token-of-the-test\n").unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    let sidecar = Sidecar::start_with(folder, &["--token-file", &token]).await;
    let url = format!("unix:{}", sidecar.folder.path("api.sock"));
    let unauthorized = within(Consumer::builder("orders").url(&url).build().unwrap().next()).await;
    assert!(matches!(unauthorized, Err(Error::Sidecar(error)) if error.status == 401));
    let (opened, session) = std::sync::mpsc::channel();
    let mut consumer = Consumer::builder("orders")
        .url(&url)
        .token_file(&token)
        .max_in_flight(5)
        .on_event(move |event| opened.send(event).unwrap_or_default())
        .build()
        .unwrap();
    let reading = tokio::spawn(async move { consumer.next().await });
    let mut event = None;
    wait_until("the stream is open", || {
        event = event.take().or_else(|| session.try_recv().ok());
        event.is_some()
    })
    .await;
    reading.abort();
    assert!(matches!(event, Some(Event::Session { max_in_flight: 5, .. })), "{event:?}");
}
