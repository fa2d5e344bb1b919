// SPDX-License-Identifier: Apache-2.0
//! The consumer in the child of a fork. This test is a program with one thread: a fork copies no other thread.

use std::time::Duration;

use kinesis_sidecar::{Consumer, Error};
use tokio::runtime::Builder;
use tokio::time::timeout;

fn main() {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime is made");
    let mut consumer = Consumer::builder("orders").url("http://127.0.0.1:1").build().expect("the options are valid");
    let waiting = runtime.block_on(async { timeout(Duration::from_millis(50), consumer.next()).await });
    assert!(waiting.is_err(), "no sidecar listens: {waiting:?}");
    // SAFETY: this process has one thread.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let result = runtime.block_on(consumer.next());
        // SAFETY: the child needs no destructor.
        unsafe { libc::_exit(i32::from(!matches!(result, Err(Error::Forked)))) };
    }
    let mut status = -1;
    // SAFETY: the status is valid for the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child gets Error::Forked");
}
