// SPDX-License-Identifier: Apache-2.0
//! Several handlers at the same time, and the records of one scope one after the other.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Display;
use std::future::Future;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::consumer::{handle, Flow, Shared};
use crate::delivery::{Delivery, Scope};
use crate::engine::Item;
use crate::error::Error;
use crate::record::Record;

pub(crate) struct Lanes {
    shared: Arc<Shared>,
    queues: Mutex<Queues>,
    wake: Notify,
}

#[derive(Default)]
struct Queues {
    ready: VecDeque<Delivery>,
    /// Records that wait for the one of their scope that is ready, is handled, or holds the scope.
    waiting: HashMap<Scope, VecDeque<Delivery>>,
    /// Scopes without a record that is ready or handled.
    held: HashSet<Scope>,
    ended: bool,
}

impl Queues {
    fn proceed(&mut self, scope: Scope) {
        match self.waiting.get_mut(&scope).and_then(VecDeque::pop_front) {
            Some(record) => self.ready.push_back(record),
            None => {
                self.waiting.remove(&scope);
            }
        }
    }
}

impl Lanes {
    /// Handles records until the consumer is stopped. Returns when no handler runs.
    pub(crate) async fn run<H, F, E>(flow: &mut Flow, handler: H, concurrency: usize) -> Result<(), Error>
    where
        H: Fn(Record) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), E>> + Send,
        E: Display,
    {
        let lanes = Arc::new(Lanes { shared: flow.shared.clone(), queues: Mutex::default(), wake: Notify::new() });
        let handler = Arc::new(handler);
        let mut workers = JoinSet::new();
        for _ in 0..concurrency {
            let (lanes, handler) = (lanes.clone(), handler.clone());
            workers.spawn(async move { lanes.work(&*handler).await });
        }
        let result = lanes.dispatch(flow).await;
        lanes.queues().ended = true;
        lanes.wake.notify_one();
        while let Some(worker) = workers.join_next().await {
            if let Err(error) = worker {
                resume_unwind(error.into_panic());
            }
        }
        result
    }

    async fn dispatch(&self, flow: &mut Flow) -> Result<(), Error> {
        while let Some(item) = flow.item().await? {
            let mut queues = self.queues();
            match item {
                Item::Records(block) => block.deliveries().for_each(|record| self.submit(&mut queues, record)),
                Item::Resolved(scope) => {
                    if queues.held.remove(&scope) {
                        queues.proceed(scope);
                    }
                }
                Item::End => return Ok(()),
            }
            drop(queues);
            self.wake.notify_one();
        }
        Ok(())
    }

    fn submit(&self, queues: &mut Queues, record: Delivery) {
        let Some(scope) = record.scope() else {
            queues.ready.push_back(record);
            return;
        };
        if let Some(waiting) = queues.waiting.get_mut(&scope) {
            waiting.push_back(record);
            return;
        }
        // An outcome of an earlier session may hold the scope before a record of it was handled here.
        let is_held = self.shared.engine().is_held(scope);
        let waiting = queues.waiting.entry(scope).or_default();
        if is_held {
            waiting.push_back(record);
            queues.held.insert(scope);
        } else {
            queues.ready.push_back(record);
        }
    }

    async fn work<H, F, E>(&self, handler: &H)
    where
        H: Fn(Record) -> F,
        F: Future<Output = Result<(), E>>,
        E: Display,
    {
        while let Some(record) = self.next().await {
            let scope = record.scope();
            if !self.shared.is_stopped() && record.begin() {
                handle(handler, Record::new(record, self.shared.clone())).await;
            }
            if let Some(scope) = scope {
                self.leave(scope);
            }
        }
    }

    /// The next record to handle; None: there are no more.
    async fn next(&self) -> Option<Delivery> {
        loop {
            {
                let mut queues = self.queues();
                let record = if queues.ended { None } else { queues.ready.pop_front() };
                if queues.ended || !queues.ready.is_empty() {
                    self.wake.notify_one(); // The next worker.
                }
                if queues.ended || record.is_some() {
                    return record;
                }
            }
            self.wake.notified().await;
        }
    }

    fn leave(&self, scope: Scope) {
        let mut queues = self.queues();
        if self.shared.engine().is_held(scope) {
            queues.held.insert(scope);
        } else {
            queues.proceed(scope);
        }
    }

    /// No code of the app runs under this lock.
    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
