// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;

namespace KinesisSidecar.Client
{
    /// <summary>
    /// The consumer that reads from a sidecar. It opens nothing by itself: the first record that is asked for opens the
    /// stream.
    /// </summary>
    /// <example>
    /// <code>
    /// using (var consumer = new Consumer("orders"))
    ///     await consumer.RunAsync((record, token) => orders.SaveAsync(record.Data, token), 16, stoppingToken);
    /// </code>
    /// </example>
    public sealed class Consumer : IConsumer, ILoop
    {
        private const long NoLimit = -1;

        private readonly Settings _settings;
        private readonly ConsumerState _state;
        private readonly StreamThread _stream;
        private readonly SettleThread _settle;

        /// <summary>Guards the members below, up to the next comment.</summary>
        private readonly object _lock = new object();
        private bool _isOpen;
        private Task _streamEnded;
        private Task _settleEnded;
        private TaskCompletionSource<bool> _runEnded;
        private Task _closed;

        /* The caller of NextAsync or NextBatchAsync uses these. */
        private Record _previous;
        private Batch _previousBatch;
        private List<Record> _batch = new List<Record>();

        /// <summary>Makes a consumer.</summary>
        /// <param name="clientId">1 to 64 of A-Z a-z 0-9 . _ -; names the consumer to the sidecar. Two processes need
        /// two names.</param>
        /// <param name="options">Null: the defaults.</param>
        /// <exception cref="ArgumentException">The client id or the address is malformed.</exception>
        public Consumer(string clientId, ConsumerOptions options = null)
        {
            _settings = new Settings(clientId, options ?? new ConsumerOptions());
            _state = new ConsumerState(_settings);
            _stream = new StreamThread(_settings, _state);
            _settle = new SettleThread(_settings, _state);
        }

        /// <inheritdoc/>
        public long Stale => _state.Stale;

        /// <inheritdoc/>
        public long Failed => _state.Failed;

        /// <inheritdoc/>
        public Task RunAsync(
            Func<Record, CancellationToken, Task> handler,
            int concurrency = 1,
            CancellationToken cancellationToken = default)
        {
            if (handler == null)
                throw new ArgumentNullException(nameof(handler));
            if (concurrency < 1)
                throw OutOfRange(nameof(concurrency), concurrency);
            lock (_lock)
            {
                if (_runEnded != null)
                    throw new InvalidOperationException("a consumer has one run; make another consumer");
                Open(concurrency);
                _runEnded = new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);
            }
            return RunToTheEndAsync(handler, concurrency, cancellationToken);
        }

        /// <inheritdoc/>
        public Task<Record> NextAsync(CancellationToken cancellationToken = default)
        {
            OpenForIteration();
            _previous = _state.Take(_previous, false);
            return _previous != null ? Task.FromResult(_previous) : AwaitNextAsync(cancellationToken);
        }

        /// <inheritdoc/>
        public async Task<Batch> NextBatchAsync(
            int maxRecords = 500,
            TimeSpan? maxWait = null,
            CancellationToken cancellationToken = default)
        {
            if (maxRecords < 1)
                throw OutOfRange(nameof(maxRecords), maxRecords);
            OpenForIteration();
            _previousBatch?.Ack();
            _previousBatch = null;
            long waitMs = (long)(maxWait ?? TimeSpan.FromSeconds(1)).TotalMilliseconds;
            long untilMs = Clock.NowMs + waitMs;
            while (_batch.Count < maxRecords)
            {
                var record = _state.Take(null, false);
                if (record != null)
                {
                    untilMs = _batch.Count == 0 ? Clock.NowMs + waitMs : untilMs;
                    _batch.Add(record);
                    continue;
                }
                long leftMs = _batch.Count == 0 ? NoLimit : Math.Max(0, untilMs - Clock.NowMs);
                if (!await _state.WaitAsync(leftMs, cancellationToken).ConfigureAwait(false))
                    break;
            }
            _state.Check();
            if (_state.IsStopping)
                return null;
            _previousBatch = new Batch(_batch);
            _batch = new List<Record>();
            return _previousBatch;
        }

        /// <inheritdoc/>
        public void Stop() => _state.Stop();

        /// <inheritdoc/>
        public async Task CloseAsync()
        {
            _state.Stop();
            Task runEnded;
            lock (_lock)
                runEnded = _runEnded?.Task;
            if (runEnded != null)
                await runEnded.ConfigureAwait(false);
            else
                await ShutAsync().ConfigureAwait(false);
        }

        /// <summary>Does what <see cref="CloseAsync"/> does, and waits for it.</summary>
        public void Dispose() => CloseAsync().GetAwaiter().GetResult();

        private static ArgumentOutOfRangeException OutOfRange(string name, int number) =>
            new ArgumentOutOfRangeException(name, name + " must be at least 1, got " + number);

        private void OpenForIteration()
        {
            lock (_lock)
            {
                if (!_isOpen)
                    Open(1);
            }
        }

        private void Open(int concurrency)
        {
            if (_closed != null)
                throw new ObjectDisposedException(nameof(Consumer));
            _isOpen = true;
            _settings.OrderFor(concurrency);
            _streamEnded = Start(_stream.Run, "stream");
            _settleEnded = Start(_settle.Run, "settle");
        }

        /// <summary>Starts a thread. The task completes when the thread ends.</summary>
        private Task Start(Action work, string name)
        {
            var ended = new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);
            var thread = new Thread(() =>
            {
                work();
                ended.SetResult(true);
            });
            thread.Name = "kinesis-sidecar-" + _settings.ClientId + "-" + name;
            thread.IsBackground = true;
            thread.Start();
            return ended.Task;
        }

        private async Task RunToTheEndAsync(
            Func<Record, CancellationToken, Task> handler, int concurrency, CancellationToken cancellationToken)
        {
            using (cancellationToken.Register(_state.Stop))
            {
                var workers = new Task[concurrency];
                for (int i = 0; i < concurrency; i++)
                    workers[i] = Task.Run(() => WorkAsync(handler));
                await Task.WhenAll(workers).ConfigureAwait(false);
            }
            await ShutAsync().ConfigureAwait(false);
            _runEnded.SetResult(true);
            _state.Check();
        }

        /// <summary>Handles records until the consumer stops.</summary>
        private async Task WorkAsync(Func<Record, CancellationToken, Task> handler)
        {
            var stopping = _state.Stopping;
            Record record = null;
            while (true)
            {
                record = _state.Take(record, true);
                if (record == null)
                {
                    if (!await _state.WaitAsync(NoLimit, CancellationToken.None).ConfigureAwait(false))
                        return;
                    continue;
                }
                try
                {
                    var handling = handler(record, stopping);
                    if (handling.Status != TaskStatus.RanToCompletion)
                        await handling.ConfigureAwait(false);
                }
                catch (OperationCanceledException) when (stopping.IsCancellationRequested)
                {
                    return;
                }
                catch (Exception failure)
                {
                    record.Retry(null, failure.GetType().Name + ": " + failure.Message);
                }
            }
        }

        void ILoop.Begin()
        {
            if (_previous != null)
                _state.PutBack(new[] { _previous });
            if (_previousBatch != null)
                _state.PutBack(_previousBatch);
            _previous = null;
            _previousBatch = null;
        }

        private async Task<Record> AwaitNextAsync(CancellationToken cancellationToken)
        {
            while (await _state.WaitAsync(NoLimit, cancellationToken).ConfigureAwait(false))
            {
                _previous = _state.Take(null, false);
                if (_previous != null)
                    return _previous;
            }
            _state.Check();
            return null;
        }

        private Task ShutAsync()
        {
            lock (_lock)
                return _closed ?? (_closed = EndAsync());
        }

        private async Task EndAsync()
        {
            _state.Close();
            if (!_isOpen)
                return;
            await _settleEnded.ConfigureAwait(false);
            _stream.Close();
            await _streamEnded.ConfigureAwait(false);
        }
    }
}
