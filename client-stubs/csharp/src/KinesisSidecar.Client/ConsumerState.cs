// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Linq;
using System.Runtime.ExceptionServices;
using System.Threading;
using System.Threading.Tasks;

namespace KinesisSidecar.Client
{
    /// <summary>
    /// All state of a consumer, under one lock: the records that were delivered, their outcomes, and what is to be
    /// sent. The stream thread brings records, the app takes and settles them, and the settle thread takes requests. A
    /// session begins a generation: settlements of an earlier one have no effect.
    /// </summary>
    internal sealed class ConsumerState : IRecordOwner
    {
        private readonly object _lock = new object();
        private readonly Settings _settings;
        private readonly Lanes _lanes = new Lanes();
        private readonly Outbox _outbox;
        private readonly CancellationTokenSource _stopping = new CancellationTokenSource();

        /// <summary>Batches with a record that has no outcome, or that may get further records.</summary>
        private readonly HashSet<DeliveredBatch> _batches = new HashSet<DeliveredBatch>();

        /// <summary>Requests that extend ack deadlines.</summary>
        private readonly List<SettleRequest> _extensions = new List<SettleRequest>();

        /// <summary>Callers that wait for a record.</summary>
        private readonly Queue<TaskCompletionSource<bool>> _waiters = new Queue<TaskCompletionSource<bool>>();

        /// <summary>The first record of the last batch of each shard in this session.</summary>
        private readonly Dictionary<string, Record> _heads = new Dictionary<string, Record>();

        /// <summary>
        /// Records of earlier sessions that the app has, or whose outcome the sidecar has not confirmed. If one is
        /// redelivered, the app does not get it again.
        /// </summary>
        private Dictionary<string, Record> _unconfirmed = new Dictionary<string, Record>();

        /// <summary>Null: no record was redelivered for a while.</summary>
        private EarlierRecords _earlier;

        /// <summary>Whether this session may have unconfirmed records of an ended lease epoch. Their redeliveries have
        /// the attempt 1.</summary>
        private bool _isLeaseRegained;

        /// <summary>The request that has no answer; null: none.</summary>
        private SettleRequest _unanswered;
        private DeliveredBatch _current;
        private long _generation;
        private long _barrierSeen;
        private int _maxInFlight;
        private long _maxInFlightBytes;
        private long _ackDeadlineMs;
        private long _extendedAtMs;
        private bool _isStopping;
        private bool _isClosing;
        private Exception _failure;
        private long _stale;
        private long _failed;

        internal ConsumerState(Settings settings)
        {
            _settings = settings;
            _outbox = new Outbox(settings.AckIntervalMs);
            _ackDeadlineMs = settings.AckDeadlineMs;
        }

        /// <summary>Is cancelled when the consumer stops.</summary>
        internal CancellationToken Stopping => _stopping.Token;

        internal long Stale
        {
            get
            {
                lock (_lock)
                    return _stale;
            }
        }

        internal long Failed
        {
            get
            {
                lock (_lock)
                    return _failed;
            }
        }

        /// <summary>How many records were collected to find the earlier deliveries of others.</summary>
        internal long Collected { get; private set; }

        internal bool IsClosing
        {
            get
            {
                lock (_lock)
                    return _isClosing;
            }
        }

        internal bool IsStopping
        {
            get
            {
                lock (_lock)
                    return _isStopping;
            }
        }

        /// <summary>Whether the consumer may have an open session.</summary>
        internal bool HasSession
        {
            get
            {
                lock (_lock)
                    return _generation > 0 && !(_failure is SessionTakenOverException);
            }
        }

        /* For the stream thread. */

        /// <summary>Takes what the stream brought: each item is a Record or a ConsumerEvent.</summary>
        internal void Apply(List<object> items)
        {
            lock (_lock)
            {
                foreach (var item in items)
                {
                    if (item is Record record)
                        Add(record);
                    else
                        Control((ConsumerEvent)item);
                }
                Wake();
            }
        }

        /// <summary>The connection has ended. The session accepts settlements until the next one begins.</summary>
        internal void Disconnected()
        {
            lock (_lock)
            {
                Drop(record => true);
                foreach (var batch in _batches)
                    batch.IsLost = true;
            }
        }

        private void Add(Record record)
        {
            if (_current == null || _current.Id != record.BatchId)
                NextBatch(record);
            _lanes.Assign(record, _settings.Ordering);
            foreach (var replaced in _lanes.Deliver(record))
                Close(replaced.Batch);
            if (EarlierOf(record) is Record earlier)
            {
                Adopt(earlier, record);
                return;
            }
            record.SinceMs = _current.SinceMs;
            Enter(record);
            if (record.Lane.Holds.Count > 0)
                ConfirmRetry(record);
            _lanes.Add(record);
        }

        /// <summary>Events may stand between the records of a batch: only a record of another batch ends it.</summary>
        private void NextBatch(Record first)
        {
            if (_current != null)
            {
                _current.IsComplete = true;
                RemoveIfOver(_current);
            }
            _current = new DeliveredBatch(first, _generation, Clock.NowMs);
            _batches.Add(_current);
            if (first.IsRedriven)
                return;
            _isLeaseRegained |= _heads.TryGetValue(first.ShardId, out var head) && head.Epoch != first.Epoch;
            _heads[first.ShardId] = first;
        }

        /// <summary>Puts the record into the current batch.</summary>
        private void Enter(Record record)
        {
            _earlier?.Add(record);
            if (_earlier != null && _earlier.IsOutgrown(_maxInFlight, _maxInFlightBytes))
                _earlier = null;
            record.Batch = _current;
            record.BarrierSeen = _barrierSeen;
            _current.Records.Add(record);
            _current.Open++;
        }

        /// <summary>Returns the earlier delivery whose outcome settles this one, or null: the app gets the
        /// record.</summary>
        private Record EarlierOf(Record redelivery)
        {
            if (_unconfirmed.Count > 0 && _unconfirmed.TryGetValue(redelivery.Identity, out var record))
            {
                _unconfirmed.Remove(record.Identity);
                return record;
            }
            if (redelivery.Attempt <= 1 && !_isLeaseRegained)
                return null;
            if (_earlier == null)
            {
                _earlier = new EarlierRecords(Unconfirmed());
                Collected += _earlier.Count;
            }
            record = _earlier.Find(redelivery.Identity);
            return record != null && IsUnconfirmed(record) ? record : null;
        }

        /// <summary>Returns true if the outcome of a record of this session settles its redelivery. A retry that was
        /// sent may have caused the redelivery.</summary>
        private bool IsUnconfirmed(Record record)
        {
            if (record.Outcome == Outcome.None)
                return IsWithTheApp(record);
            bool isUnanswered = record.SentIn == _unanswered?.Number && record.Outcome != Outcome.Retry;
            return isUnanswered || !record.IsSent;
        }

        /// <summary>Moves a record to the batch of its redelivery. An outcome that waits to be sent, and is not an
        /// acknowledgement, keeps its place and its hold. The app gets a record that it has given back.</summary>
        private void Adopt(Record record, Record redelivery)
        {
            bool isOfSession = record.Batch.Generation == _generation;
            bool isQueued = isOfSession && record.Outcome != Outcome.None && !record.IsSent;
            if (isOfSession && record.Outcome == Outcome.None)
                Close(record.Batch);
            if (isQueued && record.Outcome == Outcome.Ack)
                _outbox.Remove(record);
            record.AckId = redelivery.AckId;
            record.SentIn = 0;
            Enter(record);
            if (isQueued && record.Outcome != Outcome.Ack)
                Close(record.Batch);
            else if (record.Outcome != Outcome.None)
                Accept(record);
            else if (record.IsAwaited)
                _lanes.Add(record);
            record.IsTakenBack = false;
            record.IsAwaited = false;
        }

        private void ConfirmRetry(Record redelivery)
        {
            _lanes.Confirm(redelivery).ForEach(record => Close(record.Batch));
            ResolveHolds();
        }

        private void Control(ConsumerEvent control)
        {
            switch (control.Type)
            {
                case "session":
                    Begin(control);
                    break;
                case "barrier":
                    if (long.TryParse(control.Text("barrier"), out var barrier))
                    {
                        /* A repeated request repeats its barrier. */
                        _barrierSeen = Math.Max(_barrierSeen, barrier);
                        ResolveHolds();
                    }
                    break;
                case "lease_lost":
                    string shardId = control.Text("shard_id");
                    Drop(record => record.ShardId == shardId && !record.IsRedriven);
                    foreach (var batch in _batches)
                        batch.IsLost |= batch.Records.Exists(record => record.ShardId == shardId && !record.IsRedriven);
                    break;
            }
        }

        /// <summary>Begins a generation. Settlements of the earlier one are stale, and its records are
        /// redelivered.</summary>
        private void Begin(ConsumerEvent session)
        {
            _lanes.Remove(record => true);
            KeepUnconfirmed();
            _generation++;
            _current = null;
            _batches.Clear();
            _outbox.Clear();
            _extensions.Clear();
            _unanswered = null;
            _lanes.ForgetHolds();
            _maxInFlight = (int)session.Number("max_in_flight");
            _maxInFlightBytes = session.Number("max_in_flight_bytes");
            _ackDeadlineMs = session.Number("ack_deadline_ms");
            _extendedAtMs = Clock.NowMs;
            Monitor.PulseAll(_lock);
        }

        private void KeepUnconfirmed()
        {
            _unconfirmed = ByIdentity(_unconfirmed.Values.Where(record => !IsSettled(record)).Concat(Unconfirmed()));
            _heads.Clear();
            _earlier = null;
            _isLeaseRegained = false;
        }

        /// <summary>Records of this session that the app has, or whose outcome the sidecar has not confirmed. The last
        /// delivery of a record comes last.</summary>
        private IEnumerable<Record> Unconfirmed() => (_unanswered?.Records ?? Enumerable.Empty<Record>())
            .Concat(_outbox.Records())
            .Concat(_batches.SelectMany(batch => batch.Records).Where(IsWithTheApp));

        private static Dictionary<string, Record> ByIdentity(IEnumerable<Record> records)
        {
            var found = new Dictionary<string, Record>();
            foreach (var record in records)
                found[record.Identity] = record;
            return found;
        }

        /// <summary>True if the session delivered later records of the shard, and not this one. A redriven one has no
        /// order.</summary>
        private bool IsSettled(Record record) => record.Outcome != Outcome.None &&
            (record.IsRedriven || (_heads.TryGetValue(record.ShardId, out var head) && head.IsAfter(record)));

        private static bool IsWithTheApp(Record record) =>
            (record.IsBegun || record.IsAwaited) && record.Outcome == Outcome.None;

        private bool IsOfEndedEpoch(Record record) => !record.IsRedriven &&
            _heads.TryGetValue(record.ShardId, out var head) && head.Epoch != record.Batch.Epoch;

        /// <summary>Drops records that the app has not begun. They are redelivered.</summary>
        private void Drop(Predicate<Record> which) => _lanes.Remove(which).ForEach(record => Close(record.Batch));

        /// <summary>Notes that a record of the batch needs no outcome any more.</summary>
        private void Close(DeliveredBatch batch)
        {
            batch.Open--;
            RemoveIfOver(batch);
        }

        private void RemoveIfOver(DeliveredBatch batch)
        {
            if (batch.IsComplete && batch.Open == 0)
                _batches.Remove(batch);
        }

        private void ResolveHolds()
        {
            _lanes.Resolve(_barrierSeen).ForEach(record => Close(record.Batch));
            Wake();
        }

        /// <summary>Wakes one waiting caller if a lane may be ready. That caller wakes the next one, so as few run as
        /// keep up.
        /// </summary>
        private void Wake()
        {
            while (_lanes.MayBeReady && _waiters.Count > 0)
            {
                if (_waiters.Dequeue().TrySetResult(true))
                    return;
            }
        }

        /* For the app. */

        /// <summary>
        /// Acknowledges the previous record, unless it is null or has an outcome, and returns the next one, or null if
        /// there is none now. Exclusive: records of one lane are taken one after the other.
        /// </summary>
        internal Record Take(Record previous, bool exclusive)
        {
            lock (_lock)
            {
                if (previous != null)
                {
                    SetOutcome(previous, Outcome.Ack, 0, null);
                    if (exclusive)
                        _lanes.Release(previous.Lane);
                }
                var record = _isStopping ? null : _lanes.Take(exclusive);
                Wake();
                return record;
            }
        }

        /// <summary>Waits until there may be a record. Returns false if the consumer stops or the time is over; -1: no
        /// limit.
        /// </summary>
        internal Task<bool> WaitAsync(long milliseconds, CancellationToken cancellationToken)
        {
            lock (_lock)
            {
                if (_isStopping || _lanes.MayBeReady)
                    return Task.FromResult(!_isStopping);
                while (_waiters.Count > 0 && _waiters.Peek().Task.IsCompleted)
                    _waiters.Dequeue();
                var waiter = new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);
                _waiters.Enqueue(waiter);
                bool isLimited = milliseconds >= 0 || cancellationToken.CanBeCanceled;
                return isLimited ? WaitAsync(waiter, milliseconds, cancellationToken) : waiter.Task;
            }
        }

        private static async Task<bool> WaitAsync(
            TaskCompletionSource<bool> waiter, long milliseconds, CancellationToken cancellationToken)
        {
            using (cancellationToken.Register(() => waiter.TrySetCanceled(cancellationToken)))
            using (new Timer(state => waiter.TrySetResult(false), null, milliseconds, Timeout.Infinite))
                return await waiter.Task.ConfigureAwait(false);
        }

        /// <summary>Lets records without an outcome, of a loop that was left, be taken again. Those that will be
        /// redelivered wait for that.</summary>
        internal void PutBack(IEnumerable<Record> records)
        {
            lock (_lock)
            {
                foreach (var record in records)
                {
                    if (record.Outcome == Outcome.None)
                        PutBack(record);
                }
                _lanes.EndLoop();
                Wake();
            }
        }

        private void PutBack(Record record)
        {
            record.IsBegun = false;
            if (record.Batch.Generation != _generation || record.Batch.IsLost || record.IsTakenBack)
                record.IsAwaited = true;
            else
                _lanes.PutBack(record);
        }

        /// <inheritdoc/>
        public void Settle(Record record, Outcome outcome, long delayMs, string reason)
        {
            lock (_lock)
                SetOutcome(record, outcome, delayMs, reason);
        }

        /// <inheritdoc/>
        public void Extend(Record record, long durationMs)
        {
            lock (_lock)
            {
                if (record.Outcome != Outcome.None || IsStale(record))
                    return;
                ExtensionWithRoom().AddExtension(record, durationMs);
                Monitor.PulseAll(_lock);
            }
        }

        /// <inheritdoc/>
        public Task<bool> AckPersistedAsync(Record record)
        {
            lock (_lock)
            {
                SetOutcome(record, Outcome.Ack, 0, null);
                if (record.Outcome != Outcome.Ack || IsStale(record))
                    return Task.FromResult(false);
                /* The checkpoint covers the record after all earlier ones of its shard were settled. */
                _outbox.Hurry();
                Monitor.PulseAll(_lock);
                var ack = new PersistedAck(_settings, this, _generation, record.AckId);
                return Task.Factory.StartNew(
                    ack.Await, CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default);
            }
        }

        private void SetOutcome(Record record, Outcome outcome, long delayMs, string reason)
        {
            if (record.Outcome != Outcome.None)
                return;
            if (!record.IsBegun)
                _lanes.Remove(other => other == record);
            record.Outcome = outcome;
            record.DelayMs = delayMs;
            record.Reason = reason;
            if (!IsStale(record))
                Accept(record);
            else if (_isClosing || !IsKept(record))
                _stale++;
        }

        private bool IsStale(Record record) => _isClosing || record.Batch.Generation != _generation;

        private bool IsKept(Record record) =>
            _unconfirmed.TryGetValue(record.Identity, out var kept) && kept == record;

        /// <summary>Takes the outcome of a record of this session.</summary>
        private void Accept(Record record)
        {
            Close(record.Batch);
            if (record.Outcome == Outcome.Ack)
            {
                bool isFirst = _outbox.Add(record);
                if (isFirst || _outbox.IsHalfOf(_maxInFlight, _maxInFlightBytes))
                    Monitor.PulseAll(_lock);
                return;
            }
            _outbox.Add(record, record.Outcome == Outcome.Retry ? _lanes.Hold(record) : null);
            Monitor.PulseAll(_lock);
        }

        /* For the settle thread. */

        /// <summary>Waits for a request that is to be sent. Returns null after the last one of a consumer that
        /// closes.</summary>
        internal SettleRequest AwaitRequest()
        {
            lock (_lock)
            {
                while (!(_failure is SessionTakenOverException))
                {
                    long nowMs = Clock.NowMs;
                    if (_outbox.HasOthers)
                        return _unanswered = _outbox.TakeOthers(_generation);
                    long dueMs = _outbox.DueMs(nowMs);
                    if (dueMs == 0 || (dueMs < long.MaxValue && IsCrowded()))
                        return _unanswered = TakeAcks(nowMs);
                    if (_isClosing)
                        return null;
                    /* For a batch that arrives meanwhile a third of the deadline from now is early enough. */
                    long thirdMs = Math.Max(1, _ackDeadlineMs / 3);
                    long extendMs = _batches.Count == 0 ? thirdMs : Math.Max(0, _extendedAtMs + thirdMs - nowMs);
                    if (extendMs == 0)
                    {
                        ExtendAll(nowMs);
                        extendMs = thirdMs;
                    }
                    if (_extensions.Count > 0)
                        return TakeExtension();
                    Monitor.Wait(_lock, (int)Math.Min(dueMs, extendMs));
                }
                return null;
            }
        }

        /// <summary>Notes the answer to a request. Refused: the reasons of the settlements that failed, by
        /// ack_id.</summary>
        internal void Answered(SettleRequest request, Dictionary<string, string> refused)
        {
            lock (_lock)
            {
                _failed += refused.Count;
                Confirm(request, refused);
            }
        }

        /// <summary>Notes that the session of a request has ended, or that the request gets no answer any more. The
        /// next session frees the lanes of its retries.</summary>
        internal void Expired(SettleRequest request)
        {
            lock (_lock)
            {
                /* After a new session its records are among the unconfirmed ones. */
                if (request != _unanswered)
                    return;
                _stale += request.Records.Count;
                _unanswered = null;
            }
        }

        /// <summary>Waits before a request is repeated. Returns false if the session has ended meanwhile.</summary>
        internal bool AwaitRepeat(long generation, long milliseconds)
        {
            lock (_lock)
            {
                long untilMs = Clock.NowMs + milliseconds;
                for (long left; (left = untilMs - Clock.NowMs) > 0 && generation == _generation && !_isClosing;)
                    Monitor.Wait(_lock, (int)left);
                return generation == _generation;
            }
        }

        private bool IsCrowded() => _isClosing || _outbox.IsHalfOf(_maxInFlight, _maxInFlightBytes);

        /// <summary>Batches that were acknowledged whole are cheaper to send: the others wait for their
        /// interval.</summary>
        private SettleRequest TakeAcks(long nowMs)
        {
            var request = _outbox.TakeAcks(_generation, nowMs, _isClosing);
            return request.Count > 0 ? request : _outbox.TakeAcks(_generation, nowMs, true);
        }

        /// <summary>Extends the batches that the app has.</summary>
        private void ExtendAll(long nowMs)
        {
            _extendedAtMs = nowMs;
            _isLeaseRegained = _isLeaseRegained && Unconfirmed().Any(IsOfEndedEpoch);
            foreach (var batch in _batches)
            {
                if (batch.Open > 0)
                    ExtendBatch(batch, nowMs);
            }
        }

        /// <summary>Extends a batch by one item, unless that extended a record which the app has for too
        /// long.</summary>
        private void ExtendBatch(DeliveredBatch batch, long nowMs)
        {
            var open = batch.OpenRecords();
            var due = open.FindAll(record => nowMs - record.SinceMs < _settings.MaxProcessingMs);
            if (due.Count == open.Count)
                ExtensionWithRoom().AddExtension(batch, _ackDeadlineMs);
            else
                due.ForEach(record => ExtensionWithRoom().AddExtension(record, _ackDeadlineMs));
        }

        private SettleRequest ExtensionWithRoom()
        {
            int last = _extensions.Count - 1;
            if (last >= 0 && !_extensions[last].IsFull)
                return _extensions[last];
            var request = new SettleRequest(_generation, 0);
            _extensions.Add(request);
            return request;
        }

        private SettleRequest TakeExtension()
        {
            var request = _extensions[0];
            _extensions.RemoveAt(0);
            return request;
        }

        private void Confirm(SettleRequest request, Dictionary<string, string> refused)
        {
            if (request != _unanswered)
                return;
            _unanswered = null;
            foreach (var hold in request.Holds)
            {
                /* The sidecar was restarted, and may have accepted an earlier copy: the next session frees the lane. */
                if (refused.TryGetValue(hold.AckId, out string reason) && reason == "UNKNOWN")
                    continue;
                hold.IsAccepted = reason == null;
            }
            ResolveHolds();
        }

        /* The end. */

        /// <summary>Hands out no further records.</summary>
        internal void Stop()
        {
            lock (_lock)
            {
                if (_isStopping)
                    return;
                _isStopping = true;
                while (_waiters.Count > 0)
                    _waiters.Dequeue().TrySetResult(false);
            }
            /* In a task: the callbacks of the app must not run in the threads of the consumer. */
            Task.Run(() => _stopping.Cancel());
        }

        /// <summary>Ends the consumer with a failure. The first one counts.</summary>
        internal void Fail(Exception failure)
        {
            lock (_lock)
            {
                _failure = _failure ?? failure;
                Monitor.PulseAll(_lock);
            }
            Stop();
        }

        /// <summary>Sends what waits, and takes no further settlements.</summary>
        internal void Close()
        {
            Stop();
            lock (_lock)
            {
                _isClosing = true;
                Monitor.PulseAll(_lock);
            }
        }

        /// <summary>Throws what ended the consumer, if anything but a stop did.</summary>
        internal void Check()
        {
            Exception failure;
            lock (_lock)
                failure = _failure;
            if (failure != null)
                ExceptionDispatchInfo.Capture(failure).Throw();
        }
    }
}
