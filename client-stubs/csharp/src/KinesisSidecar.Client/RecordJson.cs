// SPDX-License-Identifier: Apache-2.0
#if NET8_0_OR_GREATER
using System.Text.Json;

namespace KinesisSidecar.Client
{
    /// <summary>The data of records as JSON.</summary>
    public static class RecordJson
    {
        /// <summary>Parses the data as JSON.</summary>
        /// <param name="record">The record.</param>
        /// <param name="options">Null: the defaults.</param>
        /// <exception cref="JsonException">The data are not JSON, or JSON of another shape.</exception>
        public static T Json<T>(this Record record, JsonSerializerOptions options = null) =>
            JsonSerializer.Deserialize<T>(record.DataSegment, options);
    }
}
#endif
