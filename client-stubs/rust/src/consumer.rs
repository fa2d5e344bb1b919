// SPDX-License-Identifier: Apache-2.0
use std::collections::{HashMap, VecDeque};
use std::fmt::Display;
use std::future::{poll_fn, Future};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::pin;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::signal::unix::{signal, SignalKind};
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout_at;

use crate::delivery::{Block, Delivery, Scope, Settlement, State};
use crate::driver;
use crate::engine::{Engine, Item};
use crate::error::Error;
use crate::lanes::Lanes;
use crate::options::{Builder, Options};
use crate::record::{Batch, Record};
use crate::testing::FakeSidecar;

/// The part of a consumer that its records and its tasks share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    engine: Mutex<Engine>,
    items: UnboundedSender<Item>,
    /// For the task that settles.
    pub(crate) wake: Arc<Notify>,
    /// No further records are handed out.
    stopped: AtomicBool,
    closing: AtomicBool,
    error: Mutex<Option<Error>>,
}

impl Shared {
    pub(crate) fn new(options: Options) -> (Arc<Self>, UnboundedReceiver<Item>) {
        let (sender, items) = unbounded_channel();
        let wake = Arc::new(Notify::new());
        let shared = Shared {
            engine: Mutex::new(Engine::new(&options, sender.clone(), wake.clone())),
            options,
            items: sender,
            wake,
            stopped: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            error: Mutex::new(None),
        };
        (Arc::new(shared), items)
    }

    /// No code of the app runs under this lock.
    pub(crate) fn engine(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn settle(&self, record: &Delivery, settlement: Settlement) {
        // Without the lock: a record that has an outcome is usual here.
        if record.is(State::Begun) {
            self.engine().settle(record, settlement);
        }
    }

    pub(crate) fn extend(&self, record: &Delivery, settlement: Settlement) {
        self.engine().extend(record, settlement);
    }

    pub(crate) async fn ack_persisted(&self, record: &Delivery) -> bool {
        let may_ack = record.is(State::Begun) || record.is(State::Acked);
        let persisted = may_ack && driver::ack_persisted(&self.options, record.last()).await;
        self.settle(record, Settlement::ACK); // It is sent again: settling is idempotent.
        persisted
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        let _ = self.items.send(Item::End); // The app has dropped the consumer: it waits for nothing.
    }

    fn close(&self) {
        self.stop();
        self.closing.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Ends the consumer. The app gets the error when it asks for the next record.
    pub(crate) fn fail(&self, error: Error) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        self.stop();
    }

    /// The end of the records: an error, once.
    fn end<T>(&self) -> Result<Option<T>, Error> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(None), Err)
    }
}

/// Stops a consumer from elsewhere. Clones stop the same consumer.
#[derive(Clone)]
pub struct Stopper {
    shared: Arc<Shared>,
}

impl Stopper {
    /// Ends [`Consumer::run`], or the iteration: the next record is None.
    pub fn stop(&self) {
        self.shared.stop();
    }
}

/// Reads records from the sidecar, and settles them.
///
/// A consumer is used in one way: [`run`](Consumer::run), [`next`](Consumer::next) or
/// [`next_batch`](Consumer::next_batch). It needs a tokio runtime with I/O and time. Its tasks extend ack deadlines
/// while the app works: an app must not block all threads of the runtime. Dropping a consumer closes it in the
/// background.
pub struct Consumer {
    shared: Arc<Shared>,
    flow: Flow,
    source: Source,
    /// Was handed out last.
    record: Option<Delivery>,
    batch: Option<Batch>,
    /// For the next batch. The app does not have them: they may be taken back.
    gathered: Vec<Delivery>,
    gathered_until: Option<Instant>,
}

enum Source {
    Sidecar,
    Fake(FakeSidecar),
    Started(JoinHandle<()>),
    Closed,
}

impl Consumer {
    /// Begins to make a consumer. Sidecars know it as `client_id`.
    pub fn builder(client_id: impl AsRef<str>) -> Builder {
        Builder::new(client_id.as_ref())
    }

    pub(crate) fn new(options: Options) -> Self {
        Consumer::of_source(options, Source::Sidecar)
    }

    pub(crate) fn fake(options: Options, sidecar: FakeSidecar) -> Self {
        Consumer::of_source(options, Source::Fake(sidecar))
    }

    fn of_source(options: Options, source: Source) -> Self {
        let (shared, items) = Shared::new(options);
        let flow = Flow {
            shared: shared.clone(),
            pid: process::id(),
            items,
            block: None,
            list: VecDeque::new(),
            aside: HashMap::new(),
        };
        Consumer { shared, flow, source, record: None, batch: None, gathered: Vec::new(), gathered_until: None }
    }

    /// Calls the handler with each record, until the consumer is stopped. Then waits for the running handlers, sends
    /// the acknowledgements and closes the session.
    ///
    /// `Ok`: the record is acknowledged. `Err`, or a panic: it is retried, with the text as its reason. If this future
    /// is dropped, the running handlers are dropped with it, and their records are redelivered.
    ///
    /// # Errors
    /// The sidecar refused the stream or a settle request, or another process took the session over.
    pub async fn run<H, F, E>(&mut self, handler: H) -> Result<(), Error>
    where
        H: Fn(Record) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), E>> + Send,
        E: Display,
    {
        let signals = self.shared.options.signals.then(|| stop_by_signal(self.stopper())).flatten();
        self.start();
        let result = match self.shared.options.concurrency {
            1 => self.run_one_by_one(&handler).await,
            concurrency => Lanes::run(&mut self.flow, handler, concurrency).await,
        };
        self.end().await;
        if let Some(signals) = signals {
            signals.abort();
        }
        result?;
        self.shared.end::<()>().map(|_| ()) // The last settlements may have been refused.
    }

    async fn run_one_by_one<H, F, E>(&mut self, handler: &H) -> Result<(), Error>
    where
        H: Fn(Record) -> F,
        F: Future<Output = Result<(), E>>,
        E: Display,
    {
        while let Some(record) = self.flow.next(Delivery::begin).await? {
            handle(handler, Record::new(record, self.shared.clone())).await;
        }
        Ok(())
    }

    /// The next record; None after [`Stopper::stop`]. It acknowledges the record before, unless that has an outcome. No
    /// record is lost if the future is dropped.
    ///
    /// # Errors
    /// As [`run`](Consumer::run).
    pub async fn next(&mut self) -> Result<Option<Record>, Error> {
        let last = self.record.take();
        let ready = {
            let mut engine = self.shared.engine();
            if let Some(last) = last {
                engine.settle(&last, Settlement::ACK);
            }
            self.flow.next_ready(&engine, Delivery::begin)
        };
        let record = if ready.is_some() {
            ready
        } else {
            self.start();
            self.flow.next(Delivery::begin).await?
        };
        self.record.clone_from(&record);
        Ok(record.map(|record| Record::new(record, self.shared.clone())))
    }

    /// Up to `max_records` records, `max_wait` after the first one at the latest; None after [`Stopper::stop`]. It
    /// acknowledges those records of the batch before that have no outcome. No record is lost if the future is dropped.
    ///
    /// # Errors
    /// As [`run`](Consumer::run).
    pub async fn next_batch(&mut self, max_records: usize, max_wait: Duration) -> Result<Option<Batch>, Error> {
        if let Some(batch) = self.batch.take() {
            batch.ack();
        }
        self.start();
        while self.gather(max_records.max(1), max_wait).await? {
            let gathered = std::mem::take(&mut self.gathered).into_iter().filter(Delivery::begin);
            let records: Vec<_> = gathered.map(|record| Record::new(record, self.shared.clone())).collect();
            if !records.is_empty() {
                let batch = Batch::new(records);
                self.batch = Some(batch.clone());
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    /// Waits for the records of a batch. False: the consumer was stopped.
    async fn gather(&mut self, max_records: usize, max_wait: Duration) -> Result<bool, Error> {
        while self.gathered.len() < max_records {
            let next = self.flow.next(Delivery::is_waiting);
            let record = match self.gathered_until {
                None => next.await?,
                Some(until) => match timeout_at(until.into(), next).await {
                    Ok(record) => record?,
                    Err(_) => break,
                },
            };
            let Some(record) = record else { return Ok(false) };
            self.gathered_until.get_or_insert_with(|| Instant::now() + max_wait);
            self.gathered.push(record);
        }
        self.gathered_until = None;
        Ok(true)
    }

    /// Returns what stops this consumer from another task, or from a handler.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper { shared: self.shared.clone() }
    }

    /// Settlements whose session had ended. Their records are redelivered.
    #[must_use]
    pub fn stale(&self) -> u64 {
        self.shared.engine().stale
    }

    /// Settlements that the sidecar refused one by one.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.shared.engine().failed
    }

    /// Sends what is to be sent and ends the session: the sidecar redelivers the records without an outcome at once.
    pub async fn close(mut self) {
        self.end().await;
    }

    async fn end(&mut self) {
        self.shared.close();
        if let Source::Started(task) = std::mem::replace(&mut self.source, Source::Closed) {
            let _ = task.await; // It reports its errors by `Shared::fail`.
        }
    }

    fn start(&mut self) {
        let shared = self.shared.clone();
        self.source = match std::mem::replace(&mut self.source, Source::Closed) {
            Source::Sidecar => Source::Started(tokio::spawn(driver::serve(shared))),
            Source::Fake(sidecar) => Source::Started(tokio::spawn(sidecar.serve(shared))),
            other => other,
        };
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.shared.close();
    }
}

/// Installs the handlers of the signals, and returns the task that waits for one. None: tokio has no handlers.
fn stop_by_signal(stopper: Stopper) -> Option<JoinHandle<()>> {
    let mut terminate = signal(SignalKind::terminate()).ok()?;
    let mut interrupt = signal(SignalKind::interrupt()).ok()?;
    Some(tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stopper.stop();
    }))
}

/// The records that the app may have, in order.
pub(crate) struct Flow {
    pub(crate) shared: Arc<Shared>,
    pid: u32,
    items: UnboundedReceiver<Item>,
    /// The records that are handed out, from this index on.
    block: Option<(Arc<Block>, usize)>,
    /// Records that were set aside. They are handed out before those of the block.
    list: VecDeque<Delivery>,
    /// By scope, until no retry holds it.
    aside: HashMap<Scope, VecDeque<Delivery>>,
}

impl Flow {
    /// The next item; None: the consumer was stopped. Nothing is lost if the future is dropped.
    pub(crate) async fn item(&mut self) -> Result<Option<Item>, Error> {
        if self.pid != process::id() {
            return Err(Error::Forked);
        }
        if self.shared.is_stopped() {
            return self.shared.end();
        }
        let item = self.items.recv().await;
        if self.shared.is_stopped() {
            return self.shared.end();
        }
        Ok(item)
    }

    /// The next record that passes; None: the consumer was stopped.
    async fn next(&mut self, passes: fn(&Delivery) -> bool) -> Result<Option<Delivery>, Error> {
        loop {
            let shared = self.shared.clone();
            let ready = self.next_ready(&shared.engine(), passes);
            if ready.is_some() {
                return Ok(ready);
            }
            match self.item().await? {
                Some(Item::Records(block)) => self.block = Some((block, 0)),
                Some(Item::Resolved(scope)) => self.list = self.aside.remove(&scope).unwrap_or_default(),
                Some(Item::End) | None => return Ok(None),
            }
        }
    }

    /// The next record that passes of those that are here.
    fn next_ready(&mut self, engine: &Engine, passes: fn(&Delivery) -> bool) -> Option<Delivery> {
        while !self.shared.is_stopped() {
            let record = self.list.pop_front().or_else(|| self.next_of_block())?;
            if let Some(record) = self.unless_held(engine, record).filter(passes) {
                return Some(record);
            }
        }
        None
    }

    fn next_of_block(&mut self) -> Option<Delivery> {
        let (block, at) = self.block.as_mut()?;
        if *at == block.len() {
            self.block = None;
            return None;
        }
        *at += 1;
        Some(Delivery::new(block.clone(), *at - 1))
    }

    /// Sets a record aside that a retry holds.
    fn unless_held(&mut self, engine: &Engine, record: Delivery) -> Option<Delivery> {
        let Some(scope) = record.scope() else { return Some(record) };
        if let Some(aside) = self.aside.get_mut(&scope) {
            aside.push_back(record);
            return None;
        }
        if engine.is_held(scope) {
            self.aside.insert(scope, VecDeque::from([record]));
            return None;
        }
        Some(record)
    }
}

/// Calls the handler and settles the record by its result.
pub(crate) async fn handle<H, F, E>(handler: &H, record: Record)
where
    H: Fn(Record) -> F,
    F: Future<Output = Result<(), E>>,
    E: Display,
{
    let settled = record.clone();
    match catch_panic(async move { handler(record).await }).await {
        Ok(Ok(())) => settled.ack(),
        Ok(Err(error)) => settled.retry(&error.to_string()),
        Err(reason) => settled.retry(&reason),
    }
}

/// The error is the text of a panic.
pub(crate) async fn catch_panic<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let mut future = pin!(future);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
            (Some(text), _) => format!("panic: {text}"),
            (_, Some(text)) => format!("panic: {text}"),
            _ => "panic".into(),
        })),
    })
    .await
}
