// SPDX-License-Identifier: Apache-2.0
//! Consumers of the scripted server, and what a test needs of them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kinesis_sidecar::{Builder, Consumer, Event, Record};

use crate::scripted::{Script, Server};
use crate::support::{wait_until, within};

pub fn builder(server: &Server) -> Builder {
    Consumer::builder("orders").url(&server.url).signals(false)
}

pub fn consumer(server: &Server) -> Consumer {
    builder(server).build().expect("the options are valid")
}

#[derive(Clone, Default)]
pub struct Events(pub Arc<Mutex<Vec<Event>>>);

impl Events {
    pub fn builder(&self, server: &Server) -> Builder {
        let events = self.0.clone();
        builder(server).on_event(move |event| events.lock().unwrap().push(event))
    }

    pub fn consumer(&self, server: &Server) -> Consumer {
        self.builder(server).build().unwrap()
    }

    pub fn all(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }

    pub fn disconnected(&self) -> Vec<(String, Duration)> {
        let reason = |event| match event {
            Event::Disconnected { reason, retry_in } => Some((reason, retry_in)),
            _ => None,
        };
        self.all().into_iter().filter_map(reason).collect()
    }

    /// Waits until the session of this number, from 1, is open.
    pub async fn session(&self, number: usize) {
        let is_session = |event: &Event| matches!(event, Event::Session { .. });
        wait_until("the session is open", || self.all().into_iter().filter(is_session).count() == number).await;
    }

    /// Waits until the consumer has taken all that was written before `unknown_event`.
    pub async fn unknown(&self) {
        wait_until("the event has arrived", || self.all().contains(&Event::Unknown)).await;
    }
}

pub async fn next(consumer: &mut Consumer) -> Record {
    within(consumer.next()).await.expect("no error").expect("a record")
}

pub async fn take(consumer: &mut Consumer, count: usize) -> Vec<(String, u32)> {
    let mut taken = Vec::new();
    for _ in 0..count {
        let record = next(consumer).await;
        taken.push((record.sequence_number().into(), record.attempt()));
    }
    taken
}

pub fn numbers(records: &[(&str, u32)]) -> Vec<(String, u32)> {
    records.iter().map(|(number, attempt)| ((*number).into(), *attempt)).collect()
}

pub async fn server_of(frames: Vec<Vec<u8>>) -> Server {
    Server::start([Script::Stream(frames)]).await
}
