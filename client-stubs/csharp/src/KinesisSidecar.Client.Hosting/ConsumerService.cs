// SPDX-License-Identifier: Apache-2.0
using System.Threading;
using System.Threading.Tasks;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace KinesisSidecar.Client.Hosting
{
    /// <summary>Runs a consumer in the host.</summary>
    internal sealed class ConsumerService<THandler> : BackgroundService
        where THandler : class, IRecordHandler
    {
        private readonly string _clientId;
        private readonly KinesisSidecarOptions _options;
        private readonly IServiceScopeFactory _scopes;
        private readonly ILogger<Consumer> _log;

        public ConsumerService(
            string clientId, KinesisSidecarOptions options, IServiceScopeFactory scopes, ILogger<Consumer> log)
        {
            _clientId = clientId;
            _options = options;
            _scopes = scopes;
            _log = log;
        }

        protected override async Task ExecuteAsync(CancellationToken stoppingToken)
        {
            var consumer = MakeConsumer();
            try
            {
                await consumer.RunAsync(HandleAsync, _options.Concurrency, stoppingToken).ConfigureAwait(false);
            }
            finally
            {
                await consumer.CloseAsync().ConfigureAwait(false);
            }
        }

        private IConsumer MakeConsumer()
        {
            if (_options.MakeConsumer != null)
                return _options.MakeConsumer();
            _options.Consumer.OnEvent = _options.Consumer.OnEvent ?? Log;
            return new Consumer(_clientId, _options.Consumer);
        }

        private async Task HandleAsync(Record record, CancellationToken cancellationToken)
        {
            var scope = _scopes.CreateAsyncScope();
            try
            {
                var handler = scope.ServiceProvider.GetRequiredService<THandler>();
                await handler.HandleAsync(record, cancellationToken).ConfigureAwait(false);
            }
            finally
            {
                await scope.DisposeAsync().ConfigureAwait(false);
            }
        }

        private void Log(ConsumerEvent control)
        {
            bool isTrouble = control.Type == "disconnected" || control.Type == "settle_failed";
            _log.Log(isTrouble ? LogLevel.Warning : LogLevel.Debug, "consumer {ClientId}: {Event}", _clientId, control);
        }
    }
}
