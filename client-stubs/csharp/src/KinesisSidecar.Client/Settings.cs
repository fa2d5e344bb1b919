// SPDX-License-Identifier: Apache-2.0
using System;
using System.Globalization;
using System.Linq;
using System.Text;

namespace KinesisSidecar.Client
{
    /// <summary>A checked copy of the options of a consumer.</summary>
    internal sealed class Settings
    {
        private const string DefaultUrl = "http://127.0.0.1:8990";
        private const int MaxClientId = 64;
        private const int MaxLanes = 64;

        private readonly string _subscription;
        private readonly string _shards;
        private readonly string _share;
        private readonly string _salt;
        private readonly string _filter;
        private readonly Ordering? _ordering;
        private int? _lanes;

        internal Settings(string clientId, ConsumerOptions options)
        {
            if (string.IsNullOrEmpty(clientId) || clientId.Length > MaxClientId || !clientId.All(IsOfName))
            {
                throw new ArgumentException(
                    "client_id must be 1..64 of A-Z a-z 0-9 . _ -, got \"" + clientId + "\"", nameof(clientId));
            }
            ClientId = clientId;
            Address = new Address(options.Url ?? Variable("KINESIS_SIDECAR_URL") ?? DefaultUrl);
            TokenFile = options.TokenFile ?? Variable("KINESIS_SIDECAR_TOKEN_FILE");
            MaxInFlight = options.MaxInFlight;
            MaxInFlightBytes = options.MaxInFlightBytes;
            AckDeadlineMs = (long)options.AckDeadline.TotalMilliseconds;
            MaxProcessingMs = (long)options.MaxProcessing.TotalMilliseconds;
            AckIntervalMs = (long)options.AckInterval.TotalMilliseconds;
            OnEvent = options.OnEvent;
            _subscription = options.Subscription;
            _shards = options.Shards == null ? null : string.Join(",", options.Shards);
            _share = options.Share;
            _salt = options.Salt;
            _filter = options.Filter;
            _ordering = options.Ordering;
            _lanes = options.Lanes;
        }

        internal string ClientId { get; }

        internal Address Address { get; }

        /// <summary>Null: there is no token.</summary>
        internal string TokenFile { get; }

        internal int MaxInFlight { get; }

        internal long MaxInFlightBytes { get; }

        internal long AckDeadlineMs { get; }

        internal long MaxProcessingMs { get; }

        internal long AckIntervalMs { get; }

        /// <summary>May be null.</summary>
        internal Action<ConsumerEvent> OnEvent { get; }

        /// <summary>Known after <see cref="OrderFor"/>.</summary>
        internal Ordering Ordering { get; private set; }

        internal string SettleTarget => WithSubscription(new StringBuilder("/v1/records/settle"));

        internal string SessionTarget => WithSubscription(new StringBuilder("/v1/sessions/" + ClientId));

        /// <summary>Several handlers, and a share, want lanes, unless the app has chosen an ordering.</summary>
        internal void OrderFor(int concurrency)
        {
            Ordering = _ordering ?? (concurrency > 1 || _share != null ? Ordering.Key : Ordering.Shard);
            if (Ordering == Ordering.Key)
                _lanes = _lanes ?? MaxLanes;
        }

        internal string StreamTarget()
        {
            var target = new StringBuilder("/v1/records/stream?client_id=" + ClientId);
            With(target, "max_in_flight", NumberText(MaxInFlight));
            With(target, "max_in_flight_bytes", NumberText(MaxInFlightBytes));
            With(target, "ack_deadline_ms", NumberText(AckDeadlineMs));
            With(target, "ordering", Ordering.ToString().ToLowerInvariant());
            With(target, "lanes", _lanes.HasValue ? NumberText(_lanes.Value) : null);
            With(target, "shards", _shards);
            With(target, "share", _share);
            With(target, "salt", _salt);
            With(target, "filter", _filter);
            return WithSubscription(target);
        }

        private string WithSubscription(StringBuilder target) => With(target, "subscription", _subscription);

        private static string With(StringBuilder target, string name, string value)
        {
            if (value != null)
            {
                bool isFirst = target.ToString().IndexOf('?') < 0;
                target.Append(isFirst ? '?' : '&').Append(name).Append('=').Append(Uri.EscapeDataString(value));
            }
            return target.ToString();
        }

        private static string NumberText(long number) => number.ToString(CultureInfo.InvariantCulture);

        private static bool IsOfName(char c) =>
            (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || "._-".IndexOf(c) >= 0;

        private static string Variable(string name)
        {
            string value = Environment.GetEnvironmentVariable(name);
            return string.IsNullOrEmpty(value) ? null : value;
        }
    }
}
