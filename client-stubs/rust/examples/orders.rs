// SPDX-License-Identifier: Apache-2.0
//! Prints the records of a stream: `cargo run --example orders`.

use kinesis_sidecar::{Consumer, Error, Record};

async fn handle(record: Record) -> Result<(), serde_json::Error> {
    let order: serde_json::Value = record.json()?; // An error: the record is retried.
    println!("{} {order}", record.partition_key());
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut consumer = Consumer::builder("orders").concurrency(16).build()?;
    consumer.run(handle).await // Until SIGTERM or SIGINT.
}
