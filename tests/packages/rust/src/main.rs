// SPDX-License-Identifier: Apache-2.0
//! scenario WAY CLIENT_ID CONCURRENCY - the app of the scenario: see ../../judge.py. WAY is run, each, batches or race.

use std::io::{self, Write};
use std::process::exit;
use std::time::Duration;

use kinesis_sidecar::{Consumer, Error, Record, Stopper};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{signal, SignalKind};
use tokio::time::sleep;

/// Shorter than the slow records take.
const ACK_DEADLINE: Duration = Duration::from_secs(2);

/// The data of a record.
#[derive(Deserialize)]
struct Task {
    n: u64,
    r#do: String,
    times: u32,
    ms: u64,
}

#[derive(Default, Serialize)]
struct Report<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    at: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'a str>,
}

impl Report<'_> {
    fn write(&self) {
        let line = serde_json::to_string(self).expect("a report is JSON") + "\n";
        io::stdout().lock().write_all(line.as_bytes()).expect("stdout is open");
    }
}

fn report(record: &Record, task: &Task, at: &str, outcome: Option<&str>) {
    Report { n: Some(task.n), attempt: Some(record.attempt()), at, outcome }.write();
}

fn report_end(at: &str) {
    Report { at, ..Report::default() }.write();
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The work of a record.
async fn begin(record: &Record) -> Result<Task, serde_json::Error> {
    let task: Task = record.json()?;
    report(record, &task, "begin", None);
    sleep(Duration::from_millis(task.ms)).await;
    Ok(task)
}

/// The outcome of a record. An error: it is to be retried.
fn finish(record: &Record, task: &Task) -> Result<(), String> {
    let first = record.attempt() == 1;
    let outcome = match task.r#do.as_str() {
        "fail" if record.attempt() <= task.times => "retry",
        "raise" if first => "retry",
        outcome @ ("dead_letter" | "drop") => outcome,
        _ => "ack",
    };
    match outcome {
        "dead_letter" => record.dead_letter(&format!("asked {}", task.n)),
        "drop" => record.drop(),
        _ => {}
    }
    report(record, task, "end", Some(outcome));
    if outcome == "retry" {
        return Err(format!("fail {}", task.n));
    }
    Ok(())
}

async fn handle(record: Record) -> Result<(), Failure> {
    let task = begin(&record).await?;
    Ok(finish(&record, &task)?)
}

/// Handles a record of a loop. False: leave the loop.
async fn take(record: &Record) -> Result<bool, Failure> {
    let task = begin(record).await?;
    if record.attempt() == 1 && matches!(task.r#do.as_str(), "break" | "raise") {
        report(record, &task, &task.r#do, None);
        return if task.r#do == "raise" { Err("raise".into()) } else { Ok(false) };
    }
    if let Err(reason) = finish(record, &task) {
        record.retry(&reason);
    }
    Ok(true)
}

async fn each(consumer: &mut Consumer) -> Result<bool, Failure> {
    while let Some(record) = consumer.next().await? {
        if !take(&record).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn batches(consumer: &mut Consumer) -> Result<bool, Failure> {
    while let Some(batch) = consumer.next_batch(100, Duration::from_millis(200)).await? {
        for record in &batch {
            if !take(record).await? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

async fn race(consumer: &mut Consumer) -> Result<bool, Failure> {
    let mut count = 0_u64;
    while consumer.next().await?.is_some() {
        count += 1;
        if count % 1000 == 0 {
            println!("{count}");
        }
    }
    Ok(true)
}

/// Loops of an app end by its own signal handlers.
fn stop_at_sigterm(stopper: Stopper) {
    let mut terminate = signal(SignalKind::terminate()).expect("SIGTERM can be handled");
    tokio::spawn(async move {
        terminate.recv().await;
        stopper.stop();
    });
}

/// Returns whether the consumer was stopped.
async fn read(way: &str, client_id: &str, concurrency: usize) -> Result<bool, Failure> {
    let builder = Consumer::builder(client_id);
    let mut consumer = match way {
        "race" => builder.max_in_flight(10_000).build()?,
        "run" => builder.ack_deadline(ACK_DEADLINE).concurrency(concurrency).build()?,
        _ => builder.ack_deadline(ACK_DEADLINE).build()?,
    };
    if way == "run" {
        consumer.run(handle).await?;
        return Ok(true);
    }
    stop_at_sigterm(consumer.stopper());
    let result = match way {
        "each" => each(&mut consumer).await,
        "batches" => batches(&mut consumer).await,
        _ => race(&mut consumer).await,
    };
    consumer.close().await;
    result
}

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [way, client_id, concurrency] = args.as_slice() else { panic!("usage: scenario WAY CLIENT_ID CONCURRENCY") };
    match read(way, client_id, concurrency.parse().expect("CONCURRENCY is a number")).await {
        Ok(true) => report_end("stopped"),
        Ok(false) => {}
        Err(error) if error.to_string() == "raise" => {}
        Err(error) if matches!(error.downcast_ref(), Some(Error::SessionTakenOver { .. })) => {
            report_end("taken_over");
            exit(3);
        }
        Err(error) => panic!("{error}"),
    }
}
