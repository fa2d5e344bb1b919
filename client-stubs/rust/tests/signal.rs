// SPDX-License-Identifier: Apache-2.0
//! A signal at the begin of a run. This test is a program of its own: tokio keeps its handlers of signals until the
//! process ends.

use std::future::{poll_fn, Future};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use kinesis_sidecar::{Consumer, Error};
use tokio::time::timeout;

#[tokio::test]
async fn sigterm_before_the_stream_opens_ends_the_run() {
    let mut consumer = Consumer::builder("orders").url("http://127.0.0.1:1").build().expect("the options are valid");
    let mut run = pin!(consumer.run(|_| async { Ok::<_, Error>(()) }));
    let first = poll_fn(|context| Poll::Ready(run.as_mut().poll(context))).await; // Its tasks have not run.
    assert!(first.is_pending(), "the run waits: {first:?}");
    // SAFETY: the call has no pointers.
    assert_eq!(unsafe { libc::raise(libc::SIGTERM) }, 0);
    let result = timeout(Duration::from_secs(30), run).await;
    assert!(matches!(result, Ok(Ok(()))), "the run ends: {result:?}");
}
