// SPDX-License-Identifier: Apache-2.0
using System;
using KinesisSidecar.Client.Hosting;
using Microsoft.Extensions.DependencyInjection.Extensions;
using Microsoft.Extensions.Hosting;

namespace Microsoft.Extensions.DependencyInjection
{
    /// <summary>Adds hosted consumers.</summary>
    public static class KinesisSidecarServices
    {
        /// <summary>
        /// Adds a consumer that runs from the start of the host to its stop. The host stops if the consumer fails. The
        /// service lifetime of the handler is scoped, unless it was added before.
        /// </summary>
        /// <typeparam name="THandler">Handles the records.</typeparam>
        /// <param name="services">The services of the host.</param>
        /// <param name="clientId">Names the consumer to the sidecar.</param>
        /// <param name="configure">Sets the options. May be null.</param>
        /// <returns>The services.</returns>
        public static IServiceCollection AddKinesisSidecar<THandler>(
            this IServiceCollection services, string clientId, Action<KinesisSidecarOptions> configure = null)
            where THandler : class, IRecordHandler
        {
            var options = new KinesisSidecarOptions();
            configure?.Invoke(options);
            services.TryAddScoped<THandler>();
            return services.AddSingleton<IHostedService>(
                provider => ActivatorUtilities.CreateInstance<ConsumerService<THandler>>(provider, clientId, options));
        }
    }
}
