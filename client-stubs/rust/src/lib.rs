// SPDX-License-Identifier: Apache-2.0
//! Consumers of Amazon Kinesis streams through [kinesis-sidecar](https://docs.rs/kinesis-sidecar), a process on the same machine.
//!
//! ```no_run
//! use kinesis_sidecar::{Consumer, Record};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), kinesis_sidecar::Error> {
//!     // The address: KINESIS_SIDECAR_URL, or http://127.0.0.1:8990.
//!     let mut consumer = Consumer::builder("orders").concurrency(16).build()?;
//!     consumer.run(|record: Record| async move {
//!         let order: serde_json::Value = record.json()?;
//!         println!("{} {order}", record.partition_key());
//!         Ok::<_, serde_json::Error>(()) // An error: the record is retried.
//!     }).await
//! }
//! ```
//!
//! Delivery is at least once. [`Consumer::run`] calls a handler, [`Consumer::next`] iterates, and [`Consumer::next_batch`] takes
//! lists of records.

#![forbid(unsafe_code)]

mod consumer;
mod driver;
mod engine;
mod error;
mod event;
mod http;
mod lanes;
#[cfg(feature = "rusqlite")]
pub mod once;
mod options;
mod record;
pub mod testing;
#[allow(dead_code, missing_docs, clippy::all, clippy::pedantic)]
#[rustfmt::skip]
mod v1;
mod wire;

pub use consumer::{Consumer, Stopper};
pub use error::{Error, SidecarError};
pub use event::Event;
pub use options::{Builder, Ordering};
pub use record::{Batch, Record};
